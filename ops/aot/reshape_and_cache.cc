// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// ops.Custom entry points of reshape_and_cache.
#include <stdexcept>
#include <string>
#include <vector>

#include "aot/arguments.h"
#include "aot/infer.h"

namespace mindspore_relay::aot {
namespace {

constexpr char kOpName[] = "reshape_and_cache";

// What MindSpore hands over for a view, even a contiguous one, is a copy, in which a write is lost.
// expected_address is where Python says that the tensor lies, 0 if it cannot know (in a graph).
void CheckIsNoView(const char *argument, const MsRelayTensor *cache, int64_t expected_address) {
  if (cache == nullptr || expected_address == 0) return;
  if (reinterpret_cast<uintptr_t>(cache->data) == static_cast<uintptr_t>(expected_address)) return;
  throw std::runtime_error(std::string(kOpName) + ": " + argument +
                           " must not be a view of another tensor, got a view or a tensor that "
                           "MindSpore copied; what is written to it would be lost");
}

// Inputs, in order: key, value, key_cache, value_cache, slot_mapping, key_cache_address,
// value_cache_address. The caches are written. Output: status, int32 [1], 0: an operator needs an
// output.
void Run(const RawParams &params) {
  thread_local std::vector<MsRelayTensor> tensors;
  ArgumentReader reader(kOpName, params, &tensors);
  const MsRelayTensor *const key = reader.Tensor("key");
  const MsRelayTensor *const value = reader.Tensor("value");
  MsRelayTensor *const key_cache = reader.Tensor("key_cache");
  MsRelayTensor *const value_cache = reader.Tensor("value_cache");
  const MsRelayTensor *const slot_mapping = reader.Tensor("slot_mapping");
  CheckIsNoView("key_cache", key_cache, reader.Int64("key_cache_address"));
  CheckIsNoView("value_cache", value_cache, reader.Int64("value_cache_address"));
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
