// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A tensor in host memory, as the layers below the interfaces see it.
#ifndef MINDSPORE_RELAY_COMMON_TENSOR_VIEW_H_
#define MINDSPORE_RELAY_COMMON_TENSOR_VIEW_H_

#include <cstdint>

#include "common/dtype.h"

namespace mindspore_relay {

constexpr int32_t kMaxRank = 6;

struct TensorView {
  void *data = nullptr;
  DType dtype = DType::kFloat32;
  int32_t rank = 0;  // 0: the tensor is absent
  int64_t shape[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};  // elements; the last one is 1

  bool is_present() const { return rank > 0; }
  char *bytes() const { return static_cast<char *>(data); }
};

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_COMMON_TENSOR_VIEW_H_
