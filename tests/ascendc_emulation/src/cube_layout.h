// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Layouts of the cube unit in fractals of 16 x 16 elements (512 bytes of a 16-bit type):
//   L0A Zz  element (m, k): fractal (m / 16) * ceil(K / 16) + k / 16, inside m % 16 * 16 + k % 16
//   L0B Zn  element (k, n): fractal (k / 16) * ceil(N / 16) + n / 16, inside n % 16 * 16 + k % 16
//   L0C Nz  element (m, n): (n / 16) * ceil16(M) * 16 + m * 16 + n % 16, float
#ifndef ASCENDC_EMULATION_SRC_CUBE_LAYOUT_H_
#define ASCENDC_EMULATION_SRC_CUBE_LAYOUT_H_

#include <cstdint>

namespace ascendc_emulation {

constexpr int64_t kFractalSide = 16;
constexpr int64_t kFractalBytes = 512;
constexpr int64_t kFractalRowBytes = 32;  // a row of a 16-bit fractal
constexpr int64_t kResultRowBytes = 64;   // a row of a float fractal in L0C
constexpr int64_t kL0Alignment = 512;
// m, n, k of Mmad and nSize of Fixpipe, as documented.
constexpr int64_t kMaxMatrixSide = 4095;

constexpr int64_t CeilDiv(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_CUBE_LAYOUT_H_
