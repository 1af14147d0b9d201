// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// half and bfloat16_t conversions against definitions in double arithmetic.

#include <cmath>
#include <limits>

#include "test_support.h"

using ascendc_emulation::BFloat16BitsToFloat;
using ascendc_emulation::BitsToFloat;
using ascendc_emulation::FloatToBFloat16Bits;
using ascendc_emulation::FloatToHalfBits;
using ascendc_emulation::HalfBitsToFloat;

namespace {

double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

EMULATION_TEST(EveryHalfHasItsValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfBitsToFloat(static_cast<uint16_t>(bits));
    if ((bits >> 10 & 31) == 31) {
      CHECK((bits & 1023) != 0 ? std::isnan(value) : std::isinf(value));
    } else {
      CHECK(static_cast<double>(value) == HalfValue(static_cast<uint16_t>(bits)));
    }
  }
}

EMULATION_TEST(EveryHalfComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfBitsToFloat(static_cast<uint16_t>(bits));
    const uint16_t back = FloatToHalfBits(value);
    CHECK(std::isnan(value) ? (back & 0x7fff) > 0x7c00 : back == bits);
  }
}

// Between two neighbours: the nearer one, the even one in the middle.
EMULATION_TEST(FloatToHalfRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const double middle = (HalfValue(low) + HalfValue(high)) / 2;
    const auto middle_float = static_cast<float>(middle);
    CHECK(static_cast<double>(middle_float) == middle);
    CHECK(FloatToHalfBits(middle_float) == (bits % 2 == 0 ? low : high));
    CHECK(FloatToHalfBits(std::nextafter(middle_float, 1e9f)) == high);
    CHECK(FloatToHalfBits(std::nextafter(middle_float, -1e9f)) == low);
    CHECK(FloatToHalfBits(-middle_float) == ((bits % 2 == 0 ? low : high) | 0x8000));
  }
}

EMULATION_TEST(FloatToHalfOverflowsToInfinity) {
  CHECK(FloatToHalfBits(65519.99f) == 0x7bff);
  CHECK(FloatToHalfBits(65520.0f) == 0x7c00);
  CHECK(FloatToHalfBits(-1e30f) == 0xfc00);
  CHECK(FloatToHalfBits(std::numeric_limits<float>::infinity()) == 0x7c00);
  CHECK(FloatToHalfBits(1e-30f) == 0);
}

EMULATION_TEST(FloatToBFloat16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000u;
    const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    CHECK(FloatToBFloat16Bits(BitsToFloat(middle)) == even);
    CHECK(FloatToBFloat16Bits(BitsToFloat(middle + 1)) == bits + 1);
    CHECK(FloatToBFloat16Bits(BitsToFloat(middle - 1)) == bits);
    CHECK(FloatToBFloat16Bits(BFloat16BitsToFloat(static_cast<uint16_t>(bits))) == bits);
  }
  CHECK(FloatToBFloat16Bits(BitsToFloat(0x7f7fffffu)) == 0x7f80);
  const uint16_t nan = FloatToBFloat16Bits(BitsToFloat(0x7f800001u));
  CHECK((nan & 0x7f80) == 0x7f80 && (nan & 0x7f) != 0);
}
