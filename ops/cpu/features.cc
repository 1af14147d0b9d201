// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mindspore_relay {
namespace {

#if defined(__x86_64__)

// State components of XCR0 (Intel SDM volume 1, chapter 13): registers the operating system saves.
constexpr uint64_t kXcr0Avx = 0x6;      // SSE and upper halves of ymm
constexpr uint64_t kXcr0Avx512 = 0xe6;  // the above, opmasks, upper halves of zmm0-15, zmm16-31
constexpr uint64_t kXcr0Amx = 0x60000;  // tile configuration and tile data
constexpr long kArchReqXcompPerm =
    0x1023;  // arch_prctl: permission for a state component that is off by default
constexpr unsigned long kXfeatureTileData = 18;

struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};

// All zero for a leaf that the CPU does not have.
CpuidLeaf Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r = {};
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool Bit(uint32_t word, int index) { return ((word >> index) & 1u) != 0; }

uint64_t ReadXcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux keeps tile data off until a process asks for it: without this the first tile instruction is
// a SIGILL.
bool RequestAmxPermission() {
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

bool IsAmd() {
  const CpuidLeaf leaf0 = Cpuid(0, 0);
  char vendor[12];
  std::memcpy(vendor, &leaf0.ebx, 4);
  std::memcpy(vendor + 4, &leaf0.edx, 4);
  std::memcpy(vendor + 8, &leaf0.ecx, 4);
  return std::memcmp(vendor, "AuthenticAMD", 12) == 0 ||
         std::memcmp(vendor, "HygonGenuine", 12) == 0;
}

CpuFeatures Detect() {
  CpuFeatures features = {};
  features.is_amd = IsAmd();
  features.l1_data_bytes = std::max(0l, sysconf(_SC_LEVEL1_DCACHE_SIZE));
  const CpuidLeaf leaf1 = Cpuid(1, 0);
  const bool has_osxsave = Bit(leaf1.ecx, 27);  // without it xgetbv itself is illegal
  if (!has_osxsave) return features;
  const uint64_t xcr0 = ReadXcr0();
  const CpuidLeaf leaf7 = Cpuid(7, 0);
  const CpuidLeaf leaf7_1 = Cpuid(7, 1);

  const bool cpu_fma = Bit(leaf1.ecx, 12);
  const bool cpu_avx = Bit(leaf1.ecx, 28);
  const bool cpu_f16c = Bit(leaf1.ecx, 29);
  const bool cpu_avx2 = Bit(leaf7.ebx, 5);
  features.has_avx2 = cpu_avx && cpu_avx2 && cpu_fma && cpu_f16c && (xcr0 & kXcr0Avx) == kXcr0Avx;

  const bool cpu_avx512 = Bit(leaf7.ebx, 16) && Bit(leaf7.ebx, 17) && Bit(leaf7.ebx, 30) &&
                          Bit(leaf7.ebx, 31);  // F, DQ, BW, VL
  features.has_avx512 = features.has_avx2 && cpu_avx512 && (xcr0 & kXcr0Avx512) == kXcr0Avx512;
  features.has_avx512_bf16 = features.has_avx512 && Bit(leaf7_1.eax, 5);

  const bool cpu_amx = Bit(leaf7.edx, 22) && Bit(leaf7.edx, 24);  // AMX-BF16, AMX-TILE
  features.has_amx_bf16 = features.has_avx512_bf16 && cpu_amx && (xcr0 & kXcr0Amx) == kXcr0Amx &&
                          RequestAmxPermission();
  return features;
}

#elif defined(__aarch64__)

CpuFeatures Detect() {
  CpuFeatures features = {};
  features.has_neon_fp16 = (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0;
  return features;
}

#else

CpuFeatures Detect() { return {}; }

#endif

}  // namespace

const CpuFeatures &GetCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace mindspore_relay
