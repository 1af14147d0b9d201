// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The functions of the document "PrefixEncoder" of the Ascend Transformer Boost reference, on a
// host without CANN: a caller written to the document includes this header in place of CANN's,
// links with mindspore_relay, and runs on the CPU as it is. Also RelayAttentionParam, and a phase 1
// that takes it.
//
// Opt-in: nothing else of mindspore_relay includes this header, and it cannot be included together
// with the headers that it stands in for. All is inline over mindspore_relay.h, which documents
// arguments, lifetimes and threads; MsRelayLastError() has the text of a failure.
#ifndef MINDSPORE_RELAY_COMPAT_ATB_HPP_
#define MINDSPORE_RELAY_COMPAT_ATB_HPP_

#if defined(ATB_ACL_H) || defined(INC_EXTERNAL_ATB_TYPES_H) ||                         \
    defined(INC_EXTERNAL_ATB_CONTEXT_H) || defined(INC_EXTERNAL_ATB_OPERATION_H) ||    \
    defined(INC_EXTERNAL_ATB_INFEROPPARAM_H) || defined(INC_EXTERNAL_ATB_SVECTOR_H) || \
    defined(INC_EXTERNAL_ATB_UTILS_H)
#error \
    "mindspore_relay/compat stands in for the atb headers, which are included here: use one of them"
#endif

#include <cstdint>
#include <new>
#include <vector>

#include "mindspore_relay/compat/acl.hpp"
#include "mindspore_relay/mindspore_relay.h"

namespace atb {
// Callers see atb::Context; the linker sees another name than that of the real library.
inline namespace mindspore_relay_compat {

using Status = int32_t;

// Those of the real enum that are answered here.
enum ErrorType : int {
  NO_ERROR = 0,
  ERROR_INVALID_PARAM = 1,
  ERROR_INTERNAL_ERROR = 3,
  ERROR_INVALID_CONTEXT_ADDR = 20,
  ERROR_INVALID_OPERATION_ADDR = 24,
  ERROR_OUT_OF_HOST_MEMORY = 27
};

class Context {
 public:
  Context() = default;
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;
  ~Context() { MsRelayDestroyContext(handle_); }

  // Kept for GetExecuteStream only: calls are done when they return.
  Status SetExecuteStream(aclrtStream stream) {
    stream_ = stream;
    return NO_ERROR;
  }
  aclrtStream GetExecuteStream() const { return stream_; }

  // For MsRelay functions.
  MsRelayContext *handle() const { return handle_; }

 private:
  friend Status CreateContext(Context **context);

  MsRelayContext *handle_ = nullptr;
  aclrtStream stream_ = nullptr;
};

class Operation {
 public:
  Operation() = default;
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;
  ~Operation() { MsRelayDestroyOperation(handle); }

  MsRelayOperation *handle = nullptr;  // for MsRelay functions
};

inline Status ToStatus(MsRelayStatus status) {
  switch (status) {
    case MS_RELAY_OK:
      return NO_ERROR;
    case MS_RELAY_INVALID_ARGUMENT:
    case MS_RELAY_UNSUPPORTED:
      return ERROR_INVALID_PARAM;
    case MS_RELAY_OUT_OF_MEMORY:
      return ERROR_OUT_OF_HOST_MEMORY;
    case MS_RELAY_INTERNAL:
    case MS_RELAY_INTERRUPTED:
      break;
  }
  return ERROR_INTERNAL_ERROR;
}

inline Status CreateContext(Context **context) {
  if (context == nullptr) return ERROR_INVALID_CONTEXT_ADDR;
  Context *created = new (std::nothrow) Context;
  if (created == nullptr) return ERROR_OUT_OF_HOST_MEMORY;
  const Status status = ToStatus(MsRelayCreateContext(&created->handle_));
  if (status != NO_ERROR) {
    delete created;
    return status;
  }
  *context = created;
  return NO_ERROR;
}

inline Status DestroyContext(Context *context) {
  delete context;
  return NO_ERROR;
}

inline Status DestroyOperation(Operation *operation) {
  delete operation;
  return NO_ERROR;
}

namespace infer {

// As in the document "RelayAttentionOperation".
struct RelayAttentionParam {
  int32_t headNum = 0;
  float qkScale = 1;
  int32_t kvHeadNum = 0;
  enum MaskType : int {
    MASK_TYPE_UNDEFINED = 0,
    MASK_TYPE_NORM,
  };
  MaskType maskType = MASK_TYPE_UNDEFINED;
};

}  // namespace infer
}  // namespace mindspore_relay_compat
}  // namespace atb

namespace mindspore_relay {
namespace compat {

inline const MsRelayTensor *TensorOf(const aclTensor *tensor) {
  return tensor == nullptr ? nullptr : &tensor->tensor;
}

inline MsRelayTensor *TensorOf(aclTensor *tensor) {
  return tensor == nullptr ? nullptr : &tensor->tensor;
}

// Phase 1 of either operator: plan(&handle) with the handle of *op. As MsRelay...GetWorkspaceSize,
// *op is created when it is nullptr, and stays so after a failure.
template <typename PlanFn>
atb::Status PlanOperation(atb::Operation **op, const atb::Context *context, PlanFn plan) {
  if (context == nullptr) return atb::ERROR_INVALID_CONTEXT_ADDR;
  if (op == nullptr) return atb::ERROR_INVALID_OPERATION_ADDR;
  atb::Operation *operation = *op != nullptr ? *op : new (std::nothrow) atb::Operation;
  if (operation == nullptr) return atb::ERROR_OUT_OF_HOST_MEMORY;
  const atb::Status status = atb::ToStatus(plan(&operation->handle));
  if (status == atb::NO_ERROR) {
    *op = operation;
  } else if (*op == nullptr) {
    delete operation;
  }
  return status;
}

// The tensor lists of RelayAttention. nullptr entries are errors that the library names.
class TensorList {
 public:
  explicit TensorList(const std::vector<const aclTensor *> &tensors) {
    for (const aclTensor *tensor : tensors) {
      tensors_.push_back(tensor == nullptr ? MsRelayTensor() : tensor->tensor);
    }
    list_.struct_bytes = sizeof(list_);
    list_.is_stacked = 0;
    list_.num_tensors = static_cast<int64_t>(tensors_.size());
    list_.tensors = tensors_.data();
  }
  TensorList(const TensorList &) = delete;
  TensorList &operator=(const TensorList &) = delete;

  const MsRelayTensorList *get() const { return &list_; }

 private:
  std::vector<MsRelayTensor> tensors_;
  MsRelayTensorList list_;
};

// Phase 1 of RelayAttention, with the document's parameters and inputs in its order; key, value:
// one tensor per request, keyShare, valueShare: one per group. The document has no C function for
// this operator; this one has the shape of PrefixEncoder's. Throws only std::bad_alloc.
inline atb::Status RelayAttentionGetWorkspaceSize(
    const atb::infer::RelayAttentionParam &param, const aclTensor *query,
    const std::vector<const aclTensor *> &key, const std::vector<const aclTensor *> &value,
    const std::vector<const aclTensor *> &keyShare,
    const std::vector<const aclTensor *> &valueShare, const aclTensor *attentionMask,
    const aclTensor *seqLen, const aclTensor *kvSeqLen, const aclTensor *kvShareMap,
    const aclTensor *kvShareLen, aclTensor *attnOut, uint64_t *workspaceSize, atb::Operation **op,
    atb::Context *context) {
  const TensorList keys(key), values(value), key_shares(keyShare), value_shares(valueShare);
  return PlanOperation(op, context, [&](MsRelayOperation **handle) {
    return MsRelayAttentionGetWorkspaceSize(
        TensorOf(query), keys.get(), values.get(), key_shares.get(), value_shares.get(),
        TensorOf(attentionMask), TensorOf(seqLen), TensorOf(kvSeqLen), TensorOf(kvShareMap),
        TensorOf(kvShareLen), param.maskType, param.headNum, param.kvHeadNum, param.qkScale,
        TensorOf(attnOut), workspaceSize, handle, context->handle());
  });
}

// Phase 2.
inline atb::Status RelayAttention(void *workspace, uint64_t workspaceSize, atb::Operation *op,
                                  atb::Context *context) {
  if (op == nullptr) return atb::ERROR_INVALID_OPERATION_ADDR;
  if (context == nullptr) return atb::ERROR_INVALID_CONTEXT_ADDR;
  return atb::ToStatus(MsRelayAttention(workspace, workspaceSize, op->handle, context->handle()));
}

}  // namespace compat
}  // namespace mindspore_relay

// ---- the document's functions ----

// maskType: the document's values, as MsRelayMaskType. (Some versions of the real library number
// the ALiBi masks one higher; a mask whose content belongs to another type is an error here.)
inline atb::Status AtbSelfAttentionPrefixEncoderGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value,
    const aclTensor *blockTables, const aclTensor *mask, const aclTensor *seqLen,
    const aclTensor *kvSeqLen, const aclTensor *slopes, int maskType, int32_t headNum,
    int32_t kvHeadNum, float qkScale, aclTensor *attnOut, uint64_t *workspaceSize,
    atb::Operation **op, atb::Context *context) {
  using mindspore_relay::compat::TensorOf;
  return mindspore_relay::compat::PlanOperation(op, context, [&](MsRelayOperation **handle) {
    return MsRelayPrefixEncoderGetWorkspaceSize(
        TensorOf(query), TensorOf(key), TensorOf(value), TensorOf(blockTables), TensorOf(mask),
        TensorOf(seqLen), TensorOf(kvSeqLen), TensorOf(slopes), maskType, headNum, kvHeadNum,
        qkScale, TensorOf(attnOut), workspaceSize, handle, context->handle());
  });
}

inline atb::Status AtbSelfAttentionPrefixEncoder(void *workspace, uint64_t workspaceSize,
                                                 atb::Operation *op, atb::Context *context) {
  if (op == nullptr) return atb::ERROR_INVALID_OPERATION_ADDR;
  if (context == nullptr) return atb::ERROR_INVALID_CONTEXT_ADDR;
  return atb::ToStatus(
      MsRelayPrefixEncoder(workspace, workspaceSize, op->handle, context->handle()));
}

#endif  // MINDSPORE_RELAY_COMPAT_ATB_HPP_
