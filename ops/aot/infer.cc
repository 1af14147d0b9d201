// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0
#include "aot/infer.h"

#include <algorithm>

#include "common/int_math.h"

namespace mindspore_relay::aot {
namespace {

bool IsRankKnown(const Shape &shape) { return shape.empty() || shape[0] != kUnknownRank; }

Shape InferAttentionOutput(const Shape &query, const Shape &key, const Shape &value) {
  if (!IsRankKnown(query) || query.empty()) return query;
  const auto last_dim = [](const Shape &shape) {
    return IsRankKnown(shape) && !shape.empty() ? shape.back() : kUnknownDim;
  };
  Shape out = query;
  const int64_t query_dim = query.back();
  const int64_t key_dim = last_dim(key);
  const int64_t value_dim = last_dim(value);
  int64_t product;
  if (query_dim < 0 || key_dim < 0 || value_dim < 0) {
    out.back() = kUnknownDim;
  } else if (key_dim > 0 && MultiplyFits(query_dim, value_dim, &product)) {
    out.back() = product / key_dim;
  }
  return out;
}

Shape InferLse(const Shape &query, int64_t head_num) {
  if (!IsRankKnown(query) || query.empty()) return {kUnknownDim, head_num};
  // A head_num that does not fit the query is an error that the checks name. They run after the
  // outputs were allocated, so the shape must not become huge meanwhile.
  const int64_t limit = query.size() > 1 ? query[1] : kUnknownDim;
  return {query[0], limit < 0 ? head_num : std::min(head_num, limit)};
}

}  // namespace

std::vector<Shape> InferAttention(const InputShapes &inputs) {
  const Shape query = inputs.Get(1);
  return {InferAttentionOutput(query, inputs.Get(2), inputs.Get(3)),
          InferLse(query, inputs.CarriedDim(kCarriedHeadNum))};
}

}  // namespace mindspore_relay::aot
