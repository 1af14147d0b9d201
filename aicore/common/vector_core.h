// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The vector cores: softmax of the scores of every step, and the accumulation of its product with
// V.
//
//   step t:  scores(t) -> probabilities(t) | acc <- acc * alpha(t - 2) + step_out(t - 2)
//
// for the half of the tile's rows that this vector core has, in strips of kStripRows rows:
//   row_max' <- max(row_max, max(scores))
//   alpha    <- exp(row_max - row_max')          rescales what was summed under the old maximum
//   probs    <- exp(scores - row_max')
//   row_sum  <- row_sum * alpha + sum(probs)     float32 sum of the unrounded probabilities
// acc is divided by row_sum once, after the last step of an item.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_VECTOR_CORE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_VECTOR_CORE_H_

#include "row_output.h"
#include "step_stream.h"

namespace mindspore_relay::aicore {

// Rows [row, row + num_rows) of a tile against the keys [key_begin, key_begin + num_keys), held as
// [num_rows][width] in UB; width is num_keys rounded up to whole repeats.
struct ScoreStrip {
  int32_t row;
  int32_t num_rows;
  int32_t key_begin;
  int32_t num_keys;
  int32_t width;
};

// Bias: what is added to the scaled scores, and which keys a row does not see.
//   void Apply(const LocalTensor<float> &scores, const Tile &, const ScoreStrip &);
//   bool HidesKeys(const Tile &, const ScoreStrip &) const;  some row does not see some key
//   void KeepHiddenOut(const LocalTensor<float> &step_out, const GlobalTensor<T> &probs,
//                      const Tile &, const ScoreStrip &);
// The last one is called for such strips only. step_out [num_rows][head_size] is what the cube
// computed of all keys, probs [num_rows][step_keys] what it had multiplied; afterwards nothing of a
// key is in step_out of a row that does not see it.
template <typename T, typename Problem, typename Tile, typename Bias>
class VectorCore {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, RowOutput<T> *output, const AttentionTiling &tiling,
                              Problem *problem, Bias *bias, GM_ADDR workspace) {
    ub_ = ub;
    output_ = output;
    tiling_ = &tiling;
    problem_ = problem;
    bias_ = bias;
    sub_core_ = static_cast<int32_t>(AscendC::GetSubBlockIdx());
    const int64_t core = AscendC::GetBlockIdx() / 2;
    const int64_t ring_rows = core * kRingSlots * kTileRows;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.scores) +
                            ring_rows * tiling.step_keys);
    probs_.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(workspace + tiling.workspace.probs) +
                           ring_rows * tiling.step_keys);
    step_out_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.step_out) +
        ring_rows * tiling.head_size);
    stream_.Start(problem, tiling, static_cast<int32_t>(core));
  }

  __aicore__ inline void Run() {
    FreeAllBuffers();
    stream_.Fetch();
    for (int32_t t = 0; t < stream_.num_steps() + kLookAhead; ++t) {
      if (t < stream_.num_steps()) {
        stream_.Fetch();
        Softmax(t);
      }
      if (t >= kLookAhead && t - kLookAhead < stream_.num_steps()) Accumulate(t - kLookAhead);
    }
    WaitAllBuffers();
  }

 private:
  // The rows of a tile that this vector core has. The second one may have none.
  struct RowRange {
    int32_t begin;
    int32_t end;
  };
  __aicore__ inline RowRange RowsOf(const Tile &tile) const {
    const int32_t num_first = FirstVectorRows(tile.item.num_rows);
    return sub_core_ == 0 ? RowRange{0, num_first} : RowRange{num_first, tile.item.num_rows};
  }

  __aicore__ inline void FreeAllBuffers() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<HardEvent::V_MTE2>(kScoresEvent + slot);
      AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + slot);
      AscendC::SetFlag<HardEvent::MTE3_V>(kProbsEvent + slot);
    }
  }
  __aicore__ inline void WaitAllBuffers() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<HardEvent::V_MTE2>(kScoresEvent + slot);
      AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + slot);
      AscendC::WaitFlag<HardEvent::MTE3_V>(kProbsEvent + slot);
    }
  }

  __aicore__ inline void Softmax(int32_t t) {
    const Step &step = stream_.At(t);
    const Tile &tile = stream_.TileOf(step);
    const RowRange mine = RowsOf(tile);
    AscendC::CrossCoreWaitFlag(kScoresReady);
    // A vector core without rows still takes part in every flag. It need not order them behind what
    // it reads of older steps: the cube core writes no row of this half until the core has rows
    // again.
    if (mine.begin < mine.end) {
      if (step.is_first) ResetRowStatistics(step.item);
      LoadScores(t, StripAt(step, mine, mine.begin), scores_slot_);
    }
    for (int32_t row = mine.begin; row < mine.end; row += kStripRows) {
      const int32_t next = row + kStripRows;
      if (next < mine.end) LoadScores(t, StripAt(step, mine, next), scores_slot_ ^ 1);
      SoftmaxStrip(t, tile, StripAt(step, mine, row), row - mine.begin);
      scores_slot_ ^= 1;
    }
    AscendC::CrossCoreSetFlag<kCubeVectorMode, PIPE_MTE3>(kProbsReady);
  }

  __aicore__ inline ScoreStrip StripAt(const Step &step, const RowRange &mine, int32_t row) const {
    return {row, Min(kStripRows, mine.end - row), step.key_begin, step.num_keys,
            RoundUp(step.num_keys, kRepeatFloats)};
  }

  __aicore__ inline void ResetRowStatistics(int32_t item) {
    AscendC::Duplicate(ub_->RowMax(item), kMinRowMax, kVectorRows);
    AscendC::Duplicate(ub_->RowSum(item), 0.0f, kVectorRows);
    VectorBarrier();
  }

  __aicore__ inline int64_t RingRow(int32_t t, int32_t row) const {
    return int64_t{t % kRingSlots} * kTileRows + row;
  }

  // Rows of the ring of probabilities from a row of this vector core on.
  __aicore__ inline AscendC::GlobalTensor<T> ProbsOf(int32_t t, int32_t local_row) {
    return probs_[RingRow(t, sub_core_ * kVectorRows + local_row) * tiling_->step_keys];
  }

  __aicore__ inline void LoadScores(int32_t t, const ScoreStrip &strip, int32_t slot) {
    AscendC::WaitFlag<HardEvent::V_MTE2>(kScoresEvent + slot);
    const int32_t filled = RoundUp(strip.num_keys, kBlockFloats);
    const AscendC::DataCopyExtParams params(
        static_cast<uint16_t>(strip.num_rows),
        static_cast<uint32_t>(strip.num_keys * sizeof(float)),
        static_cast<uint32_t>((tiling_->step_keys - strip.num_keys) * sizeof(float)),
        static_cast<uint32_t>((strip.width - filled) / kBlockFloats), 0);
    AscendC::DataCopyPad(ub_->Scores(slot), scores_[RingRow(t, strip.row) * tiling_->step_keys],
                         params, AscendC::DataCopyPadExtParams<float>());
    AscendC::SetFlag<HardEvent::MTE2_V>(kScoresEvent + slot);
  }

  // local_row: row of the strip among the rows of this vector core.
  __aicore__ inline void SoftmaxStrip(int32_t t, const Tile &tile, const ScoreStrip &strip,
                                      int32_t local_row) {
    const LocalTensor<float> scores = ub_->Scores(scores_slot_);
    AscendC::WaitFlag<HardEvent::MTE2_V>(kScoresEvent + scores_slot_);
    ScaleScores(scores, strip);
    bias_->Apply(scores, tile, strip);
    UpdateRowMax(t, scores, strip, local_row);
    SubtractRowwise(scores, scores, ub_->Spread(), strip.num_rows, strip.width);
    VectorBarrier();
    AscendC::Exp(scores, scores, strip.num_rows * strip.width);
    VectorBarrier();
    StoreProbs(t, scores, strip, local_row);
    UpdateRowSum(t, scores, strip, local_row);
    AscendC::SetFlag<HardEvent::V_MTE2>(kScoresEvent + scores_slot_);
  }

  // scores <- scores * qk_scale; the columns behind the last key are masked.
  __aicore__ inline void ScaleScores(const LocalTensor<float> &scores, const ScoreStrip &strip) {
    const auto rows = static_cast<uint8_t>(strip.num_rows);
    const auto row_blocks = static_cast<uint8_t>(strip.width / kBlockFloats);
    for (int32_t column = 0; column < strip.num_keys; column += kRepeatFloats) {
      AscendC::Muls(scores[column], scores[column], tiling_->qk_scale,
                    static_cast<uint64_t>(Min(kRepeatFloats, strip.num_keys - column)), rows,
                    AscendC::UnaryRepeatParams(1, 1, row_blocks, row_blocks));
    }
    const int32_t used = strip.num_keys % kRepeatFloats;
    if (used != 0) {
      uint64_t unused_lanes[2] = {~uint64_t{0} << used, 0};
      AscendC::Duplicate(scores[strip.width - kRepeatFloats], kMaskedScore, unused_lanes, rows, 1,
                         row_blocks);
    }
    VectorBarrier();
  }

  // spread <- row_max' of each row; alpha of the step.
  __aicore__ inline void UpdateRowMax(int32_t t, const LocalTensor<float> &scores,
                                      const ScoreStrip &strip, int32_t local_row) {
    const int32_t item = stream_.At(t).item;
    const LocalTensor<float> row_max = ub_->RowMax(item)[local_row];
    const LocalTensor<float> strip_max = ub_->StripMax();
    const LocalTensor<float> alpha = ub_->Alpha(t)[local_row];
    if (strip.width == kRepeatFloats) {
      ReduceMax(strip_max, scores, strip.num_rows);
    } else {
      const auto row_blocks = static_cast<uint8_t>(strip.width / kBlockFloats);
      const auto rows = static_cast<uint8_t>(strip.num_rows);
      AscendC::Max(ub_->Fold(), scores, scores[kRepeatFloats], kRepeatFloats, rows,
                   AscendC::BinaryRepeatParams(1, 1, 1, kBlockFloats, row_blocks, row_blocks));
      VectorBarrier();
      for (int32_t column = 2 * kRepeatFloats; column < strip.width; column += kRepeatFloats) {
        AscendC::Max(ub_->Fold(), ub_->Fold(), scores[column], kRepeatFloats, rows,
                     AscendC::BinaryRepeatParams(1, 1, 1, kBlockFloats, kBlockFloats, row_blocks));
        VectorBarrier();
      }
      ReduceMax(strip_max, ub_->Fold(), strip.num_rows);
    }
    VectorBarrier();
    AscendC::Max(strip_max, strip_max, row_max, strip.num_rows);
    VectorBarrier();
    AscendC::Sub(alpha, row_max, strip_max, strip.num_rows);
    SpreadRows(ub_->Spread(), strip_max);
    VectorBarrier();
    AscendC::Exp(alpha, alpha, strip.num_rows);
    AscendC::Adds(row_max, strip_max, 0.0f, strip.num_rows);
    VectorBarrier();
  }

  // row_sum <- row_sum * alpha + sum(probs)
  __aicore__ inline void UpdateRowSum(int32_t t, const LocalTensor<float> &probs,
                                      const ScoreStrip &strip, int32_t local_row) {
    const int32_t item = stream_.At(t).item;
    const LocalTensor<float> row_sum = ub_->RowSum(item)[local_row];
    const LocalTensor<float> strip_sum = ub_->StripSum();
    if (strip.width == kRepeatFloats) {
      ReduceSum(strip_sum, probs, strip.num_rows);
    } else {
      const auto row_blocks = static_cast<uint8_t>(strip.width / kBlockFloats);
      const auto rows = static_cast<uint8_t>(strip.num_rows);
      AscendC::Add(ub_->Fold(), probs, probs[kRepeatFloats], kRepeatFloats, rows,
                   AscendC::BinaryRepeatParams(1, 1, 1, kBlockFloats, row_blocks, row_blocks));
      VectorBarrier();
      for (int32_t column = 2 * kRepeatFloats; column < strip.width; column += kRepeatFloats) {
        AscendC::Add(ub_->Fold(), ub_->Fold(), probs[column], kRepeatFloats, rows,
                     AscendC::BinaryRepeatParams(1, 1, 1, kBlockFloats, kBlockFloats, row_blocks));
        VectorBarrier();
      }
      ReduceSum(strip_sum, ub_->Fold(), strip.num_rows);
    }
    AscendC::Mul(row_sum, row_sum, ub_->Alpha(t)[local_row], strip.num_rows);
    VectorBarrier();
    AscendC::Add(row_sum, row_sum, strip_sum, strip.num_rows);
    VectorBarrier();
  }

  // dst[row] <- max(src[row][0..63])
  __aicore__ inline void ReduceMax(const LocalTensor<float> &dst, const LocalTensor<float> &src,
                                   int32_t num_rows) {
    AscendC::WholeReduceMax(dst, src, kRepeatFloats, num_rows, 1, 1, kBlockFloats,
                            AscendC::ReduceOrder::ORDER_ONLY_VALUE);
  }
  // dst[row] <- sum(src[row][0..63])
  __aicore__ inline void ReduceSum(const LocalTensor<float> &dst, const LocalTensor<float> &src,
                                   int32_t num_rows) {
    AscendC::WholeReduceSum(dst, src, kRepeatFloats, num_rows, 1, 1, kBlockFloats);
  }

  // Whole fractals of 16 columns go to the ring; those behind the last key are exact zeros.
  __aicore__ inline void StoreProbs(int32_t t, const LocalTensor<float> &probs,
                                    const ScoreStrip &strip, int32_t local_row) {
    const LocalTensor<T> rounded = ub_->Probs(probs_slot_);
    AscendC::WaitFlag<HardEvent::MTE3_V>(kProbsEvent + probs_slot_);
    AscendC::Cast(rounded, probs, AscendC::RoundMode::CAST_RINT,
                  static_cast<uint32_t>(strip.num_rows * strip.width));
    AscendC::SetFlag<HardEvent::V_MTE3>(kProbsEvent + probs_slot_);
    AscendC::WaitFlag<HardEvent::V_MTE3>(kProbsEvent + probs_slot_);
    const int32_t columns = RoundUp(strip.num_keys, kFractal);
    const AscendC::DataCopyExtParams params(
        static_cast<uint16_t>(strip.num_rows), static_cast<uint32_t>(columns * sizeof(T)),
        static_cast<uint32_t>((strip.width - columns) / kFractal),
        static_cast<uint32_t>((tiling_->step_keys - columns) * sizeof(T)), 0);
    AscendC::DataCopyPad(ProbsOf(t, local_row), rounded, params);
    AscendC::SetFlag<HardEvent::MTE3_V>(kProbsEvent + probs_slot_);
    probs_slot_ ^= 1;
  }

  __aicore__ inline void Accumulate(int32_t t) {
    const Step &step = stream_.At(t);
    const Tile &tile = stream_.TileOf(step);
    const RowRange mine = RowsOf(tile);
    AscendC::CrossCoreWaitFlag(kStepOutReady);
    for (int32_t row = mine.begin; row < mine.end; row += kStripRows) {
      const ScoreStrip strip = StripAt(step, mine, row);
      AccumulateStrip(t, tile, strip, row - mine.begin);
      if (step.is_last) FinishStrip(step, tile, row, row - mine.begin, strip.num_rows);
    }
  }

  // acc <- acc * alpha + step_out
  __aicore__ inline void AccumulateStrip(int32_t t, const Tile &tile, const ScoreStrip &strip,
                                         int32_t local_row) {
    const int32_t head_size = tiling_->head_size;
    const int32_t num_elements = strip.num_rows * head_size;
    const LocalTensor<float> step_out = ub_->StepOut(step_out_slot_);
    const LocalTensor<float> acc = ub_->Acc()[local_row * head_size];
    AscendC::WaitFlag<HardEvent::V_MTE2>(kStepOutEvent + step_out_slot_);
    AscendC::DataCopy(step_out, step_out_[RingRow(t, strip.row) * head_size],
                      static_cast<uint32_t>(num_elements));
    AscendC::SetFlag<HardEvent::MTE2_V>(kStepOutEvent + step_out_slot_);
    AscendC::WaitFlag<HardEvent::MTE2_V>(kStepOutEvent + step_out_slot_);
    if (bias_->HidesKeys(tile, strip)) {
      // The ring still has the probabilities: only this core writes them, again at step t + 3.
      bias_->KeepHiddenOut(step_out, ProbsOf(t, local_row), tile, strip);
    }
    if (stream_.At(t).is_first) {
      AscendC::Adds(acc, step_out, 0.0f, num_elements);
    } else {
      SpreadRows(ub_->SpreadOut(), ub_->Alpha(t)[local_row]);
      VectorBarrier();
      MultiplyRowwise(acc, acc, ub_->SpreadOut(), strip.num_rows, head_size);
      VectorBarrier();
      AscendC::Add(acc, acc, step_out, num_elements);
    }
    VectorBarrier();
    AscendC::SetFlag<HardEvent::V_MTE2>(kStepOutEvent + step_out_slot_);
    step_out_slot_ ^= 1;
  }

  __aicore__ inline void FinishStrip(const Step &step, const Tile &tile, int32_t row,
                                     int32_t local_row, int32_t num_rows) {
    output_->Finish(ub_->Acc()[local_row * tiling_->head_size], ub_->RowMax(step.item)[local_row],
                    ub_->RowSum(step.item)[local_row], num_rows);
    RowRun run;
    for (int32_t done = 0; done < num_rows; done += run.num_rows) {
      run = problem_->RunAt(tile, row + done, row + num_rows);
      if (run.is_final) {
        output_->StoreFinal(run, done);
      } else {
        output_->StorePartial(run, done);
      }
    }
    output_->ReleaseStrip();
  }

  UbBuffers<T> *ub_ = nullptr;
  RowOutput<T> *output_ = nullptr;
  const AttentionTiling *tiling_ = nullptr;
  Problem *problem_ = nullptr;
  Bias *bias_ = nullptr;
  int32_t sub_core_ = 0;
  StepStream<Problem, Tile> stream_;
  AscendC::GlobalTensor<float> scores_;
  AscendC::GlobalTensor<T> probs_;
  AscendC::GlobalTensor<float> step_out_;
  int32_t scores_slot_ = 0;
  int32_t probs_slot_ = 0;
  int32_t step_out_slot_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_VECTOR_CORE_H_
