// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Deliberate faults about order between cores: cross-core flags, SyncAll, dead lock, the scalar
// cache. Each kernel runs once as it should be (no complaint) and once with its fault (the right
// complaint).

#include <stdexcept>

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using ascendc_emulation::Kernel;
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

// A workspace of one 32-byte line for each vector core, and body on each core.
Report RunOnAllCores(int num_ai_cores, uint64_t seed,
                     const std::function<void(GlobalTensor<float>)> &cube,
                     const std::function<void(GlobalTensor<float>, LocalTensor<float>)> &vector) {
  Device device(num_ai_cores, seed);
  uint8_t *workspace = device.AllocateWorkspace("workspace", 4096);
  const auto gm = [workspace] {
    GlobalTensor<float> tensor;
    tensor.SetGlobalBuffer(reinterpret_cast<float *>(GetUserWorkspace(workspace)));
    return tensor;
  };
  return device.Launch(Kernel{[&] { cube(gm()); },
                              [&] {
                                TPipe pipe;
                                TBuf<TPosition::VECCALC> buffer;
                                pipe.InitBuffer(buffer, 4096);
                                vector(gm(), buffer.Get<float>());
                              }});
}

// UB data of this core to GM, flags included.
void WriteLine(const GlobalTensor<float> &gm, const LocalTensor<float> &ub, float value) {
  Duplicate(ub, value, 8);
  SetFlag<HardEvent::V_MTE3>(5);
  WaitFlag<HardEvent::V_MTE3>(5);
  DataCopy(gm, ub, 8);
}

}  // namespace

// Vector core 1 reads what vector core 0 wrote.
EMULATION_TEST(MissingFlagBetweenVectorCores) {
  for (const uint64_t seed : {0u, 1u, 2u, 3u, 4u}) {
    for (const bool is_faulty : {false, true}) {
      const Report report = RunOnAllCores(
          1, seed, [](auto) {},
          [&](auto gm, auto ub) {
            if (GetSubBlockIdx() == 0) WriteLine(gm, ub, 1.0f);
            if (!is_faulty) {
              CrossCoreSetFlag<1, PIPE_MTE3>(0);
              CrossCoreWaitFlag(0);
            }
            if (GetSubBlockIdx() == 1) DataCopy(ub, gm, 8);
          });
      if (!is_faulty)
        CHECK_CLEAN(report);
      else
        CHECK_FAULT(report, "unordered access", "GM 'workspace' bytes [0, 32)");
    }
  }
}

EMULATION_TEST(TwoCoresWriteTheSameBytes) {
  for (const bool is_faulty : {false, true}) {
    const Report report = RunOnAllCores(
        2, 0, [](auto) {},
        [&](auto gm, auto ub) {
          // 16 bytes each: neighbours in one line are no conflict, the same bytes are.
          Duplicate(ub, 1.0f, 8);
          SetFlag<HardEvent::V_MTE3>(0);
          WaitFlag<HardEvent::V_MTE3>(0);
          const int64_t place = is_faulty ? GetBlockIdx() / 2 : GetBlockIdx();
          DataCopyPad(gm[place * 4], ub, DataCopyExtParams(1, 16, 0, 0, 0));
        });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access",
                  "writes GM 'workspace' bytes [0, 16), which AIV 0 (AI "
                  "core 0, vector 0), MTE3 DataCopyPad");
  }
}

// Cube writes scores, vector reads them, the cube overwrites the slot: two flags, both needed.
EMULATION_TEST(RingBetweenCubeAndVector) {
  for (int missing = -1; missing < 2; ++missing) {
    const auto cube = [&](GlobalTensor<float> gm) {
      TPipe pipe;
      TBuf<TPosition::A2> l0a_buffer;
      TBuf<TPosition::B2> l0b_buffer;
      TBuf<TPosition::CO1> l0c_buffer;
      pipe.InitBuffer(l0a_buffer, 512);
      pipe.InitBuffer(l0b_buffer, 512);
      pipe.InitBuffer(l0c_buffer, 1024);
      Fill(l0a_buffer.Get<half>(), InitConstValueParams<half>(1, 1, 0, half(1.0f)));
      Fill(l0b_buffer.Get<half>(), InitConstValueParams<half>(1, 1, 0, half(1.0f)));
      Order<HardEvent::MTE1_M>(true);
      Mmad(l0c_buffer.Get<float>(), l0a_buffer.Get<half>(), l0b_buffer.Get<half>(),
           MmadParams(16, 16, 16, 0, false, true));
      Order<HardEvent::M_FIX>(true);
      for (int round = 0; round < 2; ++round) {
        if (round == 1 && missing != 1) CrossCoreWaitFlag(1);
        Fixpipe<float, float, CFG_ROW_MAJOR>(gm, l0c_buffer.Get<float>(),
                                             FixpipeParamsV220(16, 16, 16, 16, false));
        // Publishing with the wrong pipe says nothing about Fixpipe.
        if (missing == 0)
          CrossCoreSetFlag<2, PIPE_MTE2>(0);
        else
          CrossCoreSetFlag<2, PIPE_FIX>(0);
        PipeBarrier<PIPE_FIX>();
      }
      if (missing != 1) CrossCoreWaitFlag(1);
    };
    const auto vector = [&](GlobalTensor<float> gm, LocalTensor<float> ub) {
      for (int round = 0; round < 2; ++round) {
        CrossCoreWaitFlag(0);
        if (round == 1) PipeBarrier<PIPE_MTE2>();
        DataCopy(ub, gm[GetSubBlockIdx() * 128], 128);
        if (missing != 1) CrossCoreSetFlag<2, PIPE_MTE2>(1);
      }
    };
    const Report report = RunOnAllCores(1, 0, cube, vector);
    if (missing < 0)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "unordered access",
                  missing == 0 ? "reads GM 'workspace'" : "GM 'workspace' bytes");
  }
}

EMULATION_TEST(DeadLockBetweenCores) {
  for (const bool is_faulty : {false, true}) {
    const Report report = RunOnAllCores(
        1, 0,
        [&](auto) {
          if (is_faulty) CrossCoreWaitFlag(1);
          CrossCoreSetFlag<2, PIPE_FIX>(0);
          if (!is_faulty) CrossCoreWaitFlag(1);
        },
        [](auto, auto) {
          CrossCoreWaitFlag(0);
          CrossCoreSetFlag<2, PIPE_MTE3>(1);
        });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "dead lock",
                  "AIC 0 waits for cross-core flag 1, AIV 0 (AI core 0, vector "
                  "0) waits for cross-core flag 0");
  }
}

// The cube core waits for both of its vector cores.
EMULATION_TEST(OnlyOneVectorCoreSetsTheFlag) {
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) { CrossCoreWaitFlag(1); },
                  [](auto, auto) {
                    if (GetSubBlockIdx() == 0) CrossCoreSetFlag<2, PIPE_MTE3>(1);
                  }),
              "dead lock", "AIC 0 waits for cross-core flag 1");
}

EMULATION_TEST(SyncAllNeedsEveryCore) {
  CHECK_FAULT(RunOnAllCores(
                  2, 0, [](auto) { SyncAll<false>(); },
                  [](auto, auto) {
                    if (GetBlockIdx() != 3) SyncAll<false>();
                  }),
              "dead lock", "waits for cross-core flag");
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) { SyncAll<true>(); }, [](auto, auto) {}),
              "wrong core", "SyncAll of vector cores only is called by a cube core");
}

EMULATION_TEST(CrossCoreFlagLeftSet) {
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) { CrossCoreSetFlag<2, PIPE_FIX>(3); },
                  [](auto, auto) {
                    if (GetSubBlockIdx() == 0) CrossCoreWaitFlag(3);
                  }),
              "flag left set",
              "AIV 1 (AI core 0, vector 1): flag left set: cross-core flag 3 ends with "
              "a count of 1");
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) {},
                  [](auto, auto) {
                    if (GetSubBlockIdx() == 0) CrossCoreSetFlag<2, PIPE_MTE3>(3);
                  }),
              "flag left set",
              "cross-core flag 3 was set by some cores of a group and not by the others");
}

EMULATION_TEST(CrossCoreCounterOverflow) {
  const auto run = [](int count) {
    return RunOnAllCores(
        1, 0,
        [count](auto) {
          for (int i = 0; i < count; ++i) CrossCoreSetFlag<2, PIPE_FIX>(0);
        },
        [count](auto, auto) {
          for (int i = 0; i < count; ++i) CrossCoreWaitFlag(0);
        });
  };
  CHECK_CLEAN(run(15));
  CHECK_FAULT(run(16), "flag counter",
              "cross-core flag 0 of AIV 0 (AI core 0, vector 0) counts 16");
}

EMULATION_TEST(CrossCoreFlagsOfSyncAll) {
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) { CrossCoreSetFlag<2, PIPE_FIX>(11); }, [](auto, auto) {}),
              "flag id", "cross-core flag 11: ids are 0 to 10");
}

EMULATION_TEST(ModeOneOnACubeCore) {
  CHECK_FAULT(RunOnAllCores(
                  1, 0, [](auto) { CrossCoreSetFlag<1, PIPE_FIX>(0); }, [](auto, auto) {}),
              "cross-core mode", "mode 1 joins vector cores");
}

// Data of one AI core's flags does not order another AI core.
EMULATION_TEST(FlagsOfOneAiCoreDoNotOrderAnother) {
  CHECK_FAULT(RunOnAllCores(
                  2, 0, [](auto) {},
                  [](auto gm, auto ub) {
                    if (GetBlockIdx() == 0) WriteLine(gm, ub, 1.0f);
                    CrossCoreSetFlag<1, PIPE_MTE3>(0);
                    CrossCoreWaitFlag(0);
                    if (GetBlockIdx() == 2) DataCopy(ub, gm, 8);
                  }),
              "unordered access", "AIV 2 (AI core 1, vector 0), pipe MTE2, DataCopy #1");
}

// The scalar unit writes GM through a cache; others see the value only after it was cleaned.
EMULATION_TEST(ScalarWriteStaysInTheCache) {
  for (const bool is_faulty : {false, true}) {
    const Report report = RunOnAllCores(
        1, 0, [](auto) {},
        [&](auto gm, auto ub) {
          if (GetSubBlockIdx() == 0) {
            gm.SetValue(0, 1.0f);
            if (!is_faulty) {
              DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(
                  gm);
            }
          }
          SetFlag<HardEvent::S_MTE3>(0);
          WaitFlag<HardEvent::S_MTE3>(0);
          CrossCoreSetFlag<1, PIPE_MTE3>(0);
          CrossCoreWaitFlag(0);
          if (GetSubBlockIdx() == 1)
            DataCopyPad(ub, gm, DataCopyExtParams(1, 4, 0, 0, 0),
                        DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
        });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "scalar cache", "a scalar write to GM is still in this core's cache");
  }
}

// A flag that is polled through the cache never changes.
EMULATION_TEST(ScalarReadOfAnOldCacheLine) {
  for (const bool is_faulty : {false, true}) {
    const Report report = RunOnAllCores(
        1, 0, [](auto) {},
        [&](auto gm, auto ub) {
          if (GetSubBlockIdx() == 0) WriteLine(gm, ub, 1.0f);
          CrossCoreSetFlag<1, PIPE_MTE3>(0);
          CrossCoreWaitFlag(0);
          if (GetSubBlockIdx() == 1) gm.GetValue(0);
          CrossCoreSetFlag<1, PIPE_MTE3>(0);
          CrossCoreWaitFlag(0);
          if (GetSubBlockIdx() == 1 && !is_faulty) {
            DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(
                gm);
          }
          if (GetSubBlockIdx() == 1) gm.GetValue(0);
        });
    if (!is_faulty)
      CHECK_CLEAN(report);
    else
      CHECK_FAULT(report, "scalar cache", "reads GM 'workspace' byte 0 a second time");
  }
}

EMULATION_TEST(ExceptionInAKernelIsAComplaint) {
  Device device(1);
  CHECK_FAULT(RunVector(&device, [] { throw std::runtime_error("boom"); }), "exception", "boom");
}
