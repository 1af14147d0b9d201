// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Flags and barriers: within a core (SetFlag, WaitFlag, PipeBarrier) and between cores
// (CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll).
#ifndef ASCENDC_EVENTS_H_
#define ASCENDC_EVENTS_H_

#include "ascendc/checked_field.h"
#include "ascendc/platform.h"

namespace AscendC {

constexpr ascendc_emulation::Pipe PipeOf(pipe_t pipe) {
  using ascendc_emulation::Pipe;
  switch (pipe) {
    case PIPE_S:
      return Pipe::kS;
    case PIPE_V:
      return Pipe::kV;
    case PIPE_M:
      return Pipe::kM;
    case PIPE_MTE1:
      return Pipe::kMte1;
    case PIPE_MTE2:
      return Pipe::kMte2;
    case PIPE_MTE3:
      return Pipe::kMte3;
    case PIPE_FIX:
      return Pipe::kFix;
    default:
      return Pipe::kNumPipes;
  }
}

namespace event_detail {
struct EventPipes {
  ascendc_emulation::Pipe source;
  ascendc_emulation::Pipe target;
};
using P = ascendc_emulation::Pipe;
// In the order of HardEvent.
constexpr EventPipes kEventPipes[] = {
    {P::kMte2, P::kMte1}, {P::kMte1, P::kMte2}, {P::kMte1, P::kM},  {P::kM, P::kMte1},
    {P::kMte2, P::kV},    {P::kV, P::kMte2},    {P::kMte3, P::kV},  {P::kV, P::kMte3},
    {P::kM, P::kV},       {P::kV, P::kM},       {P::kV, P::kV},     {P::kMte3, P::kMte1},
    {P::kMte1, P::kMte3}, {P::kMte1, P::kV},    {P::kMte2, P::kM},  {P::kM, P::kMte2},
    {P::kV, P::kMte1},    {P::kM, P::kFix},     {P::kFix, P::kM},   {P::kMte3, P::kMte2},
    {P::kMte2, P::kMte3}, {P::kS, P::kV},       {P::kV, P::kS},     {P::kS, P::kMte2},
    {P::kMte2, P::kS},    {P::kS, P::kMte3},    {P::kMte3, P::kS},  {P::kMte2, P::kFix},
    {P::kFix, P::kMte2},  {P::kFix, P::kS},     {P::kM, P::kS},     {P::kFix, P::kMte3},
    {P::kMte1, P::kFix},  {P::kFix, P::kMte1},  {P::kFix, P::kFix},
};
static_assert(sizeof(kEventPipes) / sizeof(kEventPipes[0]) == static_cast<size_t>(HardEvent::MAX));
}  // namespace event_detail

constexpr ascendc_emulation::Pipe EventSource(HardEvent event) {
  return event_detail::kEventPipes[static_cast<size_t>(event)].source;
}
constexpr ascendc_emulation::Pipe EventTarget(HardEvent event) {
  return event_detail::kEventPipes[static_cast<size_t>(event)].target;
}

template <HardEvent event>
void SetFlag(int32_t event_id) {
  ascendc_emulation::SetEvent(EventSource(event), EventTarget(event), event_id);
}

template <HardEvent event>
void WaitFlag(int32_t event_id) {
  ascendc_emulation::WaitEvent(EventSource(event), EventTarget(event), event_id);
}

template <pipe_t pipe>
void PipeBarrier() {
  static_assert(pipe != PIPE_S,
                "the scalar pipe orders itself: PipeBarrier<PIPE_S> does not exist");
  if constexpr (pipe == PIPE_ALL) {
    ascendc_emulation::BarrierAll();
  } else {
    ascendc_emulation::Barrier(PipeOf(pipe));
  }
}

template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flag_id) {
  static_assert(mode <= 2, "this architecture has the modes 0, 1 and 2");
  static_assert(pipe != PIPE_S && pipe != PIPE_ALL,
                "CrossCoreSetFlag belongs to a pipe that moves or computes data");
  ascendc_emulation::CrossCoreSet(mode, PipeOf(pipe), flag_id);
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flag_id) {
  ascendc_emulation::CrossCoreWait(flag_id);
}

template <bool is_vector_only = true>
void SyncAll() {
  ascendc_emulation::SynchroniseAllCores(is_vector_only);
}

}  // namespace AscendC

#endif  // ASCENDC_EVENTS_H_
