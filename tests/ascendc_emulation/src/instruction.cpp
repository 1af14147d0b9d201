// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "instruction.h"

namespace ascendc_emulation {

namespace {

// "MTE2 DataCopy #12"
std::string Describe(Core &core, Pipe pipe, uint32_t time) {
  const std::vector<const char *> &names = core.pipe(pipe).names;
  const char *name = time >= 1 && time <= names.size() ? names[time - 1] : "?";
  return Format("%s %s #%u", PipeName(pipe), name, time);
}

}  // namespace

Instruction::Instruction(Pipe pipe, const char *name)
    : engine_(Engine::Current()), core_(Engine::CurrentCore()), pipe_(pipe) {
  core_.Issue(pipe, name);
  if (!core_.HasPipe(pipe)) {
    Fail("wrong core", "%s cores have no pipe %s", core_.is_cube ? "cube" : "vector",
         PipeName(pipe));
  }
}

void Instruction::Fail(const char *rule, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string detail = FormatList(format, arguments);
  va_end(arguments);
  engine_.Fail(rule, detail);
}

void Instruction::CheckLocal(const LocalRef &ref, const char *operand, uint64_t alignment) {
  if (!core_.HasMemory(ref.memory)) {
    Fail("wrong core", "%s lies in %s, which this core does not have", operand,
         MemoryName(ref.memory));
  }
  if (ref.begin % alignment != 0) {
    Fail("alignment", "%s begins at %s byte %u, which is not a multiple of %llu", operand,
         MemoryName(ref.memory), ref.begin, static_cast<unsigned long long>(alignment));
  }
}

void Instruction::CheckRange(const LocalRef &ref, uint64_t offset, uint64_t num_bytes) {
  const uint64_t begin = ref.begin + offset;
  if (begin + num_bytes <= ref.end) return;
  Fail("out of range", "touches %s bytes [%llu, %llu), the buffer ends at %u",
       MemoryName(ref.memory), static_cast<unsigned long long>(begin),
       static_cast<unsigned long long>(begin + num_bytes), ref.end);
}

void Instruction::CheckLocalOrder(const LocalRef &ref, uint32_t begin, uint32_t end,
                                  bool is_write) {
  LocalMemory::Conflict conflict;
  const PipeTimes &known = core_.pipe(pipe_).clock.known;
  if (!core_.memory(ref.memory).FindConflict(begin, end, is_write, known, &conflict)) return;
  const std::string other = Describe(core_, conflict.pipe, conflict.time);
  const bool is_same_pipe = conflict.pipe == pipe_;
  Fail(is_same_pipe ? "missing barrier" : "unordered access",
       "%s %s bytes [%u, %u), which %s %s near byte %u; %s", is_write ? "writes" : "reads",
       MemoryName(ref.memory), begin, end, other.c_str(), conflict.was_write ? "writes" : "reads",
       conflict.begin,
       is_same_pipe ? "no PipeBarrier of this pipe stands between them"
                    : "no flag or barrier orders the two pipes");
}

void Instruction::AddLocal(const LocalRef &ref, uint64_t begin, uint64_t end, bool is_write) {
  local_.push_back(
      {ref.memory, is_write, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
}

void Instruction::ReadLocal(const LocalRef &ref, uint64_t offset, uint64_t num_bytes,
                            bool needs_set) {
  if (num_bytes == 0) return;
  CheckRange(ref, offset, num_bytes);
  const auto begin = static_cast<uint32_t>(ref.begin + offset);
  const auto end = static_cast<uint32_t>(begin + num_bytes);
  CheckLocalOrder(ref, begin, end, false);
  if (needs_set) {
    const uint32_t unset = core_.memory(ref.memory).FindUnset(begin, end);
    if (unset != end) {
      Fail("unset data",
           "computes with %s byte %u, which was never written (operand range "
           "[%u, %u))",
           MemoryName(ref.memory), unset, begin, end);
    }
  }
  AddLocal(ref, begin, end, false);
}

void Instruction::WriteLocal(const LocalRef &ref, uint64_t offset, uint64_t num_bytes) {
  if (num_bytes == 0) return;
  CheckRange(ref, offset, num_bytes);
  const auto begin = static_cast<uint32_t>(ref.begin + offset);
  const auto end = static_cast<uint32_t>(begin + num_bytes);
  CheckLocalOrder(ref, begin, end, true);
  AddLocal(ref, begin, end, true);
}

Accessor Instruction::AsAccessor() {
  const PipeState &state = core_.pipe(pipe_);
  return {static_cast<uint16_t>(core_.index), pipe_, state.time, &state.clock};
}

Instruction::GmRange Instruction::FindGm(const void *address, uint64_t num_bytes,
                                         const char *verb) {
  GmBuffer *buffer = engine_.gm().Find(address, num_bytes);
  if (buffer == nullptr) {
    const GmBuffer *nearest = engine_.gm().Nearest(address);
    if (nearest == nullptr) {
      Fail("out of range", "%s %llu bytes of GM at %p, where no buffer is registered", verb,
           static_cast<unsigned long long>(num_bytes), address);
    }
    const auto offset =
        static_cast<long long>(static_cast<const uint8_t *>(address) - nearest->begin());
    Fail("out of range",
         "%s %llu bytes of GM at byte %lld after the begin of '%s', which has "
         "%llu bytes",
         verb, static_cast<unsigned long long>(num_bytes), offset, nearest->name().c_str(),
         static_cast<unsigned long long>(nearest->num_bytes()));
  }
  return {buffer, static_cast<uint64_t>(static_cast<const uint8_t *>(address) - buffer->begin())};
}

void Instruction::CheckGmOrder(const GmRange &range, uint64_t num_bytes, GmAccess access) {
  AccessRecord conflict;
  uint64_t conflict_begin = 0;
  if (!range.buffer->FindConflict(range.begin, range.begin + num_bytes, access, AsAccessor(),
                                  &conflict, &conflict_begin)) {
    return;
  }
  Core *other = engine_.core(conflict.core);
  Fail("unordered access",
       "%s GM '%s' bytes [%llu, %llu), which %s, %s %s near byte %llu; no "
       "flag or barrier orders the two",
       access == GmAccess::kRead ? "reads" : "writes", range.buffer->name().c_str(),
       static_cast<unsigned long long>(range.begin),
       static_cast<unsigned long long>(range.begin + num_bytes), other->Name().c_str(),
       Describe(*other, conflict.pipe, conflict.time).c_str(),
       conflict.access == GmAccess::kRead ? "reads" : "writes",
       static_cast<unsigned long long>(conflict_begin));
}

Instruction::GmRange Instruction::ReadGm(const void *address, uint64_t num_bytes, bool needs_set) {
  if (num_bytes == 0) return {};
  const GmRange range = FindGm(address, num_bytes, "reads");
  const uint64_t end = range.begin + num_bytes;
  CheckGmOrder(range, num_bytes, GmAccess::kRead);
  if (needs_set) {
    const uint64_t unset = range.buffer->FindUnset(range.begin, end);
    if (unset != end) {
      Fail("unset data", "reads GM '%s' byte %llu, which was never written",
           range.buffer->name().c_str(), static_cast<unsigned long long>(unset));
    }
  }
  range.buffer->CountTraffic(range.begin, end, false, pipe_);
  core_.counters.gm_read_bytes += num_bytes;
  if (range.buffer->role() != GmBuffer::Role::kInput) {
    gm_.push_back({range.buffer, GmAccess::kRead, range.begin, end});
  }
  return range;
}

Instruction::GmRange Instruction::WriteGm(void *address, uint64_t num_bytes, bool is_atomic) {
  if (num_bytes == 0) return {};
  const GmRange range = FindGm(address, num_bytes, "writes");
  const uint64_t end = range.begin + num_bytes;
  if (range.buffer->role() == GmBuffer::Role::kInput) {
    Fail("write to input", "writes GM '%s' bytes [%llu, %llu), which is an input",
         range.buffer->name().c_str(), static_cast<unsigned long long>(range.begin),
         static_cast<unsigned long long>(end));
  }
  CheckGmOrder(range, num_bytes, is_atomic ? GmAccess::kAtomic : GmAccess::kWrite);
  const uint64_t unset = is_atomic ? range.buffer->FindUnset(range.begin, end) : end;
  if (unset != end) {
    Fail("unset data", "atomic write to GM '%s' byte %llu, which was never written",
         range.buffer->name().c_str(), static_cast<unsigned long long>(unset));
  }
  range.buffer->CountTraffic(range.begin, end, true, pipe_);
  core_.counters.gm_written_bytes += num_bytes;
  gm_.push_back({range.buffer, is_atomic ? GmAccess::kAtomic : GmAccess::kWrite, range.begin, end});
  return range;
}

void Instruction::Commit() {
  const uint32_t time = core_.pipe(pipe_).time;
  for (const LocalAccess &access : local_) {
    LocalMemory &memory = core_.memory(access.memory);
    memory.Record(access.begin, access.end, access.is_write, pipe_, time);
    if (access.is_write) memory.MarkSet(access.begin, access.end);
  }
  const Accessor accessor = AsAccessor();
  for (const GmAccessRange &range : gm_) {
    range.buffer->Record(range.begin, range.end, range.access, accessor);
    if (range.access != GmAccess::kRead) range.buffer->MarkSet(range.begin, range.end);
  }
}

}  // namespace ascendc_emulation
