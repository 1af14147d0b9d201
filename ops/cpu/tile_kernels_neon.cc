// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// NEON of Armv8.2: 4 floats in a register, 32 registers.
//
// Register map of the two products, which do almost all of the work:
//   QK  v  24 dot[6 rows][4 vectors = 16 keys], 4 key vectors, 1 query broadcast
//   PV  v  24 acc[6 rows][4 vectors = 16 value elements], 4 value vectors, 1 probability broadcast
//
// All dtypes are widened to float: half-precision FMA sums lose float16's accuracy
// (docs/cpu_kernels.md).
#include <arm_neon.h>

#include <cstring>
#include <type_traits>

#include "cpu/features.h"
#include "cpu/isa_tables.h"

namespace mindspore_relay::neon {
namespace {

struct Float16Bits {
  uint16_t bits;
};
struct BFloat16Bits {
  uint16_t bits;
};

struct Simd {
  using Vec = float32x4_t;
  static constexpr int32_t kLanes = 4;
  static constexpr int32_t kQkRows = 6;
  static constexpr int32_t kQkVectors = 4;
  static constexpr int32_t kQkKeys = kQkVectors * kLanes;
  static constexpr int32_t kPvRows = 6;
  static constexpr int32_t kPvVectors = 4;

  static Vec Zero() { return vdupq_n_f32(0.0f); }
  static Vec Set1(float x) { return vdupq_n_f32(x); }
  static Vec Load(const float *p) { return vld1q_f32(p); }
  static void Store(float *p, Vec a) { vst1q_f32(p, a); }
  static Vec Iota() {
    const float lanes[4] = {0, 1, 2, 3};
    return vld1q_f32(lanes);
  }
  static Vec Add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec Sub(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec Mul(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  static Vec FmaSub(Vec a, Vec b, Vec c) { return vfmaq_f32(vnegq_f32(c), a, b); }
  static Vec Sqrt(Vec a) { return vsqrtq_f32(a); }
  static Vec Max(Vec a, Vec b) { return vmaxnmq_f32(a, b); }
  static Vec Round(Vec a) { return vrndnq_f32(a); }
  // n is added to the exponent. A NaN n converts to 0.
  static Vec ScaleByPowerOfTwo(Vec a, Vec n) {
    const int32x4_t exponent = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), exponent));
  }
  static Vec AboveFloor(Vec a) { return Sub(a, vrndmq_f32(a)); }
  static Vec ScaleByPowerOfTwoFloor(Vec a, Vec t) { return ScaleByPowerOfTwo(a, vrndmq_f32(t)); }
  static Vec ZeroWhereLess(Vec x, Vec y, Vec a) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), vcltq_f32(x, y)));
  }
  static Vec KeepFirst(Vec a, int32_t count, Vec b) {
    const int32_t lanes[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(lanes), vdupq_n_s32(count)), a, b);
  }
  static Vec ReplaceEqual(Vec a, Vec x, Vec b) { return vbslq_f32(vceqq_f32(a, x), b, a); }

  static Vec LoadElements(const float *p) { return Load(p); }
  static Vec LoadElements(const Float16Bits *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits)));
  }
  static Vec LoadElements(const BFloat16Bits *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&p->bits), 16));
  }
  template <typename T>
  static Vec LoadFirstElements(const T *p, int32_t count) {
    T first[kLanes] = {};
    std::memcpy(first, p, count * sizeof(T));
    return LoadElements(first);
  }
  static void StoreElements(Vec a, float *p) { Store(p, a); }
  static void StoreElements(Vec a, Float16Bits *p) {
    vst1_u16(&p->bits, vreinterpret_u16_f16(vcvt_f16_f32(a)));
  }
  static void StoreElements(Vec a, BFloat16Bits *p) { vst1_u16(&p->bits, NarrowBFloat16(a)); }
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
  static Vec LoadWords(const BFloat16Bits *p) { return vreinterpretq_f32_u16(vld1q_u16(&p->bits)); }
  template <typename T>
  static Vec LoadFirstWords(const T *p, int32_t count) {
    T first[kLanes * kWordElements<T>] = {};
    std::memcpy(first, p, count * kWordElements<T> * sizeof(T));
    return LoadWords(first);
  }
  static void Transpose(Vec *r) {
    const Vec ab_low = vzip1q_f32(r[0], r[2]);
    const Vec ab_high = vzip2q_f32(r[0], r[2]);
    const Vec cd_low = vzip1q_f32(r[1], r[3]);
    const Vec cd_high = vzip2q_f32(r[1], r[3]);
    r[0] = vzip1q_f32(ab_low, cd_low);
    r[1] = vzip2q_f32(ab_low, cd_low);
    r[2] = vzip1q_f32(ab_high, cd_high);
    r[3] = vzip2q_f32(ab_high, cd_high);
  }
  template <int kIndex, typename T>
  static Vec WidenWords(T, Vec words) {
    return words;
  }
  template <int kIndex>
  static Vec WidenWords(BFloat16Bits, Vec words) {
    const uint32x4_t pairs = vreinterpretq_u32_f32(words);
    if (kIndex == 0) return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
    return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
  }

  static void MaxOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    Store(out, vpmaxnmq_f32(vpmaxnmq_f32(a, b), vpmaxnmq_f32(c, d)));
  }
  static void SumOfEach4(Vec a, Vec b, Vec c, Vec d, float *out) {
    Store(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
  }

 private:
  // bits + 0x7fff + (bit 16 of bits) rounds to nearest even; a NaN is cut off and made quiet
  // instead.
  static uint16x4_t NarrowBFloat16(Vec a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16);
  }
};

constexpr int32_t kRowBlock = 24;
constexpr bool kFlushesSubnormals = false;
inline bool FetchesIntoL1() { return true; }

#include "cpu/tile_common.inc"
#include "cpu/tile_kernels_simd.inc"

}  // namespace

const TileKernels kTileKernels = {"neon", MakeKernels<float>(), MakeKernels<Float16Bits>(),
                                  MakeKernels<BFloat16Bits>(), FoldRow};

}  // namespace mindspore_relay::neon
