// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Flags, barriers, core identity, scalar accesses and reservations.

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "instruction.h"

namespace ascendc_emulation {

namespace {

// The device documentation leaves ids 0..5 to hand-written flags; 6 and 7 belong to the framework.
constexpr int64_t kNumHandEventIds = 6;
// SyncAll uses the cross-core flags from here on.
constexpr int64_t kFirstReservedFlag = 11;
constexpr int kFlagAllVectorCores = 11;
constexpr int kFlagAllCubeCores = 12;
constexpr int kFlagVectorToCube = 13;
constexpr int kFlagCubeToVector = 14;
// The workspace's first bytes belong to the framework.
constexpr uint64_t kSystemWorkspaceBytes = 16 * 1024 * 1024;
// The scalar unit reads and writes GM through a cache that other units do not see.
constexpr uintptr_t kCacheLineBytes = 64;
// Buffers of one TPipe, as documented.
constexpr int kMaxBuffers = 64;

std::string EventText(Pipe source, Pipe target, int64_t id) {
  return Format("%s_%s id %lld", PipeName(source), PipeName(target), static_cast<long long>(id));
}

void CheckEvent(Instruction *instruction, Pipe source, Pipe target, int64_t id) {
  const Core &core = instruction->core();
  if (!core.HasPipe(source) || !core.HasPipe(target)) {
    instruction->Fail("wrong core", "event %s names a pipe that this core does not have",
                      EventText(source, target, id).c_str());
  }
  if (id < 0 || id >= kNumHandEventIds) {
    instruction->Fail("event id", "event %s: ids are 0 to %lld",
                      EventText(source, target, id).c_str(),
                      static_cast<long long>(kNumHandEventIds - 1));
  }
}

template <typename Visit>
void ForEachLine(const void *address, uint32_t bytes, Visit &&visit) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (uintptr_t line = begin / kCacheLineBytes; line <= (begin + bytes - 1) / kCacheLineBytes;
       ++line) {
    visit(line);
  }
}

// What the pipe may publish: all it has issued so far is finished when the flag rises.
Clock PublishedClock(Core *core, Pipe pipe) {
  Clock clock = core->pipe(pipe).clock;
  clock.known[Index(pipe)] = core->pipe(pipe).time;
  return clock;
}

SnapshotPtr MakeSnapshot(Engine *engine, Core *core, const Clock &clock) {
  auto snapshot = std::make_shared<Snapshot>();
  if (clock.acquired != nullptr) {
    snapshot->times = clock.acquired->times;
  } else {
    snapshot->times.assign(static_cast<size_t>(engine->num_ai_cores()) * 3 * kNumPipes, 0u);
  }
  std::copy(clock.known.begin(), clock.known.end(),
            snapshot->times.begin() + static_cast<std::ptrdiff_t>(core->index * kNumPipes));
  return snapshot;
}

void SetCrossCore(Core *core, int mode, Pipe pipe, int flag_id) {
  Engine &engine = Engine::Current();
  if (!core->dirty_lines.empty()) {
    engine.Fail("scalar cache",
                "other cores are told to go on, a scalar write to GM is still in this "
                "core's cache: DataCacheCleanAndInvalid is missing");
  }
  engine.PublishFlag(core, mode, flag_id, MakeSnapshot(&engine, core, PublishedClock(core, pipe)));
  engine.MaybeSwitch(core);
}

void WaitCrossCore(Core *core, int flag_id) {
  Engine::Current().WaitForFlag(core, flag_id);
  auto &counts = core->flags[static_cast<size_t>(flag_id)];
  const SnapshotPtr published = counts.front();
  counts.pop_front();
  Clock &clock = core->pipe(Pipe::kS).clock;
  auto joined = std::make_shared<Snapshot>(*published);
  if (clock.acquired != nullptr) {
    for (size_t i = 0; i < joined->times.size(); ++i) {
      joined->times[i] = std::max(joined->times[i], clock.acquired->times[i]);
    }
  }
  joined->serial = core->next_serial++;
  // What others knew of this core's own pipes comes back as well.
  for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
    clock.known[pipe] = std::max(
        clock.known[pipe], joined->times[static_cast<size_t>(core->index) * kNumPipes + pipe]);
  }
  clock.acquired = joined;
}

}  // namespace

// ---- events within a core ----

void SetEvent(Pipe source, Pipe target, int64_t event_id) {
  Instruction instruction(source, "SetFlag");
  CheckEvent(&instruction, source, target, event_id);
  Event &event = instruction.core().event(source, target, event_id);
  if (event.is_set) {
    instruction.Fail("event set twice", "event %s is set again before anyone waited for it",
                     EventText(source, target, event_id).c_str());
  }
  event.is_set = true;
  event.clock = PublishedClock(&instruction.core(), source);
}

void WaitEvent(Pipe source, Pipe target, int64_t event_id) {
  Instruction instruction(target, "WaitFlag");
  CheckEvent(&instruction, source, target, event_id);
  Core &core = instruction.core();
  Event &event = core.event(source, target, event_id);
  if (!event.is_set) {
    instruction.Fail("event never set",
                     "waits for event %s, which no earlier SetFlag has set: "
                     "dead lock",
                     EventText(source, target, event_id).c_str());
  }
  event.is_set = false;
  core.pipe(target).clock.Join(event.clock);
}

int8_t AllocateEventId(Pipe source, Pipe target) {
  Instruction instruction(Pipe::kS, "AllocEventID");
  for (int id = 0; id < kNumEventIds; ++id) {
    Event &event = instruction.core().event(source, target, id);
    if (event.is_allocated) continue;
    event.is_allocated = true;
    return static_cast<int8_t>(id);
  }
  instruction.Fail("event id", "all %d ids of event %s_%s are taken", kNumEventIds,
                   PipeName(source), PipeName(target));
}

void ReleaseEventId(Pipe source, Pipe target, int64_t event_id) {
  Instruction instruction(Pipe::kS, "ReleaseEventID");
  if (event_id < 0 || event_id >= kNumEventIds) {
    instruction.Fail("event id", "releases event %s", EventText(source, target, event_id).c_str());
  }
  instruction.core().event(source, target, event_id).is_allocated = false;
}

void Barrier(Pipe pipe) {
  Instruction instruction(pipe, "PipeBarrier");
  PipeState &state = instruction.core().pipe(pipe);
  state.clock.known[Index(pipe)] = state.time;
}

void BarrierAll() {
  Instruction instruction(Pipe::kS, "PipeBarrier<PIPE_ALL>");
  Core &core = instruction.core();
  Clock joined;
  for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
    joined.Join(PublishedClock(&core, static_cast<Pipe>(pipe)));
  }
  for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
    core.pipe(static_cast<Pipe>(pipe)).clock = joined;
  }
}

// ---- flags between cores ----

void CrossCoreSet(int mode, Pipe pipe, int64_t flag_id) {
  Instruction instruction(pipe, "CrossCoreSetFlag");
  if (flag_id < 0 || flag_id >= kFirstReservedFlag) {
    instruction.Fail("flag id", "cross-core flag %lld: ids are 0 to %lld, SyncAll has the others",
                     static_cast<long long>(flag_id),
                     static_cast<long long>(kFirstReservedFlag - 1));
  }
  SetCrossCore(&instruction.core(), mode, pipe, static_cast<int>(flag_id));
}

void CrossCoreWait(int64_t flag_id) {
  Instruction instruction(Pipe::kS, "CrossCoreWaitFlag");
  if (flag_id < 0 || flag_id >= kFirstReservedFlag) {
    instruction.Fail("flag id", "cross-core flag %lld: ids are 0 to %lld, SyncAll has the others",
                     static_cast<long long>(flag_id),
                     static_cast<long long>(kFirstReservedFlag - 1));
  }
  WaitCrossCore(&instruction.core(), static_cast<int>(flag_id));
}

// The order of the device: vector cores tell their cube core, cube cores meet, cube cores tell
// their vector cores.
void SynchroniseAllCores(bool vector_cores_only) {
  BarrierAll();
  Instruction instruction(Pipe::kS, "SyncAll");
  Core *core = &instruction.core();
  if (vector_cores_only) {
    if (core->is_cube) {
      instruction.Fail("wrong core", "SyncAll of vector cores only is called by a cube core");
    }
    SetCrossCore(core, 0, Pipe::kMte3, kFlagAllVectorCores);
    WaitCrossCore(core, kFlagAllVectorCores);
  } else if (core->is_cube) {
    WaitCrossCore(core, kFlagVectorToCube);
    // The barrier above finished all pipes; what was learnt since is in the scalar unit's clock.
    SetCrossCore(core, 0, Pipe::kS, kFlagAllCubeCores);
    WaitCrossCore(core, kFlagAllCubeCores);
    SetCrossCore(core, 2, Pipe::kS, kFlagCubeToVector);
  } else {
    SetCrossCore(core, 2, Pipe::kMte3, kFlagVectorToCube);
    WaitCrossCore(core, kFlagCubeToVector);
  }
}

// ---- identity ----

bool IsCubeCore() { return Engine::CurrentCore().is_cube; }
int64_t BlockIndex() {
  const Core &core = Engine::CurrentCore();
  return core.is_cube ? core.ai_core : core.ai_core * 2 + core.sub_block;
}
int64_t BlockCount() { return Engine::Current().num_ai_cores(); }
int64_t SubBlockIndex() { return Engine::CurrentCore().sub_block; }
int64_t VectorCoresPerCubeCore() { return 2; }
bool IsLaunchEnding() { return Engine::Current().is_ending(); }

void DeclareKernelType(int kernel_type, const char *name) {
  constexpr int kMixOneCubeTwoVector = 5;
  if (kernel_type == kMixOneCubeTwoVector) return;
  Instruction instruction(Pipe::kS, "KERNEL_TASK_TYPE_DEFAULT");
  instruction.Fail("kernel type", "%s: this emulation launches KERNEL_TYPE_MIX_AIC_1_2 only", name);
}

uint8_t *UserWorkspace(uint8_t *workspace) { return workspace + kSystemWorkspaceBytes; }

// ---- scalar unit ----

void ScalarReadGm(const void *address, void *value, uint32_t bytes) {
  Instruction instruction(Pipe::kS, "scalar read of GM");
  const Instruction::GmRange range = instruction.ReadGm(address, bytes, true);
  std::memcpy(value, address, bytes);
  instruction.Commit();
  if (range.buffer->role() == GmBuffer::Role::kInput) return;
  // A line that was cached before may be older than what others have written since.
  Core &core = instruction.core();
  ForEachLine(address, bytes, [&](uintptr_t line) {
    const bool is_new = core.cached_lines.insert(line).second;
    const bool is_stale = !is_new && core.dirty_lines.count(line) == 0 &&
                          range.buffer->WasWritten(range.begin, range.begin + bytes);
    if (is_stale) {
      instruction.Fail("scalar cache",
                       "reads GM '%s' byte %llu a second time through the cache after "
                       "it was written: DataCacheCleanAndInvalid is missing",
                       range.buffer->name().c_str(), static_cast<unsigned long long>(range.begin));
    }
  });
}

void ScalarWriteGm(void *address, const void *value, uint32_t bytes) {
  Instruction instruction(Pipe::kS, "scalar write of GM");
  instruction.WriteGm(address, bytes, false);
  std::memcpy(address, value, bytes);
  instruction.Commit();
  Core &core = instruction.core();
  ForEachLine(address, bytes, [&](uintptr_t line) {
    core.dirty_lines.insert(line);
    core.cached_lines.insert(line);
  });
}

void ScalarReadLocal(const LocalRef &source, uint32_t offset_bytes, void *value, uint32_t bytes) {
  Instruction instruction(Pipe::kS, "LocalTensor::GetValue");
  instruction.CheckLocal(source, "tensor", 1);
  if (source.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "the scalar unit cannot read %s", MemoryName(source.memory));
  }
  instruction.ReadLocal(source, offset_bytes, bytes, true);
  std::memcpy(value, instruction.LocalData(source) + offset_bytes, bytes);
  instruction.Commit();
}

void ScalarWriteLocal(const LocalRef &target, uint32_t offset_bytes, const void *value,
                      uint32_t bytes) {
  Instruction instruction(Pipe::kS, "LocalTensor::SetValue");
  instruction.CheckLocal(target, "tensor", 1);
  if (target.memory != Memory::kUb) {
    instruction.Fail("wrong memory", "the scalar unit cannot write %s", MemoryName(target.memory));
  }
  instruction.WriteLocal(target, offset_bytes, bytes);
  std::memcpy(instruction.LocalData(target) + offset_bytes, value, bytes);
  instruction.Commit();
}

void CleanAndInvalidateCache(const void *address, bool entire_cache) {
  Instruction instruction(Pipe::kS, "DataCacheCleanAndInvalid");
  Core &core = instruction.core();
  if (entire_cache) {
    core.dirty_lines.clear();
    core.cached_lines.clear();
    return;
  }
  const uintptr_t line = reinterpret_cast<uintptr_t>(address) / kCacheLineBytes;
  core.dirty_lines.erase(line);
  core.cached_lines.erase(line);
}

void FailFieldRange(int64_t value, int64_t bits, bool is_signed) {
  const std::string detail = Format("the value %lld does not fit a parameter of %lld bits (%s)",
                                    static_cast<long long>(value), static_cast<long long>(bits),
                                    is_signed ? "signed" : "unsigned");
  if (!Engine::HasCurrentCore()) throw std::out_of_range("parameter range: " + detail);
  Core &core = Engine::CurrentCore();
  core.current_pipe = Pipe::kS;
  core.current_name = "parameters of the next instruction";
  Engine::Current().Fail("parameter range", detail);
}

void FailRule(const char *rule, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string detail = FormatList(format, arguments);
  va_end(arguments);
  Core &core = Engine::CurrentCore();
  core.current_pipe = Pipe::kS;
  core.current_name = "tensor or buffer set-up";
  Engine::Current().Fail(rule, detail);
}

// ---- local buffers ----

uint32_t LocalCapacity(Memory memory) { return Engine::CurrentCore().Capacity(memory); }

uint32_t ReserveLocal(Memory memory, uint32_t bytes) {
  Core &core = Engine::CurrentCore();
  uint32_t &reserved = core.reserved_bytes[static_cast<size_t>(memory)];
  // A source compiled for both kinds of core reserves memories of the other kind, too: only their
  // use is an error, and their size counts where they exist.
  if (core.HasMemory(memory) && uint64_t{reserved} + bytes > core.Capacity(memory)) {
    FailRule("capacity", "%s buffers of %llu bytes, the memory has %u", MemoryName(memory),
             static_cast<unsigned long long>(uint64_t{reserved} + bytes), core.Capacity(memory));
  }
  if (++core.num_buffers > kMaxBuffers) {
    FailRule("capacity", "%d buffers, one TPipe has at most %d", core.num_buffers, kMaxBuffers);
  }
  const uint32_t begin = reserved;
  reserved += bytes;
  return begin;
}

void ResetLocalReservations() {
  Core &core = Engine::CurrentCore();
  core.reserved_bytes.fill(0);
  core.num_buffers = 0;
}

}  // namespace ascendc_emulation
