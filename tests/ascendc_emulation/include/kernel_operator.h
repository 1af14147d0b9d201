// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The part of the Ascend C device interface that the kernels of this package use, for the host
// emulation. A kernel source includes this name on the device and here.
#ifndef KERNEL_OPERATOR_H_
#define KERNEL_OPERATOR_H_

#include "ascendc/cube.h"
#include "ascendc/data_copy.h"
#include "ascendc/events.h"
#include "ascendc/resources.h"
#include "ascendc/system.h"
#include "ascendc/tensor.h"
#include "ascendc/vector.h"
#include "ascendc/vector_select.h"

#endif  // KERNEL_OPERATOR_H_
