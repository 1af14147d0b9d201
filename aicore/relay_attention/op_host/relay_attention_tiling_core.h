// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plan of RelayAttention: problem and platform in, tiling out. Pure C++, no CANN.

#ifndef MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_TILING_CORE_H_
#define MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_TILING_CORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../common/tiling_check.h"
#include "../../common/work_partition.h"
#include "../relay_problem.h"

namespace mindspore_relay::aicore {

// All that the plan depends on. Shapes as in the operator's README.md.
struct RelayAttentionShape {
  Dims query;
  std::vector<Dims> key;
  std::vector<Dims> value;
  std::vector<Dims> key_share;  // empty: no groups, or groups in the requests' caches
  std::vector<Dims> value_share;
  Dims block_tables;        // empty: key and value are not paged
  Dims share_block_tables;  // empty: key_share and value_share are not paged
  int64_t num_groups = 0;   // entries of kv_share_len
  int64_t head_num = 0;
  int64_t kv_head_num = 0;  // 0: head_num
  int64_t mask_type = 0;
  float qk_scale = 1.0f;
  const int64_t *seq_len = nullptr;       // [batch_size]
  const int64_t *kv_seq_len = nullptr;    // [batch_size], shared and private keys together
  const int64_t *kv_share_map = nullptr;  // [batch_size], -1: none
  const int64_t *kv_share_len = nullptr;  // [num_groups]
};

// False with a message in *error if the problem is not valid or not supported on Ascend. Otherwise
// fills *tiling and the workspace that the kernel needs, the platform's own part included.
bool ComputeRelayAttentionTiling(const RelayAttentionShape &shape, const Platform &platform,
                                 RelayAttentionTiling *tiling, int64_t *workspace_bytes,
                                 std::string *error);

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_TILING_CORE_H_
