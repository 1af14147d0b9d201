// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "tile_problem.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>

#include "common/half.h"
#include "cpu/features.h"
#include "cpu/isa_tables.h"

#if defined(MINDSPORE_RELAY_TEST_AMX_EMULATED)
namespace mindspore_relay::amx_emulated {
extern const DTypeKernels kFloat16Kernels;
extern const DTypeKernels kBFloat16Kernels;
}  // namespace mindspore_relay::amx_emulated
#endif

namespace mindspore_relay::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
T Convert(float x) {
  T result;
  FromFloat(x, &result);
  return result;
}

// Rows of elements at a placement of choice. Keeps the memory.
class PlacedRows {
 public:
  PlacedRows(DType dtype, Placement placement)
      : dtype_(dtype),
        placement_(placement == Placement::kPacked ? Placement::kGuarded : placement) {}
  ~PlacedRows() {
    for (const Mapping &m : mappings_) munmap(m.begin, m.bytes);
  }
  PlacedRows(const PlacedRows &) = delete;

  // The distance between rows where it is the same for all, else 0.
  int64_t StrideBytes() const { return placement_ == Placement::kContiguous ? stride_ : 0; }

  std::vector<const void *> Place(const std::vector<const float *> &rows, int32_t num_elements) {
    const int64_t element_bytes = DTypeBytes(dtype_);
    const int64_t row_bytes = num_elements * element_bytes;
    const int64_t num_rows = static_cast<int64_t>(rows.size());
    std::vector<const void *> placed(rows.size());
    stride_ = placement_ == Placement::kScattered ? row_bytes + 5 * element_bytes : row_bytes;
    if (placement_ != Placement::kGuarded) storage_.resize(stride_ * num_rows + element_bytes);
    for (int64_t i = 0; i < num_rows; ++i) {
      char *out = placement_ == Placement::kGuarded ? MapBeforeGuard(row_bytes)
                  : placement_ == Placement::kScattered
                      ? storage_.data() + element_bytes + (num_rows - 1 - i) * stride_
                      : storage_.data() + i * stride_;
      for (int32_t e = 0; e < num_elements; ++e) {
        EncodeElement(dtype_, rows[i][e], out + e * element_bytes);
      }
      placed[i] = out;
    }
    return placed;
  }

  // A row of bytes, guarded.
  const char *PlaceBytes(const char *bytes, int64_t num_bytes) {
    char *out = MapBeforeGuard(num_bytes);
    std::memcpy(out, bytes, num_bytes);
    return out;
  }

 private:
  struct Mapping {
    char *begin;
    size_t bytes;
  };

  char *MapBeforeGuard(int64_t row_bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t data = (row_bytes + page) / page * page;
    void *p =
        mmap(nullptr, data + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("mmap failed");
    char *begin = static_cast<char *>(p);
    mappings_.push_back({begin, static_cast<size_t>(data + page)});
    if (mprotect(begin + data, page, PROT_NONE) != 0) throw std::runtime_error("mprotect failed");
    return begin + data - row_bytes;
  }

  const DType dtype_;
  const Placement placement_;
  int64_t stride_ = 0;
  std::vector<char> storage_;
  std::vector<Mapping> mappings_;
};

class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t bytes) : storage_(bytes + 64) {}
  char *data() {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - begin % 64) % 64;
  }

 private:
  std::vector<char> storage_;
};

std::vector<const float *> RowPointers(const std::vector<float> &data, int32_t row_elements,
                                       const std::vector<int32_t> &rows) {
  std::vector<const float *> pointers;
  for (int32_t row : rows) pointers.push_back(data.data() + int64_t{row} * row_elements);
  return pointers;
}

std::vector<int32_t> AllOf(int32_t count) {
  std::vector<int32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The mask of one tile for a choice of rows, and the memory behind it.
struct MaskData {
  MaskData(const TileProblem &problem, const std::vector<int32_t> &rows, int32_t first_key,
           int32_t num_keys, Placement placement) {
    for (int32_t row : rows) {
      visible.push_back(std::clamp(problem.NumVisible(row) - first_key, 0, num_keys));
      if (problem.bias == BiasKind::kLinear || problem.bias == BiasKind::kSqrt) {
        slope.push_back(problem.slope[row]);
        const float origin = problem.distance_step > 0.0f ? 0.0f : float(problem.num_keys + row);
        distance.push_back(origin + problem.distance_step * static_cast<float>(first_key));
      }
      if (problem.bias == BiasKind::kTable) {
        // Only the visible biases may be read: the guard page begins behind them.
        bias_rows.emplace_back(new PlacedRows(problem.dtype, placement));
        const float *bias = problem.bias_table.data() + int64_t{row} * problem.num_keys + first_key;
        bias_pointers.push_back(bias_rows.back()->Place({bias}, visible.back())[0]);
      }
    }
    mask.visible_keys = problem.is_causal ? visible.data() : nullptr;
    mask.bias = problem.bias;
    mask.distance_step = problem.distance_step;
    mask.slope = slope.data();
    mask.distance = distance.data();
    mask.bias_rows = bias_pointers.data();
  }

  std::vector<int32_t> visible;
  std::vector<float> slope;
  std::vector<float> distance;
  std::vector<std::unique_ptr<PlacedRows>> bias_rows;
  std::vector<const void *> bias_pointers;
  TileMask mask = {};
};

// All keys at once. Real: type of every product, sum and exp. round: to the type that probabilities
// and outputs have.
template <typename Real, typename Round>
Answer Solve(const TileProblem &problem, Round round) {
  Answer answer;
  for (int32_t r = 0; r < problem.num_rows; ++r) {
    const int32_t visible = problem.NumVisible(r);
    std::vector<Real> score(visible);
    Real max = -kInfinity;
    Real largest_score = 0;
    for (int32_t c = 0; c < visible; ++c) {
      Real dot = 0, absolute_dot = 0;
      for (int32_t d = 0; d < problem.head_size; ++d) {
        const Real product = Real{problem.query[int64_t{r} * problem.head_size + d]} *
                             Real{problem.key[int64_t{c} * problem.head_size + d]};
        dot += product;
        absolute_dot += std::abs(product);
      }
      score[c] = problem.qk_scale * dot + static_cast<Real>(problem.Bias(r, c));
      max = std::max(max, score[c]);
      largest_score = std::max(largest_score, std::abs(problem.qk_scale) * absolute_dot);
    }
    Real sum = 0;
    std::vector<Real> out(problem.value_head_size), absolute(problem.value_head_size);
    for (int32_t c = 0; c < visible && max != -kInfinity; ++c) {
      const Real p = std::exp(score[c] - max);
      sum += p;
      for (int32_t d = 0; d < problem.value_head_size; ++d) {
        const Real value = problem.value[int64_t{c} * problem.value_head_size + d];
        out[d] += round(p) * value;
        absolute[d] += p * std::abs(value);
      }
    }
    for (Real x : out) answer.output.push_back(sum > 0 ? round(x / sum) : 0);
    answer.largest_score.push_back(largest_score);
    answer.score_rounding.push_back(std::ldexp(1.0, -24) * largest_score *
                                    *std::max_element(absolute.begin(), absolute.end()) /
                                    (sum > 0 ? sum : 1));
    answer.lse.push_back(sum > 0 ? max + std::log(sum) : -kInfinity);
  }
  return answer;
}

}  // namespace

float RoundToDType(DType dtype, float x) {
  switch (dtype) {
    case DType::kFloat16:
      return ToFloat(Convert<Float16>(x));
    case DType::kBFloat16:
      return ToFloat(Convert<BFloat16>(x));
    default:
      return x;
  }
}

void EncodeElement(DType dtype, float x, void *out) {
  if (dtype == DType::kFloat32) {
    std::memcpy(out, &x, sizeof(x));
    return;
  }
  const uint16_t bits =
      dtype == DType::kFloat16 ? Convert<Float16>(x).bits : Convert<BFloat16>(x).bits;
  std::memcpy(out, &bits, sizeof(bits));
}

float DecodeElement(DType dtype, const void *in) {
  if (dtype == DType::kFloat32) {
    float x;
    std::memcpy(&x, in, sizeof(x));
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, in, sizeof(bits));
  return dtype == DType::kFloat16 ? ToFloat(Float16{bits}) : ToFloat(BFloat16{bits});
}

int32_t TileProblem::NumVisible(int32_t row) const {
  if (!is_causal) return num_keys;
  return std::clamp(num_keys - num_rows + row + 1, 0, num_keys);
}

double TileProblem::Bias(int32_t row, int32_t key_index) const {
  const double distance = distance_step > 0.0f ? key_index : double(num_keys) + row - key_index;
  switch (bias) {
    case BiasKind::kNone:
      return 0.0;
    case BiasKind::kLinear:
      return slope[row] * distance;
    case BiasKind::kSqrt:
      return slope[row] * std::sqrt(distance);
    case BiasKind::kTable:
      return bias_table[int64_t{row} * num_keys + key_index];
  }
  throw std::logic_error("unknown bias");
}

void FillRandom(uint32_t seed, TileProblem *problem) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](int64_t count, std::vector<float> *out) {
    out->resize(count);
    for (float &x : *out) x = RoundToDType(problem->dtype, normal(engine));
  };
  fill(int64_t{problem->num_rows} * problem->head_size, &problem->query);
  fill(int64_t{problem->num_keys} * problem->head_size, &problem->key);
  fill(int64_t{problem->num_keys} * problem->value_head_size, &problem->value);
  fill(int64_t{problem->num_rows} * problem->num_keys, &problem->bias_table);
  problem->slope.resize(problem->num_rows);
  for (int32_t r = 0; r < problem->num_rows; ++r) problem->slope[r] = -0.03f * float(r % 7);
}

namespace {

// The tile's keys and values, packed kKeyTile at a time.
class PackedTile {
 public:
  PackedTile(const PackTileKernels &packer, const TileProblem &problem, const KvTile &tile) {
    for (int32_t first = 0; first < tile.num_keys; first += kKeyTile) {
      KvTile part = tile;
      part.key_rows += first;
      part.value_rows += first;
      part.num_keys = std::min(kKeyTile, tile.num_keys - first);
      AlignedBytes keys(packer.key_bytes(problem.head_size));
      AlignedBytes values(packer.value_bytes(problem.value_head_size));
      packer.pack_keys(part, problem.head_size, keys.data());
      packer.pack_values(part, problem.value_head_size, values.data());
      key_rows_.push_back(Place(keys.data(), packer.key_bytes(problem.head_size)));
      value_rows_.push_back(Place(values.data(), packer.value_bytes(problem.value_head_size)));
    }
    tile_ = {key_rows_.data(), value_rows_.data(), kOffsetBytes, kOffsetBytes, 0, 0, tile.num_keys};
    tile_.is_packed = true;
  }

  const KvTile &tile() const { return tile_; }

 private:
  static constexpr int64_t kOffsetBytes = 3;  // to the kv head

  // Where the row of kv head 0 would lie.
  const void *Place(const char *packed, int64_t num_bytes) {
    guarded_.push_back(std::make_unique<PlacedRows>(DType::kUInt8, Placement::kGuarded));
    return guarded_.back()->PlaceBytes(packed, num_bytes) - kOffsetBytes;
  }

  std::vector<std::unique_ptr<PlacedRows>> guarded_;
  std::vector<const void *> key_rows_;
  std::vector<const void *> value_rows_;
  KvTile tile_ = {};
};

}  // namespace

TileResult RunTiles(const DTypeKernels &kernels, const TileProblem &problem,
                    const std::vector<int32_t> &rows, Placement placement, int32_t keys_per_call) {
  const int32_t num_rows = static_cast<int32_t>(rows.size());
  PlacedRows query(problem.dtype, placement);
  PlacedRows key(problem.dtype, placement);
  PlacedRows value(problem.dtype, placement);
  const std::vector<const void *> query_rows =
      query.Place(RowPointers(problem.query, problem.head_size, rows), problem.head_size);
  const std::vector<int32_t> keys = AllOf(problem.num_keys);
  const std::vector<const void *> key_rows =
      key.Place(RowPointers(problem.key, problem.head_size, keys), problem.head_size);
  const std::vector<const void *> value_rows = value.Place(
      RowPointers(problem.value, problem.value_head_size, keys), problem.value_head_size);

  const int64_t acc_stride =
      (problem.value_head_size + kAccumulatorPad - 1) / kAccumulatorPad * kAccumulatorPad;
  AlignedBytes packed(kernels.packed_query_bytes(num_rows, problem.head_size));
  AlignedBytes scratch(kernels.scratch_bytes(problem.head_size, problem.value_head_size));
  AlignedBytes acc(num_rows * acc_stride * int64_t{sizeof(float)});
  kernels.pack_query(query_rows.data(), num_rows, problem.head_size, packed.data());

  TileResult result;
  result.row_max.assign(num_rows, -kInfinity);
  result.row_sum.assign(num_rows, 0.0f);
  float *acc_data = reinterpret_cast<float *>(acc.data());
  for (int32_t first = 0; first < problem.num_keys; first += keys_per_call) {
    const int32_t num_keys = std::min(keys_per_call, problem.num_keys - first);
    const MaskData mask(problem, rows, first, num_keys, placement);
    AttendArgs args = {};
    args.query = packed.data();
    args.num_rows = num_rows;
    args.head_size = problem.head_size;
    args.value_head_size = problem.value_head_size;
    args.qk_scale = problem.qk_scale;
    args.tile = {&key_rows[first],  &value_rows[first],  0,       0,
                 key.StrideBytes(), value.StrideBytes(), num_keys};
    std::optional<PackedTile> packed_tile;
    if (placement == Placement::kPacked) {
      args.tile = packed_tile.emplace(*kernels.pack_tile, problem, args.tile).tile();
    }
    args.mask = mask.mask;
    args.state = {acc_data, result.row_max.data(), result.row_sum.data(), acc_stride};
    args.scratch = scratch.data();
    kernels.attend(args);
  }
  for (int32_t r = 0; r < num_rows; ++r) {
    result.acc.insert(result.acc.end(), acc_data + r * acc_stride,
                      acc_data + r * acc_stride + problem.value_head_size);
  }
  return result;
}

TileResult RunTiles(const DTypeKernels &kernels, const TileProblem &problem) {
  return RunTiles(kernels, problem, AllOf(problem.num_rows), Placement::kContiguous);
}

Answer ComputeAnswer(const TileProblem &problem) {
  return Solve<double>(problem, [](double x) { return x; });
}

Answer ComputePlainInDType(const TileProblem &problem) {
  return Solve<float>(problem, [&](float x) { return RoundToDType(problem.dtype, x); });
}

std::vector<double> FinishOutput(const DTypeKernels &kernels, const TileProblem &problem,
                                 const TileResult &result) {
  std::vector<double> output;
  const int32_t size = problem.value_head_size;
  const int32_t element_bytes = DTypeBytes(problem.dtype);
  std::vector<char> row(int64_t{size} * element_bytes);
  for (int32_t r = 0; r < problem.num_rows; ++r) {
    const float sum = result.row_sum[r];
    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    kernels.store_row(&result.acc[int64_t{r} * size], scale, size, row.data());
    for (int32_t d = 0; d < size; ++d) {
      output.push_back(DecodeElement(problem.dtype, row.data() + int64_t{d} * element_bytes));
    }
  }
  return output;
}

std::vector<KernelsUnderTest> AllKernels() {
  std::vector<KernelsUnderTest> all;
  const auto add_table = [&](const std::string &isa, const TileKernels &table) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      all.push_back({isa, dtype, &KernelsFor(table, dtype)});
    }
  };
  for (const char *isa : {"portable", "avx2", "avx512", "amx", "neon"}) {
    const TileKernels *table = FindTileKernels(isa);
    if (table != nullptr) add_table(isa, *table);
  }
  // Parts that the choice of this machine may hide: the bfloat16 kernels of the other vendor.
#if defined(MINDSPORE_RELAY_HAVE_AVX512)
  if (GetCpuFeatures().has_avx512) {
    all.push_back({"avx512_widened", DType::kBFloat16, &avx512::kTileKernels.bfloat16});
  }
#endif
#if defined(MINDSPORE_RELAY_HAVE_AVX512_BF16)
  if (GetCpuFeatures().has_avx512_bf16) {
    all.push_back({"avx512_bf16", DType::kBFloat16, &avx512_bf16::kBFloat16Kernels});
  }
#endif
#if defined(MINDSPORE_RELAY_TEST_AMX_EMULATED)
  if (GetCpuFeatures().has_avx512) {
    all.push_back({"amx_emulated", DType::kFloat16, &amx_emulated::kFloat16Kernels});
    all.push_back({"amx_emulated", DType::kBFloat16, &amx_emulated::kBFloat16Kernels});
  }
#endif
  return all;
}

}  // namespace mindspore_relay::testing
