// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The interface that CANN generates from aicore/prefix_encoder/op_host/prefix_encoder_def.cpp:
// inputs, attributes and outputs in the order of the definition.

#ifndef TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_PREFIX_ENCODER_H_
#define TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_PREFIX_ENCODER_H_

#include "aclnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnPrefixEncoderGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value,
    const aclTensor *blockTables, const aclTensor *maskOptional, const aclTensor *slopesOptional,
    const aclIntArray *seqLen, const aclIntArray *kvSeqLen, int64_t maskType, int64_t headNum,
    int64_t kvHeadNum, double qkScale, const aclTensor *attnOut, const aclTensor *lseOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor);

#ifdef __cplusplus
}
#endif

#endif  // TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_PREFIX_ENCODER_H_
