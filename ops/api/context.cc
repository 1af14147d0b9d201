// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Contexts, operations and the questions about the library itself.
#include "api/operation.h"
#include "cpu/threads.h"
#include "cpu/tile_kernels.h"

using mindspore_relay::Guard;
using mindspore_relay::InvalidArgument;
using mindspore_relay::OkStatus;
using mindspore_relay::Status;

extern "C" {

const char *MsRelayVersion(void) { return MINDSPORE_RELAY_VERSION; }

const char *MsRelayStatusName(int32_t status) {
  switch (status) {
    case MS_RELAY_OK:
      return "ok";
    case MS_RELAY_INVALID_ARGUMENT:
      return "invalid argument";
    case MS_RELAY_UNSUPPORTED:
      return "unsupported";
    case MS_RELAY_OUT_OF_MEMORY:
      return "out of memory";
    case MS_RELAY_INTERNAL:
      return "internal error";
    default:
      return "unknown";
  }
}

const char *MsRelayLastError(void) { return mindspore_relay::LastErrorText(); }

const char *MsRelayIsaName(void) {
  const char *error = nullptr;
  const mindspore_relay::TileKernels *kernels = mindspore_relay::SelectTileKernels(&error);
  return kernels == nullptr ? "" : kernels->isa;
}

const char *MsRelayIsaList(void) { return mindspore_relay::AvailableIsaList(); }

MsRelayStatus MsRelaySetIsa(const char *isa) {
  return Guard([&]() -> Status {
    if (isa != nullptr && mindspore_relay::ForceTileKernels(isa)) return OkStatus();
    return InvalidArgument("MsRelaySetIsa: isa must be one of %s, got %s",
                           mindspore_relay::AvailableIsaList(), isa == nullptr ? "NULL" : isa);
  });
}

int32_t MsRelayGetNumThreads(void) { return mindspore_relay::GetNumThreads(); }

MsRelayStatus MsRelaySetNumThreads(int32_t num_threads) {
  return Guard([&]() -> Status {
    if (mindspore_relay::SetNumThreads(num_threads)) return OkStatus();
    return InvalidArgument("MsRelaySetNumThreads: num_threads must be in [1, %d], got %d",
                           mindspore_relay::kMaxThreads, num_threads);
  });
}

MsRelayStatus MsRelayCreateContext(MsRelayContext **context) {
  return Guard([&]() -> Status {
    if (context == nullptr)
      return InvalidArgument("MsRelayCreateContext: context must not be NULL");
    *context = new MsRelayContext();
    return OkStatus();
  });
}

void MsRelayDestroyContext(MsRelayContext *context) { delete context; }

MsRelayStatus MsRelayContextSetNumThreads(MsRelayContext *context, int32_t num_threads) {
  return Guard([&]() -> Status {
    if (context == nullptr)
      return InvalidArgument("MsRelayContextSetNumThreads: context must not be NULL");
    if (num_threads < 0 || num_threads > mindspore_relay::kMaxThreads) {
      return InvalidArgument("MsRelayContextSetNumThreads: num_threads must be in [0, %d], got %d",
                             mindspore_relay::kMaxThreads, num_threads);
    }
    context->num_threads = num_threads;
    return OkStatus();
  });
}

MsRelayStatus MsRelayCreateOperation(MsRelayOperation **op, MsRelayContext *) {
  return Guard([&]() -> Status {
    if (op == nullptr) return InvalidArgument("MsRelayCreateOperation: op must not be NULL");
    *op = new MsRelayOperation();
    return OkStatus();
  });
}

MsRelayStatus MsRelayOperationSetOptions(MsRelayOperation *op, const MsRelayOptions *options) {
  return Guard([&]() -> Status {
    if (op == nullptr || options == nullptr) {
      return InvalidArgument("MsRelayOperationSetOptions: op and options must not be NULL");
    }
    if (options->struct_bytes < sizeof(MsRelayOptions)) {
      return InvalidArgument(
          "MsRelayOperationSetOptions: struct_bytes must be at least %zu, got %u",
          sizeof(MsRelayOptions), options->struct_bytes);
    }
    const auto keep = [](const MsRelayTensor *given, MsRelayTensor *kept, bool *has) {
      *has = given != nullptr;
      if (*has) *kept = *given;
    };
    op->path = options->path;
    keep(options->lse, &op->lse, &op->has_lse);
    keep(options->block_tables, &op->block_tables, &op->has_block_tables);
    keep(options->share_block_tables, &op->share_block_tables, &op->has_share_block_tables);
    return OkStatus();
  });
}

void MsRelayDestroyOperation(MsRelayOperation *op) { delete op; }

MsRelayStatus MsRelayOperationGetPath(const MsRelayOperation *op, int64_t group, int32_t *path) {
  return Guard([&]() -> Status {
    if (op == nullptr || path == nullptr || op->kind != MsRelayOperation::Kind::kRelayAttention) {
      return InvalidArgument(
          "MsRelayOperationGetPath: op must be a planned relay_attention and path not NULL");
    }
    const int64_t num_groups = static_cast<int64_t>(op->plan.group_path.size());
    if (group < 0 || group >= num_groups) {
      return InvalidArgument("MsRelayOperationGetPath: group must be in [0, %lld), got %lld",
                             static_cast<long long>(num_groups), static_cast<long long>(group));
    }
    *path = static_cast<int32_t>(op->plan.group_path[group]);
    return OkStatus();
  });
}

}  // extern "C"
