// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "common/status.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace mindspore_relay {
namespace {

std::string FormatMessage(const char *format, va_list args) {
  char text[kMaxMessageBytes];
  std::vsnprintf(text, sizeof(text), format, args);
  return text;
}

}  // namespace

Status::Status(StatusCode code, std::string message)
    : error_(std::make_shared<const Error>(Error{code, std::move(message)})) {}

const std::string &Status::message() const {
  static const auto &empty = *new std::string();  // never destroyed: threads may outlive exit()
  return ok() ? empty : error_->message;
}

#define MS_RELAY_DEFINE_STATUS(Name, kCode)               \
  Status Name(const char *format, ...) {                  \
    va_list args;                                         \
    va_start(args, format);                               \
    std::string message = FormatMessage(format, args);    \
    va_end(args);                                         \
    return Status(StatusCode::kCode, std::move(message)); \
  }

MS_RELAY_DEFINE_STATUS(InvalidArgument, kInvalidArgument)
MS_RELAY_DEFINE_STATUS(Unsupported, kUnsupported)
MS_RELAY_DEFINE_STATUS(OutOfMemory, kOutOfMemory)
MS_RELAY_DEFINE_STATUS(InterruptedRun, kInterrupted)

#undef MS_RELAY_DEFINE_STATUS

}  // namespace mindspore_relay
