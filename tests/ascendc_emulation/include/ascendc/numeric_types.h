// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// half and bfloat16_t of the device, as storage types with exact conversions to and from float.
//
// float -> half and float -> bfloat16_t round to nearest, ties to even (RoundMode::CAST_RINT); the
// other directions are exact. NaN stays NaN, overflow becomes infinity, subnormals are kept.
#ifndef ASCENDC_NUMERIC_TYPES_H_
#define ASCENDC_NUMERIC_TYPES_H_

#include <cstdint>
#include <cstring>

namespace ascendc_emulation {

inline float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t FloatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Written with selects instead of branches, so that loops over it vectorise.
inline float HalfBitsToFloat(uint16_t half_bits) {
  const uint32_t magnitude = half_bits & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(half_bits & 0x8000u) << 16;
  // 2^112 moves the exponent bias from 15 to 127; it also normalises subnormal halves.
  const float scaled = BitsToFloat(magnitude << 13) * BitsToFloat(0x77800000u);
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return BitsToFloat(FloatToBits(scaled) | special | sign);
}

inline uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = FloatToBits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  // Results below 2^-14: adding 0.5 lets the float adder round to a multiple of 2^-24.
  const uint32_t subnormal = FloatToBits(BitsToFloat(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t tie_to_even = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + tie_to_even) >> 13;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  result = result > 0x7c00u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<uint16_t>(result | sign);
}

inline float BFloat16BitsToFloat(uint16_t bits) {
  return BitsToFloat(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBFloat16Bits(float value) {
  const uint32_t bits = FloatToBits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? ((bits >> 16) | 0x40u) : rounded);
}

// Saturated: the largest number of the sign for an infinity, 0 for NaN.
inline uint16_t SaturateBits(uint16_t bits, uint16_t infinity_bits) {
  const auto magnitude = static_cast<uint16_t>(bits & 0x7fffu);
  if (magnitude < infinity_bits) return bits;
  if (magnitude > infinity_bits) return 0;
  return static_cast<uint16_t>((bits & 0x8000u) | (infinity_bits - 1u));
}
inline uint16_t SaturateHalf(uint16_t bits) { return SaturateBits(bits, 0x7c00u); }
inline uint16_t SaturateBFloat16(uint16_t bits) { return SaturateBits(bits, 0x7f80u); }

}  // namespace ascendc_emulation

// The device compiler knows half as an arithmetic type: conversions to and from float are implicit.
struct half {
  uint16_t bits;

  half() = default;
  half(float value) : bits(ascendc_emulation::FloatToHalfBits(value)) {}
  half(double value) : half(static_cast<float>(value)) {}
  half(int value) : half(static_cast<float>(value)) {}
  operator float() const { return ascendc_emulation::HalfBitsToFloat(bits); }
};

// The device compiler has no arithmetic and no implicit conversion for bfloat16_t on this
// architecture: AscendC::ToFloat and AscendC::ToBfloat16 convert single values, Cast converts
// tensors.
struct bfloat16_t {
  uint16_t bits;
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16_t) == 2, "device layout");

#endif  // ASCENDC_NUMERIC_TYPES_H_
