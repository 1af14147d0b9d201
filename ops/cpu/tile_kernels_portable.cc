// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The specification of the tile kernels: plain C++, any CPU. Every step is written so that a
// compiler may vectorise it without reordering a sum: scores run over the keys of a tile,
// accumulators over the elements of a value.
//
// float16 and bfloat16 are widened to float once per tile; products, sums and probabilities are
// float.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "common/half.h"
#include "common/int_math.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay::portable {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kAlignBytes = 64;

// exp(x) for x <= 0 by range reduction x = n ln2 + r, |r| <= ln2 / 2, and a polynomial of degree 7
// in r. Maximum relative error 1.2e-7 on [-87.3, 0]; 0 below, where exp(x) is subnormal; -inf -> 0;
// NaN stays NaN. Proved by tests/cpp/test_tile_kernels.cc.
inline float ExpNonPositive(float x) {
  constexpr float kLowest = -87.3f;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * kLog2E + kRoundMagic;
  const float n = shifted - kRoundMagic;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float poly = 1.9841270e-4f;
  poly = poly * r + 1.3888889e-3f;
  poly = poly * r + 8.3333333e-3f;
  poly = poly * r + 4.1666667e-2f;
  poly = poly * r + 1.6666667e-1f;
  poly = poly * r + 0.5f;
  poly = poly * r + 1.0f;
  poly = poly * r + 1.0f;
  // 2^n through the exponent bits: the low bits of `shifted` hold n.
  const uint32_t power = (FloatBits(shifted) << 23) + 0x3f800000u;
  const float result = poly * BitsFloat(power);
  return x < kLowest ? 0.0f : result;
}

int64_t PackedQueryBytes(int32_t num_rows, int32_t head_size) {
  return RoundUp(int64_t{num_rows} * head_size * static_cast<int64_t>(sizeof(float)), kAlignBytes);
}

// Scratch: key^T [head_size][kKeyTile], values [kKeyTile][value_head_size], scores [kKeyTile], sums
// [value_head_size].
int64_t ScratchBytes(int32_t head_size, int32_t value_head_size) {
  const int64_t elements =
      int64_t{kKeyTile} * (int64_t{head_size} + value_head_size + 1) + value_head_size;
  return RoundUp(elements * static_cast<int64_t>(sizeof(float)), kAlignBytes);
}

template <typename T>
void LoadRow(const void *in, int32_t num_elements, float *out) {
  const T *typed = static_cast<const T *>(in);
  for (int32_t i = 0; i < num_elements; ++i) out[i] = ToFloat(typed[i]);
}

template <typename T>
void StoreRow(const float *acc, float scale, int32_t num_elements, void *out) {
  T *typed = static_cast<T *>(out);
  for (int32_t i = 0; i < num_elements; ++i) FromFloat(acc[i] * scale, &typed[i]);
}

template <typename T>
void PackQuery(const void *const *rows, int32_t num_rows, int32_t head_size, void *packed) {
  for (int32_t r = 0; r < num_rows; ++r) {
    LoadRow<T>(rows[r], head_size, static_cast<float *>(packed) + int64_t{r} * head_size);
  }
}

// A tile widened to float: key^T so that scores run over keys, and values as they are.
struct FloatTile {
  float *key_transposed;  // [head_size][kKeyTile]
  float *value;           // [kKeyTile][value_head_size]
  float *scores;          // [kKeyTile], of one row
  float *sums;            // [value_head_size], of one row
};

template <typename T>
FloatTile LoadTile(const AttendArgs &args) {
  FloatTile tile;
  tile.key_transposed = static_cast<float *>(args.scratch);
  tile.value = tile.key_transposed + int64_t{kKeyTile} * args.head_size;
  tile.scores = tile.value + int64_t{kKeyTile} * args.value_head_size;
  tile.sums = tile.scores + kKeyTile;
  for (int32_t c = 0; c < args.tile.num_keys; ++c) {
    const char *key_row =
        static_cast<const char *>(args.tile.key_rows[c]) + args.tile.key_offset_bytes;
    const T *key = reinterpret_cast<const T *>(key_row);
    for (int32_t d = 0; d < args.head_size; ++d)
      tile.key_transposed[d * kKeyTile + c] = ToFloat(key[d]);
    const char *value_row =
        static_cast<const char *>(args.tile.value_rows[c]) + args.tile.value_offset_bytes;
    LoadRow<T>(value_row, args.value_head_size, tile.value + int64_t{c} * args.value_head_size);
  }
  // Keys past the end: zero, so that the fixed-length loops below read defined numbers. Their
  // scores are not used.
  for (int32_t c = args.tile.num_keys; c < kKeyTile; ++c) {
    for (int32_t d = 0; d < args.head_size; ++d) tile.key_transposed[d * kKeyTile + c] = 0.0f;
  }
  return tile;
}

// Partial sums of a dot product, joined in pairs at the end. One running sum of head_size terms
// loses about twice the bits that a library's blocked sum does, which shows in float32 results with
// large scores. head_size is a multiple of it.
constexpr int32_t kDotChains = 4;

// scores[c] <- qk_scale * (query . key[c])
void ComputeScores(const float *query, const float *key_transposed, int32_t head_size,
                   float qk_scale, float *scores) {
  float dot[kDotChains][kKeyTile] = {};
  for (int32_t d = 0; d < head_size; d += kDotChains) {
    const float *key = key_transposed + int64_t{d} * kKeyTile;
    for (int32_t i = 0; i < kDotChains; ++i) {
      const float q = query[d + i];
      for (int32_t c = 0; c < kKeyTile; ++c) dot[i][c] += q * key[i * kKeyTile + c];
    }
  }
  for (int32_t c = 0; c < kKeyTile; ++c)
    scores[c] = ((dot[0][c] + dot[1][c]) + (dot[2][c] + dot[3][c])) * qk_scale;
}

// scores[c] <- scores[c] + bias(row, c), for the visible keys
template <typename T>
void AddBias(const TileMask &mask, int32_t row, int32_t num_visible, float *scores) {
  switch (mask.bias) {
    case BiasKind::kNone:
      return;
    case BiasKind::kLinear:
      for (int32_t c = 0; c < num_visible; ++c) {
        scores[c] +=
            mask.slope[row] * (mask.distance[row] + mask.distance_step * static_cast<float>(c));
      }
      return;
    case BiasKind::kSqrt:
      for (int32_t c = 0; c < num_visible; ++c) {
        scores[c] += mask.slope[row] *
                     std::sqrt(mask.distance[row] + mask.distance_step * static_cast<float>(c));
      }
      return;
    case BiasKind::kTable: {
      const T *bias = static_cast<const T *>(mask.bias_rows[row]);
      for (int32_t c = 0; c < num_visible; ++c) scores[c] += ToFloat(bias[c]);
      return;
    }
  }
}

// One row joins the scores of a tile:
//   new_max <- max(row_max, max(scores))
//   alpha   <- exp(row_max - new_max)        rescales what was summed under the old maximum
//   scores  <- exp(scores - new_max)
//   row_sum <- row_sum * alpha + sum(scores)
// A maximum that is still -inf stands for "no key yet": 0 is subtracted instead, so that exp(-inf)
// = 0 and not NaN. Returns alpha.
float SoftmaxStep(int32_t num_visible, float *scores, float *row_max, float *row_sum) {
  float new_max = *row_max;
  for (int32_t c = 0; c < num_visible; ++c) new_max = scores[c] > new_max ? scores[c] : new_max;
  const float base = new_max == kNegativeInfinity ? 0.0f : new_max;
  const float alpha = ExpNonPositive(*row_max - base);
  float sum = 0.0f;
  for (int32_t c = 0; c < num_visible; ++c) {
    scores[c] = ExpNonPositive(scores[c] - base);
    sum += scores[c];
  }
  *row_sum = *row_sum * alpha + sum;
  *row_max = new_max;
  return alpha;
}

template <typename T>
void Attend(const AttendArgs &args) {
  const FloatTile tile = LoadTile<T>(args);
  for (int32_t r = 0; r < args.num_rows; ++r) {
    const int32_t num_visible =
        args.mask.visible_keys == nullptr ? args.tile.num_keys : args.mask.visible_keys[r];
    if (num_visible == 0) continue;
    const float *query = static_cast<const float *>(args.query) + int64_t{r} * args.head_size;
    ComputeScores(query, tile.key_transposed, args.head_size, args.qk_scale, tile.scores);
    AddBias<T>(args.mask, r, num_visible, tile.scores);
    const float alpha =
        SoftmaxStep(num_visible, tile.scores, &args.state.row_max[r], &args.state.row_sum[r]);
    // acc <- acc * alpha + scores . value, the product summed on its own first: small terms are not
    // lost in a large acc.
    for (int32_t d = 0; d < args.value_head_size; ++d) tile.sums[d] = 0.0f;
    for (int32_t c = 0; c < num_visible; ++c) {
      const float p = tile.scores[c];
      const float *value = tile.value + int64_t{c} * args.value_head_size;
      for (int32_t d = 0; d < args.value_head_size; ++d) tile.sums[d] += p * value[d];
    }
    float *acc = args.state.acc + r * args.state.acc_stride;
    for (int32_t d = 0; d < args.value_head_size; ++d) acc[d] = acc[d] * alpha + tile.sums[d];
  }
}

void FoldRow(float *acc_a, float weight_a, const float *acc_b, float weight_b,
             int32_t num_elements) {
  for (int32_t i = 0; i < num_elements; ++i) acc_a[i] = acc_a[i] * weight_a + acc_b[i] * weight_b;
}

template <typename T>
constexpr DTypeKernels MakeKernels() {
  return {kKeyTile,     0,         128,         PackedQueryBytes, ScratchBytes,
          PackQuery<T>, Attend<T>, StoreRow<T>, LoadRow<T>};
}

}  // namespace

extern const TileKernels kTileKernels;
const TileKernels kTileKernels = {"portable", MakeKernels<float>(), MakeKernels<Float16>(),
                                  MakeKernels<BFloat16>(), FoldRow};

}  // namespace mindspore_relay::portable
