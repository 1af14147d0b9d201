// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Deliberate faults about the cube memories: stale rows, tails, unset sums, alignment. Each kernel
// runs once as it should be (no complaint) and once with its fault (the right complaint).

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using ascendc_emulation::Report;
using namespace emulation_test;

namespace {

// A cube core with L1, L0A, L0B, L0C buffers and a matrix of 16 x 16 halves in GM.
class CubeCase {
 public:
  struct Buffers {
    LocalTensor<half> l1, l0a, l0b;
    LocalTensor<float> l0c;
  };
  using Body = std::function<void(const Buffers &)>;

  CubeCase() {
    for (const float value : RandomFloats(16 * 64, 1)) matrix.push_back(half(value));
  }

  Report Run(const Body &body) {
    Device device(1);
    device.RegisterInput("matrix", matrix.data(), matrix.size() * 2);
    device.RegisterOutput("output", output.data(), output.size() * 4);
    workspace = device.AllocateWorkspace("workspace", 16 * 16 * 4);
    return RunCube(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::A1> l1_buffer;
      TBuf<TPosition::A2> l0a_buffer;
      TBuf<TPosition::B2> l0b_buffer;
      TBuf<TPosition::CO1> l0c_buffer;
      pipe.InitBuffer(l1_buffer, 4096);
      pipe.InitBuffer(l0a_buffer, 2048);
      pipe.InitBuffer(l0b_buffer, 2048);
      pipe.InitBuffer(l0c_buffer, 4096);
      body({l1_buffer.Get<half>(), l0a_buffer.Get<half>(), l0b_buffer.Get<half>(),
            l0c_buffer.Get<float>()});
      PipeBarrier<PIPE_ALL>();
    });
  }

  std::vector<half> matrix;
  std::vector<float> output = std::vector<float>(16 * 16);
  uint8_t *workspace = nullptr;
};

// rows rows of the matrix go through L1, L0A (as A) and L0B (as B transposed) into L0C.
void MultiplyRows(CubeCase *test, const CubeCase::Buffers &buffers, uint16_t rows, uint16_t m,
                  uint16_t n) {
  DataCopy(buffers.l1, Global(test->matrix), Nd2NzParams(1, rows, 16, 0, 16, 16, 1, 0));
  PipeBarrier<PIPE_ALL>();
  LoadData(buffers.l0a, buffers.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  LoadData(buffers.l0b, buffers.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  PipeBarrier<PIPE_ALL>();
  Mmad(buffers.l0c, buffers.l0a, buffers.l0b, MmadParams(m, n, 16, 0, false, true));
  PipeBarrier<PIPE_ALL>();
}

}  // namespace

EMULATION_TEST(MisalignedCubeAddresses) {
  CubeCase load_case;
  CHECK_FAULT(load_case.Run([](const CubeCase::Buffers &b) {
    LoadData(b.l0a[16], b.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  }),
              "alignment", "destination begins at L0A byte 32, which is not a multiple of 512");
  CubeCase mmad_case;
  CHECK_FAULT(mmad_case.Run([](const CubeCase::Buffers &b) {
    Mmad(b.l0c[128], b.l0a, b.l0b, MmadParams(16, 16, 16, 0, false, true));
  }),
              "alignment", "destination begins at L0C byte 512, which is not a multiple of 1024");
  CubeCase fixpipe_case;
  CHECK_FAULT(fixpipe_case.Run([&](const CubeCase::Buffers &b) {
    Fixpipe<float, float, CFG_ROW_MAJOR>(Global(fixpipe_case.output), b.l0c[8],
                                         FixpipeParamsV220(16, 16, 16, 16, false));
  }),
              "alignment", "source begins at L0C byte 32, which is not a multiple of 64");
}

// 5 rows are copied; the product has 16. The 11 stale rows must not leave L0C for an output.
EMULATION_TEST(StaleRowsOfNdToNz) {
  for (const bool is_faulty : {false, true}) {
    CubeCase test;
    const Report report = test.Run([&](const CubeCase::Buffers &b) {
      MultiplyRows(&test, b, 5, 16, 16);
      GlobalTensor<float> gm;
      gm.SetGlobalBuffer(is_faulty ? test.output.data()
                                   : reinterpret_cast<float *>(GetUserWorkspace(test.workspace)));
      Fixpipe<float, float, CFG_ROW_MAJOR>(gm, b.l0c, FixpipeParamsV220(16, 5, 16, 16, false));
    });
    // Columns 5 to 15 come from stale rows of B; a workspace may hold them, an output may not.
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "writes row 0, column 5 of the result to 'output'");
  }
}

EMULATION_TEST(StaleLeftRowsOfNdToNz) {
  for (const bool is_faulty : {false, true}) {
    CubeCase test;
    const Report report = test.Run([&](const CubeCase::Buffers &b) {
      DataCopy(b.l1, Global(test.matrix), Nd2NzParams(1, 5, 16, 0, 16, 16, 1, 0));
      DataCopy(b.l1[256], Global(test.matrix), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
      PipeBarrier<PIPE_ALL>();
      LoadData(b.l0a, b.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(b.l0b, b.l1, LoadData2DParams(1, 1, 1, 0, 0, false, 0));
      PipeBarrier<PIPE_ALL>();
      Mmad(b.l0c, b.l0a, b.l0b, MmadParams(16, 16, 16, 0, false, true));
      PipeBarrier<PIPE_ALL>();
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global(test.output), b.l0c,
                                           FixpipeParamsV220(16, is_faulty ? 6 : 5, 16, 16, false));
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "writes row 5, column 0 of the result to 'output'");
  }
}

// k masks the tail of both operands: the stale rows of V behind k never enter a sum.
EMULATION_TEST(TailOfKIsMasked) {
  for (const bool is_faulty : {false, true}) {
    CubeCase test;
    const Report report = test.Run([&](const CubeCase::Buffers &b) {
      // 10 rows of V [k][n]; rows 10 to 15 of the fractal stay as they were.
      DataCopy(b.l1, Global(test.matrix), Nd2NzParams(1, 10, 16, 0, 16, 16, 1, 0));
      DataCopy(b.l1[256], Global(test.matrix), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
      PipeBarrier<PIPE_ALL>();
      LoadData(b.l0a, b.l1, LoadData2DParams(1, 1, 1, 0, 0, false, 0));
      LoadData(b.l0b, b.l1, LoadData2DParams(0, 1, 1, 0, 0, true, 0));
      PipeBarrier<PIPE_ALL>();
      Mmad(b.l0c, b.l0a, b.l0b, MmadParams(16, 16, is_faulty ? 11 : 10, 0, false, true));
      PipeBarrier<PIPE_ALL>();
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global(test.output), b.l0c,
                                           FixpipeParamsV220(16, 16, 16, 16, false));
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "writes row 0, column 0 of the result to 'output'");
  }
}

EMULATION_TEST(AccumulationOverUnsetL0c) {
  for (const bool is_faulty : {false, true}) {
    CubeCase test;
    const Report report = test.Run([&](const CubeCase::Buffers &b) {
      DataCopy(b.l1, Global(test.matrix), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
      PipeBarrier<PIPE_ALL>();
      LoadData(b.l0a, b.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(b.l0b, b.l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      PipeBarrier<PIPE_ALL>();
      Mmad(b.l0c, b.l0a, b.l0b, MmadParams(16, 16, 16, 0, false, !is_faulty));
      PipeBarrier<PIPE_ALL>();
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global(test.output), b.l0c,
                                           FixpipeParamsV220(16, 16, 16, 16, false));
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "writes row 0, column 0 of the result to 'output'");
  }
}
