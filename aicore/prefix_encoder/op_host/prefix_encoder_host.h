// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Order of the inputs, outputs and attributes of PrefixEncoder: one list for definition, inference
// and tiling. Tensors come first, then the integer lists, as frameworks pass them.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_HOST_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_HOST_H_

#include <cstddef>

#include "register/op_def_registry.h"

namespace mindspore_relay::aicore::prefix_encoder {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kBlockTables,
  kMask,
  kSlopes,
  kSeqLen,
  kKvSeqLen,
};
enum Output : size_t { kAttnOut, kLse };
enum Attribute : size_t { kMaskType, kHeadNum, kKvHeadNum, kQkScale };

// prefix_encoder_proto.cpp
ge::graphStatus InferShape(gert::InferShapeContext *context);
ge::graphStatus InferDataType(gert::InferDataTypeContext *context);
// prefix_encoder_tiling.cpp
ge::graphStatus Tile(gert::TilingContext *context);

}  // namespace mindspore_relay::aicore::prefix_encoder

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_HOST_H_
