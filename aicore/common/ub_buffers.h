// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The named buffers of a vector core's UB and the row-wise instructions on them.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_UB_BUFFERS_H_
#define MINDSPORE_RELAY_AICORE_COMMON_UB_BUFFERS_H_

#include "kernel_operator.h"
#include "tile_config.h"

namespace mindspore_relay::aicore {

using AscendC::LocalTensor;

// Floats of one vector instruction repeat (256 bytes) and of one 32-byte block.
constexpr int32_t kRepeatFloats = 64;
constexpr int32_t kBlockFloats = 8;

__aicore__ inline void VectorBarrier() { AscendC::PipeBarrier<PIPE_V>(); }

template <typename T>
class UbBuffers {
 public:
  __aicore__ inline void Init(AscendC::TPipe *pipe, int32_t head_size, int32_t step_keys) {
    map_ = MakeUbMap(head_size, step_keys);
    pipe->InitBuffer(ub_, map_.end);
  }

  __aicore__ inline LocalTensor<float> Scores(int32_t slot) {
    return Floats(map_.scores + slot * map_.scores_bytes, map_.scores_bytes);
  }
  __aicore__ inline LocalTensor<T> Probs(int32_t slot) {
    return Halves(map_.probs + slot * map_.probs_bytes, map_.probs_bytes);
  }
  __aicore__ inline LocalTensor<float> StepOut(int32_t slot) {
    return Floats(map_.step_out + slot * map_.out_bytes, map_.out_bytes);
  }
  __aicore__ inline LocalTensor<float> Acc() { return Floats(map_.acc, map_.stage - map_.acc); }
  __aicore__ inline LocalTensor<float> Stage() { return Floats(map_.stage, map_.out_bytes); }
  __aicore__ inline LocalTensor<T> Stage16(int32_t slot) {
    return Halves(map_.stage16 + slot * map_.stage16_bytes, map_.stage16_bytes);
  }
  __aicore__ inline LocalTensor<float> Bias() { return Floats(map_.bias, map_.scores_bytes); }
  __aicore__ inline LocalTensor<T> Bias16() { return Halves(map_.bias16, map_.probs_bytes); }
  __aicore__ inline LocalTensor<float> Columns() {
    return Floats(map_.columns, map_.fold - map_.columns);
  }
  __aicore__ inline LocalTensor<float> Fold() {
    return Floats(map_.fold, map_.row_max - map_.fold);
  }
  __aicore__ inline LocalTensor<float> RowMax(int32_t item) {
    return Floats(map_.row_max + item % kItemSlots * kRowStatBytes, kRowStatBytes);
  }
  __aicore__ inline LocalTensor<float> RowSum(int32_t item) {
    return Floats(map_.row_sum + item % kItemSlots * kRowStatBytes, kRowStatBytes);
  }
  __aicore__ inline LocalTensor<float> Alpha(int32_t step) {
    return Floats(map_.alpha + step % kRingSlots * kRowStatBytes, kRowStatBytes);
  }
  __aicore__ inline LocalTensor<float> StripMax() {
    return Floats(map_.strip_max, kStripStatBytes);
  }
  __aicore__ inline LocalTensor<float> StripSum() {
    return Floats(map_.strip_sum, kStripStatBytes);
  }
  __aicore__ inline LocalTensor<float> StripLse() {
    return Floats(map_.strip_lse, kStripStatBytes);
  }
  __aicore__ inline LocalTensor<float> Spread() { return Floats(map_.spread, kSpreadBytes); }
  __aicore__ inline LocalTensor<float> SpreadOut() { return Floats(map_.spread_out, kSpreadBytes); }
  __aicore__ inline LocalTensor<float> LseStage(int32_t slot) {
    return Floats(map_.lse_stage + slot * kSpreadBytes, kSpreadBytes);
  }

  // Row statistics of a strip are used in whole blocks of 8 or 16 rows; give the rows that a short
  // strip lacks a value.
  __aicore__ inline void ClearRowStatistics() {
    AscendC::Duplicate(Floats(map_.row_max, map_.spread - map_.row_max), 0.0f,
                       static_cast<int32_t>((map_.spread - map_.row_max) / sizeof(float)));
    VectorBarrier();
  }

 private:
  __aicore__ inline LocalTensor<float> Floats(uint32_t offset, uint32_t num_bytes) {
    return ub_.template GetWithOffset<float>(num_bytes / sizeof(float), offset);
  }
  __aicore__ inline LocalTensor<T> Halves(uint32_t offset, uint32_t num_bytes) {
    return ub_.template GetWithOffset<T>(num_bytes / sizeof(T), offset);
  }

  UbMap map_ = {};
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub_;
};

// spread[row][0..7] <- values[row] for the kStripRows rows of a strip.
__aicore__ inline void SpreadRows(const LocalTensor<float> &spread,
                                  const LocalTensor<float> &values) {
  AscendC::Brcb(spread, values, static_cast<uint8_t>(kStripRows / kBlockFloats),
                AscendC::BrcbRepeatParams(1, kBlockFloats));
}

// Strides of an instruction over a [rows][width] matrix whose second operand has one block per row.
__aicore__ inline AscendC::BinaryRepeatParams RowwiseStrides(int32_t width) {
  const auto row = static_cast<uint8_t>(width / kBlockFloats);
  return AscendC::BinaryRepeatParams(1, 1, 0, row, row, 1);
}

// dst[row][:] <- src[row][:] - spread[row]. width: a multiple of 8, up to 256.
__aicore__ inline void SubtractRowwise(const LocalTensor<float> &dst, const LocalTensor<float> &src,
                                       const LocalTensor<float> &spread, int32_t num_rows,
                                       int32_t width) {
  for (int32_t column = 0; column < width; column += kRepeatFloats) {
    AscendC::Sub(dst[column], src[column], spread,
                 static_cast<uint64_t>(Min(kRepeatFloats, width - column)),
                 static_cast<uint8_t>(num_rows), RowwiseStrides(width));
  }
}

// dst[row][:] <- src[row][:] * spread[row]
__aicore__ inline void MultiplyRowwise(const LocalTensor<float> &dst, const LocalTensor<float> &src,
                                       const LocalTensor<float> &spread, int32_t num_rows,
                                       int32_t width) {
  for (int32_t column = 0; column < width; column += kRepeatFloats) {
    AscendC::Mul(dst[column], src[column], spread,
                 static_cast<uint64_t>(Min(kRepeatFloats, width - column)),
                 static_cast<uint8_t>(num_rows), RowwiseStrides(width));
  }
}

// dst[row][:] <- src[row][:] / spread[row]
__aicore__ inline void DivideRowwise(const LocalTensor<float> &dst, const LocalTensor<float> &src,
                                     const LocalTensor<float> &spread, int32_t num_rows,
                                     int32_t width) {
  for (int32_t column = 0; column < width; column += kRepeatFloats) {
    AscendC::Div(dst[column], src[column], spread,
                 static_cast<uint64_t>(Min(kRepeatFloats, width - column)),
                 static_cast<uint8_t>(num_rows), RowwiseStrides(width));
  }
}

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_UB_BUFFERS_H_
