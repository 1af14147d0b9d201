// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Writes to GM that combine with the value that is there.
#ifndef ASCENDC_EMULATION_SRC_ATOMIC_WRITE_H_
#define ASCENDC_EMULATION_SRC_ATOMIC_WRITE_H_

#include <cstdint>

#include "instruction.h"

namespace ascendc_emulation {

// Fails unless the instruction's data type fits the atomic mode that is switched on.
void CheckAtomic(Instruction *instruction, DType dtype);

// target <- target (op) source, or a plain copy when no atomic mode is on. num_bytes is a multiple
// of the element size.
void StoreToGm(const SpecialRegisters &registers, DType dtype, uint8_t *target,
               const uint8_t *source, uint64_t num_bytes);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_ATOMIC_WRITE_H_
