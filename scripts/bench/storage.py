# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Finite floats in the three dtypes as NumPy arrays; uint16 holds bfloat16 bit patterns.

The package has the same in bfloat16.py; the peers' processes run where it is not installed.
"""

import numpy as np

NUMPY_DTYPE = {"bf16": np.uint16, "fp16": np.float16, "fp32": np.float32}


_ALIGN_BYTES = 64


def empty(shape, dtype):
    """Like numpy.empty, at an address that is a multiple of 64, as frameworks allocate tensors.

    NumPy's own big arrays begin 16 bytes behind a page: each vector then lies in two cache lines.
    """
    num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(num_bytes + _ALIGN_BYTES, np.uint8)
    begin = -room.ctypes.data % _ALIGN_BYTES
    return room[begin : begin + num_bytes].view(dtype).reshape(shape)


def encode(values, dtype):
    """Rounds float32 to dtype, to nearest even."""
    if dtype != "bf16":
        return values.astype(NUMPY_DTYPE[dtype])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decode(array):
    """Values of a storage array, float64."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
