// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// libFuzzer target: calls of the C interface with arguments of which most break a rule. Every call
// must answer with a status and, after a failure, a text; what is planned must run, with nothing
// for AddressSanitizer and UndefinedBehaviorSanitizer to find. Run by scripts/fuzz.sh.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "fuzz_calls.h"

namespace {

// While a plan is made, an allocation above kMaxAllocationBytes fails, as it would on a machine
// with less memory than a caller claims to have, and so does the one that counts allocations_left
// down to 0, when that is not negative.
constexpr size_t kMaxAllocationBytes = size_t{4} << 20;
std::atomic<bool> is_memory_short{false};
std::atomic<int64_t> allocations_left{-1};

}  // namespace

void *operator new(size_t bytes) {
  const bool fails = is_memory_short && (bytes > kMaxAllocationBytes ||
                                         (allocations_left >= 0 && allocations_left-- == 0));
  void *const block = fails ? nullptr : std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return std::malloc(bytes); }
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, size_t) noexcept { std::free(block); }

namespace mindspore_relay::testing {

void MakeMemoryShort(int64_t failing) {
  allocations_left = failing;
  is_memory_short = true;
}

void MakeMemoryPlenty() { is_memory_short = false; }

void CheckStatus(MsRelayStatus status, bool may_lack_memory) {
  CHECK(status >= MS_RELAY_OK && status < MS_RELAY_INTERNAL);
  if (status == MS_RELAY_OK) return;
  const size_t length = std::strlen(MsRelayLastError());
  CHECK(length > 0 && length < 1024);
  CHECK(status != MS_RELAY_OUT_OF_MEMORY || may_lack_memory ||
        std::strstr(MsRelayLastError(), "out of memory") != nullptr);
}

namespace {

void FuzzReshapeAndCache(Reader *reader, Handles *handles) {
  Arguments arguments(reader);
  const int32_t kDTypes[] = {MS_RELAY_FLOAT32, MS_RELAY_FLOAT16, MS_RELAY_BFLOAT16};
  const int64_t heads = 1 + reader->Below(3), size = reader->Pick<int64_t>({8, 1, 3, 33, 515, 0});
  const int64_t num_tokens = reader->Below(6), num_blocks = reader->Below(4);
  const int64_t block_size = reader->Pick<int64_t>({4, 1, 7});
  int sides[4];
  for (int side = 0; side < 2; ++side) {
    const int32_t dtype = kDTypes[reader->Below(3)], cache_dtype = kDTypes[reader->Below(3)];
    const bool is_flat = reader->OneIn(2);
    sides[side] = arguments.Add(side == 0 ? "key" : "value", dtype,
                                is_flat ? std::vector<int64_t>{num_tokens, heads * size}
                                        : std::vector<int64_t>{num_tokens, heads, size});
    sides[2 + side] =
        reader->OneIn(2)
            ? arguments.AddOutput("cache", cache_dtype, {num_blocks, block_size, heads * size})
            : arguments.AddOutput("cache", cache_dtype, {num_blocks, block_size, heads, size});
  }
  std::vector<int32_t> slots;
  for (int64_t i = 0; i < num_tokens; ++i) {
    slots.push_back(static_cast<int32_t>(reader->Below(num_blocks * block_size + 1)) - 1);
  }
  const int slot_mapping = arguments.AddIntegers("slot_mapping", {num_tokens}, slots);
  for (int64_t i = reader->Below(4); i > 0; --i) arguments.SpoilTensor();
  MsRelayTensor *placed[5];
  const int indices[5] = {sides[0], sides[1], sides[2], sides[3], slot_mapping};
  for (int i = 0; i < 5; ++i) placed[i] = arguments.Place(indices[i]);
  if (!arguments.IsSmall()) return;
  CheckStatus(MsRelayReshapeAndCache(placed[0], placed[1], placed[2], placed[3], placed[4],
                                     handles->context),
              false);
}

void FuzzMerge(Reader *reader, Handles *handles) {
  Arguments arguments(reader);
  const int32_t dtype = reader->Pick<int32_t>(
      {MS_RELAY_FLOAT32, MS_RELAY_FLOAT16, MS_RELAY_BFLOAT16, MS_RELAY_INT32});
  const int64_t rows = reader->Below(5), heads = 1 + reader->Below(3);
  const int64_t size = reader->Pick<int64_t>({8, 1, 3, 33, 515, 0});
  const std::vector<int64_t> shape = reader->OneIn(2) ? std::vector<int64_t>{rows, heads * size}
                                                      : std::vector<int64_t>{rows, heads, size};
  int indices[6];
  for (int i = 0; i < 6; ++i) {
    const bool is_lse = i % 2 == 1;
    const std::vector<int64_t> &wanted = is_lse ? std::vector<int64_t>{rows, heads} : shape;
    indices[i] = i < 4 ? arguments.Add("state", is_lse ? MS_RELAY_FLOAT32 : dtype, wanted)
                       : arguments.AddOutput("out", is_lse ? MS_RELAY_FLOAT32 : dtype, wanted);
  }
  for (int64_t i = reader->Below(4); i > 0; --i) arguments.SpoilTensor();
  MsRelayTensor *placed[6];
  for (int i = 0; i < 6; ++i) placed[i] = arguments.Place(indices[i]);
  if (reader->OneIn(4)) placed[4] = placed[0];
  if (reader->OneIn(4)) placed[5] = nullptr;
  if (!arguments.IsSmall()) return;
  CheckStatus(MsRelayMergeAttentionStates(placed[0], placed[1], placed[2], placed[3], placed[4],
                                          placed[5], handles->context),
              false);
}

// A prefix as rows or blocks, into as many bytes as the library says, or nearly.
void FuzzPackShare(Reader *reader, Handles *handles) {
  Arguments arguments(reader);
  const int32_t dtype = reader->Pick<int32_t>(
      {MS_RELAY_BFLOAT16, MS_RELAY_FLOAT16, MS_RELAY_FLOAT32, MS_RELAY_INT32});
  const int64_t heads = 1 + reader->Below(3), num_rows = reader->Below(150);
  const int64_t sizes[2] = {reader->Pick<int64_t>({8, 40, 64, 72, 576}),
                            reader->Pick<int64_t>({8, 24, 64, 136, 576})};
  const bool is_paged = reader->OneIn(2), is_flat = reader->OneIn(2);
  const int64_t block_size = reader->Pick<int64_t>({16, 1, 7});
  const int64_t num_blocks = (num_rows + block_size - 1) / block_size;
  std::vector<int64_t> shape = {num_rows};
  if (is_paged) shape = {num_blocks, block_size};
  int indices[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<int64_t> whole = shape;
    if (!is_flat) whole.push_back(heads);
    whole.push_back(is_flat ? heads * sizes[side] : sizes[side]);
    indices[side] = arguments.Add(side == 0 ? "key_share" : "value_share", dtype, whole);
  }
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < num_blocks; ++i) {
    blocks.push_back(static_cast<int32_t>(reader->Below(num_blocks)));
  }
  const int table = is_paged ? arguments.AddIntegers("table", {num_blocks}, blocks) : -1;
  int32_t kv_head_num = static_cast<int32_t>(heads);
  int64_t kv_share_len = num_rows;
  if (reader->OneIn(8)) kv_head_num = static_cast<int32_t>(reader->AnyNumber());
  if (reader->OneIn(4)) kv_share_len = reader->AnyNumber();
  uint64_t packed_bytes = 0;
  CheckStatus(MsRelayPackShareGetSize(dtype, kv_head_num, static_cast<int32_t>(sizes[0]),
                                      static_cast<int32_t>(sizes[1]), kv_share_len, &packed_bytes,
                                      handles->context),
              false);
  if (packed_bytes > (1 << 22)) return;
  const int64_t room = static_cast<int64_t>(packed_bytes) + reader->Pick<int64_t>({0, 0, 0, 1, 64});
  const int packed = arguments.AddOutput("packed", MS_RELAY_UINT8, {room});
  for (int64_t i = reader->Below(4); i > 0; --i) arguments.SpoilTensor();
  const MsRelayTensor *const placed[3] = {arguments.Place(indices[0]), arguments.Place(indices[1]),
                                          arguments.Place(table)};
  MsRelayTensor *const placed_packed = arguments.Place(packed);
  CheckStatus(MsRelayPackShare(placed[0], placed[1], placed[2], kv_head_num, kv_share_len,
                               placed_packed, handles->context),
              false);
}

// Settings, and NULL where it is an error and not a crash.
void FuzzSettings(Reader *reader, Handles *handles) {
  const std::string isas = MsRelayIsaList();
  size_t begin = 0;
  for (int64_t i = reader->Below(8); i > 0 && begin != std::string::npos; --i) {
    begin = isas.find(',', begin);
    if (begin != std::string::npos) ++begin;
  }
  begin = begin == std::string::npos ? 0 : begin;
  CHECK(MsRelaySetIsa(isas.substr(begin, isas.find(',', begin) - begin).c_str()) == MS_RELAY_OK);
  CHECK(MsRelaySetNumThreads(1 + static_cast<int32_t>(reader->Below(3))) == MS_RELAY_OK);
  if (reader->OneIn(2)) {
    CHECK(MsRelayCreateContext(&handles->context) == MS_RELAY_OK);
    CheckStatus(
        MsRelayContextSetNumThreads(handles->context, static_cast<int32_t>(reader->AnyNumber())),
        false);
  }
  if (!reader->OneIn(16)) return;
  CHECK(MsRelaySetIsa(nullptr) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayCreateContext(nullptr) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayCreateOperation(nullptr, handles->context) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayOperationSetOptions(nullptr, nullptr) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayAttention(nullptr, 0, nullptr, handles->context) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPackShareGetSize(3, 1, 8, 8, 1, nullptr, nullptr) == MS_RELAY_INVALID_ARGUMENT);
  CHECK(MsRelayPrefixEncoder(nullptr, 0, nullptr, nullptr) == MS_RELAY_INVALID_ARGUMENT);
  char text[8];
  CHECK(MsRelayContextLastError(handles->context, text, sizeof(text)) < 1024);
  CHECK(std::strlen(MsRelayStatusName(static_cast<int32_t>(reader->AnyNumber()))) > 0);
}

}  // namespace
}  // namespace mindspore_relay::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mindspore_relay::testing;
  Reader reader(data, size);
  Handles handles;
  FuzzSettings(&reader, &handles);
  // Several calls with the same handles: what one leaves must not harm the next.
  for (int64_t i = 1 + reader.Below(3); i > 0; --i) {
    switch (reader.Below(6)) {
      case 0:
      case 1:
        FuzzRelayAttention(&reader, &handles);
        break;
      case 2:
      case 3:
        FuzzPrefixEncoder(&reader, &handles);
        break;
      case 4:
        FuzzReshapeAndCache(&reader, &handles);
        break;
      default:
        FuzzMerge(&reader, &handles);
        if (reader.OneIn(2)) FuzzPackShare(&reader, &handles);
    }
  }
  return 0;
}
