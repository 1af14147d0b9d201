// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// bfloat16 and float16 by AMX tile products; the softmax between them by AVX-512.
//
// A tile register: 16 rows of 64 bytes. One product adds a [16 rows][16 pairs] . b [16 pairs][16]
// to c [16 rows][16], where the pairs are of bfloat16. Rows of a: query rows.
//
// A call packs its keys and values, up to kMaxTileKeys of them, into whole tiles, in the order in
// which they are read. Then each row block of up to 32 rows (two row tiles) attends all of them,
// kKeyTile at a time: its queries, scores, probabilities and accumulators stay in the L1 cache (36
// KiB at head_size 128), and keys and values stream through it from L2. Registers:
//   QK  tmm0, 1 / 2, 3  c: scores of 16 keys, two columns in turn, 16 rows each
//       tmm4, 5         a: queries of the two row tiles
//       tmm6, 7         b: key pairs of 16 keys; for float16 high and low
//   PV  the same with c: acc of 16 value elements, a: probabilities, b: value pairs
// A row tile has as many rows as there are, since a product takes a cycle for each. One row tile
// alone attends 32 keys as soon as they are packed: AttendOneTile.
//
// Pairs of the sum of PV are keys i and i + 16 of 32: probabilities of two registers are then
// paired by a shift and a blend.
//
// float16: x = high + low, two bfloat16, without error, and p likewise to 2^-17. Three of the four
// products are made; low . low is at most 2^-16 of their sum. An infinity in a float16 key, query
// or value may become NaN: it has no low part, and 0 x infinity is NaN. All finite float16 are
// right.
#include <immintrin.h>

#include <cstring>

#include "cpu/features.h"
#include "cpu/isa_tables.h"

// A test build names another set of instructions and another namespace.
#ifndef MINDSPORE_RELAY_AMX_TILES
#define MINDSPORE_RELAY_AMX_TILES "cpu/amx_tiles.inc"
#define MINDSPORE_RELAY_AMX_NAMESPACE amx
#endif

namespace mindspore_relay::MINDSPORE_RELAY_AMX_NAMESPACE {
namespace {

constexpr int32_t kTileRows = 16;
constexpr int32_t kTileRowBytes = 64;
constexpr int32_t kRowBlock = 2 * kTileRows;
// Packing a tile costs as much as two row blocks, and blocks above the diagonal are skipped.
constexpr int32_t kQueryTileRows = 512;
constexpr bool kFlushesSubnormals = true;

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64, "the size that LDTILECFG reads");

#include "cpu/simd_avx512.inc"
#include "cpu/tile_common.inc"
#include "cpu/tile_pairs_avx512.inc"
// The next ones build on the last ones; formatters keep to either side of a declaration.
static_assert(kPairs == kTileRows, "16 pairs are a tile row of a and a tile column of b");
#include "cpu/amx_operands.inc"
#include MINDSPORE_RELAY_AMX_TILES
#include "cpu/amx_products.inc"

// Scratch: keys, values; one row tile needs the first of it.
template <typename T>
int64_t ScratchBytes(int32_t head_size, int32_t value_head_size) {
  return kMaxTileKeys / kKeyTile *
         (KeyTilesBytes<T>(head_size) + ValueTilesBytes<T>(value_head_size));
}

// Probabilities: [row tiles][PV steps][terms] tiles, in the order of keys of the values. Rows past
// the block's last are not read.
template <int kNumTerms>
struct TileProbabilities {
  static constexpr bool kStoresPairs = true;
  static constexpr int64_t kRowTileBytes = kPvSteps * kNumTerms * kTileBytes;

  alignas(64) char tiles[kRowBlock / kTileRows * kRowTileBytes];

  void StorePair(int32_t row, int32_t key, Vec first, Vec second) {
    char *out = tiles + row / kTileRows * kRowTileBytes +
                key / (2 * kPairs) * kNumTerms * kTileBytes + row % kTileRows * kTileRowBytes;
    if constexpr (kNumTerms == 1) {
      _mm512_store_si512(out, PairUpper(HalfUp(first), HalfUp(second)));
    } else {
      const SplitVec first_split = Split(first);
      const SplitVec second_split = Split(second);
      _mm512_store_si512(out, PairUpper(first_split.high, second_split.high));
      _mm512_store_si512(out + kTileBytes,
                         PairUpper(HalfUp(first_split.low), HalfUp(second_split.low)));
    }
  }
};

// A row block on its way: scores, then probabilities, of kKeyTile keys at a time.
template <int kNumTerms>
struct TileBlock {
  RowBlockState state;
  TileProbabilities<kNumTerms> probabilities;
  int32_t first_row;
  int32_t num_rows;
  int32_t first_key;
  int32_t num_keys;
};

template <int kNumTerms, bool kAddsToC>
void RunProductOfRows(int32_t num_rows, const TileProduct &product, Prefetcher *prefetcher) {
  if (num_rows > kTileRows) {
    RunProduct<kNumTerms, 2, kAddsToC>(product, prefetcher);
  } else {
    RunProduct<kNumTerms, 1, kAddsToC>(product, prefetcher);
  }
}

// scores <- query . key, of block->num_keys keys from block->first_key on, whose tiles begin at
// `keys`
template <typename T>
void MultiplyQueryKey(const AttendArgs &args, const char *keys, Prefetcher *prefetcher,
                      float *scores, const TileBlock<kTerms<T>> &block) {
  const int64_t group_bytes = NumQkSteps(args.head_size) * kTerms<T> * kTileBytes;
  TileProduct product;
  product.a = {static_cast<const char *>(args.query) + block.first_row / kTileRows * group_bytes,
               group_bytes};
  product.b = {keys, group_bytes};
  product.c = scores;
  product.c_stride = kKeyTile;
  product.num_columns = static_cast<int32_t>(RoundUpTo(block.num_keys, kTileRows) / kTileRows);
  product.num_steps = NumQkSteps(args.head_size);
  RunProductOfRows<kTerms<T>, !kAdds>(block.num_rows, product, prefetcher);
}

// acc <- acc + probabilities . value, of the block's keys, whose tiles begin at `values` with
// kSteps of a column side by side; their probabilities begin at step first_step.
template <typename T, int kSteps>
void AddProbabilityValue(const AttendArgs &args, const char *values, int32_t first_step,
                         Prefetcher *prefetcher, const TileBlock<kTerms<T>> &block) {
  TileProduct product;
  product.a = {block.probabilities.tiles + first_step * kTerms<T> * kTileBytes,
               TileProbabilities<kTerms<T>>::kRowTileBytes};
  product.b = {values, kSteps * kTerms<T> * kTileBytes};
  product.c = args.state.acc + block.first_row * args.state.acc_stride;
  product.c_stride = args.state.acc_stride;
  product.num_columns = NumPvColumns(args.value_head_size);
  product.num_steps = static_cast<int32_t>(RoundUpTo(block.num_keys, 2 * kPairs) / (2 * kPairs));
  if (kTerms<T> == 1 && block.num_rows > kTileRows && product.num_steps == kPvSteps) {
    RunProductWithAInRegisters(product, prefetcher);
  } else {
    RunProductOfRows<kTerms<T>, kAdds>(block.num_rows, product, prefetcher);
  }
}

// acc <- acc * alpha. A row whose maximum did not change is left alone: alpha is 1.
template <int kNumTerms>
void RescaleRows(const AttendArgs &args, const TileBlock<kNumTerms> &block) {
  for (int32_t first = 0; first < block.num_rows; first += Simd::kLanes) {
    const Vec alphas = Simd::Load(block.state.alpha + first);
    uint32_t changed = _mm512_cmp_ps_mask(alphas, Simd::Set1(1.0f), _CMP_NEQ_UQ);
    const int32_t num_rows = Minimum(block.num_rows - first, Simd::kLanes);
    changed &= (1u << num_rows) - 1u;
    for (; changed != 0; changed &= changed - 1) {
      const int32_t r = first + __builtin_ctz(changed);
      const Vec alpha = Simd::Set1(block.state.alpha[r]);
      float *row = args.state.acc + (block.first_row + r) * args.state.acc_stride;
      for (int32_t d = 0; d < args.value_head_size; d += Simd::kLanes) {
        Simd::Store(row + d, Simd::Mul(Simd::Load(row + d), alpha));
      }
    }
  }
}

// Flushes subnormal results to zero, as the tile products do anyway: one costs an exp 300 cycles.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals &) = delete;
  FlushSubnormals &operator=(const FlushSubnormals &) = delete;

 private:
  const uint32_t before_;
};

// Probabilities of the block's keys, and its accumulators scaled to the new maximum.
template <typename T>
void UpdateSoftmax(const AttendArgs &args, TileBlock<kTerms<T>> *block) {
  SoftmaxRows<T>(args, block->first_row, block->num_rows, block->first_key,
                 static_cast<int32_t>(RoundUpTo(block->num_keys, 2 * kPairs)), &block->state,
                 &block->probabilities);
  RescaleRows(args, *block);
}

// Where the packed keys and values of each kKeyTile of a call begin.
struct PackedKeyTiles {
  const void *keys[kMaxTileKeys / kKeyTile];
  const void *values[kMaxTileKeys / kKeyTile];
};

template <typename T>
void AttendBlock(const AttendArgs &args, const PackedKeyTiles &tiles, Prefetcher *prefetcher,
                 TileBlock<kTerms<T>> *block) {
  const int32_t num_seen = NumSeenKeys(args, block->first_row, block->num_rows);
  for (int32_t key = 0; key < num_seen; key += kKeyTile) {
    block->first_key = key;
    block->num_keys = Minimum(args.tile.num_keys - key, kKeyTile);
    MultiplyQueryKey<T>(args, static_cast<const char *>(tiles.keys[key / kKeyTile]), prefetcher,
                        block->state.scores, *block);
    UpdateSoftmax<T>(args, block);
    AddProbabilityValue<T, kPvSteps>(args, static_cast<const char *>(tiles.values[key / kKeyTile]),
                                     /*first_step=*/0, prefetcher, *block);
  }
}

// The same for one row tile and at most kKeyTile keys: they are packed 32 at a time, and read while
// they are in the L1 cache, all in the same place.
template <typename T>
void AttendOneTile(const AttendArgs &args, Prefetcher *prefetcher, char *packed) {
  constexpr int32_t kStepKeys = 2 * kPairs;
  const int32_t num_keys = args.tile.num_keys;
  TileBlock<kTerms<T>> block;
  block.first_row = 0;
  block.num_rows = args.num_rows;
  if (NumSeenKeys(args, 0, args.num_rows) == 0) return;
  for (int32_t key = 0; key < num_keys; key += kStepKeys) {
    block.first_key = key;
    block.num_keys = Minimum(num_keys - key, kStepKeys);
    PackKeys<T>(args, key, key + block.num_keys, prefetcher, packed);
    MultiplyQueryKey<T>(args, packed, prefetcher, block.state.scores + key, block);
  }
  block.first_key = 0;
  block.num_keys = num_keys;
  UpdateSoftmax<T>(args, &block);
  for (int32_t key = 0; key < num_keys; key += kStepKeys) {
    block.first_key = key;
    block.num_keys = Minimum(num_keys - key, kStepKeys);
    PackValues<T, 1>(args, key, key + block.num_keys, prefetcher, packed);
    AddProbabilityValue<T, 1>(args, packed, key / kStepKeys, prefetcher, block);
  }
}

// Packs the call's keys and values into its scratch, unless they are packed already.
template <typename T>
PackedKeyTiles PackAll(const AttendArgs &args, Prefetcher *prefetcher) {
  const KvTile &tile = args.tile;
  const int64_t key_bytes = KeyTilesBytes<T>(args.head_size);
  const int64_t value_bytes = ValueTilesBytes<T>(args.value_head_size);
  char *const keys = static_cast<char *>(args.scratch);
  char *const values = keys + kMaxTileKeys / kKeyTile * key_bytes;
  if (!tile.is_packed) {
    PackKeys<T>(args, 0, tile.num_keys, prefetcher, keys);
    PackValues<T, kPvSteps>(args, 0, tile.num_keys, prefetcher, values);
  }
  PackedKeyTiles tiles;
  for (int32_t i = 0; i * kKeyTile < tile.num_keys; ++i) {
    tiles.keys[i] = tile.is_packed ? KeyRow<char>(tile, i) : keys + i * key_bytes;
    tiles.values[i] = tile.is_packed ? ValueRow<char>(tile, i) : values + i * value_bytes;
  }
  return tiles;
}

int32_t NumPrefetchSteps(const AttendArgs &args) {
  const int32_t num_keys = args.tile.num_keys;
  const int32_t key_steps =
      (num_keys + kPairs - 1) / kPairs * NumQkSteps(args.head_size) * kPackSteps;
  const int32_t value_steps = static_cast<int32_t>(RoundUpTo(num_keys, 2 * kPairs)) / 2 *
                              ((args.value_head_size + 2 * kPairs - 1) / (2 * kPairs));
  const int32_t product_steps =
      (num_keys + kKeyTile - 1) / kKeyTile *
      (kQkColumns * NumQkSteps(args.head_size) + kPvSteps * NumPvColumns(args.value_head_size)) *
      kPrefetchStepsPerProductStep;
  const int32_t pack_steps = args.tile.is_packed ? 0 : key_steps + value_steps;
  return pack_steps + (args.num_rows + kRowBlock - 1) / kRowBlock * product_steps;
}

template <typename T>
void Attend(const AttendArgs &args) {
  const FlushSubnormals flush;
  Prefetcher prefetcher(args, NumPrefetchSteps(args));
  TileRows tile_rows;
  if (args.num_rows <= kTileRows && args.tile.num_keys <= kKeyTile && !args.tile.is_packed) {
    tile_rows.Configure(args.num_rows);
    AttendOneTile<T>(args, &prefetcher, static_cast<char *>(args.scratch));
  } else {
    const PackedKeyTiles tiles = PackAll<T>(args, &prefetcher);
    TileBlock<kTerms<T>> block;
    for (int32_t row = 0; row < args.num_rows; row += kRowBlock) {
      block.first_row = row;
      block.num_rows = Minimum(kRowBlock, args.num_rows - row);
      tile_rows.Configure(block.num_rows);
      AttendBlock<T>(args, tiles, &prefetcher, &block);
    }
  }
  Tiles::Release();
}

// Of a tile that lies ahead: a row of nothing to fetch, and one tile.
template <typename T>
void PackKeysAhead(const KvTile &tile, int32_t head_size, void *packed) {
  AttendArgs args = {};
  args.head_size = head_size;
  args.tile = tile;
  Prefetcher prefetcher(args, /*num_steps=*/1);
  std::memset(packed, 0, KeyTilesBytes<T>(head_size));
  PackKeys<T>(args, 0, tile.num_keys, &prefetcher, static_cast<char *>(packed));
}

template <typename T>
void PackValuesAhead(const KvTile &tile, int32_t value_head_size, void *packed) {
  AttendArgs args = {};
  args.value_head_size = value_head_size;
  args.tile = tile;
  Prefetcher prefetcher(args, /*num_steps=*/1);
  std::memset(packed, 0, ValueTilesBytes<T>(value_head_size));
  PackValues<T, kPvSteps>(args, 0, tile.num_keys, &prefetcher, static_cast<char *>(packed));
}

// float16 would take two terms, twice the bytes to read in each step.
constexpr PackTileKernels kBFloat16PackTile = {
    "amx_bf16", KeyTilesBytes<BFloat16Bits>, ValueTilesBytes<BFloat16Bits>,
    PackKeysAhead<BFloat16Bits>, PackValuesAhead<BFloat16Bits>};

template <typename T>
constexpr DTypeKernels MakeKernels(const PackTileKernels *pack_tile) {
  return {kMaxTileKeys, kRowBlock, kQueryTileRows, PackedQueryBytes<T>, ScratchBytes<T>,
          PackQuery<T>, Attend<T>, StoreRow<T>,    LoadRow<T>,          pack_tile};
}

}  // namespace

extern const DTypeKernels kFloat16Kernels;
extern const DTypeKernels kBFloat16Kernels;
const DTypeKernels kFloat16Kernels = MakeKernels<Float16Bits>(nullptr);
const DTypeKernels kBFloat16Kernels = MakeKernels<BFloat16Bits>(&kBFloat16PackTile);

}  // namespace mindspore_relay::MINDSPORE_RELAY_AMX_NAMESPACE
