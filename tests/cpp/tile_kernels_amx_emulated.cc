// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// The AMX kernels, the same source, with the tile instructions in software: proves packing, tile
// shapes, strides and the softmax between the products on a CPU with AVX-512 but without AMX.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define MINDSPORE_RELAY_AMX_TILES "amx_tiles_emulated.inc"
#define MINDSPORE_RELAY_AMX_NAMESPACE amx_emulated
#include "cpu/tile_kernels_amx.cc"
