# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The problems that are measured, as data."""

import dataclasses
import functools

DTYPES = ("bf16", "fp16", "fp32")
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

# Tokens per block of the paged cache.
BLOCK_SIZE = 128

DECODE = "relay_attention"
PREFILL = "prefix_encoder"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One step of one attention layer.

    relay_attention: `batch` requests of one token each, one group; every request sees the group's
    `prefix` keys and `private` keys of its own. q_len is 1.
    prefix_encoder: `batch` requests of `q_len` new tokens each after `prefix` cached ones, which
    are not shared; causal. private is 0.
    """

    operator: str
    dtype: str
    batch: int
    prefix: int
    private: int = 0
    q_len: int = 1
    head_num: int = 32
    kv_head_num: int = 8
    head_size: int = 128

    @property
    def is_decode(self):
        return self.operator == DECODE

    @property
    def num_tokens(self):
        """Rows of query."""
        return self.batch * self.q_len

    @property
    def heads_per_kv_head(self):
        return self.head_num // self.kv_head_num

    @property
    def kv_len(self):
        """Keys that a request sees, with its new tokens."""
        return self.prefix + (self.private if self.is_decode else self.q_len)

    @property
    def token_bytes(self):
        """Key and value of one token, all heads."""
        return 2 * self.kv_head_num * self.head_size * ELEMENT_BYTES[self.dtype]

    @property
    def shared_blocks(self):
        return _blocks(self.prefix) if self.is_decode else 0

    @property
    def blocks_per_request(self):
        """Blocks that only this request reads."""
        return _blocks(self.private if self.is_decode else self.kv_len)

    @property
    def num_blocks(self):
        return self.shared_blocks + self.batch * self.blocks_per_request

    def __str__(self):
        heads = f"heads {self.head_num}/{self.kv_head_num}"
        lengths = f"B{self.batch} S{self.prefix}"
        lengths += f"+{self.private}" if self.is_decode else f" q{self.q_len}"
        return f"{'decode' if self.is_decode else 'prefill'} {self.dtype} {lengths} {heads}"


def _blocks(num_tokens):
    return -(-num_tokens // BLOCK_SIZE)


BATCHES = (1, 8, 32, 64)
# (prefix, private, kv_head_num)
DECODE_SHAPES = (
    (512, 128, 8),
    (512, 512, 8),
    (2048, 128, 8),
    (2048, 512, 8),
    (4096, 128, 8),
    (4096, 512, 8),
    (2048, 128, 32),
    (4096, 128, 32),
)
# (batch, q_len, prefix)
PREFILL_SHAPES = (
    (1, 128, 1024),
    (1, 512, 1024),
    (1, 512, 2048),
    (1, 1024, 2048),
    (4, 128, 2048),
    (4, 512, 2048),
)


def _decode(dtype, batch, prefix, private, kv_head_num=8, head_num=32):
    return Problem(
        DECODE, dtype, batch, prefix, private, head_num=head_num, kv_head_num=kv_head_num
    )


def _prefill(dtype, batch, q_len, prefix):
    return Problem(PREFILL, dtype, batch, prefix, q_len=q_len)


def _quick(dtype):
    """Some seconds per dtype: is everything in place?"""
    return [
        _decode(dtype, 8, 512, 128),
        _decode(dtype, 32, 2048, 128),
        _prefill(dtype, 1, 128, 1024),
    ]


def _headline(dtype):
    """The 8 x 4 decode grid and the 6 prefill shapes."""
    return [_decode(dtype, b, *shape) for shape in DECODE_SHAPES for b in BATCHES] + [
        _prefill(dtype, *shape) for shape in PREFILL_SHAPES
    ]


def _growth(dtype):
    """How time grows with prefix, private length and batch; heads 32/8."""
    prefixes = [_decode(dtype, b, s, 128) for b in BATCHES for s in _doubling(128, 16384)]
    privates = [_decode(dtype, 32, 2048, s1) for s1 in _doubling(128, 2048)]
    batches = [_decode(dtype, b, s, 128) for s in (512, 4096) for b in _doubling(1, 128)]
    return list(dict.fromkeys(prefixes + privates + batches))


def _full(dtype):
    """Headline, growth, and the shapes where the automatic choice is hard."""
    choice = [
        _decode(dtype, 8, 4000, 128, kv_head_num=1, head_num=8),
        _decode(dtype, 128, 128, 128),
        *(_decode(dtype, b, 256, 64) for b in (2, 4)),
    ]
    return list(dict.fromkeys(_headline(dtype) + _growth(dtype) + choice))


def _doubling(first, last):
    numbers = []
    while first <= last:
        numbers.append(first)
        first *= 2
    return numbers


PRESETS = {"quick": _quick, "headline": _headline, "growth": _growth, "full": _full}


@functools.cache
def preset(name, dtypes):
    """Problems of a preset, in an order that seldom needs another cache: a new one costs seconds.

    Args:
        name: key of PRESETS. dtypes: tuple of some of DTYPES.
    """
    problems = [problem for dtype in dtypes for problem in PRESETS[name](dtype)]
    return sorted(problems, key=lambda p: (dtypes.index(p.dtype), p.kv_head_num))
