// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of PrefixEncoder.
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"
#include "aot/runner.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "prefix_encoder";

// Inputs, in order: shape carrier (infer.h), query, key, value, block_tables, mask, seq_len,
// kv_seq_len, slopes, mask_type, head_num, kv_head_num, qk_scale. Outputs: attn_out, lse.
void Run(const RawParams &params) {
  thread_local Runner runner;
  ArgumentReader reader(kOpName, params, runner.tensors());
  reader.ShapeCarrier();
  const MsRelayTensor *const query = reader.Tensor("query");
  const MsRelayTensor *const key = reader.Tensor("key");
  const MsRelayTensor *const value = reader.Tensor("value");
  const MsRelayTensor *const block_tables = reader.Tensor("block_tables");
  const MsRelayTensor *const mask = reader.Tensor("mask");
  const MsRelayTensor *const seq_len = reader.Tensor("seq_len");
  const MsRelayTensor *const kv_seq_len = reader.Tensor("kv_seq_len");
  const MsRelayTensor *const slopes = reader.Tensor("slopes");
  const int32_t mask_type = reader.Int32("mask_type");
  const int32_t head_num = reader.Int32("head_num");
  const int32_t kv_head_num = reader.Int32("kv_head_num");
  const float qk_scale = reader.Float32("qk_scale");
  MsRelayTensor *const attn_out = reader.Tensor("attn_out");
  MsRelayOptions options = {};
  options.struct_bytes = sizeof(MsRelayOptions);
  options.lse = reader.Tensor("lse");

  MsRelayOperation **const operation = runner.Prepare(options);
  uint64_t workspace_bytes = 0;
  ThrowIfError(MsRelayPrefixEncoderGetWorkspaceSize(
      query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes, mask_type, head_num,
      kv_head_num, qk_scale, attn_out, &workspace_bytes, operation, nullptr));
  runner.Run(MsRelayPrefixEncoder, workspace_bytes);
}

}  // namespace
}  // namespace mindspore_relay::aot

extern "C" {

MS_RELAY_API int PrefixEncoder(int num_params, void **params, int *ranks, int64_t **shapes,
                               const char **dtypes, void * /*stream*/, void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return RunEntry(kOpName, [&] { Run({num_params, params, ranks, shapes, dtypes}); });
}

MS_RELAY_API std::vector<std::vector<int64_t>> PrefixEncoderInferShape(int *ranks, int64_t **shapes,
                                                                       void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return InferAttention({ranks, shapes});
}

MS_RELAY_API std::vector<int> PrefixEncoderInferType(std::vector<int> type_ids, void * /*extra*/) {
  return {type_ids[1], mindspore_relay::aot::kFloat32TypeId};
}

}  // extern "C"
