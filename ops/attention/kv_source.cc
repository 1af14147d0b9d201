// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/kv_source.h"

#include <algorithm>

namespace mindspore_relay {

KvTile LoadKvTile(const KvSource &source, int64_t key_begin, int32_t num_keys, KvTileRows *rows) {
  KvTile tile = {};
  tile.key_rows = rows->key;
  tile.value_rows = rows->value;
  tile.num_keys = num_keys;
  tile.is_packed = source.is_packed;
  if (source.is_packed) {
    const int64_t first = key_begin / kKeyTile;
    for (int32_t i = 0; i < NumRows(tile); ++i) {
      rows->key[i] = source.key.data + (first + i) * source.key.token_stride_bytes;
      rows->value[i] = source.value.data + (first + i) * source.value.token_stride_bytes;
    }
    return tile;
  }
  tile.key_stride_bytes = source.key.token_stride_bytes;
  tile.value_stride_bytes = source.value.token_stride_bytes;
  int32_t filled = 0;
  while (filled < num_keys) {
    // One run of tokens that lie evenly: the rest of a block, or the whole tile when the source is
    // not paged.
    const int64_t token = key_begin + filled;
    int64_t offset = token;
    int64_t block = 0;
    int32_t run = num_keys - filled;
    if (source.block_table != nullptr) {
      block = source.block_table[token / source.block_size];
      offset = token % source.block_size;
      run = static_cast<int32_t>(std::min<int64_t>(run, source.block_size - offset));
      if (run < num_keys) tile.key_stride_bytes = tile.value_stride_bytes = 0;
    }
    const char *key = source.key.data + block * source.key.block_stride_bytes +
                      offset * source.key.token_stride_bytes;
    const char *value = source.value.data + block * source.value.block_stride_bytes +
                        offset * source.value.token_stride_bytes;
    for (int32_t i = 0; i < run; ++i) {
      rows->key[filled + i] = key + i * source.key.token_stride_bytes;
      rows->value[filled + i] = value + i * source.value.token_stride_bytes;
    }
    filled += run;
  }
  return tile;
}

}  // namespace mindspore_relay
