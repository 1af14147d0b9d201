// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Finished rows and their way to GM: output rows for rows whose keys were all seen, float32 partial
// results with their lse for the others.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_ROW_OUTPUT_H_
#define MINDSPORE_RELAY_AICORE_COMMON_ROW_OUTPUT_H_

#include "attention_tiling.h"
#include "events.h"
#include "ub_buffers.h"

namespace mindspore_relay::aicore {

// Row statistics of the online softmax. A masked score is far below every row maximum, and a row
// maximum never falls below kMinRowMax, so that exp(kMaskedScore - row_max) is 0 also for a row
// whose keys are all masked. Nothing overflows to infinity, and a row without a key has row_sum 0.
constexpr float kMaskedScore = -3.0e38f;
constexpr float kMinRowMax = -1.0e30f;

// Added to every row sum that divides. The largest term of a sum is 1, so that this changes only a
// sum of 0, whose row then becomes 0 / tiny = 0. Unlike a maximum it leaves NaN as it is.
constexpr float kTinySum = 1.0e-37f;

template <typename T>
class RowOutput {
 public:
  // lse: nullptr if not wanted.
  __aicore__ inline void Init(UbBuffers<T> *ub, const AttentionTiling &tiling, GM_ADDR out,
                              GM_ADDR lse, GM_ADDR workspace) {
    ub_ = ub;
    head_size_ = tiling.head_size;
    has_lse_ = lse != nullptr;
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(out));
    lse_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(lse));
    partial_out_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.partial_out));
    partial_lse_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.partial_lse));
  }

  __aicore__ inline void FreeAllBuffers() {
    AscendC::SetFlag<HardEvent::MTE3_V>(kStageEvent);
    AscendC::SetFlag<HardEvent::MTE3_V>(kStage16Event);
    AscendC::SetFlag<HardEvent::MTE3_V>(kStage16Event + 1);
  }
  __aicore__ inline void WaitAllBuffers() {
    AscendC::WaitFlag<HardEvent::MTE3_V>(kStageEvent);
    AscendC::WaitFlag<HardEvent::MTE3_V>(kStage16Event);
    AscendC::WaitFlag<HardEvent::MTE3_V>(kStage16Event + 1);
  }

  // stage <- acc / row_sum, lse <- row_max + ln(row_sum) for a strip of num_rows rows.
  __aicore__ inline void Finish(const LocalTensor<float> &acc, const LocalTensor<float> &row_max,
                                const LocalTensor<float> &row_sum, int32_t num_rows) {
    BeginStrip();
    AscendC::Adds(ub_->StripSum(), row_sum, kTinySum, num_rows);
    VectorBarrier();
    // Not of the larger sum: ln(0) is the -inf of a row without a key.
    AscendC::Ln(ub_->StripLse(), row_sum, num_rows);
    SpreadRows(ub_->SpreadOut(), ub_->StripSum());
    VectorBarrier();
    AscendC::Add(ub_->StripLse(), ub_->StripLse(), row_max, num_rows);
    DivideRowwise(ub_->Stage(), acc, ub_->SpreadOut(), num_rows, head_size_);
    VectorBarrier();
    EndStrip(num_rows);
  }

  // Rows without any key: output 0, lse -inf.
  __aicore__ inline void FinishEmpty(int32_t num_rows) {
    constexpr uint32_t kMinusInfinityBits = 0xff800000u;
    BeginStrip();
    AscendC::Duplicate(ub_->StripLse().template ReinterpretCast<uint32_t>(), kMinusInfinityBits,
                       num_rows);
    AscendC::Duplicate(ub_->Stage(), 0.0f, num_rows * head_size_);
    VectorBarrier();
    EndStrip(num_rows);
  }

  // Stores rows [first, first + num_rows) of the finished strip to the output.
  __aicore__ inline void StoreFinal(const RowRun &run, int32_t first) {
    const auto count = static_cast<uint16_t>(run.num_rows);
    const auto row_bytes = static_cast<uint32_t>(head_size_ * sizeof(T));
    const auto gap = static_cast<uint32_t>(run.packed_step - 1);
    AscendC::DataCopyPad(out_[run.packed_row * head_size_], ub_->Stage16(slot_)[first * head_size_],
                         AscendC::DataCopyExtParams(count, row_bytes, 0, gap * row_bytes, 0));
    if (!has_lse_) return;
    constexpr uint32_t kLseBytes = sizeof(float);
    AscendC::DataCopyPad(lse_[run.packed_row], ub_->LseStage(slot_)[first * kBlockFloats],
                         AscendC::DataCopyExtParams(count, kLseBytes, 0, gap * kLseBytes, 0));
  }

  // Stores them as partial results.
  __aicore__ inline void StorePartial(const RowRun &run, int32_t first) {
    constexpr uint32_t kLseBytes = sizeof(float);
    AscendC::DataCopy(partial_out_[run.partial_row * head_size_], ub_->Stage()[first * head_size_],
                      static_cast<uint32_t>(run.num_rows * head_size_));
    AscendC::DataCopyPad(
        partial_lse_[run.partial_row], ub_->LseStage(slot_)[first * kBlockFloats],
        AscendC::DataCopyExtParams(static_cast<uint16_t>(run.num_rows), kLseBytes, 0, 0, 0));
  }

  // After the last store of a strip.
  __aicore__ inline void ReleaseStrip() {
    AscendC::SetFlag<HardEvent::MTE3_V>(kStageEvent);
    AscendC::SetFlag<HardEvent::MTE3_V>(kStage16Event + slot_);
  }

  __aicore__ inline const AscendC::GlobalTensor<float> &partial_out() const { return partial_out_; }
  __aicore__ inline const AscendC::GlobalTensor<float> &partial_lse() const { return partial_lse_; }

 private:
  __aicore__ inline void BeginStrip() {
    slot_ ^= 1;
    AscendC::WaitFlag<HardEvent::MTE3_V>(kStageEvent);
    AscendC::WaitFlag<HardEvent::MTE3_V>(kStage16Event + slot_);
  }

  // Rounds the stage to T and hands the strip to MTE3.
  __aicore__ inline void EndStrip(int32_t num_rows) {
    AscendC::Cast(ub_->Stage16(slot_), ub_->Stage(), AscendC::RoundMode::CAST_RINT,
                  static_cast<uint32_t>(num_rows * head_size_));
    SpreadRows(ub_->LseStage(slot_), ub_->StripLse());
    AscendC::SetFlag<HardEvent::V_MTE3>(kStage16Event + slot_);
    AscendC::WaitFlag<HardEvent::V_MTE3>(kStage16Event + slot_);
  }

  UbBuffers<T> *ub_ = nullptr;
  int32_t head_size_ = 0;
  bool has_lse_ = false;
  int32_t slot_ = 0;
  AscendC::GlobalTensor<T> out_;
  AscendC::GlobalTensor<float> lse_;
  AscendC::GlobalTensor<float> partial_out_;
  AscendC::GlobalTensor<float> partial_lse_;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_ROW_OUTPUT_H_
