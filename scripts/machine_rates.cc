// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures what a machine can do, as the floor that scripts/bench_attention.py compares with:
//   dram_read_gb_s      reading memory that no cache holds, by the fastest of several patterns
//   matrix_gflop_s      the fastest bfloat16 multiply-add unit: AMX, else AVX512-BF16, else 0
//   float32_gflop_s     float32 fused multiply-adds
// Usage: machine_rates THREADS [MEGABYTES]   prints one line of JSON. Built by bench_attention.py
// with the system's g++.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Best of several runs of fn(thread) on all threads at once, in seconds.
double BestTime(int num_threads, int num_runs, const std::function<void(int)> &fn) {
  double best = 1e30;
  for (int run = 0; run < num_runs; ++run) {
    std::atomic<int> num_ready{0};
    std::vector<std::thread> threads;
    std::vector<double> times(num_threads);
    for (int t = 0; t < num_threads; ++t) {
      threads.emplace_back([&, t] {
        num_ready.fetch_add(1);
        while (num_ready.load() < num_threads) {
        }
        const Clock::time_point begin = Clock::now();
        fn(t);
        times[t] = Seconds(begin);
      });
    }
    for (std::thread &thread : threads) thread.join();
    best = std::min(best, *std::max_element(times.begin(), times.end()));
  }
  return best;
}

volatile uint64_t sink;

// Uses every byte of a result, so that no compiler leaves its computation out.
void Keep(const void *result, size_t bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word;
    memcpy(&word, static_cast<const char *>(result) + i, 8);
    sum += word;
  }
  sink = sum;
}

// How memory is read: several places at once, each with a prefetch of the same distance.
struct ReadPattern {
  int num_streams;
  size_t ahead_bytes;
};
constexpr ReadPattern kReadPatterns[] = {{1, 4096}, {4, 2048}, {4, 4096}, {4, 8192}};
constexpr size_t kStepBytes = 256;  // of one stream at a time

// Sums all 64-byte lines.
void ReadMemory(const char *data, size_t bytes, ReadPattern pattern) {
  using Line = uint64_t __attribute__((vector_size(64)));
  Line sum[4] = {};
  const size_t stream_bytes = bytes / pattern.num_streams / kStepBytes * kStepBytes;
  for (size_t i = 0; i < stream_bytes; i += kStepBytes) {
    for (int stream = 0; stream < pattern.num_streams; ++stream) {
      const char *step = data + stream * stream_bytes + i;
      for (int j = 0; j < 4; ++j) {
        __builtin_prefetch(step + pattern.ahead_bytes + 64 * j);
        sum[j] += *reinterpret_cast<const Line *>(step + 64 * j);
      }
    }
  }
  Keep(sum, sizeof(sum));
}

double MeasureDram(int num_threads, size_t bytes) {
  char *data = static_cast<char *>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (data == MAP_FAILED) return 0;
  madvise(data, bytes, MADV_HUGEPAGE);
  memset(data, 1, bytes);
  const size_t share = bytes / num_threads / 4096 * 4096;
  double seconds = 1e30;
  for (const ReadPattern &pattern : kReadPatterns) {
    seconds = std::min(seconds, BestTime(num_threads, 3, [&](int t) {
                         ReadMemory(data + t * share, share, pattern);
                       }));
  }
  munmap(data, bytes);
  return static_cast<double>(share) * num_threads / seconds * 1e-9;
}

constexpr int kIterations = 2000000;

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void Float32Avx512(int) {
  __m512 acc[12];
  for (__m512 &a : acc) a = _mm512_set1_ps(1.0f);
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_fmadd_ps(acc[j], x, y);
  }
  Keep(acc, sizeof(acc));
}

__attribute__((target("avx2,fma"))) void Float32Avx2(int) {
  __m256 acc[12];
  for (__m256 &a : acc) a = _mm256_set1_ps(1.0f);
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm256_fmadd_ps(acc[j], x, y);
  }
  Keep(acc, sizeof(acc));
}

__attribute__((target("avx512f,avx512bf16"))) void BFloat16Avx512(int) {
  __m512 acc[12];
  for (__m512 &a : acc) a = _mm512_set1_ps(0.0f);
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-6f), _mm512_set1_ps(1e-6f));
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_dpbf16_ps(acc[j], x, x);
  }
  Keep(acc, sizeof(acc));
}

struct alignas(64) AmxConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four accumulator tiles fed from two operand tiles each way, as a matrix product would.
__attribute__((target("amx-tile,amx-bf16"))) void BFloat16Amx(int) {
  const AmxConfig config;
  // Not _tile_loadconfig: GCC 12 takes it to read 8 bytes, and leaves the rest of config unwritten.
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int i = 0; i < kIterations / 8; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

bool HasAmx() {
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
  return __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

double MeasureMatrix(int num_threads, const char **unit) {
  if (HasAmx()) {
    *unit = "amx";
    const double flops = 2.0 * 16 * 16 * 32 * 4 * (kIterations / 8);
    return flops * num_threads / BestTime(num_threads, 3, BFloat16Amx) * 1e-9;
  }
  if (__builtin_cpu_supports("avx512bf16")) {
    *unit = "avx512bf16";
    return 2.0 * 32 * 12 * kIterations * num_threads / BestTime(num_threads, 3, BFloat16Avx512) *
           1e-9;
  }
  *unit = "none";
  return 0;
}

double MeasureFloat32(int num_threads) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) return 0;
  const double lanes = wide ? 16 : 8;
  return 2.0 * lanes * 12 * kIterations * num_threads /
         BestTime(num_threads, 3, wide ? Float32Avx512 : Float32Avx2) * 1e-9;
}

#else

double MeasureMatrix(int, const char **unit) {
  *unit = "none";
  return 0;
}

double MeasureFloat32(int) { return 0; }

#endif

}  // namespace

int main(int argc, char **argv) {
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const size_t megabytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1024;
  if (num_threads < 1 || num_threads > 1024 || megabytes < 64) {
    std::fprintf(stderr, "usage: machine_rates THREADS(1..1024) [MEGABYTES >= 64]\n");
    return 2;
  }
  const char *unit = "none";
  const double dram = MeasureDram(num_threads, megabytes << 20);
  const double matrix = MeasureMatrix(num_threads, &unit);
  std::printf(
      "{\"threads\": %d, \"dram_read_gb_s\": %.2f, \"matrix_unit\": \"%s\", \"matrix_gflop_s\": "
      "%.1f, "
      "\"float32_gflop_s\": %.1f}\n",
      num_threads, dram, unit, matrix, MeasureFloat32(num_threads));
  return 0;
}
