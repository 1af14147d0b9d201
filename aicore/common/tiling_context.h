// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Host with CANN only: what the tiling functions read from and write to gert::TilingContext. Inputs
// are addressed by their index in the operator's definition, whatever dynamic and optional inputs
// are there.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_TILING_CONTEXT_H_
#define MINDSPORE_RELAY_AICORE_COMMON_TILING_CONTEXT_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling_check.h"
#include "work_partition.h"

namespace mindspore_relay::aicore {

inline Dims ToDims(const gert::StorageShape *shape) {
  Dims dims;
  if (shape == nullptr) return dims;
  const gert::Shape &origin = shape->GetOriginShape();
  for (size_t i = 0; i < origin.GetDimNum(); ++i) dims.push_back(origin.GetDim(i));
  return dims;
}

// Shape of a required or optional input; empty if it is absent.
inline Dims InputDims(gert::TilingContext *context, size_t input) {
  return ToDims(context->GetDynamicInputShape(input, 0));
}

// Shapes of the tensors of a dynamic input.
inline std::vector<Dims> DynamicInputDims(gert::TilingContext *context, size_t input) {
  std::vector<Dims> dims;
  while (const auto *shape = context->GetDynamicInputShape(input, dims.size())) {
    dims.push_back(ToDims(shape));
  }
  return dims;
}

// Host values of an integer input that the plan depends on; nullptr and *count 0 if it is absent.
inline const int64_t *InputInts(gert::TilingContext *context, size_t input, int64_t *count) {
  const gert::Tensor *tensor = context->GetDynamicInputTensor(input, 0);
  *count = tensor == nullptr ? 0 : tensor->GetShapeSize();
  return tensor == nullptr ? nullptr : tensor->GetData<int64_t>();
}

// The lengths of one input must be as many as there are requests or groups, and known on the host.
inline bool CheckInts(const char *op, const char *name, const int64_t *values, int64_t count,
                      int64_t expected, std::string *error) {
  if (count == expected && (values != nullptr || expected == 0)) return true;
  return Fail(error, "%s: %s must have %lld values on the host, got %lld", op, name,
              Print(expected), Print(values == nullptr ? 0 : count));
}

inline Platform GetPlatform(gert::TilingContext *context) {
  const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  Platform result;
  result.num_cores = static_cast<int32_t>(platform.GetCoreNumAic());
  result.system_workspace_bytes = static_cast<int64_t>(platform.GetLibApiWorkSpaceSize());
  return result;
}

// Ends a tiling function: launch size and workspace, or the message that names what is wrong.
inline ge::graphStatus FinishTiling(gert::TilingContext *context, bool is_valid,
                                    const std::string &error, const AttentionTiling &tiling,
                                    int64_t workspace_bytes) {
  if (!is_valid) {
    std::fprintf(stderr, "mindspore_relay: %s\n", error.c_str());
    return ge::GRAPH_FAILED;
  }
  context->SetBlockDim(static_cast<uint32_t>(tiling.num_cores));
  // The cores wait for each other before the merge: none may start before all can.
  constexpr uint32_t kBatchMode = 1;
  context->SetScheduleMode(kBatchMode);
  context->GetWorkspaceSizes(1)[0] = static_cast<size_t>(workspace_bytes);
  return ge::GRAPH_SUCCESS;
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_TILING_CONTEXT_H_
