// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of reshape_and_cache.
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "reshape_and_cache";

// Inputs, in order: key, value, key_cache, value_cache, slot_mapping. The caches are written. Output: status, int32 [1],
// 0: an operator without an output cannot be ordered before the readers of the caches.
void Run(const RawParams &params) {
  thread_local std::vector<MsRelayTensor> tensors;
  ArgumentReader reader(kOpName, params, &tensors);
  const MsRelayTensor *const key = reader.Tensor("key");
  const MsRelayTensor *const value = reader.Tensor("value");
  MsRelayTensor *const key_cache = reader.Tensor("key_cache");
  MsRelayTensor *const value_cache = reader.Tensor("value_cache");
  const MsRelayTensor *const slot_mapping = reader.Tensor("slot_mapping");
  MsRelayTensor *const status = reader.Tensor("status");
  ThrowIfError(MsRelayReshapeAndCache(key, value, key_cache, value_cache, slot_mapping, nullptr));
  static_cast<int32_t *>(status->data)[0] = MS_RELAY_OK;
}

}  // namespace
}  // namespace mindspore_relay::aot

extern "C" {

MS_RELAY_API int ReshapeAndCache(int num_params, void **params, int *ranks, int64_t **shapes,
                                 const char **dtypes, void * /*stream*/, void * /*extra*/) {
  using namespace mindspore_relay::aot;
  return RunEntry(kOpName, [&] { Run({num_params, params, ranks, shapes, dtypes}); });
}

MS_RELAY_API std::vector<int64_t> ReshapeAndCacheInferShape(int * /*ranks*/, int64_t ** /*shapes*/,
                                                            void * /*extra*/) {
  return {1};
}

MS_RELAY_API int ReshapeAndCacheInferType(std::vector<int> /*type_ids*/, void * /*extra*/) {
  return mindspore_relay::aot::kInt32TypeId;
}

}  // extern "C"
