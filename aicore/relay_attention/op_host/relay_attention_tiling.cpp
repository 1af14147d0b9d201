// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Carries data between CANN and the plan of RelayAttention.

#include "../../common/tiling_context.h"
#include "relay_attention_host.h"
#include "relay_attention_tiling_core.h"

namespace mindspore_relay::aicore::relay_attention {
namespace {

constexpr char kOp[] = "relay_attention";

bool ReadLengths(gert::TilingContext *context, RelayAttentionShape *shape, std::string *error) {
  int64_t num_seq_len = 0, num_kv_seq_len = 0, num_share_map = 0;
  shape->seq_len = InputInts(context, kSeqLen, &num_seq_len);
  shape->kv_seq_len = InputInts(context, kKvSeqLen, &num_kv_seq_len);
  shape->kv_share_map = InputInts(context, kKvShareMap, &num_share_map);
  shape->kv_share_len = InputInts(context, kKvShareLen, &shape->num_groups);
  const int64_t batch_size = shape->query.empty() ? 0 : shape->query[0];
  // Without groups kv_share_map says nothing and may be absent.
  const int64_t num_mapped = shape->num_groups == 0 ? num_share_map : batch_size;
  return CheckInts(kOp, "seq_len", shape->seq_len, num_seq_len, batch_size, error) &&
         CheckInts(kOp, "kv_seq_len", shape->kv_seq_len, num_kv_seq_len, batch_size, error) &&
         CheckInts(kOp, "kv_share_map", shape->kv_share_map, num_share_map, num_mapped, error) &&
         CheckInts(kOp, "kv_share_len", shape->kv_share_len, shape->num_groups, shape->num_groups,
                   error);
}

bool ReadAttributes(gert::TilingContext *context, RelayAttentionShape *shape, std::string *error) {
  const gert::RuntimeAttrs *attributes = context->GetAttrs();
  if (attributes == nullptr) return Fail(error, "%s: there are no attributes", kOp);
  const int64_t *head_num = attributes->GetAttrPointer<int64_t>(kHeadNum);
  const float *qk_scale = attributes->GetAttrPointer<float>(kQkScale);
  const int64_t *kv_head_num = attributes->GetAttrPointer<int64_t>(kKvHeadNum);
  const int64_t *mask_type = attributes->GetAttrPointer<int64_t>(kMaskType);
  if (head_num == nullptr || qk_scale == nullptr || kv_head_num == nullptr ||
      mask_type == nullptr) {
    return Fail(error, "%s: head_num, qk_scale, kv_head_num and mask_type are needed", kOp);
  }
  shape->head_num = *head_num;
  shape->qk_scale = *qk_scale;
  shape->kv_head_num = *kv_head_num;
  shape->mask_type = *mask_type;
  return true;
}

}  // namespace

ge::graphStatus Tile(gert::TilingContext *context) {
  RelayAttentionShape shape;
  shape.query = InputDims(context, kQuery);
  shape.key = DynamicInputDims(context, kKey);
  shape.value = DynamicInputDims(context, kValue);
  shape.key_share = DynamicInputDims(context, kKeyShare);
  shape.value_share = DynamicInputDims(context, kValueShare);
  shape.block_tables = InputDims(context, kBlockTables);
  shape.share_block_tables = InputDims(context, kShareBlockTables);
  auto *tiling = context->GetTilingData<RelayAttentionTiling>();
  int64_t workspace_bytes = 0;
  std::string error;
  const bool is_valid =
      ReadAttributes(context, &shape, &error) && ReadLengths(context, &shape, &error) &&
      ComputeRelayAttentionTiling(shape, GetPlatform(context), tiling, &workspace_bytes, &error);
  return FinishTiling(context, is_valid, error, tiling->attention, workspace_bytes);
}

}  // namespace mindspore_relay::aicore::relay_attention
