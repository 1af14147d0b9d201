// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Where the keys and values of a tile are.

#ifndef MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_IO_H_
#define MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_IO_H_

#include "../../common/kv_source.h"
#include "../prefix_problem.h"

namespace mindspore_relay::aicore {

template <typename T>
class PrefixIo {
 public:
  __aicore__ inline void Init(const PrefixEncoderTiling &tiling, GM_ADDR key, GM_ADDR value,
                              GM_ADDR block_tables) {
    tiling_ = &tiling;
    key_ = reinterpret_cast<__gm__ T *>(key);
    value_ = reinterpret_cast<__gm__ T *>(value);
    block_tables_ = reinterpret_cast<__gm__ int32_t *>(block_tables);
  }

  __aicore__ inline KvSource<T> Keys(const PrefixTile &tile) const {
    return Source(key_, tile.item);
  }
  __aicore__ inline KvSource<T> Values(const PrefixTile &tile) const {
    return Source(value_, tile.item);
  }

 private:
  __aicore__ inline KvSource<T> Source(__gm__ T *cache, const WorkItem &item) const {
    KvSource<T> source;
    source.data = cache + item.kv_head * tiling_->attention.head_size;
    source.token_stride = int64_t{tiling_->attention.kv_head_num} * tiling_->attention.head_size;
    source.block_size = tiling_->kv.block_size;
    source.block_table.SetGlobalBuffer(block_tables_ +
                                       int64_t{item.source} * tiling_->kv.max_blocks);
    return source;
  }

  const PrefixEncoderTiling *tiling_ = nullptr;
  __gm__ T *key_ = nullptr;
  __gm__ T *value_ = nullptr;
  __gm__ int32_t *block_tables_ = nullptr;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_PREFIX_ENCODER_OP_KERNEL_PREFIX_IO_H_
