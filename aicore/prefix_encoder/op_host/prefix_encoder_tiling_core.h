// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plan of PrefixEncoder: problem and platform in, tiling out. Pure C++, no CANN.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_TILING_CORE_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_TILING_CORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../common/work_partition.h"
#include "../prefix_problem.h"

namespace mindspore_relay::aicore {

// Values of the attribute mask_type (operator document).
enum class PrefixMaskType : int32_t {
  kAlibiCompress = 3,
  kAlibiCompressSqrt = 4,
  kAlibiCompressLeftAlign = 5,
  kCausal = 9,
};

// All that the plan depends on.
struct PrefixEncoderShape {
  int64_t batch_size = 0;
  int64_t num_tokens = 0;  // rows of query
  int64_t head_num = 0;
  int64_t kv_head_num = 0;  // 0: head_num
  int64_t head_size = 0;
  int64_t block_size = 0;
  int64_t max_blocks = 0;  // entries of one row of block_tables
  int64_t mask_type = 0;   // PrefixMaskType
  float qk_scale = 1.0f;
  std::vector<int64_t> mask_shape;   // empty: no mask
  std::vector<int64_t> slopes_shape; // empty: no slopes
  const int64_t *seq_len = nullptr;     // [batch_size]
  const int64_t *kv_seq_len = nullptr;  // [batch_size]
};

// False with a message in *error if the problem is not valid or not supported on Ascend. Otherwise
// fills *tiling and the workspace that the kernel needs, the platform's own part included.
bool ComputePrefixEncoderTiling(const PrefixEncoderShape &shape, const Platform &platform,
                                PrefixEncoderTiling *tiling, int64_t *workspace_bytes,
                                std::string *error);

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_TILING_CORE_H_
