// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// bfloat16 and float16 by AMX tile products; the softmax between them by AVX-512.
//
// A tile register: 16 rows of 64 bytes. One product adds a [16 rows][16 pairs] . b [16 pairs][16]
// to c [16 rows][16], where the pairs are of bfloat16 (tile_pairs_avx512.inc). Rows of a: query
// rows.
//
// Tile register map, a row block of up to 32 rows:
//               17 .. 32 rows                            1 .. 16 rows
//   tmm0 - 3    c[2 row tiles][2 column tiles]           c[4 column tiles]
//   tmm4, 5     a of the two row tiles                   a, -
//   tmm6, 7     b of the two column tiles                b of columns 0 and 2, of 1 and 3
//   QK  a: query      b: key pairs    c: scores, 16 keys a column tile; zero at first
//   PV  a: probabilities  b: value pairs  c: acc, 16 value elements a column tile
// Four products that do not wait for each other hide most of a product's latency of 52 cycles; a
// row tile has as many rows as there are, since a product takes a cycle for each.
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

inline int64_t QueryStride(int32_t head_size) { return RoundUpTo(head_size, 2 * kPairs); }
inline int64_t KeyPairElements(int32_t head_size) { return NumKeyPairRows(head_size) * kKeyTile; }
inline int64_t ValuePairElements(int32_t value_head_size) {
  return kKeyTile / 2 * ValuePairStride(value_head_size);
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

// [terms][num_rows][QueryStride] bfloat16, 0 past head_size.
template <typename T>
int64_t PackedQueryBytes(int32_t num_rows, int32_t head_size) {
  return kTerms<T> * num_rows * QueryStride(head_size) * 2;
}

template <typename T>
void PackQuery(const void *const *rows, int32_t num_rows, int32_t head_size, void *packed) {
  const int64_t stride = QueryStride(head_size);
  for (int32_t r = 0; r < num_rows; ++r) {
    for (int32_t d = 0; d < head_size; d += 2 * kPairs) {
      uint16_t *out = static_cast<uint16_t *>(packed) + r * stride + d;
      ForEachTerm<T>(Load32(static_cast<const T *>(rows[r]) + d, head_size - d),
                     [&](int term, __m512i elements) {
                       _mm512_storeu_si512(out + term * num_rows * stride, elements);
                     });
    }
  }
}

// Scratch: key pairs, value pairs, each of all terms.
template <typename T>
int64_t ScratchBytes(int32_t head_size, int32_t value_head_size) {
  return kTerms<T> * (KeyPairElements(head_size) + ValuePairElements(value_head_size)) *
         int64_t{sizeof(uint32_t)};
}

template <typename T>
void PackKeys(const AttendArgs &args, Prefetcher *prefetcher, uint32_t *key_pairs) {
  const int64_t term_elements = KeyPairElements(args.head_size);
  ForEachKeyBlock<T>(args, prefetcher, [&](__m512i *rows, int64_t offset) {
    if constexpr (kTerms<T> == 1) {
      StoreKeyPairs(rows, key_pairs + offset);
    } else {
      __m512i low[kPairs];
#pragma GCC unroll 16
      for (int i = 0; i < kPairs; ++i) {
        const SplitElements split = SplitFloat16(rows[i]);
        rows[i] = split.high;
        low[i] = split.low;
      }
      StoreKeyPairs(rows, key_pairs + offset);
      StoreKeyPairs(low, key_pairs + term_elements + offset);
    }
  });
}

inline void StoreSplitPair(Vec even, Vec odd, int64_t term_elements, uint32_t *out) {
  const SplitVec even_split = Split(even);
  const SplitVec odd_split = Split(odd);
  _mm512_storeu_si512(out, PairUpper(even_split.high, odd_split.high));
  _mm512_storeu_si512(out + term_elements, PairUpper(even_split.low, odd_split.low));
}

template <typename T>
void PackValues(const AttendArgs &args, Prefetcher *prefetcher, uint32_t *value_pairs) {
  const int64_t stride = ValuePairStride(args.value_head_size);
  const int64_t term_elements = ValuePairElements(args.value_head_size);
  ForEachValuePair<T>(args, [&](__m512i even, __m512i odd, int32_t pair, int32_t d) {
    prefetcher->Step();
    uint32_t *row = value_pairs + pair * stride;
    if constexpr (kTerms<T> == 1) {
      StoreValuePair(even, odd, d, stride, row);
    } else {
      StoreSplitPair(WidenFirst16(even), WidenFirst16(odd), term_elements, row + d);
      if (d + kPairs < stride) {
        StoreSplitPair(WidenLast16(even), WidenLast16(odd), term_elements, row + d + kPairs);
      }
    }
  });
}

// Probabilities as the a operand, [terms][kRowBlock][kKeyTile] bfloat16. Rows past the block's last
// are not read.
template <int kNumTerms>
struct TileProbabilities {
  alignas(64) uint16_t terms[kNumTerms][kRowBlock * kKeyTile];
  Prefetcher *prefetcher;
  TileQueue<kNumTerms> *queue;

  void Store(int32_t row, int32_t key, Vec p) {
    prefetcher->Step();
    if constexpr (kNumTerms == 1) {
      StoreTerm(0, row, key, p);
    } else {
      const SplitVec split = Split(p);
      StoreTerm(0, row, key, split.high);
      StoreTerm(1, row, key, split.low);
    }
  }

  void RowDone() { queue->RowDone(); }

  void StoreTerm(int term, int32_t row, int32_t key, Vec p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(terms[term] + row * kKeyTile + key),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(p)));
  }
};

// A row block on its way: scores, then probabilities.
template <int kNumTerms>
struct TileBlock {
  RowBlockState state;
  TileProbabilities<kNumTerms> probabilities;
  int32_t first_row;
  int32_t num_rows;
};

// What Attend passes on: the call and its packed operands.
struct PackedCall {
  const AttendArgs &args;
  const uint32_t *key_pairs;
  const uint32_t *value_pairs;
};

// scores <- query . key
template <int kNumTerms>
TileProduct ScoreProduct(const PackedCall &call, TileBlock<kNumTerms> *block) {
  const AttendArgs &args = call.args;
  const int64_t query_stride = QueryStride(args.head_size);
  const uint16_t *query = static_cast<const uint16_t *>(args.query);
  TileProduct product;
  product.a = reinterpret_cast<const char *>(query + block->first_row * query_stride);
  product.a_stride_bytes = 2 * query_stride;
  product.a_term_bytes = 2 * args.num_rows * query_stride;
  product.b = reinterpret_cast<const char *>(call.key_pairs);
  product.b_stride_bytes = kKeyTile * int64_t{sizeof(uint32_t)};
  product.b_term_bytes = KeyPairElements(args.head_size) * int64_t{sizeof(uint32_t)};
  product.c = block->state.scores;
  product.c_stride = kKeyTile;
  product.adds = false;
  product.num_rows = block->num_rows;
  product.num_column_tiles = kKeyTile / kTileRows;
  product.num_steps = static_cast<int32_t>(query_stride / (2 * kPairs));
  return product;
}

// acc <- acc + probabilities . value
template <int kNumTerms>
TileProduct ValueProduct(const PackedCall &call, const TileBlock<kNumTerms> &block) {
  const AttendArgs &args = call.args;
  const int64_t value_stride = ValuePairStride(args.value_head_size);
  TileProduct product;
  product.a = reinterpret_cast<const char *>(block.probabilities.terms[0]);
  product.a_stride_bytes = 2 * kKeyTile;
  product.a_term_bytes = sizeof(block.probabilities.terms[0]);
  product.b = reinterpret_cast<const char *>(call.value_pairs);
  product.b_stride_bytes = value_stride * int64_t{sizeof(uint32_t)};
  product.b_term_bytes = ValuePairElements(args.value_head_size) * int64_t{sizeof(uint32_t)};
  product.c = args.state.acc + block.first_row * args.state.acc_stride;
  product.c_stride = args.state.acc_stride;
  product.adds = true;
  product.num_rows = block.num_rows;
  product.num_column_tiles = static_cast<int32_t>(value_stride / kTileRows);
  product.num_steps = (args.tile.num_keys + 2 * kPairs - 1) / (2 * kPairs);
  return product;
}

// acc <- acc * alpha. A row whose maximum did not change is left alone: alpha is 1.
template <int kNumTerms>
void RescaleRows(const AttendArgs &args, const TileBlock<kNumTerms> &block) {
  for (int32_t r = 0; r < block.num_rows; ++r) {
    if (block.state.alpha[r] == 1.0f) continue;
    const Vec alpha = Simd::Set1(block.state.alpha[r]);
    float *row = args.state.acc + (block.first_row + r) * args.state.acc_stride;
    for (int32_t d = 0; d < args.value_head_size; d += Simd::kLanes) {
      Simd::Store(row + d, Simd::Mul(Simd::Load(row + d), alpha));
    }
  }
}

// Two row blocks at a time are on their way:
//   softmax of block i, and between its rows:  acc of block i - 1, then scores of block i + 1
template <typename T>
void AttendBlocks(const PackedCall &call, Prefetcher *prefetcher) {
  constexpr int kNumTerms = kTerms<T>;
  const AttendArgs &args = call.args;
  TileQueue<kNumTerms> queue(prefetcher);
  TileBlock<kNumTerms> blocks[2];
  const auto begin_block = [&](int32_t first_row) {
    TileBlock<kNumTerms> *block = &blocks[first_row / kRowBlock % 2];
    block->probabilities.prefetcher = prefetcher;
    block->probabilities.queue = &queue;
    block->first_row = first_row;
    block->num_rows = Minimum(kRowBlock, args.num_rows - first_row);
    return block;
  };
  TileBlock<kNumTerms> *block = begin_block(0);
  queue.Push(ScoreProduct(call, block));
  queue.Finish();
  for (int32_t row = 0; row < args.num_rows; row += kRowBlock) {
    TileBlock<kNumTerms> *other = &blocks[(row / kRowBlock + 1) % 2];
    if (row > 0) queue.Push(ValueProduct(call, *other));
    // The scores of block i + 1 may take the place of those of block i - 1: its product is
    // in the queue before, and does not read them.
    if (row + kRowBlock < args.num_rows)
      queue.Push(ScoreProduct(call, begin_block(row + kRowBlock)));
    queue.Spread(block->num_rows);
    SoftmaxRows<T>(args, row, block->num_rows, kKeyTile, &block->state, &block->probabilities);
    queue.Finish();
    RescaleRows(args, *block);
    if (row + kRowBlock >= args.num_rows) break;
    block = other;
  }
  queue.Push(ValueProduct(call, *block));
  queue.Finish();
}

// Packing and the rest for the first row block.
int32_t NumPrefetchSteps(const AttendArgs &args) {
  const int32_t value_steps =
      kKeyTile / 2 * ((args.value_head_size + 2 * kPairs - 1) / (2 * kPairs));
  const int32_t rows = Minimum(args.num_rows, kRowBlock);
  const int32_t product_steps = (rows > kTileRows ? 2 : 1) * (args.head_size / (2 * kPairs) +
                                                              args.value_head_size / (2 * kPairs));
  return NumPackSteps(args) + value_steps + rows * (kKeyTile / Simd::kLanes) +
         product_steps * kPrefetchStepsPerProductStep;
}

template <typename T>
void Attend(const AttendArgs &args) {
  uint32_t *key_pairs = static_cast<uint32_t *>(args.scratch);
  uint32_t *value_pairs = key_pairs + kTerms<T> * KeyPairElements(args.head_size);
  Prefetcher prefetcher(args, NumPrefetchSteps(args));
  PackKeys<T>(args, &prefetcher, key_pairs);
  PackValues<T>(args, &prefetcher, value_pairs);
  AttendBlocks<T>({args, key_pairs, value_pairs}, &prefetcher);
  Tiles::Release();
}

template <typename T>
constexpr DTypeKernels MakeKernels() {
  return {PackedQueryBytes<T>, ScratchBytes<T>, PackQuery<T>, Attend<T>, StoreRow<T>, LoadRow<T>};
}

}  // namespace

extern const DTypeKernels kFloat16Kernels;
extern const DTypeKernels kBFloat16Kernels;
const DTypeKernels kFloat16Kernels = MakeKernels<Float16Bits>();
const DTypeKernels kBFloat16Kernels = MakeKernels<BFloat16Bits>();

}  // namespace mindspore_relay::MINDSPORE_RELAY_AMX_NAMESPACE
