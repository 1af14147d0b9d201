// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Keys or values of one source and kv head, wherever they are, and their way into L1.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_KV_SOURCE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_KV_SOURCE_H_

#include "attention_tiling.h"
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"

namespace mindspore_relay::aicore {

// ND2NZ takes the distance of two rows as 16 bits.
constexpr int64_t kMaxNd2NzPitch = 65535;

// Copies num_rows rows of num_columns elements, `pitch` elements apart in GM, to NZ order in L1:
// l1_dst is row `0` of [num_columns / 16][l1_rows][16]. Rows that are not copied keep their
// content.
template <typename T>
__aicore__ inline void CopyRowsToNz(const AscendC::LocalTensor<T> &l1_dst, __gm__ T *gm_src,
                                    int32_t num_rows, int32_t num_columns, int64_t pitch,
                                    int32_t l1_rows) {
  AscendC::GlobalTensor<T> src;
  src.SetGlobalBuffer(gm_src);
  AscendC::Nd2NzParams params;
  params.ndNum = 1;
  params.dValue = static_cast<uint16_t>(num_columns);
  params.srcNdMatrixStride = 0;
  params.dstNzC0Stride = static_cast<uint16_t>(l1_rows);
  params.dstNzNStride = 1;
  params.dstNzMatrixStride = 0;
  if (pitch <= kMaxNd2NzPitch) {
    params.nValue = static_cast<uint16_t>(num_rows);
    params.srcDValue = static_cast<uint16_t>(pitch);
    AscendC::DataCopy(l1_dst, src, params);
    return;
  }
  params.nValue = 1;
  params.srcDValue = static_cast<uint16_t>(num_columns);
  for (int32_t row = 0; row < num_rows; ++row) {
    AscendC::DataCopy(l1_dst[row * kFractal], src[row * pitch], params);
  }
}

template <typename T>
struct KvSource {
  __gm__ T *data = nullptr;  // head's first element of key 0, or of the cache's token 0 (paged)
  int64_t token_stride = 0;  // elements between two tokens
  int32_t block_size = 0;    // 0: not paged
  AscendC::GlobalTensor<int32_t> block_table;  // this source's row: logical block -> physical block

  // Keys [key_begin, key_begin + num_keys) to rows 0 .. num_keys - 1 of [head_size /
  // 16][l1_rows][16].
  __aicore__ inline void Load(const AscendC::LocalTensor<T> &l1_dst, int32_t key_begin,
                              int32_t num_keys, int32_t head_size, int32_t l1_rows) const {
    int32_t count = 0;
    for (int32_t copied = 0; copied < num_keys; copied += count) {
      count = RunLength(key_begin + copied, num_keys - copied);
      CopyRowsToNz(l1_dst[copied * kFractal], Row(key_begin + copied), count, head_size,
                   token_stride, l1_rows);
    }
  }

  // Row of a key in GM, and how many keys, of the next num_keys, lie token_stride apart from it on.
  __aicore__ inline __gm__ T *Row(int32_t key) const {
    if (block_size == 0) return data + key * token_stride;
    const int64_t block = block_table.GetValue(key / block_size);
    return data + (block * block_size + key % block_size) * token_stride;
  }
  __aicore__ inline int32_t RunLength(int32_t key, int32_t num_keys) const {
    return block_size == 0 ? num_keys : Min(block_size - key % block_size, num_keys);
  }
};

// A key or value input with its block table: makes the KvSource of a source and kv head.
template <typename T>
class KvInput {
 public:
  // tensors: the dynamic input, nullptr if form is kNone. block_tables: nullptr unless paged.
  __aicore__ inline void Init(GM_ADDR tensors, GM_ADDR block_tables, const KvFormat &format,
                              const AttentionTiling &tiling) {
    tensors_ = tensors;
    block_tables_ = reinterpret_cast<__gm__ int32_t *>(block_tables);
    format_ = format;
    head_size_ = tiling.head_size;
    token_stride_ = int64_t{tiling.kv_head_num} * tiling.head_size;
  }

  __aicore__ inline KvSource<T> Source(int32_t index, int32_t kv_head) const {
    const auto form = static_cast<KvForm>(format_.form);
    AscendC::ListTensorDesc list(reinterpret_cast<__gm__ void *>(tensors_));
    KvSource<T> source;
    source.token_stride = token_stride_;
    source.data = list.GetDataPtr<T>(form == KvForm::kList ? index : 0) + kv_head * head_size_;
    if (form == KvForm::kStacked) {
      source.data += int64_t{index} * format_.source_tokens * token_stride_;
    } else if (form == KvForm::kPaged) {
      source.block_size = format_.block_size;
      source.block_table.SetGlobalBuffer(block_tables_ + int64_t{index} * format_.max_blocks);
    }
    return source;
  }

 private:
  GM_ADDR tensors_ = nullptr;
  __gm__ int32_t *block_tables_ = nullptr;
  KvFormat format_ = {};
  int32_t head_size_ = 0;
  int64_t token_stride_ = 0;
};

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_KV_SOURCE_H_
