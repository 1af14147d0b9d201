// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef MINDSPORE_RELAY_AICORE_COMMON_NUMBER_MODE_H_
#define MINDSPORE_RELAY_AICORE_COMMON_NUMBER_MODE_H_

#include "kernel_operator.h"

namespace mindspore_relay::aicore {

// Infinity and NaN come out of Mmad and of conversions to 16 bits as they are. The reset value of
// the processor's control bit (CTRL[48]) would make them the largest number and 0: a NaN in the
// inputs would look like a sound result. Before the first computation of a core.
__aicore__ inline void KeepInfinityAndNan() { AscendC::AscendCUtils::SetOverflow(1); }

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_NUMBER_MODE_H_
