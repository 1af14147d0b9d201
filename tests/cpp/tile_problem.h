// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Problems for the tile kernels, their float64 answer, and a runner that attends them with any
// table.
#ifndef MINDSPORE_RELAY_TESTS_CPP_TILE_PROBLEM_H_
#define MINDSPORE_RELAY_TESTS_CPP_TILE_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu/tile_kernels.h"

namespace mindspore_relay::testing {

// The kernels of one dtype of one table, under a name for test output.
struct KernelsUnderTest {
  std::string isa;  // of the table; "avx512_widened" and "amx_emulated" exist in tests only
  DType dtype;
  const DTypeKernels *kernels;

  // AMX multiplies float16 as high + low without low . low (see tile_kernels_amx.cc): up to 2^-16
  // of a product is missing, and an infinity may become NaN.
  bool SplitsFloat16() const { return dtype == DType::kFloat16 && isa.rfind("amx", 0) == 0; }
};

// Everything that can run on this machine, portable included.
std::vector<KernelsUnderTest> AllKernels();

// Values of any dtype are kept as float here, after rounding to the dtype.
float RoundToDType(DType dtype, float x);
void EncodeElement(DType dtype, float x, void *out);
float DecodeElement(DType dtype, const void *in);

struct TileProblem {
  std::string name;
  DType dtype = DType::kFloat32;
  int32_t num_rows = 1;
  int32_t num_keys = 64;  // in all; more than kKeyTile: several tiles
  int32_t head_size = 64;
  int32_t value_head_size = 64;
  float qk_scale = 0.125f;
  BiasKind bias = BiasKind::kNone;
  float distance_step = 1.0f;
  bool is_causal = false;         // row r sees keys 0 .. num_keys - num_rows + r, if any
  std::vector<float> query;       // [num_rows][head_size]
  std::vector<float> key;         // [num_keys][head_size]
  std::vector<float> value;       // [num_keys][value_head_size]
  std::vector<float> slope;       // [num_rows]
  std::vector<float> bias_table;  // [num_rows][num_keys], rounded to dtype

  // Keys of the whole problem that the row sees.
  int32_t NumVisible(int32_t row) const;
  double Bias(int32_t row, int32_t key_index) const;
};

// Fills the data with normally distributed numbers, rounded to the dtype.
void FillRandom(uint32_t seed, TileProblem *problem);

// Where the bytes of keys, values, queries and biases lie. Bits must not depend on it.
enum class Placement {
  kContiguous,  // rows one after the other
  kScattered,   // rows in reverse order, with gaps, aligned to one element only
  kGuarded,     // every row ends where a page without access begins
  kPacked,      // keys and values packed ahead out of guarded rows, and guarded themselves; only of
                // kernels with pack_tile
};

struct TileResult {
  std::vector<float> acc;  // [num_rows][value_head_size]
  std::vector<float> row_max;
  std::vector<float> row_sum;
};

// Attends the rows `rows` of the problem, in this order, all keys, keys_per_call at a time (whole
// tiles).
TileResult RunTiles(const DTypeKernels &kernels, const TileProblem &problem,
                    const std::vector<int32_t> &rows, Placement placement,
                    int32_t keys_per_call = kKeyTile);
TileResult RunTiles(const DTypeKernels &kernels, const TileProblem &problem);

struct Answer {
  std::vector<double> output;         // [num_rows][value_head_size]
  std::vector<double> lse;            // [num_rows]
  std::vector<double> largest_score;  // [num_rows]: largest |qk_scale| sum(|query key|)
  // [num_rows]: what one float32 rounding in the sum behind a score can do to an output:
  // 2^-24 x largest_score x largest sum(p |value|) / sum(p).
  std::vector<double> score_rounding;
};

// Float64, without tiles.
Answer ComputeAnswer(const TileProblem &problem);

// The plain formula in the dtype: float32 sums, probabilities and output rounded to the dtype. Its
// error is the measure.
Answer ComputePlainInDType(const TileProblem &problem);

// acc / row_sum, through the table's store_row.
std::vector<double> FinishOutput(const DTypeKernels &kernels, const TileProblem &problem,
                                 const TileResult &result);

}  // namespace mindspore_relay::testing

#endif  // MINDSPORE_RELAY_TESTS_CPP_TILE_PROBLEM_H_
