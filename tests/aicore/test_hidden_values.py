# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""NaN, infinity and huge numbers in values and keys behind a row's diagonal, on the device.

A row gets nothing of a token that it does not see, and NaN of every NaN that it sees among the
values, in its column only. What an output must be follows from the lengths alone:
`_assert_kept_out` counts which rows see which token, and takes all other elements from the oracle
of the problem with zeros in place of what is not finite.
"""

import dataclasses

import cases
import numpy as np
import pytest
from emulated_device import run_on_device
from numerics import as_rows, assert_attention_close, expect

from mindspore_relay.bfloat16 import from_float, to_float

DTYPES = ("float16", "bfloat16")
SCHEDULE_OF_CORES = {1: 0, 4: 1, 20: 2, 24: 3}
KINDS = ("nan", "inf", "-inf")
HIDDEN = cases.PrefixCase("hidden", (20,), (40,), head_num=4, kv_head_num=2, block_size=16)
MASKS = {name: {"mask_type": kind, "is_mask_3d": is_3d} for name, kind, is_3d in cases.MASKS}

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


# ---- what is put into a cache, and what must come out --------------------------------------------


def _tokens(problem, argument):
    """The tokens of each request, (kv_seq_len, kv_head_num, head_size), float64, from a cache."""
    cache, block_tables = problem.args[argument], problem.args[3]
    tokens = to_float(cache).reshape(*cache.shape[:2], _kv_heads(problem), -1)
    for request, length in enumerate(problem.args[6]):
        blocks = block_tables[request, : -(-length // cache.shape[1])]
        yield tokens[blocks].reshape(-1, *tokens.shape[2:])[:length]


def _kv_heads(problem):
    return problem.kwargs["kv_head_num"] or problem.kwargs["head_num"]


def _put(problem, argument, request, key, number, kv_head=slice(None), element=slice(None)):
    """Writes a number into a token of a cache of the problem, in place."""
    cache, block_tables = problem.args[argument], problem.args[3]
    tokens = cache.reshape(*cache.shape[:2], _kv_heads(problem), -1)
    block = block_tables[request, key // cache.shape[1]]
    bits = from_float(np.array([number]), problem.dtype)[0]
    tokens[block, key % cache.shape[1], kv_head, element] = bits


def _put_anywhere(problem, random, share=0.3, argument=2):
    """NaN and infinities in some elements of the new tokens of all requests."""
    for request, (rows, length) in enumerate(zip(*problem.args[5:7], strict=True)):
        for key in range(length - rows, length):
            if random.random() > share:
                continue
            kv_head = random.integers(_kv_heads(problem))
            head_size = problem.args[argument].size // (
                np.prod(problem.args[argument].shape[:2]) * _kv_heads(problem)
            )
            is_whole = random.random() < 0.2
            element = slice(None) if is_whole else random.integers(head_size)
            number = float(random.choice(KINDS))
            _put(problem, argument, request, key, number, kv_head, element)


def _cleaned(problem):
    """The problem with 0 for each value that is not finite."""
    value = to_float(problem.args[2])
    args = list(problem.args)
    args[2] = from_float(np.where(np.isfinite(value), value, 0.0), problem.dtype)
    return problem._replace(args=tuple(args))


def _seen(problem, what):
    """Whether a row sees such a value, (tokens, head_num, head_size). what: array -> bool array."""
    head_num = problem.kwargs["head_num"]
    seen = []
    for rows, length, value in zip(*problem.args[5:7], _tokens(problem, 2), strict=True):
        until = np.logical_or.accumulate(what(value), axis=0)[length - rows :]
        seen.append(until.repeat(head_num // _kv_heads(problem), axis=1))
    return np.concatenate(seen)


def _assert_kept_out(problem, name, num_ai_cores=4, schedule_seed=0):
    """Runs the problem; asserts every element of output and lse. Returns the result."""
    expected = expect(_cleaned(problem))
    result = run_on_device(problem, num_ai_cores, schedule_seed)
    output = as_rows(to_float(result.output), expected.lse)
    plus, minus = (_seen(problem, lambda v, n=n: v == n) for n in (np.inf, -np.inf))
    nan = _seen(problem, np.isnan) | (plus & minus)
    np.testing.assert_array_equal(~np.isfinite(output), nan | plus | minus, err_msg=name)
    assert np.isnan(output[nan]).all(), f"{name}: a NaN that a row sees does not reach it"
    # An infinity whose weight rounds to 0 in the 16-bit dtype becomes NaN.
    assert not np.isneginf(output[plus]).any() and not np.isposinf(output[minus]).any(), name
    rest = from_float(np.where(np.isfinite(output), output, expected.output), problem.dtype)
    assert_attention_close(rest.reshape(result.output.shape), expected, name, result.lse)
    return result


# ---- one value of the last token: only the last row sees it --------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix_len", [0, 5, 20, 63, 240, 250, 1100])
def test_value_behind_the_diagonal_does_not_reach_a_row(dtype, kind, prefix_len):
    case = dataclasses.replace(HIDDEN, seq_len=(70,), kv_seq_len=(prefix_len + 70,))
    problem = cases.build(case, dtype)
    _put(problem, 2, 0, prefix_len + 69, float(kind), kv_head=1, element=3)
    result = _assert_kept_out(problem, kind)
    assert np.isfinite(to_float(result.output)[:-1]).all()
    last = to_float(result.output)[-1].reshape(4, 16)
    np.testing.assert_array_equal(last[2:, 3], float(kind))  # query heads 2 and 3
    assert np.isfinite(last).sum() == last.size - 2


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_value_that_every_row_sees_reaches_every_row(dtype, kind):
    problem = cases.build(HIDDEN, dtype)
    _put(problem, 2, 0, 20, float(kind), kv_head=0, element=7)  # the first new token
    result = _assert_kept_out(problem, kind)
    assert (~np.isfinite(to_float(result.output))).sum() == 20 * 2


@each_dtype
def test_value_of_the_prefix_reaches_every_row(dtype):
    problem = cases.build(HIDDEN, dtype)
    _put(problem, 2, 0, 3, np.nan, kv_head=1)
    _put(problem, 2, 0, 39, np.inf, kv_head=0)  # and one behind the diagonals
    result = _assert_kept_out(problem, "prefix")
    assert np.isnan(to_float(result.output)).sum() == 20 * 2 * 16


@each_dtype
def test_whole_token_behind_the_diagonal(dtype):
    """As a model leaves it behind that computes NaN for one token."""
    problem = cases.build(HIDDEN, dtype)
    _put(problem, 2, 0, 31, np.nan)
    result = _assert_kept_out(problem, "token")
    is_nan = np.isnan(to_float(result.output))
    assert is_nan[11:].all() and not is_nan[:11].any()


# ---- many values, everywhere behind the first diagonal -------------------------------------------


@each_dtype
@pytest.mark.parametrize("num_ai_cores", SCHEDULE_OF_CORES)
@pytest.mark.parametrize("mask", MASKS)
def test_values_behind_the_diagonal_of_every_mask(mask, num_ai_cores, dtype):
    case = cases.PrefixCase(
        f"hidden_{mask}", (37, 0, 100, 3), (300, 9, 100, 131), block_size=32, **MASKS[mask]
    )
    problem = cases.build(case, dtype)
    _put_anywhere(problem, np.random.default_rng(num_ai_cores))
    _assert_kept_out(problem, mask, num_ai_cores, SCHEDULE_OF_CORES[num_ai_cores])


SHAPES = (
    *({"head_num": h, "kv_head_num": k} for h, k in ((1, 1), (3, 1), (8, 1), (6, 2), (12, 12))),
    {"head_num": 40, "kv_head_num": 1},  # a strip of rows spans many heads
    {"head_num": 130, "kv_head_num": 1},  # one token per tile: nothing is hidden
    *({"head_size": size} for size in (48, 80, 128, 192, 256)),
    *({"block_size": size} for size in (16, 48, 128, 256, 512)),
    {"is_query_flat": False},
    {"is_kv_flat": True},
)


@each_dtype
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_values_behind_the_diagonal_of_every_shape(changes, dtype):
    case = dataclasses.replace(HIDDEN, seq_len=(70, 18), kv_seq_len=(270, 18), **changes)
    problem = cases.build(case, dtype)
    _put_anywhere(problem, np.random.default_rng(1))
    _assert_kept_out(problem, str(changes))


@each_dtype
@pytest.mark.parametrize("num_ai_cores", SCHEDULE_OF_CORES)
def test_values_behind_the_diagonal_of_a_long_prefill(num_ai_cores, dtype):
    """Units that are cut between cores: some pieces hold hidden keys only for some rows."""
    case = cases.PrefixCase(
        "hidden_long", (300, 130), (700, 1500), head_num=2, kv_head_num=1, head_size=64
    )
    problem = cases.build(case, dtype)
    _put_anywhere(problem, np.random.default_rng(2), share=0.02)
    _assert_kept_out(problem, case.name, num_ai_cores, SCHEDULE_OF_CORES[num_ai_cores])


@each_dtype
def test_value_hidden_from_one_request_and_seen_by_another(dtype):
    """Two requests on the same physical blocks."""
    case = dataclasses.replace(HIDDEN, seq_len=(18, 5, 1), kv_seq_len=(69, 70, 65))
    case = dataclasses.replace(case, num_common_blocks=4)
    problem = cases.build(case, dtype)
    _put(problem, 2, 0, 60, np.nan, kv_head=0)
    result = _assert_kept_out(problem, "common blocks")
    is_nan = np.isnan(to_float(result.output)).any(axis=1)
    np.testing.assert_array_equal(is_nan, [*[False] * 9, *[True] * 15])


@each_dtype
def test_result_with_hidden_values_does_not_depend_on_the_schedule(dtype):
    case = dataclasses.replace(HIDDEN, seq_len=(70, 18), kv_seq_len=(1100, 18))
    problem = cases.build(case, dtype)
    _put_anywhere(problem, np.random.default_rng(3))
    first = run_on_device(problem, 24, schedule_seed=0)
    for seed in (10, 11, 12):
        other = run_on_device(problem, 24, schedule_seed=seed)
        np.testing.assert_array_equal(first.output.view(np.uint16), other.output.view(np.uint16))


# ---- keys, and numbers that are huge but finite --------------------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", MASKS)
def test_key_behind_the_diagonal_does_not_reach_a_row(mask, kind, dtype):
    """More than the contract promises: the scores of hidden keys are overwritten."""
    case = dataclasses.replace(HIDDEN, name=f"hidden_{mask}", **MASKS[mask])
    problem = cases.build(case, dtype)
    expected = expect(problem)
    _put(problem, 1, 0, 39, float(kind))
    output, lse, _ = run_on_device(problem, 4)
    # The last row sees the key: whatever it gets, the others are right.
    output[-1] = from_float(expected.output[-1].reshape(output[-1].shape), dtype)
    lse[-1] = expected.lse[-1]
    assert_attention_close(output, expected, mask, lse)


@each_dtype
def test_huge_values_behind_the_diagonal_do_not_reach_a_row(dtype):
    huge = {"float16": 65504.0, "bfloat16": 3.0e38}[dtype]
    problem = cases.build(HIDDEN, dtype)
    expected = expect(problem)
    _put(problem, 2, 0, 39, huge, kv_head=0)
    _put(problem, 2, 0, 39, -huge, kv_head=1)
    output, lse, counters = run_on_device(problem, 4)
    assert_attention_close(output, expect(problem), "huge", lse)
    output[-1] = from_float(expected.output[-1].reshape(output[-1].shape), dtype)
    assert_attention_close(output, expected, "huge, rows before", lse)
    assert counters["buffers"]["value"]["read"] == counters["buffers"]["key"]["read"]


# ---- cost ----------------------------------------------------------------------------------------


@each_dtype
def test_values_are_read_again_only_where_one_is_not_finite(dtype):
    """So without NaN or infinity a value is read as often as a key."""
    case = dataclasses.replace(HIDDEN, seq_len=(256,), kv_seq_len=(700,), head_num=2, kv_head_num=1)
    problem = cases.build(case, dtype)

    def bytes_read():
        buffers = run_on_device(problem, 4).counters["buffers"]
        return buffers["key"]["read"], buffers["value"]["read"]

    of_keys, of_values = bytes_read()
    assert of_values == of_keys
    _put(problem, 2, 0, 699, np.nan)
    of_keys_now, of_values = bytes_read()
    assert of_keys_now == of_keys
    # The last tile's 64 tokens of two heads, in eight strips: at most two steps of 256 keys each.
    token_bytes = case.head_size * 2
    assert 0 < of_values - of_keys <= 8 * 2 * 256 * token_bytes


@each_dtype
def test_nan_that_no_diagonal_crosses_costs_nothing(dtype):
    """A step of keys that all rows see is not looked at."""
    case = dataclasses.replace(HIDDEN, seq_len=(1, 1), kv_seq_len=(700, 30))
    problem = cases.build(case, dtype)
    _put(problem, 2, 0, 690, np.nan)
    buffers = _assert_kept_out(problem, "one row").counters["buffers"]
    assert buffers["value"]["read"] == buffers["key"]["read"]
