// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Merge of partial results: rows whose keys were seen by more than one item.
//
//   lse_max <- max over parts of lse_part,  w_part <- exp(lse_part - lse_max)
//   sum     <- sum of w_part,               acc    <- sum of w_part * out_part
// Then out = acc / sum and lse = lse_max + ln(sum): what RowOutput::Finish does for a single item.
// All lse come first and the weights of all parts are computed together; what is left for each part
// is one multiplication and one addition.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_

#include "row_output.h"

namespace mindspore_relay::aicore {

// Parts of a row: one of each source, and one per core and axis that starts inside its units.
constexpr int32_t kMaxParts = 2 + (kMaxCores - 1) * kNumAxes;
static_assert(kMaxParts * kStripStatBytes <=
                  MakeUbMap(kMaxHeadSize, StepKeys(kMaxHeadSize)).scores_bytes,
              "the lse of all parts lie in a slot of the scores");
static_assert(kMaxParts <= 255, "one instruction repeat per part");

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
    AscendC::SetFlag<HardEvent::V_MTE2>(kScoresEvent);
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent);
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + 1);
  }
  __aicore__ inline void WaitAllBuffers() {
    AscendC::WaitFlag<HardEvent::V_MTE2>(kScoresEvent);
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent);
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + 1);
  }

  __aicore__ inline void Begin(int32_t num_rows) {
    num_rows_ = num_rows;
    num_parts_ = 0;
  }

  // Rows [partial_row, partial_row + num_rows) of the partial results.
  __aicore__ inline void AddPart(int64_t partial_row) { parts_[num_parts_++] = partial_row; }

  // The strip becomes the finished strip of RowOutput; a strip without a part has no key at all.
  __aicore__ inline void End() {
    if (num_parts_ == 0) {
      output_->FinishEmpty(num_rows_);
      return;
    }
    LoadLse();
    LoadOut(0);
    if (num_parts_ > 1) LoadOut(1);
    ComputeWeights();
    for (int32_t part = 0; part < num_parts_; ++part) {
      AddWeighted(part);
      if (part + 2 < num_parts_) LoadOut(part + 2);
    }
    AscendC::SetFlag<HardEvent::V_MTE2>(kScoresEvent);
    output_->Finish(ub_->Acc(), ub_->RowMax(0), ub_->RowSum(0), num_rows_);
  }

 private:
  // [num_parts][kStripRows]: lse of the parts, then their weights.
  __aicore__ inline LocalTensor<float> Weights() { return ub_->Scores(0); }
  // Work space of the same size.
  __aicore__ inline LocalTensor<float> Folded() { return ub_->Scores(1); }

  __aicore__ inline void LoadLse() {
    AscendC::WaitFlag<HardEvent::V_MTE2>(kScoresEvent);
    const AscendC::DataCopyExtParams params(1, static_cast<uint32_t>(num_rows_ * sizeof(float)), 0,
                                            0, 0);
    for (int32_t part = 0; part < num_parts_; ++part) {
      AscendC::DataCopyPad(Weights()[part * kStripRows], output_->partial_lse()[parts_[part]],
                           params, AscendC::DataCopyPadExtParams<float>());
    }
    AscendC::SetFlag<HardEvent::MTE2_V>(kScoresEvent);
  }

  __aicore__ inline void LoadOut(int32_t part) {
    const int32_t slot = part % 2;
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + slot);
    AscendC::DataCopy(ub_->StepOut(slot), output_->partial_out()[parts_[part] * head_size_],
                      static_cast<uint32_t>(num_rows_ * head_size_));
    AscendC::SetFlag<HardEvent::MTE2_V>(kStepOutEvent + slot);
  }

  // weights <- exp(lse - lse_max); row_max <- lse_max; row_sum <- sum of the weights. One repeat of
  // an instruction is the rows of one part.
  __aicore__ inline void ComputeWeights() {
    AscendC::WaitFlag<HardEvent::MTE2_V>(kScoresEvent);
    CopyToFolded();
    for (int32_t count = num_parts_; count > 1; count = CeilDiv(count, 2)) {
      const int32_t kept = CeilDiv(count, 2);
      AscendC::Max(Folded(), Folded(), Folded()[kept * kStripRows],
                   static_cast<uint64_t>(num_rows_), static_cast<uint8_t>(count - kept),
                   PartStrides(kPartBlocks));
      VectorBarrier();
    }
    // A row that no part has a key for: its lse are all -inf, and its weights shall be 0.
    AscendC::Maxs(ub_->RowMax(0), Folded(), kMinRowMax, num_rows_);
    VectorBarrier();
    const auto parts = static_cast<uint8_t>(num_parts_);
    AscendC::Sub(Weights(), Weights(), ub_->RowMax(0), static_cast<uint64_t>(num_rows_), parts,
                 PartStrides(0));
    VectorBarrier();
    AscendC::Exp(Weights(), Weights(), static_cast<uint64_t>(num_rows_), parts,
                 AscendC::UnaryRepeatParams(1, 1, kPartBlocks, kPartBlocks));
    VectorBarrier();
    CopyToFolded();
    for (int32_t count = num_parts_; count > 1; count = CeilDiv(count, 2)) {
      const int32_t kept = CeilDiv(count, 2);
      AscendC::Add(Folded(), Folded(), Folded()[kept * kStripRows],
                   static_cast<uint64_t>(num_rows_), static_cast<uint8_t>(count - kept),
                   PartStrides(kPartBlocks));
      VectorBarrier();
    }
    AscendC::Adds(ub_->RowSum(0), Folded(), 0.0f, num_rows_);
    VectorBarrier();
  }

  __aicore__ inline void CopyToFolded() {
    AscendC::Adds(Folded(), Weights(), 0.0f, static_cast<uint64_t>(num_rows_),
                  static_cast<uint8_t>(num_parts_),
                  AscendC::UnaryRepeatParams(1, 1, kPartBlocks, kPartBlocks));
    VectorBarrier();
  }

  // acc <- acc + w * out, or w * out for the first part
  __aicore__ inline void AddWeighted(int32_t part) {
    const int32_t slot = part % 2;
    const LocalTensor<float> out = ub_->StepOut(slot);
    AscendC::Adds(ub_->StripLse(), Weights()[part * kStripRows], 0.0f, num_rows_);
    VectorBarrier();
    SpreadRows(ub_->Spread(), ub_->StripLse());
    AscendC::WaitFlag<HardEvent::MTE2_V>(kStepOutEvent + slot);
    VectorBarrier();
    if (part == 0) {
      MultiplyRowwise(ub_->Acc(), out, ub_->Spread(), num_rows_, head_size_);
    } else {
      MultiplyRowwise(out, out, ub_->Spread(), num_rows_, head_size_);
      VectorBarrier();
      AscendC::Add(ub_->Acc(), ub_->Acc(), out, num_rows_ * head_size_);
    }
    VectorBarrier();
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + slot);
  }

  static constexpr uint8_t kPartBlocks = kStripRows / kBlockFloats;
  // Strides of an instruction over the parts; its second operand moves by the given blocks per
  // part.
  __aicore__ inline AscendC::BinaryRepeatParams PartStrides(uint8_t second_blocks) const {
    return AscendC::BinaryRepeatParams(1, 1, 1, kPartBlocks, kPartBlocks, second_blocks);
  }

  UbBuffers<T> *ub_ = nullptr;
  RowOutput<T> *output_ = nullptr;
  int32_t head_size_ = 0;
  int32_t num_rows_ = 0;
  int32_t num_parts_ = 0;
  int64_t parts_[kMaxParts];
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_ROW_MERGE_H_
