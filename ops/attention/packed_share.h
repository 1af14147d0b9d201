// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A prefix packed once for many steps: its keys and values in the form that the tile kernels
// compute with (PackTileKernels), in a tensor of bytes that the caller keeps beside them.
//
//   PackedHeader, then [tiles of kKeyTile tokens][kv heads] keys, values
//
// The header says what the bytes are, so that a call can refuse what was packed for other shapes,
// another instruction set or another version. Whether they are of the group's keys it cannot tell.
#ifndef MINDSPORE_RELAY_ATTENTION_PACKED_SHARE_H_
#define MINDSPORE_RELAY_ATTENTION_PACKED_SHARE_H_

#include <cstdint>

#include "attention/attention_check.h"
#include "attention/params.h"
#include "common/status.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// The prefix to be packed.
struct PackShareProblem {
  HeadParams heads;  // kv_head_num, head_size, value_head_size and dtype
  KvSource source;
};

// Bytes of the packed tensor, of a prefix of num_keys keys; INT64_MAX when they do not fit. Checks
// what they depend on.
Status CheckPackedBytes(const HeadParams &heads, int64_t num_keys, const TileKernels &kernels,
                        int64_t *num_bytes);

Status CheckPackShare(const PackShareArgs &args, const TileKernels &kernels,
                      PackShareProblem *problem);

// Arguments must have passed their check.
void RunPackShare(const PackShareProblem &problem, const TileKernels &kernels, int32_t num_threads,
                  char *packed);

// RelayAttention: args.packed_share against the groups of a checked problem ->
// problem->packed_keys.
Status CheckPackedShare(const RelayAttentionArgs &args, const TileKernels &kernels,
                        RelayAttentionProblem *problem);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_PACKED_SHARE_H_
