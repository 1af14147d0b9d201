// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATION_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATION_HAS_ASAN 1
#endif
#endif

#if defined(EMULATION_HAS_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace ascendc_emulation {

namespace {

// Kernels keep their tensors' bytes in local memory, not on the stack; sanitizers need the room.
constexpr size_t kStackBytes = 1024 * 1024;

void StartSwitch(void **saved, const void *stack, size_t stack_bytes) {
#if defined(EMULATION_HAS_ASAN)
  __sanitizer_start_switch_fiber(saved, stack, stack_bytes);
#else
  static_cast<void>(saved);
  static_cast<void>(stack);
  static_cast<void>(stack_bytes);
#endif
}

void FinishSwitch(void *saved, const void **previous_stack, size_t *previous_bytes) {
#if defined(EMULATION_HAS_ASAN)
  __sanitizer_finish_switch_fiber(saved, previous_stack, previous_bytes);
#else
  static_cast<void>(saved);
  static_cast<void>(previous_stack);
  static_cast<void>(previous_bytes);
#endif
}

}  // namespace

Fibre::Fibre(std::function<void()> body) : body_(std::move(body)) {
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = &outside_;
  // makecontext passes ints only: the pointer travels in two halves.
  const auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fibre::Enter), 2,
              static_cast<unsigned int>(address >> 32), static_cast<unsigned int>(address));
}

Fibre::~Fibre() { munmap(stack_, kStackBytes); }

void Fibre::Enter(unsigned int high, unsigned int low) {
  auto *fibre = reinterpret_cast<Fibre *>(static_cast<uintptr_t>(high) << 32 | low);
  FinishSwitch(nullptr, &fibre->outside_stack_, &fibre->outside_stack_bytes_);
  fibre->body_();
  fibre->is_finished_ = true;
  StartSwitch(nullptr, fibre->outside_stack_, fibre->outside_stack_bytes_);
}

void Fibre::Resume() {
  void *saved = nullptr;
  StartSwitch(&saved, stack_, kStackBytes);
  swapcontext(&outside_, &inside_);
  FinishSwitch(saved, nullptr, nullptr);
}

void Fibre::Yield() {
  void *saved = nullptr;
  StartSwitch(&saved, outside_stack_, outside_stack_bytes_);
  swapcontext(&inside_, &outside_);
  FinishSwitch(saved, &outside_stack_, &outside_stack_bytes_);
}

}  // namespace ascendc_emulation
