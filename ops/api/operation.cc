// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "api/operation.h"

#include <algorithm>
#include <cinttypes>

#include "attention/attend.h"
#include "cpu/threads.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {
namespace {

static_assert(static_cast<int>(Path::kRelay) == MS_RELAY_PATH_RELAY);
static_assert(static_cast<int>(Path::kPlain) == MS_RELAY_PATH_PLAIN);

constexpr uint64_t kWorkspaceAlignBytes = 64;
constexpr int64_t kMaxWorkspaceBytes = int64_t{1} << 56;

}  // namespace

int32_t NumThreads(const MsRelayContext *context) {
  const int32_t pool = GetNumThreads();
  const int32_t most = context == nullptr ? 0 : context->num_threads.load();
  return most == 0 ? pool : std::min(most, pool);
}

Status GetTileKernels(const TileKernels **kernels) {
  const char *error = nullptr;
  *kernels = SelectTileKernels(&error);
  if (*kernels != nullptr) return OkStatus();
  return Unsupported("%s", error == nullptr ? "no tile kernels for this CPU" : error);
}

Status CheckWorkspace(const char *op_name, const Plan &plan) {
  if (plan.workspace_bytes <= kMaxWorkspaceBytes) return OkStatus();
  return OutOfMemory("%s: out of memory: the workspace must have at most 2^56 bytes, needs more",
                     op_name);
}

Status RunOperation(MsRelayOperation::Kind kind, const char *op_name, void *workspace,
                    uint64_t workspace_bytes, const MsRelayOperation *op) {
  if (op == nullptr || op->kind != kind) {
    return InvalidArgument(
        "%s: op must have been planned by this operator's GetWorkspaceSize, got %s", op_name,
        op == nullptr ? "NULL" : "another or failed plan");
  }
  const uint64_t needed = static_cast<uint64_t>(op->plan.workspace_bytes);
  if (workspace_bytes < needed || (workspace == nullptr && needed > 0)) {
    return InvalidArgument("%s: workspace must have at least %" PRIu64 " bytes, got %" PRIu64 "%s",
                           op_name, needed, workspace_bytes,
                           workspace == nullptr ? " at NULL" : "");
  }
  if (needed > 0 && reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignBytes != 0) {
    return InvalidArgument("%s: workspace must be aligned to %" PRIu64 " bytes, got address %p",
                           op_name, kWorkspaceAlignBytes, workspace);
  }
  const InterruptScope scope(op->is_interrupted, op->interrupt_argument);
  RunPlan(op->plan, workspace);
  if (!scope.interrupted()) return OkStatus();
  return InterruptedRun("%s: interrupted; the outputs are not complete", op_name);
}

}  // namespace mindspore_relay
