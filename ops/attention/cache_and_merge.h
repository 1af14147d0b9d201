// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The two helpers that move and join data: writing a paged cache, merging attention results.
#ifndef MINDSPORE_RELAY_ATTENTION_CACHE_AND_MERGE_H_
#define MINDSPORE_RELAY_ATTENTION_CACHE_AND_MERGE_H_

#include "attention/attention_check.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// Arguments must have passed their check. Neither allocates nor fails.
void RunReshapeAndCache(const ReshapeAndCacheArgs &args, const TileKernels &kernels,
                        int32_t num_threads);
void RunMergeAttentionStates(const MergeAttentionStatesArgs &args, const TileKernels &kernels,
                             int32_t num_threads);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_CACHE_AND_MERGE_H_
