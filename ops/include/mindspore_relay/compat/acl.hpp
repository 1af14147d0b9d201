// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Stand-ins, on a host without CANN, for what a caller of atb.hpp uses of CANN's acl headers:
// aclTensor, memory, streams. Device memory is host memory, and a stream has nothing to wait for,
// because every call here is done when it returns. Names and values are those of CANN.
//
// Functions have C++ linkage, so that they never meet the C functions of CANN's own libraries.
#ifndef MINDSPORE_RELAY_COMPAT_ACL_HPP_
#define MINDSPORE_RELAY_COMPAT_ACL_HPP_

#if defined(INC_EXTERNAL_ACL_ACL_H_) || defined(INC_EXTERNAL_ACL_ACL_BASE_H_) ||       \
    defined(INC_EXTERNAL_ACL_ACL_BASE_RT_H_) || defined(INC_EXTERNAL_ACL_ACL_RT_H_) || \
    defined(OP_API_ACL_OP_API_H) || defined(ACLNN_META)
#error \
    "mindspore_relay/compat stands in for CANN's headers, which are included here: use one of them"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "mindspore_relay/mindspore_relay.h"

// Included after this header, CANN's own headers fail: they define the same names.

enum aclDataType {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT32 = 3,
  ACL_UINT32 = 8,
  ACL_BF16 = 27
};

enum aclFormat { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_ND = 2 };

using aclError = int;
using aclnnStatus = int32_t;
using aclrtStream = void *;

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;

// ---- tensors ----

// Describes memory that it does not own.
struct aclTensor {
  MsRelayTensor tensor;
};

inline size_t aclDataTypeSize(aclDataType data_type) {
  switch (data_type) {
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_FLOAT16:
    case ACL_BF16:
      return 2;
    case ACL_DT_UNDEFINED:
      break;
  }
  return 0;
}

// stride: elements, nullptr for a contiguous tensor; offset: elements from tensor_data. The
// storage's own shape says nothing that the view does not. nullptr for a type that no operator here
// has, or more than MS_RELAY_MAX_RANK dimensions.
inline aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t view_dims_num,
                                  aclDataType data_type, const int64_t *stride, int64_t offset,
                                  aclFormat /*format*/, const int64_t * /*storage_dims*/,
                                  uint64_t /*storage_dims_num*/, void *tensor_data) {
  if (view_dims == nullptr || view_dims_num > MS_RELAY_MAX_RANK) return nullptr;
  MsRelayTensor tensor = {};
  tensor.struct_bytes = sizeof(tensor);
  switch (data_type) {
    case ACL_FLOAT:
      tensor.dtype = MS_RELAY_FLOAT32;
      break;
    case ACL_FLOAT16:
      tensor.dtype = MS_RELAY_FLOAT16;
      break;
    case ACL_BF16:
      tensor.dtype = MS_RELAY_BFLOAT16;
      break;
    case ACL_INT32:
      tensor.dtype = MS_RELAY_INT32;
      break;
    case ACL_UINT32:
      tensor.dtype = MS_RELAY_UINT32;
      break;
    case ACL_DT_UNDEFINED:
      return nullptr;
  }
  tensor.rank = static_cast<int32_t>(view_dims_num);
  int64_t contiguous_stride = 1;
  for (int32_t dim = tensor.rank - 1; dim >= 0; --dim) {
    tensor.shape[dim] = view_dims[dim];
    tensor.strides[dim] = stride != nullptr ? stride[dim] : contiguous_stride;
    contiguous_stride *= view_dims[dim];
  }
  if (tensor_data != nullptr) {
    tensor.data = static_cast<char *>(tensor_data) +
                  offset * static_cast<int64_t>(aclDataTypeSize(data_type));
  }
  aclTensor *created = new (std::nothrow) aclTensor;
  if (created != nullptr) created->tensor = tensor;
  return created;
}

inline aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
  delete tensor;
  return ACL_SUCCESS;
}

// ---- device, stream, memory ----

enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST,
  ACL_MEM_MALLOC_HUGE_ONLY,
  ACL_MEM_MALLOC_NORMAL_ONLY
};

enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE
};

inline aclError aclInit(const char * /*config_path*/) { return ACL_SUCCESS; }
inline aclError aclFinalize() { return ACL_SUCCESS; }
inline aclError aclrtSetDevice(int32_t /*device_id*/) { return ACL_SUCCESS; }
inline aclError aclrtResetDevice(int32_t /*device_id*/) { return ACL_SUCCESS; }

inline aclError aclrtCreateStream(aclrtStream *stream) {
  if (stream == nullptr) return ACL_ERROR_INVALID_PARAM;
  *stream = nullptr;
  return ACL_SUCCESS;
}
inline aclError aclrtDestroyStream(aclrtStream /*stream*/) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStream(aclrtStream /*stream*/) { return ACL_SUCCESS; }

// Aligned as a workspace must be.
inline aclError aclrtMalloc(void **dev_ptr, size_t size, aclrtMemMallocPolicy /*policy*/) {
  constexpr size_t kAlignBytes = 64;
  if (dev_ptr == nullptr || size == 0 || size > SIZE_MAX - kAlignBytes) {
    return ACL_ERROR_INVALID_PARAM;
  }
  void *data = nullptr;
  if (posix_memalign(&data, kAlignBytes, size) != 0) return ACL_ERROR_BAD_ALLOC;
  *dev_ptr = data;
  return ACL_SUCCESS;
}
inline aclError aclrtFree(void *dev_ptr) {
  std::free(dev_ptr);
  return ACL_SUCCESS;
}
inline aclError aclrtMallocHost(void **host_ptr, size_t size) {
  return aclrtMalloc(host_ptr, size, ACL_MEM_MALLOC_NORMAL_ONLY);
}
inline aclError aclrtFreeHost(void *host_ptr) { return aclrtFree(host_ptr); }

inline aclError aclrtMemcpy(void *dst, size_t dest_max, const void *src, size_t count,
                            aclrtMemcpyKind /*kind*/) {
  if (count > dest_max || (count > 0 && (dst == nullptr || src == nullptr))) {
    return ACL_ERROR_INVALID_PARAM;
  }
  if (count > 0) std::memcpy(dst, src, count);
  return ACL_SUCCESS;
}

#endif  // MINDSPORE_RELAY_COMPAT_ACL_HPP_
