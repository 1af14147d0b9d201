// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What hides behind the handles of the C interface, and the edge where its types become ours.
#ifndef MINDSPORE_RELAY_API_OPERATION_H_
#define MINDSPORE_RELAY_API_OPERATION_H_

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "attention/attention_check.h"
#include "attention/params.h"
#include "attention/plan.h"
#include "common/status.h"
#include "mindspore_relay/mindspore_relay.h"

struct MsRelayContext {
  int32_t num_threads = 0;  // 0: the pool's
};

// A planned call. The problem is kept because the plan points into it.
struct MsRelayOperation {
  enum class Kind { kNone, kRelayAttention, kPrefixEncoder };

  Kind kind = Kind::kNone;  // kNone: nothing planned, phase 2 is an error
  int32_t path = MS_RELAY_PATH_AUTO;
  bool has_lse = false, has_block_tables = false, has_share_block_tables = false;
  MsRelayTensor lse = {}, block_tables = {}, share_block_tables = {};

  std::vector<mindspore_relay::TensorView>
      list_tensors;  // of the four lists, while they are checked
  mindspore_relay::RelayAttentionProblem relay_attention;
  mindspore_relay::PrefixEncoderProblem prefix_encoder;
  mindspore_relay::Plan plan;
};

namespace mindspore_relay {

// Checks the description (not the content) of a tensor. tensor may be nullptr: *view is absent
// then.
Status ToTensorView(const char *op, const char *name, const MsRelayTensor *tensor,
                    TensorView *view);

int32_t NumThreads(const MsRelayContext *context);

// The kernels in use, or the reason why there are none.
Status GetTileKernels(const TileKernels **kernels);

const char *LastErrorText();

// Keeps the text of a failure for LastErrorText (of this thread) and answers its code.
MsRelayStatus Report(const Status &status);

// Runs fn, which returns a Status, with nothing thrown across the C edge.
template <typename Fn>
MsRelayStatus Guard(Fn &&fn) noexcept {
  try {
    return Report(std::forward<Fn>(fn)());
  } catch (const std::bad_alloc &) {
    return MS_RELAY_OUT_OF_MEMORY;
  } catch (...) {
    return MS_RELAY_INTERNAL;
  }
}

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
  *workspace_bytes = static_cast<uint64_t>(operation->plan.workspace_bytes);
  *op = operation;
  return OkStatus();
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_API_OPERATION_H_
