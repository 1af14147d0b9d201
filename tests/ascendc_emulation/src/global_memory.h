// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// GM as the kernels may see it: registered buffers, which of their bytes are set, and the accesses
// that later ones must be ordered after. Buffers may be far larger than what a launch touches:
// state is made in chunks, on first touch.
#ifndef ASCENDC_EMULATION_SRC_GLOBAL_MEMORY_H_
#define ASCENDC_EMULATION_SRC_GLOBAL_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ascendc_emulation/device.h"
#include "byte_mask.h"
#include "clock.h"

namespace ascendc_emulation {

enum class GmAccess : uint8_t { kRead, kWrite, kAtomic };

// Who touched (some bytes of) a granule.
struct AccessRecord {
  uint32_t time = 0;
  uint32_t mask = 0;
  uint16_t core = 0;
  Pipe pipe = Pipe::kS;
  GmAccess access = GmAccess::kRead;
};

// The core, pipe and knowledge of the instruction that makes an access.
struct Accessor {
  uint16_t core = 0;
  Pipe pipe = Pipe::kS;
  uint32_t time = 0;
  const Clock *clock = nullptr;

  bool Knows(const AccessRecord &record) const;
};

class GmBuffer {
 public:
  enum class Role : uint8_t { kInput, kOutput, kInOut, kWorkspace };

  GmBuffer(std::string name, uint8_t *begin, uint64_t num_bytes, Role role);

  const std::string &name() const { return name_; }
  Role role() const { return role_; }
  uint8_t *begin() const { return begin_; }
  uint64_t num_bytes() const { return num_bytes_; }
  BufferTraffic &traffic() { return traffic_; }

  // Offsets are bytes from the begin of the buffer.
  uint64_t FindUnset(uint64_t begin, uint64_t end);
  uint32_t SetMask(uint64_t granule);
  void MarkSet(uint64_t begin, uint64_t end);
  void MarkUnset(uint64_t begin, uint64_t end);
  uint64_t CountUnset();
  // Whether some instruction of this launch wrote some of the bytes.
  bool WasWritten(uint64_t begin, uint64_t end);

  // An earlier access that conflicts and is not known to the accessor.
  bool FindConflict(uint64_t begin, uint64_t end, GmAccess access, const Accessor &accessor,
                    AccessRecord *conflict, uint64_t *conflict_begin);
  void Record(uint64_t begin, uint64_t end, GmAccess access, const Accessor &accessor);
  void CountTraffic(uint64_t begin, uint64_t end, bool is_write, Pipe pipe);
  // Before a launch: nobody has touched anything, counters are zero, outputs and workspaces hold
  // nothing that a kernel may rely on.
  void BeginLaunch();

 private:
  struct Granule {
    static constexpr uint32_t kInline = 3;
    AccessRecord records[kInline];
    uint32_t num_records = 0;
    std::unique_ptr<std::vector<AccessRecord>> more;
  };
  static constexpr uint64_t kChunkGranules = 1024;
  struct Chunk {
    Granule granules[kChunkGranules];
    uint32_t set_masks[kChunkGranules] = {};
  };

  bool IsTracked() const { return role_ != Role::kInput; }
  Chunk &ChunkOf(uint64_t granule);
  static void AddRecord(Granule *granule, const AccessRecord &record);

  std::string name_;
  uint8_t *begin_;
  uint64_t num_bytes_;
  Role role_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  // One bit for each granule that was read or written, in chunks made on first touch.
  using TouchedChunk = std::array<uint64_t, kChunkGranules / 64>;
  std::vector<std::unique_ptr<TouchedChunk>> touched_;
  BufferTraffic traffic_;
};

class GlobalMemory {
 public:
  GmBuffer *Add(const std::string &name, uint8_t *begin, uint64_t num_bytes, GmBuffer::Role role);
  // The buffer that holds all of [address, address + num_bytes), or null.
  GmBuffer *Find(const void *address, uint64_t num_bytes);
  GmBuffer *FindByName(const std::string &name);
  // For messages: the nearest buffer that begins at or below the address, or null.
  GmBuffer *Nearest(const void *address);
  const std::vector<std::unique_ptr<GmBuffer>> &buffers() const { return buffers_; }
  // Memory that lives as long as this object, page-wise on demand.
  uint8_t *Allocate(uint64_t num_bytes);
  ~GlobalMemory();

 private:
  std::vector<std::unique_ptr<GmBuffer>> buffers_;  // by ascending address
  struct Mapping {
    void *address;
    uint64_t num_bytes;
  };
  std::vector<Mapping> mappings_;
  GmBuffer *last_found_ = nullptr;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_GLOBAL_MEMORY_H_
