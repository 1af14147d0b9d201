// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "api/descriptions.h"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstring>

#include "attention/attention_check.h"
#include "common/int_math.h"

namespace mindspore_relay {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == MS_RELAY_FLOAT32);
static_assert(static_cast<int>(DType::kFloat16) == MS_RELAY_FLOAT16);
static_assert(static_cast<int>(DType::kBFloat16) == MS_RELAY_BFLOAT16);
static_assert(static_cast<int>(DType::kInt32) == MS_RELAY_INT32);
static_assert(static_cast<int>(DType::kUInt32) == MS_RELAY_UINT32);
static_assert(static_cast<int>(DType::kUInt8) == MS_RELAY_UINT8);
static_assert(kMaxRank == MS_RELAY_MAX_RANK);

// Layout of version 0.1, which every later version reads. The structs have the same size on all
// processors with 64-bit pointers.
static_assert(sizeof(MsRelayTensor) == 120 && offsetof(MsRelayTensor, data) == 16);
static_assert(sizeof(MsRelayTensorList) == 24);
// MsRelayOptions of the first version, before packed_share.
constexpr size_t kFirstOptionsBytes = 32;
static_assert(offsetof(MsRelayOptions, packed_share) == kFirstOptionsBytes);

// More than any struct will grow to. Above it, struct_bytes was not set, and the bytes behind the
// known part must not even be looked at.
constexpr uint32_t kMaxStructBytes = 4096;

// `data`: a struct of which this library knows known_bytes.
Status CheckStruct(const char *op, const char *name, const void *data, uint32_t struct_bytes,
                   size_t known_bytes) {
  if (struct_bytes < known_bytes || struct_bytes > kMaxStructBytes) {
    return InvalidArgument("%s: %s must have struct_bytes in [%zu, %u], got %u", op, name,
                           known_bytes, kMaxStructBytes, struct_bytes);
  }
  const char *bytes = static_cast<const char *>(data);
  const char *const end = bytes + struct_bytes;
  const char *const unknown =
      std::find_if(bytes + known_bytes, end, [](char byte) { return byte != 0; });
  if (unknown != end) {
    return Unsupported("%s: %s sets a field at byte %td, which this version does not know", op,
                       name, unknown - bytes);
  }
  return OkStatus();
}

Status CheckTensorStruct(const char *op, const char *name, const MsRelayTensor &tensor) {
  MS_RELAY_RETURN_IF_ERROR(
      CheckStruct(op, name, &tensor, tensor.struct_bytes, sizeof(MsRelayTensor)));
  if (tensor.reserved != 0) {
    return Unsupported("%s: %s must have reserved = 0, got %u", op, name, tensor.reserved);
  }
  return OkStatus();
}

// Extents of the tensor must fit 64 bits, so that no later sum of offsets can overflow.
Status CheckExtent(const char *op, const char *name, const TensorView &view,
                   int64_t *num_elements) {
  int64_t extent_bytes = 0;
  *num_elements = 1;
  for (int32_t i = 0; i < view.rank; ++i) {
    int64_t span = 0;
    const bool fits = view.shape[i] == 0 ||
                      (MultiplyFits(view.shape[i] - 1, view.strides[i], &span) &&
                       MultiplyFits(span, DTypeBytes(view.dtype), &span) && span > INT64_MIN &&
                       AddFits(extent_bytes, span < 0 ? -span : span, &extent_bytes));
    if (!fits || !MultiplyFits(*num_elements, view.shape[i], num_elements)) {
      return InvalidArgument("%s: %s must span less than 2^63 bytes, got shape %s", op, name,
                             ShapeText(view).text);
    }
  }
  return OkStatus();
}

Status CheckData(const char *op, const char *name, const TensorView &view) {
  int64_t num_elements = 0;
  MS_RELAY_RETURN_IF_ERROR(CheckExtent(op, name, view, &num_elements));
  if (view.data == nullptr && num_elements > 0) {
    return InvalidArgument("%s: %s must have data, got NULL for shape %s", op, name,
                           ShapeText(view).text);
  }
  const int32_t element_bytes = DTypeBytes(view.dtype);
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(element_bytes) != 0) {
    return InvalidArgument("%s: %s must be aligned to its elements of %d bytes, got address %p", op,
                           name, element_bytes, view.data);
  }
  return OkStatus();
}

// Checks the list and calls visit(tensor) -> Status for each of its tensors.
template <typename Visit>
Status ForEachTensor(const char *op, const char *name, const MsRelayTensorList &list,
                     Visit &&visit) {
  MS_RELAY_RETURN_IF_ERROR(
      CheckStruct(op, name, &list, list.struct_bytes, sizeof(MsRelayTensorList)));
  if (list.num_tensors < 0 || (list.num_tensors > 0 && list.tensors == nullptr)) {
    return InvalidArgument("%s: %s must have num_tensors >= 0 and tensors not NULL, got %" PRId64,
                           op, name, list.num_tensors);
  }
  if (list.num_tensors == 0) return OkStatus();
  // The array's elements are as large as the caller's MsRelayTensor.
  const uint32_t element_bytes = list.tensors->struct_bytes;
  const char *const elements = reinterpret_cast<const char *>(list.tensors);
  for (int64_t i = 0; i < list.num_tensors; ++i) {
    const auto *tensor = reinterpret_cast<const MsRelayTensor *>(elements + i * element_bytes);
    if (tensor->struct_bytes != element_bytes || element_bytes % alignof(MsRelayTensor) != 0) {
      return InvalidArgument(
          "%s: tensors of %s must have one struct_bytes, a multiple of %zu, got "
          "%u at 0 and %u at %" PRId64,
          op, name, alignof(MsRelayTensor), element_bytes, tensor->struct_bytes, i);
    }
    MS_RELAY_RETURN_IF_ERROR(visit(*tensor));
  }
  return OkStatus();
}

}  // namespace

Status KeepOptions(const char *op, const MsRelayOptions &given, MsRelayOptions *kept) {
  const bool is_first = given.struct_bytes < sizeof(MsRelayOptions);
  const size_t known_bytes = is_first ? kFirstOptionsBytes : sizeof(MsRelayOptions);
  MS_RELAY_RETURN_IF_ERROR(CheckStruct(op, "options", &given, given.struct_bytes, known_bytes));
  *kept = {};
  std::memcpy(kept, &given, known_bytes);
  kept->struct_bytes = sizeof(MsRelayOptions);
  return OkStatus();
}

Status KeepTensor(const char *op, const char *name, const MsRelayTensor &given,
                  MsRelayTensor *kept) {
  MS_RELAY_RETURN_IF_ERROR(CheckTensorStruct(op, name, given));
  *kept = given;
  kept->struct_bytes = sizeof(MsRelayTensor);
  return OkStatus();
}

Status ToTensorView(const char *op, const char *name, const MsRelayTensor *tensor,
                    TensorView *view) {
  *view = TensorView();
  if (tensor == nullptr) return OkStatus();
  MS_RELAY_RETURN_IF_ERROR(CheckTensorStruct(op, name, *tensor));
  view->dtype = static_cast<DType>(tensor->dtype);
  if (DTypeBytes(view->dtype) == 0) {
    return Unsupported("%s: %s must have a dtype of MsRelayDType, got %d", op, name, tensor->dtype);
  }
  if (tensor->rank < 1 || tensor->rank > kMaxRank) {
    return InvalidArgument("%s: %s must have 1 to %d dimensions, got %d", op, name, kMaxRank,
                           tensor->rank);
  }
  bool is_empty = false;
  for (int32_t i = 0; i < tensor->rank; ++i) {
    if (tensor->shape[i] < 0) {
      return InvalidArgument("%s: %s must have no negative dimension, got shape[%d]=%" PRId64, op,
                             name, i, tensor->shape[i]);
    }
    view->shape[i] = tensor->shape[i];
    is_empty = is_empty || tensor->shape[i] == 0;
  }
  for (int32_t i = 0; i < tensor->rank; ++i) {
    // Strides that are never used, of a dimension of one element or of a tensor without any:
    // frameworks put anything there.
    view->strides[i] = is_empty || tensor->shape[i] == 1 ? 1 : tensor->strides[i];
  }
  view->rank = tensor->rank;
  view->data = tensor->data;
  if (view->strides[view->rank - 1] != 1) {
    return InvalidArgument("%s: %s must have stride 1 in its last dimension, got %" PRId64, op,
                           name, view->strides[view->rank - 1]);
  }
  return CheckData(op, name, *view);
}

Status KeepTensorList(const char *op, const char *name, const MsRelayTensorList &given,
                      std::vector<MsRelayTensor> *kept) {
  kept->clear();
  return ForEachTensor(op, name, given, [&](const MsRelayTensor &tensor) {
    kept->emplace_back();
    return KeepTensor(op, name, tensor, &kept->back());
  });
}

Status AppendTensorViews(const char *op, const char *name, const MsRelayTensorList *list,
                         std::vector<TensorView> *views) {
  if (list == nullptr) return OkStatus();
  return ForEachTensor(op, name, *list, [&](const MsRelayTensor &tensor) {
    views->emplace_back();
    return ToTensorView(op, name, &tensor, &views->back());
  });
}

}  // namespace mindspore_relay
