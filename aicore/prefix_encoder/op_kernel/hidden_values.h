// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// NaN and infinities in values behind a row's diagonal.
//
// In the few steps that the diagonal of a tile crosses, the cube multiplies values that a row does
// not see by its probability 0, and 0 x NaN is NaN. A sum with NaN or infinity in it is never
// finite again, so the product says itself whether that happened: if it is finite it is right, and
// nothing else has to be read. If not, the vector core computes the strip again, key by key over
// the rows that see the key. NaN or infinity that a row does see comes out all the same.
//
// Cost: in such a step two short passes over the strip's product and one wait of the scalar unit;
// none in other steps. A strip that is computed again takes about
// num_keys * num_rows * head_size / 64 vector repeats.
//
// Relies on what the published documents say of infinity and NaN when they are not saturated
// (KeepInfinityAndNan): Mmad gives them on as IEEE 754 has it, and float instructions of the vector
// unit do always. They also say that Mmad "should" not get a NaN as it may report an error; nothing
// short of looking at all keys and values first could see to that. The check itself is made with
// integer bits and a maximum of numbers of which none is NaN.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_HIDDEN_VALUES_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_HIDDEN_VALUES_H_

#include "../../common/kv_source.h"
#include "../../common/vector_core.h"
#include "../prefix_problem.h"

namespace mindspore_relay::aicore {

// Values that are loaded at once: what the bias's buffers hold at any head_size.
constexpr int32_t kRecomputeKeys = 8;
static_assert(kFractal % kRecomputeKeys == 0, "probabilities are loaded by fractals");
static_assert(kRecomputeKeys * kMaxHeadSize * 2 <= kStripRows * StepKeys(kMaxHeadSize) * 2 &&
                  kRecomputeKeys * kNarrowHeadSize * 2 <=
                      kStripRows * StepKeys(kNarrowHeadSize) * 2,
              "values of 16 bits lie in the buffer of the mask's rows, as float in the bias's");
static_assert(kStripRows * kFractal * kBlockFloats <= kStripRows * StepKeys(kMaxHeadSize),
              "spread probabilities lie in a slot of the scores");

template <typename T>
class HiddenValues {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, const AttentionTiling &tiling) {
    ub_ = ub;
    tiling_ = &tiling;
  }

  // No element of step_out [num_rows][head_size] is NaN or infinity.
  __aicore__ inline bool IsFinite(const LocalTensor<float> &step_out, int32_t num_rows) {
    const LocalTensor<float> maxima = ub_->Fold();
    const int32_t num_elements = num_rows * tiling_->head_size;
    const int32_t repeats = num_elements / kRepeatFloats;
    const int32_t rest = num_elements % kRepeatFloats;
    AscendC::Duplicate(Pattern().template ReinterpretCast<uint32_t>(), kInfinityBits,
                       kRepeatFloats);
    VectorBarrier();
    // As many as Exponents() holds.
    const int32_t at_once = kStripRows * tiling_->step_keys / kRepeatFloats;
    for (int32_t done = 0; done < repeats; done += at_once) {
      FoldExponents(maxima[done], step_out[done * kRepeatFloats], kRepeatFloats,
                    Min(at_once, repeats - done));
    }
    if (rest != 0) FoldExponents(maxima[repeats], step_out[repeats * kRepeatFloats], rest, 1);
    const LocalTensor<float> largest = Largest();
    AscendC::WholeReduceMax(largest, maxima, CeilDiv(num_elements, kRepeatFloats), 1, 1, 1,
                            kBlocksPerRepeat, AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    AscendC::SetFlag<HardEvent::V_S>(kHiddenEvent);
    AscendC::WaitFlag<HardEvent::V_S>(kHiddenEvent);
    const uint32_t bits = largest.template ReinterpretCast<uint32_t>().GetValue(0);
    AscendC::SetFlag<HardEvent::S_V>(kHiddenEvent);
    AscendC::WaitFlag<HardEvent::S_V>(kHiddenEvent);
    return bits != kInfinityBits;
  }

  // step_out[row] <- sum over the keys that the row sees of probs[row][key] * values[key]
  __aicore__ inline void Recompute(const LocalTensor<float> &step_out,
                                   const AscendC::GlobalTensor<T> &probs, const KvSource<T> &values,
                                   const PrefixTile &tile, const ScoreStrip &strip) {
    AscendC::Duplicate(step_out, 0.0f, strip.num_rows * tiling_->head_size);
    // Other data of the same buffers has been used.
    FreeLoads();
    for (int32_t key = 0; key < strip.num_keys; key += kRecomputeKeys) {
      const int32_t num_keys = Min(kRecomputeKeys, strip.num_keys - key);
      AscendC::WaitFlag<HardEvent::V_MTE2>(kHiddenEvent);
      if (key % kFractal == 0) LoadProbs(probs[key], strip.num_rows);
      LoadValues(values, strip.key_begin + key, num_keys);
      AscendC::SetFlag<HardEvent::MTE2_V>(kHiddenEvent);
      AscendC::WaitFlag<HardEvent::MTE2_V>(kHiddenEvent);
      if (key % kFractal == 0) SpreadProbs(strip.num_rows);
      AscendC::Cast(Values(), Values16(), AscendC::RoundMode::CAST_NONE,
                    static_cast<uint32_t>(num_keys * tiling_->head_size));
      VectorBarrier();
      for (int32_t i = 0; i < num_keys; ++i) AddKey(step_out, tile, strip, key + i);
      FreeLoads();
    }
    // What is loaded to these buffers from now on is behind their last use here.
    AscendC::WaitFlag<HardEvent::V_MTE2>(kHiddenEvent);
  }

 private:
  // Exponent of infinity and NaN: all ones. As a float it is infinity.
  static constexpr uint32_t kInfinityBits = 0x7f800000u;
  static constexpr int32_t kBlocksPerRepeat = kRepeatFloats / kBlockFloats;

  // Buffers of other uses of the vector unit: the mask's and the scores' are idle while products
  // are accumulated. Fold: [64] maxima, [64] pattern, one result.
  __aicore__ inline LocalTensor<float> Exponents() { return ub_->Bias(); }
  __aicore__ inline LocalTensor<float> Pattern() { return ub_->Fold()[kRepeatFloats]; }
  __aicore__ inline LocalTensor<float> Largest() { return ub_->Fold()[2 * kRepeatFloats]; }
  __aicore__ inline LocalTensor<T> Values16() { return ub_->Bias16(); }
  __aicore__ inline LocalTensor<float> Values() { return ub_->Bias(); }
  // [kStripRows][kFractal] as loaded, as float, and each spread over a block.
  __aicore__ inline LocalTensor<T> Probs16() {
    return ub_->Scores(1).template ReinterpretCast<T>();
  }
  __aicore__ inline LocalTensor<float> Probs() { return ub_->Scores(1)[kStripRows * kFractal]; }
  __aicore__ inline LocalTensor<float> ProbBlocks() { return ub_->Scores(0); }

  __aicore__ inline void FreeLoads() { AscendC::SetFlag<HardEvent::V_MTE2>(kHiddenEvent); }

  // maxima[i] <- largest of the exponents, as powers of two, of the first num_lanes elements of
  // repeat i; infinity where one of them is not finite.
  __aicore__ inline void FoldExponents(const LocalTensor<float> &maxima,
                                       const LocalTensor<float> &elements, int32_t num_lanes,
                                       int32_t repeats) {
    const auto count = static_cast<uint8_t>(repeats);
    AscendC::And(Exponents().template ReinterpretCast<uint16_t>(),
                 elements.template ReinterpretCast<uint16_t>(),
                 Pattern().template ReinterpretCast<uint16_t>(),
                 static_cast<uint64_t>(num_lanes * 2), count,
                 AscendC::BinaryRepeatParams(1, 1, 1, kBlocksPerRepeat, kBlocksPerRepeat, 0));
    VectorBarrier();
    AscendC::WholeReduceMax(maxima, Exponents(), num_lanes, repeats, 1, 1, kBlocksPerRepeat,
                            AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    VectorBarrier();
  }

  // Whole fractals of probabilities: those behind the last key are zeros.
  __aicore__ inline void LoadProbs(const AscendC::GlobalTensor<T> &probs, int32_t num_rows) {
    const AscendC::DataCopyExtParams params(
        static_cast<uint16_t>(num_rows), static_cast<uint32_t>(kFractal * sizeof(T)),
        static_cast<uint32_t>((tiling_->step_keys - kFractal) * sizeof(T)), 0, 0);
    AscendC::DataCopyPad(Probs16(), probs, params, AscendC::DataCopyPadExtParams<T>());
  }

  __aicore__ inline void SpreadProbs(int32_t num_rows) {
    AscendC::Cast(Probs(), Probs16(), AscendC::RoundMode::CAST_NONE,
                  static_cast<uint32_t>(num_rows * kFractal));
    VectorBarrier();
    AscendC::Brcb(ProbBlocks(), Probs(), static_cast<uint8_t>(num_rows * kFractal / kBlockFloats),
                  AscendC::BrcbRepeatParams(1, kBlockFloats));
  }

  __aicore__ inline void LoadValues(const KvSource<T> &values, int32_t key_begin,
                                    int32_t num_keys) {
    const int32_t head_size = tiling_->head_size;
    int32_t count = 0;
    for (int32_t copied = 0; copied < num_keys; copied += count) {
      count = values.RunLength(key_begin + copied, num_keys - copied);
      AscendC::GlobalTensor<T> rows;
      rows.SetGlobalBuffer(values.Row(key_begin + copied));
      const AscendC::DataCopyExtParams params(
          static_cast<uint16_t>(count), static_cast<uint32_t>(head_size * sizeof(T)),
          static_cast<uint32_t>((values.token_stride - head_size) * sizeof(T)), 0, 0);
      AscendC::DataCopyPad(Values16()[copied * head_size], rows, params,
                           AscendC::DataCopyPadExtParams<T>());
    }
  }

  // Adds the products of one key, of the keys of the strip, to the rows that see it.
  __aicore__ inline void AddKey(const LocalTensor<float> &step_out, const PrefixTile &tile,
                                const ScoreStrip &strip, int32_t key) {
    // The key's position from the tile's first token on: hidden from the tokens before it.
    const int32_t hidden_tokens = strip.key_begin + key - tile.first_position;
    int32_t count = strip.num_rows;
    for (int32_t row = 0; row < strip.num_rows; row += count) {
      if (hidden_tokens > 0) {
        // Tokens follow each other up to the last one of a head.
        const int32_t token = (strip.row + row) % tile.num_tokens;
        count = Min(tile.num_tokens - token, strip.num_rows - row);
        const int32_t hidden_rows = Min(Max(hidden_tokens - token, 0), count);
        AddProducts(step_out, key, row + hidden_rows, count - hidden_rows);
      } else {
        AddProducts(step_out, key, row, count);
      }
    }
    VectorBarrier();
  }

  // step_out[row][:] <- step_out[row][:] + probs[row][key] * values[key][:]
  __aicore__ inline void AddProducts(const LocalTensor<float> &step_out, int32_t key, int32_t row,
                                     int32_t num_rows) {
    if (num_rows == 0) return;
    const int32_t head_size = tiling_->head_size;
    const auto row_blocks = static_cast<uint8_t>(head_size / kBlockFloats);
    const AscendC::BinaryRepeatParams strides(1, 1, 0, row_blocks, 0, kFractal);
    const LocalTensor<float> value = Values()[key % kRecomputeKeys * head_size];
    const LocalTensor<float> prob = ProbBlocks()[(row * kFractal + key % kFractal) * kBlockFloats];
    for (int32_t column = 0; column < head_size; column += kRepeatFloats) {
      AscendC::MulAddDst(step_out[row * head_size + column], value[column], prob,
                         static_cast<uint64_t>(Min(kRepeatFloats, head_size - column)),
                         static_cast<uint8_t>(num_rows), strides);
    }
  }

  UbBuffers<T> *ub_ = nullptr;
  const AttentionTiling *tiling_ = nullptr;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_HIDDEN_VALUES_H_
