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

#include "cpu/features.h"
#include "cpu/isa_tables.h"

namespace mindspore_relay::avx512 {
namespace {

constexpr int32_t kRowBlock = 24;
constexpr bool kFlushesSubnormals = false;

#include "cpu/simd_avx512.inc"
#include "cpu/tile_common.inc"
#include "cpu/tile_kernels_simd.inc"

}  // namespace

const TileKernels kTileKernels = {"avx512", MakeKernels<float>(), MakeKernels<Float16Bits>(),
                                  MakeKernels<BFloat16Bits>(), FoldRow};

}  // namespace mindspore_relay::avx512
