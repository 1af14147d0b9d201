// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Where the keys and values of one part (a group's prefix, a request's private keys) lie: one
// description for list, stacked, paged and packed form, so that no algorithm knows the form.
#ifndef MINDSPORE_RELAY_ATTENTION_KV_SOURCE_H_
#define MINDSPORE_RELAY_ATTENTION_KV_SOURCE_H_

#include <cstdint>

#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// One side of a part: its keys, or its values. Strides count bytes. Packed: what is said of a token
// holds for the keys (values) of a kKeyTile (KvTile::is_packed).
struct KvSide {
  const char *data = nullptr;      // key (value) of token 0, kv head 0; paged: of block 0
  int64_t token_stride_bytes = 0;  // between two tokens (of one block)
  int64_t head_bytes = 0;          // of a token, one kv head
  int64_t head_stride_bytes = 0;   // between two kv heads of a token
  int64_t block_stride_bytes = 0;  // paged: between two blocks
};

struct KvSource {
  KvSide key;
  KvSide value;
  const int32_t *block_table =
      nullptr;             // [CeilDiv(num_keys, block_size)] physical blocks; nullptr: not paged
  int32_t block_size = 0;  // tokens per block
  int64_t num_keys = 0;
  bool is_packed = false;
};

// Room for the row pointers of one tile.
struct KvTileRows {
  const void *key[kMaxTileKeys];
  const void *value[kMaxTileKeys];
};

// Keys [key_begin, key_begin + num_keys) of the source, as a tile of kv head 0 (see SelectKvHead).
// `rows` must outlive the tile.
KvTile LoadKvTile(const KvSource &source, int64_t key_begin, int32_t num_keys, KvTileRows *rows);

// Row pointers of a tile.
inline int32_t NumRows(const KvTile &tile) {
  return tile.is_packed ? (tile.num_keys + kKeyTile - 1) / kKeyTile : tile.num_keys;
}

// Turns the tile to another kv head.
inline void SelectKvHead(const KvSource &source, int32_t kv_head, KvTile *tile) {
  tile->key_offset_bytes = kv_head * source.key.head_stride_bytes;
  tile->value_offset_bytes = kv_head * source.value.head_stride_bytes;
}

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_KV_SOURCE_H_
