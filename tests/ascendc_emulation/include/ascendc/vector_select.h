// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Comparison, selection, gathering and reduction.
#ifndef ASCENDC_VECTOR_SELECT_H_
#define ASCENDC_VECTOR_SELECT_H_

#include "ascendc/vector.h"

namespace AscendC {

// ---- comparison: one result bit for each element, lowest bit first ----
template <typename T, typename U>
void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
             CMPMODE mode, uint32_t count) {
  using namespace vector_detail;
  const VectorOperand right = Whole(src1);
  ascendc_emulation::VectorCompare("Compare", dst.Ref(), Whole(src0), &right, {},
                                   static_cast<int>(mode), Count(count), 0);
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
             CMPMODE mode, uint64_t mask, vector_detail::RepeatTime repeat_time,
             const BinaryRepeatParams &params) {
  using namespace vector_detail;
  const VectorOperand right = Strided(src1, params.src1BlkStride, params.src1RepStride);
  ascendc_emulation::VectorCompare(
      "Compare", dst.Ref(), Strided(src0, params.src0BlkStride, params.src0RepStride), &right, {},
      static_cast<int>(mode), Contiguous<isSetMask>(mask), repeat_time);
}
template <typename T, typename U>
void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src,
                   const typename NonDeduced<T>::Type scalar, CMPMODE mode, uint32_t count) {
  using namespace vector_detail;
  ascendc_emulation::VectorCompare("CompareScalar", dst.Ref(), Whole(src), nullptr,
                                   ToScalar(scalar), static_cast<int>(mode), Count(count), 0);
}
template <typename T, typename U>
void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src,
              const typename NonDeduced<T>::Type scalar, CMPMODE mode, uint32_t count) {
  CompareScalar(dst, src, scalar, mode, count);
}

// ---- selection: bit 1 takes src0, bit 0 takes src1 ----
template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &select_mask,
            const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE mode, uint32_t count) {
  using namespace vector_detail;
  const VectorOperand right = Whole(src1);
  ascendc_emulation::VectorSelect(Whole(dst), select_mask.Ref(), Whole(src0), &right, {},
                                  static_cast<int>(mode), Count(count), 0);
}
template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &select_mask,
            const LocalTensor<T> &src0, typename NonDeduced<T>::Type src1, SELMODE mode,
            uint32_t count) {
  using namespace vector_detail;
  ascendc_emulation::VectorSelect(Whole(dst), select_mask.Ref(), Whole(src0), nullptr,
                                  ToScalar(src1), static_cast<int>(mode), Count(count), 0);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &select_mask,
            const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE mode, uint64_t mask,
            vector_detail::RepeatTime repeat_time, const BinaryRepeatParams &params) {
  using namespace vector_detail;
  const VectorOperand right = Strided(src1, params.src1BlkStride, params.src1RepStride);
  ascendc_emulation::VectorSelect(
      Strided(dst, params.dstBlkStride, params.dstRepStride), select_mask.Ref(),
      Strided(src0, params.src0BlkStride, params.src0RepStride), &right, {}, static_cast<int>(mode),
      Contiguous<isSetMask>(mask), repeat_time);
}

// dst[i] <- the element at byte offset base + offsets[i] of src
template <typename T>
void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src,
            const LocalTensor<uint32_t> &offsets, const uint32_t base_offset_bytes,
            const uint32_t count) {
  ascendc_emulation::VectorGather(dst.Ref(), src.Ref(), offsets.Ref(), base_offset_bytes, count);
}

// ---- reduction of each repeat to one value. Strides of dst count results ----
namespace vector_detail {

inline VectorMask ReduceMask(int32_t mask, bool is_set_mask) {
  if (mask < 0) ascendc_emulation::FailFieldRange(mask, 32, false);
  const uint64_t count = static_cast<uint64_t>(mask);
  return is_set_mask ? Contiguous<true>(count) : Contiguous<false>(count);
}
inline VectorMask ReduceMask(const uint64_t mask[], bool is_set_mask) {
  return is_set_mask ? Bits<true>(mask) : Bits<false>(mask);
}

// Mask is int32_t or const uint64_t *.
template <typename T, typename Mask>
void ReduceRepeats(const char *name, ascendc_emulation::Reduction reduction, ReduceOrder order,
                   const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask mask,
                   bool is_set_mask, RepeatTime repeat_time, field::U16 target_stride,
                   field::U16 block_stride, field::U16 repeat_stride) {
  ascendc_emulation::VectorReduceRepeat(
      name, reduction, static_cast<ascendc_emulation::ReductionOrder>(order), dst.Ref(),
      target_stride, Strided(src, block_stride, repeat_stride), ReduceMask(mask, is_set_mask),
      repeat_time);
}

}  // namespace vector_detail

#define EMULATE_WHOLE_REDUCE(Name, reduction)                                                     \
  template <typename T, bool isSetMask = true>                                                    \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask,             \
            const int32_t repeat_time, const int32_t target_stride, const int32_t block_stride,   \
            const int32_t repeat_stride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {    \
    vector_detail::ReduceRepeats(#Name, reduction, order, dst, src, mask, isSetMask, repeat_time, \
                                 target_stride, block_stride, repeat_stride);                     \
  }                                                                                               \
  template <typename T, bool isSetMask = true>                                                    \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint64_t mask[],          \
            const int32_t repeat_time, const int32_t target_stride, const int32_t block_stride,   \
            const int32_t repeat_stride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {    \
    vector_detail::ReduceRepeats(#Name, reduction, order, dst, src, mask, isSetMask, repeat_time, \
                                 target_stride, block_stride, repeat_stride);                     \
  }

EMULATE_WHOLE_REDUCE(WholeReduceMax, ascendc_emulation::Reduction::kMax)
EMULATE_WHOLE_REDUCE(WholeReduceMin, ascendc_emulation::Reduction::kMin)
#undef EMULATE_WHOLE_REDUCE

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask,
                    const int32_t repeat_time, const int32_t target_stride,
                    const int32_t block_stride, const int32_t repeat_stride) {
  vector_detail::ReduceRepeats("WholeReduceSum", ascendc_emulation::Reduction::kSum,
                               ReduceOrder::ORDER_ONLY_VALUE, dst, src, mask, isSetMask,
                               repeat_time, target_stride, block_stride, repeat_stride);
}
template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint64_t mask[],
                    const int32_t repeat_time, const int32_t target_stride,
                    const int32_t block_stride, const int32_t repeat_stride) {
  vector_detail::ReduceRepeats("WholeReduceSum", ascendc_emulation::Reduction::kSum,
                               ReduceOrder::ORDER_ONLY_VALUE, dst, src, mask, isSetMask,
                               repeat_time, target_stride, block_stride, repeat_stride);
}

// The newer spelling of the three above.
template <ReduceType reduce_type, typename T, typename U, bool isSetMask = true, typename Mask>
void ReduceRepeat(const LocalTensor<T> &dst, const LocalTensor<U> &src, const Mask mask,
                  const int32_t repeat_time, const int32_t target_stride,
                  const int32_t block_stride, const int32_t repeat_stride,
                  ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  static_assert(std::is_same_v<T, U>, "this architecture reduces to the source's type");
  const ReduceOrder used = reduce_type == ReduceType::SUM ? ReduceOrder::ORDER_ONLY_VALUE : order;
  vector_detail::ReduceRepeats(
      "ReduceRepeat", static_cast<ascendc_emulation::Reduction>(reduce_type), used, dst, src, mask,
      isSetMask, repeat_time, target_stride, block_stride, repeat_stride);
}

// ---- reduction of each 32-byte block to one value; eight results for each repeat ----
#define EMULATE_BLOCK_REDUCE(Name, reduction)                                                \
  template <typename T, bool isSetMask = true>                                               \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeat_time, \
            const int32_t mask, const int32_t target_stride, const int32_t block_stride,     \
            const int32_t repeat_stride) {                                                   \
    using namespace vector_detail;                                                           \
    ascendc_emulation::VectorReduceBlock(                                                    \
        #Name, reduction, dst.Ref(), field::U16(target_stride),                              \
        Strided(src, field::U16(block_stride), field::U16(repeat_stride)),                   \
        ReduceMask(mask, isSetMask), RepeatTime(repeat_time));                               \
  }                                                                                          \
  template <typename T, bool isSetMask = true>                                               \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeat_time, \
            const uint64_t mask[], const int32_t target_stride, const int32_t block_stride,  \
            const int32_t repeat_stride) {                                                   \
    using namespace vector_detail;                                                           \
    ascendc_emulation::VectorReduceBlock(                                                    \
        #Name, reduction, dst.Ref(), field::U16(target_stride),                              \
        Strided(src, field::U16(block_stride), field::U16(repeat_stride)),                   \
        ReduceMask(mask, isSetMask), RepeatTime(repeat_time));                               \
  }

EMULATE_BLOCK_REDUCE(BlockReduceMax, ascendc_emulation::Reduction::kMax)
EMULATE_BLOCK_REDUCE(BlockReduceMin, ascendc_emulation::Reduction::kMin)
EMULATE_BLOCK_REDUCE(BlockReduceSum, ascendc_emulation::Reduction::kSum)
#undef EMULATE_BLOCK_REDUCE

// The newer spelling of the three above (mask before repeat_time).
template <ReduceType reduce_type, typename T, typename U, bool isSetMask = true, typename Mask>
void ReduceDataBlock(const LocalTensor<T> &dst, const LocalTensor<U> &src, const Mask mask,
                     const int32_t repeat_time, const int32_t target_stride,
                     const int32_t block_stride, const int32_t repeat_stride) {
  using namespace vector_detail;
  static_assert(std::is_same_v<T, U>, "this architecture reduces to the source's type");
  ascendc_emulation::VectorReduceBlock(
      "ReduceDataBlock", static_cast<ascendc_emulation::Reduction>(reduce_type), dst.Ref(),
      field::U16(target_stride), Strided(src, field::U16(block_stride), field::U16(repeat_stride)),
      ReduceMask(mask, isSetMask), RepeatTime(repeat_time));
}

}  // namespace AscendC

#endif  // ASCENDC_VECTOR_SELECT_H_
