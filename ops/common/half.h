// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// float16 and bfloat16 as bits, converted without any instruction set's help. Used by portable code
// only: ISA files bring their own conversions (see tile_kernels.h).
#ifndef MINDSPORE_RELAY_COMMON_HALF_H_
#define MINDSPORE_RELAY_COMMON_HALF_H_

#include <cstdint>
#include <cstring>

namespace mindspore_relay {

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

inline uint32_t FloatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float BitsFloat(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

inline float ToFloat(float x) { return x; }

inline float ToFloat(BFloat16 x) { return BitsFloat(static_cast<uint32_t>(x.bits) << 16); }

// Normal numbers: shift the exponent from bias 15 to 127 by one multiplication with 2^112, which
// also makes subnormals right. Infinity and NaN: the exponent is set to all ones.
inline float ToFloat(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  const float scaled = BitsFloat(magnitude) * BitsFloat(0x77800000u);  // 2^112
  const uint32_t special = (magnitude >= 0x0f800000u) ? 0x7f800000u : 0u;
  return BitsFloat(FloatBits(scaled) | special | sign);
}

inline void FromFloat(float x, float *out) { *out = x; }

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline void FromFloat(float x, BFloat16 *out) {
  const uint32_t bits = FloatBits(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out->bits = static_cast<uint16_t>(is_nan ? ((bits >> 16) | 0x40u) : rounded);
}

// Round to nearest, ties to even; overflow to infinity; subnormals kept; a NaN stays a (quiet) NaN.
inline void FromFloat(float x, Float16 *out) {
  const uint32_t bits = FloatBits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= 0x477ff000u) {  // >= 65520 rounds to infinity
    half = 0x7c00u;
  } else if (magnitude <
             0x38800000u) {  // < 2^-14: subnormal. Adding 0.5 lets the adder round at bit 2^-24
    half = FloatBits(BitsFloat(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  out->bits = static_cast<uint16_t>(sign | half);
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_COMMON_HALF_H_
