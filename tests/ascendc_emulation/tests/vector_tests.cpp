// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Each vector instruction against plain C++, bit for bit.

#include <cmath>
#include <cstring>
#include <limits>

#include "ub_run.h"

using namespace AscendC;
using ascendc_emulation::BFloat16BitsToFloat;
using ascendc_emulation::Device;
using ascendc_emulation::FloatToBFloat16Bits;
using ascendc_emulation::FloatToHalfBits;
using ascendc_emulation::HalfBitsToFloat;
using namespace emulation_test;

namespace {

std::vector<half> ToHalf(const std::vector<float> &values) {
  return std::vector<half>(values.begin(), values.end());
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

}  // namespace

EMULATION_TEST(FloatBinaryOperations) {
  static constexpr int32_t kCount = 1000;
  const auto a = RandomFloats(kCount, 1);
  const auto b = RandomFloats(kCount, 2);
  using Case =
      std::pair<std::function<void(LocalTensor<float>, LocalTensor<float>, LocalTensor<float>)>,
                std::function<float(float, float)>>;
  const std::vector<Case> cases = {
      {[](auto r, auto x, auto y) { Add(r, x, y, kCount); },
       [](float x, float y) { return x + y; }},
      {[](auto r, auto x, auto y) { Sub(r, x, y, kCount); },
       [](float x, float y) { return x - y; }},
      {[](auto r, auto x, auto y) { Mul(r, x, y, kCount); },
       [](float x, float y) { return x * y; }},
      {[](auto r, auto x, auto y) { Div(r, x, y, kCount); },
       [](float x, float y) { return x / y; }},
      {[](auto r, auto x, auto y) { Max(r, x, y, kCount); },
       [](float x, float y) { return std::fmax(x, y); }},
      {[](auto r, auto x, auto y) { Min(r, x, y, kCount); },
       [](float x, float y) { return std::fmin(x, y); }},
      {[](auto r, auto x, auto y) { MulAddDst(r, x, y, kCount); },
       [](float x, float y) { return x * y + 0.25f; }},
  };
  for (const Case &test : cases) {
    UbRun<float, float> run(a, b, kCount);
    const auto result = run.Run([&](auto r, auto x, auto y, auto) { test.first(r, x, y); }, 0.25f);
    for (int32_t i = 0; i < kCount; ++i) CHECK(SameBits(result[i], test.second(a[i], b[i])));
  }
}

EMULATION_TEST(FloatUnaryAndScalarOperations) {
  static constexpr int32_t kCount = 777;
  auto a = RandomFloats(kCount, 3);
  a[0] = -std::numeric_limits<float>::infinity();
  using Case = std::pair<std::function<void(LocalTensor<float>, LocalTensor<float>)>,
                         std::function<float(float)>>;
  const std::vector<Case> cases = {
      {[](auto r, auto x) { Exp(r, x, kCount); }, [](float x) { return std::exp(x); }},
      {[](auto r, auto x) { Abs(r, x, kCount); }, [](float x) { return std::fabs(x); }},
      {[](auto r, auto x) { Relu(r, x, kCount); }, [](float x) { return x > 0.0f ? x : 0.0f; }},
      {[](auto r, auto x) { Reciprocal(r, x, kCount); }, [](float x) { return 1.0f / x; }},
      {[](auto r, auto x) { Adds(r, x, 1.5f, kCount); }, [](float x) { return x + 1.5f; }},
      {[](auto r, auto x) { Muls(r, x, 0.3f, kCount); }, [](float x) { return x * 0.3f; }},
      {[](auto r, auto x) { Maxs(r, x, 0.1f, kCount); },
       [](float x) { return x > 0.1f ? x : 0.1f; }},
      {[](auto r, auto x) { Mins(r, x, 0.1f, kCount); },
       [](float x) { return x < 0.1f ? x : 0.1f; }},
      {[](auto r, auto x) { LeakyRelu(r, x, 0.5f, kCount); },
       [](float x) { return x >= 0.0f ? x : x * 0.5f; }},
      {[](auto r, auto x) { Axpy(r, x, 2.0f, kCount); }, [](float x) { return x * 2.0f + 0.5f; }},
  };
  for (const Case &test : cases) {
    UbRun<float, float> run(a, {}, kCount);
    const auto result = run.Run([&](auto r, auto x, auto, auto) { test.first(r, x); }, 0.5f);
    for (int32_t i = 0; i < kCount; ++i) CHECK(SameBits(result[i], test.second(a[i])));
  }
  for (float &value : a) value = std::fabs(value);
  a[0] = 0.0f;
  UbRun<float, float> log_run(a, {}, kCount);
  const auto log_result = log_run.Run([&](auto r, auto x, auto, auto) { Ln(r, x, kCount); });
  UbRun<float, float> sqrt_run(a, {}, kCount);
  const auto sqrt_result = sqrt_run.Run([&](auto r, auto x, auto, auto) { Sqrt(r, x, kCount); });
  UbRun<float, float> rsqrt_run(a, {}, kCount);
  const auto rsqrt_result = rsqrt_run.Run([&](auto r, auto x, auto, auto) { Rsqrt(r, x, kCount); });
  for (int32_t i = 0; i < kCount; ++i) {
    CHECK(SameBits(log_result[i], std::log(a[i])));
    CHECK(SameBits(sqrt_result[i], std::sqrt(a[i])));
    CHECK(SameBits(rsqrt_result[i], 1.0f / std::sqrt(a[i])));
  }
}

EMULATION_TEST(HalfOperationsRoundOnce) {
  static constexpr int32_t kCount = 500;
  const auto a = ToHalf(RandomFloats(kCount, 4));
  const auto b = ToHalf(RandomFloats(kCount, 5));
  UbRun<half, half> add_run(a, b, kCount);
  const auto sums = add_run.Run([](auto r, auto x, auto y, auto) { Add(r, x, y, kCount); });
  UbRun<half, half> mul_run(a, b, kCount);
  const auto products = mul_run.Run([](auto r, auto x, auto y, auto) { Mul(r, x, y, kCount); });
  UbRun<half, half> div_run(a, b, kCount);
  const auto quotients = div_run.Run([](auto r, auto x, auto y, auto) { Div(r, x, y, kCount); });
  for (int32_t i = 0; i < kCount; ++i) {
    const double x = float(a[i]), y = float(b[i]);
    CHECK(sums[i].bits == FloatToHalfBits(static_cast<float>(x + y)));
    CHECK(products[i].bits == FloatToHalfBits(static_cast<float>(x * y)));
    CHECK(quotients[i].bits == FloatToHalfBits(static_cast<float>(x / y)));
  }
}

EMULATION_TEST(IntegerOperations) {
  static constexpr int32_t kCount = 300;
  std::vector<int32_t> a, b;
  for (int32_t i = 0; i < kCount; ++i) {
    a.push_back(i * 7919 - 1000000);
    b.push_back(31 - i);
  }
  UbRun<int32_t, int32_t> mul_run(a, b, kCount);
  const auto products = mul_run.Run([](auto r, auto x, auto y, auto) { Mul(r, x, y, kCount); });
  UbRun<int32_t, int32_t> shift_run(a, {}, kCount);
  const auto shifted =
      shift_run.Run([](auto r, auto x, auto, auto) { ShiftRight(r, x, 3, kCount); });
  UbRun<int32_t, int32_t> adds_run(a, {}, kCount);
  const auto added = adds_run.Run([](auto r, auto x, auto, auto) { Adds(r, x, -17, kCount); });
  std::vector<uint16_t> c, d;
  for (int32_t i = 0; i < kCount; ++i) {
    c.push_back(static_cast<uint16_t>(i * 911));
    d.push_back(static_cast<uint16_t>(i * 37));
  }
  UbRun<uint16_t, uint16_t> and_run(c, d, kCount);
  const auto ands = and_run.Run([](auto r, auto x, auto y, auto) { And(r, x, y, kCount); });
  UbRun<uint16_t, uint16_t> or_run(c, d, kCount);
  const auto ors = or_run.Run([](auto r, auto x, auto y, auto) { Or(r, x, y, kCount); });
  UbRun<uint16_t, uint16_t> not_run(c, {}, kCount);
  const auto nots = not_run.Run([](auto r, auto x, auto, auto) { Not(r, x, kCount); });
  for (int32_t i = 0; i < kCount; ++i) {
    CHECK(products[i] == static_cast<int32_t>(static_cast<int64_t>(a[i]) * b[i]));
    CHECK(shifted[i] == a[i] >> 3);
    CHECK(added[i] == a[i] - 17);
    CHECK(ands[i] == (c[i] & d[i]));
    CHECK(ors[i] == (c[i] | d[i]));
    CHECK(nots[i] == static_cast<uint16_t>(~c[i]));
  }
}

// Rows of 96 floats, 80 of them used: 2 repeats of 64 and 16 in each row; row strides of 12 blocks.
EMULATION_TEST(RepeatStridesAndMasks) {
  static constexpr int kRows = 5, kPitch = 96;
  const auto a = RandomFloats(kRows * kPitch, 6);
  UbRun<float, float> run(a, {}, kRows * kPitch);
  const auto result = run.Run(
      [](auto r, auto x, auto, auto) {
        Muls(r, x, 2.0f, uint64_t{64}, kRows, UnaryRepeatParams(1, 1, 12, 12));
        Muls(r[64], x[64], 2.0f, uint64_t{16}, kRows, UnaryRepeatParams(1, 1, 12, 12));
      },
      -1.0f);
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kPitch; ++column) {
      const float expected = column < 80 ? a[row * kPitch + column] * 2.0f : -1.0f;
      CHECK(result[row * kPitch + column] == expected);
    }
  }
}

// One value per row, broadcast by Brcb to a block, subtracted from each row of 128.
EMULATION_TEST(BrcbAndBlockBroadcast) {
  static constexpr int kRows = 16, kColumns = 128;
  const auto a = RandomFloats(kRows * kColumns, 7);
  const auto row_values = RandomFloats(kRows, 8);
  UbRun<float, float> run(a, row_values, kRows * kColumns);
  const auto result = run.Run([](auto r, auto x, auto values, auto blocks) {
    Brcb(blocks, values, 2, BrcbRepeatParams(1, 8));
    PipeBarrier<PIPE_V>();
    for (uint32_t part = 0; part < 2; ++part) {
      Sub(r[part * 64], x[part * 64], blocks, uint64_t{64}, kRows,
          BinaryRepeatParams(1, 1, 0, 16, 16, 1));
    }
  });
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      CHECK(result[row * kColumns + column] == a[row * kColumns + column] - row_values[row]);
    }
  }
}

EMULATION_TEST(BitMaskTouchesOnlyItsElements) {
  UbRun<float, float> run({}, {}, 128);
  const auto result = run.Run(
      [](auto r, auto, auto, auto) {
        const uint64_t mask[2] = {0xf0f0000000000001ull, 0};
        Duplicate(r, 3.0f, mask, 2, 1, 8);
      },
      0.0f);
  for (int i = 0; i < 128; ++i) {
    CHECK(result[i] == ((0xf0f0000000000001ull >> (i % 64) & 1) != 0 ? 3.0f : 0.0f));
  }
}

EMULATION_TEST(CounterModeAndMaskRegister) {
  UbRun<float, float> run(RandomFloats(256, 9), {}, 256);
  const auto result = run.Run(
      [](auto r, auto, auto, auto) {
        SetMaskCount();
        SetVectorMask<float, MaskMode::COUNTER>(0, 100);
        Duplicate<float, false>(r, 1.0f, MASK_PLACEHOLDER, 1, 1, 8);
        SetMaskNorm();
        SetVectorMask<float>(0, 0xff);
        Duplicate<float, false>(r[128], 2.0f, MASK_PLACEHOLDER, 1, 1, 8);
        ResetMask();
        Duplicate<float, false>(r[192], 4.0f, MASK_PLACEHOLDER, 1, 1, 8);
      },
      0.0f);
  for (int i = 0; i < 256; ++i) {
    const float expected = i < 100 ? 1.0f : i >= 128 && i < 136 ? 2.0f : i >= 192 ? 4.0f : 0.0f;
    CHECK(result[i] == expected);
  }
}

EMULATION_TEST(CastBetweenFloatAndSixteenBits) {
  static constexpr uint32_t kCount = 333;
  const auto a = RandomFloats(kCount, 10);
  UbRun<half, float> half_run(a, {}, kCount);
  const auto halves =
      half_run.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_RINT, kCount); });
  UbRun<bfloat16_t, float> bf16_run(a, {}, kCount);
  const auto bf16s =
      bf16_run.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_RINT, kCount); });
  UbRun<float, half> back_run(halves, {}, kCount);
  const auto from_half =
      back_run.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_NONE, kCount); });
  UbRun<float, bfloat16_t> bf16_back(bf16s, {}, kCount);
  const auto from_bf16 =
      bf16_back.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_NONE, kCount); });
  for (uint32_t i = 0; i < kCount; ++i) {
    CHECK(halves[i].bits == FloatToHalfBits(a[i]));
    CHECK(bf16s[i].bits == FloatToBFloat16Bits(a[i]));
    CHECK(from_half[i] == HalfBitsToFloat(halves[i].bits));
    CHECK(from_bf16[i] == BFloat16BitsToFloat(bf16s[i].bits));
  }
}

// NaN, infinity and what rounds to it stay as they are only after SetOverflow(1).
EMULATION_TEST(CastSaturatesUnlessToldNotTo) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 1e30f, 1.5f};
  const auto halves = [&a](uint64_t mode) {
    return UbRun<half, float>(a, {}, 16).Run([mode](auto r, auto x, auto, auto) {
      AscendCUtils::SetOverflow(mode);
      Cast(r, x, RoundMode::CAST_RINT, 5u);
    });
  };
  const auto saturated = halves(0), kept = halves(1);
  const float expected[] = {65504.0f, -65504.0f, 0.0f, 65504.0f, 1.5f};
  for (int i = 0; i < 5; ++i) CHECK(float(saturated[i]) == expected[i]);
  CHECK(float(kept[0]) == inf && float(kept[1]) == -inf && std::isnan(float(kept[2])));
  CHECK(float(kept[3]) == inf && float(kept[4]) == 1.5f);
  UbRun<bfloat16_t, float> run(a, {}, 16);
  const auto at_start =
      run.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_RINT, 5u); });
  CHECK(at_start[0].bits == 0x7f7f && at_start[1].bits == 0xff7f && at_start[2].bits == 0);
}

// 64 elements a repeat: 8 blocks of float, 4 blocks of half, each with its own strides.
EMULATION_TEST(CastWithRepeatStrides) {
  static constexpr int kRows = 3;
  const auto a = RandomFloats(kRows * 128, 11);
  UbRun<half, float> run(a, {}, kRows * 80);
  const auto result = run.Run(
      [](auto r, auto x, auto, auto) {
        Cast(r, x, RoundMode::CAST_RINT, uint64_t{64}, kRows, UnaryRepeatParams(1, 1, 5, 16));
      },
      half(9.0f));
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < 80; ++column) {
      const uint16_t expected =
          column < 64 ? FloatToHalfBits(a[row * 128 + column]) : half(9.0f).bits;
      CHECK(result[row * 80 + column].bits == expected);
    }
  }
}

EMULATION_TEST(CastToIntegers) {
  const std::vector<float> a = {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 2.7f, -2.7f,
                                3e9f,  -3e9f, 0.0f,  1.0f, 7.0f, 8.0f, 9.0f, 10.0f};
  const std::vector<std::pair<RoundMode, std::vector<int32_t>>> cases = {
      {RoundMode::CAST_RINT, {-2, -2, 0, 0, 2, 2, 3, -3}},
      {RoundMode::CAST_FLOOR, {-3, -2, -1, 0, 1, 2, 2, -3}},
      {RoundMode::CAST_CEIL, {-2, -1, 0, 1, 2, 3, 3, -2}},
      {RoundMode::CAST_ROUND, {-3, -2, -1, 1, 2, 3, 3, -3}},
      {RoundMode::CAST_TRUNC, {-2, -1, 0, 0, 1, 2, 2, -2}}};
  for (const auto &[mode, expected] : cases) {
    UbRun<int32_t, float> run(a, {}, 16);
    const RoundMode used = mode;
    const auto result = run.Run([used](auto r, auto x, auto, auto) { Cast(r, x, used, 16u); });
    for (size_t i = 0; i < expected.size(); ++i) CHECK(result[i] == expected[i]);
    CHECK(result[8] == std::numeric_limits<int32_t>::max());
    CHECK(result[9] == std::numeric_limits<int32_t>::min());
  }
  const std::vector<int32_t> integers = {-5, 0, 16777217, 8, 1, 2, 3, 4};
  UbRun<float, int32_t> back(integers, {}, 8);
  const auto floats =
      back.Run([](auto r, auto x, auto, auto) { Cast(r, x, RoundMode::CAST_RINT, 8u); });
  for (size_t i = 0; i < 8; ++i) CHECK(floats[i] == static_cast<float>(integers[i]));
}

EMULATION_TEST(CreateIndexAndGather) {
  UbRun<int32_t, float> index_run({}, {}, 100);
  const auto indices = index_run.Run([](auto r, auto, auto, auto) { CreateVecIndex(r, 5, 100u); });
  for (int i = 0; i < 100; ++i) CHECK(indices[i] == 5 + i);
  const auto a = RandomFloats(64, 12);
  UbRun<float, float> run(a, {}, 64);
  const auto result = run.Run([](auto r, auto x, auto, auto offsets) {
    auto offset_bytes = offsets.template ReinterpretCast<uint32_t>();
    auto integers = offsets.template ReinterpretCast<int32_t>();
    CreateVecIndex(integers, 0, 64u);
    PipeBarrier<PIPE_V>();
    Muls(integers, integers, -4, 64);
    PipeBarrier<PIPE_V>();
    Adds(integers, integers, 63 * 4, 64);
    PipeBarrier<PIPE_V>();
    Gather(r, x, offset_bytes, 0, 64);
  });
  for (int i = 0; i < 64; ++i) CHECK(result[i] == a[63 - i]);
}

EMULATION_TEST(ShiftLeftAndMixedAxpy) {
  std::vector<uint32_t> a;
  for (uint32_t i = 0; i < 100; ++i) a.push_back(i * 0x01234567u);
  UbRun<uint32_t, uint32_t> shift_run(a, {}, 100);
  const auto shifted =
      shift_run.Run([](auto r, auto x, auto, auto) { ShiftLeft(r, x, uint32_t{5}, 100); });
  for (uint32_t i = 0; i < 100; ++i) CHECK(shifted[i] == a[i] << 5);
  const auto b = ToHalf(RandomFloats(64, 21));
  UbRun<float, half> axpy_run(b, {}, 64);
  const auto sums = axpy_run.Run(
      [](auto r, auto x, auto, auto) {
        Axpy(r, x, half(0.3f), uint64_t{64}, 1, UnaryRepeatParams(1, 1, 8, 4));
      },
      2.0f);
  for (int i = 0; i < 64; ++i) CHECK(sums[i] == float(b[i]) * float(half(0.3f)) + 2.0f);
}

EMULATION_TEST(BinaryAndUnaryWithBitMasks) {
  static constexpr uint64_t kMask[2] = {0x00ff00ff00ff00ffull, 0};
  const auto a = RandomFloats(128, 22);
  const auto b = RandomFloats(128, 23);
  UbRun<float, float> add_run(a, b, 128);
  const auto sums =
      add_run.Run([](auto r, auto x, auto y,
                     auto) { Add(r, x, y, kMask, 2, BinaryRepeatParams(1, 1, 1, 8, 8, 8)); },
                  7.0f);
  UbRun<float, float> exp_run(a, {}, 128);
  const auto exponentials = exp_run.Run(
      [](auto r, auto x, auto, auto) { Exp(r, x, kMask, 2, UnaryRepeatParams(1, 1, 8, 8)); }, 7.0f);
  UbRun<float, float> copy_run(a, {}, 128);
  const auto copies = copy_run.Run(
      [](auto r, auto x, auto, auto) { Copy(r, x, kMask, 2, CopyRepeatParams(1, 1, 8, 8)); }, 7.0f);
  for (int i = 0; i < 128; ++i) {
    const bool takes_part = (kMask[0] >> (i % 64) & 1) != 0;
    CHECK(sums[i] == (takes_part ? a[i] + b[i] : 7.0f));
    CHECK(exponentials[i] == (takes_part ? std::exp(a[i]) : 7.0f));
    CHECK(copies[i] == (takes_part ? a[i] : 7.0f));
  }
}
