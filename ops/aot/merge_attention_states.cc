// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of merge_attention_states.
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "merge_attention_states";

// Inputs, in order: out_a, lse_a, out_b, lse_b. Outputs: out, lse.
void Run(const RawParams &params) {
  thread_local std::vector<MsRelayTensor> tensors;
  ArgumentReader reader(kOpName, params, &tensors);
  const MsRelayTensor *const out_a = reader.Tensor("out_a");
  const MsRelayTensor *const lse_a = reader.Tensor("lse_a");
  const MsRelayTensor *const out_b = reader.Tensor("out_b");
  const MsRelayTensor *const lse_b = reader.Tensor("lse_b");
  MsRelayTensor *const out = reader.Tensor("out");
  MsRelayTensor *const lse = reader.Tensor("lse");
  ThrowIfError(MsRelayMergeAttentionStates(out_a, lse_a, out_b, lse_b, out, lse, nullptr));
}

}  // namespace
}  // namespace mindspore_relay::aot

extern "C" {

MS_RELAY_API int MergeAttentionStates(int num_params, void **params, int *ranks, int64_t **shapes,
                                      const char **dtypes, void * /*stream*/, void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return RunEntry(kOpName, [&] { Run({num_params, params, ranks, shapes, dtypes}); });
}

MS_RELAY_API std::vector<std::vector<int64_t>> MergeAttentionStatesInferShape(int *ranks,
                                                                              int64_t **shapes,
                                                                              void * /*extra*/) {
  const mindspore_relay::aot::InputShapes inputs{ranks, shapes};
  return {inputs.Get(0), inputs.Get(1)};
}

MS_RELAY_API std::vector<int> MergeAttentionStatesInferType(std::vector<int> type_ids,
                                                            void * /*extra*/) {
  return {type_ids[0], type_ids[1]};
}

}  // extern "C"
