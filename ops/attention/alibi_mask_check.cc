// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Mask and slopes of PrefixEncoder. The [256, 256] masks have a fixed form, so their content tells
// their type: a caller with the numbers of another public header (one higher for the same masks)
// gets an error instead of another bias.
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>

#include "attention/attention_check.h"
#include "common/half.h"

namespace mindspore_relay {
namespace {

constexpr char kOp[] = "prefix_encoder";
constexpr int64_t kMaskSize = 256;      // rows and columns of the compressed masks
constexpr int64_t kTableColumns = 128;  // columns of the 3-D mask
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct MaskForm {
  MaskType mask_type;
  const char *name;
};
constexpr MaskForm kForms[] = {
    {MaskType::kAlibiCompress, "ALIBI_COMPRESS (3)"},
    {MaskType::kAlibiCompressSqrt, "ALIBI_COMPRESS_SQRT (4)"},
    {MaskType::kAlibiCompressLeftAlign, "ALIBI_COMPRESS_LEFT_ALIGN (5)"}};

const char *FormName(MaskType mask_type) {
  for (const MaskForm &form : kForms) {
    if (form.mask_type == mask_type) return form.name;
  }
  return "CAUSAL (9)";
}

float ExpectedEntry(MaskType mask_type, int64_t row, int64_t column) {
  const bool is_left_align = mask_type == MaskType::kAlibiCompressLeftAlign;
  if (column > row) return is_left_align ? -kInfinity : kInfinity;
  if (is_left_align) return static_cast<float>(column);
  const float distance = static_cast<float>(row - column);
  return mask_type == MaskType::kAlibiCompressSqrt ? std::sqrt(distance) : distance;
}

float EntryAt(const TensorView &mask, int64_t row, int64_t column) {
  const char *entry = mask.bytes() + (row * mask.strides[0] + column) * DTypeBytes(mask.dtype);
  switch (mask.dtype) {
    case DType::kFloat16:
      return ToFloat(*reinterpret_cast<const Float16 *>(entry));
    case DType::kBFloat16:
      return ToFloat(*reinterpret_cast<const BFloat16 *>(entry));
    default:
      return *reinterpret_cast<const float *>(entry);
  }
}

// One unit in the last place of the mask's dtype, relative: square roots are rounded, and by whom
// is not known.
float RelativeRounding(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 1.0f / 1024.0f;
    case DType::kBFloat16:
      return 1.0f / 128.0f;
    default:
      return 1.0f / 4194304.0f;
  }
}

bool IsEntry(float value, float expected, float relative_rounding) {
  if (std::isinf(expected)) return value == expected;
  return std::fabs(value - expected) <= expected * relative_rounding;  // NaN: false
}

// Whether the mask holds exactly the expected entries, rounded to nearest. By far the usual case,
// and told row by row with memcmp: 65,536 comparisons one by one took longer than many a prefill.
template <typename T>
bool HasExpectedBits(const TensorView &mask, MaskType mask_type) {
  // Row r of a mask of distances is a window of one row of twice the length:
  //   f(255) ... f(1) f(0) inf ... inf
  // Every row of the left-aligned mask is a part of 0 1 2 ... 255 and a part of -inf -inf ... -inf.
  T numbers[2 * kMaskSize];
  const bool is_left_align = mask_type == MaskType::kAlibiCompressLeftAlign;
  for (int64_t i = 0; i < kMaskSize; ++i) {
    const int64_t row = kMaskSize - 1;
    FromFloat(ExpectedEntry(mask_type, row, i), &numbers[i]);
    FromFloat(is_left_align ? -kInfinity : kInfinity, &numbers[kMaskSize + i]);
  }
  for (int64_t r = 0; r < kMaskSize; ++r) {
    const T *row = static_cast<const T *>(mask.data) + r * mask.strides[0];
    const int64_t num_visible = r + 1;
    const T *visible = is_left_align ? numbers : numbers + kMaskSize - num_visible;
    if (std::memcmp(row, visible, num_visible * sizeof(T)) != 0) return false;
    const int64_t num_hidden = kMaskSize - num_visible;
    if (std::memcmp(row + num_visible, numbers + kMaskSize, num_hidden * sizeof(T)) != 0) {
      return false;
    }
  }
  return true;
}

bool HasExpectedBits(const TensorView &mask, MaskType mask_type) {
  switch (mask.dtype) {
    case DType::kFloat16:
      return HasExpectedBits<Float16>(mask, mask_type);
    case DType::kBFloat16:
      return HasExpectedBits<BFloat16>(mask, mask_type);
    default:
      return HasExpectedBits<float>(mask, mask_type);
  }
}

// First entry that does not fit, in row order; false when all fit.
bool FindMismatch(const TensorView &mask, MaskType mask_type, int64_t *row, int64_t *column) {
  const float rounding =
      mask_type == MaskType::kAlibiCompressSqrt ? RelativeRounding(mask.dtype) : 0.0f;
  for (int64_t r = 0; r < kMaskSize; ++r) {
    for (int64_t c = 0; c < kMaskSize; ++c) {
      if (IsEntry(EntryAt(mask, r, c), ExpectedEntry(mask_type, r, c), rounding)) continue;
      *row = r;
      *column = c;
      return true;
    }
  }
  return false;
}

Status CheckMaskContent(const TensorView &mask, MaskType mask_type) {
  if (HasExpectedBits(mask, mask_type)) return OkStatus();
  int64_t row, column;
  if (!FindMismatch(mask, mask_type, &row, &column)) return OkStatus();
  for (const MaskForm &form : kForms) {
    int64_t other_row, other_column;
    if (form.mask_type == mask_type ||
        FindMismatch(mask, form.mask_type, &other_row, &other_column))
      continue;
    return InvalidArgument(
        "%s: mask must have the content of mask_type %s, got the content of %s (another public "
        "header "
        "numbers these masks one higher)",
        kOp, FormName(mask_type), form.name);
  }
  return InvalidArgument("%s: mask must have the content of mask_type %s, which is %g at [%" PRId64
                         "][%" PRId64 "], got %g",
                         kOp, FormName(mask_type),
                         static_cast<double>(ExpectedEntry(mask_type, row, column)), row, column,
                         static_cast<double>(EntryAt(mask, row, column)));
}

// Slopes of the wrong sign would turn the masked corner of these masks into +inf.
Status CheckSlopes(const PrefixEncoderArgs &args, MaskType mask_type) {
  const TensorView &slopes = args.slopes;
  if (!slopes.is_present()) {
    return InvalidArgument("%s: slopes is required with a [256, 256] mask, got none", kOp);
  }
  MS_RELAY_RETURN_IF_ERROR(CheckDType(kOp, "slopes", slopes, DType::kFloat32));
  if (slopes.rank != 1 || slopes.shape[0] != args.head_num) {
    return InvalidArgument("%s: slopes must be [head_num=%d], got shape %s", kOp, args.head_num,
                           ShapeText(slopes).text);
  }
  const bool must_be_positive = mask_type == MaskType::kAlibiCompressLeftAlign;
  for (int64_t h = 0; h < slopes.shape[0]; ++h) {
    const float slope = static_cast<const float *>(slopes.data)[h * slopes.strides[0]];
    if (std::isfinite(slope) && (must_be_positive ? slope >= 0.0f : slope <= 0.0f)) continue;
    return InvalidArgument(
        "%s: slopes must be finite and all %s for mask_type %s, got slopes[%" PRId64 "]=%g", kOp,
        must_be_positive ? ">= 0" : "<= 0", FormName(mask_type), h, static_cast<double>(slope));
  }
  return OkStatus();
}

Status CheckTable(const PrefixEncoderArgs &args, int64_t max_kv_seq_len, BiasParams *bias) {
  const TensorView &mask = args.mask;
  if (args.slopes.is_present()) {
    return InvalidArgument(
        "%s: slopes must be none with a 3-D mask, whose biases are finished, got shape %s", kOp,
        ShapeText(args.slopes).text);
  }
  if (mask.shape[0] != args.head_num || mask.shape[2] != kTableColumns ||
      mask.shape[1] < max_kv_seq_len) {
    return InvalidArgument("%s: a 3-D mask must be [head_num=%d, rows >= %" PRId64
                           " (the longest kv_seq_len), 128], got "
                           "shape %s",
                           kOp, args.head_num, max_kv_seq_len, ShapeText(mask).text);
  }
  const int64_t element_bytes = DTypeBytes(mask.dtype);
  bias->table = mask.bytes();
  bias->table_head_stride_bytes = mask.strides[0] * element_bytes;
  bias->table_row_stride_bytes = mask.strides[1] * element_bytes;
  return OkStatus();
}

}  // namespace

Status CheckAlibi(const PrefixEncoderArgs &args, int64_t max_kv_seq_len, BiasParams *bias) {
  const TensorView &mask = args.mask;
  if (bias->mask_type == MaskType::kCausal) {
    if (!mask.is_present() && !args.slopes.is_present()) return OkStatus();
    return InvalidArgument(
        "%s: mask and slopes must be none for mask_type CAUSAL (9), got %s of shape %s", kOp,
        mask.is_present() ? "mask" : "slopes",
        ShapeText(mask.is_present() ? mask : args.slopes).text);
  }
  if (!mask.is_present()) {
    return InvalidArgument("%s: mask is required for mask_type %s, got none", kOp,
                           FormName(bias->mask_type));
  }
  if (mask.dtype != args.query.dtype) {
    return InvalidArgument("%s: mask must have query's dtype %s, got %s", kOp,
                           DTypeName(args.query.dtype), DTypeName(mask.dtype));
  }
  if (mask.rank == 3 && bias->mask_type == MaskType::kAlibiCompress)
    return CheckTable(args, max_kv_seq_len, bias);
  if (mask.rank != 2 || mask.shape[0] != kMaskSize || mask.shape[1] != kMaskSize) {
    return InvalidArgument(
        "%s: mask must be [256, 256]%s for mask_type %s, got shape %s", kOp,
        bias->mask_type == MaskType::kAlibiCompress ? " or [head_num, rows, 128]" : "",
        FormName(bias->mask_type), ShapeText(mask).text);
  }
  MS_RELAY_RETURN_IF_ERROR(CheckMaskContent(mask, bias->mask_type));
  MS_RELAY_RETURN_IF_ERROR(CheckSlopes(args, bias->mask_type));
  bias->slopes = static_cast<const float *>(args.slopes.data);
  bias->slopes_stride = args.slopes.strides[0];
  return OkStatus();
}

}  // namespace mindspore_relay
