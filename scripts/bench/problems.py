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
    return list(dict.fromkeys(_headline(dtype) + _growth(dtype) + _choices(dtype)))


# Prefix and private length of the steps that instruction sets are compared at.
ISA_SHAPES = ((512, 128), (512, 512), (2048, 128), (4096, 128))
ISA_BATCHES = (1, 8)
# Where choosing between relay and plain is hard; (head_num, kv_head_num, batch, prefix, private).
CHOICE_SHAPES = (
    (8, 1, 8, 4000, 128),
    (32, 8, 128, 128, 128),
    (32, 8, 2, 256, 64),
    (32, 8, 4, 256, 64),
)
# (batch, prefix, private) of the speed-up over plain, here and of MindSpore's own operators.
RELAY_GAIN = (64, 4096, 128)
COMPOSED_GAIN = (32, 2048, 128)
# Growth: batch, prefix and several private lengths; two prefixes, at all BATCHES, and the private
# length.
GROWTH_PRIVATE = (32, 2048, (128, 512, 1024, 2048))
GROWTH_BATCH = ((128, 4096), 128)


def _isas(dtype):
    return [_decode(dtype, b, *shape) for shape in ISA_SHAPES for b in ISA_BATCHES]


def _choices(dtype):
    return [
        _decode(dtype, batch, prefix, private, kv_head_num, head_num)
        for head_num, kv_head_num, batch, prefix, private in CHOICE_SHAPES
    ]


def _claims(dtype):
    """What the project claims beside the headline; bench/claims.py makes the table."""
    gains = [_decode(dtype, *RELAY_GAIN), _decode(dtype, *COMPOSED_GAIN)]
    growth = []
    if dtype == "bf16":
        batch, prefix, privates = GROWTH_PRIVATE
        growth = [_decode(dtype, batch, prefix, private) for private in privates]
        prefixes, private = GROWTH_BATCH
        growth += [_decode(dtype, b, prefix, private) for prefix in prefixes for b in BATCHES]
    return list(dict.fromkeys(_isas(dtype) + gains + growth + _choices(dtype)))


def _doubling(first, last):
    numbers = []
    while first <= last:
        numbers.append(first)
        first *= 2
    return numbers


PRESETS = {
    "quick": _quick,
    "headline": _headline,
    "claims": _claims,
    "growth": _growth,
    "full": _full,
}


@functools.cache
def preset(names, dtypes):
    """Problems of presets, in an order that seldom needs another cache: a new one costs seconds.

    Args:
        names: tuple of keys of PRESETS. dtypes: tuple of some of DTYPES.
    """
    problems = [p for dtype in dtypes for name in names for p in PRESETS[name](dtype)]
    problems = list(dict.fromkeys(problems))
    return sorted(problems, key=lambda p: (dtypes.index(p.dtype), p.kv_head_num))


def is_for_isas(problem, names):
    """Whether the presets compare instruction sets at this problem."""
    return "claims" in names and problem in _isas(problem.dtype)


def is_for_composed(problem, names):
    """Whether the presets need MindSpore's own operators at this problem, without --peers too."""
    return "claims" in names and problem == _decode("fp16", *COMPOSED_GAIN)
