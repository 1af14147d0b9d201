// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// DataCopy, DataCopyPad and the ND2NZ copy.
//
// Moves carry the set/unset state of what they move: an unset byte of GM or UB arrives unset and is
// an error only when something computes with it, or when it reaches an output.

#include <cstring>

#include "atomic_write.h"
#include "instruction.h"

namespace ascendc_emulation {

namespace {

constexpr int64_t kBlockBytes = 32;
// Documented limits of the copy parameters.
constexpr int64_t kMaxBlockCount = 4095;
constexpr int64_t kMaxPaddedBlockBytes = 2097151;
constexpr int64_t kMaxNdNum = 4095;
constexpr int64_t kMaxNdRows = 16384;
constexpr int64_t kMaxNzStride = 16384;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void CheckBlocks(Instruction *instruction, const BlockCopy &copy, DType dtype, bool is_padded) {
  if (copy.block_count > kMaxBlockCount) {
    instruction->Fail("parameter range", "blockCount %lld, the limit is %lld",
                      static_cast<long long>(copy.block_count),
                      static_cast<long long>(kMaxBlockCount));
  }
  if (!is_padded && copy.block_bytes % kBlockBytes != 0) {
    instruction->Fail("length",
                      "moves blocks of %lld bytes; DataCopy moves multiples of 32 "
                      "(DataCopyPad moves any length)",
                      static_cast<long long>(copy.block_bytes));
  }
  if (is_padded && copy.block_bytes > kMaxPaddedBlockBytes) {
    instruction->Fail("parameter range", "blockLen %lld, the limit is %lld bytes",
                      static_cast<long long>(copy.block_bytes),
                      static_cast<long long>(kMaxPaddedBlockBytes));
  }
  if (is_padded && copy.block_bytes % DTypeBytes(dtype) != 0) {
    instruction->Fail("length", "blockLen %lld bytes is not a multiple of the element size %u",
                      static_cast<long long>(copy.block_bytes), DTypeBytes(dtype));
  }
}

void CheckGmAddress(Instruction *instruction, const GmRef &ref) {
  if (reinterpret_cast<uintptr_t>(ref.address) % DTypeBytes(ref.dtype) == 0) return;
  instruction->Fail("alignment", "GM address %p is not aligned to %s",
                    static_cast<const void *>(ref.address), DTypeName(ref.dtype));
}

// Blocks without gaps are one block.
BlockCopy Merge(const BlockCopy &copy) {
  const bool is_contiguous = copy.source_gap_bytes == 0 && copy.target_gap_bytes == 0 &&
                             copy.block_bytes % kBlockBytes == 0;
  if (!is_contiguous || copy.block_count <= 1) return copy;
  return {1, copy.block_count * copy.block_bytes, 0, 0};
}

// Marks the bytes of a finished local write unset whose GM source is unset.
void CarryUnset(const Instruction::GmRange &source, uint64_t num_bytes, LocalMemory *target,
                uint32_t target_begin) {
  const uint64_t end = source.begin + num_bytes;
  for (uint64_t byte = source.buffer->FindUnset(source.begin, end); byte < end;
       byte = source.buffer->FindUnset(byte + 1, end)) {
    const auto at = static_cast<uint32_t>(target_begin + (byte - source.begin));
    target->MarkUnset(at, at + 1);
  }
}

struct PaddedBlock {
  int64_t left_bytes = 0;
  int64_t total_bytes = 0;  // left padding, data, right padding, up to 32
  int64_t set_bytes = 0;    // how many of them from the begin are defined
};

PaddedBlock LayOut(Instruction *instruction, const BlockCopy &copy, DType dtype,
                   const BlockPadding *padding) {
  if (padding == nullptr) return {0, copy.block_bytes, copy.block_bytes};
  const int64_t element = DTypeBytes(dtype);
  const int64_t left = padding->left_elements * element;
  const int64_t right = padding->right_elements * element;
  if (left > kBlockBytes || right > kBlockBytes) {
    instruction->Fail("parameter range",
                      "padding of %lld and %lld bytes, the limit is 32 on each "
                      "side",
                      static_cast<long long>(left), static_cast<long long>(right));
  }
  if (!padding->has_value && (left != 0 || right != 0)) {
    instruction->Fail("unset data",
                      "leftPadding or rightPadding without isPad fills UB with "
                      "unspecified values");
  }
  const int64_t total = RoundUp(left + copy.block_bytes + right, kBlockBytes);
  return {left, total, padding->has_value ? total : copy.block_bytes};
}

void FillPadding(uint8_t *block, const PaddedBlock &layout, int64_t data_bytes,
                 const BlockPadding &padding, DType dtype) {
  const int64_t element = DTypeBytes(dtype);
  for (int64_t at = 0; at < layout.total_bytes; at += element) {
    const bool is_data = at >= layout.left_bytes && at < layout.left_bytes + data_bytes;
    if (!is_data) std::memcpy(block + at, &padding.value_bits, static_cast<size_t>(element));
  }
}

}  // namespace

void CopyGmToLocal(const char *name, const LocalRef &target, const GmRef &source,
                   const BlockCopy &requested, const BlockPadding *padding) {
  Instruction instruction(Pipe::kMte2, name);
  instruction.CheckLocal(target, "destination", kBlockBytes);
  if (target.memory != Memory::kUb && target.memory != Memory::kL1) {
    instruction.Fail("wrong memory", "GM data goes to UB or L1, not to %s",
                     MemoryName(target.memory));
  }
  if (padding != nullptr && target.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "DataCopyPad writes UB, not %s", MemoryName(target.memory));
  }
  CheckBlocks(&instruction, requested, target.dtype, padding != nullptr);
  CheckGmAddress(&instruction, source);
  const PaddedBlock requested_layout = LayOut(&instruction, requested, target.dtype, padding);
  const bool has_padding_bytes = requested_layout.total_bytes != requested.block_bytes;
  const BlockCopy copy = has_padding_bytes ? requested : Merge(requested);
  const PaddedBlock layout =
      has_padding_bytes ? requested_layout : PaddedBlock{0, copy.block_bytes, copy.block_bytes};
  if (copy.block_bytes == 0) return;

  std::vector<Instruction::GmRange> ranges;
  uint8_t *data = instruction.LocalData(target);
  for (int64_t block = 0; block < copy.block_count; ++block) {
    const uint8_t *from = source.address + block * (copy.block_bytes + copy.source_gap_bytes);
    const int64_t to = block * (layout.total_bytes + copy.target_gap_bytes);
    ranges.push_back(instruction.ReadGm(from, static_cast<uint64_t>(copy.block_bytes), false));
    instruction.WriteLocal(target, static_cast<uint64_t>(to),
                           static_cast<uint64_t>(layout.total_bytes));
    if (padding != nullptr && padding->has_value) {
      FillPadding(data + to, layout, copy.block_bytes, *padding, target.dtype);
    }
    std::memcpy(data + to + layout.left_bytes, from, static_cast<size_t>(copy.block_bytes));
  }
  instruction.Commit();

  LocalMemory &memory = instruction.core().memory(target.memory);
  for (int64_t block = 0; block < copy.block_count; ++block) {
    const auto begin =
        static_cast<uint32_t>(target.begin + block * (layout.total_bytes + copy.target_gap_bytes));
    memory.MarkUnset(begin + static_cast<uint32_t>(layout.set_bytes),
                     begin + static_cast<uint32_t>(layout.total_bytes));
    CarryUnset(ranges[static_cast<size_t>(block)], static_cast<uint64_t>(copy.block_bytes), &memory,
               begin + static_cast<uint32_t>(layout.left_bytes));
  }
}

void CopyLocalToGm(const char *name, const GmRef &target, const LocalRef &source,
                   const BlockCopy &requested) {
  Instruction instruction(Pipe::kMte3, name);
  const bool is_padded = std::strcmp(name, "DataCopyPad") == 0;
  instruction.CheckLocal(source, "source", kBlockBytes);
  if (source.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "this copy reads UB, not %s", MemoryName(source.memory));
  }
  CheckBlocks(&instruction, requested, target.dtype, is_padded);
  CheckGmAddress(&instruction, target);
  CheckAtomic(&instruction, target.dtype);
  const BlockCopy copy = Merge(requested);
  if (copy.block_bytes == 0) return;

  const SpecialRegisters &registers = instruction.core().registers;
  const bool is_atomic = registers.atomic_mode != AtomicMode::kNone;
  LocalMemory &memory = instruction.core().memory(source.memory);
  const uint8_t *data = instruction.LocalData(source);
  std::vector<Instruction::GmRange> ranges;
  const auto num_bytes = static_cast<uint64_t>(copy.block_bytes);
  // In UB each block begins on its own 32 bytes.
  const int64_t source_step = RoundUp(copy.block_bytes, kBlockBytes) + copy.source_gap_bytes;
  for (int64_t block = 0; block < copy.block_count; ++block) {
    uint8_t *to = target.address + block * (copy.block_bytes + copy.target_gap_bytes);
    const auto from = static_cast<uint64_t>(block * source_step);
    const Instruction::GmRange range = instruction.WriteGm(to, num_bytes, is_atomic);
    // Results must be set; a workspace may hold unset bytes as long as nobody computes with them.
    const bool needs_set = is_atomic || range.buffer->role() != GmBuffer::Role::kWorkspace;
    instruction.ReadLocal(source, from, num_bytes, needs_set);
    StoreToGm(registers, target.dtype, to, data + from, num_bytes);
    ranges.push_back(range);
  }
  instruction.Commit();

  for (int64_t block = 0; block < copy.block_count; ++block) {
    const auto begin = static_cast<uint32_t>(source.begin + block * source_step);
    const uint32_t end = begin + static_cast<uint32_t>(num_bytes);
    const Instruction::GmRange &range = ranges[static_cast<size_t>(block)];
    for (uint32_t byte = memory.FindUnset(begin, end); byte < end;
         byte = memory.FindUnset(byte + 1, end)) {
      range.buffer->MarkUnset(range.begin + (byte - begin), range.begin + (byte - begin) + 1);
    }
  }
}

void CopyLocalToLocal(const char *name, const LocalRef &target, const LocalRef &source,
                      const BlockCopy &requested) {
  Instruction instruction(Pipe::kV, name);
  instruction.CheckLocal(target, "destination", kBlockBytes);
  instruction.CheckLocal(source, "source", kBlockBytes);
  if (target.memory != Memory::kUb || source.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "there is no path from %s to %s", MemoryName(source.memory),
                     MemoryName(target.memory));
  }
  CheckBlocks(&instruction, requested, target.dtype, false);
  const BlockCopy copy = Merge(requested);
  if (copy.block_bytes == 0) return;
  const auto num_bytes = static_cast<uint64_t>(copy.block_bytes);
  LocalMemory &memory = instruction.core().memory(Memory::kUb);
  std::vector<uint32_t> unset;
  for (int64_t block = 0; block < copy.block_count; ++block) {
    const auto from = static_cast<uint64_t>(block * (copy.block_bytes + copy.source_gap_bytes));
    const auto to = static_cast<uint64_t>(block * (copy.block_bytes + copy.target_gap_bytes));
    instruction.ReadLocal(source, from, num_bytes, false);
    instruction.WriteLocal(target, to, num_bytes);
    const auto begin = static_cast<uint32_t>(source.begin + from);
    const auto end = static_cast<uint32_t>(begin + num_bytes);
    for (uint32_t byte = memory.FindUnset(begin, end); byte < end;
         byte = memory.FindUnset(byte + 1, end)) {
      unset.push_back(static_cast<uint32_t>(target.begin + to) + (byte - begin));
    }
    std::memmove(instruction.LocalData(target) + to, instruction.LocalData(source) + from,
                 num_bytes);
  }
  instruction.Commit();
  for (const uint32_t byte : unset) memory.MarkUnset(byte, byte + 1);
}

namespace {

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
  const int64_t element = DTypeBytes(target.dtype);
  CheckNdToNz(&instruction, copy, element);
  CheckGmAddress(&instruction, source);
  if (copy.num_matrices == 0 || copy.num_rows == 0 || copy.num_columns == 0) return;

  const int64_t row_bytes = copy.num_columns * element;
  const int64_t num_blocks = (row_bytes + kBlockBytes - 1) / kBlockBytes;
  LocalMemory &memory = instruction.core().memory(Memory::kL1);
  UnitSet units(instruction.core().Capacity(Memory::kL1) / kGranuleBytes);
  struct Row {
    Instruction::GmRange range;
    int64_t target = 0;
  };
  std::vector<Row> partly_unset;
  for (int64_t matrix = 0; matrix < copy.num_matrices; ++matrix) {
    const int64_t matrix_base = matrix * copy.target_matrix_stride * element;
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t base = matrix_base + block * copy.target_column_block_stride * kBlockBytes;
      if (copy.target_row_stride == 1) {
        instruction.WriteLocal(target, static_cast<uint64_t>(base),
                               static_cast<uint64_t>(copy.num_rows * kBlockBytes));
        continue;
      }
      for (int64_t row = 0; row < copy.num_rows; ++row) {
        instruction.WriteLocal(
            target, static_cast<uint64_t>(base + row * copy.target_row_stride * kBlockBytes),
            kBlockBytes);
      }
    }
    for (int64_t row = 0; row < copy.num_rows; ++row) {
      const uint8_t *from =
          source.address +
          (matrix * copy.source_matrix_stride + row * copy.source_row_stride) * element;
      const Instruction::GmRange range =
          instruction.ReadGm(from, static_cast<uint64_t>(row_bytes), false);
      const int64_t to = matrix_base + row * copy.target_row_stride * kBlockBytes;
      for (int64_t block = 0; block < num_blocks; ++block) {
        const int64_t at = to + block * copy.target_column_block_stride * kBlockBytes;
        if (!units.Insert(static_cast<uint32_t>((target.begin + at) / kBlockBytes))) {
          instruction.Fail("stride",
                           "two elements of the matrix go to L1 byte %lld: dstNzC0Stride "
                           "and dstNzNStride count 32-byte units",
                           static_cast<long long>(target.begin + at));
        }
        const int64_t bytes = std::min(kBlockBytes, row_bytes - block * kBlockBytes);
        uint8_t *unit = instruction.LocalData(target) + at;
        std::memcpy(unit, from + block * kBlockBytes, static_cast<size_t>(bytes));
        std::memset(unit + bytes, 0, static_cast<size_t>(kBlockBytes - bytes));
      }
      const uint64_t end = range.begin + static_cast<uint64_t>(row_bytes);
      if (range.buffer->FindUnset(range.begin, end) != end) partly_unset.push_back({range, to});
    }
  }
  instruction.Commit();

  for (const Row &row : partly_unset) {
    for (int64_t block = 0; block < num_blocks; ++block) {
      Instruction::GmRange part = row.range;
      part.begin += static_cast<uint64_t>(block * kBlockBytes);
      const int64_t at = row.target + block * copy.target_column_block_stride * kBlockBytes;
      const int64_t bytes = std::min(kBlockBytes, row_bytes - block * kBlockBytes);
      CarryUnset(part, static_cast<uint64_t>(bytes), &memory,
                 static_cast<uint32_t>(target.begin + at));
    }
  }
}

}  // namespace ascendc_emulation
