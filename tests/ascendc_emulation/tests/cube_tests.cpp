// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Mmad, LoadData and Fixpipe against plain double loops.

#include <cmath>
#include <cstring>
#include <limits>

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::BFloat16BitsToFloat;
using ascendc_emulation::Device;
using ascendc_emulation::FloatToBFloat16Bits;
using ascendc_emulation::FloatToHalfBits;
using namespace emulation_test;

namespace {

uint32_t RoundUp16(uint32_t value) { return (value + 15) / 16 * 16; }

template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, half>)
    return half(value);
  else
    return ToBfloat16(value);
}
template <typename T>
float AsFloat(T value) {
  if constexpr (std::is_same_v<T, half>)
    return float(value);
  else
    return ToFloat(value);
}

struct Shape {
  uint32_t m, n, k;
};

// C = A [m][k] . B, with B stored [n][k] (b_is_transposed, K of attention) or [k][n] (V of
// attention).
template <typename T, typename Result>
class MatrixRun {
 public:
  MatrixRun(Shape shape, bool b_is_transposed)
      : shape_(shape), b_is_transposed_(b_is_transposed), result_(shape.m * RoundUp16(shape.n)) {
    for (const float value : RandomFloats(shape.m * shape.k, 1)) a_.push_back(FromFloat<T>(value));
    for (const float value : RandomFloats(shape.n * shape.k, 2)) b_.push_back(FromFloat<T>(value));
  }

  // num_parts: the product is accumulated over that many equal parts of k.
  void Run(uint32_t num_parts, QuantMode_t quant, uint64_t overflow_mode = 0) {
    Device device(1);
    device.RegisterInput("a", a_.data(), a_.size() * sizeof(T));
    device.RegisterInput("b", b_.data(), b_.size() * sizeof(T));
    // A workspace keeps the columns that pad n unset without a complaint.
    uint8_t *workspace = device.AllocateWorkspace("result", result_.size() * sizeof(Result));
    CHECK_CLEAN(RunCube(&device, [&] {
      AscendCUtils::SetOverflow(overflow_mode);
      Compute(num_parts, quant, workspace);
    }));
    std::memcpy(result_.data(), workspace + 16 * 1024 * 1024, result_.size() * sizeof(Result));
  }

  void SetLeft(uint32_t row, uint32_t column, float value) {
    a_[row * shape_.k + column] = FromFloat<T>(value);
  }

  double Expected(uint32_t row, uint32_t column) const {
    double sum = 0.0;
    for (uint32_t i = 0; i < shape_.k; ++i) {
      const T b = b_is_transposed_ ? b_[column * shape_.k + i] : b_[i * shape_.n + column];
      sum += static_cast<double>(AsFloat(a_[row * shape_.k + i])) * AsFloat(b);
    }
    return sum;
  }
  Result At(uint32_t row, uint32_t column) const {
    return result_[row * RoundUp16(shape_.n) + column];
  }

 private:
  void LoadPart(const LocalTensor<T> &l1_a, const LocalTensor<T> &l1_b, uint32_t first_k,
                uint32_t part_k) {
    const uint32_t m16 = RoundUp16(shape_.m), n16 = RoundUp16(shape_.n);
    DataCopy(l1_a, Global(a_)[first_k], Nd2NzParams(1, shape_.m, part_k, 0, shape_.k, m16, 1, 0));
    if (b_is_transposed_) {
      DataCopy(l1_b, Global(b_)[first_k], Nd2NzParams(1, shape_.n, part_k, 0, shape_.k, n16, 1, 0));
    } else {
      const uint32_t k16 = RoundUp16(part_k);
      DataCopy(l1_b, Global(b_)[first_k * shape_.n],
               Nd2NzParams(1, part_k, shape_.n, 0, shape_.n, k16, 1, 0));
    }
  }

  void LoadL0(const LocalTensor<T> &l0a, const LocalTensor<T> &l0b, const LocalTensor<T> &l1_a,
              const LocalTensor<T> &l1_b, uint32_t part_k) {
    const uint32_t m16 = RoundUp16(shape_.m), n16 = RoundUp16(shape_.n), k16 = RoundUp16(part_k);
    for (uint32_t row = 0; row < m16 / 16; ++row) {
      LoadData(l0a[row * 16 * k16], l1_a[row * 256],
               LoadData2DParams(0, k16 / 16, m16 / 16, 0, 0, false, 0));
    }
    if (b_is_transposed_) {
      LoadData(l0b, l1_b, LoadData2DParams(0, n16 * k16 / 256, 1, 0, 0, false, 0));
    } else {
      // L1 holds column blocks of n; L0B wants row blocks of k, each fractal transposed.
      for (uint32_t k = 0; k < k16 / 16; ++k) {
        LoadData(l0b[k * n16 * 16], l1_b[k * 256],
                 LoadData2DParams(0, n16 / 16, k16 / 16, 0, 0, true, 0));
      }
    }
  }

  void Compute(uint32_t num_parts, QuantMode_t quant, uint8_t *workspace) {
    TPipe pipe;
    TBuf<TPosition::A1> a1;
    TBuf<TPosition::B1> b1;
    TBuf<TPosition::A2> a2;
    TBuf<TPosition::B2> b2;
    TBuf<TPosition::CO1> c1;
    pipe.InitBuffer(a1, 128 * 1024);
    pipe.InitBuffer(b1, 128 * 1024);
    pipe.InitBuffer(a2, 64 * 1024);
    pipe.InitBuffer(b2, 64 * 1024);
    pipe.InitBuffer(c1, 128 * 1024);
    auto l1_a = a1.Get<T>();
    auto l1_b = b1.Get<T>();
    auto l0c = c1.Get<float>();
    const uint32_t part_k = shape_.k / num_parts;
    for (uint32_t part = 0; part < num_parts; ++part) {
      LoadPart(l1_a, l1_b, part * part_k, part_k);
      PipeBarrier<PIPE_ALL>();
      LoadL0(a2.Get<T>(), b2.Get<T>(), l1_a, l1_b, part_k);
      PipeBarrier<PIPE_ALL>();
      Mmad(l0c, a2.Get<T>(), b2.Get<T>(),
           MmadParams(shape_.m, shape_.n, part_k, 0, false, part == 0));
      PipeBarrier<PIPE_ALL>();
    }
    GlobalTensor<Result> gm;
    gm.SetGlobalBuffer(reinterpret_cast<Result *>(GetUserWorkspace(workspace)));
    FixpipeParamsV220 store(RoundUp16(shape_.n), shape_.m, RoundUp16(shape_.m), RoundUp16(shape_.n),
                            false);
    store.quantPre = quant;
    Fixpipe<Result, float, CFG_ROW_MAJOR>(gm, l0c, store);
  }

  Shape shape_;
  bool b_is_transposed_;
  std::vector<T> a_, b_;
  std::vector<Result> result_;
};

const std::vector<Shape> kShapes = {{16, 16, 16},  {2, 16, 16},  {17, 33, 20}, {128, 128, 64},
                                    {15, 200, 48}, {100, 7, 96}, {32, 16, 1},  {48, 96, 144}};

template <typename T>
void CheckProducts(bool b_is_transposed) {
  for (const Shape &shape : kShapes) {
    MatrixRun<T, float> run(shape, b_is_transposed);
    run.Run(1, NoQuant);
    for (uint32_t row = 0; row < shape.m; ++row) {
      for (uint32_t column = 0; column < shape.n; ++column) {
        // Float accumulation of k products of magnitude below 1.
        const double tolerance = shape.k * 1.2e-7 * 2;
        CHECK(std::fabs(run.At(row, column) - run.Expected(row, column)) <= tolerance);
      }
    }
  }
}

}  // namespace

EMULATION_TEST(HalfProductWithStoredTranspose) { CheckProducts<half>(true); }
EMULATION_TEST(HalfProductWithTransposedLoad) { CheckProducts<half>(false); }
EMULATION_TEST(BFloat16ProductWithStoredTranspose) { CheckProducts<bfloat16_t>(true); }
EMULATION_TEST(BFloat16ProductWithTransposedLoad) { CheckProducts<bfloat16_t>(false); }

EMULATION_TEST(AccumulationOverPartsOfK) {
  MatrixRun<half, float> run({40, 50, 96}, true);
  run.Run(3, NoQuant);
  for (uint32_t row = 0; row < 40; ++row) {
    for (uint32_t column = 0; column < 50; ++column) {
      CHECK(std::fabs(run.At(row, column) - run.Expected(row, column)) < 96 * 2.4e-7);
    }
  }
}

// The conversion on the way out is one rounding of the float result.
EMULATION_TEST(FixpipeConvertsToSixteenBits) {
  const Shape shape{20, 32, 64};
  MatrixRun<half, float> exact(shape, true);
  exact.Run(1, NoQuant);
  MatrixRun<half, half> to_half(shape, true);
  to_half.Run(1, F322F16);
  MatrixRun<half, bfloat16_t> to_bf16(shape, true);
  to_bf16.Run(1, F322BF16);
  for (uint32_t row = 0; row < shape.m; ++row) {
    for (uint32_t column = 0; column < shape.n; ++column) {
      CHECK(to_half.At(row, column).bits == FloatToHalfBits(exact.At(row, column)));
      CHECK(to_bf16.At(row, column).bits == FloatToBFloat16Bits(exact.At(row, column)));
    }
  }
}

// Two filled fractals, the second loaded by LoadDataWithTranspose; ReLU leaves positive sums alone.
EMULATION_TEST(FillSetsL1) {
  std::vector<float> output(16 * 16);
  Device device(1);
  device.RegisterOutput("output", output.data(), output.size() * 4);
  CHECK_CLEAN(RunCube(&device, [&] {
    TPipe pipe;
    TBuf<TPosition::A1> l1_buffer;
    TBuf<TPosition::A2> l0a_buffer;
    TBuf<TPosition::B2> l0b_buffer;
    TBuf<TPosition::CO1> l0c_buffer;
    pipe.InitBuffer(l1_buffer, 1024);
    pipe.InitBuffer(l0a_buffer, 512);
    pipe.InitBuffer(l0b_buffer, 512);
    pipe.InitBuffer(l0c_buffer, 1024);
    Fill(l1_buffer.Get<half>(), InitConstValueParams<half>(2, 16, 0, half(0.5f)));
    PipeBarrier<PIPE_ALL>();
    LoadData(l0a_buffer.Get<half>(), l1_buffer.Get<half>(),
             LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadDataWithTranspose(l0b_buffer.Get<half>(), l1_buffer.Get<half>(),
                          LoadData2dTransposeParams(1, 1, 1, 0, 0));
    PipeBarrier<PIPE_ALL>();
    Mmad(l0c_buffer.Get<float>(), l0a_buffer.Get<half>(), l0b_buffer.Get<half>(),
         MmadParams(16, 16, 16, 0, false, true));
    PipeBarrier<PIPE_ALL>();
    Fixpipe<float, float, CFG_ROW_MAJOR>(Global(output), l0c_buffer.Get<float>(),
                                         FixpipeParamsV220(16, 16, 16, 16, true));
  }));
  for (const float value : output) CHECK(value == 4.0f);
}

// NaN in one row of the left matrix, infinity in another: in Mmad's sums they stay as they are only
// after SetOverflow(1).
EMULATION_TEST(MmadSaturatesUnlessToldNotTo) {
  for (const uint64_t mode : {0, 1}) {
    MatrixRun<half, float> run({20, 16, 32}, true);
    run.SetLeft(3, 7, std::numeric_limits<float>::quiet_NaN());
    run.SetLeft(18, 0, std::numeric_limits<float>::infinity());
    run.Run(2, NoQuant, mode);
    for (uint32_t column = 0; column < 16; ++column) {
      const float of_nan = run.At(3, column), of_infinity = run.At(18, column);
      CHECK(mode == 1 ? std::isnan(of_nan) : std::isfinite(of_nan));
      CHECK(mode == 1 ? std::isinf(of_infinity)
                      : std::fabs(of_infinity) == std::numeric_limits<float>::max());
      CHECK(std::isfinite(run.At(4, column)));
    }
  }
}
