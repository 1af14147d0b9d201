// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "core.h"

namespace ascendc_emulation {

const char *PipeName(Pipe pipe) {
  static constexpr const char *kNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
  return kNames[Index(pipe)];
}

const char *MemoryName(Memory memory) {
  static constexpr const char *kNames[] = {"UB", "L1", "L0A", "L0B", "L0C", "no local memory"};
  return kNames[Index(memory)];
}

const char *DTypeName(DType dtype) {
  static constexpr const char *kNames[] = {"int8_t",  "uint8_t",    "int16_t", "uint16_t",
                                           "int32_t", "uint32_t",   "int64_t", "uint64_t",
                                           "half",    "bfloat16_t", "float"};
  return kNames[static_cast<size_t>(dtype)];
}

uint32_t DTypeBytes(DType dtype) {
  static constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4};
  return kBytes[static_cast<size_t>(dtype)];
}

Core::Core(int core_index, int ai_core_index, int sub_block_index, bool is_cube_core,
           const DeviceConfig &config)
    : index(core_index), ai_core(ai_core_index), sub_block(sub_block_index), is_cube(is_cube_core) {
  counters.is_cube = is_cube;
  counters.ai_core = ai_core;
  if (is_cube) {
    capacities_[Index(Memory::kL1)] = config.l1_bytes;
    capacities_[Index(Memory::kL0a)] = config.l0a_bytes;
    capacities_[Index(Memory::kL0b)] = config.l0b_bytes;
    capacities_[Index(Memory::kL0c)] = config.l0c_bytes;
  } else {
    capacities_[Index(Memory::kUb)] = config.ub_bytes;
  }
}

std::string Core::Name() const {
  if (is_cube) return "AIC " + std::to_string(ai_core);
  return "AIV " + std::to_string(ai_core * 2 + sub_block) + " (AI core " + std::to_string(ai_core) +
         ", vector " + std::to_string(sub_block) + ")";
}

bool Core::HasPipe(Pipe pipe) const {
  switch (pipe) {
    case Pipe::kV:
      return !is_cube;
    case Pipe::kM:
    case Pipe::kMte1:
    case Pipe::kFix:
      return is_cube;
    default:
      return true;
  }
}

bool Core::HasMemory(Memory memory) const {
  return memory != Memory::kNone && capacities_[Index(memory)] != 0;
}

LocalMemory &Core::memory(Memory memory) {
  std::unique_ptr<LocalMemory> &slot = memories_[Index(memory)];
  if (slot == nullptr) slot = std::make_unique<LocalMemory>(capacities_[Index(memory)]);
  return *slot;
}

void Core::Issue(Pipe issued, const char *name) {
  PipeState &state = pipes_[Index(issued)];
  const PipeState &scalar = pipes_[Index(Pipe::kS)];
  if (issued != Pipe::kS) {
    // Issue order carries what the scalar unit waited for, but not the scalar unit's own accesses:
    // those need an S_x event.
    const uint32_t known_scalar = state.clock.known[Index(Pipe::kS)];
    state.clock.Join(scalar.clock);
    state.clock.known[Index(Pipe::kS)] = known_scalar;
  }
  ++state.time;
  state.names.push_back(name);
  // The scalar unit finishes each of its instructions before the next one.
  if (issued == Pipe::kS) state.clock.known[Index(Pipe::kS)] = state.time - 1;
  ++counters.instructions[Index(issued)];
  current_pipe = issued;
  current_name = name;
}

}  // namespace ascendc_emulation
