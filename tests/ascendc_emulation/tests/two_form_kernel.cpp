// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A mixed kernel as the package's kernels are written: one source, both kinds of core, constexpr
// selection, tiling struct, user workspace. The cube core multiplies, the vector cores double the
// product.
#include "two_form_kernel.h"

#include "kernel_operator.h"

namespace {

constexpr uint16_t kSide = 32;
constexpr uint16_t kProductReady = 0;

class CubePart {
 public:
  __aicore__ inline void Run(GM_ADDR left, GM_ADDR right, GM_ADDR workspace) {
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::A1> l1_buffer;
    AscendC::TBuf<AscendC::TPosition::A2> l0a_buffer;
    AscendC::TBuf<AscendC::TPosition::B2> l0b_buffer;
    AscendC::TBuf<AscendC::TPosition::CO1> l0c_buffer;
    constexpr uint32_t kBytes = kSide * kSide * sizeof(half);
    pipe.InitBuffer(l1_buffer, 2 * kBytes);
    pipe.InitBuffer(l0a_buffer, kBytes);
    pipe.InitBuffer(l0b_buffer, kBytes);
    pipe.InitBuffer(l0c_buffer, kSide * kSide * sizeof(float));
    auto l1_left = l1_buffer.GetWithOffset<half>(kSide * kSide, 0);
    auto l1_right = l1_buffer.GetWithOffset<half>(kSide * kSide, kBytes);
    auto l0a = l0a_buffer.Get<half>();
    auto l0b = l0b_buffer.Get<half>();
    auto l0c = l0c_buffer.Get<float>();
    LoadToL1(l1_left, left);
    LoadToL1(l1_right, right);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(EVENT_ID0);
    AscendC::LoadData2DParams load;
    load.repeatTimes = kSide / 16;
    load.srcStride = kSide / 16;  // L1 is column block by column block, L0A row block by row block
    for (uint16_t row = 0; row < kSide / 16; ++row) {
      AscendC::LoadData(l0a[row * 16 * kSide], l1_left[row * 256], load);
    }
    load.repeatTimes = kSide * kSide / 256;
    load.srcStride = 1;
    AscendC::LoadData(l0b, l1_right, load);
    AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(EVENT_ID0);
    AscendC::MmadParams mmad;
    mmad.m = kSide;
    mmad.n = kSide;
    mmad.k = kSide;
    AscendC::Mmad(l0c, l0a, l0b, mmad);
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);
    AscendC::FixpipeParamsV220 store;
    store.nSize = kSide;
    store.mSize = kSide;
    store.srcStride = kSide;
    store.dstStride = kSide;
    AscendC::GlobalTensor<float> gm_product;
    gm_product.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(workspace));
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(gm_product, l0c, store);
    AscendC::CrossCoreSetFlag<2, PIPE_FIX>(kProductReady);
  }

 private:
  __aicore__ inline void LoadToL1(const AscendC::LocalTensor<half> &l1, GM_ADDR source) {
    AscendC::GlobalTensor<half> gm_source;
    gm_source.SetGlobalBuffer(reinterpret_cast<__gm__ half *>(source));
    AscendC::Nd2NzParams copy;
    copy.ndNum = 1;
    copy.nValue = kSide;
    copy.dValue = kSide;
    copy.srcDValue = kSide;
    copy.dstNzC0Stride = kSide;
    copy.dstNzNStride = 1;
    AscendC::DataCopy(l1, gm_source, copy);
  }
};

class VectorPart {
 public:
  __aicore__ inline void Run(GM_ADDR workspace, GM_ADDR output, const TwoFormTiling &tiling) {
    constexpr uint32_t kCount = kSide * kSide / 2;
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> ub_buffer;
    pipe.InitBuffer(ub_buffer, kCount * sizeof(float));
    auto ub = ub_buffer.Get<float>();
    const uint64_t offset = AscendC::GetSubBlockIdx() * kCount;
    AscendC::GlobalTensor<float> gm_product;
    gm_product.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(workspace));
    AscendC::GlobalTensor<float> gm_output;
    gm_output.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(output));
    AscendC::CrossCoreWaitFlag(kProductReady);
    AscendC::DataCopy(ub, gm_product[offset], kCount);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::Muls(ub, ub, tiling.factor, static_cast<int32_t>(kCount));
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::DataCopy(gm_output[offset], ub, kCount);
  }
};

}  // namespace

extern "C" __global__ __aicore__ void two_form_kernel(GM_ADDR left, GM_ADDR right, GM_ADDR output,
                                                      GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(TwoFormTiling);
  GET_TILING_DATA_WITH_STRUCT(TwoFormTiling, tiling_data, tiling);
  GM_ADDR user_workspace = AscendC::GetUserWorkspace(workspace);
  if ASCEND_IS_AIC {
    CubePart().Run(left, right, user_workspace);
  }
  if ASCEND_IS_AIV {
    VectorPart().Run(user_workspace, output, tiling_data);
  }
}
