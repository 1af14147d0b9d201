// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What the calls of one input of the fuzzer share.
#ifndef MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_CALLS_H_
#define MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_CALLS_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz_arguments.h"
#include "mindspore_relay/mindspore_relay.h"

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
                   MsRelayLastError());                                                   \
      std::abort();                                                                       \
    }                                                                                     \
  } while (0)

namespace mindspore_relay::testing {

// Handles that live through all calls of one input.
struct Handles {
  MsRelayContext *context = nullptr;
  MsRelayOperation *op = nullptr;
  ~Handles() {
    MsRelayDestroyOperation(op);
    MsRelayDestroyContext(context);
  }
};

// A status of the enum, and after a failure a text. A defect of the library is none.
void CheckStatus(MsRelayStatus status, bool may_lack_memory);

// From now on allocations of more than a few MiB fail, and so does the one with this number, unless
// it is negative.
void MakeMemoryShort(int64_t allocations_left);
void MakeMemoryPlenty();

// One call of an operator, both phases.
void FuzzRelayAttention(Reader *reader, Handles *handles);
void FuzzPrefixEncoder(Reader *reader, Handles *handles);

}  // namespace mindspore_relay::testing

#endif  // MINDSPORE_RELAY_TESTS_CPP_FUZZ_FUZZ_CALLS_H_
