// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// WholeReduce* and BlockReduce*. Sums add pairs, then pairs of pairs, as the vector unit's tree
// does.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ascendc/numeric_types.h"
#include "vector_plan.h"

namespace ascendc_emulation {

namespace {

struct Candidate {
  float value = 0.0f;
  int64_t index = 0;
};

float RoundTo(DType dtype, float value) {
  return dtype == DType::kHalf ? HalfBitsToFloat(FloatToHalfBits(value)) : value;
}

float SumTree(DType dtype, std::vector<float> values) {
  while (values.size() > 1) {
    const size_t half_size = (values.size() + 1) / 2;
    for (size_t i = 0; i < values.size() / 2; ++i) {
      values[i] = RoundTo(dtype, values[2 * i] + values[2 * i + 1]);
    }
    if (values.size() % 2 != 0) values[half_size - 1] = values.back();
    values.resize(half_size);
  }
  return values[0];
}

// The first of equal extremes; NaN wins over numbers.
Candidate FindExtreme(Reduction reduction, const std::vector<Candidate> &candidates) {
  Candidate best = candidates[0];
  for (const Candidate &candidate : candidates) {
    const bool is_better =
        reduction == Reduction::kMax ? candidate.value > best.value : candidate.value < best.value;
    if (is_better || (std::isnan(candidate.value) && !std::isnan(best.value))) best = candidate;
  }
  return best;
}

Candidate Reduce(Reduction reduction, DType dtype, const std::vector<Candidate> &candidates) {
  if (reduction != Reduction::kSum) return FindExtreme(reduction, candidates);
  std::vector<float> values;
  values.reserve(candidates.size());
  for (const Candidate &candidate : candidates) values.push_back(candidate.value);
  return {SumTree(dtype, std::move(values)), 0};
}

float LoadElement(const uint8_t *data, DType dtype) {
  if (dtype == DType::kHalf) {
    uint16_t bits;
    std::memcpy(&bits, data, sizeof(bits));
    return HalfBitsToFloat(bits);
  }
  float value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

void StoreValue(uint8_t *data, DType dtype, float value) {
  if (dtype == DType::kHalf) {
    const uint16_t bits = FloatToHalfBits(value);
    std::memcpy(data, &bits, sizeof(bits));
  } else {
    std::memcpy(data, &value, sizeof(value));
  }
}

// An index is stored as an integer in the bits of the element type.
void StoreIndex(uint8_t *data, int64_t index, int64_t num_bytes) {
  const auto value = static_cast<uint32_t>(index);
  std::memcpy(data, &value, static_cast<size_t>(num_bytes));
}

// Bytes of one result; also the destination's alignment and the unit of its stride.
int64_t ResultBytes(ReductionOrder order, int64_t element) {
  switch (order) {
    case ReductionOrder::kOnlyValue:
      return element;
    case ReductionOrder::kOnlyIndex:
      return 4;
    default:
      return 2 * element;
  }
}

std::vector<Candidate> Gather(const uint8_t *data, const VectorOperand &source,
                              const std::vector<MaskRun> &runs, int64_t repeat, int64_t first,
                              int64_t last) {
  const int64_t element = DTypeBytes(source.ref.dtype);
  const int64_t per_block = kVectorBlockBytes / element;
  std::vector<Candidate> candidates;
  for (const MaskRun &run : runs) {
    for (int64_t i = std::max(run.first, first); i < std::min(run.first + run.count, last); ++i) {
      const int64_t at = (repeat * source.repeat_stride + i / per_block * source.block_stride) *
                             kVectorBlockBytes +
                         i % per_block * element;
      candidates.push_back({LoadElement(data + at, source.ref.dtype), i});
    }
  }
  return candidates;
}

void CheckReduction(Instruction *instruction, const LocalRef &target, const VectorOperand &source,
                    int64_t alignment) {
  CheckVectorType(instruction, source.ref.dtype, {DType::kHalf, DType::kFloat});
  if (target.dtype != source.ref.dtype) {
    instruction->Fail("data type", "source %s, destination %s", DTypeName(source.ref.dtype),
                      DTypeName(target.dtype));
  }
  if (target.memory != Memory::kUb) {
    instruction->Fail("wrong memory", "vector instructions work on UB");
  }
  instruction->CheckLocal(target, "destination", static_cast<uint64_t>(alignment));
}

// Source ranges by way of a plan with one operand; a plan's operand 0 may be read as well.
VectorPlan SourcePlan(Instruction *instruction, const VectorOperand &source, const VectorMask &mask,
                      int64_t repeat_times) {
  VectorPlan plan(instruction, {source}, mask, repeat_times);
  plan.Read(0);
  return plan;
}

}  // namespace

void VectorReduceRepeat(const char *name, Reduction reduction, ReductionOrder order,
                        const LocalRef &target, int64_t target_repeat_stride,
                        const VectorOperand &source, const VectorMask &mask, int64_t repeat_times) {
  Instruction instruction(Pipe::kV, name);
  const DType dtype = source.ref.dtype;
  const int64_t element = DTypeBytes(dtype);
  const int64_t unit = ResultBytes(order, element);
  CheckReduction(&instruction, target, source, unit);
  const VectorPlan plan = SourcePlan(&instruction, source, mask, repeat_times);
  const uint8_t *in = instruction.LocalData(source.ref);
  uint8_t *out = instruction.LocalData(target);
  struct Result {
    int64_t at;
    Candidate best;
  };
  std::vector<Result> results;
  for (int64_t repeat = 0; repeat < plan.num_repeats(); ++repeat) {
    const std::vector<Candidate> candidates =
        Gather(in, source, plan.Runs(repeat), repeat, 0, plan.elements_per_repeat());
    if (candidates.empty()) continue;
    const int64_t at = repeat * target_repeat_stride * unit;
    instruction.WriteLocal(target, static_cast<uint64_t>(at), static_cast<uint64_t>(unit));
    results.push_back({at, Reduce(reduction, dtype, candidates)});
  }
  for (const Result &result : results) {
    uint8_t *to = out + result.at;
    if (order == ReductionOrder::kOnlyValue) {
      StoreValue(to, dtype, result.best.value);
    } else if (order == ReductionOrder::kOnlyIndex) {
      StoreIndex(to, result.best.index, 4);
    } else {
      const bool value_first = order == ReductionOrder::kValueIndex;
      StoreValue(to + (value_first ? 0 : element), dtype, result.best.value);
      StoreIndex(to + (value_first ? element : 0), result.best.index, element);
    }
  }
  instruction.Commit();
}

void VectorReduceBlock(const char *name, Reduction reduction, const LocalRef &target,
                       int64_t target_repeat_stride, const VectorOperand &source,
                       const VectorMask &mask, int64_t repeat_times) {
  constexpr int64_t kBlocksPerRepeat = 8;
  Instruction instruction(Pipe::kV, name);
  const DType dtype = source.ref.dtype;
  const int64_t element = DTypeBytes(dtype);
  CheckReduction(&instruction, target, source, kBlocksPerRepeat * element);
  const VectorPlan plan = SourcePlan(&instruction, source, mask, repeat_times);
  const int64_t per_block = kVectorBlockBytes / element;
  const uint8_t *in = instruction.LocalData(source.ref);
  uint8_t *out = instruction.LocalData(target);
  struct Result {
    int64_t at;
    float value;
  };
  std::vector<Result> results;
  for (int64_t repeat = 0; repeat < plan.num_repeats(); ++repeat) {
    for (int64_t block = 0; block < kBlocksPerRepeat; ++block) {
      const std::vector<Candidate> candidates =
          Gather(in, source, plan.Runs(repeat), repeat, block * per_block, (block + 1) * per_block);
      if (candidates.empty()) continue;  // the destination keeps what it had
      const int64_t at = (repeat * target_repeat_stride * kBlocksPerRepeat + block) * element;
      instruction.WriteLocal(target, static_cast<uint64_t>(at), static_cast<uint64_t>(element));
      results.push_back({at, Reduce(reduction, dtype, candidates).value});
    }
  }
  for (const Result &result : results) StoreValue(out + result.at, dtype, result.value);
  instruction.Commit();
}

}  // namespace ascendc_emulation
