// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The ND2NZ copy: rows of a GM matrix into the NZ layout of L1.

#include <algorithm>
#include <cstring>

#include "copy_rules.h"

namespace ascendc_emulation {

namespace {

// Documented limits of the copy parameters.
constexpr int64_t kMaxNdNum = 4095;
constexpr int64_t kMaxNdRows = 16384;
constexpr int64_t kMaxNzStride = 16384;

void CheckNdToNz(Instruction *instruction, const NdToNz &copy, int64_t element) {
  const auto check = [instruction](const char *field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    instruction->Fail("parameter range", "%s %lld, the range is [%lld, %lld]", field,
                      static_cast<long long>(value), static_cast<long long>(low),
                      static_cast<long long>(high));
  };
  check("ndNum", copy.num_matrices, 0, kMaxNdNum);
  check("nValue", copy.num_rows, 0, kMaxNdRows);
  check("srcDValue", copy.source_row_stride, 1, 65535);
  check("dstNzC0Stride", copy.target_column_block_stride, 1, kMaxNzStride);
  check("dstNzNStride", copy.target_row_stride, 1, kMaxNzStride);
  if (copy.target_matrix_stride * element % kBlockBytes != 0) {
    instruction->Fail("stride", "dstNzMatrixStride %lld elements is not a multiple of 32 bytes",
                      static_cast<long long>(copy.target_matrix_stride));
  }
}

// Which 32-byte units of L1 one copy has written: overlapping targets have no defined order.
class UnitSet {
 public:
  explicit UnitSet(uint32_t num_units) : is_written_(num_units, false) {}
  bool Insert(uint32_t unit) {
    const bool was_written = is_written_[unit];
    is_written_[unit] = true;
    return !was_written;
  }

 private:
  std::vector<bool> is_written_;
};

// One ND2NZ copy in bytes. Row r, 32-byte column block b of matrix i goes to
// MatrixBase(i) + b * block_step + r * row_step.
struct NzLayout {
  int64_t element, row_bytes, num_blocks, block_step, row_step, matrix_step;

  NzLayout(const NdToNz &copy, int64_t element_bytes)
      : element(element_bytes),
        row_bytes(copy.num_columns * element_bytes),
        num_blocks((row_bytes + kBlockBytes - 1) / kBlockBytes),
        block_step(copy.target_column_block_stride * kBlockBytes),
        row_step(copy.target_row_stride * kBlockBytes),
        matrix_step(copy.target_matrix_stride * element_bytes) {}

  // Data bytes of a block; the rest of its 32 are zeros.
  int64_t DataBytes(int64_t block) const {
    return std::min(kBlockBytes, row_bytes - block * kBlockBytes);
  }
};

void AnnounceWrites(Instruction *instruction, const LocalRef &target, const NdToNz &copy,
                    const NzLayout &layout, int64_t matrix) {
  for (int64_t block = 0; block < layout.num_blocks; ++block) {
    const int64_t base = matrix * layout.matrix_step + block * layout.block_step;
    if (copy.target_row_stride == 1) {
      instruction->WriteLocal(target, static_cast<uint64_t>(base),
                              static_cast<uint64_t>(copy.num_rows * kBlockBytes));
      continue;
    }
    for (int64_t row = 0; row < copy.num_rows; ++row) {
      instruction->WriteLocal(target, static_cast<uint64_t>(base + row * layout.row_step),
                              kBlockBytes);
    }
  }
}

// One row at from to its blocks; at: byte of the row's first block after target's begin.
void CopyRow(Instruction *instruction, const LocalRef &target, const uint8_t *from,
             const NzLayout &layout, int64_t at, UnitSet *units) {
  for (int64_t block = 0; block < layout.num_blocks; ++block, at += layout.block_step) {
    if (!units->Insert(static_cast<uint32_t>((target.begin + at) / kBlockBytes))) {
      instruction->Fail("stride",
                        "two elements of the matrix go to L1 byte %lld: dstNzC0Stride and "
                        "dstNzNStride count 32-byte units",
                        static_cast<long long>(target.begin + at));
    }
    const int64_t bytes = layout.DataBytes(block);
    uint8_t *unit = instruction->LocalData(target) + at;
    std::memcpy(unit, from + block * kBlockBytes, static_cast<size_t>(bytes));
    std::memset(unit + bytes, 0, static_cast<size_t>(kBlockBytes - bytes));
  }
}

}  // namespace

// Element (row, column) of matrix i goes to byte
//   i * target_matrix_stride * element + (column / c0 * column_block_stride + row * row_stride) *
//   32
//   + column % c0 * element,  c0 = 32 / element
// and the last column block is filled up with zeros. Rows up to the next 16 are left as they are.
void CopyNdToNz(const LocalRef &target, const GmRef &source, const NdToNz &copy) {
  Instruction instruction(Pipe::kMte2, "DataCopy ND2NZ");
  instruction.CheckLocal(target, "destination", kBlockBytes);
  if (target.memory != Memory::kL1) {
    instruction.Fail("wrong memory", "ND2NZ writes L1, not %s", MemoryName(target.memory));
  }
  const NzLayout layout(copy, DTypeBytes(target.dtype));
  CheckNdToNz(&instruction, copy, layout.element);
  CheckGmAddress(&instruction, source);
  if (copy.num_matrices == 0 || copy.num_rows == 0 || copy.num_columns == 0) return;

  UnitSet units(instruction.core().Capacity(Memory::kL1) / kGranuleBytes);
  struct Row {
    Instruction::GmRange range;
    int64_t at = 0;
  };
  std::vector<Row> partly_unset;
  for (int64_t matrix = 0; matrix < copy.num_matrices; ++matrix) {
    AnnounceWrites(&instruction, target, copy, layout, matrix);
    for (int64_t row = 0; row < copy.num_rows; ++row) {
      const uint8_t *from =
          source.address +
          (matrix * copy.source_matrix_stride + row * copy.source_row_stride) * layout.element;
      const int64_t at = matrix * layout.matrix_step + row * layout.row_step;
      const Instruction::GmRange range =
          instruction.ReadGm(from, static_cast<uint64_t>(layout.row_bytes), false);
      CopyRow(&instruction, target, from, layout, at, &units);
      const uint64_t end = range.begin + static_cast<uint64_t>(layout.row_bytes);
      if (range.buffer->FindUnset(range.begin, end) != end) partly_unset.push_back({range, at});
    }
  }
  instruction.Commit();

  LocalMemory &memory = instruction.core().memory(Memory::kL1);
  for (const Row &row : partly_unset) {
    for (int64_t block = 0; block < layout.num_blocks; ++block) {
      Instruction::GmRange part = row.range;
      part.begin += static_cast<uint64_t>(block * kBlockBytes);
      CarryUnset(part, static_cast<uint64_t>(layout.DataBytes(block)), &memory,
                 static_cast<uint32_t>(target.begin + row.at + block * layout.block_step));
    }
  }
}

}  // namespace ascendc_emulation
