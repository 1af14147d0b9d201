// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// LoadData, Fill, Mmad and Fixpipe.
//
// Layouts in fractals of 16 x 16 elements (512 bytes of a 16-bit type):
//   L0A Zz  element (m, k): fractal (m / 16) * ceil(K / 16) + k / 16, inside m % 16 * 16 + k % 16
//   L0B Zn  element (k, n): fractal (k / 16) * ceil(N / 16) + n / 16, inside n % 16 * 16 + k % 16
//   L0C Nz  element (m, n): (n / 16) * ceil16(M) * 16 + m * 16 + n % 16

#include <algorithm>
#include <cstring>

#include "ascendc/numeric_types.h"
#include "atomic_write.h"
#include "instruction.h"
#include "matrix_kernel.h"

namespace ascendc_emulation {

namespace {

constexpr int64_t kFractalSide = 16;
constexpr int64_t kFractalBytes = 512;
constexpr int64_t kFractalRowBytes = 32;  // a row of a 16-bit fractal
constexpr int64_t kResultRowBytes = 64;   // a row of a float fractal in L0C
constexpr int64_t kL0Alignment = 512;
constexpr int64_t kMmadResultAlignment = 1024;
constexpr int64_t kFixpipeAlignment = 64;
constexpr int64_t kMaxMatrixSide = 4095;
constexpr int64_t kMaxFixpipeRows = 8192;

int64_t CeilDiv(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

bool Is16Bit(DType dtype) { return DTypeBytes(dtype) == 2; }

void TransposeFractal(const uint8_t *source, uint8_t *target) {
  uint16_t in[256], out[256];
  std::memcpy(in, source, sizeof(in));
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) out[column * 16 + row] = in[row * 16 + column];
  }
  std::memcpy(target, out, sizeof(out));
}

// Carries unset 16-bit elements (or, untransposed, unset bytes) of one fractal along.
void CarryUnsetFractal(const std::vector<uint32_t> &source_masks, bool is_transposed,
                       LocalMemory *target, uint32_t target_begin) {
  for (uint32_t byte = 0; byte < kFractalBytes; ++byte) {
    if ((source_masks[byte / 32] >> (byte % 32) & 1u) != 0) continue;
    uint32_t to = byte;
    if (is_transposed) {
      const uint32_t element = byte / 2;
      to = (element % 16 * 16 + element / 16) * 2 + byte % 2;
    }
    target->MarkUnset(target_begin + to, target_begin + to + 1);
  }
}

}  // namespace

void LoadFractals(const char *name, const LocalRef &target, const LocalRef &source,
                  const FractalLoad &load) {
  Instruction instruction(Pipe::kMte1, name);
  instruction.CheckLocal(source, "source", kFractalRowBytes);
  instruction.CheckLocal(target, "destination", kL0Alignment);
  if (source.memory != Memory::kL1 ||
      (target.memory != Memory::kL0a && target.memory != Memory::kL0b)) {
    instruction.Fail("wrong memory", "loads from %s to %s; the path is L1 to L0A or L0B",
                     MemoryName(source.memory), MemoryName(target.memory));
  }
  if (load.is_transposed && !Is16Bit(source.dtype)) {
    instruction.Fail("data type", "transposes 16-bit elements only, not %s",
                     DTypeName(source.dtype));
  }
  if (load.is_address_decreasing) {
    instruction.Fail("not emulated", "addrMode 1");
  }
  LocalMemory &l1 = instruction.core().memory(source.memory);
  struct UnsetFractal {
    std::vector<uint32_t> masks;
    uint32_t target_begin;
  };
  std::vector<UnsetFractal> unset;
  for (int64_t repeat = 0; repeat < load.repeat_times; ++repeat) {
    const int64_t from = (load.start_index + repeat * load.source_stride) * kFractalBytes;
    const int64_t to = repeat * (1 + load.target_gap) * kFractalBytes;
    instruction.ReadLocal(source, static_cast<uint64_t>(from), kFractalBytes, false);
    instruction.WriteLocal(target, static_cast<uint64_t>(to), kFractalBytes);
    const uint8_t *in = instruction.LocalData(source) + from;
    uint8_t *out = instruction.LocalData(target) + to;
    if (load.is_transposed) {
      TransposeFractal(in, out);
    } else {
      std::memcpy(out, in, kFractalBytes);
    }
    const auto begin = static_cast<uint32_t>(source.begin + from);
    if (l1.IsSet(begin, begin + kFractalBytes)) continue;
    UnsetFractal fractal{{}, static_cast<uint32_t>(target.begin + to)};
    for (int64_t row = 0; row < kFractalBytes / kFractalRowBytes; ++row) {
      fractal.masks.push_back(l1.SetMask(begin / 32 + static_cast<uint32_t>(row)));
    }
    unset.push_back(std::move(fractal));
  }
  instruction.Commit();
  LocalMemory &l0 = instruction.core().memory(target.memory);
  for (const UnsetFractal &fractal : unset) {
    CarryUnsetFractal(fractal.masks, load.is_transposed, &l0, fractal.target_begin);
  }
}

void FillConstant(const LocalRef &target, int64_t repeat_times, int64_t block_count,
                  int64_t target_gap, uint64_t value_bits) {
  const bool is_l1 = target.memory == Memory::kL1;
  Instruction instruction(is_l1 ? Pipe::kMte2 : Pipe::kMte1, "Fill");
  const int64_t unit = is_l1 ? kFractalRowBytes : kFractalBytes;
  instruction.CheckLocal(target, "destination", static_cast<uint64_t>(unit));
  if (!is_l1 && target.memory != Memory::kL0a && target.memory != Memory::kL0b) {
    instruction.Fail("wrong memory", "fills L1, L0A or L0B, not %s", MemoryName(target.memory));
  }
  const uint32_t element = DTypeBytes(target.dtype);
  for (int64_t repeat = 0; repeat < repeat_times; ++repeat) {
    const int64_t at = repeat * (block_count + target_gap) * unit;
    instruction.WriteLocal(target, static_cast<uint64_t>(at),
                           static_cast<uint64_t>(block_count * unit));
    uint8_t *data = instruction.LocalData(target) + at;
    for (int64_t byte = 0; byte < block_count * unit; byte += element) {
      std::memcpy(data + byte, &value_bits, element);
    }
  }
  instruction.Commit();
}

namespace {

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

namespace {

void CheckStore(Instruction *instruction, const GmRef &target, const LocalRef &source,
                const MatrixStore &store) {
  instruction->CheckLocal(source, "source", kFixpipeAlignment);
  if (source.memory != Memory::kL0c) {
    instruction->Fail("wrong memory", "Fixpipe reads L0C, not %s", MemoryName(source.memory));
  }
  if (store.has_unsupported_option || store.conversion == MatrixConversion::kUnsupported) {
    instruction->Fail("not emulated",
                      "unitFlag, channel split, scaling or a layout other than "
                      "row major");
  }
  const DType expected = store.conversion == MatrixConversion::kToHalf       ? DType::kHalf
                         : store.conversion == MatrixConversion::kToBFloat16 ? DType::kBFloat16
                                                                             : DType::kFloat;
  if (target.dtype != expected || source.dtype != DType::kFloat) {
    instruction->Fail("data type", "quantPre makes %s of float, the tensors are %s and %s",
                      DTypeName(expected), DTypeName(target.dtype), DTypeName(source.dtype));
  }
  if (store.num_columns % kFractalSide != 0 || store.num_columns > kMaxMatrixSide) {
    instruction->Fail("parameter range", "nSize %lld is not a multiple of 16 up to %lld",
                      static_cast<long long>(store.num_columns),
                      static_cast<long long>(kMaxMatrixSide));
  }
  if (store.num_rows > kMaxFixpipeRows) {
    instruction->Fail("parameter range", "mSize %lld, the limit is %lld",
                      static_cast<long long>(store.num_rows),
                      static_cast<long long>(kMaxFixpipeRows));
  }
  if (store.num_columns > kFractalSide && store.source_stride < store.num_rows) {
    instruction->Fail("stride",
                      "srcStride %lld is less than mSize %lld: it counts 16-element rows "
                      "of L0C between two column blocks",
                      static_cast<long long>(store.source_stride),
                      static_cast<long long>(store.num_rows));
  }
  if (store.num_rows > 1 && store.target_stride < store.num_columns) {
    instruction->Fail("stride",
                      "dstStride %lld is less than nSize %lld: rows of the result "
                      "overlap",
                      static_cast<long long>(store.target_stride),
                      static_cast<long long>(store.num_columns));
  }
}

void ConvertRow(const MatrixStore &store, const float *values, uint8_t *target) {
  for (int64_t i = 0; i < store.num_columns; ++i) {
    const float value = store.apply_relu && values[i] < 0.0f ? 0.0f : values[i];
    if (store.conversion == MatrixConversion::kNone) {
      std::memcpy(target + i * 4, &value, 4);
      continue;
    }
    const uint16_t bits = store.conversion == MatrixConversion::kToHalf
                              ? FloatToHalfBits(value)
                              : FloatToBFloat16Bits(value);
    std::memcpy(target + i * 2, &bits, 2);
  }
}

// One matrix: rows of num_columns elements, target_stride elements apart.
void StoreOneMatrix(Instruction *instruction, const GmRef &target, const LocalRef &source,
                    const MatrixStore &store, int64_t source_base, int64_t target_base) {
  const int64_t element = DTypeBytes(target.dtype);
  const SpecialRegisters &registers = instruction->core().registers;
  const bool is_atomic = registers.atomic_mode != AtomicMode::kNone;
  const auto row_bytes = static_cast<uint64_t>(store.num_columns * element);
  const uint8_t *l0c_data = instruction->LocalData(source) + source_base;
  std::vector<float> values(static_cast<size_t>(store.num_columns));
  std::vector<uint8_t> converted(row_bytes);
  for (int64_t row = 0; row < store.num_rows; ++row) {
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const int64_t from = (column / kFractalSide * store.source_stride + row) * kResultRowBytes;
      std::memcpy(&values[static_cast<size_t>(column)], l0c_data + from, kResultRowBytes);
    }
    uint8_t *to = target.address + (target_base + row * store.target_stride) * element;
    instruction->WriteGm(to, row_bytes, is_atomic);
    ConvertRow(store, values.data(), converted.data());
    StoreToGm(registers, target.dtype, to, converted.data(), row_bytes);
  }
}

// Results must be set; in a workspace the unset elements arrive as unset.
void CarryUnsetMatrix(Instruction *instruction, const GmRef &target, const LocalRef &source,
                      const MatrixStore &store, int64_t source_base, int64_t target_base) {
  const int64_t element = DTypeBytes(target.dtype);
  LocalMemory &l0c = instruction->core().memory(Memory::kL0c);
  for (int64_t row = 0; row < store.num_rows; ++row) {
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const auto from = static_cast<uint32_t>(source.begin + source_base +
                                              (column / kFractalSide * store.source_stride + row) *
                                                  kResultRowBytes);
      if (l0c.IsSet(from, from + kResultRowBytes)) continue;
      for (int64_t i = 0; i < kFractalSide; ++i) {
        const uint32_t at = from + static_cast<uint32_t>(i) * 4;
        if (l0c.IsSet(at, at + 4)) continue;
        uint8_t *to =
            target.address + (target_base + row * store.target_stride + column + i) * element;
        GmBuffer *buffer = Engine::Current().gm().Find(to, static_cast<uint64_t>(element));
        const bool is_atomic = instruction->core().registers.atomic_mode != AtomicMode::kNone;
        if (buffer->role() != GmBuffer::Role::kWorkspace || is_atomic) {
          instruction->Fail("unset data",
                            "writes row %lld, column %lld of the result to '%s'; it "
                            "was computed from unset data",
                            static_cast<long long>(row), static_cast<long long>(column + i),
                            buffer->name().c_str());
        }
        const auto begin = static_cast<uint64_t>(to - buffer->begin());
        buffer->MarkUnset(begin, begin + static_cast<uint64_t>(element));
      }
    }
  }
}

}  // namespace

void StoreMatrixToGm(const GmRef &target, const LocalRef &source, const MatrixStore &store) {
  Instruction instruction(Pipe::kFix, "Fixpipe");
  CheckStore(&instruction, target, source, store);
  CheckAtomic(&instruction, target.dtype);
  if (store.num_rows == 0 || store.num_columns == 0) return;
  for (int64_t matrix = 0; matrix < store.num_matrices; ++matrix) {
    const int64_t source_base =
        matrix * store.source_matrix_stride * kFractalSide * kResultRowBytes;
    for (int64_t column = 0; column < store.num_columns; column += kFractalSide) {
      const int64_t from =
          source_base + column / kFractalSide * store.source_stride * kResultRowBytes;
      instruction.ReadLocal(source, static_cast<uint64_t>(from),
                            static_cast<uint64_t>(store.num_rows * kResultRowBytes), false);
    }
    StoreOneMatrix(&instruction, target, source, store, source_base,
                   matrix * store.target_matrix_stride);
  }
  instruction.Commit();
  for (int64_t matrix = 0; matrix < store.num_matrices; ++matrix) {
    CarryUnsetMatrix(&instruction, target, source, store,
                     matrix * store.source_matrix_stride * kFractalSide * kResultRowBytes,
                     matrix * store.target_matrix_stride);
  }
}

}  // namespace ascendc_emulation
