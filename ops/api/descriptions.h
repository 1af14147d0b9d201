// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Reads the structs of the public header. Their content is the caller's: nothing is trusted.
#ifndef MINDSPORE_RELAY_API_DESCRIPTIONS_H_
#define MINDSPORE_RELAY_API_DESCRIPTIONS_H_

#include <vector>

#include "common/status.h"
#include "common/tensor_view.h"
#include "mindspore_relay/mindspore_relay.h"

namespace mindspore_relay {

// How the structs grow. Each begins with struct_bytes, its size for the compiler of the caller.
//   caller older than the library: fields that it does not know are at their default
//   caller newer than the library: bytes that the library does not know must be 0 (their default).
//     To ignore what they ask for would give another result in silence.

// *kept <- the known part of given, with struct_bytes of this library.
Status KeepOptions(const char *op, const MsRelayOptions &given, MsRelayOptions *kept);

Status KeepTensor(const char *op, const char *name, const MsRelayTensor &given,
                  MsRelayTensor *kept);

Status KeepTensorList(const char *op, const char *name, const MsRelayTensorList &given,
                      std::vector<MsRelayTensor> *kept);

// Checks the description (not the content) of a tensor. tensor may be nullptr: *view is absent
// then.
Status ToTensorView(const char *op, const char *name, const MsRelayTensor *tensor,
                    TensorView *view);

// Appends the list's tensors to *views. list may be nullptr: none.
Status AppendTensorViews(const char *op, const char *name, const MsRelayTensorList *list,
                         std::vector<TensorView> *views);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_API_DESCRIPTIONS_H_
