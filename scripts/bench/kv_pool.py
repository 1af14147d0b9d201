# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and values that no cache holds: every call reads other parts of a pool of about 1 GB.

A decode step comes to a layer's keys after all other layers' keys went through the caches; calls
over the same few megabytes would measure the caches instead.
"""

import numpy as np

from bench.problems import BLOCK_SIZE
from bench.storage import empty, encode

# Different blocks in the pool; block i has the content of block i % NUM_PATTERNS.
NUM_PATTERNS = 16


class KvPool:
    """Blocks for one dtype, kv_head_num and head_size.

    Attributes:
        patterns: (key, value), each (NUM_PATTERNS, BLOCK_SIZE, kv_head_num, head_size), storage
            dtype: the content of the blocks.
        num_blocks: of the pool.
    """

    def __init__(self, problem, pool_bytes):
        self.form = _form(problem)
        self.pool_bytes = pool_bytes
        block_bytes = BLOCK_SIZE * problem.token_bytes
        self.num_blocks = max(-(-pool_bytes // block_bytes), problem.num_blocks)
        rng = np.random.default_rng(0)
        shape = (NUM_PATTERNS, BLOCK_SIZE, problem.kv_head_num, problem.head_size)
        self.patterns = tuple(
            encode(rng.standard_normal(shape, dtype=np.float32), problem.dtype) for _ in "kv"
        )
        self._order = rng.permutation(self.num_blocks).astype(np.int32)
        self._next = 0

    def fits(self, problem):
        """Whether the pool serves this problem, too."""
        return self.form == _form(problem) and problem.num_blocks <= self.num_blocks

    def fill(self):
        """(key, value) caches, each (num_blocks, BLOCK_SIZE, kv_head_num, head_size)."""
        caches = []
        for pattern in self.patterns:
            cache = empty((self.num_blocks, *pattern.shape[1:]), pattern.dtype)
            for begin in range(0, self.num_blocks, NUM_PATTERNS):
                rows = cache[begin : begin + NUM_PATTERNS]
                rows[:] = pattern[: len(rows)]
            caches.append(cache)
        return caches

    def take_blocks(self, count):
        """The next `count` block numbers, int32: in random order, none twice within a round."""
        if self._next + count > self.num_blocks:
            self._next = 0
        blocks = self._order[self._next : self._next + count]
        self._next += count
        return blocks

    def copies(self, problem):
        """How often the problem's keys and values fit into the pool."""
        return self.num_blocks // problem.num_blocks

    def gather(self, blocks, num_tokens):
        """(key, value) of a request's first tokens, each (num_tokens, kv_head_num, head_size)."""
        return tuple(
            p[np.asarray(blocks) % NUM_PATTERNS].reshape(-1, *p.shape[2:])[:num_tokens]
            for p in self.patterns
        )


class PagedStep:
    """Block numbers of one call.

    Attributes:
        share_blocks: (shared_blocks,) of the prefix. own_blocks: (batch, blocks_per_request).
    """

    def __init__(self, pool, problem):
        blocks = pool.take_blocks(problem.num_blocks)
        self._pool, self._problem = pool, problem
        self.share_blocks = blocks[: problem.shared_blocks].copy()
        self.own_blocks = blocks[problem.shared_blocks :].reshape(problem.batch, -1).copy()

    def keys_values(self, request):
        """What a request sees: key and value, (kv_len, kv_head_num, head_size), storage dtype."""
        p = self._problem
        share_len = p.prefix if p.is_decode else 0
        parts = (
            self._pool.gather(self.share_blocks, share_len),
            self._pool.gather(self.own_blocks[request], p.kv_len - share_len),
        )
        return tuple(np.concatenate(pair) for pair in zip(*parts, strict=True))


def _form(problem):
    return problem.dtype, problem.kv_head_num, problem.head_size
