// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Carries data between CANN and the plan of PrefixEncoder.

#include "../../common/tiling_context.h"
#include "prefix_encoder_host.h"
#include "prefix_encoder_tiling_core.h"

namespace mindspore_relay::aicore::prefix_encoder {
namespace {

constexpr char kOp[] = "prefix_encoder";

bool ReadLengths(gert::TilingContext *context, PrefixEncoderShape *shape, std::string *error) {
  int64_t num_kv_seq_len = 0;
  shape->seq_len = InputInts(context, kSeqLen, &shape->batch_size);
  shape->kv_seq_len = InputInts(context, kKvSeqLen, &num_kv_seq_len);
  return CheckInts(kOp, "seq_len", shape->seq_len, shape->batch_size, shape->batch_size, error) &&
         CheckInts(kOp, "kv_seq_len", shape->kv_seq_len, num_kv_seq_len, shape->batch_size, error);
}

bool ReadAttributes(gert::TilingContext *context, PrefixEncoderShape *shape, std::string *error) {
  const gert::RuntimeAttrs *attributes = context->GetAttrs();
  if (attributes == nullptr) return Fail(error, "%s: there are no attributes", kOp);
  const int64_t *mask_type = attributes->GetAttrPointer<int64_t>(kMaskType);
  const int64_t *head_num = attributes->GetAttrPointer<int64_t>(kHeadNum);
  const int64_t *kv_head_num = attributes->GetAttrPointer<int64_t>(kKvHeadNum);
  const float *qk_scale = attributes->GetAttrPointer<float>(kQkScale);
  if (mask_type == nullptr || head_num == nullptr || kv_head_num == nullptr ||
      qk_scale == nullptr) {
    return Fail(error, "%s: mask_type, head_num, kv_head_num and qk_scale are needed", kOp);
  }
  shape->mask_type = *mask_type;
  shape->head_num = *head_num;
  shape->kv_head_num = *kv_head_num;
  shape->qk_scale = *qk_scale;
  return true;
}

}  // namespace

ge::graphStatus Tile(gert::TilingContext *context) {
  PrefixEncoderShape shape;
  shape.query = InputDims(context, kQuery);
  shape.key = InputDims(context, kKey);
  shape.value = InputDims(context, kValue);
  shape.block_tables = InputDims(context, kBlockTables);
  shape.mask = InputDims(context, kMask);
  shape.slopes = InputDims(context, kSlopes);
  auto *tiling = context->GetTilingData<PrefixEncoderTiling>();
  int64_t workspace_bytes = 0;
  std::string error;
  const bool is_valid =
      ReadAttributes(context, &shape, &error) && ReadLengths(context, &shape, &error) &&
      ComputePrefixEncoderTiling(shape, GetPlatform(context), tiling, &workspace_bytes, &error);
  return FinishTiling(context, is_valid, error, tiling->attention, workspace_bytes);
}

}  // namespace mindspore_relay::aicore::prefix_encoder
