// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "test_support.h"

#include <cstdio>
#include <exception>
#include <random>

namespace emulation_test {

namespace {

struct Test {
  const char *name;
  void (*body)();
};

std::vector<Test> &Tests() {
  static std::vector<Test> tests;
  return tests;
}

bool has_failed = false;

}  // namespace

void RegisterTest(const char *name, void (*body)()) { Tests().push_back({name, body}); }

void Fail(const char *file, int line, const std::string &text) {
  has_failed = true;
  std::printf("  %s:%d: %s\n", file, line, text.c_str());
}

void CheckFault(const char *file, int line, const ascendc_emulation::Report &report,
                const std::string &rule, const std::string &text) {
  if (report.rule == rule && report.complaint.find(text) != std::string::npos) return;
  Fail(file, line,
       "expected rule '" + rule + "' with text '" + text + "', got '" +
           (report.ok() ? "no complaint" : report.complaint) + "'");
}

ascendc_emulation::Report RunVector(ascendc_emulation::Device *device,
                                    const std::function<void()> &body) {
  return device->Launch(ascendc_emulation::Kernel{[] {},
                                                  [&body] {
                                                    if (AscendC::GetBlockIdx() == 0) body();
                                                  }});
}

ascendc_emulation::Report RunCube(ascendc_emulation::Device *device,
                                  const std::function<void()> &body) {
  return device->Launch(ascendc_emulation::Kernel{[&body] { body(); }, [] {}});
}

std::vector<float> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float &value : values) {
    value = static_cast<float>(random() >> 8) * (2.0f / 16777216.0f) - 1.0f;
  }
  return values;
}

}  // namespace emulation_test

int main() {
  int num_passed = 0;
  int num_failed = 0;
  for (const emulation_test::Test &test : emulation_test::Tests()) {
    emulation_test::has_failed = false;
    try {
      test.body();
    } catch (const std::exception &error) {
      emulation_test::Fail(test.name, 0, error.what());
    }
    ++(emulation_test::has_failed ? num_failed : num_passed);
    if (emulation_test::has_failed) std::printf("FAILED %s\n", test.name);
  }
  std::printf("%d passed, %d failed\n", num_passed, num_failed);
  return num_failed == 0 ? 0 : 1;
}
