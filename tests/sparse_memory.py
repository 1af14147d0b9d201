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


def in_large_caches(problem, num_elements):
    """The problem with its blocks at the end of caches of more than num_elements elements."""
    query, key, value, *rest = problem.args
    num_blocks = num_elements // key[0].size + len(key) + 1
    first_block = num_blocks - len(key)
    caches = []
    for cache in (key, value):
        caches.append(sparse_array((num_blocks, *cache.shape[1:]), cache.dtype))
        caches[-1][first_block:] = cache

    def moved(tables):
        return np.where(tables >= 0, tables + first_block, -1).astype(np.int32)

    names = ("block_tables", "share_block_tables")
    tables = {name: moved(problem.kwargs[name]) for name in names if name in problem.kwargs}
    if problem.operator == "prefix_encoder":
        rest[0] = moved(rest[0])
    return problem._replace(args=(query, *caches, *rest), kwargs={**problem.kwargs, **tables})
