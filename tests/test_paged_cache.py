# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""PagedKVCache: who owns which block, copies before writes, and errors that change nothing."""

import copy
import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindspore_relay import paged_cache, reference
from mindspore_relay.paged_cache import OutOfBlocksError, PagedKVCache


def make_cache(num_blocks=8, block_size=4, **kwargs):
    kwargs = {"num_layers": 2, "kv_head_num": 2, "head_size": 8, **kwargs}
    return PagedKVCache(num_blocks=num_blocks, block_size=block_size, **kwargs)


def blocks_of(cache, seq_id):
    return [int(block) for block in cache.block_tables(seq_id)[0]]


# ---- allocate, append, share, free ---------------------------------------------------------------


def test_append_gives_slots_in_order():
    cache = make_cache()
    a, b = cache.allocate(), cache.allocate(3)
    assert cache.num_free_blocks == 7
    result = cache.append([a, b], [6, 2])
    block_0, block_1 = blocks_of(cache, a)
    expected = [4 * block_0 + i for i in range(4)] + [4 * block_1, 4 * block_1 + 1]
    first, second = blocks_of(cache, b)
    expected += [4 * first + 3, 4 * second]
    np.testing.assert_array_equal(result.slot_mapping, expected)
    assert result.slot_mapping.dtype == np.int32
    assert result.block_copies.shape == (0, 2)
    np.testing.assert_array_equal(cache.kv_seq_len([a, b, -1]), [6, 5, 0])
    np.testing.assert_array_equal(cache.slot_mapping(a, 2, 5), expected[2:5])
    np.testing.assert_array_equal(
        cache.slot_mapping(b), [4 * first + i for i in range(4)] + expected[7:]
    )


def test_a_shared_sequence_owns_the_same_blocks():
    cache = make_cache()
    prefix = cache.allocate(10)
    request = cache.share(prefix)
    beginning = cache.share(prefix, 5)
    assert blocks_of(cache, request) == blocks_of(cache, prefix)
    assert blocks_of(cache, beginning) == blocks_of(cache, prefix)[:2]
    assert [cache.ref_count(b) for b in blocks_of(cache, prefix)] == [3, 3, 2]
    assert cache.num_free_blocks == 5
    np.testing.assert_array_equal(cache.kv_seq_len([prefix, request, beginning]), [10, 10, 5])


def test_appending_to_a_common_partial_block_copies_it():
    cache = make_cache()
    prefix = cache.allocate(6)
    requests = [cache.share(prefix) for _ in range(2)]
    old = blocks_of(cache, prefix)
    assert cache.num_blocks_needed(requests, 1) == 2
    result = cache.append(requests, 1)
    for request, (source, destination), slot in zip(
        requests, result.block_copies, result.slot_mapping, strict=True
    ):
        assert source == old[1]
        assert blocks_of(cache, request) == [old[0], destination]
        assert slot == 4 * destination + 2
    assert blocks_of(cache, prefix) == old
    assert cache.ref_count(old[0]) == 3 and cache.ref_count(old[1]) == 1
    assert cache.append(prefix, 1).block_copies.size == 0  # nobody else owns it any more


def test_the_last_owner_writes_in_place():
    """Three owners, all append in one call: two copies are enough."""
    cache = make_cache()
    prefix = cache.allocate(6)
    owners = [prefix, cache.share(prefix), cache.share(prefix)]
    assert cache.num_blocks_needed(owners, 1) == 2
    result = cache.append(owners, 1)
    assert len(result.block_copies) == 2
    assert len({blocks_of(cache, owner)[1] for owner in owners}) == 3


def test_a_full_common_block_is_not_copied():
    cache = make_cache()
    prefix = cache.allocate(8)
    request = cache.share(prefix)
    result = cache.append(request, 1)
    assert len(result.block_copies) == 0
    assert blocks_of(cache, request)[:2] == blocks_of(cache, prefix)


def test_the_owner_of_the_longer_text_keeps_the_block():
    """A beginning that ends inside a full block copies it; the whole text does not."""
    cache = make_cache()
    whole = cache.allocate(8)
    beginning = cache.share(whole, 6)
    assert len(cache.append(whole, 1).block_copies) == 0
    result = cache.append(beginning, 1)
    assert result.block_copies[0, 0] == blocks_of(cache, whole)[1]


def test_appending_nothing_copies_nothing():
    cache = make_cache()
    request = cache.share(cache.allocate(6))
    result = cache.append(request, 0)
    assert result.slot_mapping.size == 0 and result.block_copies.size == 0
    assert cache.append([], 1).slot_mapping.shape == (0,)


def test_idle_places():
    cache = make_cache()
    a = cache.allocate(3)
    result = cache.append([-1, a, -1], [1, 1, 2])
    np.testing.assert_array_equal(result.slot_mapping, [-1, 4 * blocks_of(cache, a)[0] + 3, -1, -1])
    tables = cache.block_tables([-1, a, -1], max_blocks=2)
    np.testing.assert_array_equal(tables, [[-1, -1], [blocks_of(cache, a)[0], -1], [-1, -1]])
    cache.free([-1, a])
    assert cache.num_free_blocks == 8


def test_free_returns_a_block_when_its_last_owner_is_gone():
    cache = make_cache()
    prefix = cache.allocate(8)
    request = cache.share(prefix)
    cache.append(request, 5)
    cache.free(prefix)
    assert cache.num_free_blocks == 4
    cache.free(request)
    assert cache.num_free_blocks == 8
    assert all(cache.ref_count(block) == 0 for block in range(8))


def test_groups_of_sequences():
    """A prefix of 2.5 blocks: two whole blocks are shared, the copied one is private."""
    cache = make_cache(num_blocks=16)
    prefix = cache.allocate(10)
    requests = [cache.share(prefix) for _ in range(3)]
    cache.append(requests, 2)
    groups = cache.find_shared_groups([*requests, -1], max_blocks=4)
    np.testing.assert_array_equal(groups.kv_share_map, [0, 0, 0, -1])
    np.testing.assert_array_equal(groups.kv_share_len, [8])
    np.testing.assert_array_equal(groups.share_block_tables[0, :2], blocks_of(cache, prefix)[:2])
    last = [[blocks_of(cache, r)[2], -1, -1, -1] for r in requests]
    np.testing.assert_array_equal(groups.block_tables, [*last, [-1] * 4])


# ---- errors change nothing -----------------------------------------------------------------------


def state_of(cache):
    tables = {s: (list(q.blocks), q.num_tokens) for s, q in cache._owners.sequences.items()}
    return copy.deepcopy((tables, cache._owners.free_blocks, cache._owners.ref_count.tolist()))


def test_running_out_of_blocks_loses_nothing():
    cache = make_cache(num_blocks=5)
    prefix = cache.allocate(6)
    requests = [cache.share(prefix) for _ in range(2)]
    cache.append(requests, 1)  # 4 blocks in use, 1 free
    before = state_of(cache)
    with pytest.raises(
        OutOfBlocksError, match="2 free blocks are needed, 1 of 5 are free"
    ) as error:
        cache.append(requests, 2)
    assert (error.value.needed_blocks, error.value.free_blocks) == (2, 1)
    with pytest.raises(OutOfBlocksError):
        cache.allocate(5)
    assert state_of(cache) == before
    cache.free(requests[0])
    cache.append(requests[1], 2)


def test_a_copy_that_fails_loses_nothing(monkeypatch):
    cache = make_cache(num_layers=1)
    cache.create_tensors()
    request = cache.share(cache.allocate(6))
    before = state_of(cache)

    def fail(block_copies):
        raise MemoryError

    monkeypatch.setattr(cache, "copy_blocks", fail)
    with pytest.raises(MemoryError):
        cache.append(request, 1)
    assert state_of(cache) == before


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda c: c.append([0, 99], 1), KeyError, "there is no sequence 99"),
        (lambda c: c.append([0, 1, 0], 1), ValueError, "sequence 0 is named twice"),
        (lambda c: c.append([0, 1], [1, -1]), ValueError, "num_tokens must be 0 or more, got -1"),
        (
            lambda c: c.append([0, 1], [1, 1, 1]),
            ValueError,
            r"per sequence \(2\), got shape \(3,\)",
        ),
        (lambda c: c.free([0, 99]), KeyError, "there is no sequence 99"),
        (lambda c: c.free([0, 0]), ValueError, "sequence 0 is named twice"),
        (lambda c: c.share(99), KeyError, "there is no sequence 99"),
        (lambda c: c.share(0, 7), ValueError, "at most 6, the length of sequence 0, got 7"),
        (lambda c: c.share(0, -1), ValueError, "num_tokens must be 0 or more, got -1"),
        (lambda c: c.allocate(-1), ValueError, "num_tokens must be 0 or more, got -1"),
        (
            lambda c: c.block_tables([1, 0], 1),
            ValueError,
            "sequence 0 has 2 blocks, .*max_blocks=1",
        ),
        (lambda c: c.slot_mapping(0, 2, 7), ValueError, "within 0 and 6, .* begin=2, end=7"),
    ],
)
def test_misuse_changes_nothing(call, error, message):
    cache = make_cache()
    cache.allocate(6)
    cache.allocate(3)
    before = state_of(cache)
    with pytest.raises(error, match=message):
        call(cache)
    assert state_of(cache) == before


def test_a_freed_sequence_is_gone():
    cache = make_cache()
    a = cache.allocate(6)
    cache.free(a)
    with pytest.raises(KeyError):
        cache.append(a, 1)
    assert cache.allocate() != a


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_blocks": 0}, "num_blocks must be an int of at least 1, got 0"),
        ({"head_size": 1.5}, "head_size must be an int of at least 1, got 1.5"),
        ({"block_size": 513}, "block_size must be at most 512, got 513"),
        ({"dtype": "float64"}, "dtype must be one of float16, bfloat16, float32, got 'float64'"),
        ({"num_blocks": 2**29}, "num_blocks \\* block_size must be at most 2147483647"),
    ],
)
def test_constructor_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        make_cache(**changes)


# ---- any order of calls --------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "share", "append", "append_all", "free"]),
        st.integers(0, 5),
        st.integers(0, 9),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STEPS)
def test_every_sequence_reads_what_was_written_to_it(steps):
    """A model of the memory: each token is a number; slots are written, blocks are copied."""
    cache = make_cache(num_blocks=7)
    memory = np.full((7, 4), -1)
    texts = {}
    next_token = iter(range(10**6))

    def append(seq_ids, num_tokens):
        result = cache.append(seq_ids, num_tokens)
        for source, destination in result.block_copies:
            memory[destination] = memory[source]
        tokens = [next(next_token) for _ in result.slot_mapping]
        assert len(set(result.slot_mapping.tolist())) == len(tokens)
        memory.reshape(-1)[result.slot_mapping] = tokens
        for i, seq_id in enumerate(seq_ids):
            texts[seq_id] = texts[seq_id] + tokens[i * num_tokens : (i + 1) * num_tokens]

    for step, which, num_tokens in steps:
        seq_ids = list(texts)
        chosen = seq_ids[which % len(seq_ids)] if seq_ids else None
        before = state_of(cache)
        try:
            if step == "allocate":
                texts[cache.allocate()] = []
            elif chosen is None:
                continue
            elif step == "share":
                num_shared = min(num_tokens, len(texts[chosen]))
                texts[cache.share(chosen, num_shared)] = texts[chosen][:num_shared]
            elif step == "free":
                cache.free(chosen)
                del texts[chosen]
            else:
                append(seq_ids if step == "append_all" else [chosen], num_tokens % 4)
        except OutOfBlocksError:
            assert state_of(cache) == before
        check(cache, memory, texts)


def check(cache, memory, texts):
    owners = np.zeros(cache.num_blocks, int)
    for seq_id, text in texts.items():
        assert memory.reshape(-1)[cache.slot_mapping(seq_id)].tolist() == text
        blocks = blocks_of(cache, seq_id)
        assert len(blocks) == -(-len(text) // cache.block_size)
        owners[blocks] += 1
    assert [cache.ref_count(block) for block in range(cache.num_blocks)] == owners.tolist()
    assert cache.num_free_blocks == (owners == 0).sum()


# ---- with the operators --------------------------------------------------------------------------


def test_cache_written_by_slots_is_read_by_tables():
    """append, reshape_and_cache and prefix_encoder agree on where a token is."""
    random = np.random.default_rng(0)
    cache = make_cache(num_blocks=16)
    caches = [np.full((16, 4, 2, 8), np.nan, np.float32) for _ in range(2)]
    key, value, query = random.standard_normal((3, 11, 2, 8), dtype=np.float32)
    prefix = cache.allocate()
    reference.reshape_and_cache(key[:6], value[:6], *caches, cache.append(prefix, 6).slot_mapping)
    request = cache.share(prefix)
    result = cache.append(request, 5)
    for array in caches:
        array[result.block_copies[:, 1]] = array[result.block_copies[:, 0]]
    reference.reshape_and_cache(key[6:], value[6:], *caches, result.slot_mapping)
    kwargs = {"mask_type": 9, "head_num": 2}
    tables = cache.block_tables(request)
    lengths = ([5], cache.kv_seq_len(request), None)
    found = reference.prefix_encoder(query[6:], *caches, tables, None, *lengths, **kwargs)
    table = np.zeros((1, 1), int)
    whole = (query, key[None], value[None], table, None, [11], [11], None)
    np.testing.assert_array_equal(found, reference.prefix_encoder(*whole, **kwargs)[6:])


def test_examples():
    result = doctest.testmod(paged_cache)
    assert result.attempted > 0 and result.failed == 0
