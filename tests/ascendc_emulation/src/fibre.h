// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A core's thread of control: its own stack, switched by hand, so that an emulated launch is one
// thread and always runs the same way.
#ifndef ASCENDC_EMULATION_SRC_FIBRE_H_
#define ASCENDC_EMULATION_SRC_FIBRE_H_

#include <ucontext.h>

#include <functional>
#include <memory>

namespace ascendc_emulation {

class Fibre {
 public:
  explicit Fibre(std::function<void()> body);
  ~Fibre();
  Fibre(const Fibre &) = delete;
  Fibre &operator=(const Fibre &) = delete;

  // Runs the body until it yields or returns. Called from outside any fibre.
  void Resume();
  // Back to Resume. Called from inside the body.
  void Yield();
  bool is_finished() const { return is_finished_; }

 private:
  static void Enter(unsigned int high, unsigned int low);

  std::function<void()> body_;
  void *stack_ = nullptr;
  ucontext_t inside_;
  ucontext_t outside_;
  bool is_finished_ = false;
  // Stack bounds of the resuming side, for AddressSanitizer.
  const void *outside_stack_ = nullptr;
  size_t outside_stack_bytes_ = 0;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_FIBRE_H_
