// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Causal mask and ALiBi bias of a strip of scores, and what the mask hides from the strip's output.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_BIAS_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_BIAS_H_

#include "hidden_values.h"
#include "prefix_io.h"

namespace mindspore_relay::aicore {

template <typename T>
class PrefixBias {
 public:
  __aicore__ inline void Init(UbBuffers<T> *ub, const PrefixEncoderTiling &tiling,
                              const PrefixIo<T> &io, GM_ADDR mask, GM_ADDR slopes) {
    ub_ = ub;
    tiling_ = &tiling;
    io_ = io;
    hidden_.Init(ub, tiling.attention);
    kind_ = static_cast<BiasKind>(tiling.bias_kind);
    table_.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(mask));
    slopes_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(slopes));
    if (kind_ != BiasKind::kNone && kind_ != BiasKind::kTable) FillColumns();
  }

  __aicore__ inline void Apply(const LocalTensor<float> &scores, const PrefixTile &tile,
                               const ScoreStrip &strip) {
    if (kind_ == BiasKind::kTable) {
      AddTable(scores, tile, strip);
    } else if (kind_ != BiasKind::kNone) {
      AddSlope(scores, tile, strip);
    }
    // Rows of a tile are in the order of their positions for each head: the first one sees least.
    if (tile.first_position < strip.key_begin + strip.width - 1) MaskFuture(scores, tile, strip);
  }

  __aicore__ inline bool HidesKeys(const PrefixTile &tile, const ScoreStrip &strip) const {
    const int32_t token = strip.row % tile.num_tokens;
    const bool is_one_head = token + strip.num_rows <= tile.num_tokens;
    const int32_t lowest_position = tile.first_position + (is_one_head ? token : 0);
    return lowest_position < strip.key_begin + strip.num_keys - 1;
  }

  __aicore__ inline void KeepHiddenOut(const LocalTensor<float> &step_out,
                                       const AscendC::GlobalTensor<T> &probs,
                                       const PrefixTile &tile, const ScoreStrip &strip) {
    if (hidden_.IsFinite(step_out, strip.num_rows)) return;
    hidden_.Recompute(step_out, probs, io_.Values(tile), tile, strip);
  }

 private:
  // columns[j] <- j: blocks of doubled length, each the previous ones plus their length.
  __aicore__ inline void FillColumns() {
    const LocalTensor<float> columns = ub_->Columns();
    for (int32_t column = 0; column < kBlockFloats; ++column) {
      columns.SetValue(static_cast<uint32_t>(column), static_cast<float>(column));
    }
    AscendC::SetFlag<HardEvent::S_V>(0);
    AscendC::WaitFlag<HardEvent::S_V>(0);
    for (int32_t filled = kBlockFloats; filled < tiling_->attention.step_keys; filled *= 2) {
      AscendC::Adds(columns[filled], columns, static_cast<float>(filled), filled);
      VectorBarrier();
    }
  }

  __aicore__ inline int32_t Position(const PrefixTile &tile, int32_t row) const {
    return tile.first_position + row % tile.num_tokens;
  }
  __aicore__ inline int32_t Head(const PrefixTile &tile, int32_t row) const {
    return tile.first_head + row / tile.num_tokens;
  }

  // scores[row][j] <- scores[row][j] + slope * f, where f is the distance p - j of the key, its
  // square root, or the key's position j. Distances are exact in float32: one rounding for the
  // product.
  __aicore__ inline void AddSlope(const LocalTensor<float> &scores, const PrefixTile &tile,
                                  const ScoreStrip &strip) {
    const LocalTensor<float> bias = ub_->Bias();
    const LocalTensor<float> columns = ub_->Columns();
    const int32_t width = strip.width;
    if (kind_ == BiasKind::kColumn) {
      for (int32_t row = 0; row < strip.num_rows; ++row) {
        AscendC::Adds(bias[row * width], columns, static_cast<float>(strip.key_begin), width);
      }
    } else {
      for (int32_t row = 0; row < strip.num_rows; ++row) {
        AscendC::Muls(bias[row * width], columns, -1.0f, width);
      }
      VectorBarrier();
      for (int32_t row = 0; row < strip.num_rows; ++row) {
        const int32_t distance = Position(tile, strip.row + row) - strip.key_begin;
        AscendC::Adds(bias[row * width], bias[row * width], static_cast<float>(distance), width);
      }
    }
    VectorBarrier();
    if (kind_ == BiasKind::kSqrtDistance) {
      // Keys behind the diagonal have a negative distance; they are masked below.
      AscendC::Maxs(bias, bias, 0.0f, strip.num_rows * width);
      VectorBarrier();
      AscendC::Sqrt(bias, bias, strip.num_rows * width);
      VectorBarrier();
    }
    for (int32_t row = 0; row < strip.num_rows; ++row) {
      const float slope = slopes_.GetValue(static_cast<uint64_t>(Head(tile, strip.row + row)));
      AscendC::Muls(bias[row * width], bias[row * width], slope, width);
    }
    VectorBarrier();
    AscendC::Add(scores, scores, bias, strip.num_rows * width);
    VectorBarrier();
  }

  // scores[row][j] <- scores[row][j] + table[head][p - 128 * (j / 128)][j % 128]. Items start at a
  // multiple of 128 keys. What lies above the diagonal is overwritten by the mask afterwards.
  __aicore__ inline void AddTable(const LocalTensor<float> &scores, const PrefixTile &tile,
                                  const ScoreStrip &strip) {
    const LocalTensor<T> rows16 = ub_->Bias16();
    const LocalTensor<float> rows = ub_->Bias();
    const int32_t width = strip.width;
    const int32_t num_elements = strip.num_rows * width;
    // Blocks of keys that a row does not see are not loaded.
    AscendC::Duplicate(rows, 0.0f, num_elements);
    VectorBarrier();
    AscendC::Cast(rows16, rows, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(num_elements));
    AscendC::SetFlag<HardEvent::V_MTE2>(kBiasEvent);
    AscendC::WaitFlag<HardEvent::V_MTE2>(kBiasEvent);
    for (int32_t row = 0; row < strip.num_rows; ++row) {
      const int32_t position = Position(tile, strip.row + row);
      const int64_t head_row = int64_t{Head(tile, strip.row + row)} * tiling_->table_rows;
      for (int32_t column = 0; column < strip.num_keys; column += kTableColumns) {
        const int32_t table_row = position - strip.key_begin - column;
        if (table_row < 0) break;
        const int32_t count = Min(kTableColumns, width - column);
        AscendC::DataCopyPad(
            rows16[row * width + column], table_[(head_row + table_row) * kTableColumns],
            AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0),
            AscendC::DataCopyPadExtParams<T>());
      }
    }
    AscendC::SetFlag<HardEvent::MTE2_V>(kBiasEvent);
    AscendC::WaitFlag<HardEvent::MTE2_V>(kBiasEvent);
    AscendC::Cast(rows, rows16, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(num_elements));
    VectorBarrier();
    AscendC::Add(scores, scores, rows, num_elements);
    VectorBarrier();
  }

  // Masks the keys behind each row's position, and with them the columns behind the last key: the
  // table may have put anything there.
  __aicore__ inline void MaskFuture(const LocalTensor<float> &scores, const PrefixTile &tile,
                                    const ScoreStrip &strip) {
    for (int32_t row = 0; row < strip.num_rows; ++row) {
      const int32_t num_visible = Max(0, Position(tile, strip.row + row) - strip.key_begin + 1);
      if (num_visible >= strip.width) continue;
      const LocalTensor<float> row_scores = scores[row * strip.width];
      const int32_t used = num_visible % kRepeatFloats;
      if (used != 0) {
        uint64_t future_lanes[2] = {~uint64_t{0} << used, 0};
        AscendC::Duplicate(row_scores[num_visible - used], kMaskedScore, future_lanes, 1, 1,
                           kBlockFloats);
      }
      const int32_t masked_from = RoundUp(num_visible, kRepeatFloats);
      if (masked_from < strip.width) {
        AscendC::Duplicate(row_scores[masked_from], kMaskedScore, strip.width - masked_from);
      }
    }
    VectorBarrier();
  }

  UbBuffers<T> *ub_ = nullptr;
  const PrefixEncoderTiling *tiling_ = nullptr;
  PrefixIo<T> io_;
  HiddenValues<T> hidden_;
  BiasKind kind_ = BiasKind::kNone;
  AscendC::GlobalTensor<T> table_;
  AscendC::GlobalTensor<float> slopes_;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_BIAS_H_
