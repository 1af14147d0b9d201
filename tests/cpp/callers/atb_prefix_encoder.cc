// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A caller as the document "PrefixEncoder" describes it: device memory, stream, context,
// aclTensors, workspace size, run. Nothing in RunPrefixEncoder knows of mindspore_relay; only the
// include does. Built and run by tests/test_installed_c.py. Prints "ok", or the first check that
// failed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mindspore_relay/compat/atb.hpp"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      std::printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
                  MsRelayLastError());                                           \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

namespace {

constexpr int64_t kHeadNum = 2;
constexpr int64_t kHeadSize = 16;
constexpr int64_t kNumBlocks = 4;
constexpr int64_t kBlockSize = 128;
constexpr int64_t kMaxBlocks = 2;
const std::vector<int32_t> kSeqLen = {3, 2};
const std::vector<int32_t> kKvSeqLen = {130, 2};
const std::vector<int32_t> kBlockTables = {3, 1, 0, -1};
constexpr int64_t kNumTokens = 5;
const std::vector<float> kSlopes = {-0.25f, -0.5f};

// Exact for the small whole numbers that are used here.
uint16_t ToHalf(float x) {
  if (x == 0.0f) return 0;
  int exponent;
  const float fraction = std::frexp(std::fabs(x), &exponent);  // in [0.5, 1)
  const uint16_t sign = x < 0.0f ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) |
                               (static_cast<int>(fraction * 2048.0f) - 1024));
}

float ToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(half & 1023), -24)
                              : std::ldexp(static_cast<float>((half & 1023) | 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
void *ToDevice(const std::vector<T> &host) {
  const size_t num_bytes = host.size() * sizeof(T);
  void *device = nullptr;
  CHECK(aclrtMalloc(&device, num_bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  CHECK(aclrtMemcpy(device, num_bytes, host.data(), num_bytes, ACL_MEMCPY_HOST_TO_DEVICE) ==
        ACL_SUCCESS);
  return device;
}

aclTensor *CreateTensor(const std::vector<int64_t> &dims, aclDataType dtype, void *data) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return aclCreateTensor(dims.data(), dims.size(), dtype, strides.data(), 0, ACL_FORMAT_ND,
                         dims.data(), dims.size(), data);
}

// mask[r][c] = r - c on and below the diagonal, +inf above.
std::vector<uint16_t> AlibiMask() {
  std::vector<uint16_t> mask(256 * 256, 0x7c00);
  for (int row = 0; row < 256; ++row) {
    for (int column = 0; column <= row; ++column) {
      mask[row * 256 + column] = ToHalf(static_cast<float>(row - column));
    }
  }
  return mask;
}

// Value of logical token t of a request, in every element.
float ValueOf(int request, int token) { return static_cast<float>(token % 7 + request); }

std::vector<uint16_t> MakeCache() {
  std::vector<uint16_t> cache(kNumBlocks * kBlockSize * kHeadNum * kHeadSize, 0x7e00);  // NaN
  for (int request = 0; request < 2; ++request) {
    for (int token = 0; token < kKvSeqLen[request]; ++token) {
      const int32_t block = kBlockTables[request * kMaxBlocks + token / kBlockSize];
      uint16_t *row = &cache[(block * kBlockSize + token % kBlockSize) * kHeadNum * kHeadSize];
      for (int i = 0; i < kHeadNum * kHeadSize; ++i) row[i] = ToHalf(ValueOf(request, token));
    }
  }
  return cache;
}

// Queries are 0: the weight of key j at position p is exp(slope * (p - j)).
void CheckOutput(const std::vector<uint16_t> &out) {
  int token = 0;
  for (int request = 0; request < 2; ++request) {
    for (int row = 0; row < kSeqLen[request]; ++row, ++token) {
      const int position = kKvSeqLen[request] - kSeqLen[request] + row;
      for (int head = 0; head < kHeadNum; ++head) {
        double sum = 0.0, weight_sum = 0.0;
        for (int key = 0; key <= position; ++key) {
          const double weight = std::exp(double{kSlopes[head]} * (position - key));
          sum += weight * ValueOf(request, key);
          weight_sum += weight;
        }
        const double expected = sum / weight_sum;
        for (int i = 0; i < kHeadSize; ++i) {
          const float actual = ToFloat(out[(token * kHeadNum + head) * kHeadSize + i]);
          CHECK(std::fabs(actual - expected) <= std::fabs(expected) / 1024.0);  // fp16: 2^-11 twice
        }
      }
    }
  }
}

void RunPrefixEncoder(int maskType, atb::Status expected_status) {
  CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
  atb::Context *context = nullptr;
  CHECK(atb::CreateContext(&context) == atb::NO_ERROR);
  CHECK(context->SetExecuteStream(stream) == atb::NO_ERROR);

  void *query_data = ToDevice(std::vector<uint16_t>(kNumTokens * kHeadNum * kHeadSize, 0));
  void *cache_data = ToDevice(MakeCache());
  void *tables_data = ToDevice(kBlockTables);
  void *mask_data = ToDevice(AlibiMask());
  void *slopes_data = ToDevice(kSlopes);
  std::vector<uint16_t> out_host(kNumTokens * kHeadNum * kHeadSize, 0x7e00);
  void *out_data = ToDevice(out_host);
  std::vector<int32_t> seq_len = kSeqLen, kv_seq_len = kKvSeqLen;  // host tensors

  aclTensor *query = CreateTensor({kNumTokens, kHeadNum, kHeadSize}, ACL_FLOAT16, query_data);
  aclTensor *key =
      CreateTensor({kNumBlocks, kBlockSize, kHeadNum, kHeadSize}, ACL_FLOAT16, cache_data);
  aclTensor *value =
      CreateTensor({kNumBlocks, kBlockSize, kHeadNum, kHeadSize}, ACL_FLOAT16, cache_data);
  aclTensor *blockTables = CreateTensor({2, kMaxBlocks}, ACL_INT32, tables_data);
  aclTensor *mask = CreateTensor({256, 256}, ACL_FLOAT16, mask_data);
  aclTensor *seqLen = CreateTensor({2}, ACL_INT32, seq_len.data());
  aclTensor *kvSeqLen = CreateTensor({2}, ACL_INT32, kv_seq_len.data());
  aclTensor *slopes = CreateTensor({kHeadNum}, ACL_FLOAT, slopes_data);
  aclTensor *attnOut = CreateTensor({kNumTokens, kHeadNum, kHeadSize}, ACL_FLOAT16, out_data);

  uint64_t workspaceSize = 0;
  atb::Operation *op = nullptr;
  atb::Status status = AtbSelfAttentionPrefixEncoderGetWorkspaceSize(
      query, key, value, blockTables, mask, seqLen, kvSeqLen, slopes, maskType, kHeadNum, kHeadNum,
      0.25f, attnOut, &workspaceSize, &op, context);
  CHECK(status == expected_status);
  if (status == atb::NO_ERROR) {
    void *workspace = nullptr;
    if (workspaceSize > 0) {
      CHECK(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    }
    CHECK(AtbSelfAttentionPrefixEncoder(workspace, workspaceSize, op, context) == atb::NO_ERROR);
    CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    const size_t out_bytes = out_host.size() * sizeof(uint16_t);
    CHECK(aclrtMemcpy(out_host.data(), out_bytes, out_data, out_bytes, ACL_MEMCPY_DEVICE_TO_HOST) ==
          ACL_SUCCESS);
    CheckOutput(out_host);
    if (workspace != nullptr) CHECK(aclrtFree(workspace) == ACL_SUCCESS);
    CHECK(atb::DestroyOperation(op) == atb::NO_ERROR);
  } else {
    CHECK(op == nullptr && workspaceSize == 0);
  }

  for (aclTensor *tensor :
       {query, key, value, blockTables, mask, seqLen, kvSeqLen, slopes, attnOut}) {
    CHECK(aclDestroyTensor(tensor) == ACL_SUCCESS);
  }
  for (void *data : {query_data, cache_data, tables_data, mask_data, slopes_data, out_data}) {
    CHECK(aclrtFree(data) == ACL_SUCCESS);
  }
  CHECK(atb::DestroyContext(context) == atb::NO_ERROR);
  CHECK(aclrtDestroyStream(stream) == ACL_SUCCESS);
  CHECK(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS);
}

// RelayAttentionParam, defaults as in its document, and the phase 1 that takes it.
void RunRelayAttention() {
  atb::infer::RelayAttentionParam param;
  CHECK(param.headNum == 0 && param.qkScale == 1.0f && param.kvHeadNum == 0);
  CHECK(param.maskType == atb::infer::RelayAttentionParam::MASK_TYPE_UNDEFINED);
  CHECK(atb::infer::RelayAttentionParam::MASK_TYPE_NORM == 1);
  param.headNum = 1;

  std::vector<float> query(8, 0.0f), own(8, 4.0f), shared(8, 2.0f), out(8);
  std::vector<int32_t> seq_len = {1}, kv_seq_len = {2}, share_map = {0}, share_len = {1};
  aclTensor *rows[] = {
      CreateTensor({1, 8}, ACL_FLOAT, query.data()), CreateTensor({1, 8}, ACL_FLOAT, own.data()),
      CreateTensor({1, 8}, ACL_FLOAT, shared.data()), CreateTensor({1, 8}, ACL_FLOAT, out.data())};
  aclTensor *lengths[] = {CreateTensor({1}, ACL_INT32, seq_len.data()),
                          CreateTensor({1}, ACL_INT32, kv_seq_len.data()),
                          CreateTensor({1}, ACL_INT32, share_map.data()),
                          CreateTensor({1}, ACL_INT32, share_len.data())};
  atb::Context *context = nullptr;
  CHECK(atb::CreateContext(&context) == atb::NO_ERROR);
  atb::Operation *op = nullptr;
  uint64_t workspace_size = 0;
  const auto plan = [&](const std::vector<const aclTensor *> &key) {
    return mindspore_relay::compat::RelayAttentionGetWorkspaceSize(
        param, rows[0], key, {rows[1]}, {rows[2]}, {rows[2]}, nullptr, lengths[0], lengths[1],
        lengths[2], lengths[3], rows[3], &workspace_size, &op, context);
  };
  CHECK(plan({nullptr}) == atb::ERROR_INVALID_PARAM && op == nullptr);
  CHECK(plan({rows[1]}) == atb::NO_ERROR);
  atb::Operation *first = op;
  CHECK(plan({rows[1]}) == atb::NO_ERROR && op == first);  // the same operation, planned anew
  void *workspace = nullptr;
  CHECK(aclrtMalloc(&workspace, workspace_size + 1, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  CHECK(mindspore_relay::compat::RelayAttention(workspace, workspace_size, op, context) ==
        atb::NO_ERROR);
  for (float element : out) CHECK(std::fabs(element - 3.0f) <= 1e-6f);
  CHECK(mindspore_relay::compat::RelayAttention(workspace, workspace_size, nullptr, context) ==
        atb::ERROR_INVALID_OPERATION_ADDR);
  CHECK(AtbSelfAttentionPrefixEncoder(workspace, workspace_size, op, context) ==
        atb::ERROR_INVALID_PARAM);  // it is no plan of that operator
  CHECK(AtbSelfAttentionPrefixEncoder(workspace, workspace_size, op, nullptr) ==
        atb::ERROR_INVALID_CONTEXT_ADDR);
  aclrtFree(workspace);
  atb::DestroyOperation(op);
  atb::DestroyContext(context);
  for (aclTensor *tensor : rows) aclDestroyTensor(tensor);
  for (aclTensor *tensor : lengths) aclDestroyTensor(tensor);
}

}  // namespace

int main() {
  RunPrefixEncoder(/*maskType=*/3, atb::NO_ERROR);
  // The number that another public header has for the same mask: an error, and not another bias.
  RunPrefixEncoder(/*maskType=*/4, atb::ERROR_INVALID_PARAM);
  RunRelayAttention();
  std::printf("ok\n");
  return 0;
}
