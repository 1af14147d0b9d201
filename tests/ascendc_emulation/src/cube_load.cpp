// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// LoadData and Fill.

#include <cstring>
#include <utility>

#include "cube_layout.h"
#include "instruction.h"

namespace ascendc_emulation {

namespace {

void TransposeFractal(const uint8_t *source, uint8_t *target) {
  uint16_t in[256], out[256];
  std::memcpy(in, source, sizeof(in));
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) out[column * 16 + row] = in[row * 16 + column];
  }
  std::memcpy(target, out, sizeof(out));
}

// Carries unset 16-bit elements (or, untransposed, unset bytes) of one fractal along.
void CarryUnsetFractal(const std::vector<uint32_t> &source_masks, bool is_transposed,
                       LocalMemory *target, uint32_t target_begin) {
  for (uint32_t byte = 0; byte < kFractalBytes; ++byte) {
    if ((source_masks[byte / 32] >> (byte % 32) & 1u) != 0) continue;
    uint32_t to = byte;
    if (is_transposed) {
      const uint32_t element = byte / 2;
      to = (element % 16 * 16 + element / 16) * 2 + byte % 2;
    }
    target->MarkUnset(target_begin + to, target_begin + to + 1);
  }
}

}  // namespace

void LoadFractals(const char *name, const LocalRef &target, const LocalRef &source,
                  const FractalLoad &load) {
  Instruction instruction(Pipe::kMte1, name);
  instruction.CheckLocal(source, "source", kFractalRowBytes);
  instruction.CheckLocal(target, "destination", kL0Alignment);
  if (source.memory != Memory::kL1 ||
      (target.memory != Memory::kL0a && target.memory != Memory::kL0b)) {
    instruction.Fail("wrong memory", "loads from %s to %s; the path is L1 to L0A or L0B",
                     MemoryName(source.memory), MemoryName(target.memory));
  }
  if (load.is_transposed && DTypeBytes(source.dtype) != 2) {
    instruction.Fail("data type", "transposes 16-bit elements only, not %s",
                     DTypeName(source.dtype));
  }
  if (load.is_address_decreasing) {
    instruction.Fail("not emulated", "addrMode 1");
  }
  LocalMemory &l1 = instruction.core().memory(source.memory);
  struct UnsetFractal {
    std::vector<uint32_t> masks;
    uint32_t target_begin;
  };
  std::vector<UnsetFractal> unset;
  for (int64_t repeat = 0; repeat < load.repeat_times; ++repeat) {
    const int64_t from = (load.start_index + repeat * load.source_stride) * kFractalBytes;
    const int64_t to = repeat * (1 + load.target_gap) * kFractalBytes;
    instruction.ReadLocal(source, static_cast<uint64_t>(from), kFractalBytes, false);
    instruction.WriteLocal(target, static_cast<uint64_t>(to), kFractalBytes);
    const uint8_t *in = instruction.LocalData(source) + from;
    uint8_t *out = instruction.LocalData(target) + to;
    if (load.is_transposed) {
      TransposeFractal(in, out);
    } else {
      std::memcpy(out, in, kFractalBytes);
    }
    const auto begin = static_cast<uint32_t>(source.begin + from);
    if (l1.IsSet(begin, begin + kFractalBytes)) continue;
    UnsetFractal fractal{{}, static_cast<uint32_t>(target.begin + to)};
    for (int64_t row = 0; row < kFractalBytes / kFractalRowBytes; ++row) {
      fractal.masks.push_back(l1.SetMask(begin / 32 + static_cast<uint32_t>(row)));
    }
    unset.push_back(std::move(fractal));
  }
  instruction.Commit();
  LocalMemory &l0 = instruction.core().memory(target.memory);
  for (const UnsetFractal &fractal : unset) {
    CarryUnsetFractal(fractal.masks, load.is_transposed, &l0, fractal.target_begin);
  }
}

void FillConstant(const LocalRef &target, int64_t repeat_times, int64_t block_count,
                  int64_t target_gap, uint64_t value_bits) {
  const bool is_l1 = target.memory == Memory::kL1;
  Instruction instruction(is_l1 ? Pipe::kMte2 : Pipe::kMte1, "Fill");
  const int64_t unit = is_l1 ? kFractalRowBytes : kFractalBytes;
  instruction.CheckLocal(target, "destination", static_cast<uint64_t>(unit));
  if (!is_l1 && target.memory != Memory::kL0a && target.memory != Memory::kL0b) {
    instruction.Fail("wrong memory", "fills L1, L0A or L0B, not %s", MemoryName(target.memory));
  }
  const uint32_t element = DTypeBytes(target.dtype);
  for (int64_t repeat = 0; repeat < repeat_times; ++repeat) {
    const int64_t at = repeat * (block_count + target_gap) * unit;
    instruction.WriteLocal(target, static_cast<uint64_t>(at),
                           static_cast<uint64_t>(block_count * unit));
    uint8_t *data = instruction.LocalData(target) + at;
    for (int64_t byte = 0; byte < block_count * unit; byte += element) {
      std::memcpy(data + byte, &value_bits, element);
    }
  }
  instruction.Commit();
}

}  // namespace ascendc_emulation
