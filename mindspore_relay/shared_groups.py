# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Finds requests whose leading cache blocks are the same: the groups of `relay_attention`.

Runs on the host with NumPy alone; a call for 32 requests takes less than a millisecond.
"""

import operator
from typing import NamedTuple

import numpy as np

INT32_MAX = 2**31 - 1  # of block ids, lengths and block sizes: what the operators take


class SharedGroups(NamedTuple):
    """Inputs for the paged form of `relay_attention`.

    Attributes:
        kv_share_map: (batch,), int32. Group of each request, -1 for none.
        kv_share_len: (num_groups,), int32. Tokens that a group's members share: whole blocks only.
        share_block_tables: (num_groups, max_blocks), int32. Blocks of each group, padded with -1.
        block_tables: (batch, max_blocks), int32. Blocks of each request's private tokens, padded
            with -1.
    """

    kv_share_map: np.ndarray
    kv_share_len: np.ndarray
    share_block_tables: np.ndarray
    block_tables: np.ndarray

    def padded(self, num_groups):
        """These groups, and groups without members (length 0) up to `num_groups` in all.

        Gives a compiled graph shapes that never change.

        Raises:
            ValueError: there are more groups than num_groups.
        """
        num_missing = num_groups - len(self.kv_share_len)
        if num_missing < 0:
            raise ValueError(
                f"SharedGroups.padded: num_groups must be at least {len(self.kv_share_len)}, the "
                f"number of "
                f"groups, got {num_groups}"
            )
        return self._replace(
            kv_share_len=np.pad(self.kv_share_len, (0, num_missing)),
            share_block_tables=np.pad(
                self.share_block_tables, ((0, num_missing), (0, 0)), constant_values=-1
            ),
        )


def find_shared_groups(block_tables, kv_seq_len, block_size):
    """Groups requests by common leading blocks so that the fewest blocks are read in a decode step.

    Two requests share their first n blocks if these are the same physical blocks in the same order.
    Only blocks that the request's keys fill are shared, so a shared length is a multiple of
    block_size. A request belongs to at most one group. Where prefixes are nested (one system
    prompt, several documents below it), the grouping is chosen for which the blocks of all groups
    plus the private blocks of all requests are fewest; among equals, the one with fewer groups.

    Args:
        block_tables: (batch, max_blocks), any int type. Entries past ceil(kv_seq_len / block_size)
            are not looked at. `[]` without requests.
        kv_seq_len: (batch,), ints. Keys of each request, 0 or more.
        block_size: tokens per block.

    Returns:
        SharedGroups, with tables of max_blocks columns. Groups are numbered by their first member.
        A request whose keys are all shared keeps no private block, which `relay_attention` allows.

    Raises:
        TypeError: block_size is no int.
        ValueError: wrong rank or length of an input, a negative length, a length that needs more
            than max_blocks entries, or a length, a needed entry or a block_size that is outside
            int32 or too small.

    Example:
        >>> tables = [[7, 3, 4, -1], [7, 3, 5, 6], [2, 9, -1, -1]]
        >>> groups = find_shared_groups(tables, [40, 50, 20], block_size=16)
        >>> groups.kv_share_map, groups.kv_share_len
        (array([ 0,  0, -1], dtype=int32), array([32], dtype=int32))
        >>> groups.block_tables
        array([[ 4, -1, -1, -1],
               [ 5,  6, -1, -1],
               [ 2,  9, -1, -1]], dtype=int32)
    """
    block_size = _checked_block_size(block_size)
    block_tables, kv_seq_len = _checked(block_tables, kv_seq_len, block_size)
    batch, max_blocks = block_tables.shape
    num_full_blocks = kv_seq_len // block_size
    num_blocks = -(-kv_seq_len // block_size)

    groups = _choose_groups(block_tables, num_full_blocks)
    groups.sort(key=lambda group: min(group[1]))

    kv_share_map = np.full(batch, -1, dtype=np.int32)
    kv_share_len = np.array([num_shared * block_size for num_shared, _ in groups], dtype=np.int32)
    share_block_tables = np.full((len(groups), max_blocks), -1, dtype=np.int32)
    private_tables = np.full((batch, max_blocks), -1, dtype=np.int32)
    num_shared_blocks = np.zeros(batch, dtype=np.int64)
    for group, (num_shared, members) in enumerate(groups):
        kv_share_map[members] = group
        num_shared_blocks[members] = num_shared
        share_block_tables[group, :num_shared] = block_tables[members[0], :num_shared]
    for request in range(batch):
        private = block_tables[request, num_shared_blocks[request] : num_blocks[request]]
        private_tables[request, : len(private)] = private
    return SharedGroups(kv_share_map, kv_share_len, share_block_tables, private_tables)


def _checked_block_size(block_size):
    """block_size as a Python int, with which no product wraps."""
    try:
        block_size = operator.index(block_size)
    except TypeError:
        raise TypeError(
            f"find_shared_groups: block_size must be an int, got {block_size!r}"
        ) from None
    if not 1 <= block_size <= INT32_MAX:
        raise ValueError(
            f"find_shared_groups: block_size must be at least 1 and below 2**31, got {block_size}"
        )
    return block_size


def _checked(block_tables, kv_seq_len, block_size):
    """The inputs as int64 arrays, after all checks."""
    block_tables = np.asarray(block_tables)
    kv_seq_len = np.asarray(kv_seq_len)
    if block_tables.shape == (0,):  # a list of no rows has no columns either
        block_tables = block_tables.reshape(0, 0)
    for name, array, rank in (("block_tables", block_tables, 2), ("kv_seq_len", kv_seq_len, 1)):
        if array.ndim != rank:
            raise ValueError(
                f"find_shared_groups: {name} must have rank {rank}, got shape {array.shape}"
            )
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"find_shared_groups: {name} must hold ints, got {array.dtype}")
    batch, max_blocks = block_tables.shape
    if len(kv_seq_len) != batch:
        raise ValueError(
            f"find_shared_groups: kv_seq_len must have one entry per row of block_tables "
            f"({batch}), got {len(kv_seq_len)}"
        )
    # Values are compared before they become int64, to which large uint64 ones would wrap.
    max_len = min(max_blocks * block_size, INT32_MAX)
    for request in np.flatnonzero((kv_seq_len < 0) | (kv_seq_len > max_len)):
        raise ValueError(
            f"find_shared_groups: kv_seq_len[{request}] must be below 2**31 and between 0 and "
            f"max_blocks * block_size = {max_blocks} * {block_size}, got {kv_seq_len[request]}"
        )
    kv_seq_len = kv_seq_len.astype(np.int64)
    is_needed = np.arange(max_blocks) < -(-kv_seq_len // block_size)[:, None]
    is_wrong = (block_tables < 0) | (block_tables > INT32_MAX)
    for request, entry in np.argwhere(is_needed & is_wrong):
        raise ValueError(
            f"find_shared_groups: block_tables[{request}][{entry}] must be 0 or more and below "
            f"2**31, as kv_seq_len[{request}]={kv_seq_len[request]} needs it, got "
            f"{block_tables[request, entry]}"
        )
    return block_tables.astype(np.int64), kv_seq_len


class _Node:
    """Node of the compressed prefix tree: requests with their first `depth` blocks in common."""

    __slots__ = ("children", "depth", "requests")

    def __init__(self, depth):
        self.depth = depth
        self.children = []
        self.requests = []  # those that are under no child


def _prefix_tree(block_tables, num_full_blocks):
    """All branching nodes, children before parents; the last one is the root, of depth 0.

    Sorted by their blocks, requests with a common prefix are neighbours; the lengths of the
    neighbours' common prefixes give the tree in one pass with a stack.
    """
    max_blocks = block_tables.shape[1]
    # Full blocks are >= 0: the -1 that stands for "no block" ends every common prefix, also between
    # two equal tables.
    full = np.where(np.arange(max_blocks) < num_full_blocks[:, None], block_tables, -1)
    order = np.lexsort(full.T[::-1]) if full.size else np.arange(len(full))
    full = full[order]
    is_equal = (full[1:] == full[:-1]) & (full[1:] >= 0)
    common = np.logical_and.accumulate(is_equal, axis=1).sum(axis=1)

    nodes = []
    stack = [_Node(0)]
    for position, request in enumerate(order):
        # The request goes to the deeper of the two prefixes that it has in common with its
        # neighbours.
        before = int(common[position - 1]) if position > 0 else 0
        after = int(common[position]) if position + 1 < len(order) else 0
        _close_deeper_nodes(stack, nodes, before)
        if after > stack[-1].depth:
            stack.append(_Node(after))
        stack[-1].requests.append(int(request))
    _close_deeper_nodes(stack, nodes, 0)
    return [*nodes, stack[0]]


def _close_deeper_nodes(stack, nodes, depth):
    """Takes the nodes deeper than `depth` off the stack and hangs each under its parent."""
    while stack[-1].depth > depth:
        node = stack.pop()
        if stack[-1].depth < depth:
            stack.append(_Node(depth))
        stack[-1].children.append(node)
        nodes.append(node)


def _choose_groups(block_tables, num_full_blocks):
    """List of (number of shared blocks, members) for which the fewest blocks are read.

    Every request belongs to the deepest chosen node above it: one that did not would save more by
    moving there. So the blocks read are: sum of the chosen nodes' depths, minus, for each request,
    the depth of the deepest chosen node above it (plus the lengths, which no choice changes). The
    best choice below a node depends on what is above it only through the depth of its deepest
    chosen ancestor.
    """
    nodes = _prefix_tree(block_tables, num_full_blocks)
    parents = {id(child): node for node in nodes for child in node.children}

    # (node, depth of the deepest chosen ancestor) -> (blocks read, groups, is the node chosen)
    best = {}
    for node in nodes:
        ancestor_depths = {0}
        ancestor = parents.get(id(node))
        while ancestor is not None:
            ancestor_depths.add(ancestor.depth)
            ancestor = parents.get(id(ancestor))
        is_chosen_cost = _cost_below(node, node.depth, best)
        chosen = (is_chosen_cost[0] + node.depth, is_chosen_cost[1] + 1, True)
        for depth in ancestor_depths:
            skipped = (*_cost_below(node, depth, best), False)
            best[id(node), depth] = skipped if node.depth == 0 else min(skipped, chosen)

    groups = []
    pending = [(nodes[-1], 0, None)]
    while pending:
        node, depth, members = pending.pop()
        if best[id(node), depth][2]:
            depth, members = node.depth, []
            groups.append((depth, members))
        if members is not None:
            members.extend(node.requests)
        pending.extend((child, depth, members) for child in node.children)
    return [(depth, sorted(members)) for depth, members in groups]


def _cost_below(node, depth, best):
    """(blocks read, groups) below a node under which `depth` blocks are shared already."""
    costs = [best[id(child), depth] for child in node.children]
    blocks = sum(cost[0] for cost in costs) - depth * len(node.requests)
    return blocks, sum(cost[1] for cost in costs)
