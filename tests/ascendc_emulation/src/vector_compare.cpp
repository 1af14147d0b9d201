// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Compare, CompareScalar and Select.

#include <cmath>
#include <cstring>

#include "ascendc/numeric_types.h"
#include "vector_plan.h"

namespace ascendc_emulation {

namespace {

// The values of AscendC::CMPMODE and AscendC::SELMODE.
enum class Comparison { kLess, kGreater, kEqual, kLessEqual, kGreaterEqual, kNotEqual };
enum class SelectMode { kOneMask, kTensorScalar, kTensorTensor };

bool Holds(Comparison comparison, double a, double b) {
  switch (comparison) {
    case Comparison::kLess:
      return a < b;
    case Comparison::kGreater:
      return a > b;
    case Comparison::kEqual:
      return a == b;
    case Comparison::kLessEqual:
      return a <= b;
    case Comparison::kGreaterEqual:
      return a >= b;
    case Comparison::kNotEqual:
      return a != b;
  }
  return false;
}

double LoadNumber(const uint8_t *data, DType dtype) {
  if (dtype == DType::kHalf) {
    uint16_t bits;
    std::memcpy(&bits, data, sizeof(bits));
    return HalfBitsToFloat(bits);
  }
  if (dtype == DType::kInt32) {
    int32_t value;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
  float value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

int64_t ElementOffset(const VectorOperand &operand, int64_t repeat, int64_t element_index) {
  const int64_t element = DTypeBytes(operand.ref.dtype);
  const int64_t per_block = kVectorBlockBytes / element;
  return (repeat * operand.repeat_stride + element_index / per_block * operand.block_stride) *
             kVectorBlockBytes +
         element_index % per_block * element;
}

void CheckBitTensor(Instruction *instruction, const LocalRef &ref, const char *operand) {
  instruction->CheckLocal(ref, operand, kVectorBlockBytes);
  if (ref.memory != Memory::kUb) {
    instruction->Fail("wrong memory", "vector instructions work on UB");
  }
}

}  // namespace

// Bit i of the result belongs to element i; whole repeats only, the mask is not used on this
// device.
void VectorCompare(const char *name, const LocalRef &target, const VectorOperand &left,
                   const VectorOperand *right, ScalarValue scalar, int comparison_mode,
                   const VectorMask &mask, int64_t repeat_times) {
  Instruction instruction(Pipe::kV, name);
  const DType dtype = left.ref.dtype;
  const auto comparison = static_cast<Comparison>(comparison_mode);
  const bool is_integer_equality = dtype == DType::kInt32 && comparison == Comparison::kEqual;
  if (!is_integer_equality) {
    CheckVectorType(&instruction, dtype, {DType::kHalf, DType::kFloat});
  }
  CheckBitTensor(&instruction, target, "destination");
  const int64_t element = DTypeBytes(dtype);
  const int64_t per_repeat = kRepeatBytes / element;
  if (mask.kind == VectorMask::Kind::kCount) {
    const auto count = static_cast<int64_t>(mask.bits[0]);
    if (count * element % kRepeatBytes != 0) {
      instruction.Fail("length",
                       "compares %lld elements; the count must fill whole repeats of 256 "
                       "bytes",
                       static_cast<long long>(count));
    }
    repeat_times = count / per_repeat;
  }
  const VectorMask all{VectorMask::Kind::kContiguous, {static_cast<uint64_t>(per_repeat), 0}};
  VectorPlan left_plan(&instruction, {left}, all, repeat_times);
  left_plan.Read(0);
  if (right != nullptr) {
    VectorPlan right_plan(&instruction, {*right}, all, repeat_times);
    right_plan.Read(0);
  }
  const int64_t num_bytes = repeat_times * per_repeat / 8;
  instruction.WriteLocal(target, 0, static_cast<uint64_t>(num_bytes));
  const uint8_t *a = instruction.LocalData(left.ref);
  const uint8_t *b = right == nullptr ? nullptr : instruction.LocalData(right->ref);
  const double scalar_value =
      dtype == DType::kInt32 ? static_cast<double>(scalar.integer) : scalar.real;
  std::vector<uint8_t> bits(static_cast<size_t>(num_bytes), 0);
  for (int64_t i = 0; i < repeat_times * per_repeat; ++i) {
    const int64_t repeat = i / per_repeat;
    const double left_value = LoadNumber(a + ElementOffset(left, repeat, i % per_repeat), dtype);
    const double right_value =
        b == nullptr ? scalar_value
                     : LoadNumber(b + ElementOffset(*right, repeat, i % per_repeat), dtype);
    if (Holds(comparison, left_value, right_value)) {
      bits[static_cast<size_t>(i / 8)] |= static_cast<uint8_t>(1u << (i % 8));
    }
  }
  std::memcpy(instruction.LocalData(target), bits.data(), bits.size());
  instruction.Commit();
}

void VectorSelect(const VectorOperand &target, const LocalRef &select_mask,
                  const VectorOperand &left, const VectorOperand *right, ScalarValue scalar,
                  int select_mode, const VectorMask &mask, int64_t repeat_times) {
  Instruction instruction(Pipe::kV, "Select");
  const DType dtype = target.ref.dtype;
  CheckVectorType(&instruction, dtype, {DType::kHalf, DType::kFloat});
  CheckBitTensor(&instruction, select_mask, "select mask");
  const auto mode = static_cast<SelectMode>(select_mode);
  if ((mode == SelectMode::kTensorScalar) != (right == nullptr)) {
    instruction.Fail("parameter", "the select mode asks for %s as second source",
                     mode == SelectMode::kTensorScalar ? "a scalar" : "a tensor");
  }
  VectorPlan plan(&instruction, {target, left, right == nullptr ? left : *right}, mask,
                  repeat_times);
  plan.CheckOverlap();
  plan.Read(1);
  if (right != nullptr) plan.Read(2);
  plan.Write(0);
  const int64_t per_repeat = plan.elements_per_repeat();
  const int64_t mask_repeats = mode == SelectMode::kOneMask ? 1 : plan.num_repeats();
  if (plan.num_repeats() == 0) return;
  // Bits of elements that take part; the last repeat of a count may need fewer bytes.
  int64_t num_bits = mask_repeats * per_repeat;
  if (mask.kind == VectorMask::Kind::kCount && mode != SelectMode::kOneMask) {
    num_bits = static_cast<int64_t>(mask.bits[0]);
  }
  instruction.ReadLocal(select_mask, 0, static_cast<uint64_t>((num_bits + 7) / 8), true);
  const uint8_t *bits = instruction.LocalData(select_mask);
  const uint8_t *a = instruction.LocalData(left.ref);
  const uint8_t *b = right == nullptr ? nullptr : instruction.LocalData(right->ref);
  uint8_t *out = instruction.LocalData(target.ref);
  const uint32_t element = DTypeBytes(dtype);
  const float scalar_float = static_cast<float>(scalar.real);
  const uint16_t scalar_half = FloatToHalfBits(scalar_float);
  const uint8_t *scalar_data = dtype == DType::kHalf
                                   ? reinterpret_cast<const uint8_t *>(&scalar_half)
                                   : reinterpret_cast<const uint8_t *>(&scalar_float);
  for (int64_t repeat = 0; repeat < plan.num_repeats(); ++repeat) {
    for (const MaskRun &run : plan.Runs(repeat)) {
      for (int64_t i = run.first; i < run.first + run.count; ++i) {
        const int64_t bit = (mode == SelectMode::kOneMask ? 0 : repeat * per_repeat) + i;
        const bool takes_left = (bits[bit / 8] >> (bit % 8) & 1) != 0;
        const uint8_t *from = takes_left     ? a + ElementOffset(left, repeat, i)
                              : b == nullptr ? scalar_data
                                             : b + ElementOffset(*right, repeat, i);
        std::memcpy(out + ElementOffset(target, repeat, i), from, element);
      }
    }
  }
  instruction.Commit();
}

}  // namespace ascendc_emulation
