// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// GlobalTensor and LocalTensor: typed views. They hold an address and no data; scalar access goes
// through the engine, which checks it.
#ifndef ASCENDC_TENSOR_H_
#define ASCENDC_TENSOR_H_

#include <type_traits>

#include "ascendc/platform.h"

namespace AscendC {

template <typename T>
constexpr ascendc_emulation::DType DTypeOf() {
  using ascendc_emulation::DType;
  if constexpr (std::is_same_v<T, half>)
    return DType::kHalf;
  else if constexpr (std::is_same_v<T, bfloat16_t>)
    return DType::kBFloat16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kFloat;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::kInt8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::kUint8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::kInt16;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return DType::kUint16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::kInt32;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return DType::kUint32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::kInt64;
  else {
    static_assert(std::is_same_v<T, uint64_t>, "no device data type");
    return DType::kUint64;
  }
}

constexpr ascendc_emulation::Memory MemoryOf(TPosition position) {
  using ascendc_emulation::Memory;
  switch (position) {
    case TPosition::VECIN:
    case TPosition::VECOUT:
    case TPosition::VECCALC:
      return Memory::kUb;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return Memory::kL1;
    case TPosition::A2:
      return Memory::kL0a;
    case TPosition::B2:
      return Memory::kL0b;
    case TPosition::CO1:
      return Memory::kL0c;
    default:
      return Memory::kNone;
  }
}

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;

  // A tensor of num_elements at a byte address of the position's memory (no TPipe).
  LocalTensor(TPosition position, uint32_t address_bytes, uint32_t num_elements)
      : position_(position), num_elements_(num_elements) {
    const uint64_t end = address_bytes + static_cast<uint64_t>(num_elements) * sizeof(T);
    const uint64_t capacity = ascendc_emulation::LocalCapacity(MemoryOf(position));
    if (end > capacity) {
      ascendc_emulation::FailRule(
          "capacity", "LocalTensor [%u, %llu) ends past the memory's %llu bytes", address_bytes,
          static_cast<unsigned long long>(end), static_cast<unsigned long long>(capacity));
    }
    ref_ = {MemoryOf(position), DTypeOf<T>(), address_bytes, static_cast<uint32_t>(end)};
  }

  LocalTensor(TPosition position, const ascendc_emulation::LocalRef &ref, uint32_t num_elements)
      : ref_(ref), position_(position), num_elements_(num_elements) {
    ref_.dtype = DTypeOf<T>();
  }

  LocalTensor operator[](uint32_t offset_elements) const {
    LocalTensor result = *this;
    const uint64_t begin = ref_.begin + static_cast<uint64_t>(offset_elements) * sizeof(T);
    if (begin > ref_.end) {
      ascendc_emulation::FailRule("out of range",
                                  "LocalTensor[%u] begins past its buffer of %u bytes",
                                  offset_elements, ref_.end - ref_.begin);
    }
    result.ref_.begin = static_cast<uint32_t>(begin);
    result.num_elements_ = num_elements_ > offset_elements ? num_elements_ - offset_elements : 0;
    return result;
  }

  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return LocalTensor<U>(position_, ref_,
                          static_cast<uint32_t>(uint64_t{num_elements_} * sizeof(T) / sizeof(U)));
  }

  T GetValue(uint32_t index) const {
    T value;
    ascendc_emulation::ScalarReadLocal(ref_, index * sizeof(T), &value, sizeof(T));
    return value;
  }

  template <typename U>
  void SetValue(uint32_t index, U value) const {
    const T converted = static_cast<T>(value);
    ascendc_emulation::ScalarWriteLocal(ref_, index * sizeof(T), &converted, sizeof(T));
  }

  int32_t GetPosition() const { return static_cast<int32_t>(position_); }
  uint32_t GetSize() const { return num_elements_; }
  void SetSize(uint32_t num_elements) { num_elements_ = num_elements; }
  uint64_t GetPhyAddr() const { return ref_.begin; }
  uint64_t GetPhyAddr(uint32_t offset_elements) const {
    return ref_.begin + uint64_t{offset_elements} * sizeof(T);
  }

  const ascendc_emulation::LocalRef &Ref() const { return ref_; }

 private:
  ascendc_emulation::LocalRef ref_;
  TPosition position_ = TPosition::MAX;
  uint32_t num_elements_ = 0;
};

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  GlobalTensor() = default;

  void SetGlobalBuffer(__gm__ T *buffer, uint64_t num_elements) {
    address_ = reinterpret_cast<uint8_t *>(buffer);
    num_elements_ = num_elements;
  }
  void SetGlobalBuffer(__gm__ T *buffer) { SetGlobalBuffer(buffer, 0); }

  __gm__ const T *GetPhyAddr() const { return reinterpret_cast<const T *>(address_); }
  __gm__ T *GetPhyAddr(uint64_t offset_elements) const {
    return reinterpret_cast<T *>(address_ + offset_elements * sizeof(T));
  }

  T GetValue(uint64_t offset_elements) const {
    T value;
    ascendc_emulation::ScalarReadGm(address_ + offset_elements * sizeof(T), &value, sizeof(T));
    return value;
  }
  void SetValue(uint64_t offset_elements, T value) {
    ascendc_emulation::ScalarWriteGm(address_ + offset_elements * sizeof(T), &value, sizeof(T));
  }

  uint64_t GetSize() const { return num_elements_; }
  GlobalTensor operator[](uint64_t offset_elements) const {
    GlobalTensor result = *this;
    result.address_ += offset_elements * sizeof(T);
    return result;
  }

  ascendc_emulation::GmRef Ref() const { return {address_, DTypeOf<T>()}; }

 private:
  uint8_t *address_ = nullptr;
  uint64_t num_elements_ = 0;
};

inline float ToFloat(const bfloat16_t &value) {
  return ascendc_emulation::BFloat16BitsToFloat(value.bits);
}
inline bfloat16_t ToBfloat16(const float &value) {
  return bfloat16_t{ascendc_emulation::FloatToBFloat16Bits(value)};
}

}  // namespace AscendC

#endif  // ASCENDC_TENSOR_H_
