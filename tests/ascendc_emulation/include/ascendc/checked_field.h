// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// An integer of the device interface that refuses a value it cannot hold. On the device 256 repeats
// passed as uint8_t become 0 without a word; here the launch stops and names the field.
#ifndef ASCENDC_CHECKED_FIELD_H_
#define ASCENDC_CHECKED_FIELD_H_

#include <limits>
#include <type_traits>

#include "ascendc_emulation/runtime.h"

namespace ascendc_emulation {

template <typename T>
class CheckedField {
 public:
  constexpr CheckedField() = default;

  template <typename Value,
            typename = std::enable_if_t<std::is_arithmetic_v<Value> || std::is_enum_v<Value>>>
  constexpr CheckedField(Value value) : value_(static_cast<T>(value)) {
    if (static_cast<Value>(value_) != value || (value_ < T(0)) != (value < Value(0))) {
      FailFieldRange(static_cast<int64_t>(value), static_cast<int64_t>(sizeof(T) * 8),
                     std::is_signed_v<T>);
    }
  }

  constexpr operator T() const { return value_; }

 private:
  T value_{};
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_CHECKED_FIELD_H_
