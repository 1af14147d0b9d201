# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators as functions on MindSpore tensors, in PyNative mode and inside graphs.

Call them directly, in the `construct` of a Cell, or in a function of `mindspore.jit`. The rules on
shapes, dtypes, lengths and tables are checked by the library before it starts work; a broken one is
a RuntimeError that names operator, argument, rule and value.

Errors in PyNative mode. MindSpore runs operators asynchronously: the error of a call may surface at
a later call, or where a result is read. `mindspore.runtime.launch_blocking()` makes each call raise
its own. The next call works.

Errors in graph mode. MindSpore does not run a compiled graph again after an operator in it has
failed. Make a new Cell, or call `net.compile_cache.clear()`.

Ascend. With device_target Ascend the same functions run the device operators of aicore/; the target
is looked at when a function is called or compiled. What differs there, limits included, is in
docs/ascend.md; it has never run on hardware.

Views. MindSpore hands an operator a contiguous copy of a tensor that is a view of another: right
for what is read, but slow for a cache, and refused for what is written.
"""

import ctypes

from mindspore import Tensor

from mindspore_relay import _ascend_ops, _composed_ops, _library
from mindspore_relay._arguments import (
    PATH_NAMES,
    are_all_tensors,
    as_int32,
    as_list,
    check_optional_tensors,
    check_tensors,
    first_of,
    is_in_graph,
    mask_number,
    path_number,
    shape_carrier,
    stacked_bits,
)
from mindspore_relay._custom_ops import is_on_ascend, primitive_of
from mindspore_relay.masks import MaskType


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

    Each request attends to the keys of its group, if it has one, and to its private keys. The
    result is that of plain attention over both; the two parts are merged by log-sum-exp.
    Definition: the document "RelayAttentionOperation" of the Ascend Transformer Boost reference,
    and Zhu et al., "RelayAttention for Efficient Large Language Model Serving with Long System
    Prompts" (2024).

    Keys and values come in one of three forms. What no length covers is not read.
      list     key, value: batch tensors (rows, kv_head_num, head_size) or
               (rows, kv_head_num * head_size); key_share, value_share: one such tensor per group
      stacked  one tensor with an axis in front: (batch, rows, ...) and (num_groups, rows, ...)
      paged    key, value: caches (num_blocks, block_size, ...), with `block_tables`. The groups'
               keys lie in the same caches, or in the caches key_share and value_share, with
               `share_block_tables`

    Args:
        query: (batch, head_num * head_size) or (batch, head_num, head_size); float16, bfloat16 or
            float32. One row per request.
        key, value: private keys and values, see above; dtype of query. value may have a head size
            of its own.
        key_share, value_share: keys and values of the groups. None or an empty list without groups
            and, in the paged form, where they lie in the caches key and value.
        attention_mask: reserved: any tensor or None, the content is ignored.
        seq_len: (batch,), int32, all 1; or None.
        kv_seq_len: (batch,), int32. Keys that the request sees: shared *plus* private.
        kv_share_map: (batch,), int32. Group of the request, -1 for none.
        kv_share_len: (num_groups,), int32. Keys of each group. None without groups.
        head_num: int, number of query heads.
        kv_head_num: int, number of key and value heads; divides head_num. 0 means head_num. Query
            head h reads kv head h // (head_num // kv_head_num).
        qk_scale: float, factor on query . key.
        mask_type: MaskType.UNDEFINED; there is no other.
        return_lse: bool, whether lse is returned.
        block_tables: (batch, max_blocks), int32: cache blocks of the private keys. Entries that no
            length needs are not read. None: not paged.
        share_block_tables: (num_groups, max_blocks), int32: cache blocks of the groups' keys.
        packed_share: list of one uint8 tensor for each group, made by `pack_share` from its keys
            and values; of shape (0,) for a group that is not packed. What is read by relay is then
            read from there: the result is the same, sooner. None: nothing is packed. Not on Ascend.
        path: "auto", "relay" (a group's keys are read once for all its requests) or "plain" (once
            per request). It changes the speed, never the result. Not "plain" on Ascend.

        The int32 arguments with one dimension may also be lists of ints or NumPy arrays; in a graph
        these are constants.

    Returns:
        output: query's shape with value's head size, dtype of query. Zeros where kv_seq_len is 0.
        lse, if return_lse: (batch, head_num), float32, natural log of the softmax denominator; -inf
            where kv_seq_len is 0.

    Raises:
        TypeError: an argument is no Tensor (or list of Tensors, or None, where allowed).
        ValueError: the path is unknown.
        RuntimeError: another rule is broken; the head of this module says when it is raised.

    Example:
        >>> query = Tensor(np.ones((2, 4 * 16)), mstype.float16)
        >>> key = [Tensor(np.ones((n, 2, 16)), mstype.float16) for n in (3, 1)]
        >>> key_share = [Tensor(np.ones((100, 2, 16)), mstype.float16)]
        >>> relay_attention(query, key, key, key_share, key_share, None, [1, 1], [103, 101], [0, 0],
        ...                 [100], head_num=4, kv_head_num=2, qk_scale=0.25).shape
        (2, 64)
    """
    op = "relay_attention"
    keys = as_list(op, "key", key)
    values = as_list(op, "value", value)
    key_shares = as_list(op, "key_share", key_share)
    value_shares = as_list(op, "value_share", value_share)
    if isinstance(packed_share, Tensor):
        raise TypeError(f"{op}: packed_share must be a list of Tensors or None, got Tensor")
    packed_shares = as_list(op, "packed_share", packed_share)
    check_tensors(op, ("query",), (query,))
    check_optional_tensors(
        op,
        ("attention_mask", "block_tables", "share_block_tables"),
        (attention_mask, block_tables, share_block_tables),
    )
    if is_on_ascend():
        if packed_share is not None:
            raise ValueError(f"{op}: packed_share must be None on Ascend")
        output, lse = _ascend_ops.relay_attention(
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
            mask_number(op, mask_type),
            PATH_NAMES[path_number(op, path)],
        )
        if return_lse:
            return output, lse
        return output
    # The shapes of these two are looked at when the output's is inferred.
    first_key = first_of(keys, key_shares, query)
    first_value = first_of(values, value_shares, query)
    are_tensors = are_all_tensors(query, first_key, first_value)
    num_tensors = (
        len(keys),
        len(values),
        len(key_shares),
        len(value_shares),
        len(packed_shares),
    )
    output, lse = primitive_of(op)(
        shape_carrier(op, head_num, are_tensors, *num_tensors),
        query,
        first_key,
        first_value,
        *keys,
        *values,
        *key_shares,
        *value_shares,
        *packed_shares,
        attention_mask,
        as_int32(op, "seq_len", seq_len),
        as_int32(op, "kv_seq_len", kv_seq_len),
        as_int32(op, "kv_share_map", kv_share_map),
        as_int32(op, "kv_share_len", kv_share_len),
        block_tables,
        share_block_tables,
        stacked_bits(key, value, key_share, value_share),
        head_num,
        kv_head_num,
        qk_scale,
        mask_number(op, mask_type),
        path_number(op, path),
    )
    if return_lse:
        return output, lse
    return output


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

    Row i of a request is at position p = kv_seq_len - seq_len + i and attends to the keys j <= p.
    Definition: the document "PrefixEncoder" of the Ascend Transformer Boost reference. To
    qk_scale * query . key is added:

      mask_type                  mask                    slopes    bias
      CAUSAL                     None                    None      0
      ALIBI_COMPRESS             (256, 256)              all <= 0  slopes[h] * (p - j)
      ALIBI_COMPRESS             (head_num, rows, 128)   None      mask[h][p - 128*(j//128)][j%128]
      ALIBI_COMPRESS_SQRT        (256, 256)              all <= 0  slopes[h] * sqrt(p - j)
      ALIBI_COMPRESS_LEFT_ALIGN  (256, 256)              all >= 0  slopes[h] * j

    `make_alibi_mask` makes the (256, 256) mask and the slopes of a mask type. The other mask needs
    at least as many rows as the longest kv_seq_len.

    Args:
        query: (num_tokens, head_num * head_size) or (num_tokens, head_num, head_size); float16,
            bfloat16 or float32. The rows of the requests, one after the other.
        key, value: caches (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size); dtype of query, block_size 1 to 512. value may
            have a head size of its own.
        block_tables: (batch, max_blocks), int32: cache blocks of each request. Entries past
            ceil(kv_seq_len / block_size) are not read.
        mask: dtype of query, or None; see the table.
        seq_len: (batch,), int32 or uint32: new tokens of each request; the sum is num_tokens.
        kv_seq_len: (batch,), int32 or uint32: keys of each request, new ones included.
        slopes: (head_num,), float32, or None; see the table.
        mask_type: a MaskType. Use the names: another public header has other numbers for them.
        head_num: int, number of query heads.
        kv_head_num: int, number of key and value heads; divides head_num. 0 means head_num.
        qk_scale: float, factor on query . key.
        return_lse: bool, whether lse is returned.

        seq_len and kv_seq_len may also be lists of ints or NumPy arrays; in a graph these are
        constants.

    Returns:
        output: query's shape with value's head size, dtype of query.
        lse, if return_lse: (num_tokens, head_num), float32, natural log of the softmax denominator.

    Raises:
        TypeError: an argument is no Tensor (or None, where allowed).
        RuntimeError: another rule is broken; the head of this module says when it is raised.

    Example:
        >>> cache = Tensor(np.ones((8, 16, 2 * 64)), mstype.float16)  # 8 blocks of 16 tokens
        >>> query = Tensor(np.ones((7, 4 * 64)), mstype.float16)  # 3 + 4 new tokens, 4 heads
        >>> block_tables = Tensor([[0, 1], [0, 2]], mstype.int32)  # both begin with block 0
        >>> prefix_encoder(query, cache, cache, block_tables, None, [3, 4], [19, 20], None,
        ...                mask_type=MaskType.CAUSAL, head_num=4, kv_head_num=2).shape
        (7, 256)
    """
    op = "prefix_encoder"
    check_tensors(op, ("query", "key", "value"), (query, key, value))
    check_optional_tensors(op, ("block_tables", "mask", "slopes"), (block_tables, mask, slopes))
    if is_on_ascend():
        output, lse = _ascend_ops.prefix_encoder(
            op,
            query,
            key,
            value,
            block_tables,
            mask,
            seq_len,
            kv_seq_len,
            slopes,
            mask_number(op, mask_type),
            head_num,
            kv_head_num,
            qk_scale,
        )
        if return_lse:
            return output, lse
        return output
    output, lse = primitive_of(op)(
        shape_carrier(op, head_num, are_all_tensors(query, key, value)),
        query,
        key,
        value,
        block_tables,
        mask,
        as_int32(op, "seq_len", seq_len),
        as_int32(op, "kv_seq_len", kv_seq_len),
        slopes,
        mask_number(op, mask_type),
        head_num,
        kv_head_num,
        qk_scale,
    )
    if return_lse:
        return output, lse
    return output


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping):
    """Writes new keys and values into a paged cache, in place.

    Token t goes to block slot_mapping[t] // block_size, offset slot_mapping[t] % block_size. All
    slots are checked before the first write. Where a slot occurs twice, the later token stays.

    Write a cache once per graph, as a decode step does: where one CPU graph writes, reads, writes
    and reads the same cache, MindSpore copies the whole cache before the later read (TensorMove),
    and for bfloat16, which its copy lacks, does not compile the graph.

    Args:
        key, value: (num_tokens, kv_head_num, head_size) or (num_tokens, kv_head_num * head_size);
            float16, bfloat16 or float32.
        key_cache, value_cache: (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size), any of the three dtypes; what is written is
            rounded to it. **Changed in place.** Not a view of another tensor, nor a Parameter made
            of a view: MindSpore would hand over a copy. In PyNative mode that is an error; in a
            graph it cannot be seen, and what is written is lost.
        slot_mapping: (num_tokens,), int32. -1: the token is not written.

    Returns:
        (1,), int32: 0. It need not be used, not even in a graph: the write happens there, before
            later reads of the caches.

    Raises:
        TypeError: an argument is no Tensor.
        RuntimeError: another rule is broken, and nothing was written; the head of this module says
            when it is raised.

    Example:
        >>> key_cache, value_cache = (ops.zeros((8, 16, 2 * 64), mstype.float16) for _ in "kv")
        >>> key = Tensor(np.ones((3, 2, 64)), mstype.float32)
        >>> slots = Tensor([0, 1, 16], mstype.int32)
        >>> reshape_and_cache(key, key, key_cache, value_cache, slots).shape
        (1,)
        >>> float(key_cache.sum())
        384.0
    """
    check_tensors(
        "reshape_and_cache",
        ("key", "value", "key_cache", "value_cache", "slot_mapping"),
        (key, value, key_cache, value_cache, slot_mapping),
    )
    if is_on_ascend():
        return _composed_ops.reshape_and_cache(
            "reshape_and_cache", key, value, key_cache, value_cache, slot_mapping
        )
    # By the addresses the library sees whether it was handed a copy; a graph has none.
    key_cache_address = 0
    value_cache_address = 0
    if not is_in_graph():
        key_cache_address = key_cache.data_ptr()
        value_cache_address = value_cache.data_ptr()
    return primitive_of("reshape_and_cache")(
        key,
        value,
        key_cache,
        value_cache,
        slot_mapping,
        key_cache_address,
        value_cache_address,
    )


def merge_attention_states(out_a, lse_a, out_b, lse_b):
    """Joins the results of attention over two disjoint sets of keys into that over all of them.

    lse = log(exp(lse_a) + exp(lse_b)); out = exp(lse_a - lse) * out_a + exp(lse_b - lse) * out_b.

    Args:
        out_a, out_b: (num_tokens, head_num, head_size) or (num_tokens, head_num * head_size), both
            of one dtype: float16, bfloat16 or float32.
        lse_a, lse_b: (num_tokens, head_num), float32, natural log of the softmax denominators.
            -inf: the part had no keys, its output is ignored. +inf means the same.

    Returns:
        out: shape and dtype of out_a; zeros where both parts had no keys.
        lse: (num_tokens, head_num), float32; -inf where both parts had no keys.

    Raises:
        TypeError: an argument is no Tensor.
        RuntimeError: another rule is broken; the head of this module says when it is raised.

    Example:
        >>> out = Tensor(np.ones((5, 4 * 64)), mstype.float16)
        >>> lse = Tensor(np.zeros((5, 4)), mstype.float32)
        >>> merged, merged_lse = merge_attention_states(out, lse, out, lse)
        >>> merged.shape, f"{float(merged_lse[0, 0]):.4f}"  # log(1 + 1)
        ((5, 256), '0.6931')
    """
    check_tensors(
        "merge_attention_states",
        ("out_a", "lse_a", "out_b", "lse_b"),
        (out_a, lse_a, out_b, lse_b),
    )
    if is_on_ascend():
        return _composed_ops.merge_attention_states(
            "merge_attention_states", out_a, lse_a, out_b, lse_b
        )
    out, lse = primitive_of("merge_attention_states")(out_a, lse_a, out_b, lse_b)
    return out, lse


def last_relay_path():
    """How the CPU's last successful relay_attention of this process read each group's keys.

    MindSpore runs operators asynchronously in PyNative mode: read the result of the call, or call
    `mindspore.runtime.synchronize()`, before you ask.

    Returns:
        List with an entry per group: "relay" (read once for all requests of the group) or "plain"
        (once per request).
    """
    last_paths = _library.library().RelayAttentionLastPaths
    last_paths.argtypes = [ctypes.POINTER(ctypes.c_int32), ctypes.c_int64]
    last_paths.restype = ctypes.c_int64
    capacity = 0
    paths = None
    num_groups = last_paths(paths, capacity)
    while num_groups > capacity:  # a second time only if another thread ran the operator meanwhile
        capacity = num_groups
        paths = (ctypes.c_int32 * capacity)()
        num_groups = last_paths(paths, capacity)
    return [PATH_NAMES[paths[group]] for group in range(num_groups)]
