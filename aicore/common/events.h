// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Event and flag numbers of both kernels, in one place: an event is named by the hazard it guards.
// Ids are per pair of pipes; those of double-buffered data are the first id plus the slot.

#ifndef MINDSPORE_RELAY_AICORE_COMMON_EVENTS_H_
#define MINDSPORE_RELAY_AICORE_COMMON_EVENTS_H_

#include "kernel_operator.h"

namespace mindspore_relay::aicore {

using AscendC::HardEvent;

// Cube core, L1. K and the query share an event, V and the probabilities another: they are loaded
// in this order by one pipe, so the later load implies the earlier one.
constexpr int32_t kKeyEvent = 0;    // MTE2_MTE1: loaded; MTE1_MTE2: free
constexpr int32_t kValueEvent = 2;  // MTE2_MTE1: V and probabilities loaded; MTE1_MTE2: free
// Cube core, L0A and L0B (one event for the pair) and L0C.
constexpr int32_t kL0Event = 0;   // MTE1_M: loaded; M_MTE1: free
constexpr int32_t kL0CEvent = 0;  // M_FIX: computed; FIX_M: free

// Vector core, UB.
constexpr int32_t kScoresEvent = 0;   // MTE2_V: loaded; V_MTE2: free
constexpr int32_t kStepOutEvent = 2;  // MTE2_V: loaded; V_MTE2: free
constexpr int32_t kBiasEvent = 4;     // MTE2_V: loaded; V_MTE2: free
constexpr int32_t kHiddenEvent = 5;   // MTE2_V: loaded; V_MTE2: free; V_S: computed; S_V: read
constexpr int32_t kProbsEvent = 0;    // V_MTE3: computed; MTE3_V: free
constexpr int32_t kStage16Event = 2;  // V_MTE3: computed; MTE3_V: free
constexpr int32_t kStageEvent = 4;    // V_MTE3: computed; MTE3_V: free

// Flags between the cube core and its two vector cores (mode 2). Each is set at most kRingSlots
// times before it is waited for.
constexpr uint8_t kCubeVectorMode = 2;
constexpr uint16_t kScoresReady = 0;  // cube -> vector: scores of a step are in the ring
constexpr uint16_t kProbsReady = 1;   // vector -> cube: probabilities of a step are in the ring
constexpr uint16_t kStepOutReady =
    2;  // cube -> vector: probabilities . V of a step are in the ring

}  // namespace mindspore_relay::aicore

#endif  // MINDSPORE_RELAY_AICORE_COMMON_EVENTS_H_
