// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Chooses the tile kernels, once per process. Compiled without ISA flags.
#include "cpu/tile_kernels.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/features.h"
#include "cpu/isa_tables.h"

namespace mindspore_relay {
namespace {

constexpr char kIsaVariable[] = "MINDSPORE_RELAY_ISA";

// Every name that MINDSPORE_RELAY_ISA may have, on any machine, best first.
constexpr const char *kKnownIsas[] = {"amx", "avx512", "avx2", "neon", "portable"};

// The tables of this build that can run here, best first.
std::vector<TileKernels> FindRunnable() {
  std::vector<TileKernels> tables;
  [[maybe_unused]] const CpuFeatures &features = GetCpuFeatures();
#if defined(MINDSPORE_RELAY_HAVE_AVX512)
  if (features.has_avx512) {
    TileKernels avx512_table = avx512::kTileKernels;
#if defined(MINDSPORE_RELAY_HAVE_AMX)
    if (features.has_amx_bf16) {
      TileKernels amx_table = avx512::kTileKernels;
      amx_table.isa = "amx";
      amx_table.float16 = amx::kFloat16Kernels;
      amx_table.bfloat16 = amx::kBFloat16Kernels;
      tables.push_back(amx_table);
    }
#endif
#if defined(MINDSPORE_RELAY_HAVE_AVX512_BF16)
    // Only where it wins (features.h): elsewhere widening to float and FMA is faster, and more
    // accurate.
    if (features.has_avx512_bf16 && features.is_amd) {
      avx512_table.bfloat16 = avx512_bf16::kBFloat16Kernels;
    }
#endif
    tables.push_back(avx512_table);
  }
#endif
#if defined(MINDSPORE_RELAY_HAVE_AVX2)
  if (features.has_avx2) tables.push_back(avx2::kTileKernels);
#endif
#if defined(MINDSPORE_RELAY_HAVE_NEON)
  if (features.has_neon_fp16) tables.push_back(neon::kTileKernels);
#endif
  tables.push_back(portable::kTileKernels);
  return tables;
}

// Never destroyed, as every other static object here: when one thread ends the process by exit(),
// others may still be inside the library.
const std::vector<TileKernels> &Runnable() {
  static const auto &tables = *new std::vector<TileKernels>(FindRunnable());
  return tables;
}

bool IsKnownIsa(const char *isa) {
  for (const char *known : kKnownIsas) {
    if (std::strcmp(isa, known) == 0) return true;
  }
  return false;
}

struct Selection {
  const TileKernels *table;  // nullptr: error tells why
  std::string error;
};

Selection SelectFromEnvironment() {
  const char *isa = std::getenv(kIsaVariable);
  if (isa == nullptr || isa[0] == '\0') return {&Runnable().front(), ""};
  const TileKernels *table = FindTileKernels(isa);
  if (table != nullptr) return {table, ""};
  const char *reason = IsKnownIsa(isa) ? "cannot run here or is not in this build"
                                       : "is none of amx, avx512, avx2, neon, portable";
  return {nullptr, std::string(kIsaVariable) + "=" + isa + " " + reason +
                       "; available: " + AvailableIsaList()};
}

std::atomic<const TileKernels *> g_forced_table{nullptr};

}  // namespace

const DTypeKernels &KernelsFor(const TileKernels &kernels, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return kernels.float16;
    case DType::kBFloat16:
      return kernels.bfloat16;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUInt32:
    case DType::kUInt8:
      break;  // integers do not come here
  }
  return kernels.float32;
}

const TileKernels *SelectTileKernels(const char **error) {
  const TileKernels *forced = g_forced_table.load(std::memory_order_acquire);
  if (forced != nullptr) return forced;
  static const auto &selection = *new Selection(SelectFromEnvironment());
  if (selection.table == nullptr && error != nullptr) *error = selection.error.c_str();
  return selection.table;
}

const TileKernels *FindTileKernels(const char *isa) {
  for (const TileKernels &table : Runnable()) {
    if (std::strcmp(table.isa, isa) == 0) return &table;
  }
  return nullptr;
}

bool ForceTileKernels(const char *isa) {
  const TileKernels *table = FindTileKernels(isa);
  if (table == nullptr) return false;
  g_forced_table.store(table, std::memory_order_release);
  return true;
}

const char *AvailableIsaList() {
  static const std::string &list = *[] {
    auto *names = new std::string();
    for (const TileKernels &table : Runnable()) {
      if (!names->empty()) *names += ',';
      *names += table.isa;
    }
    return names;
  }();
  return list.c_str();
}

}  // namespace mindspore_relay
