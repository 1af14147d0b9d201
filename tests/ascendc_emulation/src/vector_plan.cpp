// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "vector_plan.h"

#include <algorithm>

namespace ascendc_emulation {

namespace {

std::vector<MaskRun> RunsOfBits(uint64_t low, uint64_t high, int64_t num_bits) {
  std::vector<MaskRun> runs;
  for (int64_t bit = 0; bit < num_bits; ++bit) {
    const uint64_t word = bit < 64 ? low : high;
    if ((word >> (bit % 64) & 1u) == 0) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == bit) {
      ++runs.back().count;
    } else {
      runs.push_back({bit, 1});
    }
  }
  return runs;
}

}  // namespace

void CheckVectorType(Instruction *instruction, DType dtype, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), dtype) != allowed.end()) return;
  instruction->Fail("data type", "the instruction has no %s form", DTypeName(dtype));
}

VectorPlan::VectorPlan(Instruction *instruction, std::initializer_list<VectorOperand> operands,
                       const VectorMask &mask, int64_t repeat_times)
    : instruction_(instruction) {
  int64_t widest = 1;
  for (const VectorOperand &operand : operands) {
    const char *name = num_operands_ == 0   ? "destination"
                       : num_operands_ == 1 ? "source 0"
                                            : "source 1";
    if (operand.ref.memory != Memory::kUb) {
      instruction->Fail("wrong memory", "%s lies in %s; vector instructions work on UB", name,
                        MemoryName(operand.ref.memory));
    }
    instruction->CheckLocal(operand.ref, name, kVectorBlockBytes);
    operands_[num_operands_] = operand;
    element_bytes_[num_operands_] = DTypeBytes(operand.ref.dtype);
    widest = std::max(widest, element_bytes_[num_operands_]);
    ++num_operands_;
  }
  elements_per_repeat_ = kRepeatBytes / widest;
  if (mask.kind == VectorMask::Kind::kCount) {
    // The forms with a count run through each operand without gaps, whatever its type.
    for (size_t operand = 0; operand < num_operands_; ++operand) {
      operands_[operand].repeat_stride =
          elements_per_repeat_ * element_bytes_[operand] / kVectorBlockBytes;
    }
  }
  ResolveMask(mask, repeat_times);
  BuildSegments();
  CoreCounters &counters = instruction->core().counters;
  counters.vector_repeats += static_cast<uint64_t>(num_repeats_);
  for (const VectorSegment &segment : segments_) {
    counters.vector_elements += static_cast<uint64_t>(segment.count);
  }
}

void VectorPlan::ResolveMask(const VectorMask &mask, int64_t repeat_times) {
  const SpecialRegisters &registers = instruction_->core().registers;
  const bool is_register = mask.kind == VectorMask::Kind::kRegister;
  const uint64_t low = is_register ? registers.mask[0] : mask.bits[0];
  const uint64_t high = is_register ? registers.mask[1] : mask.bits[1];
  is_count_ = mask.kind == VectorMask::Kind::kCount || registers.is_counter_mode;
  if (is_count_) {
    count_ = static_cast<int64_t>(low);
    num_repeats_ = (count_ + elements_per_repeat_ - 1) / elements_per_repeat_;
    return;
  }
  num_repeats_ = repeat_times;
  if (mask.kind == VectorMask::Kind::kContiguous) {
    if (low > static_cast<uint64_t>(elements_per_repeat_)) {
      instruction_->Fail("mask", "mask %llu, a repeat of this type has %lld elements",
                         static_cast<unsigned long long>(low),
                         static_cast<long long>(elements_per_repeat_));
    }
    if (low != 0) runs_.push_back({0, static_cast<int64_t>(low)});
    return;
  }
  if (!is_register && elements_per_repeat_ <= 64 && high != 0) {
    instruction_->Fail("mask", "mask[1] is 0x%llx, a repeat of this type has %lld elements",
                       static_cast<unsigned long long>(high),
                       static_cast<long long>(elements_per_repeat_));
  }
  runs_ = RunsOfBits(low, high, elements_per_repeat_);
}

std::vector<MaskRun> VectorPlan::Runs(int64_t repeat) const {
  if (!is_count_) return runs_;
  const int64_t left = count_ - repeat * elements_per_repeat_;
  return {{0, std::min(left, elements_per_repeat_)}};
}

bool VectorPlan::IsContiguous() const {
  for (size_t operand = 0; operand < num_operands_; ++operand) {
    const bool has_unit_strides = operands_[operand].block_stride == 1 &&
                                  operands_[operand].repeat_stride * kVectorBlockBytes ==
                                      elements_per_repeat_ * element_bytes_[operand];
    if (!has_unit_strides) return false;
  }
  if (is_count_) return true;
  return runs_.size() == 1 && runs_[0].first == 0 &&
         (runs_[0].count == elements_per_repeat_ || num_repeats_ == 1);
}

int64_t VectorPlan::OffsetOf(size_t operand, int64_t repeat, int64_t element) const {
  const int64_t per_block = kVectorBlockBytes / element_bytes_[operand];
  const VectorOperand &strides = operands_[operand];
  const int64_t block = repeat * strides.repeat_stride + element / per_block * strides.block_stride;
  return block * kVectorBlockBytes + element % per_block * element_bytes_[operand];
}

void VectorPlan::BuildSegments() {
  if (num_repeats_ == 0 || (is_count_ && count_ == 0) || (!is_count_ && runs_.empty())) return;
  if (num_operands_ != 0 && IsContiguous()) {
    const int64_t count =
        is_count_ ? count_ : (num_repeats_ - 1) * elements_per_repeat_ + runs_[0].count;
    segments_.push_back({{}, count});
    return;
  }
  int64_t step = elements_per_repeat_;
  for (size_t operand = 0; operand < num_operands_; ++operand) {
    step = std::min(step, kVectorBlockBytes / element_bytes_[operand]);
  }
  for (int64_t repeat = 0; repeat < num_repeats_; ++repeat) {
    for (const MaskRun &run : Runs(repeat)) {
      const int64_t end = run.first + run.count;
      for (int64_t element = run.first; element < end;) {
        const int64_t next = std::min(end, (element / step + 1) * step);
        VectorSegment segment{{}, next - element};
        bool continues = !segments_.empty();
        for (size_t operand = 0; operand < num_operands_; ++operand) {
          segment.offsets[operand] = OffsetOf(operand, repeat, element);
          continues = continues && segment.offsets[operand] ==
                                       segments_.back().offsets[operand] +
                                           segments_.back().count * element_bytes_[operand];
        }
        if (continues) {
          segments_.back().count += segment.count;
        } else {
          segments_.push_back(segment);
        }
        element = next;
      }
    }
  }
}

template <typename Visit>
void VectorPlan::ForEachRange(size_t operand, Visit &&visit) const {
  int64_t begin = 0;
  int64_t end = 0;
  for (const VectorSegment &segment : segments_) {
    const int64_t segment_begin = segment.offsets[operand];
    const int64_t segment_end = segment_begin + segment.count * element_bytes_[operand];
    if (segment_begin >= begin && segment_end <= end) continue;  // a broadcast block again
    if (segment_begin == end && end != 0) {
      end = segment_end;
      continue;
    }
    if (end > begin) visit(begin, end);
    begin = segment_begin;
    end = segment_end;
  }
  if (end > begin) visit(begin, end);
}

void VectorPlan::Read(size_t operand) {
  ForEachRange(operand, [&](int64_t begin, int64_t end) {
    instruction_->ReadLocal(operands_[operand].ref, static_cast<uint64_t>(begin),
                            static_cast<uint64_t>(end - begin), true);
  });
}

void VectorPlan::Write(size_t operand) {
  ForEachRange(operand, [&](int64_t begin, int64_t end) {
    instruction_->WriteLocal(operands_[operand].ref, static_cast<uint64_t>(begin),
                             static_cast<uint64_t>(end - begin));
  });
}

void VectorPlan::CheckOverlap() {
  const VectorOperand &target = operands_[0];
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> written;
  const int64_t target_base = target.ref.begin;
  ForEachRange(0, [&](int64_t begin, int64_t end) {
    written.push_back({target_base + begin, target_base + end});
  });
  std::sort(written.begin(), written.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (size_t operand = 1; operand < num_operands_; ++operand) {
    const VectorOperand &source = operands_[operand];
    const bool is_same = source.ref.begin == target.ref.begin &&
                         source.block_stride == target.block_stride &&
                         source.repeat_stride == target.repeat_stride &&
                         element_bytes_[operand] == element_bytes_[0];
    if (is_same || written.empty()) continue;
    const int64_t base = source.ref.begin;
    ForEachRange(operand, [&](int64_t begin, int64_t end) {
      // The last written range that begins before this one ends.
      const auto after =
          std::upper_bound(written.begin(), written.end(), base + end - 1,
                           [](int64_t byte, const Range &range) { return byte < range.begin; });
      if (after == written.begin() || (after - 1)->end <= base + begin) return;
      instruction_->Fail("overlap",
                         "source %zu, UB bytes [%lld, %lld), overlaps the destination in "
                         "part; they must be the same or apart",
                         operand - 1, static_cast<long long>(base + begin),
                         static_cast<long long>(base + end));
    });
  }
}

void SetSaturation(bool is_saturating) {
  Instruction instruction(Pipe::kS, "SetOverflow");
  instruction.core().registers.is_saturating = is_saturating;
}

void SetMaskMode(bool is_counter_mode) {
  Instruction instruction(Pipe::kS, is_counter_mode ? "SetMaskCount" : "SetMaskNorm");
  instruction.core().registers.is_counter_mode = is_counter_mode;
}

void SetMaskRegister(uint64_t high, uint64_t low) {
  Instruction instruction(Pipe::kS, "SetVectorMask");
  instruction.core().registers.mask[0] = low;
  instruction.core().registers.mask[1] = high;
}

}  // namespace ascendc_emulation
