// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The problem that an operator call states, after its arguments were checked: no -1, no "0 means
// default", no form.
#ifndef MINDSPORE_RELAY_ATTENTION_PARAMS_H_
#define MINDSPORE_RELAY_ATTENTION_PARAMS_H_

#include <cstdint>
#include <vector>

#include "attention/kv_source.h"
#include "common/dtype.h"
#include "common/tensor_view.h"

namespace mindspore_relay {

// Values of the documents (public header: MsRelayMaskType).
enum class MaskType : int32_t {
  kUndefined = 0,
  kNorm = 1,
  kAlibiCompress = 3,
  kAlibiCompressSqrt = 4,
  kAlibiCompressLeftAlign = 5,
  kCausal = 9,
};

// How a group's prefix is read (public header: MsRelayPath).
enum class Path : int32_t { kAuto = 0, kRelay = 1, kPlain = 2 };

struct HeadParams {
  int32_t head_num = 0;
  int32_t kv_head_num = 0;        // >= 1, divides head_num
  int32_t heads_per_kv_head = 0;  // head_num / kv_head_num
  int32_t head_size = 0;          // of query and key
  int32_t value_head_size = 0;
  float qk_scale = 1.0f;          // factor on query . key
  DType dtype = DType::kFloat32;  // of query, key, value and output
};

// query, output and lse rows: row t, head h at data + t * token_stride + h * head_stride.
struct RowsView {
  char *data = nullptr;
  int64_t token_stride_bytes = 0;
  int64_t head_stride_bytes = 0;

  char *At(int64_t token, int64_t head) const {
    return data + token * token_stride_bytes + head * head_stride_bytes;
  }
};

struct RowTensors {
  RowsView query;
  RowsView out;
  RowsView lse;  // data nullptr: not asked for
};

// RelayAttention: request b has the query row b and sees group_keys[group[b]], then
// private_keys[b].
struct RelayAttentionProblem {
  HeadParams heads;
  RowTensors rows;
  Path path = Path::kAuto;
  std::vector<int32_t> group;          // [batch], -1 for none
  std::vector<KvSource> private_keys;  // [batch]
  std::vector<KvSource> group_keys;    // [num_groups]
  std::vector<KvSource> packed_keys;   // [num_groups] the same, packed; or none are
};

// What PrefixEncoder adds to the scores (contract: the table of mask types).
struct BiasParams {
  MaskType mask_type = MaskType::kCausal;
  const float *slopes = nullptr;  // [head_num], with stride slopes_stride; the [256, 256] masks
  int64_t slopes_stride = 0;      // elements
  const char *table = nullptr;    // [head_num][rows][128] in the query's dtype; the 3-D mask
  int64_t table_head_stride_bytes = 0;
  int64_t table_row_stride_bytes = 0;
};

struct PrefixRequest {
  int64_t first_token = 0;  // row of query
  int64_t seq_len = 0;      // new tokens
  KvSource keys;            // num_keys = kv_seq_len
};

struct PrefixEncoderProblem {
  HeadParams heads;
  RowTensors rows;
  BiasParams bias;
  std::vector<PrefixRequest> requests;  // [batch]
};

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_PARAMS_H_
