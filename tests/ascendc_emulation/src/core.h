// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// One cube or vector core: its pipes, events, flag counters, local memories and special registers.
#ifndef ASCENDC_EMULATION_SRC_CORE_H_
#define ASCENDC_EMULATION_SRC_CORE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ascendc_emulation/device.h"
#include "clock.h"
#include "fibre.h"
#include "local_memory.h"

namespace ascendc_emulation {

constexpr int kNumEventIds = 8;
constexpr int kNumCrossCoreFlags = 16;
constexpr size_t kNumMemories = static_cast<size_t>(Memory::kNumMemories);
constexpr size_t Index(Memory memory) { return static_cast<size_t>(memory); }

const char *PipeName(Pipe pipe);
const char *MemoryName(Memory memory);
const char *DTypeName(DType dtype);

struct PipeState {
  Clock clock;
  uint32_t time = 0;                // instructions issued so far
  std::vector<const char *> names;  // of instruction 1, 2, ...
};

struct Event {
  bool is_set = false;
  bool is_allocated = false;
  Clock clock;
};

// The vector unit's mask, the state of atomic writes, and CTRL[48].
struct SpecialRegisters {
  bool is_counter_mode = false;
  uint64_t mask[2] = {~uint64_t{0}, ~uint64_t{0}};  // low, high
  bool is_saturating = true;
  AtomicMode atomic_mode = AtomicMode::kNone;
  DType atomic_dtype = DType::kFloat;
};

class Core {
 public:
  Core(int index, int ai_core, int sub_block, bool is_cube, const DeviceConfig &config);

  // "AIC 3" or "AIV 7 (AI core 3, vector 1)".
  std::string Name() const;
  bool HasPipe(Pipe pipe) const;
  bool HasMemory(Memory memory) const;
  uint32_t Capacity(Memory memory) const { return capacities_[Index(memory)]; }
  LocalMemory &memory(Memory memory);
  PipeState &pipe(Pipe pipe) { return pipes_[Index(pipe)]; }

  // Starts an instruction: it runs after whatever the scalar unit has waited for.
  void Issue(Pipe pipe, const char *name);
  Event &event(Pipe source, Pipe target, int64_t id) {
    return events_[Index(source)][Index(target)][static_cast<size_t>(id)];
  }

  int index = 0;
  int ai_core = 0;
  int sub_block = 0;
  bool is_cube = false;
  SpecialRegisters registers;
  CoreCounters counters;
  std::array<uint32_t, kNumMemories> reserved_bytes{};
  int num_buffers = 0;  // InitBuffer calls since TPipe::Init or Reset
  // The scalar unit's data cache: lines (address / 64) written and not cleaned yet, and lines read
  // since the cache or the line was last cleaned.
  std::set<uintptr_t> dirty_lines;
  std::set<uintptr_t> cached_lines;
  // Cross-core flags: one entry for each count, oldest first, with what the setters published.
  std::array<std::deque<SnapshotPtr>, kNumCrossCoreFlags> flags;
  int waiting_for_flag = -1;
  bool has_started = false;
  uint64_t next_serial = 1;
  std::unique_ptr<Fibre> fibre;
  // The instruction that messages name.
  Pipe current_pipe = Pipe::kS;
  const char *current_name = "";

 private:
  std::array<PipeState, kNumPipes> pipes_;
  std::array<std::array<std::array<Event, kNumEventIds>, kNumPipes>, kNumPipes> events_;
  std::array<std::unique_ptr<LocalMemory>, kNumMemories> memories_;
  std::array<uint32_t, kNumMemories> capacities_{};
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_CORE_H_
