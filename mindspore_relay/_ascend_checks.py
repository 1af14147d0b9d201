# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the device operators that are checked before the call.

The device operator's plan checks shapes and lengths too, but MindSpore shows the user only that the
call failed, and contents of device memory are not checked there at all. Limits:
aicore/relay_attention/README.md and aicore/prefix_encoder/README.md, "Constraints".
"""

import numpy as np
from mindspore import dtype as mstype

from mindspore_relay.masks import (
    ALIBI_MASK_TYPES,
    MASK_128_COLUMNS,
    MaskType,
    check_alibi_mask,
    check_slopes,
)

DTYPES = (mstype.float16, mstype.bfloat16)

# Rows and columns of one matrix operand of the cube unit: head_size and block_size are multiples.
FRACTAL = 16
MAX_HEAD_SIZE = 256
MAX_BLOCK_SIZE = 512


def fail(op, rule):
    raise RuntimeError(f"{op}: on Ascend {rule}")


def head_size_of(op, dtype, query_shape, head_num, kv_head_num):
    """Checks dtype and heads. Returns head_size."""
    if dtype not in DTYPES:
        fail(op, f"query must be float16 or bfloat16, got {dtype}")
    for name, number in (("head_num", head_num), ("kv_head_num", kv_head_num)):
        if not isinstance(number, int):
            raise TypeError(f"{op}: {name} must be an int, got {type(number).__name__}")
    if head_num < 1 or kv_head_num < 0 or head_num % (kv_head_num or head_num):
        fail(
            op,
            "head_num must be a positive multiple of kv_head_num, "
            f"got head_num={head_num}, kv_head_num={kv_head_num}",
        )
    is_flat = len(query_shape) == 2 and query_shape[1] % head_num == 0
    if not is_flat and (len(query_shape) != 3 or query_shape[1] != head_num):
        fail(
            op,
            "query must have shape (rows, head_num * head_size) or (rows, head_num, head_size), "
            f"got {query_shape} with head_num={head_num}",
        )
    head_size = query_shape[1] // head_num if is_flat else query_shape[2]
    if head_size % FRACTAL or not 0 < head_size <= MAX_HEAD_SIZE:
        fail(
            op, f"head_size must be a multiple of {FRACTAL} up to {MAX_HEAD_SIZE}, got {head_size}"
        )
    return head_size


def check_kv(op, names, key, value, dtype, width):
    """key and value, (shape, dtype) each: of query's dtype, of one shape, `width` per token."""
    if key[0] != value[0]:
        fail(op, f"{names[0]} and {names[1]} must have one shape, got {key[0]} and {value[0]}")
    for name, (shape, its_dtype) in zip(names, (key, value), strict=True):
        if its_dtype != dtype:
            fail(op, f"{name} must have query's dtype {dtype}, got {its_dtype}")
        if len(shape) < 2 or width not in (shape[-1], shape[-1] * shape[-2]):
            fail(
                op,
                f"{name} must end in kv_head_num * head_size = {width} elements per token, in one "
                f"axis or two, got {shape}",
            )


def check_cache(op, name, shape):
    """Shape of a paged cache: rank and block_size."""
    if len(shape) not in (3, 4):
        fail(op, f"{name} must be a cache of rank 3 or 4, got {shape}")
    if shape[1] % FRACTAL or not 0 < shape[1] <= MAX_BLOCK_SIZE:
        fail(
            op,
            f"block_size must be a multiple of {FRACTAL} up to {MAX_BLOCK_SIZE}, "
            f"got {name} {shape}",
        )


def check_count(op, name, lengths, count):
    if len(lengths) != count:
        fail(op, f"{name} must have {count} values, got {len(lengths)}")


def relay_private_lengths(op, batch, seq_len, kv_seq_len, kv_share_map, kv_share_len):
    """Checks the lengths of relay_attention. Returns each request's number of private keys."""
    for name, lengths in (
        ("seq_len", seq_len),
        ("kv_seq_len", kv_seq_len),
        ("kv_share_map", kv_share_map),
    ):
        check_count(op, name, lengths, batch)
    for group, length in enumerate(kv_share_len):
        if length < 0:
            fail(op, f"kv_share_len[{group}] must not be negative, got {length}")
    private_lengths = []
    for request in range(batch):
        group = kv_share_map[request]
        if seq_len[request] != 1:
            fail(op, f"seq_len[{request}] must be 1 in a decode step, got {seq_len[request]}")
        if not -1 <= group < len(kv_share_len):
            fail(op, f"kv_share_map[{request}] must be in [-1, {len(kv_share_len)}), got {group}")
        shared = kv_share_len[group] if group >= 0 else 0
        private = kv_seq_len[request] - shared
        if private < 0:
            fail(
                op,
                f"kv_seq_len[{request}]={kv_seq_len[request]} is smaller than its shared prefix "
                f"kv_share_len[{group}]={shared}; kv_seq_len counts shared and private keys "
                "together",
            )
        private_lengths.append(private)
    return tuple(private_lengths)


def check_prefix_lengths(op, num_tokens, seq_len, kv_seq_len):
    check_count(op, "kv_seq_len", kv_seq_len, len(seq_len))
    for request, (new, all_keys) in enumerate(zip(seq_len, kv_seq_len, strict=True)):
        if not 0 <= new <= all_keys:
            fail(
                op,
                f"seq_len[{request}] must be in [0, kv_seq_len[{request}]={all_keys}], got {new}",
            )
    if sum(seq_len) != num_tokens:
        fail(op, f"the sum of seq_len must be query's rows {num_tokens}, got {sum(seq_len)}")


def check_table_shape(op, name, table, num_rows):
    """table: (shape, dtype) of a block table."""
    shape, dtype = table
    if dtype != mstype.int32 or len(shape) != 2 or shape[0] != num_rows:
        fail(op, f"{name} must be int32 with shape ({num_rows}, max_blocks), got {dtype} {shape}")


def check_blocks(op, name, table, num_keys, cache_shape):
    """Every entry that a length needs is a block of the cache. table: its content, on the host."""
    num_blocks, block_size = cache_shape[:2]
    for row, length in enumerate(num_keys):
        num_needed = -(-length // block_size)
        if num_needed > table.shape[1]:
            fail(
                op,
                f"{name} has {table.shape[1]} columns, but row {row} with {length} keys needs "
                f"{num_needed} blocks of {block_size}",
            )
        needed = table[row, :num_needed]
        for column in np.flatnonzero((needed < 0) | (needed >= num_blocks)):
            fail(op, f"{name}[{row}][{column}] must be in [0, {num_blocks}), got {needed[column]}")


def check_rows(op, name, shapes, num_sources, num_keys):
    """The tensors of a list, or the stacked tensor, have room for the keys of each source."""
    is_stacked = len(shapes) == 1 and len(shapes[0]) >= 3 and shapes[0][0] == num_sources
    rows = [shapes[0][1]] * num_sources if is_stacked else [shape[0] for shape in shapes]
    check_count(op, name, rows, num_sources)
    for source, (length, capacity) in enumerate(zip(num_keys, rows, strict=True)):
        if length > capacity:
            fail(op, f"{name}[{source}] needs {length} keys, but its tensor has {capacity} rows")


def check_mask_arguments(op, mask_type, mask, slopes, head_num, kv_seq_len):
    """Which of mask and slopes a mask type takes, and their form: (shape, dtype) or None each."""
    if mask_type == MaskType.CAUSAL:
        if mask is not None or slopes is not None:
            fail(op, "mask and slopes must be None with mask_type CAUSAL")
        return
    if mask_type not in ALIBI_MASK_TYPES:
        fail(op, f"mask_type must be CAUSAL or one of the ALiBi types, got {mask_type}")
    if mask is None:
        fail(op, f"mask must be a Tensor with mask_type {MaskType(mask_type).name}")
    is_finished = mask_type == MaskType.ALIBI_COMPRESS and len(mask[0]) == 3
    if is_finished != (slopes is None):
        fail(op, "slopes must be given with a mask of rank 2, and only then")
    longest = max(kv_seq_len, default=0)
    if is_finished and (
        mask[0][0] != head_num or mask[0][1] < longest or mask[0][2] != MASK_128_COLUMNS
    ):
        fail(
            op,
            f"mask of rank 3 must be (head_num={head_num}, at least the longest "
            f"kv_seq_len={longest}, {MASK_128_COLUMNS}), got {mask[0]}",
        )
    if slopes is not None and slopes[1] != mstype.float32:
        fail(op, f"slopes must be float32, got {slopes[1]}")


def check_mask_content(op, mask_type, mask, slopes, head_num):
    """A compressed mask and the signs of its slopes: the kernel does not read the one and trusts
    the other. NumPy arrays; slopes is None with a mask of rank 3, which is free data."""
    if slopes is None:
        return
    try:
        check_alibi_mask(mask, mask_type, op)
        check_slopes(slopes, mask_type, head_num, op)
    except ValueError as error:
        raise RuntimeError(str(error)) from None
