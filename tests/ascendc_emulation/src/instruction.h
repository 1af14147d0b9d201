// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// One instruction of the current core: checks each access when it is announced, and records all of
// them once the instruction has done its work.
#ifndef ASCENDC_EMULATION_SRC_INSTRUCTION_H_
#define ASCENDC_EMULATION_SRC_INSTRUCTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine.h"

namespace ascendc_emulation {

class Instruction {
 public:
  // Issues the instruction on the pipe; fails when the core has no such pipe.
  Instruction(Pipe pipe, const char *name);

  Core &core() { return core_; }
  Pipe pipe() const { return pipe_; }

  // ---- local memory. The range is relative to ref.begin and must lie in ref's buffer ----
  uint8_t *LocalData(const LocalRef &ref) { return core_.memory(ref.memory).data() + ref.begin; }
  void CheckLocal(const LocalRef &ref, const char *operand, uint64_t alignment);
  // needs_set: unset bytes are an error; else the caller carries the state along.
  void ReadLocal(const LocalRef &ref, uint64_t offset, uint64_t num_bytes, bool needs_set);
  void WriteLocal(const LocalRef &ref, uint64_t offset, uint64_t num_bytes);

  // ---- GM ----
  struct GmRange {
    GmBuffer *buffer = nullptr;
    uint64_t begin = 0;  // in the buffer
  };
  GmRange ReadGm(const void *address, uint64_t num_bytes, bool needs_set);
  GmRange WriteGm(void *address, uint64_t num_bytes, bool is_atomic);

  // Records the announced accesses and marks what was written as set.
  void Commit();

  [[noreturn]] void Fail(const char *rule, const char *format, ...)
      __attribute__((format(printf, 3, 4)));

 private:
  struct LocalAccess {
    Memory memory;
    bool is_write;
    uint32_t begin;
    uint32_t end;
  };
  struct GmAccessRange {
    GmBuffer *buffer;
    GmAccess access;
    uint64_t begin;
    uint64_t end;
  };
  // Absolute range in the memory; fails when it leaves the buffer.
  void CheckRange(const LocalRef &ref, uint64_t offset, uint64_t num_bytes);
  void CheckLocalOrder(const LocalRef &ref, uint32_t begin, uint32_t end, bool is_write);
  GmRange FindGm(const void *address, uint64_t num_bytes, const char *verb);
  void CheckGmOrder(const GmRange &range, uint64_t num_bytes, GmAccess access);
  Accessor AsAccessor();
  void AddLocal(const LocalRef &ref, uint64_t begin, uint64_t end, bool is_write);

  Engine &engine_;
  Core &core_;
  Pipe pipe_;
  std::vector<LocalAccess> local_;
  std::vector<GmAccessRange> gm_;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_INSTRUCTION_H_
