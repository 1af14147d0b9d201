// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Runs a plan. The same for both operators: what differs between them is the plan.
#ifndef MINDSPORE_RELAY_ATTENTION_ATTEND_H_
#define MINDSPORE_RELAY_ATTENTION_ATTEND_H_

#include "attention/plan.h"

namespace mindspore_relay {

// workspace: plan.workspace_bytes bytes, 64-byte aligned; content on entry does not matter.
// Allocates nothing.
void RunPlan(const Plan &plan, void *workspace);

}  // namespace mindspore_relay

#endif  // MINDSPORE_RELAY_ATTENTION_ATTEND_H_
