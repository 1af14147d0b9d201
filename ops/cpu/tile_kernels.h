// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Tile kernels: how a CPU attends a block of query rows to one tile of keys and values.
//
// A table of functions per instruction set, chosen once per process (SelectTileKernels). Every
// table computes the same thing; tile_kernels_portable.cc is the specification and each other table
// is tested against it.
//
// Two promises hold for every table, and callers build on them:
//   1. Rows are independent: the bits of a row's result do not depend on how many rows are attended
//      in one call, on their order, or on where the keys lie in memory. Hence relay and plain
//      paths, list, stacked and paged forms, and any batch give the same bits.
//   2. Only bytes of the tile's num_keys rows are read, and only the first visible_keys[r] of them
//      reach row r, except that a NaN or an infinity in a value behind a row's diagonal, inside the
//      tile, is not promised to stay away.
//
// This header is included by files built with different ISA flags, so it holds declarations only:
// an inline function compiled once with AVX-512 could be the copy that the linker keeps for
// everybody.
#ifndef MINDSPORE_RELAY_CPU_TILE_KERNELS_H_
#define MINDSPORE_RELAY_CPU_TILE_KERNELS_H_

#include <cstdint>

#include "common/dtype.h"

namespace mindspore_relay {

// Keys per tile. A tile begins at a multiple of kKeyTile keys from the first key of its part,
// whatever the form in which the keys are stored: this fixes the order of additions. 64 keys x 128
// elements x 2 bytes = 16 KiB of keys and 16 KiB of values.
constexpr int32_t kKeyTile = 64;

// Most keys that a table may take in one call, in whole tiles (DTypeKernels::max_keys).
constexpr int32_t kMaxTileKeys = 256;
static_assert(kMaxTileKeys % kKeyTile == 0, "whole tiles");

// Most elements of a head, of key or value. A tile of 64 keys of this size, widened to float, still
// fits an L2 cache.
constexpr int32_t kMaxHeadSize = 576;

// Accumulator rows are padded to whole 64-byte vectors of float.
constexpr int32_t kAccumulatorPad = 16;

// One tile of keys and values, of one kv head; or several whole ones and then, perhaps, a shorter
// one.
//
// Packed: made ready by PackTileKernels. A row is then not a token, but all keys (values) of one
// kKeyTile, num_keys / kKeyTile rows, rounded up.
struct KvTile {
  const void *const *key_rows;    // [num_keys]: first element of each token's key, kv head 0
  const void *const *value_rows;  // [num_keys]: first element of each token's value, kv head 0
  int64_t key_offset_bytes;       // from there to this kv head's key
  int64_t value_offset_bytes;     // from there to this kv head's value
  // Distance of consecutive rows where it is the same for all; else 0.
  int64_t key_stride_bytes;
  int64_t value_stride_bytes;
  int32_t num_keys;        // 1 .. max_keys of the table
  bool is_packed = false;  // by the same table and dtype
};

// What is added to qk_scale * (query . key), per row.
enum class BiasKind : int32_t {
  kNone = 0,
  kLinear = 1,  // slope * distance
  kSqrt = 2,    // slope * sqrt(distance)
  kTable = 3,   // a row of finished biases, in the query's dtype
};

// distance of row r and key c of the tile: distance[r] + distance_step * c. Exact in float below
// 2^24 tokens.
struct TileMask {
  // [num_rows]: keys of the tile that the row sees, 0 .. num_keys; nullptr: all.
  const int32_t *visible_keys;
  BiasKind bias;
  // -1 for a distance back from the row's position, +1 for a key's own position.
  float distance_step;
  const float *slope;            // [num_rows], kLinear and kSqrt
  const float *distance;         // [num_rows], kLinear and kSqrt
  const void *const *bias_rows;  // [num_rows]: num_keys elements of the query's dtype, kTable. Only
                                 // visible ones are read
};

// The running softmax of each row (Milakov and Gimelshein 2018; the same as in FlashAttention):
//   row_max <- max of the scores so far, -inf when there is none
//   row_sum <- sum of exp(score - row_max)
//   acc     <- sum of exp(score - row_max) * value           not yet divided by row_sum
struct TileState {
  float *acc;          // [num_rows][acc_stride], 64-byte aligned
  float *row_max;      // [num_rows]
  float *row_sum;      // [num_rows]
  int64_t acc_stride;  // elements; a multiple of kAccumulatorPad, >= value_head_size
};

// Rows that the caller needs in cache soon, usually a later tile's. attend spreads the prefetches
// over its work; DRAM is then read while it computes. A hint: results do not depend on it.
struct PrefetchRows {
  const void *const *rows = nullptr;  // [num_rows]
  int64_t offset_bytes = 0;           // from there to the first byte wanted
  int32_t row_bytes = 0;              // bytes wanted of each row
  int32_t num_rows = 0;               // 0: nothing
};

struct AttendArgs {
  const void *query;  // made by pack_query of the same table and dtype
  int32_t num_rows;   // >= 1, any number
  int32_t head_size;
  int32_t value_head_size;
  float qk_scale;
  KvTile tile;
  TileMask mask;
  TileState state;  // read and updated
  void *scratch;    // scratch_bytes(...) bytes, 64-byte aligned, of this thread alone
  PrefetchRows next_keys = {};
  PrefetchRows next_values = {};
};

// Keys and values in the form that attend computes with, made once for many calls. The same bits
// result as from the rows themselves.
struct PackTileKernels {
  const char *layout;  // a name of at most 15 letters: other tables may have the same

  // Bytes of kKeyTile keys, and of as many values, of one kv head. Multiples of 64.
  int64_t (*key_bytes)(int32_t head_size);
  int64_t (*value_bytes)(int32_t value_head_size);

  // packed <- keys (values) of a tile that is not packed and has at most kKeyTile keys. packed:
  // 64-byte aligned.
  void (*pack_keys)(const KvTile &tile, int32_t head_size, void *packed);
  void (*pack_values)(const KvTile &tile, int32_t value_head_size, void *packed);
};

struct DTypeKernels {
  // Most keys of a call: a multiple of kKeyTile, at most kMaxTileKeys. The same bits result from
  // one call and from a call for each tile. More than one tile at once pays where more than
  // rows_for_max_keys rows share what is packed; fewer take one kKeyTile, which stays in the L1
  // cache.
  int32_t max_keys;
  int32_t rows_for_max_keys;
  // Rows (of one kv head) of a query tile of PrefixEncoder: enough to hide the preparation of keys
  // and values, few enough that little is computed above the diagonal.
  int32_t query_tile_rows;

  // Bytes that pack_query writes for num_rows rows, and that attend needs as scratch. Multiples
  // of 64.
  int64_t (*packed_query_bytes)(int32_t num_rows, int32_t head_size);
  int64_t (*scratch_bytes)(int32_t head_size, int32_t value_head_size);

  // rows: [num_rows] pointers to head_size elements each. packed: 64-byte aligned.
  void (*pack_query)(const void *const *rows, int32_t num_rows, int32_t head_size, void *packed);

  // state <- state joined with the scores qk_scale * query . key + bias and the values of one tile.
  // A score of -inf (also a bias of -inf) counts as no key. A NaN score makes the row NaN.
  void (*attend)(const AttendArgs &args);

  // out[i] <- round to nearest even(acc[i] * scale), NaN stays NaN.
  void (*store_row)(const float *acc, float scale, int32_t num_elements, void *out);

  // out[i] <- in[i] as float.
  void (*load_row)(const void *in, int32_t num_elements, float *out);

  // nullptr: attend takes rows only, because packing ahead would gain nothing.
  const PackTileKernels *pack_tile = nullptr;
};

struct TileKernels {
  const char *isa;  // "portable", "avx2", "avx512", "amx", "neon"
  DTypeKernels float32;
  DTypeKernels float16;
  DTypeKernels bfloat16;

  // acc_a[i] <- acc_a[i] * weight_a + acc_b[i] * weight_b, also for weights of 0: a NaN of a
  // visible value stays. Weights (1, 0) with acc_b = 0 leave acc_a as it is, and (0, 1) with acc_a
  // = 0 make it acc_b, to the bit.
  void (*fold_row)(float *acc_a, float weight_a, const float *acc_b, float weight_b,
                   int32_t num_elements);
};

// The kernels of one dtype. dtype must be a floating one (checked before).
const DTypeKernels &KernelsFor(const TileKernels &kernels, DType dtype);

// The table in use: the best that this CPU and operating system can run, or the one that the
// environment variable MINDSPORE_RELAY_ISA names. A name that is unknown or cannot run here yields
// nullptr and *error tells why.
const TileKernels *SelectTileKernels(const char **error);

// Table by name, or nullptr when it is not built in or this machine cannot run it. For tests and
// forced runs.
const TileKernels *FindTileKernels(const char *isa);

// Makes FindTileKernels(isa) the table of all later calls; false when it is nullptr.
bool ForceTileKernels(const char *isa);

// Names of the tables that can run here, best first, comma separated. Static storage.
const char *AvailableIsaList();

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_CPU_TILE_KERNELS_H_
