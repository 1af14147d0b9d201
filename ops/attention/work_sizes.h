// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Sizes by which work is cut. kKeyTile, the keys of a tile, stands in cpu/tile_kernels.h.
#ifndef MINDSPORE_RELAY_ATTENTION_WORK_SIZES_H_
#define MINDSPORE_RELAY_ATTENTION_WORK_SIZES_H_

#include <cstdint>

#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// Keys per span. Each span of a part is summed on its own and the spans are folded in order,
// whoever computed them: so the result depends neither on the number of threads nor on the batch.
// Changing it changes bits of long results. 1024: at batch 1 with one kv head a prefix of 4,096
// keys still feeds four threads, and a fold (one pass over the accumulators) costs less than 1 % of
// a span's own work.
constexpr int32_t kSpanKeys = 1024;
static_assert(kSpanKeys % kMaxTileKeys == 0, "spans consist of whole tiles");

// Most rows (of one kv head) that attend a tile together. Beyond it the arithmetic of a tile hides
// its bytes on any CPU, and the state of more rows would leave the L2 cache.
constexpr int32_t kMaxUnitRows = 256;

// Accumulators that a piece of work keeps at once, all its kv heads together: a part of a 1 or 2
// MiB L2 cache.
constexpr int64_t kStateBudgetBytes = 256 * 1024;

// Of a token's keys, what a piece reads side by side: kReadBytes if it can, and no less than
// kMinReadBytes for the sake of ending in one phase. Two cores, 8 heads of 256 bytes. Zen 4 (AVX2),
// batch 1, 2,048 keys: 1.20 ms with one head a piece, 0.78 with two, 0.62 with four. Zen 5, 2,048
// shared keys, eight heads a piece instead of four: batch 1 1.14 of the time (AVX2; two phases
// instead of one), batch 4 0.79 to 0.96 (AVX-512) and 0.90 (AVX2), batch 8 0.89 to
// 0.93 and 0.96.
constexpr int64_t kReadBytes = 2048;
constexpr int64_t kMinReadBytes = 1024;

// Part of the threads' time that may be idle where a prefix is cut by spans for the sake of reading
// whole tokens. An Intel server with AVX-512 alone, two cores, batch 1, 8 heads of 256 bytes, by
// kv heads in one phase / by spans: prefix 2,048 0.599 / 0.498 ms, 4,096 1.097 / 0.875 ms.
constexpr double kMostIdle = 1.0 / 8;

// Pieces per thread that a plan aims at, so that threads end together.
constexpr int64_t kPiecesPerThread = 3;

// The same in phase 2 by itself where there are no more requests than threads: one that wakes late
// must find something left to do. Zen 5, two cores, a piece for each request / two: 2 requests with
// 256 shared keys and 64 of their own 0.143 / 0.098 ms; but 3 requests with 512 and 128 0.186 /
// 0.210.
constexpr int64_t kFinalPiecesPerThread = 2;

// Preparing a tile (reading, widening, transposing) costs about as much as this many rows attending
// it.
constexpr int64_t kTileRowsOverhead = 8;

// Writing a row's partial result and joining it costs about as much as the row attending this many
// keys, and a phase more that threads share as much as one row of one kv head attending kPhaseKeys.
// Fitted to where relay and plain take the same time; shared keys, two cores, 8 kv heads:
//   requests  g   Zen 4, AVX2   Zen 4, AVX-512
//   2         4   190           350 (at 256, relay takes 1.03 to 1.06 of the time of plain)
//   4         4                 160 to 250
//   8         4   45 to 60      65 to 110
//   32        4   45 to 60      less than 64
//   8         8   100
//   8         1   less than 16
// An Intel server with AVX-512, 2 requests, 256 keys: 0.89. One thread, 8 requests, 64 keys: 0.85.
constexpr int64_t kJoinKeys = 100;
constexpr int64_t kPhaseKeys = 8000;

// Multiply-adds under which a second thread does not pay for its wake-up (about 20 us of one core's
// work).
constexpr int64_t kMinParallelMacs = 500 * 1000;

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_WORK_SIZES_H_
