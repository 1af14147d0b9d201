// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// AVX-512 (F, BW, DQ, VL): 16 floats in a register, 32 registers.
//
// Register map of the two products, which do almost all of the work:
//   QK  zmm  24 dot[6 rows][4 vectors = 64 keys], 4 key vectors, 1 query broadcast
//   PV  zmm  24 acc[6 rows][4 vectors = 64 value elements], 4 value vectors, 1 probability
//   broadcast
// One step is 24 FMAs for 10 loads: two FMA units stay busy while L1 gives two vectors a cycle.
//
// All dtypes are widened to float. Half-precision FMA (AVX-512 FP16) is not used: its sums lose
// float16's accuracy (docs/cpu_kernels.md).
#include <immintrin.h>

#include "cpu/isa_tables.h"

namespace mindspore_relay::avx512 {
namespace {

struct Float16Bits {
  uint16_t bits;
};
struct BFloat16Bits {
  uint16_t bits;
};

struct Simd {
  using Vec = __m512;
  static constexpr int32_t kLanes = 16;
  static constexpr int32_t kQkRows = 6;
  static constexpr int32_t kQkVectors = 4;
  static constexpr int32_t kPvRows = 6;
  static constexpr int32_t kPvVectors = 4;

  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Set1(float x) { return _mm512_set1_ps(x); }
  static Vec Load(const float *p) { return _mm512_loadu_ps(p); }
  static void Store(float *p, Vec a) { _mm512_storeu_ps(p, a); }
  static Vec Iota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec FmaSub(Vec a, Vec b, Vec c) { return _mm512_fmsub_ps(a, b, c); }
  static Vec Sqrt(Vec a) { return _mm512_sqrt_ps(a); }
  static Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec Round(Vec a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vec ScaleByPowerOfTwo(Vec a, Vec n) { return _mm512_scalef_ps(a, n); }
  static Vec ZeroWhereLess(Vec x, Vec y, Vec a) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_NLT_UQ), a);
  }
  static Vec KeepFirst(Vec a, int32_t count, Vec b) {
    return _mm512_mask_mov_ps(b, FirstLanes(count), a);
  }
  static Vec ReplaceEqual(Vec a, Vec x, Vec b) {
    return _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, x, _CMP_EQ_OQ), b);
  }

  static Vec LoadElements(const float *p) { return Load(p); }
  static Vec LoadElements(const Float16Bits *p) { return WidenFloat16(Load256(p)); }
  static Vec LoadElements(const BFloat16Bits *p) { return WidenBFloat16(Load256(p)); }
  static Vec LoadFirstElements(const float *p, int32_t count) {
    return _mm512_maskz_loadu_ps(FirstLanes(count), p);
  }
  static Vec LoadFirstElements(const Float16Bits *p, int32_t count) {
    return WidenFloat16(_mm256_maskz_loadu_epi16(FirstLanes(count), p));
  }
  static Vec LoadFirstElements(const BFloat16Bits *p, int32_t count) {
    return WidenBFloat16(_mm256_maskz_loadu_epi16(FirstLanes(count), p));
  }
  static void StoreElements(Vec a, float *p) { Store(p, a); }
  static void StoreElements(Vec a, Float16Bits *p) { Store256(p, NarrowFloat16(a)); }
  static void StoreElements(Vec a, BFloat16Bits *p) { Store256(p, NarrowBFloat16(a)); }
  static void StoreFirstElements(Vec a, float *p, int32_t count) {
    _mm512_mask_storeu_ps(p, FirstLanes(count), a);
  }
  static void StoreFirstElements(Vec a, Float16Bits *p, int32_t count) {
    _mm256_mask_storeu_epi16(p, FirstLanes(count), NarrowFloat16(a));
  }
  static void StoreFirstElements(Vec a, BFloat16Bits *p, int32_t count) {
    _mm256_mask_storeu_epi16(p, FirstLanes(count), NarrowBFloat16(a));
  }

  // out[i][0 .. 15] <- element first + i of 16 rows, for i < num_elements (8 or 16). Rows past
  // num_rows give 0.
  template <typename T>
  static void TransposeKeys(const T *const *rows, int32_t num_rows, int32_t first,
                            int32_t num_elements, float *out) {
    Vec r[16];
    if (num_rows == 16 && num_elements == 16) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) r[i] = LoadElements(rows[i] + first);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        r[i] = i < num_rows ? LoadFirstElements(rows[i] + first, num_elements) : Zero();
      }
    }
    Transpose16x16(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i < num_elements) Store(out + i * kKeyTile, r[i]);
    }
  }

  static void MaxOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    const Vec ab = Max(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const Vec cd = Max(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const Vec abcd = Max(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half =
        _mm256_max_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  static void SumOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    const Vec ab = Add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const Vec cd = Add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const Vec abcd = Add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }

 private:
  static __mmask16 FirstLanes(int32_t count) {
    const int32_t lanes = count < 0 ? 0 : (count > 16 ? 16 : count);
    return static_cast<__mmask16>((1u << lanes) - 1u);
  }
  template <typename T>
  static __m256i Load256(const T *p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
  }
  template <typename T>
  static void Store256(T *p, __m256i a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), a);
  }
  static Vec WidenFloat16(__m256i a) { return _mm512_cvtph_ps(a); }
  static Vec WidenBFloat16(__m256i a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
  }
  static __m256i NarrowFloat16(Vec a) {
    return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // bits + 0x7fff + (bit 16 of bits) rounds to nearest even; a NaN is cut off and made quiet
  // instead.
  static __m256i NarrowBFloat16(Vec a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_mov_epi32(rounded, is_nan, quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16));
  }

  // r[i] lane j <- r[j] lane i: 4x4 blocks inside the 128-bit lanes, then the lanes themselves.
  static void Transpose16x16(Vec *r) {
    Vec t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const Vec ab_low = _mm512_unpacklo_ps(r[i], r[i + 1]);
      const Vec ab_high = _mm512_unpackhi_ps(r[i], r[i + 1]);
      const Vec cd_low = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
      const Vec cd_high = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
      t[i + 1] = _mm512_shuffle_ps(ab_low, cd_low, 0xee);
      t[i + 2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
      t[i + 3] = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
    }
    // t[4 g + c], 128-bit lane l: rows 4 g .. 4 g + 3 of column 4 l + c.
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Vec low_01 = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x44);
      const Vec high_01 = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xee);
      const Vec low_23 = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x44);
      const Vec high_23 = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xee);
      r[c] = _mm512_shuffle_f32x4(low_01, low_23, 0x88);
      r[4 + c] = _mm512_shuffle_f32x4(low_01, low_23, 0xdd);
      r[8 + c] = _mm512_shuffle_f32x4(high_01, high_23, 0x88);
      r[12 + c] = _mm512_shuffle_f32x4(high_01, high_23, 0xdd);
    }
  }
};

#include "cpu/tile_kernels_simd.inc"

}  // namespace

const TileKernels kTileKernels = {"avx512", MakeKernels<float>(), MakeKernels<Float16Bits>(),
                                  MakeKernels<BFloat16Bits>(), FoldRow};

}  // namespace mindspore_relay::avx512
