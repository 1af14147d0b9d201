// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plan of RelayAttention: problem and platform in, tiling out. Pure C++, no CANN.

#ifndef MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_TILING_CORE_H_
#define MINDSPORE_RELAY_AICORE_RELAY_ATTENTION_OP_HOST_RELAY_ATTENTION_TILING_CORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../common/work_partition.h"
#include "../relay_problem.h"

namespace mindspore_relay::aicore {

// Where the keys of one kind of source are, and how many of them there is room for.
struct KvShape {
  KvFormat format = {};
  std::vector<int64_t> tokens;  // rows of each tensor of a list (KvForm::kList)
};

// All that the plan depends on.
struct RelayAttentionShape {
  int64_t batch_size = 0;
  int64_t num_groups = 0;
  int64_t head_num = 0;
  int64_t kv_head_num = 0;  // 0: head_num
  int64_t head_size = 0;
  int64_t mask_type = 0;
  float qk_scale = 1.0f;
  bool is_shared_in_cache = false;  // the groups' blocks are in the requests' caches
  KvShape private_kv;
  KvShape shared_kv;
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
