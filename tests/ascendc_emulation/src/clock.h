// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Logical time. Every pipe of every core counts its instructions. What a pipe "knows" is, for each
// other pipe, up to which instruction that pipe's work is certainly finished when this pipe's next
// instruction starts. Two accesses are ordered when the later one knows the earlier one; nothing
// else orders them, however the emulation happened to interleave the cores.
#ifndef ASCENDC_EMULATION_SRC_CLOCK_H_
#define ASCENDC_EMULATION_SRC_CLOCK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ascendc_emulation/runtime.h"

namespace ascendc_emulation {

constexpr size_t kNumPipes = static_cast<size_t>(Pipe::kNumPipes);
constexpr size_t Index(Pipe pipe) { return static_cast<size_t>(pipe); }

// Finished instruction counts of the pipes of one core. A pipe's own entry is what it may rely on
// itself: instructions of one pipe overlap unless a barrier stands between them.
using PipeTimes = std::array<uint32_t, kNumPipes>;

// The same for all pipes of all cores: [core * kNumPipes + pipe]. Shared, never changed once made.
struct Snapshot {
  uint64_t serial = 0;  // order of making within one core's scalar unit
  std::vector<uint32_t> times;
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

struct Clock {
  PipeTimes known{};
  SnapshotPtr acquired;  // knowledge about other cores; null: none

  void Join(const Clock &other) {
    for (size_t pipe = 0; pipe < kNumPipes; ++pipe) {
      known[pipe] = std::max(known[pipe], other.known[pipe]);
    }
    JoinAcquired(other.acquired);
  }

  // All snapshots of a core grow from one another, so the younger one contains the older one.
  void JoinAcquired(const SnapshotPtr &other) {
    if (other != nullptr && (acquired == nullptr || acquired->serial < other->serial)) {
      acquired = other;
    }
  }
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_CLOCK_H_
