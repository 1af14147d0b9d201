// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Rates of the tile kernels on one core of this machine. Not a test: nothing passes or fails.
//
//   bench_tile_kernels [isa] [dtype]      default: every table that runs here, every dtype
//
// GFLOP/s: one tile attended again and again, all data in cache; 2 x rows x keys x (head_size +
// value_head_size) operations. GB/s: tiles streamed from memory, 8 kv heads side by side, bytes of
// keys and values per second.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "common/dtype.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {
namespace {

constexpr int32_t kNumKvHeads = 8;
constexpr int64_t kStreamBytes = int64_t{512}
                                 << 20;  // of keys, and again of values: more than any cache
constexpr int kRepeats = 5;

// Time of this thread on its core: others may run on the machine, though they still share its
// memory.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Free {
  void operator()(void *p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, Free>;

Buffer Allocate(int64_t bytes) {
  const int64_t page = 2 << 20;  // huge pages: fewer TLB misses
  const int64_t rounded = (bytes + page - 1) / page * page;
  char *p = static_cast<char *>(std::aligned_alloc(page, rounded));
  madvise(p, rounded, MADV_HUGEPAGE);
  std::memset(p, 0, rounded);
  return Buffer(p);
}

// Small numbers around 1/4, alternating in sign, valid in the dtype.
void FillElements(DType dtype, int64_t num_elements, char *out) {
  for (int64_t i = 0; i < num_elements; ++i) {
    const uint32_t mantissa = static_cast<uint32_t>(i * 2654435761u);
    const uint32_t sign = (mantissa & 1u) << 31;
    if (dtype == DType::kFloat32) {
      const uint32_t bits = sign | 0x3e000000u | (mantissa >> 9);
      std::memcpy(out + 4 * i, &bits, 4);
    } else {
      const uint32_t magnitude =
          dtype == DType::kFloat16 ? 0x3000u | (mantissa >> 22) : 0x3e00u | (mantissa >> 25);
      const uint16_t bits = static_cast<uint16_t>((sign >> 16) | magnitude);
      std::memcpy(out + 2 * i, &bits, 2);
    }
  }
}

struct Problem {
  const TileKernels &table;
  DType dtype;
  int32_t num_rows;
  int32_t head_size;

  int64_t ElementBytes() const { return DTypeBytes(dtype); }
};

class Bench {
 public:
  explicit Bench(const Problem &problem)
      : problem_(problem), kernels_(KernelsFor(problem.table, problem.dtype)) {
    const int32_t rows = problem.num_rows;
    const int32_t head_size = problem.head_size;
    const int64_t row_bytes = head_size * problem.ElementBytes();
    query_ = Allocate(rows * row_bytes);
    FillElements(problem.dtype, int64_t{rows} * head_size, query_.get());
    std::vector<const void *> query_rows(rows);
    for (int32_t r = 0; r < rows; ++r) query_rows[r] = query_.get() + r * row_bytes;
    packed_query_ = Allocate(kernels_.packed_query_bytes(rows, head_size));
    kernels_.pack_query(query_rows.data(), rows, head_size, packed_query_.get());
    acc_ = Allocate(int64_t{4} * rows * head_size);
    row_max_.assign(rows, -1e30f);
    row_sum_.assign(rows, 0.0f);
    scratch_ = Allocate(kernels_.scratch_bytes(head_size, head_size));
  }

  double GigaflopsPerSecond() {
    const int64_t row_bytes = problem_.head_size * problem_.ElementBytes();
    const int32_t num_keys = kernels_.max_keys;
    Buffer kv = Allocate(2 * num_keys * row_bytes);
    FillElements(problem_.dtype, 2 * num_keys * problem_.head_size, kv.get());
    std::vector<const void *> key_rows(num_keys);
    std::vector<const void *> value_rows(num_keys);
    for (int32_t c = 0; c < num_keys; ++c) {
      key_rows[c] = kv.get() + c * row_bytes;
      value_rows[c] = kv.get() + (num_keys + c) * row_bytes;
    }
    AttendArgs args = Args();
    args.tile = {key_rows.data(), value_rows.data(), 0, 0, row_bytes, row_bytes, num_keys};
    const double flops = 4.0 * problem_.num_rows * num_keys * problem_.head_size;
    const int64_t num_calls = std::max<int64_t>(100, static_cast<int64_t>(2e9 / (flops + 1e6)));
    double best = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
      const double begin = Seconds();
      for (int64_t j = 0; j < num_calls; ++j) kernels_.attend(args);
      best = std::min(best, Seconds() - begin);
    }
    return flops * num_calls / best * 1e-9;
  }

  // Per tile all heads in turn; head h fetches an eighth of the next tile's tokens, all heads of a
  // token in order.
  double GigabytesPerSecond(const char *keys, const char *values) {
    const int64_t row_bytes = problem_.head_size * problem_.ElementBytes();
    const int64_t token_bytes = row_bytes * kNumKvHeads;
    const int32_t num_keys = kernels_.max_keys;
    const int64_t num_tokens = kStreamBytes / token_bytes / num_keys * num_keys;
    std::vector<const void *> key_rows(num_tokens);
    std::vector<const void *> value_rows(num_tokens);
    for (int64_t t = 0; t < num_tokens; ++t) {
      key_rows[t] = keys + t * token_bytes;
      value_rows[t] = values + t * token_bytes;
    }
    const int32_t tokens_ahead = num_keys / kNumKvHeads;
    double best = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
      const double begin = Seconds();
      for (int64_t t = 0; t + 2 * num_keys <= num_tokens; t += num_keys) {
        for (int32_t h = 0; h < kNumKvHeads; ++h) {
          AttendArgs args = Args();
          args.tile = {&key_rows[t], &value_rows[t], h * row_bytes, h * row_bytes,
                       token_bytes,  token_bytes,    num_keys};
          const int64_t ahead = t + num_keys + h * tokens_ahead;
          args.next_keys = {&key_rows[ahead], 0, static_cast<int32_t>(token_bytes), tokens_ahead};
          args.next_values = {&value_rows[ahead], 0, static_cast<int32_t>(token_bytes),
                              tokens_ahead};
          kernels_.attend(args);
        }
      }
      best = std::min(best, Seconds() - begin);
    }
    return 2.0 * (num_tokens - num_keys) * token_bytes / best * 1e-9;
  }

 private:
  AttendArgs Args() {
    AttendArgs args = {};
    args.query = packed_query_.get();
    args.num_rows = problem_.num_rows;
    args.head_size = problem_.head_size;
    args.value_head_size = problem_.head_size;
    args.qk_scale = 0.1f;
    args.state = {reinterpret_cast<float *>(acc_.get()), row_max_.data(), row_sum_.data(),
                  problem_.head_size};
    args.scratch = scratch_.get();
    return args;
  }

  const Problem problem_;
  const DTypeKernels &kernels_;
  Buffer query_;
  Buffer packed_query_;
  Buffer acc_;
  Buffer scratch_;
  std::vector<float> row_max_;
  std::vector<float> row_sum_;
};

void RunTable(const TileKernels &table, const char *only_dtype) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (only_dtype != nullptr && std::strcmp(only_dtype, DTypeName(dtype)) != 0) continue;
    const int64_t element_bytes = DTypeBytes(dtype);
    Buffer keys = Allocate(kStreamBytes);
    Buffer values = Allocate(kStreamBytes);
    FillElements(dtype, kStreamBytes / element_bytes, keys.get());
    FillElements(dtype, kStreamBytes / element_bytes, values.get());
    for (int32_t head_size : {64, 128}) {
      for (int32_t num_rows : {1, 4, 8, 32, 128, 256}) {
        Bench bench({table, dtype, num_rows, head_size});
        const double gigaflops = bench.GigaflopsPerSecond();
        std::printf("%-9s %-9s %9d %5d %10.1f", table.isa, DTypeName(dtype), head_size, num_rows,
                    gigaflops);
        if (num_rows <= 32)
          std::printf(" %8.1f", bench.GigabytesPerSecond(keys.get(), values.get()));
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace mindspore_relay

int main(int argc, char **argv) {
  using namespace mindspore_relay;
  std::printf("%-9s %-9s %9s %5s %10s %8s\n", "isa", "dtype", "head_size", "rows", "GFLOP/s",
              "GB/s");
  for (const char *isa : {"amx", "avx512", "avx2", "neon", "portable"}) {
    if (argc > 1 && std::strcmp(argv[1], isa) != 0) continue;
    const TileKernels *table = FindTileKernels(isa);
    if (table != nullptr) RunTable(*table, argc > 2 ? argv[2] : nullptr);
  }
  return 0;
}
