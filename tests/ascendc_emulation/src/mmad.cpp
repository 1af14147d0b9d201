// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Mmad.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cube_layout.h"
#include "instruction.h"
#include "matrix_kernel.h"

namespace ascendc_emulation {

namespace {

constexpr int64_t kMmadResultAlignment = 1024;

// The sizes of one Mmad, in elements and fractals.
struct MmadShape {
  int64_t m, n, k;
  int64_t m_fractals, n_fractals, k_fractals;

  explicit MmadShape(const MatrixMultiply &multiply)
      : m(multiply.m),
        n(multiply.n),
        k(multiply.k),
        m_fractals(CeilDiv(m, kFractalSide)),
        n_fractals(CeilDiv(n, kFractalSide)),
        k_fractals(CeilDiv(k, kFractalSide)) {}

  int64_t PaddedRows() const { return m_fractals * kFractalSide; }
  int64_t LeftBytes() const { return m_fractals * k_fractals * kFractalBytes; }
  int64_t RightBytes() const { return k_fractals * n_fractals * kFractalBytes; }
  int64_t ResultBytes() const { return n_fractals * PaddedRows() * kResultRowBytes; }
  int64_t ResultByte(int64_t row, int64_t column) const {
    return (column / kFractalSide * PaddedRows() + row) * kResultRowBytes +
           column % kFractalSide * 4;
  }
};

void CheckMmad(Instruction *instruction, const LocalRef &target, const LocalRef &left,
               const LocalRef &right, const MatrixMultiply &multiply) {
  instruction->CheckLocal(left, "left matrix", kL0Alignment);
  instruction->CheckLocal(right, "right matrix", kL0Alignment);
  instruction->CheckLocal(target, "destination", kMmadResultAlignment);
  if (left.memory != Memory::kL0a || right.memory != Memory::kL0b ||
      target.memory != Memory::kL0c) {
    instruction->Fail("wrong memory", "multiplies %s by %s into %s; it is L0A by L0B into L0C",
                      MemoryName(left.memory), MemoryName(right.memory), MemoryName(target.memory));
  }
  const bool is_supported = left.dtype == right.dtype && target.dtype == DType::kFloat &&
                            (left.dtype == DType::kHalf || left.dtype == DType::kBFloat16);
  if (!is_supported) {
    instruction->Fail("data type", "%s by %s into %s", DTypeName(left.dtype),
                      DTypeName(right.dtype), DTypeName(target.dtype));
  }
  if (multiply.has_unsupported_option) {
    instruction->Fail("not emulated", "bias, unitFlag, cmatrixSource or kDirectionAlign");
  }
  for (const int64_t side : {multiply.m, multiply.n, multiply.k}) {
    if (side <= kMaxMatrixSide) continue;
    instruction->Fail("parameter range", "a matrix side of %lld, the limit is %lld",
                      static_cast<long long>(side), static_cast<long long>(kMaxMatrixSide));
  }
  if (multiply.m == 1) {
    instruction->Fail("GEMV layout",
                      "m == 1 makes the cube unit read L0A as one contiguous row "
                      "of k elements; pad m to 16 for the matrix layout");
  }
}

// Row i (or column j) is unset when one of the k elements that enter it is unset.
std::vector<bool> FindUnsetRows(const LocalMemory &memory, uint32_t begin, int64_t count, int64_t k,
                                int64_t outer_stride, int64_t k_stride) {
  std::vector<bool> is_unset(static_cast<size_t>(count), false);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t block = 0; block < CeilDiv(k, kFractalSide); ++block) {
      const int64_t fractal = i / kFractalSide * outer_stride + block * k_stride;
      const auto granule = static_cast<uint32_t>(begin / 32 + fractal * 16 + i % kFractalSide);
      const int64_t used = std::min(kFractalSide, k - block * kFractalSide);
      const uint32_t mask = ByteMask(0, static_cast<uint32_t>(used * 2));
      if ((memory.SetMask(granule) & mask) != mask) is_unset[static_cast<size_t>(i)] = true;
    }
  }
  return is_unset;
}

using Convert = void (*)(const uint16_t *, float *, int64_t);

// L0A Zz -> [m][k]
std::vector<float> UnpackLeft(const uint8_t *data, const MmadShape &shape, Convert convert) {
  std::vector<float> matrix(static_cast<size_t>(shape.m * shape.k));
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t block = 0; block < shape.k_fractals; ++block) {
      const int64_t fractal = row / kFractalSide * shape.k_fractals + block;
      const uint8_t *source =
          data + fractal * kFractalBytes + row % kFractalSide * kFractalRowBytes;
      const int64_t used = std::min(kFractalSide, shape.k - block * kFractalSide);
      uint16_t elements[kFractalSide];
      std::memcpy(elements, source, sizeof(elements));
      convert(elements, &matrix[static_cast<size_t>(row * shape.k + block * kFractalSide)], used);
    }
  }
  return matrix;
}

// L0B Zn -> [k][n]
std::vector<float> UnpackRight(const uint8_t *data, const MmadShape &shape, Convert convert) {
  std::vector<float> matrix(static_cast<size_t>(shape.k * shape.n));
  for (int64_t k_block = 0; k_block < shape.k_fractals; ++k_block) {
    const int64_t used_k = std::min(kFractalSide, shape.k - k_block * kFractalSide);
    for (int64_t n_block = 0; n_block < shape.n_fractals; ++n_block) {
      const int64_t used_n = std::min(kFractalSide, shape.n - n_block * kFractalSide);
      uint16_t elements[kFractalSide * kFractalSide];
      std::memcpy(elements, data + (k_block * shape.n_fractals + n_block) * kFractalBytes,
                  sizeof(elements));
      float values[kFractalSide * kFractalSide];
      convert(elements, values, kFractalSide * kFractalSide);
      for (int64_t k = 0; k < used_k; ++k) {
        float *row = &matrix[static_cast<size_t>((k_block * kFractalSide + k) * shape.n +
                                                 n_block * kFractalSide)];
        for (int64_t n = 0; n < used_n; ++n) row[n] = values[n * kFractalSide + k];
      }
    }
  }
  return matrix;
}

// L0C Nz <-> [m][n]
void CopyResult(uint8_t *data, const MmadShape &shape, float *matrix, bool to_matrix) {
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; column += kFractalSide) {
      const auto bytes = static_cast<size_t>(std::min(kFractalSide, shape.n - column) * 4);
      uint8_t *in_l0c = data + shape.ResultByte(row, column);
      float *in_matrix = matrix + row * shape.n + column;
      std::memcpy(to_matrix ? static_cast<void *>(in_matrix) : in_l0c,
                  to_matrix ? in_l0c : static_cast<void *>(in_matrix), bytes);
    }
  }
}

void Saturate(std::vector<float> *matrix) {
  for (float &value : *matrix) {
    if (std::isfinite(value)) continue;
    value = std::isnan(value) ? 0.0f : std::copysign(std::numeric_limits<float>::max(), value);
  }
}

void MarkUnsetRow(LocalMemory *l0c, uint32_t begin, const MmadShape &shape, int64_t row) {
  for (int64_t block = 0; block < shape.n_fractals; ++block) {
    const auto at = static_cast<uint32_t>(begin + shape.ResultByte(row, block * kFractalSide));
    l0c->MarkUnset(at, at + kResultRowBytes);
  }
}

void MarkUnsetColumn(LocalMemory *l0c, uint32_t begin, const MmadShape &shape, int64_t column) {
  for (int64_t row = 0; row < shape.PaddedRows(); ++row) {
    const auto at = static_cast<uint32_t>(begin + shape.ResultByte(row, column));
    l0c->MarkUnset(at, at + 4);
  }
}

// The unset 4-byte elements of the sum that a Mmad continues.
std::vector<uint32_t> FindUnsetElements(const LocalMemory &l0c, uint32_t begin, uint32_t end) {
  std::vector<uint32_t> elements;
  for (uint32_t at = begin; at < end; at += 4) {
    if (!l0c.IsSet(at, at + 4)) elements.push_back(at);
  }
  return elements;
}

}  // namespace

void MultiplyMatrices(const LocalRef &target, const LocalRef &left, const LocalRef &right,
                      const MatrixMultiply &multiply) {
  Instruction instruction(Pipe::kM, "Mmad");
  CheckMmad(&instruction, target, left, right, multiply);
  const MmadShape shape(multiply);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return;
  Core &core = instruction.core();
  LocalMemory &l0c = core.memory(Memory::kL0c);
  const auto result_bytes = static_cast<uint64_t>(shape.ResultBytes());
  instruction.ReadLocal(left, 0, static_cast<uint64_t>(shape.LeftBytes()), false);
  instruction.ReadLocal(right, 0, static_cast<uint64_t>(shape.RightBytes()), false);
  if (!multiply.clear_target) instruction.ReadLocal(target, 0, result_bytes, false);
  instruction.WriteLocal(target, 0, result_bytes);

  const auto target_end = static_cast<uint32_t>(target.begin + result_bytes);
  std::vector<uint32_t> unset_sums;
  if (!multiply.clear_target && !l0c.IsSet(target.begin, target_end)) {
    unset_sums = FindUnsetElements(l0c, target.begin, target_end);
  }
  const std::vector<bool> unset_rows =
      FindUnsetRows(core.memory(Memory::kL0a), left.begin, shape.m, shape.k, shape.k_fractals, 1);
  const std::vector<bool> unset_columns =
      FindUnsetRows(core.memory(Memory::kL0b), right.begin, shape.n, shape.k, 1, shape.n_fractals);

  const Convert convert = left.dtype == DType::kHalf ? HalfToFloat : BFloat16ToFloat;
  const std::vector<float> a = UnpackLeft(instruction.LocalData(left), shape, convert);
  const std::vector<float> b = UnpackRight(instruction.LocalData(right), shape, convert);
  std::vector<float> c(static_cast<size_t>(shape.m * shape.n), 0.0f);
  uint8_t *result = instruction.LocalData(target);
  if (!multiply.clear_target) CopyResult(result, shape, c.data(), true);
  AccumulateProduct(a.data(), b.data(), c.data(), shape.m, shape.n, shape.k);
  if (core.registers.is_saturating) Saturate(&c);
  CopyResult(result, shape, c.data(), false);
  instruction.Commit();

  for (int64_t row = 0; row < shape.PaddedRows(); ++row) {
    if (row >= shape.m || unset_rows[static_cast<size_t>(row)]) {
      MarkUnsetRow(&l0c, target.begin, shape, row);
    }
  }
  for (int64_t column = 0; column < shape.n_fractals * kFractalSide; ++column) {
    if (column >= shape.n || unset_columns[static_cast<size_t>(column)]) {
      MarkUnsetColumn(&l0c, target.begin, shape, column);
    }
  }
  for (const uint32_t at : unset_sums) l0c.MarkUnset(at, at + 4);
  core.counters.useful_macs += static_cast<uint64_t>(shape.m * shape.n * shape.k);
  core.counters.padded_macs +=
      static_cast<uint64_t>(shape.m_fractals * shape.n_fractals * shape.k_fractals * 16 * 16 * 16);
}

}  // namespace ascendc_emulation
