// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// One local memory of one core: its bytes, which of them are set, and who touched them when.
#ifndef ASCENDC_EMULATION_SRC_LOCAL_MEMORY_H_
#define ASCENDC_EMULATION_SRC_LOCAL_MEMORY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "ascendc_emulation/runtime.h"
#include "byte_mask.h"
#include "clock.h"

namespace ascendc_emulation {

class LocalMemory {
 public:
  // Filled with 0xff bytes (NaN in every floating-point type) and unset.
  explicit LocalMemory(uint32_t num_bytes);

  uint8_t *data() { return bytes_.data(); }

  // First unset byte of [begin, end), or end.
  uint32_t FindUnset(uint32_t begin, uint32_t end) const;
  void MarkSet(uint32_t begin, uint32_t end);
  // Marks and poisons.
  void MarkUnset(uint32_t begin, uint32_t end);
  // Copies set and unset state along with bytes that were moved. Offsets may be unaligned.
  uint32_t SetMask(uint32_t granule) const { return set_masks_[granule]; }
  bool IsSet(uint32_t begin, uint32_t end) const { return FindUnset(begin, end) == end; }

  struct Conflict {
    Pipe pipe = Pipe::kS;
    uint32_t time = 0;
    bool was_write = false;
    uint32_t begin = 0;  // first byte of the conflicting granule
  };
  // An earlier access to [begin, end) that is not known to be finished. Reads do not conflict with
  // reads.
  bool FindConflict(uint32_t begin, uint32_t end, bool is_write, const PipeTimes &known,
                    Conflict *conflict) const;
  void Record(uint32_t begin, uint32_t end, bool is_write, Pipe pipe, uint32_t time);

 private:
  // Accesses of one kind by one pipe, for each granule: time and bytes of the last one, and of
  // those before it whatever bytes they alone touched.
  struct Track {
    std::vector<uint32_t> times;
    std::vector<uint32_t> masks;
    std::vector<uint32_t> older_times;
    std::vector<uint32_t> older_masks;
  };
  static void RecordEdge(Track *track, uint32_t granule, uint32_t mask, uint32_t time);
  bool FindInTrack(const Track &track, uint32_t begin, uint32_t end, uint32_t known, uint32_t *time,
                   uint32_t *granule) const;

  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> set_masks_;
  std::array<Track, kNumPipes> reads_;
  std::array<Track, kNumPipes> writes_;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_LOCAL_MEMORY_H_
