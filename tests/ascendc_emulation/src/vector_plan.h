// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Which bytes a vector instruction touches: masks, repeats and strides resolved into segments in
// which every operand is contiguous.
#ifndef ASCENDC_EMULATION_SRC_VECTOR_PLAN_H_
#define ASCENDC_EMULATION_SRC_VECTOR_PLAN_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "instruction.h"

namespace ascendc_emulation {

constexpr int64_t kRepeatBytes = 256;
constexpr int64_t kVectorBlockBytes = 32;
constexpr size_t kMaxOperands = 3;

// Bytes of UB seen as T, whatever type wrote them before.
template <typename T>
struct MayAlias {
  typedef T __attribute__((may_alias)) Type;
};

struct VectorSegment {
  std::array<int64_t, kMaxOperands> offsets{};  // bytes from the operand's begin
  int64_t count = 0;                            // elements
};

// A run of elements of one repeat that take part.
struct MaskRun {
  int64_t first = 0;
  int64_t count = 0;
};

class VectorPlan {
 public:
  // operands[0] is the destination. Fails on misaligned operands, wrong masks, operands outside UB.
  VectorPlan(Instruction *instruction, std::initializer_list<VectorOperand> operands,
             const VectorMask &mask, int64_t repeat_times);

  int64_t elements_per_repeat() const { return elements_per_repeat_; }
  int64_t num_repeats() const { return num_repeats_; }
  const std::vector<VectorSegment> &segments() const { return segments_; }
  // Participating elements of one repeat; the last repeat of a count has its own.
  std::vector<MaskRun> Runs(int64_t repeat) const;

  // Announces the operand's bytes. Sources must be set.
  void Read(size_t operand);
  void Write(size_t operand);
  // Fails when a source overlaps the destination without being the same tensor, same strides.
  void CheckOverlap();

 private:
  void ResolveMask(const VectorMask &mask, int64_t repeat_times);
  void BuildSegments();
  bool IsContiguous() const;
  int64_t OffsetOf(size_t operand, int64_t repeat, int64_t element) const;
  template <typename Visit>
  void ForEachRange(size_t operand, Visit &&visit) const;

  Instruction *instruction_;
  std::array<VectorOperand, kMaxOperands> operands_{};
  std::array<int64_t, kMaxOperands> element_bytes_{};
  size_t num_operands_ = 0;
  int64_t elements_per_repeat_ = 0;
  int64_t num_repeats_ = 0;
  bool is_count_ = false;
  int64_t count_ = 0;
  std::vector<MaskRun> runs_;
  std::vector<VectorSegment> segments_;
};

// Fails with "<instruction> has no <type> form" unless the type is one of those.
void CheckVectorType(Instruction *instruction, DType dtype, std::initializer_list<DType> allowed);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_VECTOR_PLAN_H_
