// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "attention/hidden_values.h"

#include <cstring>

#include "common/half.h"

namespace mindspore_relay {
namespace {

// The bits of an element; all exponent bits are set in NaN and infinity.
template <typename T>
struct BitsOf {
  using Type = uint16_t;
};
template <>
struct BitsOf<float> {
  using Type = uint32_t;
};

template <typename T>
constexpr typename BitsOf<T>::Type kExponentBits = 0;
template <>
constexpr uint32_t kExponentBits<float> = 0x7f800000u;
template <>
constexpr uint16_t kExponentBits<Float16> = 0x7c00u;
template <>
constexpr uint16_t kExponentBits<BFloat16> = 0x7f80u;

template <typename T>
bool IsFinite(const T &element) {
  typename BitsOf<T>::Type bits;
  std::memcpy(&bits, &element, sizeof(bits));
  return (bits & kExponentBits<T>) != kExponentBits<T>;
}

template <typename T>
const T *ValueRow(const KvTile &tile, int32_t key) {
  return reinterpret_cast<const T *>(static_cast<const char *>(tile.value_rows[key]) +
                                     tile.value_offset_bytes);
}

// No early exit: without it the loop runs in vectors.
template <typename T>
bool IsRowFinite(const T *row, int32_t num_elements) {
  bool is_finite = true;
  for (int32_t i = 0; i < num_elements; ++i) is_finite &= IsFinite(row[i]);
  return is_finite;
}

template <typename T>
bool Clean(const KvTile &tile, int32_t first_hidden, int32_t num_elements, char *room,
           const void **rows, KvTile *cleaned) {
  bool is_finite = true;
  for (int32_t key = first_hidden; key < tile.num_keys; ++key) {
    is_finite &= IsRowFinite(ValueRow<T>(tile, key), num_elements);
  }
  if (is_finite) return false;
  for (int32_t key = 0; key < first_hidden; ++key) rows[key] = ValueRow<T>(tile, key);
  for (int32_t key = first_hidden; key < tile.num_keys; ++key) {
    T *copy = reinterpret_cast<T *>(room) + int64_t{key} * num_elements;
    const T *row = ValueRow<T>(tile, key);
    for (int32_t i = 0; i < num_elements; ++i) copy[i] = IsFinite(row[i]) ? row[i] : T{};
    rows[key] = copy;
  }
  *cleaned = tile;
  cleaned->value_rows = rows;
  cleaned->value_offset_bytes = 0;
  cleaned->value_stride_bytes = 0;
  return true;
}

template <typename T>
void AddSeen(const KvTile &tile, int32_t first_hidden, int32_t num_elements,
             const int32_t *visible_keys, int32_t num_rows, const TileState &state) {
  for (int32_t key = first_hidden; key < tile.num_keys; ++key) {
    const T *value = ValueRow<T>(tile, key);
    for (int32_t i = 0; i < num_elements; ++i) {
      if (IsFinite(value[i])) continue;
      for (int32_t r = 0; r < num_rows; ++r) {
        if (visible_keys[r] > key) state.acc[r * state.acc_stride + i] += ToFloat(value[i]);
      }
    }
  }
}

}  // namespace

int64_t HiddenValuesBytes(const HeadParams &heads) {
  return int64_t{kKeyTile} * heads.value_head_size * DTypeBytes(heads.dtype);
}

bool CleanHiddenValues(const HeadParams &heads, const KvTile &tile, int32_t first_hidden,
                       char *room, const void **rows, KvTile *cleaned) {
  const int32_t size = heads.value_head_size;
  switch (heads.dtype) {
    case DType::kFloat16:
      return Clean<Float16>(tile, first_hidden, size, room, rows, cleaned);
    case DType::kBFloat16:
      return Clean<BFloat16>(tile, first_hidden, size, room, rows, cleaned);
    default:
      return Clean<float>(tile, first_hidden, size, room, rows, cleaned);
  }
}

void AddSeenValues(const HeadParams &heads, const KvTile &tile, int32_t first_hidden,
                   const int32_t *visible_keys, int32_t num_rows, const TileState &state) {
  const int32_t size = heads.value_head_size;
  switch (heads.dtype) {
    case DType::kFloat16:
      return AddSeen<Float16>(tile, first_hidden, size, visible_keys, num_rows, state);
    case DType::kBFloat16:
      return AddSeen<BFloat16>(tile, first_hidden, size, visible_keys, num_rows, state);
    default:
      return AddSeen<float>(tile, first_hidden, size, visible_keys, num_rows, state);
  }
}

}  // namespace mindspore_relay
