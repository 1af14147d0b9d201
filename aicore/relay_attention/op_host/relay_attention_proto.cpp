// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Shapes and dtypes of the outputs of RelayAttention.

#include "relay_attention_host.h"

namespace mindspore_relay::aicore::relay_attention {

// attn_out: query's shape, as key and value have one head_size on this device. lse: [batch,
// head_num].
ge::graphStatus InferShape(gert::InferShapeContext *context) {
  const gert::Shape *query = context->GetInputShape(kQuery);
  const gert::RuntimeAttrs *attributes = context->GetAttrs();
  gert::Shape *attn_out = context->GetOutputShape(kAttnOut);
  if (query == nullptr || attributes == nullptr || attn_out == nullptr) return ge::GRAPH_FAILED;
  const int64_t *head_num = attributes->GetAttrPointer<int64_t>(kHeadNum);
  if (head_num == nullptr) return ge::GRAPH_FAILED;
  *attn_out = *query;
  if (gert::Shape *lse = context->GetOutputShape(kLse)) {
    lse->SetDimNum(2);
    lse->SetDim(0, query->GetDim(0));
    lse->SetDim(1, *head_num);
  }
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext *context) {
  context->SetOutputDataType(kAttnOut, context->GetInputDataType(kQuery));
  context->SetOutputDataType(kLse, ge::DT_FLOAT);
  return ge::GRAPH_SUCCESS;
}

}  // namespace mindspore_relay::aicore::relay_attention
