// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "matrix_kernel.h"

#include "ascendc/numeric_types.h"

namespace ascendc_emulation {

namespace {

// Rows of c that share one pass over b, and columns of c that stay in cache meanwhile.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 256;

// c rows [4][n] <- c + a rows . b. The loop over n vectorises.
inline __attribute__((always_inline)) void AccumulateBody(const float *a, const float *b, float *c,
                                                          int64_t m, int64_t n, int64_t k) {
  for (int64_t column = 0; column < n; column += kColumns) {
    const int64_t width = n - column < kColumns ? n - column : kColumns;
    int64_t row = 0;
    for (; row + kRows <= m; row += kRows) {
      float sums[kRows][kColumns];
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < width; ++j) sums[r][j] = c[(row + r) * n + column + j];
      }
      for (int64_t i = 0; i < k; ++i) {
        const float *b_row = b + i * n + column;
        const float a0 = a[(row + 0) * k + i], a1 = a[(row + 1) * k + i];
        const float a2 = a[(row + 2) * k + i], a3 = a[(row + 3) * k + i];
        for (int64_t j = 0; j < width; ++j) {
          sums[0][j] += a0 * b_row[j];
          sums[1][j] += a1 * b_row[j];
          sums[2][j] += a2 * b_row[j];
          sums[3][j] += a3 * b_row[j];
        }
      }
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < width; ++j) c[(row + r) * n + column + j] = sums[r][j];
      }
    }
    for (; row < m; ++row) {
      float *c_row = c + row * n + column;
      for (int64_t i = 0; i < k; ++i) {
        const float *b_row = b + i * n + column;
        const float a0 = a[row * k + i];
        for (int64_t j = 0; j < width; ++j) c_row[j] += a0 * b_row[j];
      }
    }
  }
}

void AccumulatePortable(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
  AccumulateBody(a, b, c, m, n, k);
}

#if defined(__x86_64__)
// The same loops for wider registers, chosen at run time: the emulated suite is mostly this
// function.
__attribute__((target("avx2,fma"))) void AccumulateAvx2(const float *a, const float *b, float *c,
                                                        int64_t m, int64_t n, int64_t k) {
  AccumulateBody(a, b, c, m, n, k);
}
__attribute__((target("avx512f"))) void AccumulateAvx512(const float *a, const float *b, float *c,
                                                         int64_t m, int64_t n, int64_t k) {
  AccumulateBody(a, b, c, m, n, k);
}
#endif

using Accumulate = void (*)(const float *, const float *, float *, int64_t, int64_t, int64_t);

Accumulate ChooseAccumulate() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return AccumulateAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return AccumulateAvx2;
#endif
  return AccumulatePortable;
}

}  // namespace

void AccumulateProduct(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
  static const Accumulate chosen = ChooseAccumulate();
  chosen(a, b, c, m, n, k);
}

void HalfToFloat(const uint16_t *source, float *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = HalfBitsToFloat(source[i]);
}

void BFloat16ToFloat(const uint16_t *source, float *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = BFloat16BitsToFloat(source[i]);
}

}  // namespace ascendc_emulation
