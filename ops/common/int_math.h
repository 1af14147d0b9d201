// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Integer arithmetic that cannot overflow in silence.
#ifndef MINDSPORE_RELAY_COMMON_INT_MATH_H_
#define MINDSPORE_RELAY_COMMON_INT_MATH_H_

#include <cstdint>

namespace mindspore_relay {

// a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// *product <- a * b; false when it does not fit.
inline bool MultiplyFits(int64_t a, int64_t b, int64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

// *sum <- a + b; false when it does not fit.
inline bool AddFits(int64_t a, int64_t b, int64_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_COMMON_INT_MATH_H_
