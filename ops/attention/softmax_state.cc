// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/softmax_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mindspore_relay {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// exp(row_max - new_max): what a sum under row_max weighs under new_max. A sum without keys weighs
// nothing, whatever the maxima; a sum that is NaN must stay so even when its maximum is -inf (all
// its scores are NaN).
float RescaleWeight(float row_max, float row_sum, float new_max) {
  if (std::isnan(row_sum)) return row_sum;
  if (row_max == -kInfinity) return 0.0f;
  return std::exp(row_max - new_max);
}

}  // namespace

void ResetState(const TileState &state, int64_t num_rows) {
  std::memset(state.acc, 0, static_cast<size_t>(num_rows * state.acc_stride) * sizeof(float));
  std::fill_n(state.row_max, num_rows, -kInfinity);
  std::fill_n(state.row_sum, num_rows, 0.0f);
}

void FoldState(const TileKernels &kernels, const TileState &total, const TileState &part,
               int64_t num_rows, int32_t value_head_size) {
  for (int64_t r = 0; r < num_rows; ++r) {
    const float new_max = std::max(total.row_max[r], part.row_max[r]);
    const float total_weight = RescaleWeight(total.row_max[r], total.row_sum[r], new_max);
    const float part_weight = RescaleWeight(part.row_max[r], part.row_sum[r], new_max);
    kernels.fold_row(total.acc + r * total.acc_stride, total_weight, part.acc + r * part.acc_stride,
                     part_weight, value_head_size);
    total.row_sum[r] = total.row_sum[r] * total_weight + part.row_sum[r] * part_weight;
    total.row_max[r] = new_max;
  }
}

void FinishRow(const DTypeKernels &kernels, const float *acc, float row_max, float row_sum,
               int32_t value_head_size, void *out, float *lse) {
  // row_sum is 0 only when the row saw no key: the largest score adds exp(0) = 1. acc is all 0
  // then, and is written.
  const float scale = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
  kernels.store_row(acc, scale, value_head_size, out);
  if (lse != nullptr) *lse = row_sum == 0.0f ? -kInfinity : row_max + std::log(row_sum);
}

MergeWeights ComputeMergeWeights(float lse_a, float lse_b) {
  if (lse_a == kInfinity) lse_a = -kInfinity;
  if (lse_b == kInfinity) lse_b = -kInfinity;
  if (std::isnan(lse_a) || std::isnan(lse_b)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    return {nan, nan, nan};
  }
  const float lse_max = std::max(lse_a, lse_b);
  if (lse_max == -kInfinity) return {0.0f, 0.0f, lse_max};
  const float exp_a = std::exp(lse_a - lse_max);
  const float exp_b = std::exp(lse_b - lse_max);
  const float exp_sum = exp_a + exp_b;
  return {exp_a / exp_sum, exp_b / exp_sum, lse_max + std::log(exp_sum)};
}

}  // namespace mindspore_relay
