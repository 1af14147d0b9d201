# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""relay_attention and prefix_encoder on Ascend: from public arguments to device operators.

The functions are called by those of operators.py, which have checked the Python types. In a graph
the primitive is part of that graph; in PyNative mode it runs as a graph of its own.

Lengths are host values: the device operator's plan is made from them. Contents of tensors (block
tables, a mask, slopes) are checked in PyNative mode only, where they can be read.
"""

import functools
import threading

from mindspore import Tensor, mutable, ops
from mindspore import dtype as mstype

from mindspore_relay import _ascend_checks as checks
from mindspore_relay._arguments import first_of, int32_array, is_in_graph
from mindspore_relay._ascend_primitives import DeviceCall, device_primitive
from mindspore_relay.bfloat16 import to_numpy
from mindspore_relay.masks import MaskType

# Graphs of single calls that are kept: one for each operator, attributes and thread.
MAX_KEPT_CALLS = 256


def relay_attention(
    op,
    query,
    keys,
    values,
    key_shares,
    value_shares,
    seq_len,
    kv_seq_len,
    kv_share_map,
    kv_share_len,
    block_tables,
    share_block_tables,
    head_num,
    kv_head_num,
    qk_scale,
    mask_type,
    path,
):
    """output and lse. keys and values, and those of the groups: lists; a cache is a list of one."""
    attributes = _relay_attributes(
        op,
        query.dtype,
        query.shape,
        host_ints(op, "seq_len", seq_len),
        host_ints(op, "kv_seq_len", kv_seq_len),
        host_ints(op, "kv_share_map", kv_share_map),
        host_ints(op, "kv_share_len", kv_share_len),
        head_num,
        kv_head_num,
        qk_scale,
        mask_type,
        path,
    )
    if query.shape[0] == 0:
        return _no_rows(query, head_num)
    if kv_share_len is None or len(kv_share_len) == 0:
        # MindSpore cannot hand over an empty list. A group of no keys without members is not read;
        # its tensor is any of the right dtype and width.
        width = (kv_head_num if kv_head_num > 0 else head_num) * _head_size(query, head_num)
        key_shares = (query.reshape((1, -1, width)),)
        value_shares = key_shares
        share_block_tables = None
    elif len(key_shares) == 0 and len(value_shares) == 0 and share_block_tables is not None:
        # Groups in the requests' caches: the same for the kernel as caches of their own.
        key_shares = keys
        value_shares = values
    _check_relay_forms(
        op,
        attributes,
        _form(query),
        _form(first_of(keys, key_shares, query)),
        _form(first_of(values, value_shares, query)),
        _form(first_of(key_shares, keys, query)),
        _form(first_of(value_shares, values, query)),
        _optional_form(block_tables),
        _optional_form(share_block_tables),
    )
    if is_in_graph():
        output, lse = device_primitive(op, head_num)(
            query,
            keys,
            values,
            key_shares,
            value_shares,
            None,
            block_tables,
            share_block_tables,
            *attributes,
        )
        return output, lse
    _check_relay_tensors(
        op, keys, values, key_shares, value_shares, block_tables, share_block_tables, attributes
    )
    return _run(
        op,
        head_num,
        attributes,
        query,
        mutable(tuple(keys)),
        mutable(tuple(values)),
        mutable(tuple(key_shares)),
        mutable(tuple(value_shares)),
        None,
        block_tables,
        share_block_tables,
    )


def prefix_encoder(
    op,
    query,
    key,
    value,
    block_tables,
    mask,
    seq_len,
    kv_seq_len,
    slopes,
    mask_type,
    head_num,
    kv_head_num,
    qk_scale,
):
    """output and lse."""
    attributes = _prefix_attributes(
        op,
        _form(query),
        _form(key),
        _form(value),
        _optional_form(block_tables),
        _optional_form(mask),
        _optional_form(slopes),
        host_ints(op, "seq_len", seq_len),
        host_ints(op, "kv_seq_len", kv_seq_len),
        mask_type,
        head_num,
        kv_head_num,
        qk_scale,
    )
    if query.shape[0] == 0:
        return _no_rows(query, head_num)
    if is_in_graph():
        output, lse = device_primitive(op, head_num)(
            query, key, value, block_tables, mask, slopes, *attributes
        )
        return output, lse
    checks.check_blocks(op, "block_tables", to_numpy(block_tables), attributes[1], key.shape)
    if mask is not None:
        slope_values = None if slopes is None else to_numpy(slopes)
        checks.check_mask_content(op, mask_type, to_numpy(mask), slope_values, head_num)
    return _run(op, head_num, attributes, query, key, value, block_tables, mask, slopes)


def host_ints(op, argument, values):
    """A list, NumPy array or Tensor of ints as a tuple of ints; None as it is."""
    if values is None:
        return None
    if isinstance(values, Tensor):
        if is_in_graph():
            raise TypeError(
                f"{op}: on Ascend {argument} must be a list or array of ints in a graph, got a "
                "Tensor: the device operator is planned from its values on the host"
            )
        return _int_tuple(op, argument, to_numpy(values))
    return _int_tuple(op, argument, values)


@ops.constexpr
def _int_tuple(op, argument, values):
    return tuple(int32_array(op, argument, values).tolist())


@ops.constexpr
def _relay_attributes(
    op,
    dtype,
    query_shape,
    seq_len,
    kv_seq_len,
    kv_share_map,
    kv_share_len,
    head_num,
    kv_head_num,
    qk_scale,
    mask_type,
    path,
):
    """The attributes of aclnnRelayAttention, in its order, defaults filled in."""
    checks.head_size_of(op, dtype, query_shape, head_num, kv_head_num)
    if mask_type != MaskType.UNDEFINED:
        checks.fail(op, f"mask_type must be UNDEFINED, got {mask_type}")
    if path == "plain":
        checks.fail(op, "path must be auto or relay: the kernel has no other")
    batch = query_shape[0]
    seq_len = (1,) * batch if seq_len is None else seq_len
    if kv_seq_len is None:
        checks.fail(op, "kv_seq_len must be given")
    kv_share_len = kv_share_len or ()
    if kv_share_map is None:
        if kv_share_len:
            checks.fail(op, "kv_share_map must be given with groups")
        kv_share_map = (-1,) * batch
    checks.relay_private_lengths(op, batch, seq_len, kv_seq_len, kv_share_map, kv_share_len)
    # One group of no keys stands for none: see relay_attention.
    kv_share_len = kv_share_len or (0,)
    return (
        seq_len,
        kv_seq_len,
        kv_share_map,
        kv_share_len,
        head_num,
        float(qk_scale),
        kv_head_num,
        int(mask_type),
    )


@ops.constexpr
def _check_relay_forms(
    op, attributes, query, key, value, key_share, value_share, block_tables, share_block_tables
):
    _, _, _, kv_share_len, head_num, _, kv_head_num, _ = attributes
    head_size = checks.head_size_of(op, query[1], query[0], head_num, kv_head_num)
    width = (kv_head_num or head_num) * head_size
    checks.check_kv(op, ("key", "value"), key, value, query[1], width)
    names = ("key_share", "value_share")
    checks.check_kv(op, names, key_share, value_share, query[1], width)
    if block_tables is not None:
        checks.check_cache(op, "key", key[0])
        checks.check_table_shape(op, "block_tables", block_tables, query[0][0])
    if share_block_tables is not None:
        checks.check_cache(op, "key_share", key_share[0])
        num_groups = len(kv_share_len)
        checks.check_table_shape(op, "share_block_tables", share_block_tables, num_groups)


def _check_relay_tensors(
    op, keys, values, key_shares, value_shares, block_tables, share_block_tables, attributes
):
    """What needs every tensor of the lists, or contents: PyNative mode only."""
    seq_len, kv_seq_len, kv_share_map, kv_share_len = attributes[:4]
    batch = len(seq_len)
    private = checks.relay_private_lengths(
        op, batch, seq_len, kv_seq_len, kv_share_map, kv_share_len
    )
    for name, tensors, others, table_name, table, lengths in (
        ("key", keys, values, "block_tables", block_tables, private),
        (
            "key_share",
            key_shares,
            value_shares,
            "share_block_tables",
            share_block_tables,
            kv_share_len,
        ),
    ):
        checks.check_count(op, f"the value list of {name}", others, len(tensors))
        for index, (tensor, other) in enumerate(zip(tensors, others, strict=True)):
            if tensor.shape != other.shape:
                checks.fail(
                    op,
                    f"{name}[{index}] and its value must have one shape, got {tensor.shape} and "
                    f"{other.shape}",
                )
        if table is None:
            checks.check_rows(op, name, [t.shape for t in tensors], len(lengths), lengths)
        else:
            checks.check_count(op, f"{name} with {table_name}", tensors, 1)
            checks.check_blocks(op, table_name, to_numpy(table), lengths, tensors[0].shape)


@ops.constexpr
def _prefix_attributes(
    op,
    query,
    key,
    value,
    block_tables,
    mask,
    slopes,
    seq_len,
    kv_seq_len,
    mask_type,
    head_num,
    kv_head_num,
    qk_scale,
):
    """The attributes of aclnnPrefixEncoder, in its order, after all checks of forms and lengths."""
    head_size = checks.head_size_of(op, query[1], query[0], head_num, kv_head_num)
    if seq_len is None or kv_seq_len is None or block_tables is None:
        checks.fail(op, "seq_len, kv_seq_len and block_tables must be given")
    width = (kv_head_num or head_num) * head_size
    checks.check_kv(op, ("key", "value"), key, value, query[1], width)
    checks.check_cache(op, "key", key[0])
    checks.check_table_shape(op, "block_tables", block_tables, len(seq_len))
    checks.check_prefix_lengths(op, query[0][0], seq_len, kv_seq_len)
    checks.check_mask_arguments(op, mask_type, mask, slopes, head_num, kv_seq_len)
    if mask is not None and mask[1] != query[1]:
        checks.fail(op, f"mask must have query's dtype {query[1]}, got {mask[1]}")
    return seq_len, kv_seq_len, int(mask_type), head_num, kv_head_num, float(qk_scale)


def _form(tensor):
    return tensor.shape, tensor.dtype


def _optional_form(tensor):
    if tensor is None:
        return None
    return tensor.shape, tensor.dtype


def _head_size(query, head_num):
    if len(query.shape) == 3:
        return query.shape[2]
    return query.shape[1] // head_num


def _no_rows(query, head_num):
    """Results of a query without rows: nothing is to be run, and the output is as empty as it is.

    MindSpore 2.7 cannot make a bfloat16 tensor of zeros on every device.
    """
    return query, ops.zeros((0, head_num), mstype.float32)


def _run(op, head_num, attributes, *inputs):
    call = _device_call(op, head_num, attributes, threading.get_ident())
    output, lse = call(*inputs)
    return output, lse


# The thread is part of the key: MindSpore breaks when two threads run one graph.
@functools.lru_cache(MAX_KEPT_CALLS)
def _device_call(op, head_num, attributes, _thread):
    return DeviceCall(device_primitive(op, head_num), attributes)
