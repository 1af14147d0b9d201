// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// bfloat16 by vdpbf16ps, for CPUs where it does two multiply-adds in the time of one FMA.
//
// Register map of the two products, which do almost all of the work:
//   QK  zmm  24 dot[6 rows][4 vectors = 64 keys], 4 vectors of key pairs, 1 query pair broadcast
//   PV  zmm  24 acc[6 rows][4 vectors = 64 value elements], 4 vectors of value pairs, 1 pair of
//            probabilities broadcast
//
// Products of bfloat16 are exact; sums are float32, rounded after each product. Probabilities are
// rounded to bfloat16 for the product with the values; their sum is taken before.
#include <immintrin.h>

#include <cstring>

#include "cpu/features.h"
#include "cpu/isa_tables.h"

namespace mindspore_relay::avx512_bf16 {
namespace {

constexpr int32_t kRowBlock = 24;
constexpr bool kFlushesSubnormals = false;
constexpr int kRows = 6;     // rows of a register block
constexpr int kVectors = 4;  // vectors of a register block
constexpr int32_t kBlockElements = kVectors * 16;
static_assert(kBlockElements == kKeyTile, "QK: a register block holds all keys of the tile");
static_assert(kRowBlock % kRows == 0, "a full row block must be made of full register blocks");

#include "cpu/simd_avx512.inc"
#include "cpu/tile_common.inc"
#include "cpu/tile_pairs_avx512.inc"

inline __m512bh AsPairs(__m512i a) { return reinterpret_cast<__m512bh>(a); }

// Operands, 0 past head_size, past num_keys and past value_head_size up to whole registers:
//   b of QK  key pairs    [head_size / 2][kKeyTile]          elements 2 i and 2 i + 1 of each key
//   b of PV  value pairs  [kKeyTile / 2][value_head_size]    keys 2 i and 2 i + 1 of each element
//   a of PV  probabilities [rows][kKeyTile] bfloat16, where neighbours are pairs as they lie
inline int64_t NumKeyPairRows(int32_t head_size) { return RoundUpTo(head_size, 2 * kPairs) / 2; }
inline int64_t ValuePairStride(int32_t value_head_size) {
  return RoundUpTo(value_head_size, kPairs);
}

// 16 keys x 16 pairs -> 16 pairs x 16 keys.
inline void StoreKeyPairs(const __m512i *rows, uint32_t *out) {
  Vec r[kPairs];
#pragma GCC unroll 16
  for (int i = 0; i < kPairs; ++i) r[i] = _mm512_castsi512_ps(rows[i]);
  Simd::Transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < kPairs; ++i) {
    _mm512_storeu_si512(out + i * kKeyTile, _mm512_castps_si512(r[i]));
  }
}

// Steps of the prefetcher: a pair of QK or PV is one, a block of 16 keys x 32 elements to transpose
// is kPackSteps. The block's loads miss L1, as prefetches do: so few is best, though it takes as
// long as 16 pairs of 4 rows.
constexpr int32_t kPackSteps = 4;
constexpr int32_t kStepPairs = 2;  // taken together

inline int32_t NumPackSteps(const AttendArgs &args) {
  return kKeyTile / kPairs * ((args.head_size + 2 * kPairs - 1) / (2 * kPairs)) * kPackSteps;
}

void PackKeyPairs(const KvTile &tile, int32_t head_size, Prefetcher *prefetcher,
                  uint32_t *key_pairs) {
  for (int32_t key = 0; key < kKeyTile; key += kPairs) {
    const BFloat16Bits *key_rows[kPairs];
    const int32_t num_rows = tile.num_keys - key;
    for (int32_t i = 0; i < Minimum(num_rows, kPairs); ++i) {
      key_rows[i] = KeyRow<BFloat16Bits>(tile, key + i);
    }
    for (int32_t d = 0; d < head_size; d += 2 * kPairs) {
      __m512i rows[kPairs];
      const int32_t count = head_size - d;
      if (num_rows >= kPairs && count >= 2 * kPairs) {
#pragma GCC unroll 16
        for (int i = 0; i < kPairs; ++i) {
          if (i % (kPairs / kPackSteps) == 0) prefetcher->Step();
          rows[i] = _mm512_loadu_si512(key_rows[i] + d);
        }
      } else {
        for (int i = 0; i < kPairs; ++i) {
          rows[i] = i < num_rows ? Load32(key_rows[i] + d, count) : _mm512_setzero_si512();
        }
      }
      StoreKeyPairs(rows, key_pairs + int64_t{d / 2} * kKeyTile + key);
    }
  }
}

// Pairs past the last key are 0, up to a multiple of kPairs.
void PackValuePairs(const KvTile &tile, int32_t value_head_size, uint32_t *value_pairs) {
  const int64_t stride = ValuePairStride(value_head_size);
  const int32_t num_keys = tile.num_keys;
  const int32_t num_pairs = static_cast<int32_t>(RoundUpTo(num_keys, 2 * kPairs) / 2);
  for (int32_t pair = 0; pair < num_pairs; ++pair, value_pairs += stride) {
    const bool has_even = 2 * pair < num_keys;
    const bool has_odd = 2 * pair + 1 < num_keys;
    const BFloat16Bits *even_row = has_even ? ValueRow<BFloat16Bits>(tile, 2 * pair) : nullptr;
    const BFloat16Bits *odd_row = has_odd ? ValueRow<BFloat16Bits>(tile, 2 * pair + 1) : nullptr;
    for (int32_t d = 0; d < value_head_size; d += 2 * kPairs) {
      const int32_t count = value_head_size - d;
      const __m512i even = has_even ? Load32(even_row + d, count) : _mm512_setzero_si512();
      const __m512i odd = has_odd ? Load32(odd_row + d, count) : _mm512_setzero_si512();
      _mm512_storeu_si512(value_pairs + d, PairLow(even, odd));
      if (d + kPairs < stride) _mm512_storeu_si512(value_pairs + d + kPairs, PairHigh(even, odd));
    }
  }
}

// Probabilities rounded to bfloat16, [kRowBlock][kKeyTile].
struct PairProbabilities {
  static constexpr bool kStoresPairs = false;
  alignas(64) uint16_t rows[kRowBlock * kKeyTile];

  void Store(int32_t row, int32_t key, Vec p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(rows + row * kKeyTile + key),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(p)));
  }
};

// [num_rows][head_size], as in the tensor: a multiple of 8 elements is a whole number of pairs.
int64_t PackedQueryBytes(int32_t num_rows, int32_t head_size) {
  return RoundUpTo(int64_t{num_rows} * head_size * 2, 64);
}

// Bytes of what a tile's keys and values are packed into.
int64_t KeyPairsBytes(int32_t head_size) { return NumKeyPairRows(head_size) * kKeyTile * 4; }
int64_t ValuePairsBytes(int32_t value_head_size) {
  return kKeyTile / 2 * ValuePairStride(value_head_size) * 4;
}

// Scratch: key pairs, value pairs.
int64_t ScratchBytes(int32_t head_size, int32_t value_head_size) {
  return KeyPairsBytes(head_size) + ValuePairsBytes(value_head_size);
}

void PackQuery(const void *const *rows, int32_t num_rows, int32_t head_size, void *packed) {
  for (int32_t r = 0; r < num_rows; ++r) {
    std::memcpy(static_cast<uint16_t *>(packed) + int64_t{r} * head_size, rows[r], head_size * 2);
  }
}

inline __m512bh BroadcastPair(const uint16_t *p) {
  int32_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  return AsPairs(_mm512_set1_epi32(pair));
}

// scores[kCount][kKeyTile] <- query . key over elements [begin, end), added to what is there unless
// begin is 0
template <int kCount>
void QkChain(const uint16_t *query, const uint32_t *key_pairs, int32_t head_size, int32_t begin,
             int32_t end, Prefetcher *prefetcher, float *scores) {
  Vec dot[kCount][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) dot[r][v] = Simd::Zero();
  }
  key_pairs += int64_t{begin / 2} * kKeyTile;
  // A multiple of 8 elements is a multiple of 4 pairs.
  for (int32_t d = begin; d < end; d += 2 * kStepPairs) {
    prefetcher->Step(kStepPairs);
#pragma GCC unroll 4
    for (int i = 0; i < kStepPairs; ++i, key_pairs += kKeyTile) {
      __m512bh k[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) k[v] = AsPairs(_mm512_loadu_si512(key_pairs + 16 * v));
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const __m512bh q = BroadcastPair(query + int64_t{r} * head_size + d + 2 * i);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) dot[r][v] = _mm512_dpbf16_ps(dot[r][v], q, k[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float *out = scores + r * kKeyTile + 16 * v;
      Simd::Store(out, begin == 0 ? dot[r][v] : Simd::Add(Simd::Load(out), dot[r][v]));
    }
  }
}

// scores[kCount][kKeyTile] <- query . key
template <int kCount>
void QkBlock(const uint16_t *query, const uint32_t *key_pairs, int32_t head_size,
             Prefetcher *prefetcher, float *scores) {
  int32_t end = 0;
  for (int32_t begin = 0; begin < head_size; begin = end) {
    end = Minimum(head_size, begin + kChainElements<BFloat16Bits>);
    QkChain<kCount>(query, key_pairs, head_size, begin, end, prefetcher, scores);
  }
}

// Where PV takes pairs of values from: the packed copy, or the caller's rows.
struct PackedPairs {
  const uint32_t *value_pairs;  // [kKeyTile / 2][stride]
  int64_t stride;

  template <int kCount>
  void Load(int32_t pair, int32_t d, __m512bh *out) const {
    const uint32_t *row = value_pairs + pair * stride + d;
#pragma GCC unroll 8
    for (int v = 0; v < kCount; ++v) out[v] = AsPairs(_mm512_loadu_si512(row + 16 * v));
  }
};

struct PairsOfRows {
  const KvTile &tile;

  template <int kCount>
  void Load(int32_t pair, int32_t d, __m512bh *out) const {
    const BFloat16Bits *even_row = ValueRow<BFloat16Bits>(tile, 2 * pair) + d;
    const bool has_odd = 2 * pair + 1 < tile.num_keys;
    const BFloat16Bits *odd_row =
        has_odd ? ValueRow<BFloat16Bits>(tile, 2 * pair + 1) + d : even_row;
    const __mmask32 odd_mask = has_odd ? 0xffffffffu : 0u;
#pragma GCC unroll 8
    for (int v = 0; v < kCount; v += 2) {
      // Of an odd number of vectors, the last is half of 32 elements.
      const __mmask32 mask = v + 1 < kCount ? 0xffffffffu : 0xffffu;
      const __m512i even = _mm512_maskz_loadu_epi16(mask, even_row + 16 * v);
      const __m512i odd = _mm512_maskz_loadu_epi16(mask & odd_mask, odd_row + 16 * v);
      out[v] = AsPairs(PairLow(even, odd));
      if (v + 1 < kCount) out[v + 1] = AsPairs(PairHigh(even, odd));
    }
  }
};

struct PvArgs {
  const uint16_t *probabilities;  // [kCount][kKeyTile]
  const float *alpha;             // [kCount]
  float *acc;                     // [kCount][acc_stride]
  int64_t acc_stride;
  int32_t num_pairs;
  Prefetcher *prefetcher;
};

// acc <- acc * alpha + probabilities . value, for kCount rows and value elements d .. d + 16 *
// kWidth
template <int kCount, int kWidth, typename Source>
void PvBlock(const PvArgs &args, const Source &source, int32_t d) {
  Vec acc[kCount][kWidth];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
    const Vec alpha = Simd::Set1(args.alpha[r]);
#pragma GCC unroll 8
    for (int v = 0; v < kWidth; ++v) {
      acc[r][v] = Simd::Mul(Simd::Load(args.acc + r * args.acc_stride + d + 16 * v), alpha);
    }
  }
  for (int32_t pair = 0; pair < args.num_pairs; ++pair) {
    if (pair % kStepPairs == 0) args.prefetcher->Step(kStepPairs);
    __m512bh value[kWidth];
    source.template Load<kWidth>(pair, d, value);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const __m512bh p = BroadcastPair(args.probabilities + r * kKeyTile + 2 * pair);
#pragma GCC unroll 8
      for (int v = 0; v < kWidth; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], p, value[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kWidth; ++v) {
      Simd::Store(args.acc + r * args.acc_stride + d + 16 * v, acc[r][v]);
    }
  }
}

template <int kCount, typename Source>
void PvRows(const PvArgs &args, const Source &source, int32_t value_head_size) {
  int32_t d = 0;
  for (; d + kBlockElements <= value_head_size; d += kBlockElements) {
    PvBlock<kCount, kVectors>(args, source, d);
  }
  const int32_t num_vectors = (value_head_size - d + 15) / 16;
  if (num_vectors == 0) return;
  CallWithCount<kVectors>(num_vectors,
                          [&](auto width) { PvBlock<kCount, width.kCount>(args, source, d); });
}

template <typename Source>
void PvRowBlock(const AttendArgs &args, int32_t first_row, int32_t num_rows, int32_t num_keys,
                const Source &source, const PairProbabilities &probabilities,
                const RowBlockState &block, Prefetcher *prefetcher) {
  ForEachBlock<kRows>(num_rows, [&](auto rows, int32_t r) {
    PvArgs pv;
    pv.probabilities = probabilities.rows + r * kKeyTile;
    pv.alpha = block.alpha + r;
    pv.acc = args.state.acc + (first_row + r) * args.state.acc_stride;
    pv.acc_stride = args.state.acc_stride;
    pv.num_pairs = (num_keys + 1) / 2;
    pv.prefetcher = prefetcher;
    PvRows<rows.kCount>(pv, source, args.value_head_size);
  });
}

// Up to so many rows values are paired on the way, again for each register block of rows, and not
// copied. Measured on Zen 5, head_size 128, on the way / copied: 8 rows 0.87 / 1.06 us, 32 rows
// 2.6 / 2.8 us, 128 rows 10.0 / 9.9 us.
constexpr int32_t kDirectRows = 2 * kRowBlock;

void Attend(const AttendArgs &args) {
  const KvTile &tile = args.tile;
  const int32_t num_pv_blocks = (args.value_head_size + kBlockElements - 1) / kBlockElements;
  const int32_t num_row_blocks = (args.num_rows + kRows - 1) / kRows;
  const int32_t num_pairs = args.head_size / 2 + (tile.num_keys + 1) / 2 * num_pv_blocks;
  Prefetcher prefetcher(args,
                        (tile.is_packed ? 0 : NumPackSteps(args)) + num_pairs * num_row_blocks);
  const uint32_t *key_pairs;
  const uint32_t *value_pairs;
  // A last vector that is not full is read from a copy, which has a padding.
  bool is_direct = false;
  if (tile.is_packed) {
    key_pairs = KeyRow<uint32_t>(tile, 0);
    value_pairs = ValueRow<uint32_t>(tile, 0);
  } else {
    uint32_t *const keys = static_cast<uint32_t *>(args.scratch);
    uint32_t *const values = keys + KeyPairsBytes(args.head_size) / 4;
    PackKeyPairs(tile, args.head_size, &prefetcher, keys);
    is_direct = args.num_rows <= kDirectRows && args.value_head_size % 16 == 0;
    if (!is_direct) PackValuePairs(tile, args.value_head_size, values);
    key_pairs = keys;
    value_pairs = values;
  }
  const int64_t value_stride = ValuePairStride(args.value_head_size);

  RowBlockState block;
  PairProbabilities probabilities;
  const uint16_t *query = static_cast<const uint16_t *>(args.query);
  for (int32_t row = 0; row < args.num_rows; row += kRowBlock) {
    const int32_t num_rows = Minimum(kRowBlock, args.num_rows - row);
    const int32_t num_seen = NumSeenKeys(args, row, num_rows);
    if (num_seen == 0) continue;
    ForEachBlock<kRows>(num_rows, [&](auto rows, int32_t r) {
      QkBlock<rows.kCount>(query + int64_t{row + r} * args.head_size, key_pairs, args.head_size,
                           &prefetcher, block.scores + r * kKeyTile);
    });
    SoftmaxRows<BFloat16Bits>(args, row, num_rows, /*first_key=*/0, kKeyTile, &block,
                              &probabilities);
    if (is_direct) {
      PvRowBlock(args, row, num_rows, num_seen, PairsOfRows{tile}, probabilities, block,
                 &prefetcher);
    } else {
      PvRowBlock(args, row, num_rows, num_seen, PackedPairs{value_pairs, value_stride},
                 probabilities, block, &prefetcher);
    }
  }
}

void PackKeysAhead(const KvTile &tile, int32_t head_size, void *packed) {
  Prefetcher prefetcher({}, /*num_steps=*/1);
  PackKeyPairs(tile, head_size, &prefetcher, static_cast<uint32_t *>(packed));
}

void PackValuesAhead(const KvTile &tile, int32_t value_head_size, void *packed) {
  std::memset(packed, 0, ValuePairsBytes(value_head_size));
  PackValuePairs(tile, value_head_size, static_cast<uint32_t *>(packed));
}

constexpr PackTileKernels kPackTile = {"avx512_bf16", KeyPairsBytes, ValuePairsBytes, PackKeysAhead,
                                       PackValuesAhead};

}  // namespace

const DTypeKernels kBFloat16Kernels = {kKeyTile,
                                       0,
                                       256,
                                       PackedQueryBytes,
                                       ScratchBytes,
                                       PackQuery,
                                       Attend,
                                       StoreRow<BFloat16Bits>,
                                       LoadRow<BFloat16Bits>,
                                       &kPackTile};

}  // namespace mindspore_relay::avx512_bf16
