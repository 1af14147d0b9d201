// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "local_memory.h"

#include <cstring>

namespace ascendc_emulation {

namespace {
constexpr uint8_t kPoison = 0xff;
}  // namespace

LocalMemory::LocalMemory(uint32_t num_bytes)
    : bytes_(num_bytes, kPoison), set_masks_(num_bytes / kGranuleBytes, 0u) {}

uint32_t LocalMemory::FindUnset(uint32_t begin, uint32_t end) const {
  if (begin >= end) return end;
  const uint32_t first = begin / kGranuleBytes;
  const uint32_t last = (end - 1) / kGranuleBytes;
  uint32_t all = kFullMask;
  for (uint32_t granule = first + 1; granule < last; ++granule) all &= set_masks_[granule];
  const uint32_t head = MaskInGranule(first, begin, end);
  const uint32_t tail = MaskInGranule(last, begin, end);
  if (all == kFullMask && (set_masks_[first] & head) == head && (set_masks_[last] & tail) == tail) {
    return end;
  }
  for (uint32_t byte = begin; byte < end; ++byte) {
    if ((set_masks_[byte / kGranuleBytes] >> (byte % kGranuleBytes) & 1u) == 0) return byte;
  }
  return end;
}

void LocalMemory::MarkSet(uint32_t begin, uint32_t end) {
  if (begin >= end) return;
  const uint32_t first = begin / kGranuleBytes;
  const uint32_t last = (end - 1) / kGranuleBytes;
  set_masks_[first] |= MaskInGranule(first, begin, end);
  set_masks_[last] |= MaskInGranule(last, begin, end);
  for (uint32_t granule = first + 1; granule < last; ++granule) set_masks_[granule] = kFullMask;
}

void LocalMemory::MarkUnset(uint32_t begin, uint32_t end) {
  if (begin >= end) return;
  const uint32_t first = begin / kGranuleBytes;
  const uint32_t last = (end - 1) / kGranuleBytes;
  set_masks_[first] &= ~MaskInGranule(first, begin, end);
  set_masks_[last] &= ~MaskInGranule(last, begin, end);
  for (uint32_t granule = first + 1; granule < last; ++granule) set_masks_[granule] = 0u;
  std::memset(bytes_.data() + begin, kPoison, end - begin);
}

bool LocalMemory::FindInTrack(const Track &track, uint32_t begin, uint32_t end, uint32_t known,
                              uint32_t *time, uint32_t *granule_found) const {
  if (track.times.empty()) return false;
  const uint32_t first = begin / kGranuleBytes;
  const uint32_t last = (end - 1) / kGranuleBytes;
  uint32_t newest = 0;
  for (uint32_t granule = first; granule <= last; ++granule) {
    newest = track.times[granule] > newest ? track.times[granule] : newest;
  }
  if (newest <= known) return false;
  for (uint32_t granule = first; granule <= last; ++granule) {
    const uint32_t mask = MaskInGranule(granule, begin, end);
    const uint32_t older = track.older_masks[granule] & ~track.masks[granule];
    const bool is_newest = track.times[granule] > known && (track.masks[granule] & mask) != 0;
    if (is_newest || (track.older_times[granule] > known && (older & mask) != 0)) {
      *time = is_newest ? track.times[granule] : track.older_times[granule];
      *granule_found = granule;
      return true;
    }
  }
  return false;
}

bool LocalMemory::FindConflict(uint32_t begin, uint32_t end, bool is_write, const PipeTimes &known,
                               Conflict *conflict) const {
  if (begin >= end) return false;
  uint32_t granule = 0;
  for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
    bool is_found = FindInTrack(writes_[pipe], begin, end, known[pipe], &conflict->time, &granule);
    conflict->was_write = is_found;
    if (!is_found && is_write) {
      is_found = FindInTrack(reads_[pipe], begin, end, known[pipe], &conflict->time, &granule);
    }
    if (is_found) {
      conflict->pipe = static_cast<Pipe>(pipe);
      conflict->begin = granule * kGranuleBytes;
      return true;
    }
  }
  return false;
}

// The bytes that only older accesses touched keep the time of the last of these.
void LocalMemory::RecordEdge(Track *track, uint32_t granule, uint32_t mask, uint32_t time) {
  uint32_t &newest_mask = track->masks[granule];
  if (track->times[granule] == time) {
    newest_mask |= mask;
    return;
  }
  track->older_masks[granule] = (track->older_masks[granule] | newest_mask) & ~mask;
  if ((newest_mask & ~mask) != 0) track->older_times[granule] = track->times[granule];
  newest_mask = mask;
  track->times[granule] = time;
}

void LocalMemory::Record(uint32_t begin, uint32_t end, bool is_write, Pipe pipe, uint32_t time) {
  if (begin >= end) return;
  Track *track = is_write ? &writes_[Index(pipe)] : &reads_[Index(pipe)];
  if (track->times.empty()) {
    track->times.assign(set_masks_.size(), 0u);
    track->masks.assign(set_masks_.size(), 0u);
    track->older_times.assign(set_masks_.size(), 0u);
    track->older_masks.assign(set_masks_.size(), 0u);
  }
  const uint32_t first = begin / kGranuleBytes;
  const uint32_t last = (end - 1) / kGranuleBytes;
  RecordEdge(track, first, MaskInGranule(first, begin, end), time);
  if (last == first) return;
  RecordEdge(track, last, MaskInGranule(last, begin, end), time);
  std::fill(track->times.begin() + first + 1, track->times.begin() + last, time);
  std::fill(track->masks.begin() + first + 1, track->masks.begin() + last, kFullMask);
  std::fill(track->older_masks.begin() + first + 1, track->older_masks.begin() + last, 0u);
}

}  // namespace ascendc_emulation
