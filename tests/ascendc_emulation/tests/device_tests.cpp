// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The device as a test sees it: both forms of a kernel, schedules, counters, lists, workspace.

#include <cmath>
#include <stdexcept>

#include "ascendc_emulation/kernel_module.h"
#include "kernel_operator_list_tensor_intf.h"
#include "test_support.h"
#include "two_form_kernel.h"

using ascendc_emulation::Device;
using ascendc_emulation::Kernel;
using ascendc_emulation::KernelModule;
using ascendc_emulation::Report;
using namespace AscendC;
using namespace emulation_test;

namespace {

constexpr int kSide = 32;
using TwoFormEntry = void(uint8_t *, uint8_t *, uint8_t *, uint8_t *, uint8_t *);

struct TwoFormRun {
  std::vector<half> left, right;
  std::vector<float> output = std::vector<float>(kSide * kSide);
  TwoFormTiling tiling{2.0f};
  Report report;
  uint64_t unset_bytes = 0;

  explicit TwoFormRun(uint64_t seed) {
    for (const float value : RandomFloats(kSide * kSide, 1)) left.push_back(half(value));
    for (const float value : RandomFloats(kSide * kSide, 2)) right.push_back(half(value));
    const KernelModule cube(TWO_FORM_CUBE);
    const KernelModule vector(TWO_FORM_VECTOR);
    Device device(1, seed);
    device.RegisterInput("left", left.data(), left.size() * sizeof(half));
    device.RegisterInput("right", right.data(), right.size() * sizeof(half));
    device.RegisterOutput("output", output.data(), output.size() * sizeof(float));
    device.RegisterInput("tiling", &tiling, sizeof(tiling));
    uint8_t *workspace = device.AllocateWorkspace("workspace", kSide * kSide * sizeof(float));
    report = device.Launch(
        cube.Entry<TwoFormEntry>("two_form_kernel"), vector.Entry<TwoFormEntry>("two_form_kernel"),
        reinterpret_cast<uint8_t *>(left.data()), reinterpret_cast<uint8_t *>(right.data()),
        reinterpret_cast<uint8_t *>(output.data()), workspace,
        reinterpret_cast<uint8_t *>(&tiling));
    unset_bytes = device.UnsetBytes("output");
  }
};

}  // namespace

EMULATION_TEST(TwoFormKernelComputes) {
  for (const uint64_t seed : {0u, 1u, 2u, 3u}) {
    const TwoFormRun run(seed);
    CHECK_CLEAN(run.report);
    CHECK(run.unset_bytes == 0);
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        // The right matrix is stored by columns: row c of it is column c of the factor.
        double sum = 0.0;
        for (int k = 0; k < kSide; ++k) {
          sum += static_cast<double>(float(run.left[row * kSide + k])) *
                 static_cast<double>(float(run.right[column * kSide + k]));
        }
        CHECK(std::fabs(run.output[row * kSide + column] - 2.0 * sum) < 1e-5);
      }
    }
  }
}

EMULATION_TEST(CountersCountBytesMacsAndElements) {
  const TwoFormRun run(0);
  const auto &buffers = run.report.counters.buffers;
  CHECK(buffers.at("left").TotalRead() == kSide * kSide * sizeof(half));
  CHECK(buffers.at("left").touched_bytes == kSide * kSide * sizeof(half));
  CHECK(buffers.at("workspace").TotalWritten() == kSide * kSide * sizeof(float));
  CHECK(buffers.at("workspace").TotalRead() == kSide * kSide * sizeof(float));
  CHECK(buffers.at("output").TotalWritten() == kSide * kSide * sizeof(float));
  const auto mte2 = static_cast<size_t>(ascendc_emulation::Pipe::kMte2);
  CHECK(buffers.at("left").read_bytes[mte2] == buffers.at("left").TotalRead());
  CHECK(run.report.counters.PaddedMacs() == uint64_t{kSide} * kSide * kSide);
  CHECK(run.report.counters.VectorElements() == uint64_t{kSide} * kSide);
  const auto bound = run.report.counters.ComputeLowerBound();
  const double distinct = 2.0 * kSide * kSide * 2 + kSide * kSide * 4 + 32;
  // The tiling struct adds one 4-byte buffer.
  CHECK(bound.hbm_us <= distinct / 1.6e12 * 1e6 && bound.hbm_us > (distinct - 32) / 1.6e12 * 1e6);
  CHECK(bound.bound_us >= bound.cube_us && bound.bound_us >= bound.vector_us);
  CHECK(run.report.counters.ToString().find("lower bound") != std::string::npos);
}

EMULATION_TEST(MissingModuleAndEntryAreErrors) {
  bool has_thrown = false;
  try {
    KernelModule module("/nonexistent/kernel.so");
  } catch (const std::runtime_error &) {
    has_thrown = true;
  }
  CHECK(has_thrown);
  has_thrown = false;
  try {
    KernelModule(TWO_FORM_CUBE).Entry<TwoFormEntry>("no_such_entry");
  } catch (const std::runtime_error &) {
    has_thrown = true;
  }
  CHECK(has_thrown);
}

EMULATION_TEST(TensorListIsReadable) {
  const std::vector<float> first(8, 1.0f), second(16, 2.0f);
  Device device(1);
  device.RegisterInput("first", first.data(), first.size() * 4);
  device.RegisterInput("second", second.data(), second.size() * 4);
  uint8_t *list =
      device.AllocateTensorList("list", {first.data(), second.data()}, {{2, 4}, {4, 4}});
  float sum = 0.0f;
  uint32_t count = 0;
  CHECK_CLEAN(RunVector(&device, [&] {
    AscendC::ListTensorDesc desc(list);
    count = desc.GetSize();
    for (uint32_t i = 0; i < count; ++i) {
      AscendC::GlobalTensor<float> tensor;
      tensor.SetGlobalBuffer(desc.GetDataPtr<float>(i));
      sum += tensor.GetValue(3);
    }
  }));
  CHECK(count == 2 && sum == 3.0f);
  CHECK_FAULT(RunVector(&device,
                        [&] {
                          AscendC::ListTensorDesc desc(list);
                          desc.GetDataPtr<float>(2);
                        }),
              "list tensor", "GetDataPtr(2) of a list of 2");
}

// Every core adds its number to one element per core after all cores have met.
EMULATION_TEST(SyncAllOrdersAllCores) {
  for (const uint64_t seed : {0u, 7u, 8u}) {
    constexpr int kCores = 4;
    Device device(kCores, seed);
    uint8_t *workspace = device.AllocateWorkspace("workspace", kCores * 2 * 32);
    std::vector<float> output(kCores * 2 * 8);
    device.RegisterOutput("output", output.data(), output.size() * 4);
    const auto vector_body = [&] {
      AscendC::TPipe pipe;
      AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
      pipe.InitBuffer(buffer, 64);
      auto ub = buffer.Get<float>();
      AscendC::GlobalTensor<float> gm, gm_output;
      gm.SetGlobalBuffer(reinterpret_cast<float *>(AscendC::GetUserWorkspace(workspace)));
      gm_output.SetGlobalBuffer(output.data());
      const int64_t me = AscendC::GetBlockIdx();
      const int64_t other = kCores * 2 - 1 - me;
      AscendC::Duplicate(ub, static_cast<float>(me), 8);
      AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
      AscendC::DataCopy(gm[me * 8], ub, 8);
      AscendC::SyncAll<false>();
      AscendC::DataCopy(ub[8], gm[other * 8], 8);
      AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(0);
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(0);
      AscendC::DataCopy(gm_output[me * 8], ub[8], 8);
    };
    CHECK_CLEAN(device.Launch(Kernel{[] { AscendC::SyncAll<false>(); }, vector_body}));
    for (int core = 0; core < kCores * 2; ++core) {
      CHECK(output[static_cast<size_t>(core) * 8] == static_cast<float>(kCores * 2 - 1 - core));
    }
  }
}

EMULATION_TEST(CoresKnowWhoTheyAre) {
  std::vector<int64_t> cube_blocks, vector_blocks;
  Device device(3);
  CHECK_CLEAN(device.Launch(Kernel{[&] {
                                     CHECK(AscendC::GetBlockNum() == 3);
                                     CHECK(AscendC::GetSubBlockIdx() == 0);
                                     cube_blocks.push_back(AscendC::GetBlockIdx());
                                   },
                                   [&] {
                                     CHECK(AscendC::GetTaskRation() == 2);
                                     CHECK(AscendC::GetSubBlockIdx() == AscendC::GetBlockIdx() % 2);
                                     vector_blocks.push_back(AscendC::GetBlockIdx());
                                   }}));
  CHECK((cube_blocks == std::vector<int64_t>{0, 1, 2}));
  CHECK((vector_blocks == std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

// Mode 1 joins the two vector cores of one AI core; mode 0 joins all cores of a kind.
EMULATION_TEST(CrossCoreModesZeroAndOne) {
  Device device(2);
  uint8_t *workspace = device.AllocateWorkspace("workspace", 4 * 32);
  CHECK_CLEAN(device.Launch(
      Kernel{[] {
               AscendC::CrossCoreSetFlag<0, PIPE_FIX>(3);
               AscendC::CrossCoreWaitFlag(3);
             },
             [&] {
               AscendC::TPipe pipe;
               AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
               pipe.InitBuffer(buffer, 64);
               auto ub = buffer.Get<float>();
               AscendC::GlobalTensor<float> gm;
               gm.SetGlobalBuffer(reinterpret_cast<float *>(AscendC::GetUserWorkspace(workspace)));
               AscendC::Duplicate(ub, 1.0f, 8);
               AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
               AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
               AscendC::DataCopy(gm[AscendC::GetBlockIdx() * 8], ub, 8);
               AscendC::CrossCoreSetFlag<1, PIPE_MTE3>(4);
               AscendC::CrossCoreWaitFlag(4);
               AscendC::DataCopy(ub[8], gm[(AscendC::GetBlockIdx() ^ 1) * 8], 8);
             }}));
}

EMULATION_TEST(EventIdsAreDealtOut) {
  Device device(1);
  CHECK_CLEAN(RunVector(&device, [] {
    TPipe pipe;
    const auto first = pipe.AllocEventID<HardEvent::MTE2_V>();
    const auto second = pipe.AllocEventID<HardEvent::MTE2_V>();
    CHECK(first == 0 && second == 1);
    pipe.ReleaseEventID<HardEvent::MTE2_V>(first);
    CHECK(pipe.AllocEventID<HardEvent::MTE2_V>() == 0);
    CHECK(pipe.AllocEventID<HardEvent::V_MTE3>() == 0);
  }));
  // A cube core's pipe has taken three already.
  CHECK_CLEAN(RunCube(&device, [] {
    TPipe pipe;
    CHECK(pipe.AllocEventID<HardEvent::M_MTE1>() == 3);
    pipe.Destroy();
  }));
  CHECK_FAULT(RunVector(&device,
                        [] {
                          TPipe pipe;
                          for (int i = 0; i < 9; ++i) pipe.AllocEventID<HardEvent::MTE2_V>();
                        }),
              "event id", "all 8 ids of event MTE2_V are taken");
}

EMULATION_TEST(BuffersMustNotOverlap) {
  std::vector<float> values(64);
  Device device(1);
  device.RegisterInput("values", values.data(), 256);
  bool has_thrown = false;
  try {
    device.RegisterInput("part", values.data() + 8, 32);
  } catch (const std::invalid_argument &) {
    has_thrown = true;
  }
  CHECK(has_thrown);
}
