// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What this CPU and this operating system can run. Compiled without ISA flags, so that asking is
// safe on any machine.
#ifndef MINDSPORE_RELAY_CPU_FEATURES_H_
#define MINDSPORE_RELAY_CPU_FEATURES_H_

#include <cstdint>

namespace mindspore_relay {

// A set is present when the CPU reports it and the operating system saves its registers.
struct CpuFeatures {
  bool has_avx2;         // AVX2, FMA and F16C
  bool has_avx512;       // AVX-512 F, BW, DQ and VL, and has_avx2
  bool has_avx512_bf16;  // AVX-512 BF16, and has_avx512
  bool has_amx_bf16;     // AMX TILE and BF16, permitted for this process, and has_avx512_bf16
  bool has_neon_fp16;    // aarch64 with Armv8.2 half-precision arithmetic
  // The vendor is AMD: its vdpbf16ps does two operations where an FMA does one; Intel's does half
  // of one, and Intel's FMA ports are also those that widen.
  bool is_amd;
  int64_t l1_data_bytes;  // of a core; 0: not known
};

// Found once per process. The first call asks Linux for the permission to use AMX tiles where the
// CPU has them.
const CpuFeatures &GetCpuFeatures();

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_CPU_FEATURES_H_
