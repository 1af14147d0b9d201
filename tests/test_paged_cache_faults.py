# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""PagedKVCache when something raises inside it: at every line of every call, all or nothing.

A tracer raises MemoryError before the n-th line of the cache's two files that runs, for every n
until the call gets through. Afterwards the cache is as it was, or as the whole call leaves it; a
call that comes next works as if nothing had happened.
"""

import copy
import sys

import numpy as np
import pytest

from mindspore_relay import _block_owners, paged_cache
from mindspore_relay.paged_cache import OutOfBlocksError, PagedKVCache


class InjectedError(MemoryError):
    pass


class FaultAtLine:
    """Raises InjectedError before the n-th line of the two files that runs inside `with`."""

    def __init__(self, number):
        self.num_left = number

    def __enter__(self):
        self._tracer = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(self._tracer)

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename not in (paged_cache.__file__, _block_owners.__file__):
            return None
        if event == "line":
            self.num_left -= 1
            if self.num_left == 0:
                raise InjectedError
        return self._trace


def make_cache(num_blocks=12, num_layers=1):
    return PagedKVCache(num_layers, num_blocks, block_size=4, kv_head_num=2, head_size=8)


def filled_cache():
    """Sequences 0 (6 tokens) and 1 to 3, which share them; 1 and 2 have gone on; 4 is alone."""
    cache = make_cache()
    cache.allocate(6)
    for _ in range(3):
        cache.share(0)
    cache.append([1, 2], [1, 3])
    cache.allocate(4)
    return cache


def state_of(cache):
    return copy.deepcopy(
        (
            cache._owners.sequences,
            cache._owners.free_blocks,
            cache._owners.ref_count.tolist(),
            cache._owners.next_seq_id,
        )
    )


def assert_books_balance(cache):
    owners = np.zeros(cache.num_blocks, int)
    for blocks, num_tokens in cache._owners.sequences.values():
        assert len(blocks) == -(-num_tokens // cache.block_size)
        owners[blocks] += 1
    np.testing.assert_array_equal(cache._owners.ref_count, owners)
    assert sorted(cache._owners.free_blocks) == np.flatnonzero(owners == 0).tolist()


CALLS = {
    "allocate": lambda cache: cache.allocate(9),
    "allocate nothing": lambda cache: cache.allocate(),
    "share": lambda cache: cache.share(1),
    "share a part": lambda cache: cache.share(0, 5),
    "append one": lambda cache: cache.append(4, 3),
    "append to several, with copies": lambda cache: cache.append([0, 1, -1, 2, 3, 4], 2),
    "append unequal": lambda cache: cache.append([3, 4, 0], [1, 0, 7]),
    "free one": lambda cache: cache.free(2),
    "free several": lambda cache: cache.free([0, -1, 4, 1]),
    "free all": lambda cache: cache.free([0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_at_any_line_changes_all_or_nothing(name):
    call = CALLS[name]
    done = filled_cache()
    expected = call(done)
    number, num_unchanged = 0, 0
    while True:
        number += 1
        cache = filled_cache()
        before = state_of(cache)
        try:
            with FaultAtLine(number):
                call(cache)
        except InjectedError:
            assert_books_balance(cache)
            if state_of(cache)[:3] == before[:3]:
                num_unchanged += 1
                result = call(cache)
                assert repr(result) == repr(expected)
            assert state_of(cache)[:3] == state_of(done)[:3], number
            continue
        break
    assert state_of(cache) == state_of(done)
    # Only the few lines after the last assignment may leave it done.
    assert number - 1 - num_unchanged <= 4 < num_unchanged


def test_the_tracer_meets_every_line():
    """The test above would pass if nothing were raised: here it is seen to raise inside."""
    cache = filled_cache()
    with pytest.raises(InjectedError), FaultAtLine(3):
        cache.append([0, 1], 1)


def test_out_of_blocks_in_the_middle_of_several_requests():
    """Room for some of them, none of them grows; a smaller batch then gets what there is."""
    cache = make_cache(num_blocks=6)
    seq_ids = [cache.allocate(4) for _ in range(4)]
    before = state_of(cache)
    with pytest.raises(OutOfBlocksError, match="4 free blocks are needed, 2 of 6 are free"):
        cache.append(seq_ids, 1)
    assert state_of(cache) == before
    cache.append(seq_ids[:2], 1)
    assert cache.num_free_blocks == 0
    assert_books_balance(cache)


@pytest.mark.parametrize("number", range(1, 5))
def test_memory_ends_while_the_tensors_are_made(monkeypatch, number):
    """No layer is kept, so that the call can be made again."""
    cache = make_cache(num_layers=2)
    num_calls = 0

    def zeros(*args, **kwargs):
        nonlocal num_calls
        num_calls += 1
        if num_calls == number:
            raise MemoryError
        return real_zeros(*args, **kwargs)

    real_zeros = np.zeros
    monkeypatch.setattr(paged_cache.np, "zeros", zeros)
    with pytest.raises(MemoryError):
        cache.create_tensors()
    assert cache.key_caches == [] and cache.value_caches == []
    monkeypatch.undo()
    cache.create_tensors()
    assert len(cache.key_caches) == len(cache.value_caches) == 2


@pytest.mark.parametrize("number", range(1, 5))
def test_a_copy_that_fails_in_any_layer_loses_nothing(monkeypatch, number):
    """The copies that were made lie in blocks that are still free; the sequences read as before."""
    cache = make_cache(num_layers=2)
    cache.create_tensors()
    parent = cache.allocate(6)
    children = [cache.share(parent) for _ in range(3)]
    parameters = [*cache.key_caches, *cache.value_caches]
    for parameter in parameters:
        parameter.asnumpy()[...] = np.random.default_rng(0).standard_normal((12, 4, 2, 8))
    used = cache.block_tables(parent)[0]
    contents = [parameter.asnumpy()[used].copy() for parameter in parameters]
    before = state_of(cache)
    failing, real_asnumpy = parameters[number - 1], type(parameters[0]).asnumpy

    def asnumpy(parameter):
        if parameter is failing:
            raise MemoryError
        return real_asnumpy(parameter)

    monkeypatch.setattr(type(failing), "asnumpy", asnumpy)
    with pytest.raises(MemoryError):
        cache.append(children, 1)
    monkeypatch.undo()
    assert state_of(cache) == before
    for parameter, content in zip(parameters, contents, strict=True):
        np.testing.assert_array_equal(parameter.asnumpy()[used], content)
    assert len(cache.append(children, 1).block_copies) == 3


def test_a_refused_allocation_of_numpy_is_such_a_fault(monkeypatch):
    """The slots of the new tokens are an array as long as they are many."""
    cache = filled_cache()
    before = state_of(cache)

    def arange(*_):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(paged_cache.np, "arange", arange)
    with pytest.raises(MemoryError, match="Unable to allocate"):
        cache.append([0, 1, 2], 2)
    assert state_of(cache) == before
