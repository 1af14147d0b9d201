// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What a thread keeps between two calls of an operator, so that a call in steady state allocates
// nothing: MindSpore gives ops.Custom no workspace whose size may depend on the arguments' values.
#ifndef MINDSPORE_RELAY_AOT_RUNNER_H_
#define MINDSPORE_RELAY_AOT_RUNNER_H_

#include <cstdint>
#include <vector>

#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay::aot {

// Largest workspace that a thread keeps after a run. MindSpore runs operators on any of its
// threads, so this bounds what they hold together; a prefill that needs more pays for one
// allocation in a call of many milliseconds.
constexpr uint64_t kKeptWorkspaceBytes = uint64_t{64} << 20;

class Runner {
 public:
  Runner() = default;
  ~Runner();
  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;

  // The operation, created at first use, with these options set. Throws std::runtime_error.
  MsRelayOperation **Prepare(const MsRelayOptions &options);

  // Phase 2 with a workspace of workspace_bytes. Throws std::runtime_error.
  using RunFunction = MsRelayStatus (*)(void *, uint64_t, MsRelayOperation *, MsRelayContext *);
  void Run(RunFunction run, uint64_t workspace_bytes);

  std::vector<MsRelayTensor> *tensors() { return &tensors_; }
  const MsRelayOperation *operation() const { return operation_; }

 private:
  void ReserveWorkspace(uint64_t workspace_bytes);
  void FreeWorkspace();

  MsRelayOperation *operation_ = nullptr;
  void *workspace_ = nullptr;
  uint64_t capacity_bytes_ = 0;
  std::vector<MsRelayTensor> tensors_;
};

}  // namespace mindspore_relay::aot

#endif  // MINDSPORE_RELAY_AOT_RUNNER_H_
