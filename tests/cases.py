# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Named problems as data, for both operators.

    problem = build(case, "bfloat16")
    output = reference.relay_attention(*problem.args, **problem.kwargs)

Inputs are NumPy arrays in the storage of `mindspore_relay.bfloat16`; case_inputs.py makes them.
To add a case, add a line to `_relay_cases` or `_prefix_cases`. Keep it small: every case runs in
every dtype, mode and instruction set.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from case_inputs import Problem, build, chunks_of

from mindspore_relay.masks import MaskType

__all__ = [
    "CASES",
    "DTYPES",
    "PREFIX_CASES",
    "RELAY_CASES",
    "PrefixCase",
    "Problem",
    "RelayCase",
    "build",
    "chunks_of",
]

DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class RelayCase:
    """A decode step. kv_seq_len is private_len plus the group's kv_share_len."""

    name: str
    private_len: tuple
    kv_share_map: tuple = ()  # empty: -1 for all
    kv_share_len: tuple = ()
    head_num: int = 4
    kv_head_num: int = 2
    head_size: int = 16
    value_head_size: int = 0  # 0: head_size
    form: str = "list"  # "list", "stacked" or "paged"
    has_own_share_caches: bool = False  # paged: the groups are not in the requests' caches
    block_size: int = 16
    table_padding: str = "-1"  # "-1", "int32_min" or "num_blocks"
    twins: tuple = ()  # paged: pairs (a, b); request b has the private blocks of request a
    is_query_flat: bool = True
    is_kv_flat: bool = False
    is_share_flat: bool = False
    scores: str = "normal"  # see _tokens in case_inputs.py
    qk_scale: float = 0.0  # 0: head_size ** -0.5
    operator: ClassVar[str] = "relay_attention"


@dataclass(frozen=True)
class PrefixCase:
    """A prefill of several requests over a paged cache."""

    name: str
    seq_len: tuple
    kv_seq_len: tuple
    mask_type: MaskType = MaskType.CAUSAL
    is_mask_3d: bool = False
    slopes_rows: tuple = ()  # (first, total): slopes are rows first.. of those of `total` heads
    head_num: int = 4
    kv_head_num: int = 2
    head_size: int = 16
    value_head_size: int = 0  # 0: head_size
    block_size: int = 16
    table_padding: str = "-1"
    num_common_blocks: int = 0  # leading blocks that are the same for all requests
    is_query_flat: bool = True
    is_kv_flat: bool = False
    scores: str = "normal"
    qk_scale: float = 0.0
    operator: ClassVar[str] = "prefix_encoder"


# One key or row, and one less than, exactly, and one more than the tiles that kernels use.
TAILS = (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
# The same for the pieces into which long key sequences are split.
SPLITS = (255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049)
BLOCK_SIZES = (1, 7, 16, 32, 48, 64, 96, 128, 160, 192, 256, 512)
# (head_num, kv_head_num): one head, ratios that are no power of two, all heads on one, many heads.
HEADS = (
    *((1, 1), (3, 1), (5, 1), (6, 1), (7, 1), (8, 1), (16, 1)),
    *((6, 2), (9, 3), (14, 2), (18, 2), (12, 12), (32, 8), (66, 11)),
)
# (head_size, value_head_size)
HEAD_SIZES = (
    *((d, d) for d in (8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 192, 256, 576)),
    *((192, 128), (64, 8), (8, 64), (576, 512)),
)
# (name, mask_type, is the mask 3-D)
MASKS = (
    ("causal", MaskType.CAUSAL, False),
    ("alibi", MaskType.ALIBI_COMPRESS, False),
    ("alibi_sqrt", MaskType.ALIBI_COMPRESS_SQRT, False),
    ("alibi_left_align", MaskType.ALIBI_COMPRESS_LEFT_ALIGN, False),
    ("alibi_128", MaskType.ALIBI_COMPRESS, True),
)


LONG_HEADS = {
    "head_num": 9,
    "kv_head_num": 1,
    "head_size": 560,
    "scores": "large",
    "qk_scale": 0.01,
}


def _relay_cases():
    """RelayCase(name, private_len, kv_share_map, kv_share_len, ...)."""
    # -- how many keys, how many rows
    for head_size in (16, 64, 128):
        size = {"head_size": head_size}
        yield RelayCase(f"private_tails_d{head_size}", TAILS, **size)
        yield RelayCase(f"share_tails_d{head_size}", (2,) * 13, tuple(range(13)), TAILS, **size)
    heads = {"head_num": 2, "kv_head_num": 1}
    yield RelayCase("private_splits", SPLITS, **heads)
    yield RelayCase("share_splits", (2,) * 12, tuple(range(12)), SPLITS, **heads)
    for rows in (2, *TAILS[1:]):  # one head: a group's rows are its members
        heads = {"head_num": 1, "kv_head_num": 1}
        lens = tuple(i % 3 for i in range(rows))
        yield RelayCase(f"group_of_{rows}_rows", lens, (0,) * rows, (21,), **heads)

    # -- which requests are in which group
    groups = _shuffled((0, 1, 2, 3) * 8 + (-1,) * 3)
    lens = tuple(1 + 5 * i % 37 for i in range(35))
    yield RelayCase("four_groups_interleaved", lens, groups, (40, 17, 64, 1))
    yield RelayCase("one_group_of_all", (5, 1, 30, 17), (0,) * 4, (50,))
    yield RelayCase("all_without_group", (5, 1, 30, 17), (-1,) * 4, (50, 3))
    yield RelayCase("no_groups", (5, 1, 30, 17))
    yield RelayCase("group_of_one", (5, 9, 2), (0, -1, 1), (33, 20))
    yield RelayCase("groups_without_members", (5, 9, 2), (3, 1, 3), (8, 33, 0, 20, 7))
    yield RelayCase("hits_and_misses", (5, 70, 2, 33), (-1, 0, -1, 0), (90,))
    yield RelayCase("batch_of_one", (7,), (0,), (20,))

    # -- nothing to read
    yield RelayCase("private_empty", (0, 4, 0, 0), (0, 0, 1, 0), (40, 3))
    yield RelayCase("share_empty", (3, 0, 8), (0, 0, -1), (0,))
    yield RelayCase("quarter_of_rows_empty", (0, 3, 17, 40) * 2, (0, 0, -1, 1) * 2, (0, 9))
    yield RelayCase("everything_empty", (0, 0, 0), (-1, 0, 0), (0,))
    yield RelayCase("everything_empty_no_groups", (0, 0, 0))
    for form in ("stacked", "paged"):
        yield RelayCase(f"empties_{form}", (0, 4, 0, 9, 0), (0, 0, 1, -1, -1), (40, 0), form=form)
        yield RelayCase(f"everything_empty_{form}", (0, 0), (-1, 0), (0,), form=form)

    # -- shapes
    for head_num, kv_head_num in HEADS:
        heads = {"head_num": head_num, "kv_head_num": kv_head_num}
        name = f"heads_{head_num}_{kv_head_num}"
        yield RelayCase(name, (5, 33, 0, 20), (0, 0, 1, -1), (35, 7), **heads)
    yield RelayCase("kv_head_num_0", (5, 33), (0, 0), (35,), head_num=3, kv_head_num=0)
    for head_size, value_head_size in HEAD_SIZES:
        sizes = {"head_size": head_size, "value_head_size": value_head_size}
        name = f"head_size_{head_size}_{value_head_size}"
        yield RelayCase(name, (5, 66, 20), (0, 0, -1), (35,), **sizes)
    layouts = (
        ("flat", {"is_kv_flat": True, "is_share_flat": True}),
        ("kv_flat", {"is_kv_flat": True}),
        ("share_flat", {"is_share_flat": True}),
        ("query_3d", {"is_query_flat": False}),
        ("no_groups", {}),
    )
    for form in ("list", "stacked", "paged"):
        for layout, flags in layouts:
            share = () if layout == "no_groups" else ((0, -1, 1, 0), (35, 70))
            own = form == "paged" and layout == "share_flat"
            flags = {**flags, "form": form, "has_own_share_caches": own}
            yield RelayCase(f"{form}_{layout}", (5, 33, 8, 20), *share, **flags)

    # -- the paged form
    for size in BLOCK_SIZES:
        lens = (max(size - 1, 0), size, size + 1, 2 * size + 1)
        share_lens = (size - 1, size, size + 1, 2 * size)
        paged = {"form": "paged", "block_size": size, "head_num": 2, "kv_head_num": 1}
        yield RelayCase(f"paged_block_{size}", lens, (0, 1, 2, 3), share_lens, **paged)
    for padding in ("int32_min", "num_blocks"):
        paged = {"form": "paged", "table_padding": padding}
        yield RelayCase(f"paged_padding_{padding}", (5, 0, 33), (0, 0, -1), (35,), **paged)
    paged = {"form": "paged", "has_own_share_caches": True}
    yield RelayCase("paged_own_share_caches", (5, 0, 33), (0, 1, -1), (35, 70), **paged)
    twins = {"form": "paged", "twins": ((0, 2), (1, 3))}
    yield RelayCase("paged_same_blocks", (20, 33, 20, 33), (0, 0, -1, 0), (35,), **twins)

    # -- scores
    for scores, qk_scale in (("equal", 0.0), ("outlier", 0.5), ("large", 1e-4), ("large", 0.25)):
        name = f"scores_{scores}" + (f"_scale_{qk_scale:g}" if qk_scale else "")
        extreme = {"scores": scores, "qk_scale": qk_scale, "head_size": 64}
        yield RelayCase(name, (5, 66, 20), (0, 0, -1), (35,), **extreme)
    yield RelayCase("head_size_560_scores_large", (1, 20), (0, -1), (35,), **LONG_HEADS)
    yield RelayCase("qk_scale_1", (5, 66, 20), (0, 0, -1), (35,), qk_scale=1.0)
    yield RelayCase("qk_scale_negative", (5, 66, 20), (0, 0, -1), (35,), qk_scale=-0.25)

    # -- large
    heads = {"head_num": 8, "kv_head_num": 1}
    yield RelayCase("batch_8_prefix_4000", (9,) * 8, (0,) * 8, (4000,), **heads)
    yield RelayCase("batch_128_prefix_128", (2,) * 128, (0,) * 128, (128,), **heads)
    yield RelayCase("batch_128_many_splits", (3,) * 127 + (2500,), **heads)
    long = {"form": "paged", "block_size": 256, "head_num": 2, "kv_head_num": 1}
    yield RelayCase("paged_block_256_keys_8192", (8192, 16384, 1), (-1, -1, 0), (8192,), **long)


def _prefix_cases():
    """PrefixCase(name, seq_len, kv_seq_len, ...)."""
    # -- how many rows, how many keys
    yield PrefixCase("rows_2_keys_5", (2,), (5,))
    yield PrefixCase("rows_172_keys_300", (172,), (300,), head_num=2, kv_head_num=1)
    yield PrefixCase("one_row", (1, 1, 1, 1), (1, 2, 100, 257))
    yield PrefixCase("no_prefix", (1, 5, 40), (1, 5, 40))
    yield PrefixCase("no_rows", (0, 3, 0), (0, 7, 20))
    yield PrefixCase("no_rows_at_all", (0, 0), (0, 9))
    yield PrefixCase("no_keys_at_all", (0, 0), (0, 0))
    yield PrefixCase("mixed_lengths", (3, 40, 1, 17), (90, 40, 65, 20))
    for head_size in (16, 64, 128):
        size = {"head_size": head_size, "head_num": 2, "kv_head_num": 1}
        yield PrefixCase(f"row_tails_d{head_size}", TAILS, tuple(n + 9 for n in TAILS), **size)
        yield PrefixCase(
            f"key_tails_d{head_size}", (1, 3) * 13, _both(n + 2 for n in TAILS), **size
        )
    heads = {"head_num": 2, "kv_head_num": 1}
    yield PrefixCase("key_splits", (1, 2) * 12, _both(SPLITS), **heads)

    # -- masks: both sides of the edges of the 256 x 256 mask and of its 128-key pieces
    for name, mask_type, is_mask_3d in MASKS:
        mask = {"mask_type": mask_type, "is_mask_3d": is_mask_3d}
        yield PrefixCase(f"{name}_short", (5, 1, 3), (5, 9, 40), **mask)
        lens = (127, 128, 129, 255, 256, 257, 511, 512, 513, 700)
        yield PrefixCase(f"{name}_edges", (3,) * 10, lens, **mask)
        yield PrefixCase(f"{name}_rows_140", (140, 33), (140, 290), head_size=64, **mask, **heads)
        for head_num in (12, 40, 66):
            many = {"head_num": head_num, "kv_head_num": 2}
            yield PrefixCase(f"{name}_heads_{head_num}", (4, 2), (4, 130), **many, **mask)
        if mask_type != MaskType.CAUSAL and not is_mask_3d:
            rows = {"head_num": 8, "slopes_rows": (8, 16)}
            yield PrefixCase(f"{name}_slopes_8_to_15_of_16", (4, 2), (4, 130), **rows, **mask)

    # -- shapes
    for head_num, kv_head_num in HEADS:
        heads = {"head_num": head_num, "kv_head_num": kv_head_num}
        yield PrefixCase(f"heads_{head_num}_{kv_head_num}", (5, 18), (40, 18), **heads)
    yield PrefixCase("kv_head_num_0", (5, 18), (40, 18), head_num=3, kv_head_num=0)
    for head_size, value_head_size in HEAD_SIZES:
        sizes = {"head_size": head_size, "value_head_size": value_head_size}
        name = f"head_size_{head_size}_{value_head_size}"
        yield PrefixCase(name, (5, 18), (70, 18), **sizes)
    for layout, flags in (
        ("query_3d", {"is_query_flat": False}),
        ("kv_flat", {"is_kv_flat": True}),
        ("query_3d_kv_flat", {"is_query_flat": False, "is_kv_flat": True}),
    ):
        yield PrefixCase(f"layout_{layout}", (5, 18), (40, 18), **flags)

    # -- blocks: the prefix ends just before, at, and just after the end of a block
    heads = {"head_num": 2, "kv_head_num": 1}
    for size in BLOCK_SIZES:
        prefix = (max(size - 1, 0), size, size + 1, 2 * size - 1, 2 * size)
        rows = (3, 1, 2, 1, 4)
        lens = tuple(p + r for p, r in zip(prefix, rows, strict=True))
        yield PrefixCase(f"block_{size}", rows, lens, block_size=size, **heads)
    for padding in ("int32_min", "num_blocks"):
        yield PrefixCase(f"padding_{padding}", (5, 18), (40, 18), table_padding=padding)
    yield PrefixCase("common_prefix_blocks", (5, 18, 1), (69, 70, 65), num_common_blocks=4)
    long = {"block_size": 256, "head_num": 2, "kv_head_num": 1}
    yield PrefixCase("block_256_keys_8192", (2, 1), (8192, 16384), **long)

    # -- scores
    for scores, qk_scale in (("equal", 0.0), ("outlier", 0.5), ("large", 1e-4), ("large", 0.25)):
        name = f"scores_{scores}" + (f"_scale_{qk_scale:g}" if qk_scale else "")
        extreme = {"scores": scores, "qk_scale": qk_scale, "head_size": 64}
        yield PrefixCase(name, (5, 18), (70, 18), **extreme)
    # lse of a single key is its score: one sum of 560 products (found by the fuzzer).
    yield PrefixCase("head_size_560_scores_large", (1, 1, 5), (1, 1, 9), **LONG_HEADS)
    yield PrefixCase("qk_scale_1", (5, 18), (70, 18), qk_scale=1.0)


def _shuffled(groups):
    return tuple(int(group) for group in np.random.default_rng(0).permutation(groups))


def _both(lengths):
    """Each length twice in a row."""
    return tuple(n for length in lengths for n in (length, length))


RELAY_CASES = tuple(_relay_cases())
PREFIX_CASES = tuple(_prefix_cases())
CASES = RELAY_CASES + PREFIX_CASES
