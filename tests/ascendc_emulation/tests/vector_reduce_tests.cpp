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

// Two rows of 64: the bits of the first repeat select in both (mode 0), or each has its own (mode
// 2).
EMULATION_TEST(CompareAndSelectByRepeats) {
  static constexpr int kRows = 2;
  const auto a = RandomFloats(kRows * 64, 18);
  const auto b = RandomFloats(kRows * 64, 19);
  for (const SELMODE mode : {SELMODE::VSEL_CMPMASK_SPR, SELMODE::VSEL_TENSOR_TENSOR_MODE}) {
    UbRun<float, float> run(a, b, kRows * 64);
    const auto selected = run.Run(
        [mode](auto r, auto x, auto y, auto bits) {
          auto mask = bits.template ReinterpretCast<uint8_t>();
          const BinaryRepeatParams params(1, 1, 1, 8, 8, 8);
          Compare(mask, x, y, CMPMODE::GT, uint64_t{64}, kRows, params);
          PipeBarrier<PIPE_V>();
          Select(r, mask, x, y, mode, uint64_t{48}, kRows, params);
        },
        5.0f);
    for (int i = 0; i < kRows * 64; ++i) {
      const int deciding = mode == SELMODE::VSEL_CMPMASK_SPR ? i % 64 : i;
      const float expected = i % 64 >= 48 ? 5.0f : a[deciding] > b[deciding] ? a[i] : b[i];
      CHECK(selected[i] == expected);
    }
  }
}

EMULATION_TEST(ReductionsWithBitMasks) {
  static constexpr uint64_t kOdd[2] = {0xaaaaaaaaaaaaaaaaull, 0};
  const auto a = RandomFloats(2 * 64, 20);
  UbRun<float, float> sum_run(a, {}, 2);
  const auto sums =
      sum_run.Run([](auto r, auto x, auto, auto) { WholeReduceSum(r, x, kOdd, 2, 1, 1, 8); });
  UbRun<float, float> min_run(a, {}, 2);
  const auto minima = min_run.Run([](auto r, auto x, auto, auto) {
    WholeReduceMin(r, x, kOdd, 2, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  });
  UbRun<float, float> block_run(a, {}, 16);
  const auto blocks =
      block_run.Run([](auto r, auto x, auto, auto) { BlockReduceSum(r, x, 2, kOdd, 1, 1, 8); });
  UbRun<float, float> index_run(a, {}, 2);
  const auto indices = index_run.Run([](auto r, auto x, auto, auto) {
    WholeReduceMin(r, x, 64, 2, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);
  });
  for (int row = 0; row < 2; ++row) {
    double sum = 0.0;
    float min_odd = a[row * 64 + 1];
    uint32_t min_index = 0;
    for (int i = 0; i < 64; ++i) {
      const float value = a[row * 64 + i];
      if (value < a[row * 64 + min_index]) min_index = static_cast<uint32_t>(i);
      if (i % 2 == 0) continue;
      sum += value;
      min_odd = std::fmin(min_odd, value);
    }
    uint32_t stored_index;
    std::memcpy(&stored_index, &indices[row], sizeof(stored_index));
    CHECK(std::fabs(sums[row] - sum) < 1e-5);
    CHECK(minima[row] == min_odd);
    CHECK(stored_index == min_index);
    for (int block = 0; block < 8; ++block) {
      double block_sum = 0.0;
      for (int i = 1; i < 8; i += 2) block_sum += a[row * 64 + block * 8 + i];
      CHECK(std::fabs(blocks[row * 8 + block] - block_sum) < 1e-6);
    }
  }
}

// Sums of half round at every step of the tree.
EMULATION_TEST(HalfReductionStaysHalf) {
  std::vector<half> a(128, half(0.0f));
  a[0] = half(2048.0f);
  a[1] = half(1.0f);  // 2049 is no half: the tie goes to 2048
  a[2] = a[3] = half(1.0f);
  UbRun<half, half> run(a, {}, 16);
  const auto sums =
      run.Run([](auto r, auto x, auto, auto) { WholeReduceSum(r, x, 128, 1, 1, 1, 8); });
  CHECK(float(sums[0]) == 2050.0f);
}
