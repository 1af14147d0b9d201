// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Reader of a dynamic input: one GM block that lists the tensors of the input. Layout, in 64-bit
// words: [0] byte offset of the pointers; then for each tensor one word (dimensions in the low
// half, its index in the high half; the first tensor may carry the number of tensors there)
// followed by its shape; then the pointers. ascendc_emulation/device.h builds such a block.
#ifndef KERNEL_OPERATOR_LIST_TENSOR_INTF_H_
#define KERNEL_OPERATOR_LIST_TENSOR_INTF_H_

#include "ascendc/tensor.h"

namespace AscendC {

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  explicit ListTensorDesc(__gm__ void *data, uint32_t length = 0xffffffff,
                          uint32_t num_tensors = 0xffffffff) {
    Init(data, length, num_tensors);
  }

  void Init(__gm__ void *data, uint32_t length = 0xffffffff, uint32_t num_tensors = 0xffffffff) {
    if (data == nullptr) {
      ascendc_emulation::FailRule("list tensor", "ListTensorDesc::Init of a null address");
    }
    words_ = static_cast<const uint64_t *>(data);
    pointers_ = words_ + Word(0) / sizeof(uint64_t);
    const uint64_t first = Word(1);
    const uint64_t words_per_tensor = 1 + (first & 0xffffffffu);
    num_tensors_ = static_cast<uint32_t>(first >> 32);
    if (num_tensors_ == 0) {
      const uint64_t last = Word(Word(0) / sizeof(uint64_t) - words_per_tensor);
      num_tensors_ = static_cast<uint32_t>(last >> 32) + 1;
    }
    if (num_tensors != 0xffffffff && num_tensors != num_tensors_) {
      ascendc_emulation::FailRule("list tensor", "list of %u tensors, the kernel expects %u",
                                  num_tensors_, num_tensors);
    }
    const uint64_t bytes = Word(0) + uint64_t{num_tensors_} * sizeof(uint64_t);
    if (length != 0xffffffff && length != bytes) {
      ascendc_emulation::FailRule("list tensor", "list of %llu bytes, the kernel expects %u",
                                  static_cast<unsigned long long>(bytes), length);
    }
  }

  uint32_t GetSize() { return num_tensors_; }

  template <typename T>
  __gm__ T *GetDataPtr(uint32_t index) {
    if (index >= num_tensors_) {
      ascendc_emulation::FailRule("list tensor", "GetDataPtr(%u) of a list of %u tensors", index,
                                  num_tensors_);
    }
    uint64_t address = 0;
    ascendc_emulation::ScalarReadGm(pointers_ + index, &address, sizeof(address));
    return reinterpret_cast<T *>(address);
  }

 private:
  uint64_t Word(uint64_t index) const {
    uint64_t value = 0;
    ascendc_emulation::ScalarReadGm(words_ + index, &value, sizeof(value));
    return value;
  }

  const uint64_t *words_ = nullptr;
  const uint64_t *pointers_ = nullptr;
  uint32_t num_tensors_ = 0;
};

}  // namespace AscendC

#endif  // KERNEL_OPERATOR_LIST_TENSOR_INTF_H_
