// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// DataCopy, DataCopyPad and ND2NZ against plain loops.

#include <algorithm>

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using namespace emulation_test;

namespace {

// A vector core with one UB buffer of 32 KB.
struct VectorScratch {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  VectorScratch() { pipe.InitBuffer(buffer, 32 * 1024); }
};

}  // namespace

EMULATION_TEST(ContiguousCopyRoundTrip) {
  const auto input = RandomFloats(1000, 1);
  std::vector<float> output(1000);
  Device device(1);
  device.RegisterInput("input", input.data(), 4000);
  device.RegisterOutput("output", output.data(), 4000);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.Get<float>();
    DataCopy(ub, Global(input), 1000);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(Global(output), ub, 1000);
  }));
  CHECK(output == input);
}

// Blocks of 16 floats out of rows of 40, to rows of 24 in UB, and back to rows of 32.
EMULATION_TEST(BlockCopyCountsGapsFromEndToBegin) {
  constexpr int kRows = 6;
  const auto input = RandomFloats(kRows * 40, 2);
  std::vector<float> output(kRows * 32, 0.0f);
  Device device(1);
  device.RegisterInput("input", input.data(), input.size() * 4);
  device.RegisterInOut("output", output.data(), output.size() * 4);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.Get<float>();
    DataCopy(ub, Global(input), DataCopyParams(kRows, 2, 3, 1));
    PipeBarrier<PIPE_ALL>();
    DataCopy(Global(output), ub, DataCopyParams(kRows, 2, 1, 2));
  }));
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < 32; ++column) {
      CHECK(output[row * 32 + column] == (column < 16 ? input[row * 40 + column] : 0.0f));
    }
  }
}

// 5 half elements from rows of 7; each block starts on its own 32 bytes; written to rows of 6.
EMULATION_TEST(PaddedCopyMovesBytes) {
  constexpr int kRows = 9;
  std::vector<half> input;
  for (const float value : RandomFloats(kRows * 7, 3)) input.push_back(half(value));
  std::vector<half> output(kRows * 6, half(0.0f));
  Device device(1);
  device.RegisterInput("input", input.data(), input.size() * 2);
  device.RegisterInOut("output", output.data(), output.size() * 2);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.Get<half>();
    DataCopyPad(ub, Global(input), DataCopyExtParams(kRows, 10, 4, 1, 0),
                DataCopyPadExtParams<half>(false, 0, 0, half(0.0f)));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(Global(output), ub, DataCopyExtParams(kRows, 10, 1, 2, 0));
  }));
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < 5; ++i) CHECK(output[row * 6 + i].bits == input[row * 7 + i].bits);
    CHECK(output[row * 6 + 5].bits == 0);
  }
}

EMULATION_TEST(PaddingValueFillsBothSides) {
  const auto input = RandomFloats(3, 4);
  std::vector<float> output(8);
  Device device(1);
  device.RegisterInput("input", input.data(), 12);
  device.RegisterOutput("output", output.data(), 32);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.Get<float>();
    DataCopyPad(ub, Global(input), DataCopyExtParams(1, 12, 0, 0, 0),
                DataCopyPadExtParams<float>(true, 2, 3, 7.0f));
    PipeBarrier<PIPE_ALL>();
    DataCopy(Global(output), ub, 8);
  }));
  const std::vector<float> expected = {7.0f, 7.0f, input[0], input[1], input[2], 7.0f, 7.0f, 7.0f};
  CHECK(output == expected);
}

EMULATION_TEST(CopyInsideUb) {
  const auto input = RandomFloats(64, 5);
  std::vector<float> output(64);
  Device device(1);
  device.RegisterInput("input", input.data(), 256);
  device.RegisterOutput("output", output.data(), 256);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.Get<float>();
    DataCopy(ub, Global(input), 64);
    PipeBarrier<PIPE_ALL>();
    DataCopy(ub[64], ub, DataCopyParams(4, 2, 0, 0));
    PipeBarrier<PIPE_ALL>();
    DataCopy(Global(output), ub[64], 64);
  }));
  CHECK(output == input);
}

EMULATION_TEST(AtomicAddSumsOverCores) {
  constexpr int kCores = 3;
  std::vector<float> output(16, 1.0f);
  std::vector<half> half_output(16, half(0.5f));
  Device device(kCores, 5);
  device.RegisterInOut("output", output.data(), 64);
  device.RegisterInOut("half_output", half_output.data(), 32);
  CHECK_CLEAN(device.Launch(
      ascendc_emulation::Kernel{[] {},
                                [&] {
                                  VectorScratch scratch;
                                  auto ub = scratch.buffer.GetWithOffset<float>(16, 0);
                                  auto ub_half = scratch.buffer.GetWithOffset<half>(16, 64);
                                  Duplicate(ub, static_cast<float>(GetBlockIdx()), 16);
                                  Duplicate(ub_half, half(0.25f), 16);
                                  SetFlag<HardEvent::V_MTE3>(0);
                                  WaitFlag<HardEvent::V_MTE3>(0);
                                  SetAtomicAdd<float>();
                                  DataCopy(Global(output), ub, 16);
                                  SetAtomicAdd<half>();
                                  DataCopy(Global(half_output), ub_half, 16);
                                  SetAtomicNone();
                                }}));
  for (int i = 0; i < 16; ++i) {
    CHECK(output[i] == 1.0f + 0 + 1 + 2 + 3 + 4 + 5);
    CHECK(float(half_output[i]) == 0.5f + 6 * 0.25f);
  }
}

EMULATION_TEST(AtomicMaxAndMin) {
  std::vector<float> highest(8, 1.0f);
  std::vector<int32_t> lowest(8, 1);
  Device device(1);
  device.RegisterInOut("highest", highest.data(), 32);
  device.RegisterInOut("lowest", lowest.data(), 32);
  CHECK_CLEAN(RunVector(&device, [&] {
    VectorScratch scratch;
    auto ub = scratch.buffer.GetWithOffset<float>(8, 0);
    auto ub_integers = scratch.buffer.GetWithOffset<int32_t>(8, 32);
    CreateVecIndex(ub, -3.0f, 8);
    CreateVecIndex(ub_integers, -3, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    SetAtomicMax<float>();
    DataCopy(Global(highest), ub, 8);
    SetAtomicMin<int32_t>();
    DataCopy(Global(lowest), ub_integers, 8);
    DisableDmaAtomic();
  }));
  for (int i = 0; i < 8; ++i) {
    CHECK(highest[i] == std::max(1.0f, static_cast<float>(i - 3)));
    CHECK(lowest[i] == std::min(1, i - 3));
  }
}

// ND2NZ, then every byte of L1 comes out through LoadData, Mmad with an identity and Fixpipe: here
// by reading the L0A image of each 16 x 16 fractal against the source.
EMULATION_TEST(NdToNzPlacesColumnsInBlocks) {
  constexpr int kRows = 20, kColumns = 40, kPitch = 50, kTargetRows = 32;
  std::vector<half> input, identity(16 * 16, half(0.0f));
  for (const float value : RandomFloats(kRows * kPitch, 6)) input.push_back(half(value));
  for (int i = 0; i < 16; ++i) identity[i * 16 + i] = half(1.0f);
  std::vector<float> output(kRows * 48, 0.0f);
  Device device(1);
  device.RegisterInput("input", input.data(), input.size() * 2);
  device.RegisterInput("identity", identity.data(), identity.size() * 2);
  device.RegisterInOut("output", output.data(), output.size() * 4);
  CHECK_CLEAN(RunCube(&device, [&] {
    TPipe pipe;
    TBuf<TPosition::A1> l1_buffer;
    TBuf<TPosition::A2> l0a_buffer;
    TBuf<TPosition::B2> l0b_buffer;
    TBuf<TPosition::CO1> l0c_buffer;
    pipe.InitBuffer(l1_buffer, 8192);
    pipe.InitBuffer(l0a_buffer, 1024);
    pipe.InitBuffer(l0b_buffer, 512);
    pipe.InitBuffer(l0c_buffer, 2048);
    auto l1 = l1_buffer.GetWithOffset<half>(2048, 0);
    auto l1_identity = l1_buffer.GetWithOffset<half>(256, 4096);
    DataCopy(l1, Global(input), Nd2NzParams(1, kRows, kColumns, 0, kPitch, kTargetRows, 1, 0));
    DataCopy(l1_identity, Global(identity), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    PipeBarrier<PIPE_ALL>();
    for (int block = 0; block < 3; ++block) {
      auto l0a = l0a_buffer.Get<half>();
      auto l0b = l0b_buffer.Get<half>();
      auto l0c = l0c_buffer.Get<float>();
      LoadData(l0a, l1[block * kTargetRows * 16], LoadData2DParams(0, 2, 1, 0, 0, false, 0));
      LoadData(l0b, l1_identity, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      PipeBarrier<PIPE_ALL>();
      Mmad(l0c, l0a, l0b, MmadParams(kRows, 16, 16, 0, false, true));
      PipeBarrier<PIPE_ALL>();
      FixpipeParamsV220 store(16, kRows, 32, 48, false);
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global(output)[block * 16], l0c, store);
      PipeBarrier<PIPE_ALL>();
    }
  }));
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < 48; ++column) {
      // Columns 40 to 47 are the zeros that fill up the last block.
      const float expected = column < kColumns ? float(input[row * kPitch + column]) : 0.0f;
      CHECK(output[row * 48 + column] == expected);
    }
  }
}
