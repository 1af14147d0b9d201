# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Large problems: right, or a clear error, within the memory that is stated.

Memory is measured: the highest RSS of a process of its own, before and after the call. Caches above
2^32 elements are in test_relay_attention.py, test_prefix_encoder.py and test_cache_ops.py.
"""

import pathlib

import numpy as np
import pytest
from case_inputs import Problem
from numerics import assert_attention_close, expect
from sparse_memory import sparse_array

from mindspore_relay import capi, shared_groups
from mindspore_relay.paged_cache import OutOfBlocksError, PagedKVCache

TESTS_DIR = pathlib.Path(__file__).parent
HUGE_BATCH = 4096
HUGE_CONTEXT = 262_144
BLOCK_SIZE = 16


def int32(values):
    return np.ascontiguousarray(values, dtype=np.int32)


def heads_of(head_num, kv_head_num, head_size):
    return {"head_num": head_num, "kv_head_num": kv_head_num, "qk_scale": head_size**-0.5}


def huge_batch(num_private=3):
    """4,096 requests, most over one of three prefixes, in one paged cache of random content."""
    random = np.random.default_rng(0)
    head_num, kv_head_num, head_size = 4, 2, 16
    prefix_len = int32([64, 128, 16])
    kv_share_map = int32(random.integers(-1, 3, HUGE_BATCH))
    kv_seq_len = int32(np.append(prefix_len, 0)[kv_share_map] + num_private)
    num_shared_blocks = int(prefix_len.sum()) // BLOCK_SIZE
    shape = (num_shared_blocks + HUGE_BATCH, BLOCK_SIZE, kv_head_num, head_size)
    caches = [random.standard_normal(shape, np.float32).astype(np.float16) for _ in "kv"]
    share_block_tables = np.full((3, 8), -1, np.int32)
    blocks = iter(range(num_shared_blocks))
    for row, num_keys in zip(share_block_tables, prefix_len, strict=True):
        for i in range(num_keys // BLOCK_SIZE):
            row[i] = next(blocks)
    block_tables = int32(num_shared_blocks + random.permutation(HUGE_BATCH)[:, None])
    query = random.standard_normal((HUGE_BATCH, head_num, head_size)).astype(np.float16)
    ones = np.ones(HUGE_BATCH, np.int32)
    args = (query, *caches, None, None, None, ones, kv_seq_len, kv_share_map, prefix_len)
    tables = {"block_tables": block_tables, "share_block_tables": share_block_tables}
    kwargs = {**tables, **heads_of(head_num, kv_head_num, head_size)}
    return Problem("relay_attention", args, kwargs, "float16")


def one_request(problem, request):
    """The problem of one request of a batch."""
    query, *caches, key_share, value_share, mask, ones, kv_seq_len, kv_share_map, prefix_len = (
        problem.args
    )
    part = slice(request, request + 1)
    lengths = (ones[part], kv_seq_len[part], kv_share_map[part], prefix_len)
    args = (query[part], *caches, key_share, value_share, mask, *lengths)
    kwargs = {**problem.kwargs, "block_tables": problem.kwargs["block_tables"][part]}
    return problem._replace(args=args, kwargs=kwargs)


def test_a_batch_of_4096_requests():
    problem = huge_batch()
    output, lse = capi.relay_attention(*problem.args, **problem.kwargs, return_lse=True)
    requests = np.random.default_rng(1).choice(HUGE_BATCH, 40, replace=False)
    for request in (0, HUGE_BATCH - 1, *requests.tolist()):
        alone = one_request(problem, request)
        part = slice(request, request + 1)
        assert_attention_close(output[part], expect(alone), f"request {request}", lse[part])
        # A request's bits do not depend on who else is in the batch.
        np.testing.assert_array_equal(
            output[part], capi.relay_attention(*alone.args, **alone.kwargs, path="relay")
        )


def test_an_error_deep_in_a_batch_of_4096_requests():
    problem = huge_batch()
    problem.kwargs["block_tables"][4095, 0] = len(problem.args[1])
    with pytest.raises(ValueError, match=r"block_tables\[4095\]\[0\]"):
        capi.relay_attention(*problem.args, **problem.kwargs)
    problem = huge_batch()
    problem.args[7][4000] = -1
    with pytest.raises(ValueError, match=r"kv_seq_len\[4000\]"):
        capi.relay_attention(*problem.args, **problem.kwargs)


def huge_context(operator):
    """One request of 262,144 keys; its keys of head 0 are those of a short period, repeated.

    Attention over equal numbers of each key of the period is attention over the period: so the
    result is known without a loop over 262,144 keys.
    """
    random = np.random.default_rng(2)
    period, head_num, kv_head_num, head_size = 32, 3, 1, 16
    num_blocks = period // BLOCK_SIZE
    shape = (num_blocks + 1, BLOCK_SIZE, kv_head_num, head_size)
    caches = [random.standard_normal(shape, np.float32) for _ in "kv"]
    table = int32(np.arange(HUGE_CONTEXT // BLOCK_SIZE)[None] % num_blocks)
    query = random.standard_normal((1, head_num, head_size)).astype(np.float32)
    heads = heads_of(head_num, kv_head_num, head_size)
    one, length = int32([1]), int32([HUGE_CONTEXT])
    if operator == "prefix_encoder":
        args = (query, *caches, table, None, one, length, None)
        return Problem(operator, args, {"mask_type": 9, **heads}, "float32"), period
    lengths = (one, int32([HUGE_CONTEXT + 7]), int32([0]), length)
    args = (query, *caches, None, None, None, *lengths)
    tables = {"block_tables": int32([[num_blocks]]), "share_block_tables": table}
    return Problem(operator, args, {**tables, **heads}, "float32"), period


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("path", ["relay", "plain"])
def test_relay_attention_over_262144_keys(path, threads, num_threads):
    problem, _ = huge_context("relay_attention")
    num_threads(threads)
    output, lse = capi.relay_attention(*problem.args, **problem.kwargs, path=path, return_lse=True)
    assert_attention_close(output, expect(problem), "262,144 shared and 7 own keys", lse)


@pytest.mark.parametrize("threads", [1, 2])
def test_prefix_encoder_over_262144_keys(threads, num_threads):
    problem, period = huge_context("prefix_encoder")
    num_threads(threads)
    output, lse = capi.prefix_encoder(*problem.args, **problem.kwargs, return_lse=True)
    assert_attention_close(output, expect(problem), "262,144 keys", lse)
    args = list(problem.args)
    args[6] = int32([period])
    short, short_lse = capi.prefix_encoder(*args, **problem.kwargs, return_lse=True)
    np.testing.assert_allclose(output, short, rtol=0, atol=1e-5)
    repeats = np.log(HUGE_CONTEXT / period)
    np.testing.assert_allclose(lse, short_lse + repeats, rtol=0, atol=1e-4)


def test_262145_keys_of_a_table_for_262144_are_an_error():
    problem, _ = huge_context("prefix_encoder")
    problem.args[6][0] += 1
    with pytest.raises(ValueError, match=r"kv_seq_len\[0\]=262145|262145"):
        capi.prefix_encoder(*problem.args, **problem.kwargs)


# Runs a problem of test_limits.py and prints by how much the process grew, in bytes: outputs,
# workspace, plan.
GROWTH = """
import resource, sys
sys.path.insert(0, {tests!r})
import test_limits as limits
from workspace_bound import workspace_bound
from mindspore_relay import _library, capi
_library.set_num_threads(2)
problem = {problem}
operator = getattr(capi, problem.operator)
for cache in problem.args[1:3]:
    cache.sum(dtype="float64")  # touched: their pages count from here on
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
operator(*problem.args, **problem.kwargs)
growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin)
print(growth, workspace_bound(problem, 2))
"""


@pytest.mark.parametrize(
    "problem",
    [
        "limits.huge_batch()",
        "limits.huge_context('relay_attention')[0]",
        "limits.huge_context('prefix_encoder')[0]",
    ],
)
def test_memory_of_a_huge_problem_is_as_stated(problem, run_python):
    result = run_python("-c", GROWTH.format(tests=str(TESTS_DIR), problem=problem), timeout=300)
    assert result.returncode == 0, result.stderr
    growth, bound = map(int, result.stdout.split())
    # Beside the workspace: output, the plan's lists, pages of the program used for the first time.
    assert growth <= bound + (8 << 20), (growth, bound)


def test_the_allocator_with_a_cache_of_more_than_2_to_32_elements():
    """2^17 blocks of 512 tokens: 2^36 elements, and slots up to 2^26."""
    cache = PagedKVCache(1, num_blocks=2**17, block_size=512, kv_head_num=8, head_size=128)
    assert cache.num_blocks * cache.block_size * 8 * 128 > 2**32
    first = cache.allocate(512 * (2**17 - 1))
    result = cache.append(cache.allocate(), 5)
    np.testing.assert_array_equal(result.slot_mapping, 512 * (2**17 - 1) + np.arange(5))
    with pytest.raises(OutOfBlocksError, match="1 free blocks are needed, 0 of 131072 are free"):
        cache.allocate(1)
    cache.free(first)
    assert cache.num_free_blocks == 2**17 - 1


def test_slots_of_such_a_cache_reach_the_right_tokens():
    """The slots of the allocator, by both operators that take them, on sparse memory."""
    num_blocks = 2**32 // (32 * 256) + 2
    cache = PagedKVCache(1, num_blocks, block_size=32, kv_head_num=2, head_size=128)
    memory = [sparse_array((num_blocks, 32, 2, 128), np.float16) for _ in "kv"]
    filler = cache.allocate(32 * (num_blocks - 3))
    slots = cache.append(cache.allocate(), 70).slot_mapping
    assert slots[-1] * 256 >= 2**32
    random = np.random.default_rng(3)
    key, value = random.standard_normal((2, 70, 2, 128)).astype(np.float16)
    capi.reshape_and_cache(key, value, *memory, slots)
    query = random.standard_normal((1, 4, 128)).astype(np.float16)
    tables = cache.block_tables(filler + 1)
    lengths = (int32([1]), int32([70]))
    kwargs = {"mask_type": 9, **heads_of(4, 2, 128)}
    output = capi.prefix_encoder(query, *memory, tables, None, *lengths, None, **kwargs)
    small = (query, [key], [value], [], [], None, int32([1]), int32([70]), int32([-1]), int32([]))
    expected = expect(Problem("relay_attention", small, heads_of(4, 2, 128), "float16"))
    assert_attention_close(output, expected, "behind 2^32 elements")


def test_groups_of_4096_requests_are_found():
    """A second is plenty; a search over pairs of requests would take minutes."""
    tables = np.full((HUGE_BATCH, 40), -1)
    tables[:, :20] = np.arange(20)
    tables[::2, 10:20] = np.arange(20, 30)
    tables[:, 20] = 100 + np.arange(HUGE_BATCH)
    groups = shared_groups.find_shared_groups(tables, np.full(HUGE_BATCH, 330), 16)
    assert sorted(np.bincount(groups.kv_share_map + 1).tolist()) == [0, 2048, 2048]
    np.testing.assert_array_equal(groups.kv_share_len, [320, 320])
