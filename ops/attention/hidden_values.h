// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// NaN and infinities in values behind a row's diagonal.
//
// Tile kernels give a row the probability 0 for a key of its tile that it does not see, and
// multiply all the same: 0 x NaN would be NaN. So on the few tiles that a diagonal crosses, values
// that some row does not see are looked at first. They are finite as good as always; where one is
// not, the kernels get a copy with 0 in its place, and the rows that do see it get it afterwards.
#ifndef MINDSPORE_RELAY_ATTENTION_HIDDEN_VALUES_H_
#define MINDSPORE_RELAY_ATTENTION_HIDDEN_VALUES_H_

#include <cstdint>

#include "attention/params.h"
#include "cpu/tile_kernels.h"

namespace mindspore_relay {

// Bytes of a copy of a tile's values, of one kv head.
int64_t HiddenValuesBytes(const HeadParams &heads);

// Looks at the values of keys [first_hidden, tile.num_keys). False: all are finite. True: *cleaned
// is the tile with 0 in place of those that are not; it points into room (HiddenValuesBytes) and
// rows [kKeyTile].
bool CleanHiddenValues(const HeadParams &heads, const KvTile &tile, int32_t first_hidden,
                       char *room, const void **rows, KvTile *cleaned);

// acc[row][d] <- acc[row][d] + value[key][d] for each value that CleanHiddenValues replaced, in the
// rows that see its key: NaN makes the element NaN, an infinity makes it infinite.
void AddSeenValues(const HeadParams &heads, const KvTile &tile, int32_t first_hidden,
                   const int32_t *visible_keys, int32_t num_rows, const TileState &state);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_HIDDEN_VALUES_H_
