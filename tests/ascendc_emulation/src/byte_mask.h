// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Memory state is kept for granules of 32 bytes, with one bit for each byte.
#ifndef ASCENDC_EMULATION_SRC_BYTE_MASK_H_
#define ASCENDC_EMULATION_SRC_BYTE_MASK_H_

#include <algorithm>
#include <cstdint>

namespace ascendc_emulation {

constexpr uint32_t kGranuleBytes = 32;
constexpr uint32_t kFullMask = 0xffffffffu;

// Bits [first, last) of a granule; 0 <= first < last <= 32.
constexpr uint32_t ByteMask(uint32_t first, uint32_t last) {
  const uint32_t upper = last >= 32 ? kFullMask : (1u << last) - 1u;
  return upper & ~((1u << first) - 1u);
}

// The bytes of [begin, end) that lie in a granule.
inline uint32_t MaskInGranule(uint64_t granule, uint64_t begin, uint64_t end) {
  const uint64_t base = granule * kGranuleBytes;
  const uint64_t first = std::max(begin, base) - base;
  const uint64_t last = std::min(end, base + kGranuleBytes) - base;
  return ByteMask(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
}

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_BYTE_MASK_H_
