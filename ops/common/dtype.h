// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Element types of tensors. Only declarations and constexpr, so that every file may include it
// whatever its ISA flags.
#ifndef MINDSPORE_RELAY_COMMON_DTYPE_H_
#define MINDSPORE_RELAY_COMMON_DTYPE_H_

#include <cstdint>

namespace mindspore_relay {

// Values equal MsRelayDType of the public header (checked by static_assert in ops/api).
enum class DType : int32_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kBFloat16 = 3,
  kInt32 = 4,
  kUInt32 = 5,
  kUInt8 = 6,
};

const char *DTypeName(DType dtype);
int32_t DTypeBytes(DType dtype);
bool IsFloating(DType dtype);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_COMMON_DTYPE_H_
