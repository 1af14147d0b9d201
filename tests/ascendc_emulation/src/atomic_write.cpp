// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "atomic_write.h"

#include <algorithm>
#include <cstring>

#include "ascendc/numeric_types.h"

namespace ascendc_emulation {

namespace {

template <typename T>
T Combine(AtomicMode mode, T present, T added) {
  switch (mode) {
    case AtomicMode::kAdd:
      return static_cast<T>(present + added);
    case AtomicMode::kMax:
      return std::max(present, added);
    case AtomicMode::kMin:
      return std::min(present, added);
    case AtomicMode::kNone:
      break;
  }
  return added;
}

template <typename T>
void CombineAll(AtomicMode mode, uint8_t *target, const uint8_t *source, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T present, added;
    std::memcpy(&present, target + i * sizeof(T), sizeof(T));
    std::memcpy(&added, source + i * sizeof(T), sizeof(T));
    const T result = Combine(mode, present, added);
    std::memcpy(target + i * sizeof(T), &result, sizeof(T));
  }
}

void CombineAll16(AtomicMode mode, bool is_half, uint8_t *target, const uint8_t *source,
                  uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t present, added;
    std::memcpy(&present, target + i * 2, 2);
    std::memcpy(&added, source + i * 2, 2);
    const float result =
        is_half ? Combine(mode, HalfBitsToFloat(present), HalfBitsToFloat(added))
                : Combine(mode, BFloat16BitsToFloat(present), BFloat16BitsToFloat(added));
    const uint16_t bits = is_half ? FloatToHalfBits(result) : FloatToBFloat16Bits(result);
    std::memcpy(target + i * 2, &bits, 2);
  }
}

}  // namespace

void CheckAtomic(Instruction *instruction, DType dtype) {
  const SpecialRegisters &registers = instruction->core().registers;
  if (registers.atomic_mode == AtomicMode::kNone || registers.atomic_dtype == dtype) return;
  instruction->Fail("data type", "atomic writes are on for %s, this instruction writes %s",
                    DTypeName(registers.atomic_dtype), DTypeName(dtype));
}

void StoreToGm(const SpecialRegisters &registers, DType dtype, uint8_t *target,
               const uint8_t *source, uint64_t num_bytes) {
  const AtomicMode mode = registers.atomic_mode;
  if (mode == AtomicMode::kNone) {
    std::memcpy(target, source, num_bytes);
    return;
  }
  const uint64_t count = num_bytes / DTypeBytes(dtype);
  switch (dtype) {
    case DType::kFloat:
      return CombineAll<float>(mode, target, source, count);
    case DType::kInt32:
      return CombineAll<int32_t>(mode, target, source, count);
    case DType::kInt16:
      return CombineAll<int16_t>(mode, target, source, count);
    case DType::kHalf:
    case DType::kBFloat16:
      return CombineAll16(mode, dtype == DType::kHalf, target, source, count);
    default:
      return;  // SetAtomic refuses every other type.
  }
}

void SetAtomic(AtomicMode mode, DType dtype) {
  Instruction instruction(Pipe::kS, "SetAtomic");
  switch (dtype) {
    case DType::kFloat:
    case DType::kHalf:
    case DType::kBFloat16:
    case DType::kInt32:
    case DType::kInt16:
      break;
    default:
      instruction.Fail("data type", "GM has no atomic operation on %s", DTypeName(dtype));
  }
  instruction.core().registers.atomic_mode = mode;
  instruction.core().registers.atomic_dtype = dtype;
}

}  // namespace ascendc_emulation
