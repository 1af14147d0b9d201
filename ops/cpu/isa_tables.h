// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The tables that the ISA files define, for tile_kernels.cc and for tests. A table is present in
// the library when the build defines MINDSPORE_RELAY_HAVE_<ISA>; it may be called only where
// GetCpuFeatures() says so.
#ifndef MINDSPORE_RELAY_CPU_ISA_TABLES_H_
#define MINDSPORE_RELAY_CPU_ISA_TABLES_H_

#include "cpu/tile_kernels.h"

namespace mindspore_relay {

namespace portable {
extern const TileKernels kTileKernels;
}

namespace avx2 {
extern const TileKernels kTileKernels;
}

// Needs no AVX-512 BF16: bfloat16 is widened to float.
namespace avx512 {
extern const TileKernels kTileKernels;
}

// bfloat16 by vdpbf16ps.
namespace avx512_bf16 {
extern const DTypeKernels kBFloat16Kernels;
}

// 16-bit dtypes by tile products. float32 has no tile product: the "amx" table takes it from
// avx512.
namespace amx {
extern const DTypeKernels kFloat16Kernels;
extern const DTypeKernels kBFloat16Kernels;
}  // namespace amx

namespace neon {
extern const TileKernels kTileKernels;
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_CPU_ISA_TABLES_H_
