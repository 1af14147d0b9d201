// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Deliberate faults about memory: bounds, alignment, capacity, unset data. Each kernel runs once as
// it should be (no complaint) and once with its fault (the right complaint).

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using ascendc_emulation::Report;
using namespace emulation_test;

namespace {

// One vector core with an input and an output of 64 floats and 4 KB of UB.
class VectorCase {
 public:
  using Body = std::function<void(LocalTensor<float>)>;

  Report Run(const Body &body) {
    Device device(1);
    device.RegisterInput("input", input.data(), input.size() * 4);
    device.RegisterOutput("output", output.data(), output.size() * 4);
    workspace = device.AllocateWorkspace("workspace", 256);
    return RunVector(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::VECCALC> buffer;
      pipe.InitBuffer(buffer, 4096);
      body(buffer.Get<float>());
      PipeBarrier<PIPE_ALL>();
    });
  }

  std::vector<float> input = RandomFloats(64, 1);
  std::vector<float> output = std::vector<float>(64);
  uint8_t *workspace = nullptr;
};

}  // namespace

EMULATION_TEST(ReadOfUnsetUb) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      Duplicate(ub, 1.0f, is_faulty ? 56 : 64);
      PipeBarrier<PIPE_V>();
      Adds(ub[64], ub, 1.0f, 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data",
                  "AIV 0 (AI core 0, vector 0), pipe V, Adds #3: unset "
                  "data: computes with UB byte 224");
  }
}

EMULATION_TEST(ComputationOnUnsetGm) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      DataCopy(ub, is_faulty ? Global(test.output) : Global(test.input), 64);
      PipeBarrier<PIPE_ALL>();
      Adds(ub, ub, 1.0f, 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "pipe V, Adds");
  }
}

EMULATION_TEST(ScalarReadOfUnsetGm) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float>) { Global(test.output).GetValue(3); }), "unset data",
              "reads GM 'output' byte 12, which was never written");
}

EMULATION_TEST(UnsetUbReachesAnOutput) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      Duplicate(ub, 1.0f, 64);
      PipeBarrier<PIPE_ALL>();
      DataCopy(Global(test.output), is_faulty ? ub[8] : ub, 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "pipe MTE3, DataCopy");
  }
}

// The tail of a padded block is not defined by the copy.
EMULATION_TEST(TailOfPaddedBlock) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      DataCopyPad(ub, Global(test.input), DataCopyExtParams(1, 20, 0, 0, 0),
                  DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
      PipeBarrier<PIPE_ALL>();
      Adds(ub, ub, 1.0f, is_faulty ? 6 : 5);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unset data", "UB byte 20");
  }
}

EMULATION_TEST(ReadPastTheEndOfGm) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run(
        [&](LocalTensor<float> ub) { DataCopy(ub, Global(test.input)[is_faulty ? 57 : 56], 8); });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "out of range",
                  "reads 32 bytes of GM at byte 228 after the begin of "
                  "'input', which has 256 bytes");
  }
}

EMULATION_TEST(WritePastTheEndOfGm) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) {
    Duplicate(ub, 1.0f, 128);
    PipeBarrier<PIPE_ALL>();
    DataCopy(Global(test.output), ub, 72);
  }),
              "out of range", "writes 288 bytes of GM at byte 0 after the begin of 'output'");
}

EMULATION_TEST(FrameworkPartOfTheWorkspace) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      Duplicate(ub, 1.0f, 64);
      PipeBarrier<PIPE_ALL>();
      GlobalTensor<float> gm;
      gm.SetGlobalBuffer(
          reinterpret_cast<float *>(is_faulty ? test.workspace : GetUserWorkspace(test.workspace)));
      DataCopy(gm, ub, 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "out of range", "writes 256 bytes of GM");
  }
}

EMULATION_TEST(WriteToAnInput) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) {
    Duplicate(ub, 1.0f, 64);
    PipeBarrier<PIPE_ALL>();
    DataCopy(Global(test.input), ub, 64);
  }),
              "write to input", "writes GM 'input' bytes [0, 256)");
}

EMULATION_TEST(VectorInstructionPastItsBuffer) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run(
        [&](LocalTensor<float> ub) { Duplicate(ub[1024 - 64], 1.0f, is_faulty ? 65 : 64); });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "out of range", "touches UB bytes [3840, 4100), the buffer ends at 4096");
  }
}

EMULATION_TEST(RepeatStridePastItsBuffer) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) { Duplicate(ub, 1.0f, uint64_t{64}, 17, 1, 8); }),
              "out of range", "the buffer ends at 4096");
}

EMULATION_TEST(SliceBeginsPastItsBuffer) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) { ub[1025].GetSize(); }), "out of range",
              "LocalTensor[1025] begins past its buffer of 4096 bytes");
}

EMULATION_TEST(PartOfABufferPastItsEnd) {
  Device device(1);
  CHECK_FAULT(RunVector(&device,
                        [] {
                          TPipe pipe;
                          TBuf<TPosition::VECCALC> buffer;
                          pipe.InitBuffer(buffer, 1024);
                          buffer.GetWithOffset<float>(200, 256);
                        }),
              "out of range", "TBuf::Get of [256, 1056) in a buffer of 1024 bytes");
}

EMULATION_TEST(UbCapacity) {
  for (const bool is_faulty : {false, true}) {
    Device device(1);
    const Report report = RunVector(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::VECCALC> first, second;
      pipe.InitBuffer(first, 128 * 1024);
      pipe.InitBuffer(second, 64 * 1024 - (is_faulty ? 0 : 256));
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "capacity", "UB buffers of 196608 bytes, the memory has 196352");
  }
}

EMULATION_TEST(CubeMemoryCapacities) {
  const auto reserve = [](auto position, uint32_t bytes) {
    Device device(1);
    return RunCube(&device, [&] {
      TPipe pipe;
      TBuf<decltype(position)::value> buffer;
      pipe.InitBuffer(buffer, bytes);
    });
  };
  using A1 = std::integral_constant<TPosition, TPosition::A1>;
  using A2 = std::integral_constant<TPosition, TPosition::A2>;
  using B2 = std::integral_constant<TPosition, TPosition::B2>;
  using C1 = std::integral_constant<TPosition, TPosition::CO1>;
  CHECK_CLEAN(reserve(A1{}, 512 * 1024 - 256));
  CHECK_FAULT(reserve(A1{}, 512 * 1024), "capacity", "L1 buffers of 524288 bytes");
  CHECK_CLEAN(reserve(A2{}, 64 * 1024));
  CHECK_FAULT(reserve(A2{}, 64 * 1024 + 32), "capacity", "L0A buffers");
  CHECK_FAULT(reserve(B2{}, 64 * 1024 + 32), "capacity", "L0B buffers");
  CHECK_CLEAN(reserve(C1{}, 128 * 1024));
  CHECK_FAULT(reserve(C1{}, 128 * 1024 + 32), "capacity", "L0C buffers");
}

EMULATION_TEST(TooManyBuffers) {
  const auto reserve = [](int count) {
    Device device(1);
    return RunVector(&device, [count] {
      TPipe pipe;
      TBuf<TPosition::VECCALC> buffer;
      for (int i = 0; i < count; ++i) pipe.InitBuffer(buffer, 32);
    });
  };
  CHECK_CLEAN(reserve(64));
  CHECK_FAULT(reserve(65), "capacity", "65 buffers, one TPipe has at most 64");
}

// What one launch leaves in a workspace is gone in the next one.
EMULATION_TEST(WorkspaceOfAnEarlierLaunch) {
  Device device(1);
  uint8_t *workspace = device.AllocateWorkspace("workspace", 256);
  const auto launch = [&](bool writes) {
    return RunVector(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::VECCALC> buffer;
      pipe.InitBuffer(buffer, 256);
      auto ub = buffer.Get<float>();
      GlobalTensor<float> gm;
      gm.SetGlobalBuffer(reinterpret_cast<float *>(GetUserWorkspace(workspace)));
      Duplicate(ub, 1.0f, 64);
      PipeBarrier<PIPE_ALL>();
      if (writes) DataCopy(gm, ub, 64);
      PipeBarrier<PIPE_ALL>();
      DataCopy(ub, gm, 64);
      PipeBarrier<PIPE_ALL>();
      Adds(ub, ub, 1.0f, 64);
    });
  };
  CHECK_CLEAN(launch(true));
  CHECK_FAULT(launch(false), "unset data", "pipe V, Adds");
}

EMULATION_TEST(StaticTensorPastTheMemory) {
  Device device(1);
  CHECK_FAULT(
      RunVector(&device,
                [] { LocalTensor<float> tensor(TPosition::VECCALC, 192 * 1024 - 512, 128); }),
      "capacity", "ends past the memory's 196352 bytes");
}

EMULATION_TEST(MisalignedUbAddress) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](LocalTensor<float> ub) {
      Duplicate(ub, 1.0f, 128);
      PipeBarrier<PIPE_V>();
      Adds(ub[256], ub[is_faulty ? 4 : 8], 1.0f, 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "alignment",
                  "source 0 begins at UB byte 16, which is not a multiple of 32");
  }
}

EMULATION_TEST(MisalignedCopyLength) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run(
        [&](LocalTensor<float> ub) { DataCopy(ub, Global(test.input), is_faulty ? 12 : 16); });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "length", "moves blocks of 48 bytes; DataCopy moves multiples of 32");
  }
}

EMULATION_TEST(MisalignedGmAddress) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) {
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer(
        reinterpret_cast<float *>(reinterpret_cast<uint8_t *>(test.input.data()) + 2));
    DataCopy(ub, gm, 8);
  }),
              "alignment", "is not aligned to float");
}

EMULATION_TEST(AtomicAddToUnsetGm) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](LocalTensor<float> ub) {
    Duplicate(ub, 1.0f, 64);
    PipeBarrier<PIPE_ALL>();
    SetAtomicAdd<float>();
    DataCopy(Global(test.output), ub, 64);
    SetAtomicNone();
  }),
              "unset data", "atomic write to GM 'output' byte 0");
}

EMULATION_TEST(OutputIsCountedUnsetUntilWritten) {
  std::vector<float> output(16);
  Device device(1);
  device.RegisterOutput("output", output.data(), 64);
  CHECK(device.UnsetBytes("output") == 64);
  CHECK_CLEAN(RunVector(&device, [&] {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 64);
    Duplicate(buffer.Get<float>(), 1.0f, 16);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(Global(output), buffer.Get<float>(), DataCopyExtParams(1, 36, 0, 0, 0));
  }));
  CHECK(device.UnsetBytes("output") == 28);
}
