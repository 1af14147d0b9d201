# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that are larger than the memory of the machine: only pages that are touched exist."""

import math
import tempfile

import numpy as np


def sparse_array(shape, dtype):
    """An array of zeros, in a file without a name that is gone with the last view of the array."""
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        file.truncate(num_bytes)
        return np.memmap(file, dtype=dtype, shape=shape).view(np.ndarray)
