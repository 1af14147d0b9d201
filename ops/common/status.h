// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Result of a check or a run: a code for programs and a sentence for people.
#ifndef MINDSPORE_RELAY_COMMON_STATUS_H_
#define MINDSPORE_RELAY_COMMON_STATUS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace mindspore_relay {

// Longest message with its final 0. Messages hold a few names and numbers; a longer one is cut,
// never overrun.
constexpr int kMaxMessageBytes = 1024;

// Values equal MsRelayStatus of the public header (checked by static_assert in ops/api).
enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kUnsupported = 2,
  kOutOfMemory = 3,
  kInternal = 4,
  kInterrupted = 5,
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok; allocates nothing
  Status(StatusCode code, std::string message);

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : error_->code; }
  const std::string &message() const;

 private:
  struct Error {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

inline Status OkStatus() { return Status(); }

// printf-like. The message names operator, argument, rule and value.
[[gnu::format(printf, 1, 2)]] Status InvalidArgument(const char *format, ...);
[[gnu::format(printf, 1, 2)]] Status Unsupported(const char *format, ...);
[[gnu::format(printf, 1, 2)]] Status OutOfMemory(const char *format, ...);
[[gnu::format(printf, 1, 2)]] Status InterruptedRun(const char *format, ...);

#define MS_RELAY_RETURN_IF_ERROR(expression)          \
  do {                                                \
    ::mindspore_relay::Status status_ = (expression); \
    if (!status_.ok()) return status_;                \
  } while (false)

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_COMMON_STATUS_H_
