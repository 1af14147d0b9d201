// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What hides behind the handles of the C interface, and the edge where its types become ours.
#ifndef MINDSPORE_RELAY_API_OPERATION_H_
#define MINDSPORE_RELAY_API_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "api/last_error.h"
#include "attention/attention_check.h"
#include "attention/params.h"
#include "attention/plan.h"
#include "common/status.h"
#include "cpu/threads.h"
#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay {

// MsRelayOptions, of which the caller may free the original.
struct OperationOptions {
  int32_t path = MS_RELAY_PATH_AUTO;
  std::optional<MsRelayTensor> lse, block_tables, share_block_tables;
  std::vector<MsRelayTensor> packed_share;
  bool is_packed_share_stacked = false;
};

// For functions that take a pointer for an optional tensor.
inline const MsRelayTensor *PointerOf(const std::optional<MsRelayTensor> &tensor) {
  return tensor ? &*tensor : nullptr;
}

}  // namespace mindspore_relay

struct MsRelayContext {
  std::atomic<int32_t> num_threads{0};  // 0: the pool's
  mindspore_relay::ErrorText last_error;
};

// A planned call. The problem is kept because the plan points into it.
struct MsRelayOperation {
  enum class Kind { kNone, kRelayAttention, kPrefixEncoder };

  Kind kind = Kind::kNone;  // kNone: nothing planned, phase 2 is an error
  mindspore_relay::OperationOptions options;
  mindspore_relay::InterruptFunction is_interrupted = nullptr;
  void *interrupt_argument = nullptr;

  // Tensors of all lists, while they are checked.
  std::vector<mindspore_relay::TensorView> list_tensors;
  mindspore_relay::RelayAttentionProblem relay_attention;
  mindspore_relay::PrefixEncoderProblem prefix_encoder;
  mindspore_relay::Plan plan;
};

namespace mindspore_relay {

int32_t NumThreads(const MsRelayContext *context);

// The kernels in use, or the reason why there are none.
Status GetTileKernels(const TileKernels **kernels);

// OUT_OF_MEMORY when the plan needs more than any machine has.
Status CheckWorkspace(const char *op_name, const Plan &plan);

// Phase 2 of both operators.
Status RunOperation(MsRelayOperation::Kind kind, const char *op_name, void *workspace,
                    uint64_t workspace_bytes, const MsRelayOperation *op);

// Phase 1 of both operators: gives *op (created when it is nullptr) to `plan`, which checks and
// plans. On failure a created operation is destroyed again, an existing one stays but has nothing
// planned.
template <typename PlanFn>
Status PlanOperation(const char *op_name, uint64_t *workspace_bytes, MsRelayOperation **op,
                     PlanFn &&plan) {
  if (workspace_bytes == nullptr || op == nullptr) {
    return InvalidArgument("%s: workspace_bytes and op must not be NULL", op_name);
  }
  *workspace_bytes = 0;
  MsRelayOperation *operation = *op != nullptr ? *op : new MsRelayOperation();
  operation->kind = MsRelayOperation::Kind::kNone;
  Status status;
  try {
    status = plan(operation);
  } catch (...) {
    if (*op == nullptr) delete operation;
    throw;
  }
  if (!status.ok()) {
    if (*op == nullptr) delete operation;
    return status;
  }
  // Threads come into being here, for phase 2 allocates nothing.
  StartThreads(operation->plan.num_workers);
  *workspace_bytes = static_cast<uint64_t>(operation->plan.workspace_bytes);
  *op = operation;
  return OkStatus();
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_API_OPERATION_H_
