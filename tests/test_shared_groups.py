# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""find_shared_groups: valid groups, the fewest blocks read, and clear errors."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindspore_relay import reference, shared_groups
from mindspore_relay.shared_groups import find_shared_groups

INT32_MIN = np.iinfo(np.int32).min


def groups_of(tables, kv_seq_len, block_size=4):
    """find_shared_groups of rows of different lengths, padded with -1; checked to be valid."""
    width = max(map(len, tables), default=0)
    padded = np.full((len(tables), width), -1, np.int32)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table)] = table
    groups = find_shared_groups(padded, kv_seq_len, block_size)
    assert_valid(groups, padded, kv_seq_len, block_size)
    return groups


def assert_valid(groups, block_tables, kv_seq_len, block_size):
    """Shared plus private blocks are each request's blocks; shapes, types and padding are right."""
    num_groups = len(groups.kv_share_len)
    assert all(array.dtype == np.int32 for array in groups)
    assert groups.share_block_tables.shape == (num_groups, block_tables.shape[1])
    assert groups.block_tables.shape == block_tables.shape
    assert (groups.kv_share_len % block_size == 0).all() and (groups.kv_share_len > 0).all()
    for b, num_keys in enumerate(kv_seq_len):
        group = groups.kv_share_map[b]
        num_shared = groups.kv_share_len[group] // block_size if group >= 0 else 0
        assert num_shared * block_size <= num_keys
        shared = groups.share_block_tables[group][:num_shared] if group >= 0 else []
        num_private = -(-int(num_keys) // block_size) - num_shared
        private = groups.block_tables[b][:num_private]
        expected = block_tables[b][: num_shared + num_private]
        np.testing.assert_array_equal(np.concatenate([shared, private]), expected)
        assert (groups.block_tables[b][num_private:] == -1).all()
    for group, length in enumerate(groups.kv_share_len):
        assert (groups.kv_share_map == group).sum() >= 2
        assert (groups.share_block_tables[group][length // block_size :] == -1).all()


def num_blocks_read(groups, kv_seq_len, block_size):
    """Blocks that one decode step reads: each group's once, each request's private ones."""
    shared = np.append(groups.kv_share_len, 0)[groups.kv_share_map]
    private = -(-(np.asarray(kv_seq_len) - shared) // block_size)
    return int(private.sum() + groups.kv_share_len.sum() // block_size)


# ---- examples ------------------------------------------------------------------------------------


def test_only_whole_blocks_are_shared():
    """Request 1 fills one token of the common block 3: the block stays private."""
    groups = groups_of([[7, 2, 3], [7, 2, 3]], [12, 9])
    np.testing.assert_array_equal(groups.kv_share_len, [8])
    np.testing.assert_array_equal(groups.kv_share_map, [0, 0])
    np.testing.assert_array_equal(groups.block_tables, [[3, -1, -1], [3, -1, -1]])


def test_requests_may_be_shared_to_the_end():
    groups = groups_of([[7, 2], [7, 2, 5], [7, 2]], [8, 9, 8])
    np.testing.assert_array_equal(groups.kv_share_len, [8])
    np.testing.assert_array_equal(groups.block_tables, [[-1] * 3, [5, -1, -1], [-1] * 3])


@pytest.mark.parametrize("first, second", [(9, 4), (4, 9)])
def test_interleaved_groups_are_numbered_by_first_member(first, second):
    tables = [[first, 1], [second, 2], [first, 3], [8, 5], [second, 6], [first, 7]]
    groups = groups_of(tables, [6] * 6)
    np.testing.assert_array_equal(groups.kv_share_map, [0, 1, 0, -1, 1, 0])
    np.testing.assert_array_equal(groups.share_block_tables, [[first, -1], [second, -1]])


def test_same_blocks_in_another_place_are_not_shared():
    groups = groups_of([[1, 2, 3], [2, 1, 3], [3, 2, 1]], [12] * 3)
    np.testing.assert_array_equal(groups.kv_share_map, [-1] * 3)
    assert groups.share_block_tables.shape == (0, 3)


@pytest.mark.parametrize(
    "num_in_deep, deep, expected_len, expected_map",
    [
        # Two of six go 1 block deeper: leaving the others would cost 4 more blocks than it saves.
        (2, 1, [8], [0] * 6),
        # Four of six go 8 blocks deeper: as a group of their own they read 10 + (2 + 4) blocks.
        (4, 8, [8, 40], [0, 0, 1, 1, 1, 1]),
    ],
)
def test_nested_prefixes(num_in_deep, deep, expected_len, expected_map):
    """All six requests start with blocks 1, 2; the last few have `deep` more in common."""
    tables = []
    for b in range(6):
        is_deep = b >= 6 - num_in_deep
        tables.append([1, 2, *(range(10, 10 + deep) if is_deep else []), 100 + b])
    groups = groups_of(tables, [4 * len(t) - 1 for t in tables])
    np.testing.assert_array_equal(groups.kv_share_len, expected_len)
    np.testing.assert_array_equal(groups.kv_share_map, expected_map)


def test_of_equal_groupings_the_one_with_fewer_groups():
    """Block 1 for all, then four private blocks: 5. Or 1, 2 for a pair, 1 for the others: 2 + 3."""
    groups = groups_of([[1, 2], [1, 2], [1, 3], [1, 4]], [8] * 4)
    assert num_blocks_read(groups, [8] * 4, 4) == 5
    np.testing.assert_array_equal(groups.kv_share_len, [4])


def test_unused_entries_are_not_looked_at():
    tables = np.array([[5, 6, 99], [5, INT32_MIN, 2**31 - 1], [5, -1, -1]])
    groups = find_shared_groups(tables, [5, 4, 4], 4)
    assert_valid(groups, tables, [5, 4, 4], 4)
    np.testing.assert_array_equal(groups.kv_share_map, [0, 0, 0])
    np.testing.assert_array_equal(groups.block_tables, [[6, -1, -1], [-1] * 3, [-1] * 3])


@pytest.mark.parametrize("padding", [-(2**40), 2**31, 2**63 - 1])
def test_unused_entries_may_be_outside_int32(padding):
    groups = find_shared_groups([[5, 2**31 - 1, padding], [5, padding, padding]], [8, 4], 4)
    np.testing.assert_array_equal(groups.share_block_tables, [[5, -1, -1]])
    np.testing.assert_array_equal(groups.block_tables, [[2**31 - 1, -1, -1], [-1] * 3])


def test_small_int_types_do_not_wrap():
    """3 blocks of np.uint8(100) tokens."""
    tables = np.array([[1, 2, 3], [1, 2, 3]], np.uint8)
    groups = find_shared_groups(tables, [300, 300], np.uint8(100))
    np.testing.assert_array_equal(groups.kv_share_len, [300])


def test_no_requests_as_an_empty_list():
    groups = find_shared_groups([], [], 16)
    expected = find_shared_groups(np.zeros((0, 4)), [], 16)
    assert [array.dtype for array in groups] == [array.dtype for array in expected]
    assert [array.shape for array in groups] == [(0,), (0,), (0, 0), (0, 0)]
    assert [array.shape for array in expected] == [(0,), (0,), (0, 4), (0, 4)]


@pytest.mark.parametrize(
    "tables, kv_seq_len",
    [
        (np.zeros((0, 0), np.int32), []),
        (np.zeros((0, 5), np.int32), []),
        (np.zeros((3, 0), np.int32), [0, 0, 0]),
        (np.full((3, 2), -1), [0, 0, 0]),
        (np.array([[1, 1]]), [8]),
        (np.array([[1, 2], [1, 2]]), [3, 3]),
    ],
)
def test_nothing_to_share(tables, kv_seq_len):
    groups = find_shared_groups(tables, np.array(kv_seq_len, np.int32), 4)
    assert_valid(groups, tables, kv_seq_len, 4)
    assert (groups.kv_share_map == -1).all() and len(groups.kv_share_len) == 0


def test_padded_to_a_fixed_number_of_groups():
    groups = groups_of([[9, 1], [9, 2]], [8, 8])
    padded = groups.padded(3)
    np.testing.assert_array_equal(padded.kv_share_len, [4, 0, 0])
    np.testing.assert_array_equal(padded.share_block_tables, [[9, -1], [-1, -1], [-1, -1]])
    assert padded.kv_share_len.dtype == padded.share_block_tables.dtype == np.int32
    with pytest.raises(ValueError, match="num_groups must be at least 1, .* got 0"):
        groups.padded(0)


# ---- the fewest blocks ---------------------------------------------------------------------------


def fewest_blocks(tables, num_full, num_blocks):
    """(blocks read, number of groups), by trying every partition of the requests."""
    best = None

    def common(members):
        rows = [tables[b][: num_full[b]] for b in members]
        return next(
            (i for i in range(min(map(len, rows))) if len({row[i] for row in rows}) > 1),
            min(map(len, rows)),
        )

    def place(request, parts):
        nonlocal best
        if request == len(tables):
            saved = [(len(p) - 1) * common(p) for p in parts]
            candidate = (sum(num_blocks) - sum(saved), sum(s > 0 for s in saved))
            best = candidate if best is None else min(best, candidate)
            return
        for i in range(len(parts)):
            place(request + 1, [*parts[:i], [*parts[i], request], *parts[i + 1 :]])
        place(request + 1, [*parts, [request]])

    place(0, [])
    return best


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), max_size=6), st.integers(1, 4)),
        min_size=1,
        max_size=6,
    )
)
def test_fewest_blocks_are_read(requests):
    """Block ids 0 and 1 only: nearly every pair of requests has something in common."""
    tables = [blocks for blocks, _ in requests]
    kv_seq_len = [max(4 * len(blocks) - 4 + last, 0) if blocks else 0 for blocks, last in requests]
    num_full = [n // 4 for n in kv_seq_len]
    groups = groups_of(tables, kv_seq_len)
    found = (num_blocks_read(groups, kv_seq_len, 4), len(groups.kv_share_len))
    assert found == fewest_blocks(tables, num_full, list(map(len, tables)))


def test_many_requests_in_a_chain_of_prefixes():
    """Request b is the beginning of request b + 1: the deepest tree there is."""
    tables = [list(range(b + 1)) for b in range(300)]
    groups = groups_of(tables, [4 * len(t) for t in tables])
    assert num_blocks_read(groups, [4 * len(t) for t in tables], 4) < sum(map(len, tables)) // 4


# ---- with the operator ---------------------------------------------------------------------------


def test_groups_give_what_the_whole_tables_give():
    random = np.random.default_rng(0)
    key, value = random.standard_normal((2, 12, 4, 2, 8))
    query = random.standard_normal((5, 4, 8))
    tables = np.array([[3, 7, 1], [3, 7, 2], [5, 3, 7], [3, 7, -1], [5, -1, -1]])
    kv_seq_len = [11, 9, 12, 8, 4]
    groups = find_shared_groups(tables, kv_seq_len, 4)
    assert len(groups.kv_share_len) == 2
    kwargs = {"head_num": 4, "kv_head_num": 2, "return_lse": True}
    common = (query, key, value, None, None, None, [1] * 5, kv_seq_len)
    whole = reference.relay_attention(*common, [-1] * 5, None, block_tables=tables, **kwargs)
    found = reference.relay_attention(
        *common,
        groups.kv_share_map,
        groups.kv_share_len,
        block_tables=groups.block_tables,
        share_block_tables=groups.share_block_tables,
        **kwargs,
    )
    for one, other in zip(whole, found, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tables, kv_seq_len, block_size, message",
    [
        ([[0, 1]], [9], 4, r"kv_seq_len\[0\] must be .* between 0 and .* 2 \* 4, got 9"),
        ([[0], [1]], [4, -1], 4, r"kv_seq_len\[1\] must be .* between 0 and .*, got -1"),
        ([[0, 1], [2, -1]], [8, 5], 4, r"block_tables\[1\]\[1\] .*kv_seq_len\[1\]=5 .*got -1"),
        (
            [[0, 1]],
            [8, 8],
            4,
            r"kv_seq_len must have one entry per row of block_tables \(1\), got 2",
        ),
        ([0, 1], [8], 4, r"block_tables must have rank 2, got shape \(2,\)"),
        ([[0, 1]], 8, 4, r"kv_seq_len must have rank 1, got shape \(\)"),
        ([[0.0, 1.0]], [8], 4, "block_tables must hold ints, got float64"),
        ([[0, 1]], [8], 0, "block_size must be at least 1 .*, got 0"),
        ([[0, 1]], [8], 2**31, r"block_size must be .* below 2\*\*31, got 2147483648"),
        ([[0]], [2**31], 2**31 - 1, r"kv_seq_len\[0\] must be .*, got 2147483648"),
        ([[0, 0]], [2**31], 2**30, r"kv_seq_len\[0\] must be below 2\*\*31 .*, got 2147483648"),
        (
            [[0]],
            np.array([2**64 - 1], np.uint64),
            4,
            r"kv_seq_len\[0\] must be .*, got 18446744073709551615",
        ),
    ],
)
def test_refuses(tables, kv_seq_len, block_size, message):
    with pytest.raises(ValueError, match=f"find_shared_groups: {message}"):
        find_shared_groups(tables, kv_seq_len, block_size)


@pytest.mark.parametrize(
    "block, dtype",
    [
        (2**32 + 5, np.int64),
        (2**31, np.int64),
        (2**32 - 1, np.uint32),
        (2**64 - 1, np.uint64),
        (2**63 + 5, np.uint64),
        (-1, np.int8),
        (-(2**32) + 5, np.int64),
    ],
)
def test_refuses_block_ids_outside_int32(block, dtype):
    tables = np.array([[0, 1], [2, block]], dtype)
    message = rf"find_shared_groups: block_tables\[1\]\[1\] must be .*, got {block}$"
    with pytest.raises(ValueError, match=message):
        find_shared_groups(tables, [2, 2], 1)


@pytest.mark.parametrize("block_size", [2.0, "2", None, np.array([2, 2])])
def test_refuses_a_block_size_that_is_no_int(block_size):
    with pytest.raises(TypeError, match="find_shared_groups: block_size must be an int, got "):
        find_shared_groups([[0, 1]], [2], block_size)


def test_examples():
    result = doctest.testmod(shared_groups)
    assert result.attempted > 0 and result.failed == 0
