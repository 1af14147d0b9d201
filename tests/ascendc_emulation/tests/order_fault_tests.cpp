// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Deliberate faults about order: flags within a core, barriers, flags between cores, dead lock.
// Each kernel runs once as it should be (no complaint) and once with its fault (the right
// complaint).

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using ascendc_emulation::Report;
using namespace emulation_test;

namespace {

// Waits of a kernel that a test may leave out.
template <HardEvent event>
void Order(bool is_present) {
  if (!is_present) return;
  SetFlag<event>(0);
  WaitFlag<event>(0);
}

// One vector core with an input and an output of 128 floats.
class VectorCase {
 public:
  Report Run(const std::function<void(LocalTensor<float>)> &body) {
    Device device(1);
    device.RegisterInput("input", input.data(), input.size() * 4);
    device.RegisterOutput("output", output.data(), output.size() * 4);
    return RunVector(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::VECCALC> buffer;
      pipe.InitBuffer(buffer, 4096);
      body(buffer.Get<float>());
    });
  }
  std::vector<float> input = RandomFloats(128, 1);
  std::vector<float> output = std::vector<float>(128);
};

}  // namespace

EMULATION_TEST(MissingFlagBetweenCopyAndVector) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      DataCopy(ub, Global(test.input), 128);
      Order<HardEvent::MTE2_V>(!is_faulty);
      Adds(ub[128], ub, 1.0f, 128);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access",
                  "AIV 0 (AI core 0, vector 0), pipe V, Adds #1: unordered access: reads UB bytes "
                  "[0, 512), which MTE2 DataCopy #1 writes");
  }
}

EMULATION_TEST(MissingFlagBetweenVectorAndCopyOut) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      Duplicate(ub, 1.0f, 128);
      Order<HardEvent::V_MTE3>(!is_faulty);
      DataCopy(Global(test.output), ub, 128);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access", "which V Duplicate #1 writes");
  }
}

// Bytes of one 32-byte block have a history of their own: the first instruction reads what the last
// one writes, and a barrier stands between them; the second one is not finished, but reads others.
EMULATION_TEST(BarrierCoversOtherBytesOfTheSameBlock) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      Duplicate(ub, 1.0f, 8);
      PipeBarrier<PIPE_V>();
      Adds(ub[64], ub, 1.0f, 8);
      if (!is_faulty) PipeBarrier<PIPE_V>();
      Adds(ub[128], ub, 1.0f, 4);
      uint64_t last_lanes[2] = {0xf0, 0};
      Duplicate(ub, 2.0f, last_lanes, 1, 1, 8);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "missing barrier", "which V Adds #3 reads");
  }
}

// The next load may not overwrite what the vector unit still reads.
EMULATION_TEST(BufferReusedBeforeItWasRead) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      for (int round = 0; round < 2; ++round) {
        if (round == 1) Order<HardEvent::V_MTE2>(!is_faulty);
        DataCopy(ub, Global(test.input), 128);
        Order<HardEvent::MTE2_V>(true);
        PipeBarrier<PIPE_V>();
        Adds(ub[128], ub, 1.0f, 128);
      }
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access",
                  "pipe MTE2, DataCopy #3: unordered access: writes UB "
                  "bytes [0, 512), which V Adds #3 reads");
  }
}

EMULATION_TEST(DependentVectorInstructionsWithoutBarrier) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      Duplicate(ub, 1.0f, 128);
      if (!is_faulty) PipeBarrier<PIPE_V>();
      Adds(ub[128], ub, 1.0f, 128);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "missing barrier",
                  "pipe V, Adds #2: missing barrier: reads UB bytes "
                  "[0, 512), which V Duplicate #1 writes");
  }
}

EMULATION_TEST(IndependentVectorInstructionsNeedNoBarrier) {
  VectorCase test;
  CHECK_CLEAN(test.Run([&](auto ub) {
    Duplicate(ub, 1.0f, 128);
    Duplicate(ub[128], 2.0f, 4);
    Duplicate(ub[136], 3.0f, 128);
  }));
}

EMULATION_TEST(OverlappingCopiesOfOnePipe) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      DataCopy(ub, Global(test.input), 64);
      if (!is_faulty) PipeBarrier<PIPE_MTE2>();
      DataCopy(ub[32], Global(test.input), 64);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "missing barrier",
                  "writes UB bytes [128, 384), which MTE2 DataCopy #1 "
                  "writes");
  }
}

EMULATION_TEST(AccumulationWithoutBarrier) {
  for (const bool is_faulty : {false, true}) {
    Device device(1);
    const Report report = RunCube(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::A2> l0a_buffer;
      TBuf<TPosition::B2> l0b_buffer;
      TBuf<TPosition::CO1> l0c_buffer;
      pipe.InitBuffer(l0a_buffer, 512);
      pipe.InitBuffer(l0b_buffer, 512);
      pipe.InitBuffer(l0c_buffer, 1024);
      auto l0a = l0a_buffer.Get<half>();
      auto l0b = l0b_buffer.Get<half>();
      auto l0c = l0c_buffer.Get<float>();
      Fill(l0a, InitConstValueParams<half>(1, 1, 0, half(1.0f)));
      Fill(l0b, InitConstValueParams<half>(1, 1, 0, half(1.0f)));
      Order<HardEvent::MTE1_M>(true);
      Mmad(l0c, l0a, l0b, MmadParams(16, 16, 16, 0, false, true));
      if (!is_faulty) PipeBarrier<PIPE_M>();
      Mmad(l0c, l0a, l0b, MmadParams(16, 16, 16, 0, false, false));
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "missing barrier", "reads L0C bytes [0, 1024), which M Mmad");
  }
}

// L1 -> L0 -> cube -> GM: every one of the three flags is needed.
EMULATION_TEST(CubePipelineFlags) {
  for (int missing = -1; missing < 3; ++missing) {
    std::vector<half> input(256, half(1.0f));
    std::vector<float> output(256);
    Device device(1);
    device.RegisterInput("input", input.data(), 512);
    device.RegisterOutput("output", output.data(), 1024);
    const Report report = RunCube(&device, [&] {
      TPipe pipe;
      TBuf<TPosition::A1> l1_buffer;
      TBuf<TPosition::A2> l0a_buffer;
      TBuf<TPosition::B2> l0b_buffer;
      TBuf<TPosition::CO1> l0c_buffer;
      pipe.InitBuffer(l1_buffer, 512);
      pipe.InitBuffer(l0a_buffer, 512);
      pipe.InitBuffer(l0b_buffer, 512);
      pipe.InitBuffer(l0c_buffer, 1024);
      DataCopy(l1_buffer.Get<half>(), Global(input), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
      Order<HardEvent::MTE2_MTE1>(missing != 0);
      LoadData(l0a_buffer.Get<half>(), l1_buffer.Get<half>(),
               LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      LoadData(l0b_buffer.Get<half>(), l1_buffer.Get<half>(),
               LoadData2DParams(0, 1, 1, 0, 0, false, 0));
      Order<HardEvent::MTE1_M>(missing != 1);
      Mmad(l0c_buffer.Get<float>(), l0a_buffer.Get<half>(), l0b_buffer.Get<half>(),
           MmadParams(16, 16, 16, 0, false, true));
      Order<HardEvent::M_FIX>(missing != 2);
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global(output), l0c_buffer.Get<float>(),
                                           FixpipeParamsV220(16, 16, 16, 16, false));
    });
    static constexpr const char *kTexts[] = {"pipe MTE1, LoadData #1: unordered access: reads L1",
                                             "unordered access: reads L0A",
                                             "unordered access: reads L0C"};
    if (missing < 0)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access", kTexts[missing]);
  }
}

EMULATION_TEST(ScalarReadWithoutFlag) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      Duplicate(ub, 1.0f, 128);
      Order<HardEvent::V_S>(!is_faulty);
      ub.GetValue(3);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access", "pipe S, LocalTensor::GetValue");
  }
}

EMULATION_TEST(ScalarWriteWithoutFlag) {
  for (const bool is_faulty : {false, true}) {
    VectorCase test;
    const Report report = test.Run([&](auto ub) {
      for (uint32_t i = 0; i < 8; ++i) ub.SetValue(i, 2.0f);
      Order<HardEvent::S_V>(!is_faulty);
      Adds(ub[8], ub, 1.0f, 8);
    });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access", "which S LocalTensor::SetValue");
  }
}

// A flag from MTE2 says nothing about what V does at the same time.
EMULATION_TEST(FlagOfTheWrongPipe) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](auto ub) {
    Duplicate(ub, 1.0f, 128);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(Global(test.output), ub, 128);
  }),
              "unordered access", "pipe MTE3, DataCopy #2: unordered access: reads UB");
}

EMULATION_TEST(EventSetTwice) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](auto) {
    SetFlag<HardEvent::MTE2_V>(1);
    SetFlag<HardEvent::MTE2_V>(1);
  }),
              "event set twice", "event MTE2_V id 1 is set again");
}

EMULATION_TEST(EventNeverWaitedFor) {
  VectorCase test;
  CHECK_FAULT(
      test.Run([&](auto) { SetFlag<HardEvent::V_MTE3>(2); }), "event left set",
      "AIV 0 (AI core 0, vector 0), pipe S, end of kernel #2: event left set: event V_MTE3 id 2");
}

EMULATION_TEST(EventNeverSet) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](auto) {
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(1);
  }),
              "event never set", "waits for event MTE2_V id 1");
}

EMULATION_TEST(EventIdsOfTheFramework) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](auto) { SetFlag<HardEvent::MTE2_V>(6); }), "event id",
              "event MTE2_V id 6: ids are 0 to 5");
}

EMULATION_TEST(EventOfAPipeThatTheCoreLacks) {
  VectorCase test;
  CHECK_FAULT(test.Run([&](auto) { SetFlag<HardEvent::MTE2_MTE1>(0); }), "wrong core",
              "event MTE2_MTE1 id 0 names a pipe that this core does not have");
}

// The pipe object of a cube core owns three M_MTE1 events.
EMULATION_TEST(EventThatTheFrameworkHasSet) {
  Device device(1);
  CHECK_FAULT(RunCube(&device,
                      [] {
                        TPipe pipe;
                        SetFlag<HardEvent::M_MTE1>(1);
                      }),
              "event set twice", "event M_MTE1 id 1");
  CHECK_FAULT(RunCube(&device,
                      [] {
                        TPipe pipe;
                        WaitFlag<HardEvent::M_MTE1>(2);
                      }),
              "event never set", "waits for event M_MTE1 id 2");
}
