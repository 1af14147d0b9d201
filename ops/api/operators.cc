// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The operators' C functions: descriptions of tensors become views, then check, plan, run.
#include "api/descriptions.h"
#include "api/operation.h"
#include "attention/cache_and_merge.h"
#include "attention/packed_share.h"

namespace mindspore_relay {
namespace {

constexpr char kRelayOp[] = "relay_attention";
constexpr char kPrefixOp[] = "prefix_encoder";
constexpr char kCacheOp[] = "reshape_and_cache";
constexpr char kPackOp[] = "pack_share";
constexpr char kMergeOp[] = "merge_attention_states";

struct NamedList {
  const char *name;
  const MsRelayTensorList *list;
  KvListArgs *args;
};

// All lists into one vector, then pointers into it, when it does not move any more.
template <size_t kCount>
Status ToListArgs(const NamedList (&lists)[kCount], std::vector<TensorView> *views) {
  views->clear();
  size_t begin[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    begin[i] = views->size();
    MS_RELAY_RETURN_IF_ERROR(AppendTensorViews(kRelayOp, lists[i].name, lists[i].list, views));
  }
  for (size_t i = 0; i < kCount; ++i) {
    if (lists[i].list == nullptr) continue;
    *lists[i].args = {views->data() + begin[i], lists[i].list->num_tensors,
                      lists[i].list->is_stacked != 0};
  }
  return OkStatus();
}

struct NamedTensor {
  const char *name;
  const MsRelayTensor *tensor;
  TensorView *view;
};

template <size_t kCount>
Status ToViews(const char *op, const NamedTensor (&tensors)[kCount]) {
  for (const NamedTensor &named : tensors) {
    MS_RELAY_RETURN_IF_ERROR(ToTensorView(op, named.name, named.tensor, named.view));
  }
  return OkStatus();
}

Status PlanRelay(const RelayAttentionArgs &args, const MsRelayContext *context,
                 MsRelayOperation *op) {
  const TileKernels *kernels = nullptr;
  MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
  MS_RELAY_RETURN_IF_ERROR(CheckRelayAttention(args, &op->relay_attention));
  MS_RELAY_RETURN_IF_ERROR(CheckPackedShare(args, *kernels, &op->relay_attention));
  PlanRelayAttention(op->relay_attention, *kernels, NumThreads(context), &op->plan);
  MS_RELAY_RETURN_IF_ERROR(CheckWorkspace(kRelayOp, op->plan));
  op->kind = MsRelayOperation::Kind::kRelayAttention;
  return OkStatus();
}

Status PlanPrefix(const PrefixEncoderArgs &args, const MsRelayContext *context,
                  MsRelayOperation *op) {
  const TileKernels *kernels = nullptr;
  MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
  MS_RELAY_RETURN_IF_ERROR(CheckPrefixEncoder(args, &op->prefix_encoder));
  PlanPrefixEncoder(op->prefix_encoder, *kernels, NumThreads(context), &op->plan);
  MS_RELAY_RETURN_IF_ERROR(CheckWorkspace(kPrefixOp, op->plan));
  op->kind = MsRelayOperation::Kind::kPrefixEncoder;
  return OkStatus();
}

}  // namespace
}  // namespace mindspore_relay

using mindspore_relay::Guard;
using mindspore_relay::OkStatus;
using mindspore_relay::Status;

extern "C" {

MsRelayStatus MsRelayPrefixEncoderGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensor *key, const MsRelayTensor *value,
    const MsRelayTensor *block_tables, const MsRelayTensor *mask, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *slopes, int mask_type, int32_t head_num,
    int32_t kv_head_num, float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes,
    MsRelayOperation **op, MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kPrefixOp, context, [&]() -> Status {
    return PlanOperation(
        kPrefixOp, workspace_bytes, op, [&](MsRelayOperation *operation) -> Status {
          PrefixEncoderArgs args;
          MS_RELAY_RETURN_IF_ERROR(
              ToViews(kPrefixOp, {{"query", query, &args.query},
                                  {"key", key, &args.key},
                                  {"value", value, &args.value},
                                  {"block_tables", block_tables, &args.block_tables},
                                  {"mask", mask, &args.mask},
                                  {"seq_len", seq_len, &args.seq_len},
                                  {"kv_seq_len", kv_seq_len, &args.kv_seq_len},
                                  {"slopes", slopes, &args.slopes},
                                  {"attn_out", attn_out, &args.out},
                                  {"lse", PointerOf(operation->options.lse), &args.lse}}));
          args.mask_type = mask_type;
          args.head_num = head_num;
          args.kv_head_num = kv_head_num;
          args.qk_scale = qk_scale;
          return PlanPrefix(args, context, operation);
        });
  });
}

MsRelayStatus MsRelayPrefixEncoder(void *workspace, uint64_t workspace_bytes, MsRelayOperation *op,
                                   MsRelayContext *context) {
  return Guard(mindspore_relay::kPrefixOp, context, [&]() -> Status {
    return mindspore_relay::RunOperation(MsRelayOperation::Kind::kPrefixEncoder,
                                         mindspore_relay::kPrefixOp, workspace, workspace_bytes,
                                         op);
  });
}

MsRelayStatus MsRelayAttentionGetWorkspaceSize(
    const MsRelayTensor *query, const MsRelayTensorList *key, const MsRelayTensorList *value,
    const MsRelayTensorList *key_share, const MsRelayTensorList *value_share,
    const MsRelayTensor * /*attention_mask*/, const MsRelayTensor *seq_len,
    const MsRelayTensor *kv_seq_len, const MsRelayTensor *kv_share_map,
    const MsRelayTensor *kv_share_len, int mask_type, int32_t head_num, int32_t kv_head_num,
    float qk_scale, MsRelayTensor *attn_out, uint64_t *workspace_bytes, MsRelayOperation **op,
    MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kRelayOp, context, [&]() -> Status {
    return PlanOperation(kRelayOp, workspace_bytes, op, [&](MsRelayOperation *operation) -> Status {
      RelayAttentionArgs args;
      const MsRelayTensor *block_tables = PointerOf(operation->options.block_tables);
      const MsRelayTensor *share_tables = PointerOf(operation->options.share_block_tables);
      MS_RELAY_RETURN_IF_ERROR(
          ToViews(kRelayOp, {{"query", query, &args.query},
                             {"seq_len", seq_len, &args.seq_len},
                             {"kv_seq_len", kv_seq_len, &args.kv_seq_len},
                             {"kv_share_map", kv_share_map, &args.kv_share_map},
                             {"kv_share_len", kv_share_len, &args.kv_share_len},
                             {"block_tables", block_tables, &args.block_tables},
                             {"share_block_tables", share_tables, &args.share_block_tables},
                             {"attn_out", attn_out, &args.out},
                             {"lse", PointerOf(operation->options.lse), &args.lse}}));
      const OperationOptions &options = operation->options;
      const MsRelayTensorList packed_share = {
          sizeof(MsRelayTensorList), options.is_packed_share_stacked,
          static_cast<int64_t>(options.packed_share.size()), options.packed_share.data()};
      MS_RELAY_RETURN_IF_ERROR(ToListArgs({{"key", key, &args.key},
                                           {"value", value, &args.value},
                                           {"key_share", key_share, &args.key_share},
                                           {"value_share", value_share, &args.value_share},
                                           {"packed_share", &packed_share, &args.packed_share}},
                                          &operation->list_tensors));
      args.mask_type = mask_type;
      args.head_num = head_num;
      args.kv_head_num = kv_head_num;
      args.qk_scale = qk_scale;
      args.path = operation->options.path;
      return PlanRelay(args, context, operation);
    });
  });
}

MsRelayStatus MsRelayAttention(void *workspace, uint64_t workspace_bytes, MsRelayOperation *op,
                               MsRelayContext *context) {
  return Guard(mindspore_relay::kRelayOp, context, [&]() -> Status {
    return mindspore_relay::RunOperation(MsRelayOperation::Kind::kRelayAttention,
                                         mindspore_relay::kRelayOp, workspace, workspace_bytes, op);
  });
}

MsRelayStatus MsRelayReshapeAndCache(const MsRelayTensor *key, const MsRelayTensor *value,
                                     MsRelayTensor *key_cache, MsRelayTensor *value_cache,
                                     const MsRelayTensor *slot_mapping, MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kCacheOp, context, [&]() -> Status {
    ReshapeAndCacheArgs args;
    MS_RELAY_RETURN_IF_ERROR(
        ToViews(kCacheOp, {{"key", key, &args.key},
                           {"value", value, &args.value},
                           {"key_cache", key_cache, &args.key_cache},
                           {"value_cache", value_cache, &args.value_cache},
                           {"slot_mapping", slot_mapping, &args.slot_mapping}}));
    const TileKernels *kernels = nullptr;
    MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
    MS_RELAY_RETURN_IF_ERROR(CheckReshapeAndCache(args));
    RunReshapeAndCache(args, *kernels, NumThreads(context));
    return OkStatus();
  });
}

MsRelayStatus MsRelayPackShareGetSize(int32_t dtype, int32_t kv_head_num, int32_t head_size,
                                      int32_t value_head_size, int64_t kv_share_len,
                                      uint64_t *packed_bytes, MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kPackOp, context, [&]() -> Status {
    if (packed_bytes == nullptr) {
      return InvalidArgument("%s: packed_bytes must not be NULL", kPackOp);
    }
    *packed_bytes = 0;
    const TileKernels *kernels = nullptr;
    MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
    HeadParams heads;
    heads.dtype = static_cast<DType>(dtype);
    heads.kv_head_num = kv_head_num;
    heads.head_size = head_size;
    heads.value_head_size = value_head_size;
    int64_t num_bytes = 0;
    MS_RELAY_RETURN_IF_ERROR(CheckPackedBytes(heads, kv_share_len, *kernels, &num_bytes));
    *packed_bytes = static_cast<uint64_t>(num_bytes);
    return OkStatus();
  });
}

MsRelayStatus MsRelayPackShare(const MsRelayTensor *key_share, const MsRelayTensor *value_share,
                               const MsRelayTensor *share_block_table, int32_t kv_head_num,
                               int64_t kv_share_len, MsRelayTensor *packed,
                               MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kPackOp, context, [&]() -> Status {
    PackShareArgs args;
    MS_RELAY_RETURN_IF_ERROR(
        ToViews(kPackOp, {{"key_share", key_share, &args.key_share},
                          {"value_share", value_share, &args.value_share},
                          {"share_block_table", share_block_table, &args.share_block_table},
                          {"packed", packed, &args.packed}}));
    args.kv_head_num = kv_head_num;
    args.kv_share_len = kv_share_len;
    const TileKernels *kernels = nullptr;
    MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
    PackShareProblem problem;
    MS_RELAY_RETURN_IF_ERROR(CheckPackShare(args, *kernels, &problem));
    RunPackShare(problem, *kernels, NumThreads(context), args.packed.bytes());
    return OkStatus();
  });
}

MsRelayStatus MsRelayMergeAttentionStates(const MsRelayTensor *out_a, const MsRelayTensor *lse_a,
                                          const MsRelayTensor *out_b, const MsRelayTensor *lse_b,
                                          MsRelayTensor *out, MsRelayTensor *lse,
                                          MsRelayContext *context) {
  using namespace mindspore_relay;
  return Guard(kMergeOp, context, [&]() -> Status {
    MergeAttentionStatesArgs args;
    MS_RELAY_RETURN_IF_ERROR(ToViews(kMergeOp, {{"out_a", out_a, &args.out_a},
                                                {"lse_a", lse_a, &args.lse_a},
                                                {"out_b", out_b, &args.out_b},
                                                {"lse_b", lse_b, &args.lse_b},
                                                {"out", out, &args.out},
                                                {"lse", lse, &args.lse}}));
    const TileKernels *kernels = nullptr;
    MS_RELAY_RETURN_IF_ERROR(GetTileKernels(&kernels));
    MS_RELAY_RETURN_IF_ERROR(CheckMergeAttentionStates(args));
    RunMergeAttentionStates(args, *kernels, NumThreads(context));
    return OkStatus();
  });
}

}  // extern "C"
