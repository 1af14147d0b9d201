// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// AVX2 with FMA and F16C: 8 floats in a register, 16 registers.
//
// Register map of the two products, which do almost all of the work:
//   QK  ymm  12 dot[6 rows][2 vectors = 16 keys], 2 key vectors, 1 query broadcast
//   PV  ymm  12 acc[6 rows][2 vectors = 16 value elements], 2 value vectors, 1 probability
//   broadcast
// One step is 12 FMAs for 8 loads; 12 chains hide an FMA's latency of 4 cycles at 2 a cycle.
//
// All dtypes are widened to float.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "cpu/features.h"
#include "cpu/isa_tables.h"

namespace mindspore_relay::avx2 {
namespace {

struct Float16Bits {
  uint16_t bits;
};
struct BFloat16Bits {
  uint16_t bits;
};

struct Simd {
  using Vec = __m256;
  static constexpr int32_t kLanes = 8;
  static constexpr int32_t kQkRows = 6;
  static constexpr int32_t kQkVectors = 2;
  static constexpr int32_t kQkKeys = kQkVectors * kLanes;
  static constexpr int32_t kPvRows = 6;
  static constexpr int32_t kPvVectors = 2;

  static Vec Zero() { return _mm256_setzero_ps(); }
  static Vec Set1(float x) { return _mm256_set1_ps(x); }
  static Vec Load(const float *p) { return _mm256_loadu_ps(p); }
  static void Store(float *p, Vec a) { _mm256_storeu_ps(p, a); }
  static Vec Iota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
  static Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec Sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec FmaSub(Vec a, Vec b, Vec c) { return _mm256_fmsub_ps(a, b, c); }
  static Vec Sqrt(Vec a) { return _mm256_sqrt_ps(a); }
  static Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec Round(Vec a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // n is added to the exponent. A NaN n converts to 0x80000000, of which the shift leaves nothing.
  static Vec ScaleByPowerOfTwo(Vec a, Vec n) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
  }
  static Vec AboveFloor(Vec a) { return Sub(a, _mm256_floor_ps(a)); }
  static Vec ScaleByPowerOfTwoFloor(Vec a, Vec t) {
    return ScaleByPowerOfTwo(a, _mm256_floor_ps(t));
  }
  static Vec ZeroWhereLess(Vec x, Vec y, Vec a) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), a);
  }
  static Vec KeepFirst(Vec a, int32_t count, Vec b) {
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(FirstLanes(count)));
  }
  static Vec ReplaceEqual(Vec a, Vec x, Vec b) {
    return _mm256_blendv_ps(a, b, _mm256_cmp_ps(a, x, _CMP_EQ_OQ));
  }

  static Vec LoadElements(const float *p) { return Load(p); }
  static Vec LoadElements(const Float16Bits *p) { return _mm256_cvtph_ps(Load128(p)); }
  static Vec LoadElements(const BFloat16Bits *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(p)), 16));
  }
  static Vec LoadFirstElements(const float *p, int32_t count) {
    return _mm256_maskload_ps(p, FirstLanes(count));
  }
  template <typename T>
  static Vec LoadFirstElements(const T *p, int32_t count) {
    T first[kLanes] = {};
    std::memcpy(first, p, count * sizeof(T));
    return LoadElements(first);
  }
  static void StoreElements(Vec a, float *p) { Store(p, a); }
  static void StoreElements(Vec a, Float16Bits *p) {
    Store128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void StoreElements(Vec a, BFloat16Bits *p) { Store128(p, NarrowBFloat16(a)); }
  static void StoreFirstElements(Vec a, float *p, int32_t count) {
    _mm256_maskstore_ps(p, FirstLanes(count), a);
  }
  template <typename T>
  static void StoreFirstElements(Vec a, T *p, int32_t count) {
    T all[kLanes];
    StoreElements(a, all);
    std::memcpy(p, all, count * sizeof(T));
  }

  // Of two float16 in a word, taking each out costs more than transposing them widened.
  template <typename T>
  static constexpr int kWordElements = std::is_same_v<T, BFloat16Bits> ? 2 : 1;
  template <typename T>
  static Vec LoadWords(const T *p) {
    return LoadElements(p);
  }
  static Vec LoadWords(const BFloat16Bits *p) { return _mm256_loadu_ps(AsFloats(p)); }
  template <typename T>
  static Vec LoadFirstWords(const T *p, int32_t count) {
    return LoadFirstElements(p, count);
  }
  static Vec LoadFirstWords(const BFloat16Bits *p, int32_t count) {
    return LoadFirstElements(AsFloats(p), count);
  }
  template <int kIndex, typename T>
  static Vec WidenWords(T, Vec words) {
    return words;
  }
  template <int kIndex>
  static Vec WidenWords(BFloat16Bits, Vec words) {
    const __m256i pairs = _mm256_castps_si256(words);
    if (kIndex == 0) return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
  }

  static void MaxOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    const Vec ab = Max(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const Vec cd = Max(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const Vec abcd = Max(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
  }
  static void SumOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    const Vec ab = Add(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const Vec cd = Add(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const Vec abcd = Add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
  }

  // 4x4 blocks inside the 128-bit lanes, then the lanes themselves.
  [[gnu::always_inline]] static void Transpose(Vec *r) {
    Vec t[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      const Vec ab_low = _mm256_unpacklo_ps(r[i], r[i + 1]);
      const Vec ab_high = _mm256_unpackhi_ps(r[i], r[i + 1]);
      const Vec cd_low = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
      const Vec cd_high = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
      t[i + 1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
      t[i + 2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
      t[i + 3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      r[c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x20);
      r[4 + c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x31);
    }
  }

 private:
  static const float *AsFloats(const BFloat16Bits *p) { return reinterpret_cast<const float *>(p); }
  static __m256i FirstLanes(int32_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  template <typename T>
  static __m128i Load128(const T *p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
  }
  template <typename T>
  static void Store128(T *p, __m128i a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), a);
  }
  // bits + 0x7fff + (bit 16 of bits) rounds to nearest even; a NaN is cut off and made quiet
  // instead.
  static __m128i NarrowBFloat16(Vec a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const Vec is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const Vec result =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(result), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
};

constexpr int32_t kRowBlock = 24;
constexpr bool kFlushesSubnormals = false;
inline bool FetchesIntoL1() { return false; }

#include "cpu/tile_common.inc"
#include "cpu/tile_kernels_simd.inc"

}  // namespace

const TileKernels kTileKernels = {"avx2", MakeKernels<float>(), MakeKernels<Float16Bits>(),
                                  MakeKernels<BFloat16Bits>(), FoldRow};

}  // namespace mindspore_relay::avx2
