// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Element-wise vector instructions. half is computed in float and rounded once, which for these
// operations is the same as one correctly rounded half operation.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ascendc/numeric_types.h"
#include "vector_plan.h"

namespace ascendc_emulation {

namespace {

// NaN in either operand gives NaN.
float MaxFloat(float a, float b) { return a > b || std::isnan(a) ? a : b; }
float MinFloat(float a, float b) { return a < b || std::isnan(a) ? a : b; }

// The operation is chosen outside of the loops, so that the simple ones vectorise.
void BinaryLoop(VectorOp op, const float *a, const float *b, float *out, int64_t count) {
  switch (op) {
    case VectorOp::kAdd:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
      break;
    case VectorOp::kSub:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] - b[i];
      break;
    case VectorOp::kMul:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
      break;
    case VectorOp::kDiv:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] / b[i];
      break;
    case VectorOp::kMax:
      for (int64_t i = 0; i < count; ++i) out[i] = MaxFloat(a[i], b[i]);
      break;
    case VectorOp::kMin:
      for (int64_t i = 0; i < count; ++i) out[i] = MinFloat(a[i], b[i]);
      break;
    case VectorOp::kMulAddDst:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i] + out[i];
      break;
    default:
      break;  // VectorBinary lets no other operation through.
  }
}

template <typename T>
T BinaryInteger(VectorOp op, T a, T b) {
  switch (op) {
    case VectorOp::kAdd:
      return static_cast<T>(static_cast<int64_t>(a) + b);
    case VectorOp::kSub:
      return static_cast<T>(static_cast<int64_t>(a) - b);
    case VectorOp::kMul:
      return static_cast<T>(static_cast<int64_t>(a) * b);
    case VectorOp::kMax:
      return std::max(a, b);
    case VectorOp::kMin:
      return std::min(a, b);
    case VectorOp::kAnd:
      return static_cast<T>(a & b);
    case VectorOp::kOr:
      return static_cast<T>(a | b);
    default:
      return a;  // VectorBinary lets no other operation through.
  }
}

void UnaryLoop(VectorOp op, const float *a, float scalar, float *out, int64_t count) {
  switch (op) {
    case VectorOp::kExp:
      for (int64_t i = 0; i < count; ++i) out[i] = std::exp(a[i]);
      break;
    case VectorOp::kLn:
      for (int64_t i = 0; i < count; ++i) out[i] = std::log(a[i]);
      break;
    case VectorOp::kAbs:
      for (int64_t i = 0; i < count; ++i) out[i] = std::fabs(a[i]);
      break;
    case VectorOp::kSqrt:
      for (int64_t i = 0; i < count; ++i) out[i] = std::sqrt(a[i]);
      break;
    case VectorOp::kRsqrt:
      for (int64_t i = 0; i < count; ++i) out[i] = 1.0f / std::sqrt(a[i]);
      break;
    case VectorOp::kReciprocal:
      for (int64_t i = 0; i < count; ++i) out[i] = 1.0f / a[i];
      break;
    case VectorOp::kRelu:
      for (int64_t i = 0; i < count; ++i) out[i] = MaxFloat(a[i], 0.0f);
      break;
    case VectorOp::kAdds:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] + scalar;
      break;
    case VectorOp::kMuls:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] * scalar;
      break;
    case VectorOp::kMaxs:
      for (int64_t i = 0; i < count; ++i) out[i] = MaxFloat(a[i], scalar);
      break;
    case VectorOp::kMins:
      for (int64_t i = 0; i < count; ++i) out[i] = MinFloat(a[i], scalar);
      break;
    case VectorOp::kLeakyRelu:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] >= 0.0f ? a[i] : a[i] * scalar;
      break;
    case VectorOp::kAxpy:
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] * scalar + out[i];
      break;
    default:
      break;  // VectorUnary lets no other operation through.
  }
}

template <typename T>
T UnaryInteger(VectorOp op, T a, int64_t scalar) {
  switch (op) {
    case VectorOp::kAdds:
      return static_cast<T>(a + scalar);
    case VectorOp::kMuls:
      return static_cast<T>(a * scalar);
    case VectorOp::kMaxs:
      return static_cast<T>(std::max<int64_t>(a, scalar));
    case VectorOp::kMins:
      return static_cast<T>(std::min<int64_t>(a, scalar));
    case VectorOp::kRelu:
      return std::max(a, static_cast<T>(0));
    case VectorOp::kNot:
      return static_cast<T>(~a);
    case VectorOp::kShiftLeft:
      return static_cast<T>(static_cast<uint64_t>(a) << scalar);
    case VectorOp::kShiftRight:
      return static_cast<T>(a >> scalar);
    default:
      return a;  // kCopy
  }
}

// A segment of half as float, and back.
class FloatView {
 public:
  FloatView(uint8_t *data, DType dtype, int64_t count) : data_(data), dtype_(dtype) {
    if (dtype == DType::kFloat) return;
    const auto *source = reinterpret_cast<const MayAlias<uint16_t>::Type *>(data);
    converted_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      converted_[static_cast<size_t>(i)] = HalfBitsToFloat(source[i]);
    }
  }
  // float data is used in place: UB holds it aligned.
  float *values() {
    return dtype_ == DType::kFloat ? reinterpret_cast<float *>(data_) : converted_.data();
  }
  void Store(bool is_saturating) {
    if (dtype_ == DType::kFloat) return;
    auto *target = reinterpret_cast<MayAlias<uint16_t>::Type *>(data_);
    for (size_t i = 0; i < converted_.size(); ++i) {
      const uint16_t bits = FloatToHalfBits(converted_[i]);
      target[i] = is_saturating ? SaturateHalf(bits) : bits;
    }
  }

 private:
  uint8_t *data_;
  DType dtype_;
  std::vector<float> converted_;
};

void CheckBinaryType(Instruction *instruction, VectorOp op, DType dtype) {
  switch (op) {
    case VectorOp::kDiv:
    case VectorOp::kMulAddDst:
      return CheckVectorType(instruction, dtype, {DType::kHalf, DType::kFloat});
    case VectorOp::kAnd:
    case VectorOp::kOr:
      return CheckVectorType(instruction, dtype, {DType::kInt16, DType::kUint16});
    default:
      return CheckVectorType(instruction, dtype,
                             {DType::kHalf, DType::kFloat, DType::kInt16, DType::kInt32});
  }
}

void CheckUnaryType(Instruction *instruction, VectorOp op, DType dtype) {
  switch (op) {
    case VectorOp::kAdds:
    case VectorOp::kMuls:
    case VectorOp::kMaxs:
    case VectorOp::kMins:
      return CheckVectorType(instruction, dtype,
                             {DType::kHalf, DType::kFloat, DType::kInt16, DType::kInt32});
    case VectorOp::kRelu:
      return CheckVectorType(instruction, dtype, {DType::kHalf, DType::kFloat, DType::kInt32});
    case VectorOp::kNot:
      return CheckVectorType(instruction, dtype, {DType::kInt16, DType::kUint16});
    case VectorOp::kShiftLeft:
    case VectorOp::kShiftRight:
      return CheckVectorType(instruction, dtype,
                             {DType::kInt16, DType::kUint16, DType::kInt32, DType::kUint32});
    case VectorOp::kCopy:
      return CheckVectorType(instruction, dtype,
                             {DType::kHalf, DType::kBFloat16, DType::kFloat, DType::kInt16,
                              DType::kUint16, DType::kInt32, DType::kUint32});
    default:
      return CheckVectorType(instruction, dtype, {DType::kHalf, DType::kFloat});
  }
}

template <typename T>
void BinaryIntegers(VectorOp op, const uint8_t *a, const uint8_t *b, uint8_t *out, int64_t count) {
  using Element = typename MayAlias<T>::Type;
  const auto *left = reinterpret_cast<const Element *>(a);
  const auto *right = reinterpret_cast<const Element *>(b);
  auto *target = reinterpret_cast<Element *>(out);
  for (int64_t i = 0; i < count; ++i) {
    target[i] = BinaryInteger<T>(op, left[i], right[i]);
  }
}

template <typename T>
void UnaryIntegers(VectorOp op, const uint8_t *a, int64_t scalar, uint8_t *out, int64_t count) {
  using Element = typename MayAlias<T>::Type;
  const auto *source = reinterpret_cast<const Element *>(a);
  auto *target = reinterpret_cast<Element *>(out);
  for (int64_t i = 0; i < count; ++i) target[i] = UnaryInteger<T>(op, source[i], scalar);
}

bool IsFloating(DType dtype) { return dtype == DType::kHalf || dtype == DType::kFloat; }

}  // namespace

void VectorBinary(const char *name, VectorOp op, const VectorOperand &target,
                  const VectorOperand &left, const VectorOperand &right, const VectorMask &mask,
                  int64_t repeat_times) {
  Instruction instruction(Pipe::kV, name);
  const DType dtype = target.ref.dtype;
  CheckBinaryType(&instruction, op, dtype);
  VectorPlan plan(&instruction, {target, left, right}, mask, repeat_times);
  plan.CheckOverlap();
  plan.Read(1);
  plan.Read(2);
  if (op == VectorOp::kMulAddDst) plan.Read(0);
  plan.Write(0);
  uint8_t *out = instruction.LocalData(target.ref);
  uint8_t *a = instruction.LocalData(left.ref);
  uint8_t *b = instruction.LocalData(right.ref);
  for (const VectorSegment &segment : plan.segments()) {
    uint8_t *out_at = out + segment.offsets[0];
    uint8_t *a_at = a + segment.offsets[1];
    uint8_t *b_at = b + segment.offsets[2];
    if (IsFloating(dtype)) {
      FloatView a_view(a_at, dtype, segment.count), b_view(b_at, dtype, segment.count);
      FloatView out_view(out_at, dtype, segment.count);
      BinaryLoop(op, a_view.values(), b_view.values(), out_view.values(), segment.count);
      out_view.Store(instruction.core().registers.is_saturating);
    } else if (dtype == DType::kInt32) {
      BinaryIntegers<int32_t>(op, a_at, b_at, out_at, segment.count);
    } else {
      BinaryIntegers<int16_t>(op, a_at, b_at, out_at, segment.count);
    }
  }
  instruction.Commit();
}

void VectorUnary(const char *name, VectorOp op, const VectorOperand &target,
                 const VectorOperand &source, ScalarValue value, const VectorMask &mask,
                 int64_t repeat_times) {
  Instruction instruction(Pipe::kV, name);
  const DType dtype = target.ref.dtype;
  CheckUnaryType(&instruction, op, dtype);
  const bool is_mixed =
      op == VectorOp::kAxpy && dtype == DType::kFloat && source.ref.dtype == DType::kHalf;
  if (source.ref.dtype != dtype && !is_mixed) {
    instruction.Fail("data type", "source %s, destination %s", DTypeName(source.ref.dtype),
                     DTypeName(dtype));
  }
  VectorPlan plan(&instruction, {target, source}, mask, repeat_times);
  plan.CheckOverlap();
  plan.Read(1);
  if (op == VectorOp::kAxpy) plan.Read(0);
  plan.Write(0);
  uint8_t *out = instruction.LocalData(target.ref);
  uint8_t *in = instruction.LocalData(source.ref);
  // The scalar has the operands' type.
  const float scalar = source.ref.dtype == DType::kHalf
                           ? HalfBitsToFloat(FloatToHalfBits(static_cast<float>(value.real)))
                           : static_cast<float>(value.real);
  for (const VectorSegment &segment : plan.segments()) {
    uint8_t *out_at = out + segment.offsets[0];
    uint8_t *in_at = in + segment.offsets[1];
    if (IsFloating(dtype) && op != VectorOp::kCopy) {
      FloatView in_view(in_at, source.ref.dtype, segment.count);
      FloatView out_view(out_at, dtype, segment.count);
      UnaryLoop(op, in_view.values(), scalar, out_view.values(), segment.count);
      out_view.Store(instruction.core().registers.is_saturating);
    } else if (DTypeBytes(dtype) == 4) {
      if (dtype == DType::kUint32) {
        UnaryIntegers<uint32_t>(op, in_at, value.integer, out_at, segment.count);
      } else {
        UnaryIntegers<int32_t>(op, in_at, value.integer, out_at, segment.count);
      }
    } else if (dtype == DType::kUint16) {
      UnaryIntegers<uint16_t>(op, in_at, value.integer, out_at, segment.count);
    } else {
      UnaryIntegers<int16_t>(op, in_at, value.integer, out_at, segment.count);
    }
  }
  instruction.Commit();
}

}  // namespace ascendc_emulation
