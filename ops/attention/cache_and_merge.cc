// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/cache_and_merge.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "attention/softmax_state.h"
#include "common/int_math.h"
#include "cpu/threads.h"

namespace mindspore_relay {
namespace {

constexpr char kCacheOp[] = "reshape_and_cache";
constexpr char kMergeOp[] = "merge_attention_states";

// Bytes under which a second thread does not pay for its wake-up.
constexpr int64_t kMinParallelBytes = 256 * 1024;

// Elements converted at once through a float buffer on the stack.
constexpr int32_t kChunkElements = 512;

// The rows of a token: [heads] runs of `run` elements, apart by head_stride. A tensor with merged
// heads has one run.
struct TokenRows {
  int64_t num_heads;
  int64_t run;
  int64_t head_stride;
};

TokenRows RowsOf(const TensorView &tensor, int32_t num_leading) {
  if (tensor.rank == num_leading + 1) return {1, tensor.shape[num_leading], 0};
  return {tensor.shape[num_leading], tensor.shape[num_leading + 1], tensor.strides[num_leading]};
}

Status CheckWritePair(const char *name, const TensorView &source, const TensorView &cache,
                      int64_t num_tokens) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kCacheOp, name, source));
  if (!IsFloating(source.dtype) || !IsFloating(cache.dtype)) {
    return InvalidArgument(
        "%s: %s and its cache must have dtype float16, bfloat16 or float32, got %s and %s",
        kCacheOp, name, DTypeName(source.dtype), DTypeName(cache.dtype));
  }
  if (source.rank != 2 && source.rank != 3) {
    return InvalidArgument(
        "%s: %s must be [nTokens, kv_head_num, head_size] or [nTokens, kv_head_num * head_size], "
        "got "
        "shape %s",
        kCacheOp, name, ShapeText(source).text);
  }
  if (source.shape[0] != num_tokens) {
    return InvalidArgument(
        "%s: %s must have one token for each entry of slot_mapping, got shape %s and %" PRId64
        " entries",
        kCacheOp, name, ShapeText(source).text, num_tokens);
  }
  if (cache.rank != 3 && cache.rank != 4) {
    return InvalidArgument(
        "%s: %s_cache must be [num_blocks, block_size, kv_head_num, head_size] or [num_blocks, "
        "block_size, kv_head_num * head_size], got shape %s",
        kCacheOp, name, ShapeText(cache).text);
  }
  const TokenRows in = RowsOf(source, 1), out = RowsOf(cache, 2);
  const bool both_apart = source.rank == 3 && cache.rank == 4;
  if (in.num_heads * in.run != out.num_heads * out.run || (both_apart && in.run != out.run)) {
    return InvalidArgument(
        "%s: %s and %s_cache must have the same heads per token, got shapes %s and %s", kCacheOp,
        name, name, ShapeText(source).text, ShapeText(cache).text);
  }
  return OkStatus();
}

void ConvertRun(const DTypeKernels &from, DType from_dtype, const DTypeKernels &to, DType to_dtype,
                const char *in, char *out, int64_t num_elements) {
  if (from_dtype == to_dtype) {
    std::memcpy(out, in, static_cast<size_t>(num_elements * DTypeBytes(to_dtype)));
    return;
  }
  alignas(64) float buffer[kChunkElements];
  for (int64_t begin = 0; begin < num_elements; begin += kChunkElements) {
    const int32_t count =
        static_cast<int32_t>(std::min<int64_t>(kChunkElements, num_elements - begin));
    from.load_row(in + begin * DTypeBytes(from_dtype), count, buffer);
    to.store_row(buffer, 1.0f, count, out + begin * DTypeBytes(to_dtype));
  }
}

struct WriteContext {
  const ReshapeAndCacheArgs *args;
  const TileKernels *kernels;
  int64_t num_tasks;
};

void WriteToken(const TileKernels &kernels, const TensorView &source, int64_t token,
                const TensorView &cache, int64_t slot) {
  const TokenRows in = RowsOf(source, 1), out = RowsOf(cache, 2);
  const int64_t block = slot / cache.shape[1], offset = slot % cache.shape[1];
  const int64_t run = std::min(in.run, out.run);  // one is a multiple of the other
  if (run == 0) return;
  const int64_t in_bytes = DTypeBytes(source.dtype), out_bytes = DTypeBytes(cache.dtype);
  const char *from = source.bytes() + token * source.strides[0] * in_bytes;
  char *to = cache.bytes() + (block * cache.strides[0] + offset * cache.strides[1]) * out_bytes;
  for (int64_t i = 0; i < in.num_heads * in.run; i += run) {
    const int64_t in_element = i / in.run * in.head_stride + i % in.run;
    const int64_t out_element = i / out.run * out.head_stride + i % out.run;
    ConvertRun(KernelsFor(kernels, source.dtype), source.dtype, KernelsFor(kernels, cache.dtype),
               cache.dtype, from + in_element * in_bytes, to + out_element * out_bytes, run);
  }
}

// Task i writes the slots that are i modulo the number of tasks, in token order: when a slot occurs
// twice the later token stays, whatever the threads do.
void WriteTask(void *opaque, const TaskTurn &turn) {
  const WriteContext &context = *static_cast<WriteContext *>(opaque);
  const ReshapeAndCacheArgs &args = *context.args;
  for (int64_t token = 0; token < args.slot_mapping.shape[0]; ++token) {
    const int64_t slot = LengthAt(args.slot_mapping, token);
    if (slot < 0 || slot % context.num_tasks != turn.index) continue;
    WriteToken(*context.kernels, args.key, token, args.key_cache, slot);
    WriteToken(*context.kernels, args.value, token, args.value_cache, slot);
  }
}

Status CheckStates(const char *out_name, const TensorView &out, const char *lse_name,
                   const TensorView &lse, const TensorView &first_out,
                   const TensorView &first_lse) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kMergeOp, out_name, out));
  MS_RELAY_RETURN_IF_ERROR(CheckDType(kMergeOp, out_name, out, first_out.dtype));
  bool fits = out.rank == first_out.rank;
  for (int32_t i = 0; fits && i < out.rank; ++i) fits = out.shape[i] == first_out.shape[i];
  if (!fits) {
    return InvalidArgument("%s: %s must have the shape of out_a %s, got %s", kMergeOp, out_name,
                           ShapeText(first_out).text, ShapeText(out).text);
  }
  if (!lse.is_present()) return OkStatus();
  MS_RELAY_RETURN_IF_ERROR(CheckDType(kMergeOp, lse_name, lse, DType::kFloat32));
  if (lse.rank != 2 || lse.shape[0] != first_lse.shape[0] || lse.shape[1] != first_lse.shape[1]) {
    return InvalidArgument("%s: %s must have the shape of lse_a %s, got %s", kMergeOp, lse_name,
                           ShapeText(first_lse).text, ShapeText(lse).text);
  }
  return OkStatus();
}

struct MergeContext {
  const MergeAttentionStatesArgs *args;
  const TileKernels *kernels;
};

char *StateRow(const TensorView &out, int64_t token, int64_t head, int64_t size) {
  const int64_t head_stride = out.rank == 3 ? out.strides[1] : size;
  return out.bytes() + (token * out.strides[0] + head * head_stride) * DTypeBytes(out.dtype);
}

bool HasKeys(float lse) { return !std::isinf(lse); }

// out <- out_a * weight_a + out_b * weight_b. A side without keys is not read: its rows may be
// anything. Both empty: 0.
void MergeRow(const MergeContext &context, int64_t token, int64_t head) {
  const MergeAttentionStatesArgs &args = *context.args;
  const DTypeKernels &kernels = KernelsFor(*context.kernels, args.out.dtype);
  const auto lse_at = [&](const TensorView &lse) {
    return static_cast<float *>(lse.data) + token * lse.strides[0] + head;
  };
  const int64_t head_num = args.lse_a.shape[1];
  const int64_t size = args.out.rank == 3 ? args.out.shape[2] : args.out.shape[1] / head_num;
  const float lse_a = *lse_at(args.lse_a), lse_b = *lse_at(args.lse_b);
  const MergeWeights weights = ComputeMergeWeights(lse_a, lse_b);
  alignas(64) float a[kChunkElements];
  alignas(64) float b[kChunkElements];
  for (int64_t begin = 0; begin < size; begin += kChunkElements) {
    const int32_t count = static_cast<int32_t>(std::min<int64_t>(kChunkElements, size - begin));
    const int64_t offset = begin * DTypeBytes(args.out.dtype);
    std::memset(a, 0, sizeof(a));
    std::memset(b, 0, sizeof(b));
    if (HasKeys(lse_a))
      kernels.load_row(StateRow(args.out_a, token, head, size) + offset, count, a);
    if (HasKeys(lse_b))
      kernels.load_row(StateRow(args.out_b, token, head, size) + offset, count, b);
    context.kernels->fold_row(a, weights.weight_a, b, weights.weight_b, count);
    kernels.store_row(a, 1.0f, count, StateRow(args.out, token, head, size) + offset);
  }
  if (args.lse.is_present()) *lse_at(args.lse) = weights.lse;
}

void MergeTask(void *opaque, const TaskTurn &turn) {
  const MergeContext &context = *static_cast<MergeContext *>(opaque);
  for (int64_t head = 0; head < context.args->lse_a.shape[1]; ++head)
    MergeRow(context, turn.index, head);
}

}  // namespace

Status CheckReshapeAndCache(const ReshapeAndCacheArgs &args) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kCacheOp, "key_cache", args.key_cache));
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kCacheOp, "value_cache", args.value_cache));
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kCacheOp, "slot_mapping", args.slot_mapping));
  MS_RELAY_RETURN_IF_ERROR(CheckDType(kCacheOp, "slot_mapping", args.slot_mapping, DType::kInt32));
  if (args.slot_mapping.rank != 1) {
    return InvalidArgument("%s: slot_mapping must be [nTokens], got shape %s", kCacheOp,
                           ShapeText(args.slot_mapping).text);
  }
  const int64_t num_tokens = args.slot_mapping.shape[0];
  MS_RELAY_RETURN_IF_ERROR(CheckWritePair("key", args.key, args.key_cache, num_tokens));
  MS_RELAY_RETURN_IF_ERROR(CheckWritePair("value", args.value, args.value_cache, num_tokens));
  MS_RELAY_RETURN_IF_ERROR(CheckCachePair(kCacheOp, "key", args.key_cache, args.value_cache));
  const int64_t num_slots = args.key_cache.shape[0] * args.key_cache.shape[1];
  for (int64_t i = 0; i < num_tokens; ++i) {
    const int64_t slot = LengthAt(args.slot_mapping, i);
    if (slot < -1 || slot >= num_slots) {
      return InvalidArgument(
          "%s: slot_mapping must be -1 or a slot in [0, num_blocks * block_size = %" PRId64
          "), got slot_mapping[%" PRId64 "]=%" PRId64,
          kCacheOp, num_slots, i, slot);
    }
  }
  return OkStatus();
}

void RunReshapeAndCache(const ReshapeAndCacheArgs &args, const TileKernels &kernels,
                        int32_t num_threads) {
  const int64_t num_tokens = args.slot_mapping.shape[0];
  const TokenRows key = RowsOf(args.key, 1), value = RowsOf(args.value, 1);
  const int64_t bytes = num_tokens * (key.num_heads * key.run + value.num_heads * value.run) *
                        DTypeBytes(args.key_cache.dtype);
  WriteContext context = {
      &args, &kernels, bytes < kMinParallelBytes ? 1 : std::min<int64_t>(num_threads, num_tokens)};
  ParallelFor(context.num_tasks, num_threads, WriteTask, &context);
}

Status CheckMergeAttentionStates(const MergeAttentionStatesArgs &args) {
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kMergeOp, "out_a", args.out_a));
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kMergeOp, "lse_a", args.lse_a));
  MS_RELAY_RETURN_IF_ERROR(CheckPresent(kMergeOp, "lse_b", args.lse_b));
  const TensorView &out = args.out_a, &lse = args.lse_a;
  if (!IsFloating(out.dtype)) {
    return InvalidArgument("%s: out_a must have dtype float16, bfloat16 or float32, got %s",
                           kMergeOp, DTypeName(out.dtype));
  }
  MS_RELAY_RETURN_IF_ERROR(CheckDType(kMergeOp, "lse_a", lse, DType::kFloat32));
  const bool is_pair =
      lse.rank == 2 && lse.shape[1] > 0 && (out.rank == 2 || out.rank == 3) &&
      out.shape[0] == lse.shape[0] &&
      (out.rank == 3 ? out.shape[1] == lse.shape[1] : out.shape[1] % lse.shape[1] == 0);
  if (!is_pair) {
    return InvalidArgument(
        "%s: out_a must be [n, head_num, head_size] or [n, head_num * head_size] and lse_a [n, "
        "head_num], "
        "got shapes %s and %s",
        kMergeOp, ShapeText(out).text, ShapeText(lse).text);
  }
  MS_RELAY_RETURN_IF_ERROR(CheckStates("out_b", args.out_b, "lse_b", args.lse_b, out, lse));
  return CheckStates("out", args.out, "lse", args.lse, out, lse);
}

void RunMergeAttentionStates(const MergeAttentionStatesArgs &args, const TileKernels &kernels,
                             int32_t num_threads) {
  MergeContext context = {&args, &kernels};
  const int64_t num_tokens = args.lse_a.shape[0];
  const int64_t elements =
      args.out_a.rank == 3 ? args.out_a.shape[1] * args.out_a.shape[2] : args.out_a.shape[1];
  const bool is_small = num_tokens * elements * DTypeBytes(args.out.dtype) < kMinParallelBytes;
  ParallelFor(num_tokens, is_small ? 1 : num_threads, MergeTask, &context);
}

}  // namespace mindspore_relay
