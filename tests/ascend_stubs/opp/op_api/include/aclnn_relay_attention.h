// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The interface that CANN generates from aicore/relay_attention/op_host/relay_attention_def.cpp:
// inputs, attributes and outputs in the order of the definition.

#ifndef TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_RELAY_ATTENTION_H_
#define TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_RELAY_ATTENTION_H_

#include "aclnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnRelayAttentionGetWorkspaceSize(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
    const aclTensorList *keyShare, const aclTensorList *valueShare,
    const aclTensor *attentionMaskOptional, const aclTensor *blockTablesOptional,
    const aclTensor *shareBlockTablesOptional, const aclIntArray *seqLen,
    const aclIntArray *kvSeqLen, const aclIntArray *kvShareMapOptional,
    const aclIntArray *kvShareLenOptional, int64_t headNum, double qkScale, int64_t kvHeadNum,
    int64_t maskType, const aclTensor *attnOut, const aclTensor *lseOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor);

#ifdef __cplusplus
}
#endif

#endif  // TESTS_ASCEND_STUBS_OPP_OP_API_INCLUDE_ACLNN_RELAY_ATTENTION_H_
