# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators as PyTorch custom operators, for tensors on the CPU.

    import torch
    from mindspore_relay.torch import relay_attention

    out = relay_attention(query, key, value, key_share, value_share, None, None, kv_seq_len,
                          kv_share_map, kv_share_len, head_num=32, kv_head_num=8, qk_scale=0.088)

Functions have the names, arguments and meaning of the MindSpore operators (operators.py). They are
registered with torch.library as torch.ops.mindspore_relay.*, with shapes for fake tensors, so that
they go through torch.compile and torch.export as they are. No tensor is copied; the last dimension
of each must have stride 1. There is no gradient: a backward pass through one is an error of
PyTorch.

Needs PyTorch: pip install mindspore_relay[torch]. Errors are those of capi.py.
"""

import torch

from mindspore_relay import capi
from mindspore_relay._c_interface import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    INT32,
    UINT8,
    UINT32,
    dtype_error,
    make_tensor,
)
from mindspore_relay._packed_share import packed_share_bytes
from mindspore_relay.masks import MaskType

__all__ = [
    "merge_attention_states",
    "pack_share",
    "prefix_encoder",
    "relay_attention",
    "reshape_and_cache_",
]

_DTYPES = {
    torch.float32: FLOAT32,
    torch.float16: FLOAT16,
    torch.bfloat16: BFLOAT16,
    torch.int32: INT32,
    torch.uint32: UINT32,
    torch.uint8: UINT8,
}


# ---- public functions ----------------------------------------------------------------------------


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
):
    """One decode step in which the requests of a group read their shared prefix once.

    Meaning, shapes and forms (list, stacked, paged): `mindspore_relay.relay_attention`.

    Args:
        query: (batch, head_num * head_size) or (batch, head_num, head_size); float16, bfloat16 or
            float32.
        key, value: list of batch tensors (rows, kv_head_num, head_size) or (rows, kv_head_num *
            head_size); or one tensor (batch, rows, ...); or caches (num_blocks, block_size, ...)
            with `block_tables`.
        key_share, value_share: the same for the groups, with `share_block_tables`; None without
            groups or when their blocks are in the caches key and value.
        attention_mask: reserved, its content is ignored.
        seq_len, kv_seq_len, kv_share_map: (batch,), int32; kv_share_len: (num_groups,), int32. Also
            lists of ints. kv_seq_len counts shared and private keys together.
        head_num, kv_head_num, qk_scale, mask_type, block_tables, share_block_tables, path: see
            there.
        packed_share: list of one uint8 tensor for each group, made by `pack_share`; or None.
        return_lse: whether lse is returned.

    Returns:
        out: query's shape with value's head size, dtype of query; and, if return_lse, lse (batch,
            head_num), float32.
    """
    if isinstance(packed_share, torch.Tensor):
        raise TypeError(
            "relay_attention: packed_share must be a list of Tensors or None, got Tensor"
        )
    out, lse = _relay_attention_op(
        query,
        _as_list(key),
        _as_list(value),
        _as_list(key_share),
        _as_list(value_share),
        [isinstance(tensors, torch.Tensor) for tensors in (key, value, key_share, value_share)],
        _as_int32(seq_len),
        _as_int32(kv_seq_len),
        _as_int32(kv_share_map),
        _as_int32(kv_share_len),
        block_tables,
        share_block_tables,
        _as_list(packed_share),
        head_num,
        kv_head_num,
        qk_scale,
        int(mask_type),
        path,
    )
    return (out, lse) if return_lse else out


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
        seq_len, kv_seq_len: (batch,), int32 or uint32; also lists of ints.
        mask_type, head_num, kv_head_num, qk_scale: see there.
        return_lse: whether lse is returned.

    Returns:
        out: query's shape with value's head size, dtype of query; and, if return_lse, lse
            (num_tokens, head_num), float32.
    """
    out, lse = _prefix_encoder_op(
        query,
        key,
        value,
        block_tables,
        mask,
        _as_int32(seq_len),
        _as_int32(kv_seq_len),
        slopes,
        int(mask_type),
        head_num,
        kv_head_num,
        qk_scale,
    )
    return (out, lse) if return_lse else out


def reshape_and_cache_(key, value, key_cache, value_cache, slot_mapping):
    """Writes new keys and values into a paged cache, in place. Returns nothing.

    Args:
        key, value: (num_tokens, kv_head_num, head_size) or (num_tokens, kv_head_num * head_size);
            float16, bfloat16 or float32.
        key_cache, value_cache: (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size), any of the three dtypes. **Changed in place.** May
            be strided views, such as kv[:, 0] and kv[:, 1].
        slot_mapping: (num_tokens,), int32, or a list of ints: block * block_size + offset; -1: the
            token is not written.
    """
    _reshape_and_cache_op(key, value, key_cache, value_cache, _as_int32(slot_mapping))


def pack_share(key_share, value_share, kv_share_len, *, kv_head_num, share_block_table=None):
    """Packs the keys and values of a prefix once, for the `packed_share` of `relay_attention`.

    Meaning and what it gains: `mindspore_relay.pack_share`.

    Args:
        key_share, value_share: (rows, kv_head_num, head_size) or (rows, kv_head_num * head_size);
            or caches (num_blocks, block_size, ...) with `share_block_table`. float16, bfloat16 or
            float32.
        kv_share_len: int, keys of the prefix.
        kv_head_num: int, number of key and value heads.
        share_block_table: (max_blocks,), int32, or a list of ints. None: not paged.

    Returns:
        (bytes,), uint8.
    """
    table = _as_int32(share_block_table)
    return _pack_share_op(key_share, value_share, table, kv_head_num, kv_share_len)


def merge_attention_states(out_a, lse_a, out_b, lse_b):
    """Joins the results of attention over two disjoint sets of keys into that over all of them.

    Meaning: `mindspore_relay.merge_attention_states`.

    Args:
        out_a, out_b: (num_tokens, head_num, head_size) or (num_tokens, head_num * head_size); one
            of float16, bfloat16 and float32.
        lse_a, lse_b: (num_tokens, head_num), float32, natural log; -inf: the part had no keys.

    Returns:
        (out, lse), like out_a and lse_a.
    """
    return _merge_attention_states_op(out_a, lse_a, out_b, lse_b)


# ---- torch.ops.mindspore_relay -------------------------------------------------------------------
#
# A schema has no "tensor or list of tensors": a list and, for each of the four, whether it is one
# tensor that holds all of them. Outputs always come with their lse, whose cost is that of storing
# it.


@torch.library.custom_op("mindspore_relay::relay_attention", mutates_args=(), device_types="cpu")
def _relay_attention_op(
    query: torch.Tensor,
    key: list[torch.Tensor],
    value: list[torch.Tensor],
    key_share: list[torch.Tensor],
    value_share: list[torch.Tensor],
    is_stacked: list[bool],
    seq_len: torch.Tensor | None,
    kv_seq_len: torch.Tensor,
    kv_share_map: torch.Tensor | None,
    kv_share_len: torch.Tensor | None,
    block_tables: torch.Tensor | None,
    share_block_tables: torch.Tensor | None,
    packed_share: list[torch.Tensor],
    head_num: int,
    kv_head_num: int,
    qk_scale: float,
    mask_type: int,
    path: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    op = "relay_attention"
    out, lse = _new_outputs(query, key[0] if key else None, value[0] if value else None, head_num)

    def tensors_of(argument, tensors, is_one):
        described = [_describe(op, argument, tensor) for tensor in tensors]
        return described[0] if is_one else described

    capi.relay_attention(
        _describe(op, "query", query),
        tensors_of("key", key, is_stacked[0]),
        tensors_of("value", value, is_stacked[1]),
        tensors_of("key_share", key_share, is_stacked[2]),
        tensors_of("value_share", value_share, is_stacked[3]),
        None,
        _describe(op, "seq_len", seq_len),
        _describe(op, "kv_seq_len", kv_seq_len),
        _describe(op, "kv_share_map", kv_share_map),
        _describe(op, "kv_share_len", kv_share_len),
        head_num=head_num,
        kv_head_num=kv_head_num,
        qk_scale=qk_scale,
        mask_type=mask_type,
        block_tables=_describe(op, "block_tables", block_tables),
        share_block_tables=_describe(op, "share_block_tables", share_block_tables),
        packed_share=tensors_of("packed_share", packed_share, False),
        path=path,
        out=_describe(op, "out", out),
        lse=_describe(op, "lse", lse),
    )
    return out, lse


@_relay_attention_op.register_fake
def _(query, key, value, key_share, value_share, is_stacked, seq_len, kv_seq_len, *args):
    head_num = args[5]
    return _new_outputs(query, key[0] if key else None, value[0] if value else None, head_num)


@torch.library.custom_op("mindspore_relay::prefix_encoder", mutates_args=(), device_types="cpu")
def _prefix_encoder_op(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    block_tables: torch.Tensor,
    mask: torch.Tensor | None,
    seq_len: torch.Tensor,
    kv_seq_len: torch.Tensor,
    slopes: torch.Tensor | None,
    mask_type: int,
    head_num: int,
    kv_head_num: int,
    qk_scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    op = "prefix_encoder"
    out, lse = _new_outputs(query, key, value, head_num)
    capi.prefix_encoder(
        _describe(op, "query", query),
        _describe(op, "key", key),
        _describe(op, "value", value),
        _describe(op, "block_tables", block_tables),
        _describe(op, "mask", mask),
        _describe(op, "seq_len", seq_len),
        _describe(op, "kv_seq_len", kv_seq_len),
        _describe(op, "slopes", slopes),
        mask_type=mask_type,
        head_num=head_num,
        kv_head_num=kv_head_num,
        qk_scale=qk_scale,
        out=_describe(op, "out", out),
        lse=_describe(op, "lse", lse),
    )
    return out, lse


@_prefix_encoder_op.register_fake
def _(query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes, mask_type, head_num, *_):
    return _new_outputs(query, key, value, head_num)


@torch.library.custom_op(
    "mindspore_relay::reshape_and_cache_",
    mutates_args=("key_cache", "value_cache"),
    device_types="cpu",
)
def _reshape_and_cache_op(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    op = "reshape_and_cache"
    capi.reshape_and_cache(
        _describe(op, "key", key),
        _describe(op, "value", value),
        _describe(op, "key_cache", key_cache),
        _describe(op, "value_cache", value_cache),
        _describe(op, "slot_mapping", slot_mapping),
    )


@torch.library.custom_op("mindspore_relay::pack_share", mutates_args=(), device_types="cpu")
def _pack_share_op(
    key_share: torch.Tensor,
    value_share: torch.Tensor,
    share_block_table: torch.Tensor | None,
    kv_head_num: int,
    kv_share_len: int,
) -> torch.Tensor:
    op = "pack_share"
    packed = _new_packed(key_share, value_share, share_block_table, kv_head_num, kv_share_len)
    capi.pack_share(
        _describe(op, "key_share", key_share),
        _describe(op, "value_share", value_share),
        kv_share_len,
        kv_head_num=kv_head_num,
        share_block_table=_describe(op, "share_block_table", share_block_table),
        packed=_describe(op, "packed", packed),
    )
    return packed


@torch.library.custom_op(
    "mindspore_relay::merge_attention_states", mutates_args=(), device_types="cpu"
)
def _merge_attention_states_op(
    out_a: torch.Tensor, lse_a: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    op = "merge_attention_states"
    out, lse = _new_like(out_a), _new_like(lse_a)
    capi.merge_attention_states(
        _describe(op, "out_a", out_a),
        _describe(op, "lse_a", lse_a),
        _describe(op, "out_b", out_b),
        _describe(op, "lse_b", lse_b),
        out=_describe(op, "out", out),
        lse=_describe(op, "lse", lse),
    )
    return out, lse


@_merge_attention_states_op.register_fake
def _(out_a, lse_a, out_b, lse_b):
    return _new_like(out_a), _new_like(lse_a)


# ---- pieces --------------------------------------------------------------------------------------


def _describe(op, argument, tensor):
    """MsRelayTensor of a tensor that an operator got; None for None.

    By its address and not by DLPack, which refuses tensors that require grad.
    """
    if tensor is None:
        return None
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise dtype_error(op, argument, str(tensor.dtype).removeprefix("torch."))
    return make_tensor(
        op, argument, dtype, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor
    )


def _new_outputs(query, key, value, head_num):
    """Tensors for out and lse: query's shape with value's head size; (num_tokens, head_num).

    As key and value have one layout, the last dimension of out is that of query times that of value
    over that of key. Arguments that break a rule give some shape; the library names them.
    """
    shape = list(query.shape)
    if key is not None and value is not None and key.ndim > 0 and value.ndim > 0 and shape:
        key_dim, value_dim = key.shape[-1], value.shape[-1]
        if isinstance(key_dim, torch.SymInt) or key_dim > 0:
            shape[-1] = shape[-1] * value_dim // key_dim
    num_tokens = query.shape[0] if shape else 0
    # A negative number of heads is an error that the library names.
    lse = query.new_empty((num_tokens, max(head_num, 0)), dtype=torch.float32)
    return query.new_empty(shape), lse


@_pack_share_op.register_fake
def _new_packed(key_share, value_share, share_block_table, kv_head_num, kv_share_len):
    """Tensor for a packed prefix."""
    num_bytes = packed_share_bytes(
        _DTYPES.get(key_share.dtype, 0),
        key_share.shape,
        value_share.shape,
        None if share_block_table is None else share_block_table.shape[0],
        kv_head_num,
        kv_share_len,
    )
    return key_share.new_empty(num_bytes, dtype=torch.uint8)


def _new_like(tensor):
    """A contiguous tensor of the same shape, whatever the strides of `tensor`."""
    return tensor.new_empty(tensor.shape)


def _as_list(tensors):
    if tensors is None:
        return []
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _as_int32(values):
    if values is None or isinstance(values, torch.Tensor):
        return values
    if len(values) and torch.tensor(values).is_floating_point():
        raise TypeError(f"lengths and tables must hold integers, got {values!r}")
    return torch.tensor(values, dtype=torch.int32)
