# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and values for libraries without a paged cache: one head after the other, contiguous.

    shared   (kv_head_num, prefix, head_size), each request's own (batch, kv_head_num, private, ...)
    joined   (batch, kv_head_num, kv_len, head_size): every request with a copy of the prefix

That is the order in which these libraries are fastest. Rows follow each other in memory as a page
of the pool after the other, so the content is that of the pool, whatever the order.
"""

import numpy as np

from bench.kv_pool import KvPool


class HeadMajorPool:
    """Flat memory of a KvPool, handed out piece by piece."""

    def __init__(self, problem, pool_bytes):
        self.pool = KvPool(problem, pool_bytes)
        self.key, self.value = (cache.reshape(-1) for cache in self.pool.fill())
        self._next = 0

    def fits(self, problem, num_rows):
        row = problem.head_size
        return self.pool.fits(problem) and num_rows * row <= self.key.size

    def copies(self, problem, num_rows):
        return max(1, self.key.size // (num_rows * problem.head_size))

    def take(self, shapes):
        """Next memory as pairs (key, value) of these shapes."""
        size = sum(int(np.prod(shape)) for shape in shapes)
        if self._next + size > self.key.size:
            self._next = 0
        pairs = []
        for shape in shapes:
            end = self._next + int(np.prod(shape))
            pairs.append(tuple(a[self._next : end].reshape(shape) for a in (self.key, self.value)))
            self._next = end
        return pairs


def kv_shapes(problem, is_joined):
    """Shapes of the parts that a call reads, and its rows of head_size elements."""
    p = problem
    if is_joined:
        shapes = [(p.batch, p.kv_head_num, p.kv_len, p.head_size)]
    else:
        own_len = p.kv_len - p.prefix
        own = (p.batch, p.kv_head_num, own_len, p.head_size)
        shapes = [(p.kv_head_num, p.prefix, p.head_size), own]
    return shapes, sum(int(np.prod(shape[:-1])) for shape in shapes)


def request_keys_values(pairs, request):
    """Key and value (kv_len, kv_head_num, head_size) of a request, from what `take` returned."""
    results = []
    for arrays in zip(*pairs, strict=True):
        parts = [a if a.ndim == 3 else a[request] for a in arrays]
        results.append(np.concatenate(parts, axis=1).transpose(1, 0, 2))
    return tuple(results)
