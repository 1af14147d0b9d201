// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Cast, Duplicate, CreateVecIndex, Brcb and Gather.

#include <cmath>
#include <cstring>
#include <limits>

#include "ascendc/numeric_types.h"
#include "vector_plan.h"

namespace ascendc_emulation {

namespace {

// The values of AscendC::RoundMode.
enum class Rounding { kNone, kRint, kFloor, kCeil, kRound, kTrunc, kOdd };

float RoundToInteger(float value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kFloor:
      return std::floor(value);
    case Rounding::kCeil:
      return std::ceil(value);
    case Rounding::kRound:
      return std::round(value);
    case Rounding::kTrunc:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}

// Out-of-range values saturate and NaN becomes 0, as documented for the device.
template <typename T>
T ToInteger(float value, Rounding rounding) {
  const double rounded = RoundToInteger(value, rounding);
  if (std::isnan(rounded)) return 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  return static_cast<T>(rounded < low ? low : rounded > high ? high : rounded);
}

// The documented pairs of the 16- and 32-bit types and their rounding modes.
void CheckCast(Instruction *instruction, DType from, DType to, Rounding rounding) {
  const auto refuse_mode = [&](const char *allowed) {
    instruction->Fail("round mode", "%s to %s takes %s", DTypeName(from), DTypeName(to), allowed);
  };
  const bool is_widening =
      to == DType::kFloat && (from == DType::kHalf || from == DType::kBFloat16);
  if (is_widening || (from == DType::kInt16 && to == DType::kFloat)) {
    if (rounding != Rounding::kNone) refuse_mode("CAST_NONE");
  } else if (from == DType::kFloat && to == DType::kBFloat16) {
    if (rounding == Rounding::kNone) refuse_mode("CAST_RINT (or another rounding), not CAST_NONE");
    if (rounding != Rounding::kRint) instruction->Fail("not emulated", "roundings but CAST_RINT");
  } else if (from == DType::kFloat && to == DType::kHalf) {
    const bool is_rint = rounding == Rounding::kNone || rounding == Rounding::kRint;
    if (!is_rint) instruction->Fail("not emulated", "roundings but CAST_NONE and CAST_RINT");
  } else if (from == DType::kInt32 && to == DType::kFloat) {
    const bool is_rint = rounding == Rounding::kNone || rounding == Rounding::kRint;
    if (!is_rint) instruction->Fail("not emulated", "roundings but CAST_NONE and CAST_RINT");
  } else if (from == DType::kFloat &&
             (to == DType::kInt32 || to == DType::kInt16 || to == DType::kFloat)) {
    if (rounding == Rounding::kNone) refuse_mode("a rounding, not CAST_NONE");
    if (rounding == Rounding::kOdd) refuse_mode("no CAST_ODD");
  } else {
    instruction->Fail("data type", "the instruction has no %s to %s form", DTypeName(from),
                      DTypeName(to));
  }
}

float LoadAsFloat(const uint8_t *data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kHalf:
      return HalfBitsToFloat(reinterpret_cast<const MayAlias<uint16_t>::Type *>(data)[index]);
    case DType::kBFloat16:
      return BFloat16BitsToFloat(reinterpret_cast<const MayAlias<uint16_t>::Type *>(data)[index]);
    case DType::kInt16:
      return static_cast<float>(reinterpret_cast<const MayAlias<int16_t>::Type *>(data)[index]);
    case DType::kInt32:
      return static_cast<float>(reinterpret_cast<const MayAlias<int32_t>::Type *>(data)[index]);
    default:
      return reinterpret_cast<const MayAlias<float>::Type *>(data)[index];
  }
}

void StoreFromFloat(uint8_t *data, DType dtype, int64_t index, float value, Rounding rounding,
                    bool is_saturating) {
  switch (dtype) {
    case DType::kHalf: {
      const uint16_t bits = FloatToHalfBits(value);
      reinterpret_cast<MayAlias<uint16_t>::Type *>(data)[index] =
          is_saturating ? SaturateHalf(bits) : bits;
      break;
    }
    case DType::kBFloat16: {
      const uint16_t bits = FloatToBFloat16Bits(value);
      reinterpret_cast<MayAlias<uint16_t>::Type *>(data)[index] =
          is_saturating ? SaturateBFloat16(bits) : bits;
      break;
    }
    case DType::kInt16:
      reinterpret_cast<MayAlias<int16_t>::Type *>(data)[index] =
          ToInteger<int16_t>(value, rounding);
      break;
    case DType::kInt32:
      reinterpret_cast<MayAlias<int32_t>::Type *>(data)[index] =
          ToInteger<int32_t>(value, rounding);
      break;
    default:
      reinterpret_cast<MayAlias<float>::Type *>(data)[index] = value;
      break;
  }
}

void CheckMovable(Instruction *instruction, DType dtype) {
  CheckVectorType(instruction, dtype,
                  {DType::kInt16, DType::kUint16, DType::kHalf, DType::kBFloat16, DType::kInt32,
                   DType::kUint32, DType::kFloat});
}

}  // namespace

void VectorCast(const VectorOperand &target, const VectorOperand &source, int round_mode,
                const VectorMask &mask, int64_t repeat_times) {
  Instruction instruction(Pipe::kV, "Cast");
  const DType from = source.ref.dtype;
  const DType to = target.ref.dtype;
  const auto rounding = static_cast<Rounding>(round_mode);
  CheckCast(&instruction, from, to, rounding);
  VectorPlan plan(&instruction, {target, source}, mask, repeat_times);
  plan.CheckOverlap();
  plan.Read(1);
  plan.Write(0);
  uint8_t *out = instruction.LocalData(target.ref);
  const uint8_t *in = instruction.LocalData(source.ref);
  const bool rounds_float = from == DType::kFloat && to == DType::kFloat;
  for (const VectorSegment &segment : plan.segments()) {
    for (int64_t i = 0; i < segment.count; ++i) {
      const float value = LoadAsFloat(in + segment.offsets[1], from, i);
      StoreFromFloat(out + segment.offsets[0], to, i,
                     rounds_float ? RoundToInteger(value, rounding) : value, rounding,
                     instruction.core().registers.is_saturating);
    }
  }
  instruction.Commit();
}

void VectorDuplicate(const VectorOperand &target, uint64_t value_bits, const VectorMask &mask,
                     int64_t repeat_times) {
  Instruction instruction(Pipe::kV, "Duplicate");
  CheckMovable(&instruction, target.ref.dtype);
  VectorPlan plan(&instruction, {target}, mask, repeat_times);
  plan.Write(0);
  const uint32_t element = DTypeBytes(target.ref.dtype);
  uint8_t *out = instruction.LocalData(target.ref);
  for (const VectorSegment &segment : plan.segments()) {
    for (int64_t i = 0; i < segment.count; ++i) {
      std::memcpy(out + segment.offsets[0] + i * element, &value_bits, element);
    }
  }
  instruction.Commit();
}

void VectorCreateIndex(const VectorOperand &target, ScalarValue first, const VectorMask &mask,
                       int64_t repeat_times) {
  Instruction instruction(Pipe::kV, "CreateVecIndex");
  const DType dtype = target.ref.dtype;
  CheckVectorType(&instruction, dtype, {DType::kInt16, DType::kInt32, DType::kHalf, DType::kFloat});
  VectorPlan plan(&instruction, {target}, mask, repeat_times);
  plan.Write(0);
  uint8_t *out = instruction.LocalData(target.ref);
  for (const VectorSegment &segment : plan.segments()) {
    for (int64_t i = 0; i < segment.count; ++i) {
      const double value = first.real + static_cast<double>(i);
      if (dtype == DType::kInt32) {
        reinterpret_cast<MayAlias<int32_t>::Type *>(out + segment.offsets[0])[i] =
            static_cast<int32_t>(value);
      } else {
        StoreFromFloat(out + segment.offsets[0], dtype, i, static_cast<float>(value),
                       Rounding::kRint, false);
      }
    }
  }
  instruction.Commit();
}

void VectorBroadcastBlocks(const VectorOperand &target, const LocalRef &source,
                           int64_t repeat_times) {
  constexpr int64_t kElementsPerRepeat = 8;
  Instruction instruction(Pipe::kV, "Brcb");
  CheckMovable(&instruction, target.ref.dtype);
  instruction.CheckLocal(target.ref, "destination", kVectorBlockBytes);
  instruction.CheckLocal(source, "source 0", kVectorBlockBytes);
  if (target.ref.memory != Memory::kUb || source.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "vector instructions work on UB");
  }
  if (target.block_stride == 0) {
    instruction.Fail("stride", "dstBlkStride 0 writes eight values to one block");
  }
  if (repeat_times == 0) return;
  const int64_t element = DTypeBytes(source.dtype);
  instruction.ReadLocal(source, 0,
                        static_cast<uint64_t>(repeat_times * kElementsPerRepeat * element), true);
  const uint8_t *in = instruction.LocalData(source);
  uint8_t *out = instruction.LocalData(target.ref);
  for (int64_t i = 0; i < repeat_times * kElementsPerRepeat; ++i) {
    const int64_t at = (i / kElementsPerRepeat * target.repeat_stride +
                        i % kElementsPerRepeat * target.block_stride) *
                       kVectorBlockBytes;
    instruction.WriteLocal(target.ref, static_cast<uint64_t>(at), kVectorBlockBytes);
  }
  // Values first: the source may not overlap the destination, but a copy keeps the loop simple.
  const std::vector<uint8_t> values(in, in + repeat_times * kElementsPerRepeat * element);
  const int64_t source_end = source.begin + static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < repeat_times * kElementsPerRepeat; ++i) {
    const int64_t at = (i / kElementsPerRepeat * target.repeat_stride +
                        i % kElementsPerRepeat * target.block_stride) *
                       kVectorBlockBytes;
    const int64_t begin = target.ref.begin + at;
    if (begin < source_end && begin + kVectorBlockBytes > source.begin) {
      instruction.Fail("overlap", "the destination block at UB byte %lld overlaps the source",
                       static_cast<long long>(begin));
    }
    for (int64_t byte = 0; byte < kVectorBlockBytes; byte += element) {
      std::memcpy(out + at + byte, &values[static_cast<size_t>(i * element)],
                  static_cast<size_t>(element));
    }
  }
  CoreCounters &counters = instruction.core().counters;
  counters.vector_repeats += static_cast<uint64_t>(repeat_times);
  counters.vector_elements +=
      static_cast<uint64_t>(repeat_times * kElementsPerRepeat * kVectorBlockBytes / element);
  instruction.Commit();
}

void VectorGather(const LocalRef &target, const LocalRef &source, const LocalRef &offsets,
                  int64_t base_offset_bytes, int64_t count) {
  Instruction instruction(Pipe::kV, "Gather");
  CheckMovable(&instruction, target.dtype);
  VectorPlan plan(&instruction, {{target, 1, 8}, {offsets, 1, 8}},
                  {VectorMask::Kind::kCount, {static_cast<uint64_t>(count), 0}}, 0);
  plan.Write(0);
  plan.Read(1);
  const uint32_t element = DTypeBytes(target.dtype);
  uint8_t *out = instruction.LocalData(target);
  const uint8_t *in = instruction.LocalData(source);
  const uint8_t *offset_data = instruction.LocalData(offsets);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t offset;
    std::memcpy(&offset, offset_data + i * 4, sizeof(offset));
    const uint64_t at = static_cast<uint64_t>(base_offset_bytes) + offset;
    if (at % element != 0) {
      instruction.Fail("alignment", "element %lld has byte offset %llu, not a multiple of %u",
                       static_cast<long long>(i), static_cast<unsigned long long>(at), element);
    }
    instruction.ReadLocal(source, at, element, true);
    std::memcpy(out + i * element, in + at, element);
  }
  instruction.Commit();
}

}  // namespace ascendc_emulation
