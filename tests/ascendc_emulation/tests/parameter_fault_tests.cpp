// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Deliberate faults about parameters: ranges, strides, data types, masks, layouts, core kinds.

#include <type_traits>

#include "test_support.h"

using namespace AscendC;
using ascendc_emulation::Device;
using ascendc_emulation::Report;
using namespace emulation_test;

namespace {

// Body on a vector core with a UB tensor of T whose 8 KB are set.
template <typename T>
Report RunOnUb(const std::function<void(LocalTensor<T>)> &body) {
  Device device(1);
  return RunVector(&device, [&] {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 8192);
    Duplicate(buffer.Get<float>(), 1.0f, 2048);
    PipeBarrier<PIPE_ALL>();
    body(buffer.Get<T>());
  });
}

// Body on a cube core with set L1, L0A and L0B and a GM input.
struct CubeTensors {
  LocalTensor<half> l1, l0a, l0b;
  LocalTensor<float> l0c;
  GlobalTensor<half> gm;
  GlobalTensor<float> gm_output;
};
Report RunOnCube(const std::function<void(const CubeTensors &)> &body) {
  std::vector<half> input(64 * 64, half(1.0f));
  std::vector<float> output(64 * 64);
  Device device(1);
  device.RegisterInput("input", input.data(), input.size() * 2);
  device.RegisterOutput("output", output.data(), output.size() * 4);
  return RunCube(&device, [&] {
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    TBuf<TPosition::A2> l0a;
    TBuf<TPosition::B2> l0b;
    TBuf<TPosition::CO1> l0c;
    pipe.InitBuffer(l1, 32768);
    pipe.InitBuffer(l0a, 8192);
    pipe.InitBuffer(l0b, 8192);
    pipe.InitBuffer(l0c, 32768);
    Fill(l1.Get<half>(), InitConstValueParams<half>(1, 1024, 0, half(1.0f)));
    Fill(l0a.Get<half>(), InitConstValueParams<half>(1, 16, 0, half(1.0f)));
    Fill(l0b.Get<half>(), InitConstValueParams<half>(1, 16, 0, half(1.0f)));
    PipeBarrier<PIPE_ALL>();
    body({l1.Get<half>(), l0a.Get<half>(), l0b.Get<half>(), l0c.Get<float>(), Global(input),
          Global(output)});
  });
}

}  // namespace

EMULATION_TEST(MoreThan255Repeats) {
  const auto run = [](int repeats) {
    return RunOnUb<float>([repeats](auto ub) {
      Adds(ub, ub, 1.0f, uint64_t{8}, repeats, UnaryRepeatParams(1, 1, 1, 1));
    });
  };
  CHECK_CLEAN(run(255));
  CHECK_FAULT(run(256), "parameter range", "the value 256 does not fit a parameter of 8 bits");
}

EMULATION_TEST(StrideThatDoesNotFit) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) {
                Adds(ub, ub, 1.0f, uint64_t{8}, 1, UnaryRepeatParams(1, 1, 256, 1));
              }),
              "parameter range", "the value 256 does not fit a parameter of 8 bits");
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Nd2NzParams copy;
                copy.srcDValue = 65536;  // a row of 64 heads of 1024 elements
                DataCopy(t.l1, t.gm, copy);
              }),
              "parameter range", "the value 65536 does not fit a parameter of 16 bits");
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                LoadData2DParams load;
                load.repeatTimes = 256;
                LoadData(t.l0a, t.l1, load);
              }),
              "parameter range", "the value 256 does not fit a parameter of 8 bits");
}

EMULATION_TEST(NegativeCount) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) { Adds(ub, ub, 1.0f, -8); }), "parameter range",
              "the value -8 does not fit");
}

EMULATION_TEST(MaskLongerThanARepeat) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) {
                Adds(ub, ub, 1.0f, uint64_t{65}, 1, UnaryRepeatParams(1, 1, 8, 8));
              }),
              "mask", "mask 65, a repeat of this type has 64 elements");
  CHECK_FAULT(RunOnUb<float>([](auto ub) {
                const uint64_t mask[2] = {~0ull, 1};
                Adds(ub, ub, 1.0f, mask, 1, UnaryRepeatParams(1, 1, 8, 8));
              }),
              "mask", "mask[1] is 0x1");
}

EMULATION_TEST(NoArithmeticOnBFloat16) {
  CHECK_FAULT(RunOnUb<bfloat16_t>([](auto ub) { Add(ub, ub, ub, 64); }), "data type",
              "Add #2: data type: the instruction has no bfloat16_t form");
  CHECK_FAULT(RunOnUb<bfloat16_t>([](auto ub) { Max(ub, ub, ub, 64); }), "data type",
              "no bfloat16_t form");
  CHECK_FAULT(RunOnUb<bfloat16_t>([](auto ub) {
                WholeReduceMax(ub, ub, 128, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
              }),
              "data type", "no bfloat16_t form");
}

EMULATION_TEST(DataTypesThatAnInstructionLacks) {
  CHECK_FAULT(RunOnUb<int32_t>([](auto ub) { Exp(ub, ub, 64); }), "data type", "no int32_t form");
  CHECK_FAULT(RunOnUb<int32_t>([](auto ub) { Div(ub, ub, ub, 64); }), "data type",
              "no int32_t form");
  CHECK_FAULT(RunOnUb<float>([](auto ub) { And(ub, ub, ub, 64); }), "data type", "no float form");
  CHECK_FAULT(RunOnUb<uint8_t>([](auto ub) { Duplicate(ub, 1, 64); }), "data type",
              "no uint8_t form");
  CHECK_FAULT(RunOnUb<half>([](auto ub) {
                Cast(ub.template ReinterpretCast<bfloat16_t>()[1024], ub, RoundMode::CAST_RINT, 64);
              }),
              "data type", "no half to bfloat16_t form");
}

EMULATION_TEST(RoundModesThatACastLacks) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) {
                Cast(ub.template ReinterpretCast<bfloat16_t>()[2048], ub, RoundMode::CAST_NONE, 64);
              }),
              "round mode", "float to bfloat16_t takes CAST_RINT");
  CHECK_FAULT(RunOnUb<half>([](auto ub) {
                Cast(ub.template ReinterpretCast<float>()[1024], ub, RoundMode::CAST_RINT, 64);
              }),
              "round mode", "half to float takes CAST_NONE");
}

EMULATION_TEST(PartialOverlapOfSourceAndDestination) {
  const auto run = [](uint32_t offset) {
    return RunOnUb<float>([offset](auto ub) { Adds(ub[offset], ub, 1.0f, 64); });
  };
  CHECK_CLEAN(run(0));
  CHECK_CLEAN(run(64));
  CHECK_FAULT(run(32), "overlap", "source 0, UB bytes [0, 256), overlaps the destination in part");
  CHECK_FAULT(RunOnUb<float>([](auto ub) { Brcb(ub, ub, 1, BrcbRepeatParams(1, 8)); }), "overlap",
              "overlaps the source");
}

EMULATION_TEST(CompareOfPartOfARepeat) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) {
                CompareScalar(ub.template ReinterpretCast<uint8_t>()[4096], ub, 1.0f, CMPMODE::LT,
                              60);
              }),
              "length", "compares 60 elements");
}

EMULATION_TEST(BlockStrideZeroOfBrcb) {
  CHECK_FAULT(RunOnUb<float>([](auto ub) { Brcb(ub[64], ub, 1, BrcbRepeatParams(0, 8)); }),
              "stride", "dstBlkStride 0");
}

// Strides in elements instead of 32-byte units let two columns meet in one place or run out of L1.
EMULATION_TEST(NdToNzStridesInWrongUnits) {
  const auto run = [](uint16_t c0_stride, uint16_t n_stride) {
    return RunOnCube([=](const CubeTensors &t) {
      DataCopy(t.l1, t.gm, Nd2NzParams(1, 32, 64, 0, 64, c0_stride, n_stride, 0));
    });
  };
  CHECK_CLEAN(run(32, 1));
  CHECK_FAULT(run(16, 1), "stride", "two elements of the matrix go to L1 byte 512");
  CHECK_FAULT(run(32 * 16, 1), "out of range", "touches L1 bytes");
  CHECK_FAULT(run(0, 1), "parameter range", "dstNzC0Stride 0");
}

EMULATION_TEST(FixpipeStridesInWrongUnits) {
  const auto run = [](uint16_t source_stride, uint32_t target_stride) {
    return RunOnCube([=](const CubeTensors &t) {
      Mmad(t.l0c, t.l0a, t.l0b, MmadParams(32, 32, 16, 0, false, true));
      PipeBarrier<PIPE_ALL>();
      Fixpipe<float, float, CFG_ROW_MAJOR>(
          t.gm_output, t.l0c, FixpipeParamsV220(32, 32, source_stride, target_stride, false));
    });
  };
  CHECK_CLEAN(run(32, 64));
  CHECK_FAULT(run(2, 64), "stride", "srcStride 2 is less than mSize 32");
  CHECK_FAULT(run(32, 4), "stride", "dstStride 4 is less than nSize 32");
}

EMULATION_TEST(FixpipeWidthIsAMultipleOf16) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Fixpipe<float, float, CFG_ROW_MAJOR>(t.gm_output, t.l0c,
                                                     FixpipeParamsV220(20, 16, 16, 32, false));
              }),
              "parameter range", "nSize 20 is not a multiple of 16");
}

EMULATION_TEST(FixpipeConversionMustMatchTheTarget) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                FixpipeParamsV220 store(16, 16, 16, 16, false);
                store.quantPre = F322F16;
                Fixpipe<float, float, CFG_ROW_MAJOR>(t.gm_output, t.l0c, store);
              }),
              "data type", "quantPre makes half of float, the tensors are float and float");
}

EMULATION_TEST(GemvLayoutOfOneRow) {
  const auto run = [](uint16_t m) {
    return RunOnCube([m](const CubeTensors &t) {
      Mmad(t.l0c, t.l0a, t.l0b, MmadParams(m, 16, 16, 0, false, true));
    });
  };
  CHECK_CLEAN(run(2));
  CHECK_FAULT(run(1), "GEMV layout", "AIC 0, pipe M, Mmad #4: GEMV layout: m == 1");
}

EMULATION_TEST(MmadDataTypes) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Mmad(t.l0c, t.l0a, t.l0b.ReinterpretCast<bfloat16_t>(),
                     MmadParams(16, 16, 16, 0, false, true));
              }),
              "data type", "half by bfloat16_t into float");
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Mmad(t.l0c.ReinterpretCast<half>(), t.l0a, t.l0b,
                     MmadParams(16, 16, 16, 0, false, true));
              }),
              "data type", "half by half into half");
}

EMULATION_TEST(MmadOperandsInTheWrongMemory) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Mmad(t.l0c, t.l0b, t.l0a, MmadParams(16, 16, 16, 0, false, true));
              }),
              "wrong memory", "multiplies L0B by L0A into L0C");
}

EMULATION_TEST(MmadPastItsOperands) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Mmad(t.l0c, t.l0a, t.l0b, MmadParams(64, 16, 80, 0, false, true));
              }),
              "out of range", "touches L0A bytes [0, 10240), the buffer ends at 8192");
}

EMULATION_TEST(OptionsThatAreNotEmulated) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                Mmad(t.l0c, t.l0a, t.l0b, MmadParams(16, 16, 16, 3, false, true));
              }),
              "not emulated", "unitFlag");
}

EMULATION_TEST(TransposedLoadOfFloats) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) {
                LoadData(t.l0a.ReinterpretCast<float>(), t.l1.ReinterpretCast<float>(),
                         LoadData2DParams(0, 1, 1, 0, 0, true, 0));
              }),
              "data type", "transposes 16-bit elements only, not float");
}

EMULATION_TEST(VectorInstructionOnACubeCore) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) { Exp(t.l0c, t.l0c, 64); }), "wrong core",
              "AIC 0, pipe V, Exp #1: wrong core: cube cores have no pipe V");
}

EMULATION_TEST(CubeInstructionOnAVectorCore) {
  CHECK_FAULT(RunOnUb<half>([](auto ub) {
                Mmad(ub.template ReinterpretCast<float>(), ub, ub,
                     MmadParams(16, 16, 16, 0, false, true));
              }),
              "wrong core", "vector cores have no pipe M");
}

EMULATION_TEST(PathThatDoesNotExist) {
  CHECK_FAULT(RunOnCube([](const CubeTensors &t) { DataCopy(t.l0a, t.gm, 256); }), "wrong memory",
              "GM data goes to UB or L1, not to L0A");
}

EMULATION_TEST(TooManyBlocksInACopy) {
  CHECK_FAULT(
      RunOnCube([](const CubeTensors &t) { DataCopy(t.l1, t.gm, DataCopyParams(4096, 1, 0, 0)); }),
      "parameter range", "blockCount 4096, the limit is 4095");
}

EMULATION_TEST(LengthThatSplitsAnElement) {
  std::vector<float> input(8, 1.0f);
  Device device(1);
  device.RegisterInput("input", input.data(), 32);
  CHECK_FAULT(RunVector(&device,
                        [&] {
                          TPipe pipe;
                          TBuf<TPosition::VECCALC> buffer;
                          pipe.InitBuffer(buffer, 64);
                          DataCopyPad(buffer.Get<float>(), Global(input),
                                      DataCopyExtParams(1, 10, 0, 0, 0),
                                      DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
                        }),
              "length", "blockLen 10 bytes is not a multiple of the element size 4");
}

EMULATION_TEST(AtomicTypes) {
  CHECK_FAULT(RunOnUb<float>([](auto) { SetAtomicAdd<uint32_t>(); }), "data type",
              "GM has no atomic operation on uint32_t");
  std::vector<half> output(16, half(0.0f));
  Device device(1);
  device.RegisterInOut("output", output.data(), 32);
  CHECK_FAULT(RunVector(&device,
                        [&] {
                          TPipe pipe;
                          TBuf<TPosition::VECCALC> buffer;
                          pipe.InitBuffer(buffer, 64);
                          Duplicate(buffer.Get<half>(), half(1.0f), 16);
                          PipeBarrier<PIPE_ALL>();
                          SetAtomicAdd<float>();
                          DataCopy(Global(output), buffer.Get<half>(), 16);
                        }),
              "data type", "atomic writes are on for float, this instruction writes half");
}

EMULATION_TEST(RegistersLeftSet) {
  CHECK_FAULT(RunOnUb<float>([](auto) { SetAtomicAdd<float>(); }), "register left set",
              "atomic writes are still on");
  CHECK_FAULT(RunOnUb<float>([](auto) { SetMaskCount(); }), "register left set",
              "the mask is still in counter mode");
}

EMULATION_TEST(OtherKernelTypes) {
  Device device(1);
  CHECK_FAULT(RunVector(&device, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY); }),
              "kernel type", "KERNEL_TYPE_AIV_ONLY");
  CHECK_CLEAN(RunVector(&device, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); }));
}
