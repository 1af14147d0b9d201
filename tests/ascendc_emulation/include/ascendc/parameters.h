// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Parameter structs of the data movement, cube and vector instructions: field names and order as
// documented for Atlas A2. Fields check that a value fits (checked_field.h).
#ifndef ASCENDC_PARAMETERS_H_
#define ASCENDC_PARAMETERS_H_

#include "ascendc/checked_field.h"
#include "ascendc/platform.h"

namespace AscendC {

namespace field {
using U8 = ascendc_emulation::CheckedField<uint8_t>;
using U16 = ascendc_emulation::CheckedField<uint16_t>;
using U32 = ascendc_emulation::CheckedField<uint32_t>;
}  // namespace field

// blockLen and the gaps in 32-byte units; a gap runs from the end of a block to the next begin.
struct DataCopyParams {
  DataCopyParams() : srcStride(0), dstStride(0) {}
  DataCopyParams(field::U16 count, field::U16 length, field::U16 source_gap, field::U16 target_gap)
      : blockCount(count), blockLen(length), srcStride(source_gap), dstStride(target_gap) {}

  field::U16 blockCount = 1;
  field::U16 blockLen = 0;
  union {
    field::U16 srcGap;
    field::U16 srcStride;
  };
  union {
    field::U16 dstGap;
    field::U16 dstStride;
  };
};

// blockLen in bytes; a stride counts bytes on the GM side and 32-byte units on the local side.
struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(field::U16 count, field::U32 length, field::U32 source_stride,
                    field::U32 target_stride, field::U32 reserved)
      : blockCount(count),
        blockLen(length),
        srcStride(source_stride),
        dstStride(target_stride),
        rsv(reserved) {}

  field::U16 blockCount = 1;
  field::U32 blockLen = 0;
  field::U32 srcStride = 0;
  field::U32 dstStride = 0;
  field::U32 rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool is_pad, field::U8 left, field::U8 right, T value)
      : isPad(is_pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

  bool isPad = false;
  field::U8 leftPadding = 0;
  field::U8 rightPadding = 0;
  T paddingValue{};
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(field::U16 nd_num, field::U16 n_value, field::U16 d_value,
              field::U16 source_matrix_stride, field::U16 source_d_value,
              field::U16 target_c0_stride, field::U16 target_n_stride,
              field::U16 target_matrix_stride)
      : ndNum(nd_num),
        nValue(n_value),
        dValue(d_value),
        srcNdMatrixStride(source_matrix_stride),
        srcDValue(source_d_value),
        dstNzC0Stride(target_c0_stride),
        dstNzNStride(target_n_stride),
        dstNzMatrixStride(target_matrix_stride) {}

  field::U16 ndNum = 0;
  field::U16 nValue = 0;
  field::U16 dValue = 0;
  field::U16 srcNdMatrixStride = 0;
  field::U16 srcDValue = 0;
  field::U16 dstNzC0Stride = 0;
  field::U16 dstNzNStride = 0;
  field::U16 dstNzMatrixStride = 0;
};

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(field::U16 start_index, field::U8 repeat_times, field::U16 source_stride,
                   field::U8 reserved, field::U16 target_gap, bool is_transposed,
                   field::U8 address_mode)
      : startIndex(start_index),
        dstGap(target_gap),
        srcStride(source_stride),
        ifTranspose(is_transposed),
        repeatTimes(repeat_times),
        sid(reserved),
        addrMode(address_mode) {}

  field::U16 startIndex = 0;
  field::U16 dstGap = 0;
  field::U16 srcStride = 0;
  bool ifTranspose = false;
  field::U8 repeatTimes = 0;
  field::U8 sid = 0;
  field::U8 addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(field::U16 start_index, field::U8 repeat_times,
                            field::U16 source_stride, field::U16 target_gap,
                            field::U16 target_fractal_gap, field::U8 address_mode = 0)
      : startIndex(start_index),
        repeatTimes(repeat_times),
        srcStride(source_stride),
        dstGap(target_gap),
        dstFracGap(target_fractal_gap),
        addrMode(address_mode) {}

  field::U16 startIndex = 0;
  field::U8 repeatTimes = 0;
  field::U16 srcStride = 0;
  field::U16 dstGap = 0;
  field::U16 dstFracGap = 0;
  field::U8 addrMode = 0;
};

struct MmadParams {
  MmadParams() = default;
  MmadParams(field::U16 m_in, field::U16 n_in, field::U16 k_in, field::U8 unit_flag,
             bool c_matrix_source, bool c_matrix_init_value)
      : m(m_in),
        n(n_in),
        k(k_in),
        unitFlag(unit_flag),
        cmatrixSource(c_matrix_source),
        cmatrixInitVal(c_matrix_init_value) {}

  field::U16 m = 0;
  field::U16 n = 0;
  field::U16 k = 0;
  bool isBias = false;
  int32_t fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  field::U8 unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;
  bool cmatrixInitVal = true;
};

template <typename T>
struct InitConstValueParams {
  InitConstValueParams() = default;
  InitConstValueParams(field::U16 repeat_times, field::U16 block_num, field::U16 target_gap,
                       T value)
      : repeatTimes(repeat_times), blockNum(block_num), dstGap(target_gap), initValue(value) {}

  field::U16 repeatTimes = 0;
  field::U16 blockNum = 0;
  field::U16 dstGap = 0;
  T initValue{};
};

struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  FixpipeParamsV220(field::U16 n_size, field::U16 m_size, field::U16 source_stride,
                    field::U32 target_stride, bool relu_enabled)
      : nSize(n_size),
        mSize(m_size),
        srcStride(source_stride),
        dstStride(target_stride),
        reluEn(relu_enabled) {}

  field::U16 nSize = 0;
  field::U16 mSize = 0;
  field::U16 srcStride = 0;
  field::U32 dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  field::U16 ndNum = 1;
  field::U16 srcNdStride = 0;
  field::U16 dstNdStride = 0;
  bool reluEn = false;
  field::U8 unitFlag = 0;
  bool isChannelSplit = false;
};

// Vector strides count 32-byte blocks.
struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(field::U16 target_block_stride, field::U16 source_block_stride,
                    field::U8 target_repeat_stride, field::U8 source_repeat_stride)
      : dstBlkStride(target_block_stride),
        srcBlkStride(source_block_stride),
        dstRepStride(target_repeat_stride),
        srcRepStride(source_repeat_stride) {}

  uint32_t blockNumber = 8;
  field::U16 dstBlkStride = DEFAULT_BLK_STRIDE;
  field::U16 srcBlkStride = DEFAULT_BLK_STRIDE;
  field::U8 dstRepStride = DEFAULT_REPEAT_STRIDE;
  field::U8 srcRepStride = DEFAULT_REPEAT_STRIDE;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(field::U8 target_block_stride, field::U8 left_block_stride,
                     field::U8 right_block_stride, field::U8 target_repeat_stride,
                     field::U8 left_repeat_stride, field::U8 right_repeat_stride)
      : dstBlkStride(target_block_stride),
        src0BlkStride(left_block_stride),
        src1BlkStride(right_block_stride),
        dstRepStride(target_repeat_stride),
        src0RepStride(left_repeat_stride),
        src1RepStride(right_repeat_stride) {}

  uint32_t blockNumber = 8;
  field::U8 dstBlkStride = DEFAULT_BLK_STRIDE;
  field::U8 src0BlkStride = DEFAULT_BLK_STRIDE;
  field::U8 src1BlkStride = DEFAULT_BLK_STRIDE;
  field::U8 dstRepStride = DEFAULT_REPEAT_STRIDE;
  field::U8 src0RepStride = DEFAULT_REPEAT_STRIDE;
  field::U8 src1RepStride = DEFAULT_REPEAT_STRIDE;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(field::U16 target_block_stride, field::U16 target_repeat_stride)
      : dstRepStride(target_repeat_stride), dstBlkStride(target_block_stride) {}

  field::U16 dstRepStride = DEFAULT_REPEAT_STRIDE;
  field::U16 dstBlkStride = DEFAULT_BLK_STRIDE;
};

struct CopyRepeatParams {
  CopyRepeatParams() = default;
  CopyRepeatParams(field::U16 target_stride, field::U16 source_stride,
                   field::U16 target_repeat_size, field::U16 source_repeat_size)
      : dstStride(target_stride),
        srcStride(source_stride),
        dstRepeatSize(target_repeat_size),
        srcRepeatSize(source_repeat_size) {}

  field::U16 dstStride = DEFAULT_BLK_STRIDE;
  field::U16 srcStride = DEFAULT_BLK_STRIDE;
  field::U16 dstRepeatSize = DEFAULT_REPEAT_STRIDE;
  field::U16 srcRepeatSize = DEFAULT_REPEAT_STRIDE;
};

}  // namespace AscendC

#endif  // ASCENDC_PARAMETERS_H_
