// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// What the callbacks that MindSpore generates need of CANN's header of this name.

#ifndef TESTS_ASCEND_STUBS_INCLUDE_ACL_ACL_BASE_H_
#define TESTS_ASCEND_STUBS_INCLUDE_ACL_ACL_BASE_H_

#include <cstdint>

typedef int aclDataType;

#endif  // TESTS_ASCEND_STUBS_INCLUDE_ACL_ACL_BASE_H_
