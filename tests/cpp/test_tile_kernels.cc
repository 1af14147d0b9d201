// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Every tile-kernel table that this machine can run, against float64 and against its own promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/half.h"
#include "cpu/tile_kernels.h"
#include "tile_problem.h"

namespace mindspore_relay::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class TileKernelsTest : public ::testing::TestWithParam<KernelsUnderTest> {
 protected:
  const DTypeKernels &kernels() const { return *GetParam().kernels; }
  DType dtype() const { return GetParam().dtype; }

  // Half a unit in the last place of 1.0.
  double Epsilon() const {
    return dtype() == DType::kFloat32   ? std::ldexp(1.0, -24)
           : dtype() == DType::kFloat16 ? std::ldexp(1.0, -11)
                                        : std::ldexp(1.0, -8);
  }

  TileProblem Problem(const std::string &name, int32_t num_rows, int32_t num_keys,
                      int32_t head_size, int32_t value_head_size) const {
    TileProblem problem;
    problem.name = name;
    problem.dtype = dtype();
    problem.num_rows = num_rows;
    problem.num_keys = num_keys;
    problem.head_size = head_size;
    problem.value_head_size = value_head_size;
    problem.qk_scale = 1.0f / std::sqrt(static_cast<float>(head_size));
    FillRandom(1234u + num_rows * 7u + num_keys, &problem);
    return problem;
  }

  // Per row: error at most twice that of the plain formula in the dtype, plus one rounding of the
  // largest output and one in the largest score's float32 sum: where the plain formula was lucky,
  // these are what may differ.
  void ExpectAccurate(const TileProblem &problem, const TileResult &result) const {
    const Answer answer = ComputeAnswer(problem);
    const Answer plain = ComputePlainInDType(problem);
    const std::vector<double> output = FinishOutput(kernels(), problem, result);
    for (int32_t r = 0; r < problem.num_rows; ++r) {
      double error = 0.0, plain_error = 0.0, largest = 0.0;
      for (int32_t d = 0; d < problem.value_head_size; ++d) {
        const int64_t i = int64_t{r} * problem.value_head_size + d;
        ASSERT_TRUE(std::isfinite(output[i])) << problem.name << ": row " << r << ", column " << d;
        error = std::max(error, std::abs(output[i] - answer.output[i]));
        plain_error = std::max(plain_error, std::abs(plain.output[i] - answer.output[i]));
        largest = std::max(largest, std::abs(answer.output[i]));
      }
      const double roundings = largest * Epsilon() + answer.score_rounding[r];
      ASSERT_LE(error, 2.0 * plain_error + roundings) << problem.name << ": row " << r;
      ExpectLse(problem, r, result, answer);
    }
  }

  // Float32 sums of scores: the error grows with the size of the scores, not of the sum.
  void ExpectLse(const TileProblem &problem, int32_t row, const TileResult &result,
                 const Answer &answer) const {
    const double lse = answer.lse[row];
    const double got = result.row_max[row] + std::log(static_cast<double>(result.row_sum[row]));
    if (lse == -kInfinity) {
      ASSERT_EQ(got, -kInfinity) << problem.name << ": row " << row;
      return;
    }
    const double missing =
        GetParam().SplitsFloat16() ? std::ldexp(answer.largest_score[row], -16) : 0.0;
    const double tolerance = 4e-6 * std::max(1.0, std::abs(lse)) + missing;
    ASSERT_NEAR(got, lse, tolerance) << problem.name << ": row " << row;
  }
};

void ExpectSameBits(const TileProblem &problem, const TileResult &all,
                    const std::vector<int32_t> &rows, const TileResult &some) {
  const int32_t size = problem.value_head_size;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t r = rows[i];
    ASSERT_EQ(FloatBits(all.row_max[r]), FloatBits(some.row_max[i]))
        << problem.name << " row " << r;
    ASSERT_EQ(FloatBits(all.row_sum[r]), FloatBits(some.row_sum[i]))
        << problem.name << " row " << r;
    ASSERT_EQ(0,
              std::memcmp(&all.acc[int64_t{r} * size], &some.acc[i * size], size * sizeof(float)))
        << problem.name << " row " << r;
  }
}

TEST_P(TileKernelsTest, NumbersOfRowsAndKeys) {
  for (int32_t num_rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17, 24, 25, 33, 50}) {
    for (int32_t num_keys : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 130}) {
      const TileProblem problem =
          Problem(std::to_string(num_rows) + " rows, " + std::to_string(num_keys) + " keys",
                  num_rows, num_keys, 40, 24);
      ExpectAccurate(problem, RunTiles(kernels(), problem));
    }
  }
}

TEST_P(TileKernelsTest, HeadSizes) {
  const std::vector<std::pair<int32_t, int32_t>> sizes = {
      {8, 8},     {8, 200},   {16, 64},  {24, 24},   {32, 56},  {56, 32},   {64, 64},
      {72, 72},   {80, 80},   {96, 128}, {112, 96},  {120, 16}, {128, 128}, {136, 264},
      {192, 128}, {256, 256}, {328, 8},  {576, 512}, {576, 576}};
  for (const auto &[head_size, value_head_size] : sizes) {
    for (int32_t num_rows : {1, 4, 9}) {
      const TileProblem problem =
          Problem("head sizes " + std::to_string(head_size) + "/" + std::to_string(value_head_size),
                  num_rows, 100, head_size, value_head_size);
      ExpectAccurate(problem, RunTiles(kernels(), problem));
    }
  }
}

TEST_P(TileKernelsTest, MasksAndBiases) {
  for (BiasKind bias : {BiasKind::kNone, BiasKind::kLinear, BiasKind::kSqrt, BiasKind::kTable}) {
    for (float step : {1.0f, -1.0f}) {
      for (bool is_causal : {false, true}) {
        for (int32_t num_rows : {1, 5, 30, 70}) {
          TileProblem problem = Problem(
              "bias " + std::to_string(static_cast<int>(bias)) + " step " + std::to_string(step) +
                  (is_causal ? " causal " : " full ") + std::to_string(num_rows),
              num_rows, 67, 48, 72);
          problem.bias = bias;
          problem.distance_step = step;
          problem.is_causal = is_causal;
          ExpectAccurate(problem, RunTiles(kernels(), problem));
        }
      }
    }
  }
}

TEST_P(TileKernelsTest, SeveralTilesInOneCallGiveTheBitsOfACallForEach) {
  for (BiasKind bias : {BiasKind::kNone, BiasKind::kLinear, BiasKind::kTable}) {
    for (bool is_causal : {false, true}) {
      for (int32_t num_keys : {65, 130, 256, 300}) {
        for (int32_t num_rows : {3, 33, 70}) {
          TileProblem problem =
              Problem("tiles " + std::to_string(num_keys) + " rows " + std::to_string(num_rows),
                      num_rows, num_keys, 72, 40);
          problem.bias = bias;
          problem.is_causal = is_causal;
          std::vector<int32_t> rows(num_rows);
          for (int32_t r = 0; r < num_rows; ++r) rows[r] = r;
          for (Placement placement :
               {Placement::kContiguous, Placement::kGuarded, Placement::kPacked}) {
            if (placement == Placement::kPacked && kernels().pack_tile == nullptr) continue;
            ExpectSameBits(problem, RunTiles(kernels(), problem), rows,
                           RunTiles(kernels(), problem, rows, placement, kernels().max_keys));
          }
        }
      }
    }
  }
}

TEST_P(TileKernelsTest, RowsAreIndependent) {
  for (BiasKind bias : {BiasKind::kNone, BiasKind::kLinear, BiasKind::kTable}) {
    for (int32_t head_size : {24, 128}) {
      TileProblem problem = Problem("rows, head_size " + std::to_string(head_size), 61, 150,
                                    head_size, head_size + 8);
      problem.bias = bias;
      problem.is_causal = true;
      const TileResult all = RunTiles(kernels(), problem);
      std::vector<int32_t> rows(problem.num_rows);
      for (int32_t r = 0; r < problem.num_rows; ++r) rows[r] = r;
      std::mt19937 engine(5);
      for (int32_t num_rows : {1, 2, 3, 4, 5, 6, 7, 12, 16, 17, 24, 25, 32, 61}) {
        std::shuffle(rows.begin(), rows.end(), engine);
        const std::vector<int32_t> some(rows.begin(), rows.begin() + num_rows);
        ExpectSameBits(problem, all, some,
                       RunTiles(kernels(), problem, some, Placement::kContiguous));
      }
    }
  }
}

TEST_P(TileKernelsTest, BitsDoNotDependOnPlacementAndNothingElseIsRead) {
  for (const auto &[head_size, num_keys] :
       std::vector<std::pair<int32_t, int32_t>>{{8, 1}, {40, 67}, {72, 17}, {128, 64}, {576, 33}}) {
    for (int32_t num_rows : {1, 3, 40}) {
      TileProblem problem = Problem("placement, head_size " + std::to_string(head_size), num_rows,
                                    num_keys, head_size, head_size);
      problem.bias = BiasKind::kTable;
      problem.is_causal = true;
      std::vector<int32_t> rows(num_rows);
      for (int32_t r = 0; r < num_rows; ++r) rows[r] = r;
      const TileResult plain = RunTiles(kernels(), problem);
      for (Placement placement : {Placement::kScattered, Placement::kGuarded, Placement::kPacked}) {
        if (placement == Placement::kPacked && kernels().pack_tile == nullptr) continue;
        ExpectSameBits(problem, plain, rows, RunTiles(kernels(), problem, rows, placement));
      }
    }
  }
}

double RelativeL2(const std::vector<double> &output, const std::vector<double> &exact) {
  double error = 0.0, norm = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (output[i] - exact[i]) * (output[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

// The limits of the project, relative L2 against float64: those of the most accurate other
// implementations.
TEST_P(TileKernelsTest, RelativeErrorOverManyKeys) {
  for (int32_t head_size : {64, 128}) {
    const TileProblem problem = Problem("many keys", 32, 2048, head_size, head_size);
    const std::vector<double> exact = ComputeAnswer(problem).output;
    const double error =
        RelativeL2(FinishOutput(kernels(), problem, RunTiles(kernels(), problem)), exact);
    const double plain = RelativeL2(ComputePlainInDType(problem).output, exact);
    const double limit = dtype() == DType::kFloat32   ? plain
                         : dtype() == DType::kFloat16 ? 2.2e-4
                                                      : 2.4e-3;
    std::printf("%s: relative L2 %.3e, plain formula %.3e\n", GetParam().isa.c_str(), error, plain);
    EXPECT_LE(error, limit) << "head_size " << head_size;
  }
}

// exp is read off through the rescaling of old sums: a score of 0 after an old maximum of x turns
// acc 1 into exp(x).
TEST_P(TileKernelsTest, ExpIsAccurateInItsWholeRange) {
  constexpr int32_t kNumRows = 240;
  constexpr int32_t kSteps = 400;
  TileProblem problem = Problem("exp", kNumRows, 1, 16, 16);
  std::fill(problem.query.begin(), problem.query.end(), 0.0f);
  std::vector<const void *> query_rows;
  const std::vector<char> zeros(16 * sizeof(float));
  for (int32_t r = 0; r < kNumRows; ++r) query_rows.push_back(zeros.data());
  const void *zero_row = zeros.data();
  std::vector<char> storage(kernels().packed_query_bytes(kNumRows, 16) +
                            kernels().scratch_bytes(16, 16) + 64 * kNumRows + 256);
  char *aligned = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  char *scratch = aligned + kernels().packed_query_bytes(kNumRows, 16);
  float *acc = reinterpret_cast<float *>(scratch + kernels().scratch_bytes(16, 16));
  kernels().pack_query(query_rows.data(), kNumRows, 16, aligned);

  double worst = 0.0;
  for (int32_t step = 0; step < kSteps; ++step) {
    std::vector<float> row_max(kNumRows), row_sum(kNumRows, 1.0f), x(kNumRows);
    for (int32_t r = 0; r < kNumRows; ++r) {
      const double t = (step * kNumRows + r) / double(kSteps * kNumRows);
      x[r] = row_max[r] = r % 2 == 0 ? static_cast<float>(-87.0 * t)
                                     : static_cast<float>(-std::exp(-20.0 + 24.4 * t));
    }
    std::fill(acc, acc + 16 * kNumRows, 1.0f);
    AttendArgs args = {};
    args.query = aligned;
    args.num_rows = kNumRows;
    args.head_size = args.value_head_size = 16;
    args.qk_scale = 1.0f;
    args.tile = {&zero_row, &zero_row, 0, 0, 0, 0, 1};
    args.state = {acc, row_max.data(), row_sum.data(), 16};
    args.scratch = scratch;
    kernels().attend(args);
    for (int32_t r = 0; r < kNumRows; ++r) {
      const double exact = std::exp(double{x[r]});
      if (x[r] >= -87.0f)
        worst = std::max(worst, std::abs(acc[16 * r] - exact) / exact);
      else
        ASSERT_LE(acc[16 * r], 2e-38f) << "exp(" << x[r] << ")";
    }
  }
  std::printf("%s: largest relative error of exp %.2e\n", GetParam().isa.c_str(), worst);
  EXPECT_LE(worst, 2.5e-7);
}

// The exp of probabilities, read off through sums of two of them: a score of 0 and one of x. 2^f of
// every f comes up.
TEST_P(TileKernelsTest, ProbabilitiesAreAccurate) {
  constexpr int32_t kNumRows = 2000;
  TileProblem problem = Problem("probabilities", kNumRows, 2, 8, 8);
  std::fill(problem.query.begin(), problem.query.end(), 0.0f);
  problem.bias = BiasKind::kTable;
  for (int32_t r = 0; r < kNumRows; ++r) {
    problem.bias_table[2 * r] = 0.0f;
    problem.bias_table[2 * r + 1] = RoundToDType(dtype(), -1.5f * float(r) / kNumRows);
  }
  const TileResult result = RunTiles(kernels(), problem);
  double worst = 0.0;
  for (int32_t r = 0; r < kNumRows; ++r) {
    const double exact = std::exp(double{problem.bias_table[2 * r + 1]});
    worst = std::max(worst, std::abs(double{result.row_sum[r]} - 1.0 - exact) / exact);
  }
  std::printf("%s: largest relative error of probabilities %.2e\n", GetParam().isa.c_str(), worst);
  // The sum itself is rounded: by up to 2^-24 of 2, for a probability of 0.22 and more.
  const double rounding = std::ldexp(1.0, -23) / 0.22;
  EXPECT_LE(worst, (dtype() == DType::kFloat32 ? 1.5e-7 : 2.5e-7) + rounding);
}

TEST_P(TileKernelsTest, ScoresOfMinusInfinityAreNoKeys) {
  TileProblem problem = Problem("-inf", 7, 80, 16, 24);
  problem.bias = BiasKind::kTable;
  for (int32_t r = 0; r < problem.num_rows; ++r) {
    for (int32_t c = 0; c < problem.num_keys; ++c) {
      // Row 0: no key at all. Row 1: none in the first tile. Others: every third.
      const bool hide = r == 0 || (r == 1 && c < 64) || (r > 1 && c % 3 == 0);
      if (hide) problem.bias_table[r * problem.num_keys + c] = -kInfinity;
    }
  }
  const TileResult result = RunTiles(kernels(), problem);
  ExpectAccurate(problem, result);
  EXPECT_EQ(result.row_sum[0], 0.0f);
  EXPECT_EQ(result.row_max[0], -kInfinity);
}

TEST_P(TileKernelsTest, RowsThatSeeNoKeyKeepTheirState) {
  TileProblem problem = Problem("more rows than keys", 40, 10, 32, 32);
  problem.is_causal = true;
  const TileResult result = RunTiles(kernels(), problem);
  for (int32_t r = 0; r < 30; ++r) {
    EXPECT_EQ(result.row_sum[r], 0.0f);
    EXPECT_EQ(result.row_max[r], -kInfinity);
    for (int32_t d = 0; d < 32; ++d) EXPECT_EQ(result.acc[r * 32 + d], 0.0f);
  }
  ExpectAccurate(problem, result);
}

TEST_P(TileKernelsTest, NaNInAVisibleValueStaysInItsColumn) {
  for (float special : {kNaN, kInfinity, -kInfinity}) {
    for (int32_t num_rows : {1, 9, 40}) {
      TileProblem problem = Problem("special value", num_rows, 70, 32, 40);
      problem.value[66 * 40 + 17] = special;
      const TileResult result = RunTiles(kernels(), problem);
      for (int32_t r = 0; r < num_rows; ++r) {
        for (int32_t d = 0; d < 40; ++d) {
          const float got = result.acc[r * 40 + d];
          if (d != 17) {
            ASSERT_TRUE(std::isfinite(got)) << "row " << r << ", column " << d;
          } else if (std::isnan(special)) {
            ASSERT_TRUE(std::isnan(got)) << "row " << r;
          } else if (GetParam().SplitsFloat16()) {
            ASSERT_FALSE(std::isfinite(got)) << "row " << r;
          } else {
            ASSERT_EQ(got, special) << "row " << r;
          }
        }
      }
    }
  }
}

TEST_P(TileKernelsTest, NaNInAVisibleKeyMakesTheRowNaN) {
  for (int32_t bad_key : {0, 5, 63, 64}) {
    TileProblem problem = Problem("NaN key", 9, 70, 32, 40);
    problem.key[bad_key * 32 + 3] = kNaN;
    const TileResult result = RunTiles(kernels(), problem);
    for (float x : result.acc) ASSERT_TRUE(std::isnan(x)) << "key " << bad_key;
    for (float x : result.row_sum) ASSERT_TRUE(std::isnan(x)) << "key " << bad_key;
  }
}

TEST_P(TileKernelsTest, NaNInAQueryStaysInItsRow) {
  TileProblem problem = Problem("NaN query", 9, 70, 32, 40);
  problem.query[4 * 32 + 3] = kNaN;
  const TileResult result = RunTiles(kernels(), problem);
  for (int32_t r = 0; r < 9; ++r) {
    for (int32_t d = 0; d < 40; ++d) {
      ASSERT_EQ(std::isnan(result.acc[r * 40 + d]), r == 4) << "row " << r;
    }
  }
}

TEST_P(TileKernelsTest, AnyScaleOfScores) {
  for (float qk_scale : {0.0f, -0.3f, 1.0f, 1e-30f}) {
    TileProblem problem = Problem("qk_scale " + std::to_string(qk_scale), 9, 70, 16, 24);
    problem.qk_scale = qk_scale;
    problem.is_causal = true;
    ExpectAccurate(problem, RunTiles(kernels(), problem));
  }
}

TEST_P(TileKernelsTest, LargeAndEqualScores) {
  TileProblem problem = Problem("one score 1e4 above the rest", 5, 65, 32, 32);
  problem.bias = BiasKind::kTable;
  for (int32_t r = 0; r < 5; ++r) {
    for (int32_t c = 0; c < 65; ++c) problem.bias_table[r * 65 + c] = c == r * 16 ? 1e4f : 0.0f;
  }
  for (float &x : problem.bias_table) x = RoundToDType(dtype(), x);
  ExpectAccurate(problem, RunTiles(kernels(), problem));

  problem = Problem("all scores equal", 5, 65, 32, 32);
  std::fill(problem.query.begin(), problem.query.end(), 0.0f);
  ExpectAccurate(problem, RunTiles(kernels(), problem));

  problem = Problem("q.k near 60000", 5, 65, 32, 32);
  for (float &x : problem.query) x = RoundToDType(dtype(), x * 40.0f);
  for (float &x : problem.key) x = RoundToDType(dtype(), x * 40.0f);
  problem.qk_scale = 1e-3f;
  ExpectAccurate(problem, RunTiles(kernels(), problem));
}

TEST_P(TileKernelsTest, StoreAndLoadRow) {
  std::vector<float> in = {0.0f,       -0.0f,   1.0f,   1.00048828125f, 1.00390625f, 1.01171875f,
                           -2.5f,      65504.f, 65520., 7e4f,           1e38f,       3.4e38f,
                           6e-8f,      3e-8f,   2e-8f,  1e-45f,         6.1e-5f,     kInfinity,
                           -kInfinity, kNaN,    0.1f};
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  while (in.size() < 600) in.push_back(normal(engine) * std::exp(4.0f * normal(engine)));
  const int32_t bytes = DTypeBytes(dtype());
  for (int32_t count : {1, 7, 8, 15, 16, 21, 24, 600}) {
    std::vector<char> out((count + 1) * bytes, '\x5a');
    kernels().store_row(in.data(), 0.75f, count, out.data());
    std::vector<float> back(count + 1, -7.0f);
    kernels().load_row(out.data(), count, back.data());
    for (int32_t i = 0; i < count; ++i) {
      const float want = RoundToDType(dtype(), in[i] * 0.75f);
      const float got = DecodeElement(dtype(), out.data() + i * bytes);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got) && std::isnan(back[i])) << in[i];
      } else {
        ASSERT_EQ(FloatBits(got), FloatBits(want)) << in[i];
        ASSERT_EQ(FloatBits(back[i]), FloatBits(want)) << in[i];
      }
    }
    for (int32_t b = 0; b < bytes; ++b) ASSERT_EQ(out[count * bytes + b], '\x5a');
    ASSERT_EQ(back[count], -7.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TileKernelsTest, ::testing::ValuesIn(AllKernels()),
                         [](const ::testing::TestParamInfo<KernelsUnderTest> &info) {
                           return info.param.isa + "_" + DTypeName(info.param.dtype);
                         });

class FoldRowTest : public ::testing::TestWithParam<const char *> {};

TEST_P(FoldRowTest, AddsWeightedRowsAndKeepsNaN) {
  const TileKernels *table = FindTileKernels(GetParam());
  if (table == nullptr) GTEST_SKIP() << GetParam() << " cannot run on this machine";
  for (int32_t count : {1, 8, 16, 23, 128}) {
    std::vector<float> a(count + 1), b(count);
    for (int32_t i = 0; i < count; ++i) a[i] = 0.5f * i, b[i] = 3.0f - i;
    a[count] = -7.0f;
    table->fold_row(a.data(), 0.5f, b.data(), 0.25f, count);
    for (int32_t i = 0; i < count; ++i) ASSERT_EQ(a[i], 0.25f * i + 0.25f * (3.0f - i));
    ASSERT_EQ(a[count], -7.0f);

    // A part without keys is all zeros: the other one stays as it is, to the bit.
    const std::vector<float> kept(a);
    std::fill(b.begin(), b.end(), 0.0f);
    table->fold_row(a.data(), 1.0f, b.data(), 0.0f, count);
    ASSERT_EQ(a, kept);
    table->fold_row(b.data(), 0.0f, a.data(), 1.0f, count);
    for (int32_t i = 0; i < count; ++i) ASSERT_EQ(b[i], kept[i]);

    // The weight of a visible value may have become 0; its NaN stays.
    b[count / 2] = kNaN;
    table->fold_row(a.data(), 1.0f, b.data(), 0.0f, count);
    for (int32_t i = 0; i < count; ++i) ASSERT_EQ(std::isnan(a[i]), i == count / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FoldRowTest,
                         ::testing::Values("portable", "avx2", "avx512", "amx", "neon"),
                         [](const auto &info) { return std::string(info.param); });

TEST(SelectTileKernels, NamesAndForce) {
  const std::string available = AvailableIsaList();
  EXPECT_NE(available.find("portable"), std::string::npos);
  EXPECT_EQ(FindTileKernels("no_such_isa"), nullptr);
  EXPECT_FALSE(ForceTileKernels("no_such_isa"));
  ASSERT_TRUE(ForceTileKernels("portable"));
  const char *error = nullptr;
  ASSERT_NE(SelectTileKernels(&error), nullptr);
  EXPECT_STREQ(SelectTileKernels(&error)->isa, "portable");
  const std::string best = available.substr(0, available.find(','));
  ASSERT_TRUE(ForceTileKernels(best.c_str()));
  EXPECT_EQ(SelectTileKernels(&error)->isa, best);
}

}  // namespace
}  // namespace mindspore_relay::testing
