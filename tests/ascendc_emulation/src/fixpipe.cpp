// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Fixpipe: L0C to GM, row major.

#include <cstring>

#include "ascendc/numeric_types.h"
#include "atomic_write.h"
#include "cube_layout.h"
#include "instruction.h"

namespace ascendc_emulation {

namespace {

constexpr int64_t kFixpipeAlignment = 64;
constexpr int64_t kMaxFixpipeRows = 8192;

void CheckStore(Instruction *instruction, const GmRef &target, const LocalRef &source,
                const MatrixStore &store) {
  instruction->CheckLocal(source, "source", kFixpipeAlignment);
  if (source.memory != Memory::kL0c) {
    instruction->Fail("wrong memory", "Fixpipe reads L0C, not %s", MemoryName(source.memory));
  }
  if (store.has_unsupported_option || store.conversion == MatrixConversion::kUnsupported) {
    instruction->Fail("not emulated",
                      "unitFlag, channel split, scaling or a layout other than "
                      "row major");
  }
  const DType expected = store.conversion == MatrixConversion::kToHalf       ? DType::kHalf
                         : store.conversion == MatrixConversion::kToBFloat16 ? DType::kBFloat16
                                                                             : DType::kFloat;
  if (target.dtype != expected || source.dtype != DType::kFloat) {
    instruction->Fail("data type", "quantPre makes %s of float, the tensors are %s and %s",
                      DTypeName(expected), DTypeName(target.dtype), DTypeName(source.dtype));
  }
  if (store.num_columns % kFractalSide != 0 || store.num_columns > kMaxMatrixSide) {
    instruction->Fail("parameter range", "nSize %lld is not a multiple of 16 up to %lld",
                      static_cast<long long>(store.num_columns),
                      static_cast<long long>(kMaxMatrixSide));
  }
  if (store.num_rows > kMaxFixpipeRows) {
    instruction->Fail("parameter range", "mSize %lld, the limit is %lld",
                      static_cast<long long>(store.num_rows),
                      static_cast<long long>(kMaxFixpipeRows));
  }
  if (store.num_columns > kFractalSide && store.source_stride < store.num_rows) {
    instruction->Fail("stride",
                      "srcStride %lld is less than mSize %lld: it counts 16-element rows "
                      "of L0C between two column blocks",
                      static_cast<long long>(store.source_stride),
                      static_cast<long long>(store.num_rows));
  }
  if (store.num_rows > 1 && store.target_stride < store.num_columns) {
    instruction->Fail("stride",
                      "dstStride %lld is less than nSize %lld: rows of the result "
                      "overlap",
                      static_cast<long long>(store.target_stride),
                      static_cast<long long>(store.num_columns));
  }
}

void ConvertRow(const MatrixStore &store, const float *values, bool is_saturating,
                uint8_t *target) {
  for (int64_t i = 0; i < store.num_columns; ++i) {
    const float value = store.apply_relu && values[i] < 0.0f ? 0.0f : values[i];
    if (store.conversion == MatrixConversion::kNone) {
      std::memcpy(target + i * 4, &value, 4);
      continue;
    }
    const bool is_half = store.conversion == MatrixConversion::kToHalf;
    uint16_t bits = is_half ? FloatToHalfBits(value) : FloatToBFloat16Bits(value);
    if (is_saturating) bits = is_half ? SaturateHalf(bits) : SaturateBFloat16(bits);
    std::memcpy(target + i * 2, &bits, 2);
  }
}

// One matrix: rows of num_columns elements, target_stride elements apart.
void StoreOneMatrix(Instruction *instruction, const GmRef &target, const LocalRef &source,
                    const MatrixStore &store, int64_t source_base, int64_t target_base) {
  const int64_t element = DTypeBytes(target.dtype);
  const SpecialRegisters &registers = instruction->core().registers;
  const bool is_atomic = registers.atomic_mode != AtomicMode::kNone;
  const auto row_bytes = static_cast<uint64_t>(store.num_columns * element);
  const uint8_t *l0c_data = instruction->LocalData(source) + source_base;
  std::vector<float> values(static_cast<size_t>(store.num_columns));
  std::vector<uint8_t> converted(row_bytes);
  for (int64_t row = 0; row < store.num_rows; ++row) {
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const int64_t from = (column / kFractalSide * store.source_stride + row) * kResultRowBytes;
      std::memcpy(&values[static_cast<size_t>(column)], l0c_data + from, kResultRowBytes);
    }
    uint8_t *to = target.address + (target_base + row * store.target_stride) * element;
    instruction->WriteGm(to, row_bytes, is_atomic);
    ConvertRow(store, values.data(), registers.is_saturating, converted.data());
    StoreToGm(registers, target.dtype, to, converted.data(), row_bytes);
  }
}

// Results must be set; in a workspace the unset elements arrive as unset.
void CarryUnsetMatrix(Instruction *instruction, const GmRef &target, const LocalRef &source,
                      const MatrixStore &store, int64_t source_base, int64_t target_base) {
  const int64_t element = DTypeBytes(target.dtype);
  LocalMemory &l0c = instruction->core().memory(Memory::kL0c);
  for (int64_t row = 0; row < store.num_rows; ++row) {
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const auto from = static_cast<uint32_t>(source.begin + source_base +
                                              (column / kFractalSide * store.source_stride + row) *
                                                  kResultRowBytes);
      if (l0c.IsSet(from, from + kResultRowBytes)) continue;
      for (int64_t i = 0; i < kFractalSide; ++i) {
        const uint32_t at = from + static_cast<uint32_t>(i) * 4;
        if (l0c.IsSet(at, at + 4)) continue;
        uint8_t *to =
            target.address + (target_base + row * store.target_stride + column + i) * element;
        GmBuffer *buffer = Engine::Current().gm().Find(to, static_cast<uint64_t>(element));
        const bool is_atomic = instruction->core().registers.atomic_mode != AtomicMode::kNone;
        if (buffer->role() != GmBuffer::Role::kWorkspace || is_atomic) {
          instruction->Fail("unset data",
                            "writes row %lld, column %lld of the result to '%s'; it "
                            "was computed from unset data",
                            static_cast<long long>(row), static_cast<long long>(column + i),
                            buffer->name().c_str());
        }
        const auto begin = static_cast<uint64_t>(to - buffer->begin());
        buffer->MarkUnset(begin, begin + static_cast<uint64_t>(element));
      }
    }
  }
}

}  // namespace

void StoreMatrixToGm(const GmRef &target, const LocalRef &source, const MatrixStore &store) {
  Instruction instruction(Pipe::kFix, "Fixpipe");
  CheckStore(&instruction, target, source, store);
  CheckAtomic(&instruction, target.dtype);
  if (store.num_rows == 0 || store.num_columns == 0) return;
  for (int64_t matrix = 0; matrix < store.num_matrices; ++matrix) {
    const int64_t source_base =
        matrix * store.source_matrix_stride * kFractalSide * kResultRowBytes;
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const int64_t from =
          source_base + column / kFractalSide * store.source_stride * kResultRowBytes;
      instruction.ReadLocal(source, static_cast<uint64_t>(from),
                            static_cast<uint64_t>(store.num_rows * kResultRowBytes), false);
    }
    StoreOneMatrix(&instruction, target, source, store, source_base,
                   matrix * store.target_matrix_stride);
  }
  instruction.Commit();
  for (int64_t matrix = 0; matrix < store.num_matrices; ++matrix) {
    CarryUnsetMatrix(&instruction, target, source, store,
                     matrix * store.source_matrix_stride * kFractalSide * kResultRowBytes,
                     matrix * store.target_matrix_stride);
  }
}

}  // namespace ascendc_emulation
