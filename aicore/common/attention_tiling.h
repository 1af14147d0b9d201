// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The part of the tiling struct that both operators share. Filled by the host, read by the kernels.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_ATTENTION_TILING_H_
#define MINDSPORE_RELAY_AICORE_COMMON_ATTENTION_TILING_H_

#include "work_item.h"

namespace mindspore_relay::aicore {

// Where the keys and values of a source are.
enum class KvForm : int32_t {
  kNone = 0,     // no tensor: no source of this kind
  kList = 1,     // one tensor per source
  kStacked = 2,  // one tensor, sources at a fixed stride
  kPaged = 3,    // one cache and a block table with one row per source
};

struct KvFormat {
  int32_t form;           // KvForm
  int32_t block_size;     // tokens per block of the cache (kPaged)
  int32_t max_blocks;     // entries of one row of the block table (kPaged)
  int32_t source_tokens;  // tokens between two sources (kStacked)
};

// Bytes from the start of the operator's workspace.
struct WorkspaceMap {
  int64_t scores;       // [cores][kRingSlots][kTileRows][step_keys] float
  int64_t probs;        // [cores][kRingSlots][kTileRows][step_keys] 16 bits
  int64_t step_out;     // [cores][kRingSlots][kTileRows][head_size] float
  int64_t partial_out;  // [partial rows][head_size] float
  int64_t partial_lse;  // [partial rows] float
  int64_t num_bytes;
};

struct AttentionTiling {
  int32_t num_cores;  // AI cores of the launch
  int32_t batch_size;
  int32_t head_num;
  int32_t kv_head_num;
  int32_t heads_per_kv_head;
  int32_t head_size;
  int32_t step_keys;
  float qk_scale;
  WorkspaceMap workspace;
  WorkPosition starts[kNumAxes][kMaxCores + 1];  // of each core's range, and the end
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_ATTENTION_TILING_H_
