# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What the operators mean, in NumPy and float64: the oracle of the tests.

Function names and arguments are those of the public operators. Inputs are NumPy arrays (float16,
float32, float64, or uint16 for bfloat16, see `mindspore_relay.bfloat16`); outputs are float64.
There are no tiles and nothing is fast: each row of each head is one call of `attend`, over exactly
the keys that the lengths cover. Bytes that no length covers are not looked at.

The same functions with `attend=attend_plain(dtype)` give the plain formula in that dtype: what a
straightforward implementation would answer, and so the measure of how much error is acceptable.
"""

import numpy as np

from mindspore_relay.bfloat16 import dtype_name, from_float, to_float
from mindspore_relay.masks import (
    MASK_128_COLUMNS,
    MaskType,
    check_alibi_mask,
    check_slopes,
)

# ---- attention of one row and one head -----------------------------------------------------------


def attend(query, key, value, bias, qk_scale):
    """One query row of one head over its visible keys, in float64.

    score[j] = qk_scale * query . key[j] + bias[j]; a bias of -inf makes a key invisible.
    lse = log(sum(exp(score))); output = sum(exp(score - lse) * value).

    Args:
        query: (head_size,). key: (num_keys, head_size). value: (num_keys, value_head_size).
        bias: (num_keys,).

    Returns:
        output (value_head_size,), lse. Without a visible key: zeros and -inf.
    """
    visible = ~np.isneginf(bias)
    if not visible.any():
        return np.zeros(value.shape[1]), -np.inf
    key, value, bias = key[visible], value[visible], bias[visible]
    score = qk_scale * (key @ query) + bias
    score_max = score.max()
    weight = np.exp(score - score_max)
    return weight @ value / weight.sum(), score_max + np.log(weight.sum())


def attend_plain(dtype):
    """`attend` as the plain formula in one dtype: every result is rounded to it.

    softmax(query . key * qk_scale + bias) . value, step by step. Sums, and the softmax inside
    itself, are kept in float32, as matrix units and frameworks do for 16-bit types. lse is float32
    and comes from scores that were not rounded to a 16-bit type.

    Args:
        dtype: 'float16', 'bfloat16' or 'float32'.
    """

    def rounded(values):
        return to_float(from_float(values, dtype), np.float32)

    def attend_in_dtype(query, key, value, bias, qk_scale):
        visible = ~np.isneginf(bias)
        if not visible.any():
            return np.zeros(value.shape[1]), -np.inf
        query, key, value = (
            np.asarray(a, np.float32) for a in (query, key[visible], value[visible])
        )
        bias, qk_scale = np.asarray(bias[visible], np.float32), np.float32(qk_scale)
        dot = key @ query
        score = rounded(rounded(rounded(dot) * qk_scale) + rounded(bias))
        weight = np.exp(score - score.max())
        output = rounded(rounded(weight / weight.sum()) @ value)

        score = dot * qk_scale + bias
        lse = score.max() + np.log(np.exp(score - score.max()).sum())
        return output.astype(np.float64), float(lse)

    return attend_in_dtype


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
    block_tables=None,
    share_block_tables=None,
    head_num,
    kv_head_num=0,
    qk_scale=1.0,
    mask_type=MaskType.UNDEFINED,
    return_lse=False,
    attend=attend,
):
    """One decode step: each request attends to the keys of its group, then to its private keys.

    Args:
        query: (batch, head_num * head_size) or (batch, head_num, head_size).
        key, value: private keys and values. List of batch arrays (rows, kv_head_num, head_size) or
            (rows, kv_head_num * head_size); one stacked array with a leading batch axis; or, with
            block_tables, caches with leading axes (num_blocks, block_size).
        key_share, value_share: the same three forms, one entry per group; None without groups, or,
            in the paged form, if the groups are in the caches `key` and `value`.
        attention_mask: ignored.
        seq_len: (batch,): 1 everywhere.
        kv_seq_len: (batch,): shared plus private keys of each request.
        kv_share_map: (batch,): group of each request, -1 for none.
        kv_share_len: (num_groups,): keys of each group.
        block_tables: (batch, max_blocks): blocks of the private keys.
        share_block_tables: (num_groups, max_blocks): blocks of the groups' keys.
        attend: `attend` or `attend_plain(dtype)`.

    Returns:
        output in the form of query with the head size of value; with return_lse also lse
        (batch, head_num).

    Raises:
        ValueError: a rule on lengths, maps, tables or heads is broken.
    """
    op = "relay_attention"
    query_rows, kv_head_num = _split_query(op, query, head_num, kv_head_num)
    batch = len(query_rows)
    seq_len = _lengths(op, "seq_len", seq_len, batch)
    kv_seq_len = _lengths(op, "kv_seq_len", kv_seq_len, batch)
    kv_share_map = _lengths(op, "kv_share_map", kv_share_map, batch, lowest=-1)
    kv_share_len = _lengths(op, "kv_share_len", kv_share_len)
    if mask_type != MaskType.UNDEFINED:
        raise ValueError(f"{op}: mask_type must be UNDEFINED, got {mask_type!r}")
    if block_tables is not None and key_share is None:
        key_share, value_share = key, value

    outputs, lses = [], []
    for request, query_row in enumerate(query_rows):
        group = kv_share_map[request]
        if seq_len[request] != 1:
            raise ValueError(f"{op}: seq_len[{request}] must be 1, got {seq_len[request]}")
        if group >= len(kv_share_len):
            raise ValueError(
                f"{op}: kv_share_map[{request}] must be in [-1, {len(kv_share_len)}), got {group}"
            )
        num_shared = kv_share_len[group] if group >= 0 else 0
        num_private = kv_seq_len[request] - num_shared
        if num_private < 0:
            raise ValueError(
                f"{op}: kv_seq_len[{request}]={kv_seq_len[request]} is smaller than its shared "
                f"prefix kv_share_len[{group}]={num_shared}; kv_seq_len counts both parts"
            )
        parts = [(key, value, block_tables, request, num_private)]
        if group >= 0:
            parts.insert(0, (key_share, value_share, share_block_tables, group, num_shared))
        keys, values = [], []
        for part_key, part_value, tables, index, num_tokens in parts:
            keys.append(_tokens(op, part_key, tables, index, num_tokens, kv_head_num))
            values.append(_tokens(op, part_value, tables, index, num_tokens, kv_head_num))
        bias = np.zeros((head_num, kv_seq_len[request]))
        output, lse = _attend_heads(
            attend, query_row, np.concatenate(keys), np.concatenate(values), bias, qk_scale
        )
        outputs.append(output)
        lses.append(lse)
    return _in_form_of(query, outputs, lses, return_lse)


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
    attend=attend,
):
    """Prefill over a paged cache: row i of a request, at position p = kv_seq_len - seq_len + i,
    attends to the keys j <= p.

    Args:
        query: (num_tokens, head_num * head_size) or (num_tokens, head_num, head_size), the requests
            one after the other.
        key, value: (num_blocks, block_size, kv_head_num, head_size), or the last two axes in one.
        block_tables: (batch, max_blocks).
        mask: (256, 256), or with ALIBI_COMPRESS also (head_num, rows, 128); None with CAUSAL.
        seq_len: (batch,): rows of each request. kv_seq_len: (batch,): its keys.
        slopes: (head_num,), with a 2-D mask only.
        attend: `attend` or `attend_plain(dtype)`.

    Returns:
        output in the form of query with the head size of value; with return_lse also lse
        (num_tokens, head_num).

    Raises:
        ValueError: a rule on lengths, tables, masks or heads is broken.
    """
    op = "prefix_encoder"
    query_rows, kv_head_num = _split_query(op, query, head_num, kv_head_num)
    seq_len = _lengths(op, "seq_len", seq_len)
    kv_seq_len = _lengths(op, "kv_seq_len", kv_seq_len, len(seq_len))
    if seq_len.sum() != len(query_rows):
        raise ValueError(
            f"{op}: query must have sum(seq_len) = {seq_len.sum()} rows, got {len(query_rows)}"
        )
    bias_of = _bias_function(op, mask_type, mask, slopes, head_num, kv_seq_len)

    outputs, lses = [], []
    for request, (num_rows, num_keys) in enumerate(zip(seq_len, kv_seq_len, strict=True)):
        if num_rows > num_keys:
            raise ValueError(
                f"{op}: seq_len[{request}]={num_rows} is larger than kv_seq_len[{request}]="
                f"{num_keys}, which counts the new tokens too"
            )
        request_key = _tokens(op, key, block_tables, request, num_keys, kv_head_num)
        request_value = _tokens(op, value, block_tables, request, num_keys, kv_head_num)
        for position in range(num_keys - num_rows, num_keys):
            visible = slice(0, position + 1)
            bias = bias_of(position, np.arange(position + 1))
            output, lse = _attend_heads(
                attend,
                query_rows[len(outputs)],
                request_key[visible],
                request_value[visible],
                bias,
                qk_scale,
            )
            outputs.append(output)
            lses.append(lse)
    if not outputs:
        outputs = np.zeros((0, head_num, _split_heads(value[:0, 0], kv_head_num).shape[-1]))
    return _in_form_of(query, outputs, lses, return_lse)


def merge_attention_states(out_a, lse_a, out_b, lse_b):
    """Attention over two sets of keys, from the attention over each.

    lse = log(exp(lse_a) + exp(lse_b)); out = exp(lse_a - lse) * out_a + exp(lse_b - lse) * out_b.
    An lse of -inf means a part without keys; +inf is treated the same. What such a part has for an
    output is not looked at. Both parts empty: (0, -inf).

    Args:
        out_a, out_b: (num_tokens, head_num, head_size) or (num_tokens, head_num * head_size).
        lse_a, lse_b: (num_tokens, head_num), natural log.

    Returns:
        out, lse in the forms of out_a and lse_a.
    """
    lse_a, lse_b = to_float(lse_a), to_float(lse_b)
    heads_a = to_float(out_a).reshape(*lse_a.shape, -1)
    heads_b = to_float(out_b).reshape(*lse_a.shape, -1)
    out, lse = np.zeros(heads_a.shape), np.full(lse_a.shape, -np.inf)
    for at in np.ndindex(lse_a.shape):
        parts = [(heads_a[at], lse_a[at]), (heads_b[at], lse_b[at])]
        parts = [(part_out, part_lse) for part_out, part_lse in parts if not np.isinf(part_lse)]
        if parts:
            lse_max = max(part_lse for _, part_lse in parts)
            lse[at] = lse_max + np.log(sum(np.exp(part_lse - lse_max) for _, part_lse in parts))
            out[at] = sum(np.exp(part_lse - lse[at]) * part_out for part_out, part_lse in parts)
    return out.reshape(np.shape(out_a)), lse


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping):
    """Writes new keys and values into a paged cache, in place, rounded to the cache's dtype.

    Token i goes to block slot_mapping[i] // block_size, place slot_mapping[i] % block_size; a slot
    of -1 skips the token.

    Args:
        key, value: (num_tokens, kv_head_num, head_size) or (num_tokens, kv_head_num * head_size).
        key_cache, value_cache: (num_blocks, block_size, kv_head_num, head_size), or the last two
            axes in one. Changed in place.
        slot_mapping: (num_tokens,), ints.
    """
    op = "reshape_and_cache"
    num_slots = key_cache.shape[0] * key_cache.shape[1]
    slot_mapping = _lengths(op, "slot_mapping", slot_mapping, len(key), lowest=-1)
    for index in np.flatnonzero(slot_mapping >= num_slots):
        raise ValueError(
            f"{op}: slot_mapping[{index}] must be in [-1, {num_slots}), got {slot_mapping[index]}"
        )
    for tokens, cache in ((key, key_cache), (value, value_cache)):
        tokens = from_float(to_float(tokens), dtype_name(cache))
        block_size = cache.shape[1]
        for token, slot in zip(tokens, slot_mapping, strict=True):
            if slot >= 0:
                place = cache[slot // block_size, slot % block_size]
                place[...] = token.reshape(place.shape)


# ---- pieces --------------------------------------------------------------------------------------


def _attend_heads(attend, query, key, value, bias, qk_scale):
    """One query row, all heads: output (head_num, value_head_size), lse (head_num,).

    query: (head_num, head_size). key, value: (num_keys, kv_head_num, head_size or value_head_size).
    bias: (head_num, num_keys). Query head h reads kv head h // (head_num // kv_head_num).
    """
    head_num, kv_head_num = len(query), key.shape[1]
    heads_per_kv_head = head_num // kv_head_num
    results = []
    for head in range(head_num):
        kv_head = head // heads_per_kv_head
        results.append(
            attend(query[head], key[:, kv_head], value[:, kv_head], bias[head], qk_scale)
        )
    outputs, lses = zip(*results, strict=True)
    return np.stack(outputs), np.array(lses)


def _bias_function(op, mask_type, mask, slopes, head_num, kv_seq_len):
    """Function (position p, key positions j) -> bias (head_num, len(j)) of a mask type."""
    if mask_type == MaskType.CAUSAL:
        if mask is not None or slopes is not None:
            raise ValueError(f"{op}: mask and slopes must be None with mask_type CAUSAL")
        return lambda position, keys: np.zeros((head_num, len(keys)))

    if mask_type == MaskType.ALIBI_COMPRESS and np.ndim(mask) == 3:
        longest = max(kv_seq_len, default=0)
        if slopes is not None:
            raise ValueError(f"{op}: slopes must be None with a mask of rank 3")
        if mask.shape[0] != head_num or mask.shape[1] < longest or mask.shape[2] != 128:
            raise ValueError(
                f"{op}: mask of rank 3 must be (head_num={head_num}, at least the longest "
                f"kv_seq_len={longest}, 128), got {mask.shape}"
            )
        finished_bias = to_float(mask)
        columns = MASK_128_COLUMNS
        return lambda position, keys: finished_bias[
            :, position - columns * (keys // columns), keys % columns
        ]

    check_alibi_mask(mask, mask_type, op)  # also refuses types that are no masks
    slope = to_float(check_slopes(slopes, mask_type, head_num, op))[:, None]
    term_of = {
        MaskType.ALIBI_COMPRESS: lambda position, keys: position - keys,
        MaskType.ALIBI_COMPRESS_SQRT: lambda position, keys: np.sqrt(position - keys),
        MaskType.ALIBI_COMPRESS_LEFT_ALIGN: lambda position, keys: keys,
    }[mask_type]
    return lambda position, keys: slope * term_of(position, keys)


def _tokens(op, source, tables, index, num_tokens, kv_head_num):
    """The first tokens of one request or group: (num_tokens, kv_head_num, head_size), float64.

    Args:
        source: a list of arrays or a stacked array if tables is None, else a paged cache.
    """
    if tables is None:
        tokens = np.asarray(source[index])
        if num_tokens > len(tokens):
            raise ValueError(
                f"{op}: entry {index} has {len(tokens)} rows, its length is {num_tokens}"
            )
        return _split_heads(to_float(tokens[:num_tokens]), kv_head_num)
    num_blocks, block_size = source.shape[:2]
    num_needed = -(-int(num_tokens) // block_size)
    needed = np.asarray(tables)[index, :num_needed]
    if len(needed) < num_needed:
        raise ValueError(
            f"{op}: row {index} of the block table needs {num_needed} entries, has {len(needed)}"
        )
    for entry in np.flatnonzero((needed < 0) | (needed >= num_blocks)):
        raise ValueError(
            f"{op}: entry {entry} of row {index} of the block table must be in [0, {num_blocks}), "
            f"got {needed[entry]}"
        )
    tokens = source[needed].reshape(num_needed * block_size, *source.shape[2:])[:num_tokens]
    return _split_heads(to_float(tokens), kv_head_num)


def _split_query(op, query, head_num, kv_head_num):
    """query as (rows, head_num, head_size) float64, and kv_head_num with 0 replaced."""
    kv_head_num = kv_head_num or head_num
    if head_num < 1 or kv_head_num < 1 or head_num % kv_head_num:
        raise ValueError(
            f"{op}: head_num must be a multiple of kv_head_num, got head_num={head_num}, "
            f"kv_head_num={kv_head_num}"
        )
    return _split_heads(to_float(query), head_num), kv_head_num


def _split_heads(array, head_num):
    """(rows, head_num * size) as (rows, head_num, size); three axes stay as they are."""
    if array.ndim == 3:
        return array
    return array.reshape(array.shape[0], head_num, array.shape[1] // head_num)


def _in_form_of(query, outputs, lses, return_lse):
    """Stacked outputs, flat if query is flat; and lse if asked for."""
    outputs = np.asarray(outputs)
    lses = np.asarray(lses, dtype=np.float64).reshape(outputs.shape[:2])
    if np.ndim(query) == 2:
        outputs = outputs.reshape(len(outputs), outputs.shape[1] * outputs.shape[2])
    return (outputs, lses) if return_lse else outputs


def _lengths(op, name, lengths, expected_count=None, lowest=0):
    """A length array as int64 (None: empty), checked."""
    lengths = np.zeros(0, np.int64) if lengths is None else np.asarray(lengths).astype(np.int64)
    if lengths.ndim != 1 or expected_count not in (None, len(lengths)):
        raise ValueError(f"{op}: {name} must have shape ({expected_count},), got {lengths.shape}")
    for index in np.flatnonzero(lengths < lowest):
        raise ValueError(f"{op}: {name}[{index}] must be at least {lowest}, got {lengths[index]}")
    return lengths
