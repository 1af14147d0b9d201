// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// DataCopy and DataCopyPad between GM, UB and L1.
#ifndef ASCENDC_DATA_COPY_H_
#define ASCENDC_DATA_COPY_H_

#include "ascendc/parameters.h"
#include "ascendc/tensor.h"

namespace AscendC {

namespace copy_detail {

inline ascendc_emulation::BlockCopy InBlocks(const DataCopyParams &params) {
  constexpr int64_t kUnit = ONE_BLK_SIZE;
  return {params.blockCount, params.blockLen * kUnit, params.srcStride * kUnit,
          params.dstStride * kUnit};
}

template <typename T>
ascendc_emulation::BlockCopy Contiguous(uint32_t count) {
  return {1, static_cast<int64_t>(uint64_t{count} * sizeof(T)), 0, 0};
}

}  // namespace copy_detail

// ---- whole tensors: count elements, a multiple of 32 bytes ----
template <typename T>
void DataCopy(const LocalTensor<T> &target, const GlobalTensor<T> &source, const uint32_t count) {
  ascendc_emulation::CopyGmToLocal("DataCopy", target.Ref(), source.Ref(),
                                   copy_detail::Contiguous<T>(count), nullptr);
}
template <typename T>
void DataCopy(const GlobalTensor<T> &target, const LocalTensor<T> &source, const uint32_t count) {
  ascendc_emulation::CopyLocalToGm("DataCopy", target.Ref(), source.Ref(),
                                   copy_detail::Contiguous<T>(count));
}
template <typename T>
void DataCopy(const LocalTensor<T> &target, const LocalTensor<T> &source, const uint32_t count) {
  ascendc_emulation::CopyLocalToLocal("DataCopy", target.Ref(), source.Ref(),
                                      copy_detail::Contiguous<T>(count));
}

// ---- blocks of 32-byte units ----
template <typename T>
void DataCopy(const LocalTensor<T> &target, const GlobalTensor<T> &source,
              const DataCopyParams &params) {
  ascendc_emulation::CopyGmToLocal("DataCopy", target.Ref(), source.Ref(),
                                   copy_detail::InBlocks(params), nullptr);
}
template <typename T>
void DataCopy(const GlobalTensor<T> &target, const LocalTensor<T> &source,
              const DataCopyParams &params) {
  ascendc_emulation::CopyLocalToGm("DataCopy", target.Ref(), source.Ref(),
                                   copy_detail::InBlocks(params));
}
template <typename T>
void DataCopy(const LocalTensor<T> &target, const LocalTensor<T> &source,
              const DataCopyParams &params) {
  ascendc_emulation::CopyLocalToLocal("DataCopy", target.Ref(), source.Ref(),
                                      copy_detail::InBlocks(params));
}

// ---- rows of a GM matrix into the NZ layout of L1 ----
template <typename T>
void DataCopy(const LocalTensor<T> &target, const GlobalTensor<T> &source,
              const Nd2NzParams &params) {
  ascendc_emulation::NdToNz copy;
  copy.num_matrices = params.ndNum;
  copy.num_rows = params.nValue;
  copy.num_columns = params.dValue;
  copy.source_matrix_stride = params.srcNdMatrixStride;
  copy.source_row_stride = params.srcDValue;
  copy.target_column_block_stride = params.dstNzC0Stride;
  copy.target_row_stride = params.dstNzNStride;
  copy.target_matrix_stride = params.dstNzMatrixStride;
  ascendc_emulation::CopyNdToNz(target.Ref(), source.Ref(), copy);
}

// ---- blocks of bytes ----
template <typename T>
void DataCopyPad(const LocalTensor<T> &target, const GlobalTensor<T> &source,
                 const DataCopyExtParams &params, const DataCopyPadExtParams<T> &padding) {
  constexpr int64_t kUnit = ONE_BLK_SIZE;
  ascendc_emulation::BlockPadding pad;
  pad.has_value = padding.isPad;
  pad.left_elements = padding.leftPadding;
  pad.right_elements = padding.rightPadding;
  std::memcpy(&pad.value_bits, &padding.paddingValue, sizeof(T));
  ascendc_emulation::CopyGmToLocal(
      "DataCopyPad", target.Ref(), source.Ref(),
      {params.blockCount, params.blockLen, params.srcStride, params.dstStride * kUnit}, &pad);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T> &target, const LocalTensor<T> &source,
                 const DataCopyExtParams &params) {
  constexpr int64_t kUnit = ONE_BLK_SIZE;
  ascendc_emulation::CopyLocalToGm(
      "DataCopyPad", target.Ref(), source.Ref(),
      {params.blockCount, params.blockLen, params.srcStride * kUnit, params.dstStride});
}

// ---- what a write to GM does with the value that is there; stays on until cleared ----
template <typename T>
void SetAtomicAdd() {
  ascendc_emulation::SetAtomic(ascendc_emulation::AtomicMode::kAdd, DTypeOf<T>());
}
template <typename T>
void SetAtomicMax() {
  ascendc_emulation::SetAtomic(ascendc_emulation::AtomicMode::kMax, DTypeOf<T>());
}
template <typename T>
void SetAtomicMin() {
  ascendc_emulation::SetAtomic(ascendc_emulation::AtomicMode::kMin, DTypeOf<T>());
}
inline void SetAtomicNone() {
  ascendc_emulation::SetAtomic(ascendc_emulation::AtomicMode::kNone, DTypeOf<float>());
}
inline void DisableDmaAtomic() { SetAtomicNone(); }

}  // namespace AscendC

#endif  // ASCENDC_DATA_COPY_H_
