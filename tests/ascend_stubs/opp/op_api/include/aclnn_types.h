// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Types of the interface: opaque, as in CANN.

#ifndef TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_TYPES_H_
#define TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_TYPES_H_

#include <cstdint>

typedef int aclnnStatus;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclTensorList aclTensorList;

#endif  // TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_TYPES_H_
