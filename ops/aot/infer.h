// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Shape and type inference for ops.Custom.
//
// MindSpore hands an infer function the shapes of the tensors alone: no scalar, no None, and not
// even how many shapes there are. What the shapes of the outputs depend on besides (head_num, the
// number of tensors in a list) travels as the dimensions of the shape carrier, an empty tensor that
// is parameter 0. Of the attention operators:
//   [0, head_num]                                                     prefix_encoder
//   [0, head_num, num key, num value, num key_share, num value_share,
//    num packed_share]                                                relay_attention
// and of pack_share, whose output's shape depends on nothing else:
//   [0, packed_bytes]
// The next three parameters of an attention operator are query, a key and a value, so that no index
// leaves the arrays whatever the rest holds.
//
// An unknown dimension is -1; a tensor of unknown rank has the one dimension -2. Inference never
// judges: shapes that break a rule yield some shape, and the checks that run before the kernel, the
// only copy of the rules, name the mistake.
#ifndef MINDSPORE_RELAY_AOT_INFER_H_
#define MINDSPORE_RELAY_AOT_INFER_H_

#include <cstdint>
#include <vector>

namespace mindspore_relay::aot {

using Shape = std::vector<int64_t>;

constexpr int64_t kUnknownDim = -1;
constexpr int64_t kUnknownRank = -2;

// Dimensions of the shape carrier.
enum CarriedDim : int {
  kCarriedHeadNum = 1,
  kCarriedPackedBytes = 1,
  kCarriedKeys = 2,
  kCarriedValues = 3,
  kCarriedKeyShares = 4,
  kCarriedValueShares = 5,
  kCarriedPackedShares = 6,
};

// Type ids of MindSpore, the same in all versions from 2.7.
constexpr int kInt32TypeId = 34;
constexpr int kUInt8TypeId = 37;
constexpr int kFloat32TypeId = 43;

// The shapes that MindSpore hands to an infer function.
struct InputShapes {
  const int *ranks;
  int64_t *const *shapes;

  Shape Get(int64_t index) const { return Shape(shapes[index], shapes[index] + ranks[index]); }
  int64_t CarriedDim(int dim) const { return shapes[0][dim]; }
};

// Shapes of attn_out and lse of an attention operator.
//   attn_out  query's shape with the value's head size: last dimension * value's last dimension /
//             key's last dimension, which holds for [.., head_num * head_size] and [.., head_num,
//             head_size] alike, as key and value have one layout
//   lse       [nTokens, head_num]
std::vector<Shape> InferAttention(const InputShapes &inputs);

}  // namespace mindspore_relay::aot

#endif  // MINDSPORE_RELAY_AOT_INFER_H_
