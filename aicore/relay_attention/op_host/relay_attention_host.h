// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Order of the inputs, outputs and attributes of RelayAttention: one list for definition, inference
// and tiling. Tensors come first, then the integer lists, as frameworks pass them.

#ifndef MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_HOST_H_
#define MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_HOST_H_

#include <cstddef>

#include "register/op_def_registry.h"

namespace mindspore_relay::aicore::relay_attention {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kKeyShare,
  kValueShare,
  kAttentionMask,
  kBlockTables,
  kShareBlockTables,
  kSeqLen,
  kKvSeqLen,
  kKvShareMap,
  kKvShareLen,
};
enum Output : size_t { kAttnOut, kLse };
enum Attribute : size_t { kHeadNum, kQkScale, kKvHeadNum, kMaskType };

// relay_attention_proto.cpp
ge::graphStatus InferShape(gert::InferShapeContext *context);
ge::graphStatus InferDataType(gert::InferDataTypeContext *context);
// relay_attention_tiling.cpp
ge::graphStatus Tile(gert::TilingContext *context);

}  // namespace mindspore_relay::aicore::relay_attention

#endif  // MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_HOST_H_
