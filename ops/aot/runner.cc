// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0
#include "aot/runner.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "aot/arguments.h"

namespace mindspore_relay::aot {
namespace {

// What the C interface asks of a workspace.
constexpr uint64_t kWorkspaceAlignmentBytes = 64;

}  // namespace

Runner::~Runner() {
  FreeWorkspace();
  MsRelayDestroyOperation(operation_);
}

MsRelayOperation **Runner::Prepare(const MsRelayOptions &options) {
  if (operation_ == nullptr) ThrowIfError(MsRelayCreateOperation(&operation_, nullptr));
  ThrowIfError(MsRelayOperationSetOptions(operation_, &options));
  return &operation_;
}

void Runner::Run(RunFunction run, uint64_t workspace_bytes) {
  ReserveWorkspace(workspace_bytes);
  const MsRelayStatus status = run(workspace_, capacity_bytes_, operation_, nullptr);
  if (capacity_bytes_ > kKeptWorkspaceBytes) FreeWorkspace();
  ThrowIfError(status);
}

void Runner::ReserveWorkspace(uint64_t workspace_bytes) {
  if (workspace_bytes <= capacity_bytes_) return;
  FreeWorkspace();
  // aligned_alloc wants a multiple of the alignment. Growing by half again keeps a sequence that
  // gets longer step by step from allocating at each step.
  const uint64_t wanted_bytes = workspace_bytes + workspace_bytes / 2;
  const uint64_t bytes = (wanted_bytes / kWorkspaceAlignmentBytes + 1) * kWorkspaceAlignmentBytes;
  workspace_ = std::aligned_alloc(kWorkspaceAlignmentBytes, bytes);
  if (workspace_ == nullptr) {
    throw std::runtime_error("mindspore_relay: no memory for a workspace of " +
                             std::to_string(bytes) + " bytes");
  }
  capacity_bytes_ = bytes;
}

void Runner::FreeWorkspace() {
  std::free(workspace_);
  workspace_ = nullptr;
  capacity_bytes_ = 0;
}

}  // namespace mindspore_relay::aot
