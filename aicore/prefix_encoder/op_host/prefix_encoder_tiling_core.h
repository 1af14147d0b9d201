// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The plan of PrefixEncoder: problem and platform in, tiling out. Pure C++, no CANN.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_TILING_CORE_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_HOST_PREFIX_ENCODER_TILING_CORE_H_

#include <cstdint>
#include <string>

#include "../../common/tiling_check.h"
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

// All that the plan depends on. Shapes as in the operator's README.md.
struct PrefixEncoderShape {
  Dims query;
  Dims key;
  Dims value;
  Dims block_tables;
  Dims mask;               // empty: no mask
  Dims slopes;             // empty: no slopes
  int64_t batch_size = 0;  // entries of seq_len and kv_seq_len
  int64_t head_num = 0;
  int64_t kv_head_num = 0;  // 0: head_num
  int64_t mask_type = 0;    // PrefixMaskType
  float qk_scale = 1.0f;
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
