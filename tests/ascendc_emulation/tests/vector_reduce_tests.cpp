// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Reductions, comparison, selection and copies in UB against plain C++.

#include <cmath>
#include <cstring>
#include <limits>

#include "ub_run.h"

using namespace AscendC;
using namespace emulation_test;

EMULATION_TEST(WholeReduceFindsMaxSumAndIndex) {
  static constexpr int kRows = 16, kColumns = 64;
  auto a = RandomFloats(kRows * kColumns, 13);
  a[3 * kColumns + 7] = a[3 * kColumns + 30] = 5.0f;  // the first of two equal maxima wins
  UbRun<float, float> value_run(a, {}, kRows);
  const auto values = value_run.Run([](auto r, auto x, auto, auto) {
    WholeReduceMax(r, x, kColumns, kRows, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  });
  UbRun<float, float> pair_run(a, {}, 2 * kRows);
  const auto pairs = pair_run.Run(
      [](auto r, auto x, auto, auto) { WholeReduceMax(r, x, kColumns, kRows, 1, 1, 8); });
  UbRun<float, float> sum_run(a, {}, kRows);
  const auto sums =
      sum_run.Run([](auto r, auto x, auto, auto) { WholeReduceSum(r, x, 50, kRows, 1, 1, 8); });
  UbRun<float, float> min_run(a, {}, kRows);
  const auto minima = min_run.Run([](auto r, auto x, auto, auto) {
    ReduceRepeat<ReduceType::MIN>(r, x, kColumns, kRows, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  });
  for (int row = 0; row < kRows; ++row) {
    float max_value = a[row * kColumns], min_value = max_value;
    uint32_t max_index = 0;
    double sum = 0.0;
    for (int column = 0; column < kColumns; ++column) {
      const float value = a[row * kColumns + column];
      if (value > max_value) {
        max_value = value;
        max_index = static_cast<uint32_t>(column);
      }
      min_value = std::fmin(min_value, value);
      if (column < 50) sum += value;
    }
    uint32_t stored_index;
    std::memcpy(&stored_index, &pairs[2 * row + 1], sizeof(stored_index));
    CHECK(values[row] == max_value && pairs[2 * row] == max_value && minima[row] == min_value);
    CHECK(stored_index == max_index);
    CHECK(std::fabs(sums[row] - sum) < 1e-5);
  }
}

EMULATION_TEST(BlockReduceGivesEightResultsPerRepeat) {
  static constexpr int kRepeats = 6;
  const auto a = RandomFloats(kRepeats * 64, 14);
  UbRun<float, float> max_run(a, {}, kRepeats * 8);
  const auto maxima =
      max_run.Run([](auto r, auto x, auto, auto) { BlockReduceMax(r, x, kRepeats, 64, 1, 1, 8); });
  UbRun<float, float> sum_run(a, {}, kRepeats * 8);
  const auto sums = sum_run.Run([](auto r, auto x, auto, auto) {
    ReduceDataBlock<ReduceType::SUM>(r, x, 64, kRepeats, 1, 1, 8);
  });
  UbRun<float, float> masked_run(a, {}, 8);
  const auto masked = masked_run.Run(
      [](auto r, auto x, auto, auto) { BlockReduceMin(r, x, 1, 16, 1, 1, 8); }, 77.0f);
  for (int block = 0; block < kRepeats * 8; ++block) {
    float max_value = a[block * 8];
    double sum = 0.0;
    for (int i = 0; i < 8; ++i) {
      max_value = std::fmax(max_value, a[block * 8 + i]);
      sum += a[block * 8 + i];
    }
    CHECK(maxima[block] == max_value);
    CHECK(std::fabs(sums[block] - sum) < 1e-5);
  }
  for (int block = 2; block < 8; ++block) CHECK(masked[block] == 77.0f);
}

EMULATION_TEST(CompareAndSelect) {
  static constexpr uint32_t kCount = 128;
  const auto a = RandomFloats(kCount, 15);
  const auto b = RandomFloats(kCount, 16);
  const std::vector<std::pair<CMPMODE, std::function<bool(float, float)>>> modes = {
      {CMPMODE::LT, [](float x, float y) { return x < y; }},
      {CMPMODE::GT, [](float x, float y) { return x > y; }},
      {CMPMODE::EQ, [](float x, float y) { return x == y; }},
      {CMPMODE::LE, [](float x, float y) { return x <= y; }},
      {CMPMODE::GE, [](float x, float y) { return x >= y; }},
      {CMPMODE::NE, [](float x, float y) { return x != y; }}};
  for (const auto &[mode, holds] : modes) {
    const CMPMODE used = mode;
    UbRun<float, float> run(a, b, kCount);
    const auto selected = run.Run([used](auto r, auto x, auto y, auto bits) {
      auto mask = bits.template ReinterpretCast<uint8_t>();
      Compare(mask, x, y, used, kCount);
      PipeBarrier<PIPE_V>();
      Select(r, mask, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, kCount);
    });
    UbRun<float, float> scalar_run(a, {}, kCount);
    const auto scalar_selected = scalar_run.Run([used](auto r, auto x, auto, auto bits) {
      auto mask = bits.template ReinterpretCast<uint8_t>();
      CompareScalar(mask, x, 0.25f, used, kCount);
      PipeBarrier<PIPE_V>();
      Select(r, mask, x, -9.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, kCount);
    });
    for (uint32_t i = 0; i < kCount; ++i) {
      CHECK(selected[i] == (holds(a[i], b[i]) ? a[i] : b[i]));
      CHECK(scalar_selected[i] == (holds(a[i], 0.25f) ? a[i] : -9.0f));
    }
  }
}

EMULATION_TEST(CopyMovesMaskedRows) {
  const auto a = RandomFloats(4 * 64, 17);
  UbRun<float, float> run(a, {}, 4 * 64);
  const auto result = run.Run(
      [](auto r, auto x, auto, auto) { Copy(r, x, uint64_t{40}, 4, CopyRepeatParams(1, 1, 8, 8)); },
      0.0f);
  for (int i = 0; i < 256; ++i) CHECK(result[i] == (i % 64 < 40 ? a[i] : 0.0f));
}

EMULATION_TEST(NanReachesEveryResultThatSeesIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a(64, 1.0f);
  a[5] = nan;
  UbRun<float, float> max_run(a, std::vector<float>(64, 2.0f), 64);
  const auto maxima = max_run.Run([](auto r, auto x, auto y, auto) { Max(r, x, y, 64); });
  UbRun<float, float> reduce_run(a, {}, 8);
  const auto reduced = reduce_run.Run(
      [](auto r, auto x, auto, auto) {
        WholeReduceMax(r, x, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
      },
      0.0f);
  CHECK(std::isnan(maxima[5]) && maxima[4] == 2.0f);
  CHECK(std::isnan(reduced[0]));
}
