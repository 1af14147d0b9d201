// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef ASCENDC_EMULATION_TESTS_TWO_FORM_KERNEL_H_
#define ASCENDC_EMULATION_TESTS_TWO_FORM_KERNEL_H_

struct TwoFormTiling {
  float factor;
};

#endif  // ASCENDC_EMULATION_TESTS_TWO_FORM_KERNEL_H_
