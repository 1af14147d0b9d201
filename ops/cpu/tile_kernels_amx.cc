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
// A row tile has as many rows as there are, since a product takes a cycle for each.
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
#include MINDSPORE_RELAY_AMX_TILES
#include "cpu/amx_products.inc"

// Operands of 1 (bfloat16) or 2 (float16: high, low) terms lie one term after the other.
template <typename T>
constexpr int kTerms = 1;
template <>
constexpr int kTerms<Float16Bits> = 2;

// Steps of the sum of QK, and columns of tiles of the accumulators.
inline int32_t NumQkSteps(int32_t head_size) {
  return static_cast<int32_t>(RoundUpTo(head_size, 2 * kPairs) / (2 * kPairs));
}
inline int32_t NumPvColumns(int32_t value_head_size) {
  return static_cast<int32_t>(RoundUpTo(value_head_size, kPairs) / kPairs);
}
constexpr int32_t kQkColumns = kKeyTile / kTileRows;
constexpr int32_t kPvSteps = kKeyTile / (2 * kPairs);

// Of kKeyTile keys (values), all terms.
template <typename T>
int64_t KeyTilesBytes(int32_t head_size) {
  return int64_t{kQkColumns} * NumQkSteps(head_size) * kTerms<T> * kTileBytes;
}
template <typename T>
int64_t ValueTilesBytes(int32_t value_head_size) {
  return int64_t{kPvSteps} * NumPvColumns(value_head_size) * kTerms<T> * kTileBytes;
}

// x = high + low. high: x rounded to bfloat16, halves away from zero, as a float. low: without
// error where x is a float16, 11 bits of which high has 8; then the upper 16 bits hold all of both.
struct SplitVec {
  Vec high;
  Vec low;
};
inline SplitVec Split(Vec x) {
  const __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  const Vec high = _mm512_castsi512_ps(
      _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))));
  return {high, _mm512_sub_ps(x, high)};
}

// The upper 16 bits of 16 + 16 floats.
inline __m512i PackUpper(Vec a, Vec b) {
  const __m512i index =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_epi16(_mm512_castps_si512(a), index, _mm512_castps_si512(b));
}

// The upper 16 bits of even below those of odd: pairs.
inline __m512i PairUpper(Vec even, Vec odd) {
  constexpr int kAOrBAndC = 0xf8;
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                   _mm512_castps_si512(odd),
                                   _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u)), kAOrBAndC);
}

// Rounded to bfloat16 once its lower 16 bits are cut off, halves away from zero. A NaN may change
// its sign, or become 0: then the row is NaN by its sum.
inline Vec HalfUp(Vec x) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)));
}

inline Vec WidenFirst16(__m512i float16) {
  return _mm512_cvtph_ps(_mm512_castsi512_si256(float16));
}
inline Vec WidenLast16(__m512i float16) {
  return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(float16, 1));
}

// 32 float16 -> two times 32 bfloat16 whose sum they are.
struct SplitElements {
  __m512i high;
  __m512i low;
};
inline SplitElements SplitFloat16(__m512i elements) {
  const SplitVec first = Split(WidenFirst16(elements));
  const SplitVec last = Split(WidenLast16(elements));
  return {PackUpper(first.high, last.high), PackUpper(first.low, last.low)};
}

// Calls store(term, elements of the term).
template <typename T, typename StoreTerm>
[[gnu::always_inline]] inline void ForEachTerm(__m512i elements, const StoreTerm &store) {
  if constexpr (kTerms<T> == 1) {
    store(0, elements);
  } else {
    const SplitElements split = SplitFloat16(elements);
    store(0, split.high);
    store(1, split.low);
  }
}

// A tile row of term `term` of operand tiles that begin at `tiles`.
template <typename T>
inline char *TileRow(char *tiles, int64_t tile, int term, int32_t row) {
  return tiles + (tile * kTerms<T> + term) * kTileBytes + row * kTileRowBytes;
}

// Queries: [row tiles][QK steps][terms] tiles, 0 past head_size.
template <typename T>
int64_t PackedQueryBytes(int32_t num_rows, int32_t head_size) {
  return RoundUpTo(num_rows, kTileRows) / kTileRows * NumQkSteps(head_size) * kTerms<T> *
         kTileBytes;
}

template <typename T>
void PackQuery(const void *const *rows, int32_t num_rows, int32_t head_size, void *packed) {
  const int64_t num_steps = NumQkSteps(head_size);
  for (int32_t r = 0; r < num_rows; ++r) {
    for (int32_t step = 0; step < num_steps; ++step) {
      const int32_t d = step * 2 * kPairs;
      ForEachTerm<T>(Load32(static_cast<const T *>(rows[r]) + d, head_size - d),
                     [&](int term, __m512i elements) {
                       _mm512_storeu_si512(
                           TileRow<T>(static_cast<char *>(packed), r / kTileRows * num_steps + step,
                                      term, r % kTileRows),
                           elements);
                     });
    }
  }
}

// Scratch: keys, values.
template <typename T>
int64_t ScratchBytes(int32_t head_size, int32_t value_head_size) {
  return kMaxTileKeys / kKeyTile *
         (KeyTilesBytes<T>(head_size) + ValueTilesBytes<T>(value_head_size));
}

// out [16 pairs][16 keys] <- row(key) [16 keys][16 pairs]. Rows of four keys are put together by
// masked broadcasts from memory, which need no shuffle, and then transposed inside their lanes.
template <typename RowOf>
[[gnu::always_inline]] inline void TransposePairs(const RowOf &row, char *out) {
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    __m512i keys[4];  // lane l of keys[i]: pairs 4 c .. 4 c + 3 of key 4 l + i
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto load = [&](int key) __attribute__((always_inline)) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(row(key) + 16 * c));
      };
      keys[i] = _mm512_castsi128_si512(load(i));
      keys[i] = _mm512_mask_broadcast_i32x4(keys[i], 0x00f0, load(4 + i));
      keys[i] = _mm512_mask_broadcast_i32x4(keys[i], 0x0f00, load(8 + i));
      keys[i] = _mm512_mask_broadcast_i32x4(keys[i], 0xf000, load(12 + i));
    }
    const __m512i low_01 = _mm512_unpacklo_epi32(keys[0], keys[1]);
    const __m512i high_01 = _mm512_unpackhi_epi32(keys[0], keys[1]);
    const __m512i low_23 = _mm512_unpacklo_epi32(keys[2], keys[3]);
    const __m512i high_23 = _mm512_unpackhi_epi32(keys[2], keys[3]);
    char *rows = out + 4 * c * kTileRowBytes;
    _mm512_store_si512(rows, _mm512_unpacklo_epi64(low_01, low_23));
    _mm512_store_si512(rows + kTileRowBytes, _mm512_unpackhi_epi64(low_01, low_23));
    _mm512_store_si512(rows + 2 * kTileRowBytes, _mm512_unpacklo_epi64(high_01, high_23));
    _mm512_store_si512(rows + 3 * kTileRowBytes, _mm512_unpackhi_epi64(high_01, high_23));
  }
}

// A tile of keys of each term: elements d .. d + 31 of 16 keys, or of fewer keys or elements.
template <typename T>
[[gnu::noinline]] void PackKeyTileByCopy(const T *const *key_rows, int32_t num_rows, int32_t d,
                                         int32_t count, char *out) {
  alignas(64) char copy[kTerms<T>][kTileBytes];
  for (int32_t i = 0; i < kPairs; ++i) {
    ForEachTerm<T>(i < num_rows ? Load32(key_rows[i] + d, count) : _mm512_setzero_si512(),
                   [&](int term, __m512i elements) {
                     _mm512_store_si512(copy[term] + i * kTileRowBytes, elements);
                   });
  }
  for (int term = 0; term < kTerms<T>; ++term) {
    const char *rows = copy[term];
    TransposePairs([&](int key) { return rows + key * kTileRowBytes; }, out + term * kTileBytes);
  }
}

// Keys: [blocks of kKeyTile][QK columns][QK steps][terms] tiles. Keys past the last are 0, up to
// whole tiles.
template <typename T>
void PackKeys(const AttendArgs &args, Prefetcher *prefetcher, char *out) {
  const KvTile &tile = args.tile;
  for (int32_t key = 0; key < tile.num_keys; key += kPairs) {
    const T *key_rows[kPairs];
    const int32_t num_rows = Minimum(tile.num_keys - key, kPairs);
    for (int32_t i = 0; i < num_rows; ++i) key_rows[i] = KeyRow<T>(tile, key + i);
    for (int32_t d = 0; d < args.head_size; d += 2 * kPairs, out += kTerms<T> * kTileBytes) {
      prefetcher->Step(kPackSteps);
      const int32_t count = args.head_size - d;
      if (kTerms<T> > 1 || num_rows < kPairs || count < 2 * kPairs) {
        PackKeyTileByCopy(key_rows, num_rows, d, count, out);
      } else {
        TransposePairs([&](int i) { return reinterpret_cast<const char *>(key_rows[i] + d); }, out);
      }
    }
  }
}

// Rows of two value tiles, side by side, of each term: elements d .. d + 31 of two keys. The second
// one only where the row goes on.
inline void StoreValueRows(BFloat16Bits, __m512i even, __m512i odd, bool has_last, char *first,
                           char *last) {
  _mm512_store_si512(first, PairLow(even, odd));
  if (has_last) _mm512_store_si512(last, PairHigh(even, odd));
}
inline void StoreSplitRow(Vec even, Vec odd, char *high) {
  const SplitVec even_split = Split(even);
  const SplitVec odd_split = Split(odd);
  _mm512_store_si512(high, PairUpper(even_split.high, odd_split.high));
  _mm512_store_si512(high + kTileBytes, PairUpper(even_split.low, odd_split.low));
}
inline void StoreValueRows(Float16Bits, __m512i even, __m512i odd, bool has_last, char *first,
                           char *last) {
  StoreSplitRow(WidenFirst16(even), WidenFirst16(odd), first);
  if (has_last) StoreSplitRow(WidenLast16(even), WidenLast16(odd), last);
}

// Values: [blocks of kKeyTile][PV columns][PV steps][terms] tiles; a tile: keys i and i + 16 of 32,
// 16 pairs, x 16 elements. Values past the last key are 0, up to whole tiles.
template <typename T>
void PackValues(const AttendArgs &args, Prefetcher *prefetcher, char *tiles) {
  constexpr int64_t kColumnBytes = kPvSteps * kTerms<T> * kTileBytes;
  alignas(64) static const T kZeros[kMaxHeadSize] = {};
  const int32_t num_keys = args.tile.num_keys;
  const int32_t num_steps = (args.value_head_size + 2 * kPairs - 1) / (2 * kPairs);
  for (int32_t first = 0; first < num_keys; first += 2 * kPairs) {
    char *tile = tiles + first / kKeyTile * ValueTilesBytes<T>(args.value_head_size) +
                 first % kKeyTile / (2 * kPairs) * kTerms<T> * kTileBytes;
    for (int32_t i = 0; i < kPairs; ++i) {
      const int32_t key = first + i;
      const T *even = key < num_keys ? ValueRow<T>(args.tile, key) : kZeros;
      const T *odd = key + kPairs < num_keys ? ValueRow<T>(args.tile, key + kPairs) : kZeros;
      char *row = tile + i * kTileRowBytes;
      prefetcher->Step(num_steps);
      int32_t d = 0;
      for (; d + 2 * kPairs <= args.value_head_size; d += 2 * kPairs, row += 2 * kColumnBytes) {
        StoreValueRows(T{}, _mm512_loadu_si512(even + d), _mm512_loadu_si512(odd + d), true, row,
                       row + kColumnBytes);
      }
      if (d < args.value_head_size) {
        const int32_t count = args.value_head_size - d;
        StoreValueRows(T{}, Load32(even + d, count), Load32(odd + d, count), count > kPairs, row,
                       row + kColumnBytes);
      }
    }
  }
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

// What Attend passes on: the call and its packed operands.
struct PackedCall {
  const AttendArgs &args;
  const char *keys;
  const char *values;
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

// scores <- query . key
template <typename T>
void MultiplyQueryKey(const PackedCall &call, Prefetcher *prefetcher, TileBlock<kTerms<T>> *block) {
  const AttendArgs &args = call.args;
  const int64_t group_bytes = NumQkSteps(args.head_size) * kTerms<T> * kTileBytes;
  TileProduct product;
  product.a = {static_cast<const char *>(args.query) + block->first_row / kTileRows * group_bytes,
               group_bytes};
  product.b = {call.keys + block->first_key / kKeyTile * KeyTilesBytes<T>(args.head_size),
               group_bytes};
  product.c = block->state.scores;
  product.c_stride = kKeyTile;
  product.num_columns = static_cast<int32_t>(RoundUpTo(block->num_keys, kTileRows) / kTileRows);
  product.num_steps = NumQkSteps(args.head_size);
  RunProductOfRows<kTerms<T>, !kAdds>(block->num_rows, product, prefetcher);
}

// acc <- acc + probabilities . value
template <typename T>
void AddProbabilityValue(const PackedCall &call, Prefetcher *prefetcher,
                         const TileBlock<kTerms<T>> &block) {
  const AttendArgs &args = call.args;
  TileProduct product;
  product.a = {block.probabilities.tiles, TileProbabilities<kTerms<T>>::kRowTileBytes};
  product.b = {call.values + block.first_key / kKeyTile * ValueTilesBytes<T>(args.value_head_size),
               kPvSteps * kTerms<T> * kTileBytes};
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

// Whether a row of the block sees a key from first_key on.
template <int kNumTerms>
bool SeesAnyKey(const AttendArgs &args, const TileBlock<kNumTerms> &block) {
  if (args.mask.visible_keys == nullptr) return true;
  for (int32_t r = 0; r < block.num_rows; ++r) {
    if (args.mask.visible_keys[block.first_row + r] > block.first_key) return true;
  }
  return false;
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

template <typename T>
void AttendBlock(const PackedCall &call, Prefetcher *prefetcher, TileBlock<kTerms<T>> *block) {
  const AttendArgs &args = call.args;
  for (int32_t key = 0; key < args.tile.num_keys; key += kKeyTile) {
    block->first_key = key;
    block->num_keys = Minimum(args.tile.num_keys - key, kKeyTile);
    if (!SeesAnyKey(args, *block)) continue;
    MultiplyQueryKey<T>(call, prefetcher, block);
    SoftmaxRows<T>(args, block->first_row, block->num_rows, key,
                   static_cast<int32_t>(RoundUpTo(block->num_keys, 2 * kPairs)), &block->state,
                   &block->probabilities);
    RescaleRows(args, *block);
    AddProbabilityValue<T>(call, prefetcher, *block);
  }
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
  return key_steps + value_steps + (args.num_rows + kRowBlock - 1) / kRowBlock * product_steps;
}

template <typename T>
void Attend(const AttendArgs &args) {
  const FlushSubnormals flush;
  char *keys = static_cast<char *>(args.scratch);
  char *values = keys + kMaxTileKeys / kKeyTile * KeyTilesBytes<T>(args.head_size);
  Prefetcher prefetcher(args, NumPrefetchSteps(args));
  PackKeys<T>(args, &prefetcher, keys);
  PackValues<T>(args, &prefetcher, values);
  const PackedCall call = {args, keys, values};
  TileRows tile_rows;
  TileBlock<kTerms<T>> block;
  for (int32_t row = 0; row < args.num_rows; row += kRowBlock) {
    block.first_row = row;
    block.num_rows = Minimum(kRowBlock, args.num_rows - row);
    tile_rows.Configure(block.num_rows);
    AttendBlock<T>(call, &prefetcher, &block);
  }
  Tiles::Release();
}

template <typename T>
constexpr DTypeKernels MakeKernels() {
  return {kMaxTileKeys, kRowBlock, kQueryTileRows, PackedQueryBytes<T>, ScratchBytes<T>,
          PackQuery<T>, Attend<T>, StoreRow<T>,    LoadRow<T>};
}

}  // namespace

extern const DTypeKernels kFloat16Kernels;
extern const DTypeKernels kBFloat16Kernels;
const DTypeKernels kFloat16Kernels = MakeKernels<Float16Bits>();
const DTypeKernels kBFloat16Kernels = MakeKernels<BFloat16Bits>();

}  // namespace mindspore_relay::MINDSPORE_RELAY_AMX_NAMESPACE
