// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Vector instructions on UB. Each has up to three forms: the first count elements; a number of
// repeats with a mask of the first elements of each repeat; the same with one bit per element.
// A repeat is eight 32-byte blocks (256 bytes of the wider operand type).
#ifndef ASCENDC_VECTOR_H_
#define ASCENDC_VECTOR_H_

#include "ascendc/parameters.h"
#include "ascendc/tensor.h"

namespace AscendC {

namespace vector_detail {

using ascendc_emulation::ScalarValue;
using ascendc_emulation::VectorMask;
using ascendc_emulation::VectorOp;
using ascendc_emulation::VectorOperand;

using RepeatTime = field::U8;

template <typename T>
VectorOperand Whole(const LocalTensor<T> &tensor) {
  return {tensor.Ref(), 1, 8};
}
template <typename T>
VectorOperand Strided(const LocalTensor<T> &tensor, int64_t block_stride, int64_t repeat_stride) {
  return {tensor.Ref(), block_stride, repeat_stride};
}

inline VectorMask Count(int64_t count) {
  if (count < 0) ascendc_emulation::FailFieldRange(count, 32, false);
  return {VectorMask::Kind::kCount, {static_cast<uint64_t>(count), 0}};
}
template <bool is_set_mask>
VectorMask Contiguous(uint64_t mask) {
  return {is_set_mask ? VectorMask::Kind::kContiguous : VectorMask::Kind::kRegister, {mask, 0}};
}
template <bool is_set_mask>
VectorMask Bits(const uint64_t mask[]) {
  return {is_set_mask ? VectorMask::Kind::kBits : VectorMask::Kind::kRegister,
          {is_set_mask ? mask[0] : 0, is_set_mask ? mask[1] : 0}};
}

template <typename T>
ScalarValue ToScalar(T value) {
  if constexpr (std::is_same_v<T, bfloat16_t>) {
    return {ToFloat(value), 0};
  } else if constexpr (std::is_integral_v<T>) {
    return {static_cast<double>(value), static_cast<int64_t>(value)};
  } else {
    return {static_cast<double>(static_cast<float>(value)), 0};
  }
}

}  // namespace vector_detail

// Keeps a scalar argument from taking part in the deduction of T.
template <typename T>
struct NonDeduced {
  using Type = T;
};

#define EMULATE_BINARY(Name, op)                                                                   \
  template <typename T, bool isSetMask = true>                                                     \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,     \
            const uint64_t mask[], vector_detail::RepeatTime repeat_time,                          \
            const BinaryRepeatParams &params) {                                                    \
    using namespace vector_detail;                                                                 \
    ascendc_emulation::VectorBinary(#Name, op,                                                     \
                                    Strided(dst, params.dstBlkStride, params.dstRepStride),        \
                                    Strided(src0, params.src0BlkStride, params.src0RepStride),     \
                                    Strided(src1, params.src1BlkStride, params.src1RepStride),     \
                                    Bits<isSetMask>(mask), repeat_time);                           \
  }                                                                                                \
  template <typename T, bool isSetMask = true>                                                     \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,     \
            uint64_t mask, vector_detail::RepeatTime repeat_time,                                  \
            const BinaryRepeatParams &params) {                                                    \
    using namespace vector_detail;                                                                 \
    ascendc_emulation::VectorBinary(#Name, op,                                                     \
                                    Strided(dst, params.dstBlkStride, params.dstRepStride),        \
                                    Strided(src0, params.src0BlkStride, params.src0RepStride),     \
                                    Strided(src1, params.src1BlkStride, params.src1RepStride),     \
                                    Contiguous<isSetMask>(mask), repeat_time);                     \
  }                                                                                                \
  template <typename T>                                                                            \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,     \
            const int32_t &count) {                                                                \
    using namespace vector_detail;                                                                 \
    ascendc_emulation::VectorBinary(#Name, op, Whole(dst), Whole(src0), Whole(src1), Count(count), \
                                    0);                                                            \
  }

EMULATE_BINARY(Add, vector_detail::VectorOp::kAdd)
EMULATE_BINARY(Sub, vector_detail::VectorOp::kSub)
EMULATE_BINARY(Mul, vector_detail::VectorOp::kMul)
EMULATE_BINARY(Div, vector_detail::VectorOp::kDiv)
EMULATE_BINARY(Max, vector_detail::VectorOp::kMax)
EMULATE_BINARY(Min, vector_detail::VectorOp::kMin)
EMULATE_BINARY(And, vector_detail::VectorOp::kAnd)
EMULATE_BINARY(Or, vector_detail::VectorOp::kOr)
EMULATE_BINARY(MulAddDst, vector_detail::VectorOp::kMulAddDst)
#undef EMULATE_BINARY

#define EMULATE_UNARY(Name, op)                                                                \
  template <typename T, bool isSetMask = true>                                                 \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint64_t mask[],       \
            vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {          \
    using namespace vector_detail;                                                             \
    ascendc_emulation::VectorUnary(#Name, op,                                                  \
                                   Strided(dst, params.dstBlkStride, params.dstRepStride),     \
                                   Strided(src, params.srcBlkStride, params.srcRepStride), {}, \
                                   Bits<isSetMask>(mask), repeat_time);                        \
  }                                                                                            \
  template <typename T, bool isSetMask = true>                                                 \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,               \
            vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {          \
    using namespace vector_detail;                                                             \
    ascendc_emulation::VectorUnary(#Name, op,                                                  \
                                   Strided(dst, params.dstBlkStride, params.dstRepStride),     \
                                   Strided(src, params.srcBlkStride, params.srcRepStride), {}, \
                                   Contiguous<isSetMask>(mask), repeat_time);                  \
  }                                                                                            \
  template <typename T>                                                                        \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count) {      \
    using namespace vector_detail;                                                             \
    ascendc_emulation::VectorUnary(#Name, op, Whole(dst), Whole(src), {}, Count(count), 0);    \
  }

EMULATE_UNARY(Exp, vector_detail::VectorOp::kExp)
EMULATE_UNARY(Ln, vector_detail::VectorOp::kLn)
EMULATE_UNARY(Abs, vector_detail::VectorOp::kAbs)
EMULATE_UNARY(Sqrt, vector_detail::VectorOp::kSqrt)
EMULATE_UNARY(Rsqrt, vector_detail::VectorOp::kRsqrt)
EMULATE_UNARY(Reciprocal, vector_detail::VectorOp::kReciprocal)
EMULATE_UNARY(Relu, vector_detail::VectorOp::kRelu)
EMULATE_UNARY(Not, vector_detail::VectorOp::kNot)
#undef EMULATE_UNARY

#define EMULATE_SCALAR(Name, op)                                                                \
  template <typename T, bool isSetMask = true>                                                  \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,                               \
            const typename NonDeduced<T>::Type &scalar, const uint64_t mask[],                  \
            vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {           \
    using namespace vector_detail;                                                              \
    ascendc_emulation::VectorUnary(#Name, op,                                                   \
                                   Strided(dst, params.dstBlkStride, params.dstRepStride),      \
                                   Strided(src, params.srcBlkStride, params.srcRepStride),      \
                                   ToScalar(scalar), Bits<isSetMask>(mask), repeat_time);       \
  }                                                                                             \
  template <typename T, bool isSetMask = true>                                                  \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,                               \
            const typename NonDeduced<T>::Type &scalar, uint64_t mask,                          \
            vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {           \
    using namespace vector_detail;                                                              \
    ascendc_emulation::VectorUnary(#Name, op,                                                   \
                                   Strided(dst, params.dstBlkStride, params.dstRepStride),      \
                                   Strided(src, params.srcBlkStride, params.srcRepStride),      \
                                   ToScalar(scalar), Contiguous<isSetMask>(mask), repeat_time); \
  }                                                                                             \
  template <typename T, bool isSetMask = true>                                                  \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,                               \
            const typename NonDeduced<T>::Type &scalar, const int32_t &count) {                 \
    using namespace vector_detail;                                                              \
    ascendc_emulation::VectorUnary(#Name, op, Whole(dst), Whole(src), ToScalar(scalar),         \
                                   Count(count), 0);                                            \
  }

EMULATE_SCALAR(Adds, vector_detail::VectorOp::kAdds)
EMULATE_SCALAR(Muls, vector_detail::VectorOp::kMuls)
EMULATE_SCALAR(Maxs, vector_detail::VectorOp::kMaxs)
EMULATE_SCALAR(Mins, vector_detail::VectorOp::kMins)
EMULATE_SCALAR(LeakyRelu, vector_detail::VectorOp::kLeakyRelu)
EMULATE_SCALAR(ShiftLeft, vector_detail::VectorOp::kShiftLeft)
EMULATE_SCALAR(ShiftRight, vector_detail::VectorOp::kShiftRight)
#undef EMULATE_SCALAR

// dst <- dst + src * scalar
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
          const typename NonDeduced<U>::Type &scalar, uint64_t mask,
          vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {
  using namespace vector_detail;
  ascendc_emulation::VectorUnary("Axpy", VectorOp::kAxpy,
                                 Strided(dst, params.dstBlkStride, params.dstRepStride),
                                 Strided(src, params.srcBlkStride, params.srcRepStride),
                                 ToScalar(scalar), Contiguous<isSetMask>(mask), repeat_time);
}
template <typename T, typename U>
void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
          const typename NonDeduced<U>::Type &scalar, const int32_t &count) {
  using namespace vector_detail;
  ascendc_emulation::VectorUnary("Axpy", VectorOp::kAxpy, Whole(dst), Whole(src), ToScalar(scalar),
                                 Count(count), 0);
}

// ---- moves and conversions inside UB ----
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
          vector_detail::RepeatTime repeat_time, const CopyRepeatParams &params) {
  using namespace vector_detail;
  ascendc_emulation::VectorUnary("Copy", VectorOp::kCopy,
                                 Strided(dst, params.dstStride, params.dstRepeatSize),
                                 Strided(src, params.srcStride, params.srcRepeatSize), {},
                                 Contiguous<isSetMask>(mask), repeat_time);
}
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint64_t mask[],
          vector_detail::RepeatTime repeat_time, const CopyRepeatParams &params) {
  using namespace vector_detail;
  ascendc_emulation::VectorUnary(
      "Copy", VectorOp::kCopy, Strided(dst, params.dstStride, params.dstRepeatSize),
      Strided(src, params.srcStride, params.srcRepeatSize), {}, Bits<isSetMask>(mask), repeat_time);
}

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, const RoundMode &round_mode,
          const uint64_t mask[], vector_detail::RepeatTime repeat_time,
          const UnaryRepeatParams &params) {
  using namespace vector_detail;
  ascendc_emulation::VectorCast(Strided(dst, params.dstBlkStride, params.dstRepStride),
                                Strided(src, params.srcBlkStride, params.srcRepStride),
                                static_cast<int>(round_mode), Bits<isSetMask>(mask), repeat_time);
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, const RoundMode &round_mode,
          uint64_t mask, vector_detail::RepeatTime repeat_time, const UnaryRepeatParams &params) {
  using namespace vector_detail;
  ascendc_emulation::VectorCast(Strided(dst, params.dstBlkStride, params.dstRepStride),
                                Strided(src, params.srcBlkStride, params.srcRepStride),
                                static_cast<int>(round_mode), Contiguous<isSetMask>(mask),
                                repeat_time);
}
template <typename T, typename U>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, const RoundMode &round_mode,
          const uint32_t count) {
  using namespace vector_detail;
  ascendc_emulation::VectorCast(Whole(dst), Whole(src), static_cast<int>(round_mode), Count(count),
                                0);
}

namespace vector_detail {
template <typename T>
uint64_t ValueBits(const T &value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
}  // namespace vector_detail

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T> &dst, const typename NonDeduced<T>::Type &value, uint64_t mask,
               vector_detail::RepeatTime repeat_time, field::U16 block_stride,
               field::U8 repeat_stride) {
  using namespace vector_detail;
  ascendc_emulation::VectorDuplicate(Strided(dst, block_stride, repeat_stride), ValueBits<T>(value),
                                     Contiguous<isSetMask>(mask), repeat_time);
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T> &dst, const typename NonDeduced<T>::Type &value,
               const uint64_t mask[], vector_detail::RepeatTime repeat_time,
               field::U16 block_stride, field::U8 repeat_stride) {
  using namespace vector_detail;
  ascendc_emulation::VectorDuplicate(Strided(dst, block_stride, repeat_stride), ValueBits<T>(value),
                                     Bits<isSetMask>(mask), repeat_time);
}
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const typename NonDeduced<T>::Type &value,
               const int32_t &count) {
  using namespace vector_detail;
  ascendc_emulation::VectorDuplicate(Whole(dst), ValueBits<T>(value), Count(count), 0);
}

// dst[i] <- first + i
template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const typename NonDeduced<T>::Type &first, uint32_t count) {
  using namespace vector_detail;
  ascendc_emulation::VectorCreateIndex(Whole(dst), ToScalar(first), Count(count), 0);
}

// Eight elements of src for each repeat, each spread over one 32-byte block of dst.
template <typename T>
void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &src,
          vector_detail::RepeatTime repeat_time, const BrcbRepeatParams &params) {
  ascendc_emulation::VectorBroadcastBlocks(
      vector_detail::Strided(dst, params.dstBlkStride, params.dstRepStride), src.Ref(),
      repeat_time);
}

// ---- mask state ----
inline void SetMaskNorm() { ascendc_emulation::SetMaskMode(false); }
inline void SetMaskCount() { ascendc_emulation::SetMaskMode(true); }
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(uint64_t mask_high, uint64_t mask_low) {
  ascendc_emulation::SetMaskRegister(mask_high, mask_low);
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t length) {
  if constexpr (mode == MaskMode::COUNTER) {
    ascendc_emulation::SetMaskRegister(0, static_cast<uint64_t>(length));
  } else {
    const auto bits = [](int32_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
    ascendc_emulation::SetMaskRegister(length > 64 ? bits(length - 64) : 0, bits(length));
  }
}
inline void ResetMask() { ascendc_emulation::SetMaskRegister(~uint64_t{0}, ~uint64_t{0}); }

}  // namespace AscendC

#endif  // ASCENDC_VECTOR_H_
