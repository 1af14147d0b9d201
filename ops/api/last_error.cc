// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "api/last_error.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api/operation.h"

namespace mindspore_relay {
namespace {

static_assert(static_cast<int>(StatusCode::kOk) == MS_RELAY_OK);
static_assert(static_cast<int>(StatusCode::kInvalidArgument) == MS_RELAY_INVALID_ARGUMENT);
static_assert(static_cast<int>(StatusCode::kUnsupported) == MS_RELAY_UNSUPPORTED);
static_assert(static_cast<int>(StatusCode::kOutOfMemory) == MS_RELAY_OUT_OF_MEMORY);
static_assert(static_cast<int>(StatusCode::kInternal) == MS_RELAY_INTERNAL);
static_assert(static_cast<int>(StatusCode::kInterrupted) == MS_RELAY_INTERRUPTED);

// Only failures touch it: a thread's first use may allocate, which a run must not.
thread_local char thread_error[kMaxMessageBytes] = "";

}  // namespace

void ErrorText::Set(const char *text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::snprintf(text_, sizeof(text_), "%s", text);
}

uint64_t ErrorText::Get(char *text, uint64_t text_bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t length = std::strlen(text_);
  if (text != nullptr && text_bytes > 0) {
    const uint64_t num_copied = std::min(length, text_bytes - 1);
    std::memcpy(text, text_, num_copied);
    text[num_copied] = '\0';
  }
  return length;
}

const char *ThreadErrorText() { return thread_error; }

MsRelayStatus ReportFailure(MsRelayContext *context, StatusCode code, const char *text) {
  std::snprintf(thread_error, sizeof(thread_error), "%s", text);
  if (context != nullptr) context->last_error.Set(thread_error);
  return static_cast<MsRelayStatus>(code);
}

MsRelayStatus ReportFailure(MsRelayContext *context, StatusCode code, const char *op_name,
                            const char *text) {
  char message[kMaxMessageBytes];
  std::snprintf(message, sizeof(message), "%s: %s", op_name, text);
  return ReportFailure(context, code, message);
}

}  // namespace mindspore_relay
