// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The cube unit: L1 -> L0A/L0B (LoadData), L0A x L0B -> L0C (Mmad), L0C -> GM (Fixpipe, row major).
#ifndef ASCENDC_CUBE_H_
#define ASCENDC_CUBE_H_

#include "ascendc/parameters.h"
#include "ascendc/tensor.h"

namespace AscendC {

template <typename T>
void LoadData(const LocalTensor<T> &target, const LocalTensor<T> &source,
              const LoadData2DParams &params) {
  ascendc_emulation::LoadFractals("LoadData", target.Ref(), source.Ref(),
                                  {params.startIndex, params.repeatTimes, params.srcStride,
                                   params.dstGap, params.ifTranspose, params.addrMode != 0});
}

// 16-bit types only: their square matrix is one fractal, so dstFracGap has no effect.
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T> &target, const LocalTensor<T> &source,
                           const LoadData2dTransposeParams &params) {
  ascendc_emulation::LoadFractals("LoadDataWithTranspose", target.Ref(), source.Ref(),
                                  {params.startIndex, params.repeatTimes, params.srcStride,
                                   params.dstGap, true, params.addrMode != 0});
}

template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T> &target, const LocalTensor<U> &left, const LocalTensor<S> &right,
          const MmadParams &params) {
  ascendc_emulation::MatrixMultiply multiply;
  multiply.m = params.m;
  multiply.n = params.n;
  multiply.k = params.k;
  multiply.clear_target = params.cmatrixInitVal;
  multiply.has_unsupported_option =
      params.cmatrixSource || params.isBias || params.kDirectionAlign || params.unitFlag != 0;
  ascendc_emulation::MultiplyMatrices(target.Ref(), left.Ref(), right.Ref(), multiply);
}

// Fills 32-byte blocks of L1 (or fractals of L0A, L0B) with one value.
template <typename T>
void Fill(const LocalTensor<T> &target, const InitConstValueParams<T> &params) {
  uint64_t bits = 0;
  std::memcpy(&bits, &params.initValue, sizeof(T));
  ascendc_emulation::FillConstant(target.Ref(), params.repeatTimes, params.blockNum, params.dstGap,
                                  bits);
}
template <typename T>
void InitConstValue(const LocalTensor<T> &target, const InitConstValueParams<T> &params) {
  Fill(target, params);
}

namespace cube_detail {
inline ascendc_emulation::MatrixStore ToMatrixStore(const FixpipeParamsV220 &params,
                                                    CO2Layout layout) {
  using ascendc_emulation::MatrixConversion;
  ascendc_emulation::MatrixStore store;
  store.num_columns = params.nSize;
  store.num_rows = params.mSize;
  store.source_stride = params.srcStride;
  store.target_stride = params.dstStride;
  store.num_matrices = params.ndNum;
  store.source_matrix_stride = params.srcNdStride;
  store.target_matrix_stride = params.dstNdStride;
  store.conversion = params.quantPre == NoQuant    ? MatrixConversion::kNone
                     : params.quantPre == F322F16  ? MatrixConversion::kToHalf
                     : params.quantPre == F322BF16 ? MatrixConversion::kToBFloat16
                                                   : MatrixConversion::kUnsupported;
  store.apply_relu = params.reluEn;
  store.has_unsupported_option =
      params.unitFlag != 0 || params.isChannelSplit || layout != CO2Layout::ROW_MAJOR;
  return store;
}
}  // namespace cube_detail

template <typename T, typename U, const FixpipeConfig &config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T> &target, const LocalTensor<U> &source,
             const FixpipeParamsV220 &params) {
  ascendc_emulation::StoreMatrixToGm(target.Ref(), source.Ref(),
                                     cube_detail::ToMatrixStore(params, config.format));
}

}  // namespace AscendC

#endif  // ASCENDC_CUBE_H_
