// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Contexts, operations and the questions about the library itself.
#include "api/descriptions.h"
#include "api/operation.h"
#include "cpu/threads.h"
#include "cpu/tile_kernels.h"

using mindspore_relay::Guard;
using mindspore_relay::InvalidArgument;
using mindspore_relay::OkStatus;
using mindspore_relay::OperationOptions;
using mindspore_relay::Status;

namespace {

constexpr char kSetOptions[] = "MsRelayOperationSetOptions";

Status KeepOptional(const char *name, const MsRelayTensor *given,
                    std::optional<MsRelayTensor> *kept) {
  if (given == nullptr) return OkStatus();
  kept->emplace();
  return mindspore_relay::KeepTensor(kSetOptions, name, *given, &kept->value());
}

}  // namespace

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
    case MS_RELAY_INTERRUPTED:
      return "interrupted";
    default:
      return "unknown";
  }
}

const char *MsRelayLastError(void) { return mindspore_relay::ThreadErrorText(); }

uint64_t MsRelayContextLastError(const MsRelayContext *context, char *text, uint64_t text_bytes) {
  if (context != nullptr) return context->last_error.Get(text, text_bytes);
  if (text != nullptr && text_bytes > 0) *text = '\0';
  return 0;
}

const char *MsRelayIsaName(void) {
  const mindspore_relay::TileKernels *kernels = nullptr;
  Guard("MsRelayIsaName", nullptr, [&] { return mindspore_relay::GetTileKernels(&kernels); });
  return kernels == nullptr ? "" : kernels->isa;
}

const char *MsRelayIsaList(void) { return mindspore_relay::AvailableIsaList(); }

MsRelayStatus MsRelaySetIsa(const char *isa) {
  return Guard("MsRelaySetIsa", nullptr, [&]() -> Status {
    if (isa != nullptr && mindspore_relay::ForceTileKernels(isa)) return OkStatus();
    return InvalidArgument("MsRelaySetIsa: isa must be one of %s, got %s",
                           mindspore_relay::AvailableIsaList(), isa == nullptr ? "NULL" : isa);
  });
}

int32_t MsRelayGetNumThreads(void) { return mindspore_relay::GetNumThreads(); }

MsRelayStatus MsRelaySetNumThreads(int32_t num_threads) {
  return Guard("MsRelaySetNumThreads", nullptr, [&]() -> Status {
    if (mindspore_relay::SetNumThreads(num_threads)) return OkStatus();
    return InvalidArgument("MsRelaySetNumThreads: num_threads must be in [1, %d], got %d",
                           mindspore_relay::kMaxThreads, num_threads);
  });
}

MsRelayStatus MsRelayStopThreads(void) {
  return Guard("MsRelayStopThreads", nullptr, []() -> Status {
    if (mindspore_relay::StopThreads()) return OkStatus();
    return InvalidArgument(
        "MsRelayStopThreads: must not be called by the function of "
        "MsRelayOperationSetInterrupt");
  });
}

MsRelayStatus MsRelayCreateContext(MsRelayContext **context) {
  return Guard("MsRelayCreateContext", nullptr, [&]() -> Status {
    if (context == nullptr)
      return InvalidArgument("MsRelayCreateContext: context must not be NULL");
    *context = new MsRelayContext();
    return OkStatus();
  });
}

void MsRelayDestroyContext(MsRelayContext *context) { delete context; }

MsRelayStatus MsRelayContextSetNumThreads(MsRelayContext *context, int32_t num_threads) {
  return Guard("MsRelayContextSetNumThreads", context, [&]() -> Status {
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

MsRelayStatus MsRelayCreateOperation(MsRelayOperation **op, MsRelayContext *context) {
  return Guard("MsRelayCreateOperation", context, [&]() -> Status {
    if (op == nullptr) return InvalidArgument("MsRelayCreateOperation: op must not be NULL");
    *op = new MsRelayOperation();
    return OkStatus();
  });
}

MsRelayStatus MsRelayOperationSetOptions(MsRelayOperation *op, const MsRelayOptions *options) {
  return Guard(kSetOptions, nullptr, [&]() -> Status {
    if (op == nullptr || options == nullptr) {
      return InvalidArgument("%s: op and options must not be NULL", kSetOptions);
    }
    MsRelayOptions known;
    MS_RELAY_RETURN_IF_ERROR(mindspore_relay::KeepOptions(kSetOptions, *options, &known));
    OperationOptions kept;
    kept.path = known.path;
    MS_RELAY_RETURN_IF_ERROR(KeepOptional("lse", known.lse, &kept.lse));
    MS_RELAY_RETURN_IF_ERROR(KeepOptional("block_tables", known.block_tables, &kept.block_tables));
    MS_RELAY_RETURN_IF_ERROR(
        KeepOptional("share_block_tables", known.share_block_tables, &kept.share_block_tables));
    if (known.packed_share != nullptr) {
      MS_RELAY_RETURN_IF_ERROR(mindspore_relay::KeepTensorList(
          kSetOptions, "packed_share", *known.packed_share, &kept.packed_share));
      kept.is_packed_share_stacked = known.packed_share->is_stacked != 0;
    }
    op->options = std::move(kept);
    return OkStatus();
  });
}

MsRelayStatus MsRelayOperationSetInterrupt(MsRelayOperation *op,
                                           int32_t (*is_interrupted)(void *argument),
                                           void *argument) {
  return Guard("MsRelayOperationSetInterrupt", nullptr, [&]() -> Status {
    if (op == nullptr) return InvalidArgument("MsRelayOperationSetInterrupt: op must not be NULL");
    op->is_interrupted = is_interrupted;
    op->interrupt_argument = argument;
    return OkStatus();
  });
}

void MsRelayDestroyOperation(MsRelayOperation *op) { delete op; }

MsRelayStatus MsRelayOperationGetPath(const MsRelayOperation *op, int64_t group, int32_t *path) {
  return Guard("MsRelayOperationGetPath", nullptr, [&]() -> Status {
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
