// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// DataCopy and DataCopyPad.
//
// Moves carry the set/unset state of what they move: an unset byte of GM or UB arrives unset and is
// an error only when something computes with it, or when it reaches an output.

#include <cstring>

#include "atomic_write.h"
#include "copy_rules.h"

namespace ascendc_emulation {

namespace {

// Documented limits of the copy parameters.
constexpr int64_t kMaxBlockCount = 4095;
constexpr int64_t kMaxPaddedBlockBytes = 2097151;

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

// Blocks without gaps are one block.
BlockCopy Merge(const BlockCopy &copy) {
  const bool is_contiguous = copy.source_gap_bytes == 0 && copy.target_gap_bytes == 0 &&
                             copy.block_bytes % kBlockBytes == 0;
  if (!is_contiguous || copy.block_count <= 1) return copy;
  return {1, copy.block_count * copy.block_bytes, 0, 0};
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

}  // namespace ascendc_emulation
