// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The cube core: scores = Q . K^T and step_out = probabilities . V of every step of its stream.
//
//   step t:  load K(t + 1) | scores(t) -> ring | probabilities(t - 2) . V(t - 2) -> ring | load
//   V(t)
//
// The vector cores turn scores(t - 1) and scores(t - 2) into probabilities meanwhile. K and V go
// from GM to L1 once for up to kTileRows rows. A ring slot is written again only after an event
// that follows its last reading:
//   scores(t) over scores(t - 3): probabilities(t - 3) were waited for at step t - 1;
//   probabilities(t) over (t - 3): scores(t) are ready only after the product of t - 3 left the
//   cube; step_out(t) over (t - 3): probabilities(t) are ready only after step_out(t - 3) was
//   accumulated.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_CUBE_CORE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_CUBE_CORE_H_

#include "events.h"
#include "kv_source.h"
#include "step_stream.h"

namespace mindspore_relay::aicore {

// Io: what differs between the operators.
//   KvSource<T> Keys(const Tile &) const, Values(const Tile &) const
template <typename T, typename Problem, typename Tile, typename Io>
class CubeCore {
 public:
  __aicore__ inline void Init(AscendC::TPipe *pipe, const AttentionTiling &tiling, Problem *problem,
                              const Io &io, GM_ADDR query, GM_ADDR workspace) {
    tiling_ = &tiling;
    problem_ = problem;
    io_ = io;
    map_ = MakeL1Map(tiling.head_size, tiling.step_keys);
    query_ = reinterpret_cast<__gm__ T *>(query);
    const int64_t core = AscendC::GetBlockIdx();
    const int64_t ring_rows = core * kRingSlots * kTileRows;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.scores) +
                            ring_rows * tiling.step_keys);
    probs_ = reinterpret_cast<__gm__ T *>(workspace + tiling.workspace.probs) +
             ring_rows * tiling.step_keys;
    step_out_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float *>(workspace + tiling.workspace.step_out) +
        ring_rows * tiling.head_size);
    stream_.Start(problem, tiling, static_cast<int32_t>(core));
    pipe->InitBuffer(l1_, map_.end);
    pipe->InitBuffer(l0a_, 2 * kL0SlotBytes);
    pipe->InitBuffer(l0b_, 2 * kL0SlotBytes);
    pipe->InitBuffer(l0c_, 2 * kL0CSlotBytes);
  }

  __aicore__ inline void Run() {
    FreeAllBuffers();
    stream_.Fetch();
    if (stream_.num_steps() > 0) LoadKeys(0);
    for (int32_t t = 0; t < stream_.num_steps() + kLookAhead; ++t) {
      const bool has_scores = t < stream_.num_steps();
      if (has_scores) {
        stream_.Fetch();
        if (t + 1 < stream_.num_steps()) LoadKeys(t + 1);
        ComputeScores(t);
      }
      if (t >= kLookAhead && t - kLookAhead < stream_.num_steps()) ComputeStepOut(t - kLookAhead);
      if (has_scores) LoadValues(t);
    }
    WaitAllBuffers();
  }

 private:
  __aicore__ inline void FreeAllBuffers() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(kKeyEvent + slot);
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(kValueEvent + slot);
      AscendC::SetFlag<HardEvent::M_MTE1>(kL0Event + slot);
      AscendC::SetFlag<HardEvent::FIX_M>(kL0CEvent + slot);
    }
  }
  __aicore__ inline void WaitAllBuffers() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kKeyEvent + slot);
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kValueEvent + slot);
      AscendC::WaitFlag<HardEvent::M_MTE1>(kL0Event + slot);
      AscendC::WaitFlag<HardEvent::FIX_M>(kL0CEvent + slot);
    }
  }

  __aicore__ inline AscendC::LocalTensor<T> L1(uint32_t offset, uint32_t num_bytes) {
    return l1_.GetWithOffset<T>(num_bytes / sizeof(T), offset);
  }
  __aicore__ inline AscendC::LocalTensor<T> L1Query(int32_t item) {
    return L1(map_.query + item % 2 * map_.query_bytes, map_.query_bytes);
  }
  __aicore__ inline AscendC::LocalTensor<T> L1Key(int32_t t) {
    return L1(map_.key + t % 2 * map_.kv_bytes, map_.kv_bytes);
  }
  __aicore__ inline AscendC::LocalTensor<T> L1Value(int32_t t) {
    return L1(map_.value + t % 2 * map_.kv_bytes, map_.kv_bytes);
  }
  __aicore__ inline AscendC::LocalTensor<T> L1Probs(int32_t t) {
    return L1(map_.probs + t % 2 * map_.probs_bytes, map_.probs_bytes);
  }
  __aicore__ inline int64_t RingRow(int32_t t) const { return int64_t{t % kRingSlots} * kTileRows; }

  // K of step t and, at the start of an item, its query tile. The slot of the query two items ago
  // is free with the slot of K two steps ago, as an item has at least one step.
  __aicore__ inline void LoadKeys(int32_t t) {
    const Step &step = stream_.At(t);
    const Tile &tile = stream_.TileOf(step);
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kKeyEvent + t % 2);
    if (step.is_first) LoadQuery(tile, step.item);
    io_.Keys(tile).Load(L1Key(t), step.key_begin, step.num_keys, tiling_->head_size,
                        tiling_->step_keys);
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(kKeyEvent + t % 2);
  }

  __aicore__ inline void LoadQuery(const Tile &tile, int32_t item) {
    const AscendC::LocalTensor<T> l1_query = L1Query(item);
    RowRun run;
    for (int32_t row = 0; row < tile.item.num_rows; row += run.num_rows) {
      run = problem_->RunAt(tile, row, tile.item.num_rows);
      CopyRowsToNz(l1_query[row * kFractal], query_ + run.packed_row * tiling_->head_size,
                   run.num_rows, tiling_->head_size, int64_t{run.packed_step} * tiling_->head_size,
                   kTileRows);
    }
  }

  __aicore__ inline void LoadValues(int32_t t) {
    const Step &step = stream_.At(t);
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kValueEvent + t % 2);
    io_.Values(stream_.TileOf(step))
        .Load(L1Value(t), step.key_begin, step.num_keys, tiling_->head_size, tiling_->step_keys);
  }

  // The rows of both vector cores, one behind the other.
  __aicore__ inline void LoadProbs(int32_t t, int32_t num_rows, int32_t num_columns) {
    const int32_t num_first = FirstVectorRows(num_rows);
    __gm__ T *probs = probs_ + RingRow(t) * tiling_->step_keys;
    CopyRowsToNz(L1Probs(t), probs, num_first, num_columns, tiling_->step_keys, kTileRows);
    if (num_first == num_rows) return;
    CopyRowsToNz(L1Probs(t)[num_first * kFractal], probs + kVectorRows * tiling_->step_keys,
                 num_rows - num_first, num_columns, tiling_->step_keys, kTileRows);
  }

  __aicore__ inline void ComputeScores(int32_t t) {
    const Step &step = stream_.At(t);
    const int32_t num_rows = stream_.TileOf(step).item.num_rows;
    const AscendC::LocalTensor<T> l1_query = L1Query(step.item);
    const AscendC::LocalTensor<T> l1_key = L1Key(t);
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kKeyEvent + t % 2);
    for (int32_t n = 0; n < step.num_keys; n += kMmadChunk) {
      const int32_t num_columns = Min(kMmadChunk, step.num_keys - n);
      for (int32_t k = 0; k < tiling_->head_size; k += kMmadChunk) {
        const int32_t depth = Min(kMmadChunk, tiling_->head_size - k);
        BeginMmad(l1_query, num_rows, k, depth);
        LoadKeyOperand(l1_key, n, num_columns, k, depth);
        EndMmad(num_rows, num_columns, depth, k == 0);
      }
      StoreL0C(scores_[RingRow(t) * tiling_->step_keys + n], num_rows, num_columns,
               tiling_->step_keys);
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(kKeyEvent + t % 2);
    AscendC::CrossCoreSetFlag<kCubeVectorMode, PIPE_FIX>(kScoresReady);
  }

  __aicore__ inline void ComputeStepOut(int32_t t) {
    const Step &step = stream_.At(t);
    const int32_t num_rows = stream_.TileOf(step).item.num_rows;
    const AscendC::LocalTensor<T> l1_probs = L1Probs(t);
    const AscendC::LocalTensor<T> l1_value = L1Value(t);
    AscendC::CrossCoreWaitFlag(kProbsReady);
    LoadProbs(t, num_rows, RoundUp(step.num_keys, kFractal));
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(kValueEvent + t % 2);
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kValueEvent + t % 2);
    for (int32_t n = 0; n < tiling_->head_size; n += kMmadChunk) {
      const int32_t num_columns = Min(kMmadChunk, tiling_->head_size - n);
      for (int32_t k = 0; k < step.num_keys; k += kMmadChunk) {
        const int32_t depth = Min(kMmadChunk, step.num_keys - k);
        BeginMmad(l1_probs, num_rows, k, depth);
        LoadValueOperand(l1_value, n, num_columns, k, depth);
        EndMmad(num_rows, num_columns, depth, k == 0);
      }
      StoreL0C(step_out_[RingRow(t) * tiling_->head_size + n], num_rows, num_columns,
               tiling_->head_size);
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(kValueEvent + t % 2);
    AscendC::CrossCoreSetFlag<kCubeVectorMode, PIPE_FIX>(kStepOutReady);
  }

  // Takes the next L0 slot and fills its left operand: columns [k, k + depth) of a [kTileRows] NZ
  // matrix of L1, as Zz.
  __aicore__ inline void BeginMmad(const AscendC::LocalTensor<T> &l1_left, int32_t num_rows,
                                   int32_t k, int32_t depth) {
    l0_slot_ ^= 1;
    AscendC::WaitFlag<HardEvent::M_MTE1>(kL0Event + l0_slot_);
    const AscendC::LocalTensor<T> l0a = Slot(l0a_);
    const int32_t depth_fractals = CeilDiv(depth, kFractal);
    AscendC::LoadData2DParams params;
    params.repeatTimes = static_cast<uint8_t>(depth_fractals);
    params.srcStride = kTileRows / kFractal;
    params.ifTranspose = false;
    for (int32_t row = 0; row < num_rows; row += kFractal) {
      AscendC::LoadData(l0a[row * depth_fractals * kFractal],
                        l1_left[k * kTileRows + row * kFractal], params);
    }
  }

  // Keys [n, n + num_columns), elements [k, k + depth): NZ of K is Zn of K^T already.
  __aicore__ inline void LoadKeyOperand(const AscendC::LocalTensor<T> &l1_key, int32_t n,
                                        int32_t num_columns, int32_t k, int32_t depth) {
    const AscendC::LocalTensor<T> l0b = Slot(l0b_);
    const int32_t columns = RoundUp(num_columns, kFractal);
    AscendC::LoadData2DParams params;
    params.repeatTimes = static_cast<uint8_t>(columns / kFractal);
    params.srcStride = 1;
    params.ifTranspose = false;
    for (int32_t i = 0; i < depth; i += kFractal) {
      AscendC::LoadData(l0b[i * columns], l1_key[(k + i) * tiling_->step_keys + n * kFractal],
                        params);
    }
  }

  // Elements [n, n + num_columns) of keys [k, k + depth): each fractal is transposed.
  __aicore__ inline void LoadValueOperand(const AscendC::LocalTensor<T> &l1_value, int32_t n,
                                          int32_t num_columns, int32_t k, int32_t depth) {
    const AscendC::LocalTensor<T> l0b = Slot(l0b_);
    AscendC::LoadData2DParams params;
    params.repeatTimes = static_cast<uint8_t>(num_columns / kFractal);
    params.srcStride = static_cast<uint16_t>(tiling_->step_keys / kFractal);
    params.ifTranspose = true;
    for (int32_t i = 0; i < depth; i += kFractal) {
      AscendC::LoadData(l0b[i * num_columns], l1_value[n * tiling_->step_keys + (k + i) * kFractal],
                        params);
    }
  }

  __aicore__ inline void EndMmad(int32_t num_rows, int32_t num_columns, int32_t depth,
                                 bool is_first) {
    AscendC::SetFlag<HardEvent::MTE1_M>(kL0Event + l0_slot_);
    AscendC::WaitFlag<HardEvent::MTE1_M>(kL0Event + l0_slot_);
    if (is_first) {
      l0c_slot_ ^= 1;
      AscendC::WaitFlag<HardEvent::FIX_M>(kL0CEvent + l0c_slot_);
    } else {
      AscendC::PipeBarrier<PIPE_M>();
    }
    AscendC::MmadParams params;
    // One row would switch the cube to its matrix-vector layout of L0A.
    params.m = static_cast<uint16_t>(num_rows == 1 ? kFractal : num_rows);
    params.n = static_cast<uint16_t>(num_columns);
    // The true depth: what lies behind the last key in L1 is older data.
    params.k = static_cast<uint16_t>(depth);
    params.cmatrixInitVal = is_first;
    AscendC::Mmad(L0C(), Slot(l0a_), Slot(l0b_), params);
    AscendC::SetFlag<HardEvent::M_MTE1>(kL0Event + l0_slot_);
  }

  __aicore__ inline void StoreL0C(const AscendC::GlobalTensor<float> &gm_dst, int32_t num_rows,
                                  int32_t num_columns, int32_t pitch) {
    AscendC::SetFlag<HardEvent::M_FIX>(kL0CEvent + l0c_slot_);
    AscendC::WaitFlag<HardEvent::M_FIX>(kL0CEvent + l0c_slot_);
    AscendC::FixpipeParamsV220 params;
    params.nSize = static_cast<uint16_t>(RoundUp(num_columns, kFractal));
    params.mSize = static_cast<uint16_t>(num_rows);
    params.srcStride = static_cast<uint16_t>(RoundUp(num_rows, kFractal));
    params.dstStride = static_cast<uint32_t>(pitch);
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(gm_dst, L0C(), params);
    AscendC::SetFlag<HardEvent::FIX_M>(kL0CEvent + l0c_slot_);
  }

  template <AscendC::TPosition position>
  __aicore__ inline AscendC::LocalTensor<T> Slot(AscendC::TBuf<position> &buffer) {
    return buffer.template GetWithOffset<T>(kL0SlotBytes / sizeof(T), l0_slot_ * kL0SlotBytes);
  }
  __aicore__ inline AscendC::LocalTensor<float> L0C() {
    return l0c_.GetWithOffset<float>(kL0CSlotBytes / sizeof(float), l0c_slot_ * kL0CSlotBytes);
  }

  const AttentionTiling *tiling_ = nullptr;
  Problem *problem_ = nullptr;
  Io io_;
  L1Map map_ = {};
  StepStream<Problem, Tile> stream_;
  __gm__ T *query_ = nullptr;
  __gm__ T *probs_ = nullptr;
  AscendC::GlobalTensor<float> scores_;
  AscendC::GlobalTensor<float> step_out_;
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  AscendC::TBuf<AscendC::TPosition::A2> l0a_;
  AscendC::TBuf<AscendC::TPosition::B2> l0b_;
  AscendC::TBuf<AscendC::TPosition::CO1> l0c_;
  uint32_t l0_slot_ = 0;
  uint32_t l0c_slot_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_CUBE_CORE_H_
