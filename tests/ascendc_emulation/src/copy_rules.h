// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What all copies out of GM have in common.
#ifndef ASCENDC_EMULATION_SRC_COPY_RULES_H_
#define ASCENDC_EMULATION_SRC_COPY_RULES_H_

#include <cstdint>

#include "instruction.h"

namespace ascendc_emulation {

constexpr int64_t kBlockBytes = 32;

// Fails unless the address is a multiple of the element size.
void CheckGmAddress(Instruction *instruction, const GmRef &ref);

// Marks the bytes of a finished local write unset whose GM source is unset.
void CarryUnset(const Instruction::GmRange &source, uint64_t num_bytes, LocalMemory *target,
                uint32_t target_begin);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_COPY_RULES_H_
