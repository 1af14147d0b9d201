// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Merge of partial results: rows whose keys were seen by more than one item.
//
//   lse_max' <- max(lse_max, lse_part),  alpha <- exp(lse_max - lse_max'),  w <- exp(lse_part -
//   lse_max') acc <- acc * alpha + w * out_part,   sum <- sum * alpha + w
// Then out = acc / sum and lse = lse_max + ln(sum): what RowOutput::Finish does for a single item.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_

#include "row_output.h"

namespace mindspore_relay::aicore {

// Merges one strip of at most kStripRows rows at a time.
template <typename T>
class RowMerge {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, RowOutput<T> *output, int32_t head_size) {
    ub_ = ub;
    output_ = output;
    head_size_ = head_size;
  }

  __aicore__ inline void FreeAllBuffers() {
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent);
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + 1);
  }
  __aicore__ inline void WaitAllBuffers() {
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent);
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + 1);
  }

  __aicore__ inline void Begin(int32_t num_rows) {
    num_rows_ = num_rows;
    num_parts_ = 0;
    AscendC::Duplicate(ub_->RowMax(0), kMinRowMax, kStripRows);
    AscendC::Duplicate(ub_->RowSum(0), 0.0f, kStripRows);
    AscendC::Duplicate(ub_->Acc(), 0.0f, num_rows * head_size_);
    VectorBarrier();
  }

  // Rows [partial_row, partial_row + num_rows) of the partial results.
  __aicore__ inline void AddPart(int64_t partial_row) {
    const LocalTensor<float> out = ub_->StepOut(slot_);
    const LocalTensor<float> lse = ub_->Alpha(slot_);
    Load(out, lse, partial_row);
    const LocalTensor<float> lse_max = ub_->StripMax();
    const LocalTensor<float> alpha = ub_->StripSum();
    const LocalTensor<float> weight = ub_->StripLse();
    AscendC::Max(lse_max, ub_->RowMax(0), lse, num_rows_);
    VectorBarrier();
    AscendC::Sub(alpha, ub_->RowMax(0), lse_max, num_rows_);
    AscendC::Sub(weight, lse, lse_max, num_rows_);
    VectorBarrier();
    AscendC::Exp(alpha, alpha, num_rows_);
    AscendC::Exp(weight, weight, num_rows_);
    AscendC::Adds(ub_->RowMax(0), lse_max, 0.0f, num_rows_);
    VectorBarrier();
    AscendC::Mul(ub_->RowSum(0), ub_->RowSum(0), alpha, num_rows_);
    SpreadRows(ub_->Spread(), alpha);
    SpreadRows(ub_->SpreadOut(), weight);
    VectorBarrier();
    AscendC::Add(ub_->RowSum(0), ub_->RowSum(0), weight, num_rows_);
    MultiplyRowwise(ub_->Acc(), ub_->Acc(), ub_->Spread(), num_rows_, head_size_);
    MultiplyRowwise(out, out, ub_->SpreadOut(), num_rows_, head_size_);
    VectorBarrier();
    AscendC::Add(ub_->Acc(), ub_->Acc(), out, num_rows_ * head_size_);
    VectorBarrier();
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + slot_);
    slot_ ^= 1;
    ++num_parts_;
  }

  // The strip becomes the finished strip of RowOutput; a strip without a part has no key at all.
  __aicore__ inline void End() {
    if (num_parts_ == 0) {
      output_->FinishEmpty(num_rows_);
    } else {
      output_->Finish(ub_->Acc(), ub_->RowMax(0), ub_->RowSum(0), num_rows_);
    }
  }

 private:
  __aicore__ inline void Load(const LocalTensor<float> &out, const LocalTensor<float> &lse,
                              int64_t partial_row) {
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + slot_);
    AscendC::DataCopy(out, output_->partial_out()[partial_row * head_size_],
                      static_cast<uint32_t>(num_rows_ * head_size_));
    AscendC::DataCopyPad(
        lse, output_->partial_lse()[partial_row],
        AscendC::DataCopyExtParams(1, static_cast<uint32_t>(num_rows_ * sizeof(float)), 0, 0, 0),
        AscendC::DataCopyPadExtParams<float>());
    AscendC::SetFlag<HardEvent::MTE2_V>(kStepOutEvent + slot_);
    AscendC::WaitFlag<HardEvent::MTE2_V>(kStepOutEvent + slot_);
  }

  UbBuffers<T> *ub_ = nullptr;
  RowOutput<T> *output_ = nullptr;
  int32_t head_size_ = 0;
  int32_t num_rows_ = 0;
  int32_t num_parts_ = 0;
  int32_t slot_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_
