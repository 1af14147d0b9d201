// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What failed last, per thread and per context, and the guard at the C edge. Nothing here
// allocates, so that the lack of memory can be told too.
#ifndef MINDSPORE_RELAY_API_LAST_ERROR_H_
#define MINDSPORE_RELAY_API_LAST_ERROR_H_

#include <cstdint>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "common/status.h"
#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay {

// A context's last error. Any number of threads may report and read at once.
class ErrorText {
 public:
  void Set(const char *text);

  // Copies the text, cut to text_bytes - 1, and ends it with 0. text may be nullptr when text_bytes
  // is 0. Returns the length of the whole text.
  uint64_t Get(char *text, uint64_t text_bytes) const;

 private:
  mutable std::mutex mutex_;
  char text_[kMaxMessageBytes] = "";
};

// Text of the calling thread's last failure; valid until its next one.
const char *ThreadErrorText();

// Keeps the text for the thread and, unless it is nullptr, for the context. Returns `code`.
MsRelayStatus ReportFailure(MsRelayContext *context, StatusCode code, const char *text);

// The same with the text "op_name: text".
MsRelayStatus ReportFailure(MsRelayContext *context, StatusCode code, const char *op_name,
                            const char *text);

// Runs fn, which returns a Status, with nothing thrown across the C edge. op_name: for messages.
template <typename Fn>
MsRelayStatus Guard(const char *op_name, MsRelayContext *context, Fn &&fn) noexcept {
  StatusCode code = StatusCode::kInternal;
  const char *text = "unexpected exception";
  try {
    const Status status = std::forward<Fn>(fn)();
    if (status.ok()) return MS_RELAY_OK;
    return ReportFailure(context, status.code(), status.message().c_str());
  } catch (const std::bad_alloc &) {
    code = StatusCode::kOutOfMemory;
    text = "out of memory";
  } catch (const std::length_error &) {  // more elements than a vector can count
    code = StatusCode::kOutOfMemory;
    text = "out of memory";
  } catch (...) {
  }
  return ReportFailure(context, code, op_name, text);
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_API_LAST_ERROR_H_
