// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "api/operation.h"

#include <cinttypes>
#include <string>

#include "attention/attend.h"
#include "common/int_math.h"
#include "cpu/threads.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == MS_RELAY_FLOAT32);
static_assert(static_cast<int>(DType::kFloat16) == MS_RELAY_FLOAT16);
static_assert(static_cast<int>(DType::kBFloat16) == MS_RELAY_BFLOAT16);
static_assert(static_cast<int>(DType::kInt32) == MS_RELAY_INT32);
static_assert(static_cast<int>(DType::kUInt32) == MS_RELAY_UINT32);
static_assert(static_cast<int>(StatusCode::kOk) == MS_RELAY_OK);
static_assert(static_cast<int>(StatusCode::kInvalidArgument) == MS_RELAY_INVALID_ARGUMENT);
static_assert(static_cast<int>(StatusCode::kUnsupported) == MS_RELAY_UNSUPPORTED);
static_assert(static_cast<int>(StatusCode::kOutOfMemory) == MS_RELAY_OUT_OF_MEMORY);
static_assert(static_cast<int>(StatusCode::kInternal) == MS_RELAY_INTERNAL);
static_assert(static_cast<int>(Path::kRelay) == MS_RELAY_PATH_RELAY);
static_assert(static_cast<int>(Path::kPlain) == MS_RELAY_PATH_PLAIN);
static_assert(kMaxRank == MS_RELAY_MAX_RANK);

constexpr uint64_t kWorkspaceAlignBytes = 64;

std::string &LastError() {
  thread_local std::string text;
  return text;
}

// Extents of the tensor must fit 64 bits, so that no later sum of offsets can overflow.
Status CheckExtent(const char *op, const char *name, const TensorView &view,
                   int64_t *num_elements) {
  int64_t extent_bytes = 0;
  *num_elements = 1;
  for (int32_t i = 0; i < view.rank; ++i) {
    int64_t span = 0;
    const bool fits =
        view.shape[i] == 0 || (MultiplyFits(view.shape[i] - 1, view.strides[i], &span) &&
                               MultiplyFits(span, DTypeBytes(view.dtype), &span) &&
                               AddFits(extent_bytes, span < 0 ? -span : span, &extent_bytes));
    if (!fits || !MultiplyFits(*num_elements, view.shape[i], num_elements)) {
      return InvalidArgument("%s: %s must span less than 2^63 bytes, got shape %s", op, name,
                             ShapeText(view).text);
    }
  }
  return OkStatus();
}

}  // namespace

Status ToTensorView(const char *op, const char *name, const MsRelayTensor *tensor,
                    TensorView *view) {
  *view = TensorView();
  if (tensor == nullptr) return OkStatus();
  if (tensor->struct_bytes < sizeof(MsRelayTensor)) {
    return InvalidArgument("%s: %s must have struct_bytes of at least %zu, got %u", op, name,
                           sizeof(MsRelayTensor), tensor->struct_bytes);
  }
  view->dtype = static_cast<DType>(tensor->dtype);
  if (DTypeBytes(view->dtype) == 0) {
    return Unsupported("%s: %s must have a dtype of MsRelayDType, got %d", op, name, tensor->dtype);
  }
  if (tensor->rank < 1 || tensor->rank > kMaxRank) {
    return InvalidArgument("%s: %s must have 1 to %d dimensions, got %d", op, name, kMaxRank,
                           tensor->rank);
  }
  bool is_empty = false;
  for (int32_t i = 0; i < tensor->rank; ++i) {
    if (tensor->shape[i] < 0) {
      return InvalidArgument("%s: %s must have no negative dimension, got shape[%d]=%" PRId64, op,
                             name, i, tensor->shape[i]);
    }
    view->shape[i] = tensor->shape[i];
    is_empty = is_empty || tensor->shape[i] == 0;
  }
  for (int32_t i = 0; i < tensor->rank; ++i) {
    // Strides that are never used, of a dimension of one element or of a tensor without any:
    // frameworks put anything there.
    view->strides[i] = is_empty || tensor->shape[i] == 1 ? 1 : tensor->strides[i];
  }
  view->rank = tensor->rank;
  view->data = tensor->data;
  if (view->strides[view->rank - 1] != 1) {
    return InvalidArgument("%s: %s must have stride 1 in its last dimension, got %" PRId64, op,
                           name, view->strides[view->rank - 1]);
  }
  int64_t num_elements = 0;
  MS_RELAY_RETURN_IF_ERROR(CheckExtent(op, name, *view, &num_elements));
  if (view->data == nullptr && num_elements > 0) {
    return InvalidArgument("%s: %s must have data, got NULL for shape %s", op, name,
                           ShapeText(*view).text);
  }
  if (reinterpret_cast<uintptr_t>(view->data) % static_cast<uintptr_t>(DTypeBytes(view->dtype)) !=
      0) {
    return InvalidArgument("%s: %s must be aligned to its elements of %d bytes, got address %p", op,
                           name, DTypeBytes(view->dtype), view->data);
  }
  return OkStatus();
}

int32_t NumThreads(const MsRelayContext *context) {
  const int32_t pool = GetNumThreads();
  if (context == nullptr || context->num_threads == 0) return pool;
  return context->num_threads < pool ? context->num_threads : pool;
}

Status GetTileKernels(const TileKernels **kernels) {
  const char *error = nullptr;
  *kernels = SelectTileKernels(&error);
  if (*kernels != nullptr) return OkStatus();
  return Unsupported("%s", error == nullptr ? "no tile kernels for this CPU" : error);
}

MsRelayStatus Report(const Status &status) {
  if (!status.ok()) LastError() = status.message();
  return static_cast<MsRelayStatus>(status.code());
}

const char *LastErrorText() { return LastError().c_str(); }

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
  RunPlan(op->plan, workspace);
  return OkStatus();
}

}  // namespace mindspore_relay
