// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#error "an example of the operator project is in the package"
