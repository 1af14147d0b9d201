# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Problems of tests/cases.py asked in another way: order, form, blocks, numbers of groups."""

import numpy as np


def relay_requests(problem, order):
    """The relay_attention problem in list form with the requests of `order` only."""
    query, key, value, key_share, value_share, mask, *of_request, kv_share_len = problem.args
    of_request = [array[order] for array in of_request]
    key, value = [key[b] for b in order], [value[b] for b in order]
    args = (query[order], key, value, key_share, value_share, mask, *of_request, kv_share_len)
    return problem._replace(args=args)


def prefix_requests(problem, order):
    """The prefix_encoder problem with the requests of `order` only, and their rows in the whole."""
    query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes = problem.args
    first = np.cumsum(seq_len) - seq_len
    rows = np.concatenate([np.arange(first[b], first[b] + seq_len[b]) for b in order])
    lengths = (seq_len[order], kv_seq_len[order])
    args = (query[rows], key, value, block_tables[order], mask, *lengths, slopes)
    return problem._replace(args=args), rows


def stacked(problem, is_flat):
    """The list-form problem with stacked tensors."""
    query, *lists, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len = problem.args
    stacks = [_stack(arrays, max(map(len, arrays)), is_flat) for arrays in lists]
    args = (query, *stacks, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len)
    return problem._replace(args=args)


def paged(problem, is_flat, block_size=16):
    """The list-form problem with requests and groups in caches of their own; entry i has the blocks
    i * n, i * n + 1, ..."""
    query, *lists, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len = problem.args
    caches, tables = [], []
    for arrays in lists:
        num_blocks = -(-max(map(len, arrays)) // block_size)
        stack = _stack(arrays, num_blocks * block_size, is_flat)
        caches.append(stack.reshape(-1, block_size, *stack.shape[2:]))
        tables.append(np.arange(len(caches[-1]), dtype=np.int32).reshape(-1, num_blocks))
    kwargs = {**problem.kwargs, "block_tables": tables[0], "share_block_tables": tables[2]}
    args = (query, *caches, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len)
    return problem._replace(args=args, kwargs=kwargs)


def _stack(arrays, num_rows, is_flat):
    stack = np.zeros((len(arrays), num_rows, *arrays[0].shape[1:]), arrays[0].dtype)
    for entry, array in zip(stack, arrays, strict=True):
        entry[: len(array)] = array
    return stack.reshape(*stack.shape[:2], -1) if is_flat else stack


def with_blocks_permuted(problem, random):
    """The paged problem, of either operator, with its blocks elsewhere in the same caches."""
    _, key, value, key_share, *_ = problem.args
    place = random.permutation(len(key)).astype(np.int32)  # of block b

    def moved(array):
        if array is key or array is value:
            out = np.empty_like(array)
            out[place] = array
            return out
        if array is not None and array.ndim == 2 and array.dtype == np.int32:  # block tables
            is_block = (array >= 0) & (array < len(key))
            return np.where(is_block, place[np.where(is_block, array, 0)], array)
        return array

    args, kwargs = problem.map_arrays(moved)
    if problem.operator == "relay_attention" and key_share is not None:
        # The groups are in caches of their own, which stay.
        kwargs["share_block_tables"] = problem.kwargs["share_block_tables"]
    return problem._replace(args=args, kwargs=kwargs)


def with_groups(problem, numbers):
    """The relay_attention problem whose group g has number `numbers[g]`; numbers without a group
    are groups that nobody is in, with the keys of group 0."""
    *first, key_share, value_share, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len = (
        problem.args
    )
    group_of = np.zeros(max(numbers) + 1, np.int64)
    group_of[list(numbers)] = np.arange(len(numbers))

    def renumbered(groups):
        if groups is None:
            return None
        return (
            [groups[g] for g in group_of] if isinstance(groups, list) else groups[group_of].copy()
        )

    kwargs = dict(problem.kwargs)
    tables = kwargs.get("share_block_tables")
    if tables is not None:  # the groups' keys are where they were
        kwargs["share_block_tables"] = tables[group_of].copy()
    else:
        key_share, value_share = renumbered(key_share), renumbered(value_share)
    share_map = np.append(np.array(numbers, np.int32), np.int32(-1))[kv_share_map]
    lens = kv_share_len[group_of].copy()
    args = (*first, key_share, value_share, mask, seq_len, kv_seq_len, share_map, lens)
    return problem._replace(args=args, kwargs=kwargs)
