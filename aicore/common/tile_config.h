// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Tile sizes and memory maps of one AI core, shared by the host plan and the kernels. Plain C++.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_TILE_CONFIG_H_
#define MINDSPORE_RELAY_AICORE_COMMON_TILE_CONFIG_H_

#include <cstdint>

// Code of this folder that also runs on the host is marked MS_RELAY_SHARED; a kernel includes
// kernel_operator.h first, which defines __aicore__.
#if defined(__aicore__)
#define MS_RELAY_SHARED __aicore__ inline
#else
#define MS_RELAY_SHARED inline
#endif

namespace mindspore_relay::aicore {

// Side of a cube fractal (16 x 16 elements of 16 bits = 512 bytes). Fixed by the hardware.
constexpr int32_t kFractal = 16;

// Query rows that share one pass over a key. 128 rows x 128 columns fill half of L0A (32 KB) and
// half of L0C (64 KB of float), so that both can be filled while the other half is used.
constexpr int32_t kTileRows = 128;

// Columns and depth of one Mmad: 128 x 128 elements of 16 bits are half of L0A or L0B.
constexpr int32_t kMmadChunk = 128;

// Rows that the vector core handles at once; 16 rows x 256 keys of float are 16 KB of UB.
constexpr int32_t kStripRows = 16;

// Largest number of rows of one of the two vector cores of an AI core.
constexpr int32_t kVectorRows = kTileRows / 2;

// Rows of a tile that the first of the two vector cores has; the second one has the others, or
// none. In a slot of the ring of probabilities the rows of the second one start at kVectorRows
// whatever the tile's size is: so a vector core writes over nothing but its own rows of older
// steps.
MS_RELAY_SHARED constexpr int32_t FirstVectorRows(int32_t num_rows) { return (num_rows + 1) / 2; }

// Steps by which the scores run ahead of the product with V: the softmax of a step has the time of
// two cube steps. The rings between cube and vector cores need one slot more than the look-ahead.
constexpr int32_t kLookAhead = 2;
constexpr int32_t kRingSlots = kLookAhead + 1;

// Largest head_size, and the largest one that leaves room for steps of 256 keys.
constexpr int32_t kMaxHeadSize = 256;
constexpr int32_t kNarrowHeadSize = 128;

// AI cores a tiling struct can describe; the largest member of the family has 25.
constexpr int32_t kMaxCores = 64;

constexpr uint32_t kKiB = 1024;

// Usable bytes: the kernel library keeps 256 bytes of L1, newer ones up to 8 KB of UB.
constexpr uint32_t kL1Bytes = 512 * kKiB - 256;
constexpr uint32_t kL0ABytes = 64 * kKiB;
constexpr uint32_t kL0BBytes = 64 * kKiB;
constexpr uint32_t kL0CBytes = 128 * kKiB;
constexpr uint32_t kUbBytes = 184 * kKiB;

MS_RELAY_SHARED constexpr int32_t CeilDiv(int32_t value, int32_t unit) {
  return (value + unit - 1) / unit;
}
MS_RELAY_SHARED constexpr int32_t RoundUp(int32_t value, int32_t unit) {
  return CeilDiv(value, unit) * unit;
}
MS_RELAY_SHARED constexpr int32_t Min(int32_t a, int32_t b) { return a < b ? a : b; }
MS_RELAY_SHARED constexpr int32_t Max(int32_t a, int32_t b) { return a > b ? a : b; }

// Keys of one step: a K or V tile of 64 KB, so that two of each fit in L1.
MS_RELAY_SHARED constexpr int32_t StepKeys(int32_t head_size) {
  return head_size <= kNarrowHeadSize ? 256 : 128;
}

// Byte offsets of the named buffers of L1. Every operand is 16 bits wide and in NZ order.
struct L1Map {
  uint32_t query;        // 2 x [head_size / 16][kTileRows][16]
  uint32_t query_bytes;  // of one slot
  uint32_t key;          // 2 x [head_size / 16][step_keys][16]
  uint32_t value;        // 2 x [head_size / 16][step_keys][16]
  uint32_t kv_bytes;     // of one slot
  uint32_t probs;        // 2 x [step_keys / 16][kTileRows][16]
  uint32_t probs_bytes;  // of one slot
  uint32_t end;
};

MS_RELAY_SHARED constexpr L1Map MakeL1Map(int32_t head_size, int32_t step_keys) {
  L1Map map{};
  map.query_bytes = static_cast<uint32_t>(kTileRows * head_size * 2);
  map.kv_bytes = static_cast<uint32_t>(step_keys * head_size * 2);
  map.probs_bytes = static_cast<uint32_t>(kTileRows * step_keys * 2);
  map.query = 0;
  map.key = map.query + 2 * map.query_bytes;
  map.value = map.key + 2 * map.kv_bytes;
  map.probs = map.value + 2 * map.kv_bytes;
  map.end = map.probs + 2 * map.probs_bytes;
  return map;
}

constexpr uint32_t kL0SlotBytes = kMmadChunk * kMmadChunk * 2;
constexpr uint32_t kL0CSlotBytes = kTileRows * kMmadChunk * 4;
static_assert(2 * kL0SlotBytes <= kL0ABytes && 2 * kL0SlotBytes <= kL0BBytes, "L0A and L0B");
static_assert(2 * kL0CSlotBytes <= kL0CBytes, "L0C");

// Byte offsets of the named buffers of the UB of one vector core.
struct UbMap {
  uint32_t scores;         // 2 x [kStripRows][step_keys] float: scores, then probabilities
  uint32_t scores_bytes;   // of one slot
  uint32_t probs;          // 2 x [kStripRows][step_keys] 16 bits
  uint32_t probs_bytes;    // of one slot
  uint32_t step_out;       // 2 x [kStripRows][head_size] float: probabilities . V of one step
  uint32_t out_bytes;      // of one slot
  uint32_t acc;            // [kVectorRows][head_size] float
  uint32_t stage;          // [kStripRows][head_size] float: finished rows
  uint32_t stage16;        // 2 x [kStripRows][head_size] 16 bits: finished rows, rounded
  uint32_t stage16_bytes;  // of one slot
  uint32_t bias;           // [kStripRows][step_keys] float
  uint32_t bias16;         // [kStripRows][step_keys] 16 bits: rows of the mask tensor
  uint32_t columns;        // [step_keys] float: 0, 1, 2, ...
  uint32_t fold;           // [kStripRows][64] float: column groups folded into one
  uint32_t row_max;        // kItemSlots x [kVectorRows] float
  uint32_t row_sum;        // kItemSlots x [kVectorRows] float
  uint32_t alpha;          // kRingSlots x [kVectorRows] float: rescale factors of a step
  uint32_t strip_max;      // [kStripRows] float
  uint32_t strip_sum;      // [kStripRows] float
  uint32_t strip_lse;      // [kStripRows] float
  uint32_t spread;         // [kStripRows][8] float: one block per row, for row-wise operands
  uint32_t spread_out;     // the same for the accumulation
  uint32_t lse_stage;      // 2 x [kStripRows][8] float: lse of finished rows
  uint32_t end;
};

// Items whose row statistics are alive at once: that of the current scores and of the two steps
// whose products are still to come.
constexpr int32_t kItemSlots = kLookAhead + 1;
constexpr uint32_t kSpreadBytes = kStripRows * 8 * 4;
constexpr uint32_t kRowStatBytes = kVectorRows * 4;
constexpr uint32_t kStripStatBytes = kStripRows * 4;

MS_RELAY_SHARED constexpr UbMap MakeUbMap(int32_t head_size, int32_t step_keys) {
  UbMap map{};
  map.scores_bytes = static_cast<uint32_t>(kStripRows * step_keys * 4);
  map.probs_bytes = static_cast<uint32_t>(kStripRows * step_keys * 2);
  map.out_bytes = static_cast<uint32_t>(kStripRows * head_size * 4);
  map.stage16_bytes = static_cast<uint32_t>(kStripRows * head_size * 2);
  map.scores = 0;
  map.probs = map.scores + 2 * map.scores_bytes;
  map.step_out = map.probs + 2 * map.probs_bytes;
  map.acc = map.step_out + 2 * map.out_bytes;
  map.stage = map.acc + static_cast<uint32_t>(kVectorRows * head_size * 4);
  map.stage16 = map.stage + map.out_bytes;
  map.bias = map.stage16 + 2 * map.stage16_bytes;
  map.bias16 = map.bias + map.scores_bytes;
  map.columns = map.bias16 + map.probs_bytes;
  map.fold = map.columns + static_cast<uint32_t>(step_keys * 4);
  map.row_max = map.fold + kStripRows * 64 * 4;
  map.row_sum = map.row_max + kItemSlots * kRowStatBytes;
  map.alpha = map.row_sum + kItemSlots * kRowStatBytes;
  map.strip_max = map.alpha + kRingSlots * kRowStatBytes;
  map.strip_sum = map.strip_max + kStripStatBytes;
  map.strip_lse = map.strip_sum + kStripStatBytes;
  map.spread = map.strip_lse + kStripStatBytes;
  map.spread_out = map.spread + kSpreadBytes;
  map.lse_stage = map.spread_out + kSpreadBytes;
  map.end = map.lse_stage + 2 * kSpreadBytes;
  return map;
}

static_assert(MakeL1Map(kNarrowHeadSize, StepKeys(kNarrowHeadSize)).end <= kL1Bytes, "L1, narrow");
static_assert(MakeL1Map(kMaxHeadSize, StepKeys(kMaxHeadSize)).end <= kL1Bytes, "L1, wide");
static_assert(MakeUbMap(kNarrowHeadSize, StepKeys(kNarrowHeadSize)).end <= kUbBytes, "UB, narrow");
static_assert(MakeUbMap(kMaxHeadSize, StepKeys(kMaxHeadSize)).end <= kUbBytes, "UB, wide");

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_TILE_CONFIG_H_
