// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Plain float matrix product for the emulated cube unit.
#ifndef ASCENDC_EMULATION_SRC_MATRIX_KERNEL_H_
#define ASCENDC_EMULATION_SRC_MATRIX_KERNEL_H_

#include <cstdint>

namespace ascendc_emulation {

// c [m][n] <- c + a [m][k] . b [k][n], row major without gaps, float accumulation.
void AccumulateProduct(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k);

// Bulk conversions of the cube unit's operand types.
void HalfToFloat(const uint16_t *source, float *target, int64_t count);
void BFloat16ToFloat(const uint16_t *source, float *target, int64_t count);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_MATRIX_KERNEL_H_
