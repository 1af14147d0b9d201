// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The operators' C functions: descriptions of tensors become views, then check, plan, run.
#include "api/descriptions.h"
#include "api/operation.h"
#include "attention/cache_and_merge.h"

namespace mindspore_relay {
namespace {

constexpr char kRelayOp[] = "relay_attention";
constexpr char kPrefixOp[] = "prefix_encoder";
constexpr char kCacheOp[] = "reshape_and_cache";
constexpr char kMergeOp[] = "merge_attention_states";

struct NamedList {
  const char *name;
  const MsRelayTensorList *list;
  KvListArgs *args;
};

// All lists into one vector, then pointers into it, when it does not move any more.
Status ToListArgs(const NamedList (&lists)[4], std::vector<TensorView> *views) {
  views->clear();
  size_t begin[4];
  for (int i = 0; i < 4; ++i) {
    begin[i] = views->size();
    MS_RELAY_RETURN_IF_ERROR(AppendTensorViews(kRelayOp, lists[i].name, lists[i].list, views));
  }
  for (int i = 0; i < 4; ++i) {
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
      MS_RELAY_RETURN_IF_ERROR(ToListArgs({{"key", key, &args.key},
                                           {"value", value, &args.value},
                                           {"key_share", key_share, &args.key_share},
                                           {"value_share", value_share, &args.value_share}},
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
