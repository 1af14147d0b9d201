// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A small test main: EMULATION_TEST(Name) { CHECK(...); } in any file, one program per file.
#ifndef ASCENDC_EMULATION_TESTS_TEST_SUPPORT_H_
#define ASCENDC_EMULATION_TESTS_TEST_SUPPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ascendc_emulation/device.h"
#include "kernel_operator.h"

namespace emulation_test {

void RegisterTest(const char *name, void (*body)());
void Fail(const char *file, int line, const std::string &text);

struct Registration {
  Registration(const char *name, void (*body)()) { RegisterTest(name, body); }
};

#define EMULATION_TEST(Name)                                                     \
  static void Name();                                                            \
  static const emulation_test::Registration registration_of_##Name(#Name, Name); \
  static void Name()

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) emulation_test::Fail(__FILE__, __LINE__, #condition); \
  } while (false)

// The launch broke no rule.
#define CHECK_CLEAN(report)                                                         \
  do {                                                                              \
    const ascendc_emulation::Report &checked = (report);                            \
    if (!checked.ok()) emulation_test::Fail(__FILE__, __LINE__, checked.complaint); \
  } while (false)

// The launch broke this rule and the message contains the text.
#define CHECK_FAULT(report, rule_name, text) \
  emulation_test::CheckFault(__FILE__, __LINE__, (report), (rule_name), (text))

void CheckFault(const char *file, int line, const ascendc_emulation::Report &report,
                const std::string &rule, const std::string &text);

// Runs body on vector core 0 of a one-core device, the other cores do nothing.
ascendc_emulation::Report RunVector(ascendc_emulation::Device *device,
                                    const std::function<void()> &body);
// Runs body on the cube core of a one-core device, the vector cores do nothing.
ascendc_emulation::Report RunCube(ascendc_emulation::Device *device,
                                  const std::function<void()> &body);

// Reproducible values: uniform in [-1, 1).
std::vector<float> RandomFloats(size_t count, uint32_t seed);

template <typename T>
AscendC::GlobalTensor<T> Global(const std::vector<T> &values) {
  AscendC::GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(const_cast<T *>(values.data()), values.size());
  return tensor;
}

}  // namespace emulation_test

#endif  // ASCENDC_EMULATION_TESTS_TEST_SUPPORT_H_
