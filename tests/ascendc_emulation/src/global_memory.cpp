// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "global_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace ascendc_emulation {

namespace {

constexpr uint8_t kPoison = 0xff;

bool Conflicts(GmAccess earlier, GmAccess later) {
  if (earlier == GmAccess::kRead && later == GmAccess::kRead) return false;
  return !(earlier == GmAccess::kAtomic && later == GmAccess::kAtomic);
}

}  // namespace

bool Accessor::Knows(const AccessRecord &record) const {
  if (record.core == core) return clock->known[Index(record.pipe)] >= record.time;
  if (clock->acquired == nullptr) return false;
  return clock->acquired->times[record.core * kNumPipes + Index(record.pipe)] >= record.time;
}

GmBuffer::GmBuffer(std::string name, uint8_t *begin, uint64_t num_bytes, Role role)
    : name_(std::move(name)), begin_(begin), num_bytes_(num_bytes), role_(role) {
  traffic_.is_workspace = role == Role::kWorkspace;
  const uint64_t num_chunks = num_bytes / kGranuleBytes / kChunkGranules + 1;
  touched_.resize(num_chunks);
  if (IsTracked()) chunks_.resize(num_chunks);
}

GmBuffer::Chunk &GmBuffer::ChunkOf(uint64_t granule) {
  std::unique_ptr<Chunk> &chunk = chunks_[granule / kChunkGranules];
  if (chunk == nullptr) {
    chunk = std::make_unique<Chunk>();
    const uint32_t initial = role_ == Role::kInOut ? kFullMask : 0u;
    std::fill(std::begin(chunk->set_masks), std::end(chunk->set_masks), initial);
  }
  return *chunk;
}

uint32_t GmBuffer::SetMask(uint64_t granule) {
  if (!IsTracked()) return kFullMask;
  return ChunkOf(granule).set_masks[granule % kChunkGranules];
}

uint64_t GmBuffer::FindUnset(uint64_t begin, uint64_t end) {
  if (!IsTracked() || begin >= end) return end;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    const uint32_t mask = MaskInGranule(granule, begin, end);
    const uint32_t unset = ~SetMask(granule) & mask;
    if (unset != 0) {
      return granule * kGranuleBytes + static_cast<uint64_t>(__builtin_ctz(unset));
    }
  }
  return end;
}

void GmBuffer::MarkSet(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    ChunkOf(granule).set_masks[granule % kChunkGranules] |= MaskInGranule(granule, begin, end);
  }
}

void GmBuffer::MarkUnset(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    ChunkOf(granule).set_masks[granule % kChunkGranules] &= ~MaskInGranule(granule, begin, end);
  }
  std::memset(begin_ + begin, kPoison, end - begin);
}

uint64_t GmBuffer::CountUnset() {
  if (!IsTracked() || num_bytes_ == 0) return 0;
  uint64_t count = 0;
  for (uint64_t granule = 0; granule <= (num_bytes_ - 1) / kGranuleBytes; ++granule) {
    const uint32_t unset = ~SetMask(granule) & MaskInGranule(granule, 0, num_bytes_);
    count += static_cast<uint64_t>(__builtin_popcount(unset));
  }
  return count;
}

bool GmBuffer::WasWritten(uint64_t begin, uint64_t end) {
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    const Granule &state = ChunkOf(granule).granules[granule % kChunkGranules];
    for (uint32_t i = 0; i < state.num_records; ++i) {
      const AccessRecord &record =
          i < Granule::kInline ? state.records[i] : (*state.more)[i - Granule::kInline];
      const bool covers = (record.mask & MaskInGranule(granule, begin, end)) != 0;
      if (covers && record.access != GmAccess::kRead) return true;
    }
  }
  return false;
}

bool GmBuffer::FindConflict(uint64_t begin, uint64_t end, GmAccess access, const Accessor &accessor,
                            AccessRecord *conflict, uint64_t *conflict_begin) {
  if (!IsTracked() || begin >= end) return false;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    const uint32_t mask = MaskInGranule(granule, begin, end);
    const Granule &state = ChunkOf(granule).granules[granule % kChunkGranules];
    const auto is_conflict = [&](const AccessRecord &record) {
      return (record.mask & mask) != 0 && Conflicts(record.access, access) &&
             !accessor.Knows(record);
    };
    for (uint32_t i = 0; i < state.num_records; ++i) {
      const AccessRecord &record =
          i < Granule::kInline ? state.records[i] : (*state.more)[i - Granule::kInline];
      if (is_conflict(record)) {
        *conflict = record;
        *conflict_begin = granule * kGranuleBytes;
        return true;
      }
    }
  }
  return false;
}

// Forgets records that the new one makes superfluous: whoever is ordered after the new access is
// ordered after them as well.
void GmBuffer::AddRecord(Granule *granule, const AccessRecord &added) {
  uint32_t kept = 0;
  const auto at = [granule](uint32_t i) -> AccessRecord & {
    return i < Granule::kInline ? granule->records[i] : (*granule->more)[i - Granule::kInline];
  };
  for (uint32_t i = 0; i < granule->num_records; ++i) {
    const AccessRecord record = at(i);
    const bool is_covered = (record.mask & ~added.mask) == 0;
    const bool is_same_source =
        record.core == added.core && record.pipe == added.pipe && record.access == added.access;
    if (is_covered && (added.access == GmAccess::kWrite || is_same_source)) continue;
    at(kept++) = record;
  }
  if (kept >= Granule::kInline && granule->more == nullptr) {
    granule->more = std::make_unique<std::vector<AccessRecord>>();
  }
  if (granule->more != nullptr && kept >= Granule::kInline) {
    granule->more->resize(kept + 1 - Granule::kInline);
  }
  at(kept) = added;
  granule->num_records = kept + 1;
}

void GmBuffer::Record(uint64_t begin, uint64_t end, GmAccess access, const Accessor &accessor) {
  if (!IsTracked() || begin >= end) return;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    const uint32_t mask = MaskInGranule(granule, begin, end);
    AddRecord(&ChunkOf(granule).granules[granule % kChunkGranules],
              {accessor.time, mask, accessor.core, accessor.pipe, access});
  }
}

void GmBuffer::CountTraffic(uint64_t begin, uint64_t end, bool is_write, Pipe pipe) {
  if (begin >= end) return;
  (is_write ? traffic_.written_bytes : traffic_.read_bytes)[Index(pipe)] += end - begin;
  for (uint64_t granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule) {
    std::unique_ptr<TouchedChunk> &chunk = touched_[granule / kChunkGranules];
    if (chunk == nullptr) chunk = std::make_unique<TouchedChunk>();
    uint64_t &word = (*chunk)[granule % kChunkGranules / 64];
    const uint64_t bit = uint64_t{1} << (granule % 64);
    if ((word & bit) != 0) continue;
    word |= bit;
    traffic_.touched_bytes +=
        std::min<uint64_t>(kGranuleBytes, num_bytes_ - granule * kGranuleBytes);
  }
}

void GmBuffer::BeginLaunch() {
  for (uint64_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i] == nullptr) continue;
    for (Granule &granule : chunks_[i]->granules) granule.num_records = 0;
    if (role_ == Role::kInOut) continue;
    std::fill(std::begin(chunks_[i]->set_masks), std::end(chunks_[i]->set_masks), 0u);
    const uint64_t chunk_bytes = kChunkGranules * kGranuleBytes;
    const uint64_t begin = i * chunk_bytes;
    std::memset(begin_ + begin, kPoison, std::min(chunk_bytes, num_bytes_ - begin));
  }
  for (std::unique_ptr<TouchedChunk> &chunk : touched_) chunk.reset();
  const bool is_workspace = traffic_.is_workspace;
  traffic_ = {};
  traffic_.is_workspace = is_workspace;
}

GmBuffer *GlobalMemory::Add(const std::string &name, uint8_t *begin, uint64_t num_bytes,
                            GmBuffer::Role role) {
  const auto position = std::upper_bound(
      buffers_.begin(), buffers_.end(), begin,
      [](uint8_t *address, const std::unique_ptr<GmBuffer> &b) { return address < b->begin(); });
  const bool overlaps_next = position != buffers_.end() && begin + num_bytes > (*position)->begin();
  const bool overlaps_previous =
      position != buffers_.begin() &&
      (*(position - 1))->begin() + (*(position - 1))->num_bytes() > begin;
  if (overlaps_next || overlaps_previous || FindByName(name) != nullptr) {
    throw std::invalid_argument("Device: buffer '" + name +
                                "' overlaps a registered buffer or repeats its name");
  }
  last_found_ = nullptr;
  return buffers_.insert(position, std::make_unique<GmBuffer>(name, begin, num_bytes, role))->get();
}

GmBuffer *GlobalMemory::Nearest(const void *address) {
  const auto *byte = static_cast<const uint8_t *>(address);
  const auto position = std::upper_bound(
      buffers_.begin(), buffers_.end(), byte,
      [](const uint8_t *a, const std::unique_ptr<GmBuffer> &b) { return a < b->begin(); });
  return position == buffers_.begin() ? nullptr : (position - 1)->get();
}

GmBuffer *GlobalMemory::Find(const void *address, uint64_t num_bytes) {
  const auto *byte = static_cast<const uint8_t *>(address);
  const auto holds = [&](const GmBuffer *buffer) {
    return buffer != nullptr && byte >= buffer->begin() &&
           static_cast<uint64_t>(byte - buffer->begin()) + num_bytes <= buffer->num_bytes();
  };
  if (!holds(last_found_)) {
    GmBuffer *candidate = Nearest(address);
    if (!holds(candidate)) return nullptr;
    last_found_ = candidate;
  }
  return last_found_;
}

GmBuffer *GlobalMemory::FindByName(const std::string &name) {
  for (const std::unique_ptr<GmBuffer> &buffer : buffers_) {
    if (buffer->name() == name) return buffer.get();
  }
  return nullptr;
}

uint8_t *GlobalMemory::Allocate(uint64_t num_bytes) {
  const uint64_t rounded = std::max<uint64_t>(num_bytes, 1);
  void *address = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  mappings_.push_back({address, rounded});
  return static_cast<uint8_t *>(address);
}

GlobalMemory::~GlobalMemory() {
  for (const Mapping &mapping : mappings_) munmap(mapping.address, mapping.num_bytes);
}

}  // namespace ascendc_emulation
