// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "copy_rules.h"

namespace ascendc_emulation {

void CheckGmAddress(Instruction *instruction, const GmRef &ref) {
  if (reinterpret_cast<uintptr_t>(ref.address) % DTypeBytes(ref.dtype) == 0) return;
  instruction->Fail("alignment", "GM address %p is not aligned to %s",
                    static_cast<const void *>(ref.address), DTypeName(ref.dtype));
}

void CarryUnset(const Instruction::GmRange &source, uint64_t num_bytes, LocalMemory *target,
                uint32_t target_begin) {
  const uint64_t end = source.begin + num_bytes;
  for (uint64_t byte = source.buffer->FindUnset(source.begin, end); byte < end;
       byte = source.buffer->FindUnset(byte + 1, end)) {
    const auto at = static_cast<uint32_t>(target_begin + (byte - source.begin));
    target->MarkUnset(at, at + 1);
  }
}

}  // namespace ascendc_emulation
