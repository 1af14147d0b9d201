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

constexpr int64_t kScoreStrideBytes = kKeyTile * int64_t{sizeof(float)};
constexpr int64_t kProbabilityStrideBytes = kKeyTile * int64_t{2};
constexpr int64_t kKeyPairStrideBytes = kKeyTile * int64_t{sizeof(uint32_t)};

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

// x - y, but 0 where that is not a number: then x is infinite or NaN, and y says so.
inline Vec FiniteDifference(Vec x, Vec y) {
  const Vec difference = _mm512_sub_ps(x, y);
  const __mmask16 is_number = _mm512_cmp_ps_mask(difference, difference, _CMP_ORD_Q);
  return _mm512_maskz_mov_ps(is_number, difference);
}

inline Vec WidenLow(__m512i bfloat16) {
  return Simd::WidenBFloat16(_mm512_castsi512_si256(bfloat16));
}
inline Vec WidenHigh(__m512i bfloat16) {
  return Simd::WidenBFloat16(_mm512_extracti64x4_epi64(bfloat16, 1));
}

// 32 float16 -> two times 32 bfloat16 whose sum they are.
struct SplitElements {
  __m512i high;
  __m512i low;
};
inline SplitElements SplitFloat16(__m512i elements) {
  const Vec x0 = _mm512_cvtph_ps(_mm512_castsi512_si256(elements));
  const Vec x1 = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(elements, 1));
  const __m512i high = AsBits(_mm512_cvtne2ps_pbh(x1, x0));
  const Vec rest0 = FiniteDifference(x0, WidenLow(high));
  const Vec rest1 = FiniteDifference(x1, WidenHigh(high));
  return {high, AsBits(_mm512_cvtne2ps_pbh(rest1, rest0))};
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
      const SplitElements even_split = SplitFloat16(even);
      const SplitElements odd_split = SplitFloat16(odd);
      StoreValuePair(even_split.high, odd_split.high, d, stride, row);
      StoreValuePair(even_split.low, odd_split.low, d, stride, row + term_elements);
    }
  });
}

// Probabilities as the a operand, [terms][kRowBlock][kKeyTile] bfloat16. Rows past the block's last
// are not read. Each store is also a step of the prefetcher: softmax is a good part of the time.
template <int kNumTerms>
struct TileProbabilities {
  alignas(64) uint16_t terms[kNumTerms][kRowBlock * kKeyTile];
  Prefetcher *prefetcher;

  void Store(int32_t row, int32_t key, Vec p) {
    prefetcher->Step();
    const __m256i high = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(p));
    StoreTerm(0, row, key, high);
    if constexpr (kNumTerms == 2) {
      const Vec rest = FiniteDifference(p, Simd::WidenBFloat16(high));
      StoreTerm(1, row, key, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(rest)));
    }
  }

  void StoreTerm(int term, int32_t row, int32_t key, __m256i bits) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(terms[term] + row * kKeyTile + key), bits);
  }
};

// Calls call(Count<i>{}) for i = kBegin .. kEnd - 1.
template <int kBegin, int kEnd, typename Call>
[[gnu::always_inline]] inline void Unroll(const Call &call) {
  if constexpr (kBegin < kEnd) {
    call(Count<kBegin>{});
    Unroll<kBegin + 1, kEnd>(call);
  }
}

// One product of row tiles with column tiles: where the first tiles of a and b lie, and how to get
// to the next. Row tiles of a are kTileRows rows apart, column tiles of b kTileRowBytes.
struct Operands {
  const char *a;
  int64_t a_stride_bytes;
  const char *b;
  int64_t b_stride_bytes;
};

constexpr int CTile(int num_row_tiles, int row_tile, int column_tile) {
  return num_row_tiles == 2 ? 2 * row_tile + column_tile : column_tile;
}

// c <- c + a . b for all row and column tiles, one step of 16 pairs.
template <int kRowTiles, int kColumnTiles>
[[gnu::always_inline]] inline void MultiplyAddTiles(const Operands &x) {
  Unroll<0, kRowTiles>([&](auto r) {
    Tiles::Load<4 + r.kCount>(x.a + r.kCount * kTileRows * x.a_stride_bytes, x.a_stride_bytes);
  });
  Unroll<0, kColumnTiles>([&](auto n) {
    constexpr int kB = 6 + n.kCount % 2;
    Tiles::Load<kB>(x.b + n.kCount * kTileRowBytes, x.b_stride_bytes);
    Unroll<0, kRowTiles>([&](auto r) {
      Tiles::MultiplyAdd<CTile(kRowTiles, r.kCount, n.kCount), 4 + r.kCount, kB>();
    });
  });
}

// The terms of a and b whose products are made, in this order: high . high, high . low, low . high.
struct TermPair {
  int a;
  int b;
};
constexpr TermPair kTermPairs[] = {{0, 0}, {0, 1}, {1, 0}};
template <int kNumTerms>
constexpr int kNumTermPairs = kNumTerms == 1 ? 1 : 3;

// All steps of a product over num_steps x 16 pairs. a_step_bytes, b_step_bytes: from one step to
// the next; a_term_bytes, b_term_bytes: from high to low.
struct Product {
  Operands first;
  int32_t num_steps;
  int64_t b_step_bytes;
  int64_t a_term_bytes;
  int64_t b_term_bytes;
};

template <int kNumTerms, int kRowTiles, int kColumnTiles>
void Multiply(const Product &product) {
  for (int32_t step = 0; step < product.num_steps; ++step) {
    Unroll<0, kNumTermPairs<kNumTerms>>([&](auto i) {
      constexpr TermPair kPair = kTermPairs[i.kCount];
      Operands x = product.first;
      x.a += step * kTileRowBytes + kPair.a * product.a_term_bytes;
      x.b += step * product.b_step_bytes + kPair.b * product.b_term_bytes;
      MultiplyAddTiles<kRowTiles, kColumnTiles>(x);
    });
  }
}

template <int kRowTiles, int kColumnTiles, typename TileCall>
[[gnu::always_inline]] inline void ForEachCTile(const TileCall &call) {
  Unroll<0, kRowTiles>([&](auto r) {
    Unroll<0, kColumnTiles>([&](auto n) {
      call(Count<CTile(kRowTiles, r.kCount, n.kCount)>{}, r.kCount * kTileRows, n.kCount);
    });
  });
}

// scores[rows of the block][kKeyTile] <- query . key
template <typename T, int kRowTiles>
void QkTiles(const AttendArgs &args, int32_t first_row, const uint32_t *key_pairs, float *scores) {
  constexpr int kColumnTiles = 4 / kRowTiles;
  const int64_t query_stride = QueryStride(args.head_size);
  Product product;
  product.first.a = reinterpret_cast<const char *>(static_cast<const uint16_t *>(args.query) +
                                                   first_row * query_stride);
  product.first.a_stride_bytes = 2 * query_stride;
  product.first.b_stride_bytes = kKeyPairStrideBytes;
  product.num_steps = static_cast<int32_t>(query_stride / (2 * kPairs));
  product.b_step_bytes = kPairs * kKeyPairStrideBytes;
  product.a_term_bytes = 2 * args.num_rows * query_stride;
  product.b_term_bytes = KeyPairElements(args.head_size) * int64_t{sizeof(uint32_t)};
  for (int32_t key = 0; key < kKeyTile; key += kColumnTiles * kTileRows) {
    product.first.b = reinterpret_cast<const char *>(key_pairs + key);
    ForEachCTile<kRowTiles, kColumnTiles>([](auto c, int, int) { Tiles::Zero<c.kCount>(); });
    Multiply<kTerms<T>, kRowTiles, kColumnTiles>(product);
    ForEachCTile<kRowTiles, kColumnTiles>([&](auto c, int row, int column_tile) {
      Tiles::Store<c.kCount>(scores + row * kKeyTile + key + column_tile * kTileRows,
                             kScoreStrideBytes);
    });
  }
}

// acc <- acc * alpha. A row whose maximum did not change is left alone: alpha is 1.
inline void RescaleRows(const RowBlockState &block, int32_t num_rows, int32_t value_head_size,
                        int64_t acc_stride, float *acc) {
  for (int32_t r = 0; r < num_rows; ++r) {
    if (block.alpha[r] == 1.0f) continue;
    const Vec alpha = Simd::Set1(block.alpha[r]);
    float *row = acc + r * acc_stride;
    for (int32_t d = 0; d < value_head_size; d += Simd::kLanes) {
      Simd::Store(row + d, Simd::Mul(Simd::Load(row + d), alpha));
    }
  }
}

// acc <- acc + probabilities . value for kColumnTiles x 16 value elements. acc: at the first of
// them.
template <int kNumTerms, int kRowTiles, int kColumnTiles>
void PvColumns(const Product &product, int64_t acc_stride, float *acc) {
  const int64_t stride_bytes = acc_stride * int64_t{sizeof(float)};
  ForEachCTile<kRowTiles, kColumnTiles>([&](auto c, int row, int column_tile) {
    Tiles::Load<c.kCount>(acc + row * acc_stride + column_tile * kTileRows, stride_bytes);
  });
  Multiply<kNumTerms, kRowTiles, kColumnTiles>(product);
  ForEachCTile<kRowTiles, kColumnTiles>([&](auto c, int row, int column_tile) {
    Tiles::Store<c.kCount>(acc + row * acc_stride + column_tile * kTileRows, stride_bytes);
  });
}

template <typename T, int kRowTiles>
void PvTiles(const AttendArgs &args, int32_t first_row,
             const TileProbabilities<kTerms<T>> &probabilities, const uint32_t *value_pairs) {
  constexpr int kColumnTiles = 4 / kRowTiles;
  const int64_t value_stride = ValuePairStride(args.value_head_size);
  const int64_t value_stride_bytes = value_stride * int64_t{sizeof(uint32_t)};
  float *acc = args.state.acc + first_row * args.state.acc_stride;
  Product product;
  product.first.a = reinterpret_cast<const char *>(probabilities.terms[0]);
  product.first.a_stride_bytes = kProbabilityStrideBytes;
  product.first.b_stride_bytes = value_stride_bytes;
  product.num_steps = (args.tile.num_keys + 2 * kPairs - 1) / (2 * kPairs);
  product.b_step_bytes = kPairs * value_stride_bytes;
  product.a_term_bytes = sizeof(probabilities.terms[0]);
  product.b_term_bytes = ValuePairElements(args.value_head_size) * int64_t{sizeof(uint32_t)};
  for (int32_t d = 0; d < args.value_head_size; d += kColumnTiles * kTileRows) {
    product.first.b = reinterpret_cast<const char *>(value_pairs + d);
    const int32_t tiles_left = static_cast<int32_t>(value_stride - d) / kTileRows;
    CallWithCount<kColumnTiles>(Minimum(tiles_left, kColumnTiles), [&](auto columns) {
      PvColumns<kTerms<T>, kRowTiles, columns.kCount>(product, args.state.acc_stride, acc + d);
    });
  }
}

// Row tiles of the block have as many rows as there are; b tiles and all rows are full.
void ConfigureTiles(int32_t num_rows) {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = kTileRowBytes;
    config.rows[i] = kTileRows;
  }
  const bool is_one_tile = num_rows <= kTileRows;
  const uint8_t first_rows = static_cast<uint8_t>(is_one_tile ? num_rows : kTileRows);
  const uint8_t last_rows = static_cast<uint8_t>(is_one_tile ? num_rows : num_rows - kTileRows);
  config.rows[0] = config.rows[1] = config.rows[4] = first_rows;
  config.rows[2] = config.rows[3] = config.rows[5] = last_rows;
  Tiles::Configure(config);
}

// Packing and the softmax steps of the first row block.
template <typename T>
int32_t NumPrefetchSteps(const AttendArgs &args) {
  const int32_t value_steps =
      kKeyTile / 2 * ((args.value_head_size + 2 * kPairs - 1) / (2 * kPairs));
  return NumPackSteps(args) + value_steps +
         Minimum(args.num_rows, kRowBlock) * (kKeyTile / Simd::kLanes);
}

template <typename T>
void Attend(const AttendArgs &args) {
  uint32_t *key_pairs = static_cast<uint32_t *>(args.scratch);
  uint32_t *value_pairs = key_pairs + kTerms<T> * KeyPairElements(args.head_size);
  Prefetcher prefetcher(args, NumPrefetchSteps<T>(args));
  PackKeys<T>(args, &prefetcher, key_pairs);
  PackValues<T>(args, &prefetcher, value_pairs);

  RowBlockState block;
  TileProbabilities<kTerms<T>> probabilities;
  probabilities.prefetcher = &prefetcher;
  int32_t configured_rows = 0;
  for (int32_t row = 0; row < args.num_rows; row += kRowBlock) {
    const int32_t num_rows = Minimum(kRowBlock, args.num_rows - row);
    if (num_rows != configured_rows) ConfigureTiles(num_rows);
    configured_rows = num_rows;
    CallWithCount<2>(num_rows > kTileRows ? 2 : 1, [&](auto row_tiles) {
      QkTiles<T, row_tiles.kCount>(args, row, key_pairs, block.scores);
      SoftmaxRows<T>(args, row, num_rows, kKeyTile, &block, &probabilities);
      RescaleRows(block, num_rows, args.value_head_size, args.state.acc_stride,
                  args.state.acc + row * args.state.acc_stride);
      PvTiles<T, row_tiles.kCount>(args, row, probabilities, value_pairs);
    });
  }
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
