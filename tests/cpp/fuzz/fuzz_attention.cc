// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Both phases of the attention operators, with arguments that are spoilt.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "fuzz_calls.h"

namespace mindspore_relay::testing {
namespace {

// Largest product of rows, keys and heads that is run and not only planned: a fraction of a second
// under sanitizers.
constexpr double kMaxRowKeyHeads = 8000;

constexpr MsRelayMaskType kMaskTypes[] = {MS_RELAY_MASK_CAUSAL, MS_RELAY_MASK_ALIBI_COMPRESS,
                                          MS_RELAY_MASK_ALIBI_COMPRESS_SQRT,
                                          MS_RELAY_MASK_ALIBI_COMPRESS_LEFT_ALIGN};

// Scalars of both attention operators.
struct Scalars {
  int32_t mask_type, head_num, kv_head_num;
  float qk_scale;
};

// What an attention call is made of, before it is spoilt.
struct Attention {
  Attention(Reader *reader, Arguments *arguments) : reader(reader), arguments(arguments) {
    dtype = reader->Pick<int32_t>({MS_RELAY_FLOAT32, MS_RELAY_FLOAT16, MS_RELAY_BFLOAT16});
    scalars.kv_head_num = static_cast<int32_t>(reader->Pick<int64_t>({1, 2, 3, 0}));
    kv_heads = std::max(1, scalars.kv_head_num);
    scalars.head_num =
        kv_heads *
        (scalars.kv_head_num == 0 ? 1 : static_cast<int32_t>(reader->Pick<int64_t>({1, 2, 5})));
    scalars.qk_scale = reader->Pick<float>({0.25f, 0.0f, -1.0f, 1e30f});
    head_size = reader->Pick<int64_t>({8, 16, 40, 64, 136});
    value_head_size = reader->OneIn(4) ? reader->Pick<int64_t>({8, 24, 72}) : head_size;
    is_flat = reader->Byte() % 2 == 0;
    if (reader->OneIn(24)) Widen();
  }

  // So many heads that sizes must be counted in 64 bits, and some not even there: they all lie in
  // the same memory.
  void Widen() {
    is_wide = true;
    is_flat = false;
    scalars.head_num = reader->Pick<int32_t>({1 << 16, 1 << 22, INT32_MAX});
    scalars.kv_head_num = reader->Pick<int32_t>({1, 0});
    kv_heads = scalars.kv_head_num == 0 ? scalars.head_num : 1;
  }

  // The tensor with the heads in its dimension before the last.
  int Add(const char *name, std::vector<int64_t> shape, bool is_output) {
    const int index =
        is_output ? arguments->AddOutput(name, dtype, shape) : arguments->Add(name, dtype, shape);
    if (!is_wide) return index;
    MsRelayTensor &tensor = arguments->At(index).description;
    int64_t stride = tensor.strides[tensor.rank - 2];
    tensor.strides[tensor.rank - 2] = 0;
    for (int32_t dim = tensor.rank - 3; dim >= 0; stride *= tensor.shape[dim--]) {
      tensor.strides[dim] = stride;
    }
    return index;
  }

  // A tensor of keys (values): leading dimensions, then the heads.
  int AddKv(const char *name, std::vector<int64_t> shape, int64_t size) {
    if (is_flat) {
      shape.push_back(kv_heads * size);
    } else {
      shape.insert(shape.end(), {kv_heads, size});
    }
    return Add(name, shape, false);
  }

  std::vector<int64_t> RowShape(int64_t num_rows, int64_t size) const {
    if (is_flat) return {num_rows, scalars.head_num * size};
    return {num_rows, scalars.head_num, size};
  }

  int64_t Length() { return reader->OneIn(32) ? 1030 : reader->Below(70); }

  void SpoilScalars() {
    switch (reader->Below(4)) {
      case 0:
        scalars.mask_type = static_cast<int32_t>(reader->AnyNumber());
        break;
      case 1:
        scalars.head_num = static_cast<int32_t>(reader->AnyNumber());
        break;
      case 2:
        scalars.kv_head_num = static_cast<int32_t>(reader->AnyNumber());
        break;
      default:
        scalars.qk_scale = reader->Pick<float>({NAN, INFINITY, -INFINITY, 3e38f});
    }
  }

  void Spoil() {
    for (int64_t i = reader->Below(4); i > 0; --i) {
      if (reader->OneIn(8)) {
        SpoilScalars();
      } else {
        arguments->SpoilTensor();
      }
    }
  }

  Reader *reader;
  Arguments *arguments;
  Scalars scalars = {};
  int32_t dtype, kv_heads;
  int64_t head_size, value_head_size;
  bool is_flat;
  bool is_wide = false;
};

// Sum of an int32 or uint32 tensor that phase 1 found sound; its largest number in *most.
double SumLengths(const MsRelayTensor *tensor, double *most) {
  double sum = 0;
  for (int64_t i = 0; tensor != nullptr && i < tensor->shape[0]; ++i) {
    const int64_t stride = tensor->shape[0] == 1 ? 1 : tensor->strides[0];
    const int32_t bits = static_cast<const int32_t *>(tensor->data)[i * stride];
    const double length = tensor->dtype == MS_RELAY_UINT32 ? static_cast<uint32_t>(bits) : bits;
    sum += length;
    *most = std::max(*most, length);
  }
  return sum;
}

using RunFunction = MsRelayStatus (*)(void *, uint64_t, MsRelayOperation *, MsRelayContext *);

// Phase 2, twice, after asking for something that is refused.
void Run(Reader *reader, RunFunction run, RunFunction other, uint64_t workspace_bytes,
         Handles *handles) {
  MsRelayOperation *const op = handles->op;
  CHECK(other(nullptr, 0, op, handles->context) == MS_RELAY_INVALID_ARGUMENT);
  if (workspace_bytes > 0) {
    CHECK(run(nullptr, workspace_bytes, op, handles->context) == MS_RELAY_INVALID_ARGUMENT);
    CHECK(run(&workspace_bytes, workspace_bytes - 1, op, nullptr) == MS_RELAY_INVALID_ARGUMENT);
  }
  if (workspace_bytes > (uint64_t{64} << 20)) return;
  void *workspace = nullptr;
  CHECK(posix_memalign(&workspace, 64, workspace_bytes) == 0);
  std::memset(workspace, reader->Byte(), workspace_bytes);
  for (int i = 0; i < 2; ++i) {
    CHECK(run(workspace, workspace_bytes, op, handles->context) == MS_RELAY_OK);
  }
  std::free(workspace);
}

MsRelayStatus SetOptions(Reader *reader, Arguments *arguments, int lse, int tables,
                         int share_tables, MsRelayOperation *op) {
  MsRelayOptions options = {sizeof(MsRelayOptions),         static_cast<int32_t>(reader->Below(3)),
                            arguments->Place(lse),          arguments->Place(tables),
                            arguments->Place(share_tables), nullptr};
  if (reader->OneIn(64)) options.path = static_cast<int32_t>(reader->AnyNumber());
  if (reader->OneIn(64)) options.struct_bytes = static_cast<uint32_t>(reader->Below(32));
  return MsRelayOperationSetOptions(op, &options);
}

// Phase 1 with some allocation failing now and then; the operation may exist or not.
template <typename Plan>
bool PlanAndCheck(Reader *reader, Handles *handles, uint64_t *workspace_bytes, Plan &&plan) {
  MsRelayOperation *const before = handles->op;
  const bool fails = reader->OneIn(16);
  MakeMemoryShort(fails ? reader->Below(12) : -1);
  *workspace_bytes = 1;
  const MsRelayStatus status = plan();
  MakeMemoryPlenty();
  CheckStatus(status, fails);
  CHECK(status == MS_RELAY_OK ? handles->op != nullptr
                              : handles->op == before && *workspace_bytes == 0);
  return status == MS_RELAY_OK;
}

// Key (value) of requests or groups, in one of the three forms.
struct KvForm {
  std::vector<int> key, value;
  int tables = -1;
  bool is_stacked = false;
};

KvForm AddKvForm(Attention *call, const char *const (&names)[3], const std::vector<int32_t> &lens) {
  const int64_t count = static_cast<int64_t>(lens.size());
  const int64_t longest = count == 0 ? 0 : *std::max_element(lens.begin(), lens.end());
  KvForm form;
  const auto add = [&](std::vector<int64_t> shape) {
    form.key.push_back(call->AddKv(names[0], shape, call->head_size));
    form.value.push_back(call->AddKv(names[1], shape, call->value_head_size));
  };
  switch (call->reader->Below(3)) {
    case 0:
      for (int32_t length : lens) add({length + call->reader->Below(2)});
      break;
    case 1:
      form.is_stacked = true;
      add({count, longest + call->reader->Below(2)});
      break;
    default: {
      const int64_t block_size = call->reader->Pick<int64_t>({16, 1, 7, 512});
      const int64_t width = (longest + block_size - 1) / block_size + call->reader->Below(2);
      const int64_t num_blocks = 1 + call->reader->Below(5);
      std::vector<int32_t> entries(static_cast<size_t>(count * width));
      for (int32_t &entry : entries) {
        entry = static_cast<int32_t>(call->reader->Below(num_blocks));
      }
      form.tables = call->arguments->AddIntegers(names[2], {count, width}, entries);
      add({num_blocks, block_size});
    }
  }
  return form;
}

}  // namespace

void FuzzRelayAttention(Reader *reader, Handles *handles) {
  Arguments arguments(reader);
  Attention call(reader, &arguments);
  const int64_t batch = reader->Below(5), num_groups = reader->Below(3);
  std::vector<int32_t> own, shared, map, total, ones(static_cast<size_t>(batch), 1);
  for (int64_t g = 0; g < num_groups; ++g) shared.push_back(static_cast<int32_t>(call.Length()));
  for (int64_t b = 0; b < batch; ++b) {
    own.push_back(static_cast<int32_t>(call.Length()));
    map.push_back(static_cast<int32_t>(reader->Below(num_groups + 1) - 1));
    total.push_back(own.back() + (map.back() < 0 ? 0 : shared[map.back()]));
  }
  const int query = call.Add("query", call.RowShape(batch, call.head_size), false);
  const KvForm keys = AddKvForm(&call, {"key", "value", "block_tables"}, own);
  const KvForm groups =
      AddKvForm(&call, {"key_share", "value_share", "share_block_tables"}, shared);
  const int seq_len = reader->OneIn(4) ? arguments.AddIntegers("seq_len", {batch}, ones) : -1;
  const int kv_seq_len = arguments.AddIntegers("kv_seq_len", {batch}, total);
  const int kv_share_map = arguments.AddIntegers("kv_share_map", {batch}, map);
  const int kv_share_len = arguments.AddIntegers("kv_share_len", {num_groups}, shared);
  const int out = call.Add("attn_out", call.RowShape(batch, call.value_head_size), true);
  const int lse = reader->OneIn(2) ? -1
                                   : arguments.AddOutput("lse", MS_RELAY_FLOAT32,
                                                         {batch, call.scalars.head_num});
  call.scalars.mask_type = MS_RELAY_MASK_UNDEFINED;
  call.Spoil();

  if (handles->op == nullptr) CHECK(MsRelayCreateOperation(&handles->op, nullptr) == MS_RELAY_OK);
  if (SetOptions(reader, &arguments, lse, keys.tables, groups.tables, handles->op) != MS_RELAY_OK) {
    return;
  }
  // Shared blocks may lie in the requests' cache.
  const bool is_one_cache = groups.tables >= 0 && keys.tables >= 0 && reader->OneIn(3);
  MsRelayTensorList *const share_lists[2] = {
      is_one_cache ? nullptr : arguments.PlaceList(groups.key, groups.is_stacked),
      is_one_cache ? nullptr : arguments.PlaceList(groups.value, groups.is_stacked)};
  MsRelayTensorList *const lists[2] = {arguments.PlaceList(keys.key, keys.is_stacked),
                                       arguments.PlaceList(keys.value, keys.is_stacked)};
  const MsRelayTensor *const placed_query = arguments.Place(query);
  const MsRelayTensor *const placed[] = {arguments.Place(seq_len), arguments.Place(kv_seq_len),
                                         arguments.Place(kv_share_map),
                                         arguments.Place(kv_share_len)};
  MsRelayTensor *const placed_out = arguments.Place(out);
  const Scalars &scalars = call.scalars;
  uint64_t workspace_bytes;
  const bool is_planned = PlanAndCheck(reader, handles, &workspace_bytes, [&] {
    return MsRelayAttentionGetWorkspaceSize(
        placed_query, lists[0], lists[1], share_lists[0], share_lists[1], nullptr, placed[0],
        placed[1], placed[2], placed[3], scalars.mask_type, scalars.head_num, scalars.kv_head_num,
        scalars.qk_scale, placed_out, &workspace_bytes, &handles->op, handles->context);
  });
  int32_t path = -1;
  const int64_t group = reader->AnyNumber();
  const MsRelayStatus path_status = MsRelayOperationGetPath(handles->op, group, &path);
  CHECK(path_status == MS_RELAY_INVALID_ARGUMENT || (is_planned && (path == 1 || path == 2)));
  double most = 0;
  if (!is_planned) return;
  const double row_keys = SumLengths(placed[1], &most) + static_cast<double>(batch);
  if (row_keys * scalars.head_num > kMaxRowKeyHeads) return;
  Run(reader, MsRelayAttention, MsRelayPrefixEncoder, workspace_bytes, handles);
}

void FuzzPrefixEncoder(Reader *reader, Handles *handles) {
  Arguments arguments(reader);
  Attention call(reader, &arguments);
  const int64_t batch = reader->Below(4);
  std::vector<int32_t> new_lens, lens;
  for (int64_t b = 0; b < batch; ++b) {
    new_lens.push_back(static_cast<int32_t>(reader->Below(40)));
    lens.push_back(new_lens.back() + static_cast<int32_t>(call.Length()));
  }
  int64_t num_tokens = 0;
  for (int32_t length : new_lens) num_tokens += length;
  const int query = call.Add("query", call.RowShape(num_tokens, call.head_size), false);
  const int64_t block_size = reader->Pick<int64_t>({16, 1, 7, 512});
  const int64_t longest = batch == 0 ? 0 : *std::max_element(lens.begin(), lens.end());
  const int64_t width = (longest + block_size - 1) / block_size, num_blocks = 1 + reader->Below(5);
  std::vector<int32_t> entries(static_cast<size_t>(batch * width));
  for (int32_t &entry : entries) entry = static_cast<int32_t>(reader->Below(num_blocks));
  const int key = call.AddKv("key", {num_blocks, block_size}, call.head_size);
  const int value = call.AddKv("value", {num_blocks, block_size}, call.value_head_size);
  const int tables = arguments.AddIntegers("block_tables", {batch, width}, entries);
  const int seq_len = arguments.AddIntegers("seq_len", {batch}, new_lens);
  const int kv_seq_len = arguments.AddIntegers("kv_seq_len", {batch}, lens);
  call.scalars.mask_type = kMaskTypes[reader->Below(std::size(kMaskTypes))];
  // The content of a [256, 256] mask would have to be right; any content of a 3-D mask is.
  int mask = -1;
  if (call.scalars.mask_type != MS_RELAY_MASK_CAUSAL) {
    mask = reader->OneIn(4)
               ? arguments.Add("mask", call.dtype, {256, 256})
               : arguments.Add("mask", call.dtype,
                               {call.scalars.head_num, longest + reader->Below(2), 128});
  }
  const int slopes =
      reader->OneIn(8) ? arguments.Add("slopes", MS_RELAY_FLOAT32, {call.scalars.head_num}) : -1;
  const int out = call.Add("attn_out", call.RowShape(num_tokens, call.value_head_size), true);
  const int lse = reader->OneIn(2) ? -1
                                   : arguments.AddOutput("lse", MS_RELAY_FLOAT32,
                                                         {num_tokens, call.scalars.head_num});
  call.Spoil();

  if (handles->op == nullptr) CHECK(MsRelayCreateOperation(&handles->op, nullptr) == MS_RELAY_OK);
  if (SetOptions(reader, &arguments, lse, -1, -1, handles->op) != MS_RELAY_OK) return;
  const MsRelayTensor *placed[8];
  const int indices[8] = {query, key, value, tables, mask, seq_len, kv_seq_len, slopes};
  for (int i = 0; i < 8; ++i) placed[i] = arguments.Place(indices[i]);
  MsRelayTensor *const placed_out = arguments.Place(out);
  const Scalars &scalars = call.scalars;
  uint64_t workspace_bytes;
  const bool is_planned = PlanAndCheck(reader, handles, &workspace_bytes, [&] {
    return MsRelayPrefixEncoderGetWorkspaceSize(
        placed[0], placed[1], placed[2], placed[3], placed[4], placed[5], placed[6], placed[7],
        scalars.mask_type, scalars.head_num, scalars.kv_head_num, scalars.qk_scale, placed_out,
        &workspace_bytes, &handles->op, handles->context);
  });
  double most = 0;
  if (!is_planned) return;
  const double tokens = SumLengths(placed[5], &most);
  SumLengths(placed[6], &most);
  if (tokens * (most + 1) * scalars.head_num > kMaxRowKeyHeads) return;
  Run(reader, MsRelayPrefixEncoder, MsRelayAttention, workspace_bytes, handles);
}

}  // namespace mindspore_relay::testing
