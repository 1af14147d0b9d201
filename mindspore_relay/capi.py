# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators for NumPy arrays and everything that speaks DLPack, without MindSpore.

    import numpy as np
    from mindspore_relay import capi

    out, lse = capi.merge_attention_states(out_a, lse_a, out_b, lse_b)

Functions have the names, arguments and meaning of the MindSpore operators (operators.py). Arrays
are NumPy arrays, in which **uint16 holds bfloat16 bit patterns**, or other arrays in host memory
with `__dlpack__`, such as PyTorch's CPU tensors, bfloat16 included. None is copied: an array is
read and written where it lies, whatever its strides, as long as its last dimension has stride 1.

Results go into `out=` and `lse=` where these are given; otherwise into new NumPy arrays.

Two phases. `Operation` checks and plans once and runs many times over the same arrays, whose
content may change between runs; a function does both phases in one call.

Threads. All functions may be called from any number of threads at once; the interpreter lock is
released while the library works. A Context may be shared; an Operation belongs to one thread at a
time.

Signals. In the main thread, signals are handled while an attention operator works: Ctrl-C ends it
within a tenth of a second or so. The outputs are not complete then.

Errors, in all functions:
    TypeError: an argument is no array, or an array of a dtype that no argument has.
    ValueError: a rule of the operator is broken; nothing was written.
    NotImplementedError: legal, but not offered on this machine or by this version.
    MemoryError: no memory for the plan.
    BufferError: an array cannot be exported (a PyTorch tensor that requires grad).
"""

import ctypes

import numpy as np

from mindspore_relay._c_interface import BFLOAT16, DTYPE_NAMES, check, describe, functions
from mindspore_relay._operation import (
    INT32,
    Context,
    Operation,
    aligned_bytes,
    check_int,
    describe_lengths,
    run_once,
)
from mindspore_relay._packed_share import packed_share_bytes
from mindspore_relay.masks import MaskType

__all__ = [
    "Context",
    "Operation",
    "merge_attention_states",
    "pack_share",
    "prefix_encoder",
    "relay_attention",
    "reshape_and_cache",
]


# ---- the operators -------------------------------------------------------------------------------


def relay_attention(
    query,
    key,
    value,
    key_share,
    value_share,
    attention_mask,
    seq_len,
    kv_seq_len,
    kv_share_map,
    kv_share_len,
    *,
    head_num,
    kv_head_num=0,
    qk_scale=1.0,
    mask_type=MaskType.UNDEFINED,
    return_lse=False,
    block_tables=None,
    share_block_tables=None,
    packed_share=None,
    path="auto",
    out=None,
    lse=None,
    context=None,
):
    """One decode step in which the requests of a group read their shared prefix once.

    Meaning, shapes and forms (list, stacked, paged): `mindspore_relay.relay_attention`.

    Args:
        query: (batch, head_num * head_size) or (batch, head_num, head_size); float16, bfloat16 or
            float32.
        key, value: list of batch arrays (rows, kv_head_num, head_size) or (rows, kv_head_num *
            head_size); or one array (batch, rows, ...); or caches (num_blocks, block_size, ...)
            with `block_tables`.
        key_share, value_share: the same for the groups, with `share_block_tables`; None without
            groups or when their blocks are in the caches key and value.
        attention_mask: reserved, its content is ignored.
        seq_len, kv_seq_len, kv_share_map: (batch,), int32; kv_share_len: (num_groups,), int32.
            Also lists of ints, and NumPy arrays of other integer types. kv_seq_len counts shared
            and private keys together; kv_share_map is -1 for no group.
        head_num, kv_head_num, qk_scale, mask_type, block_tables, share_block_tables, path: see
            there.
        packed_share: list of one uint8 array for each group, made by `pack_share`; or None.
        return_lse: whether lse is returned; `lse` implies it.
        out: array that gets the output: query's shape with value's head size, dtype of query.
        lse: array that gets lse: (batch, head_num), float32.
        context: Context or None.

    Returns:
        out (a new NumPy array if it was None), or (out, lse).

    Example:
        >>> query = np.ones((2, 4 * 16), np.float16)
        >>> key = [np.ones((n, 2, 16), np.float16) for n in (3, 1)]
        >>> share = [np.ones((100, 2, 16), np.float16)]
        >>> relay_attention(query, key, key, share, share, None, [1, 1], [103, 101], [0, 0], [100],
        ...                 head_num=4, kv_head_num=2, qk_scale=0.25).shape
        (2, 64)
    """
    op = "relay_attention"
    if out is None:
        out = _new_output(op, query, _first(key), _first(value))
    if lse is None and return_lse:
        lse = _new_lse(op, query, head_num)
    run_once(
        context,
        lambda operation: operation.plan_relay_attention(
            query,
            key,
            value,
            key_share,
            value_share,
            attention_mask,
            seq_len,
            kv_seq_len,
            kv_share_map,
            kv_share_len,
            head_num=head_num,
            kv_head_num=kv_head_num,
            qk_scale=qk_scale,
            mask_type=mask_type,
            block_tables=block_tables,
            share_block_tables=share_block_tables,
            packed_share=packed_share,
            path=path,
            out=out,
            lse=lse,
        ),
    )
    return out if lse is None else (out, lse)


def prefix_encoder(
    query,
    key,
    value,
    block_tables,
    mask,
    seq_len,
    kv_seq_len,
    slopes,
    *,
    mask_type,
    head_num,
    kv_head_num=0,
    qk_scale=1.0,
    return_lse=False,
    out=None,
    lse=None,
    context=None,
):
    """Prefill attention over a paged cache that already holds a prefix, and the new tokens.

    Meaning, shapes and masks: `mindspore_relay.prefix_encoder`.

    Args:
        query: (num_tokens, head_num * head_size) or (num_tokens, head_num, head_size); float16,
            bfloat16 or float32.
        key, value: caches (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size).
        block_tables: (batch, max_blocks), int32.
        mask: dtype of query, or None. slopes: (head_num,), float32, or None.
        seq_len, kv_seq_len: (batch,), int32 or uint32; also lists of ints, and NumPy arrays of
            other integer types.
        mask_type, head_num, kv_head_num, qk_scale: see there.
        return_lse: whether lse is returned; `lse` implies it.
        out: array that gets the output: query's shape with value's head size, dtype of query.
        lse: array that gets lse: (num_tokens, head_num), float32.
        context: Context or None.

    Returns:
        out (a new NumPy array if it was None), or (out, lse).

    Example:
        >>> cache = np.ones((8, 16, 2 * 64), np.float16)  # 8 blocks of 16 tokens
        >>> query = np.ones((7, 4 * 64), np.float16)  # 3 + 4 new tokens, 4 heads
        >>> block_tables = np.array([[0, 1], [0, 2]], np.int32)  # both begin with block 0
        >>> prefix_encoder(query, cache, cache, block_tables, None, [3, 4], [19, 20], None,
        ...                mask_type=MaskType.CAUSAL, head_num=4, kv_head_num=2).shape
        (7, 256)
    """
    op = "prefix_encoder"
    if out is None:
        out = _new_output(op, query, key, value)
    if lse is None and return_lse:
        lse = _new_lse(op, query, head_num)
    run_once(
        context,
        lambda operation: operation.plan_prefix_encoder(
            query,
            key,
            value,
            block_tables,
            mask,
            seq_len,
            kv_seq_len,
            slopes,
            mask_type=mask_type,
            head_num=head_num,
            kv_head_num=kv_head_num,
            qk_scale=qk_scale,
            out=out,
            lse=lse,
        ),
    )
    return out if lse is None else (out, lse)


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, *, context=None):
    """Writes new keys and values into a paged cache, in place. Returns nothing.

    Args:
        key, value: (num_tokens, kv_head_num, head_size) or (num_tokens, kv_head_num * head_size);
            float16, bfloat16 or float32.
        key_cache, value_cache: (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size), any of the three dtypes. **Changed in place.**
        slot_mapping: (num_tokens,), int32, or a list of ints: block * block_size + offset; -1: the
            token is not written.
        context: Context or None.
    """
    op = "reshape_and_cache"
    tensors = (
        describe(op, "key", key),
        describe(op, "value", value),
        describe(op, "key_cache", key_cache, is_output=True),
        describe(op, "value_cache", value_cache, is_output=True),
        describe_lengths(op, "slot_mapping", slot_mapping, INT32),
    )
    _call(functions().MsRelayReshapeAndCache, tensors, context)


def pack_share(
    key_share,
    value_share,
    kv_share_len,
    *,
    kv_head_num,
    share_block_table=None,
    packed=None,
    context=None,
):
    """Packs the keys and values of a prefix once, for the `packed_share` of `relay_attention`.

    Meaning and what it gains: `mindspore_relay.pack_share`.

    Args:
        key_share, value_share: (rows, kv_head_num, head_size) or (rows, kv_head_num * head_size);
            or caches (num_blocks, block_size, ...) with `share_block_table`. float16, bfloat16 or
            float32.
        kv_share_len: int, keys of the prefix.
        kv_head_num: int, number of key and value heads.
        share_block_table: (max_blocks,), int32, or a list of ints: cache blocks of the prefix.
            None: not paged.
        packed: uint8 array (bytes,) that gets the result, at least as large as a new one would be;
            read soonest where it is aligned to 64 bytes.
        context: Context or None.

    Returns:
        packed (a new NumPy array if it was None).

    Example:
        >>> share = np.ones((100, 2, 16), np.float16)
        >>> packed = [pack_share(share, share, 100, kv_head_num=2)]
        >>> query, key = np.ones((2, 4, 16), np.float16), np.ones((2, 3, 2, 16), np.float16)
        >>> relay_attention(query, key, key, [share], [share], None, None, [103, 101], [0, 0],
        ...                 [100], head_num=4, kv_head_num=2, packed_share=packed).shape
        (2, 4, 16)
    """
    op = "pack_share"
    key = describe(op, "key_share", key_share)
    value = describe(op, "value_share", value_share)
    table = describe_lengths(op, "share_block_table", share_block_table, INT32)
    kv_head_num = check_int(op, "kv_head_num", kv_head_num, 32)
    kv_share_len = check_int(op, "kv_share_len", kv_share_len, 64)
    if packed is None:
        shapes = key.shape[: key.rank], value.shape[: value.rank]
        num_blocks = None if table is None else table.shape[0]
        num_bytes = packed_share_bytes(key.dtype, *shapes, num_blocks, kv_head_num, kv_share_len)
        packed = aligned_bytes(num_bytes)
    out = describe(op, "packed", packed, is_output=True)
    pointers = [None if tensor is None else ctypes.byref(tensor) for tensor in (key, value, table)]
    context_handle = None if context is None else context._handle
    check(
        functions().MsRelayPackShare(
            *pointers, kv_head_num, kv_share_len, ctypes.byref(out), context_handle
        )
    )
    return packed


def merge_attention_states(out_a, lse_a, out_b, lse_b, *, out=None, lse=None, context=None):
    """Joins the results of attention over two disjoint sets of keys into that over all of them.

    Meaning: `mindspore_relay.merge_attention_states`.

    Args:
        out_a, out_b: (num_tokens, head_num, head_size) or (num_tokens, head_num * head_size); one
            of float16, bfloat16 and float32.
        lse_a, lse_b: (num_tokens, head_num), float32, natural log; -inf: the part had no keys.
        out: array that gets the output, like out_a; may be out_a or out_b.
        lse: array that gets the lse, like lse_a; may be lse_a or lse_b.
        context: Context or None.

    Returns:
        (out, lse); new NumPy arrays where they were None.
    """
    op = "merge_attention_states"
    inputs = (
        describe(op, "out_a", out_a),
        describe(op, "lse_a", lse_a),
        describe(op, "out_b", out_b),
        describe(op, "lse_b", lse_b),
    )
    if out is None:
        out = _empty_like(inputs[0])
    if lse is None:
        lse = _empty_like(inputs[1])
    outputs = (
        describe(op, "out", out, is_output=True),
        describe(op, "lse", lse, is_output=True),
    )
    _call(functions().MsRelayMergeAttentionStates, inputs + outputs, context)
    return out, lse


# ---- pieces --------------------------------------------------------------------------------------


def _call(function, tensors, context):
    pointers = [None if tensor is None else ctypes.byref(tensor) for tensor in tensors]
    check(function(*pointers, None if context is None else context._handle))


def _first(arrays):
    """The array, or the first of a list; None if there is none."""
    if isinstance(arrays, (list, tuple)):
        return arrays[0] if arrays else None
    return arrays


def _numpy_dtype(tensor):
    return np.dtype(np.uint16 if tensor.dtype == BFLOAT16 else DTYPE_NAMES[tensor.dtype])


def _empty_like(tensor):
    return np.empty(tensor.shape[: tensor.rank], _numpy_dtype(tensor))


def _new_output(op, query, key, value):
    """New array for the output: query's shape with value's head size.

    As key and value have one layout, the last dimension of the output is that of query times that
    of value over that of key. Arguments that break a rule give some shape; the library names them.
    """
    tensor = describe(op, "query", query)
    shape = list(tensor.shape[: tensor.rank])
    if shape and key is not None and value is not None:
        key_dim, value_dim = np.shape(key)[-1:], np.shape(value)[-1:]
        if key_dim and value_dim and key_dim[0] > 0:
            shape[-1] = shape[-1] * value_dim[0] // key_dim[0]
    return np.empty(shape, _numpy_dtype(tensor))


def _new_lse(op, query, head_num):
    num_rows = describe(op, "query", query).shape[0]
    return np.empty((num_rows, max(int(head_num), 0)), np.float32)
