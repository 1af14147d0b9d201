// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of pack_share.
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "pack_share";

// Inputs, in order: shape carrier [0, packed_bytes], key_share, value_share, share_block_table,
// kv_head_num, kv_share_len. Output: packed.
void Run(const RawParams &params) {
  thread_local std::vector<MsRelayTensor> tensors;
  ArgumentReader reader(kOpName, params, &tensors);
  reader.ShapeCarrier();
  const MsRelayTensor *const key_share = reader.Tensor("key_share");
  const MsRelayTensor *const value_share = reader.Tensor("value_share");
  const MsRelayTensor *const share_block_table = reader.Tensor("share_block_table");
  const int32_t kv_head_num = reader.Int32("kv_head_num");
  const int64_t kv_share_len = reader.Int64("kv_share_len");
  MsRelayTensor *const packed = reader.Tensor("packed");
  ThrowIfError(MsRelayPackShare(key_share, value_share, share_block_table, kv_head_num,
                                kv_share_len, packed, nullptr));
}

}  // namespace
}  // namespace mindspore_relay::aot

extern "C" {

MS_RELAY_API int PackShare(int num_params, void **params, int *ranks, int64_t **shapes,
                           const char **dtypes, void * /*stream*/, void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return RunEntry(kOpName, [&] { Run({num_params, params, ranks, shapes, dtypes}); });
}

MS_RELAY_API std::vector<int64_t> PackShareInferShape(int *ranks, int64_t **shapes,
                                                      void * /*extra*/) {
  using namespace mindspore_relay::aot;
  const InputShapes inputs = {ranks, shapes};
  return {inputs.CarriedDim(kCarriedPackedBytes)};
}

MS_RELAY_API int PackShareInferType(std::vector<int> /*type_ids*/, void * /*extra*/) {
  return mindspore_relay::aot::kUInt8TypeId;
}

}  // extern "C"
