# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""relay_attention: every case of cases.py against the float64 oracle, and what must not matter."""

import mindspore as ms
import numpy as np
import pytest
from capi_harness import Operation, run
from cases import DTYPES, RELAY_CASES, RelayCase, build
from modes import assert_same_bits, mode, run_graph, run_pynative, tensors_of
from numerics import assert_attention_close, expect, expect_case
from sparse_memory import in_large_caches

from mindspore_relay import last_relay_path, reference, relay_attention
from mindspore_relay.bfloat16 import from_float, to_numpy, to_tensor

RELAY, PLAIN = 1, 2

each_case = pytest.mark.parametrize("case", RELAY_CASES, ids=lambda case: case.name)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)

GROUPS = RelayCase("groups", (5, 33, 0, 20, 70), (0, -1, 1, 0, 1), (35, 70))


@each_dtype
@each_case
def test_accuracy_of_each_isa(isa, case, dtype):
    output, lse = run(build(case, dtype))
    assert_attention_close(output, expect_case(case, dtype), case.name, lse)


@each_dtype
@each_case
def test_accuracy_in_pynative_mode(case, dtype):
    output, lse = run_pynative(build(case, dtype))
    assert_attention_close(output, expect_case(case, dtype), case.name, lse)


# Every second case, in one dtype each: a graph takes MindSpore 0.1 to 1 s to compile.
@pytest.mark.parametrize(
    ("case", "dtype"),
    [pytest.param(c, DTYPES[i % 3], id=c.name) for i, c in enumerate(RELAY_CASES[::2])],
)
def test_graph_mode_gives_the_bits_of_pynative_mode(case, dtype):
    problem = build(case, dtype)
    assert_same_bits(run_graph(problem), run_pynative(problem), case.name)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [pytest.param(c, DTYPES[i % 3], id=c.name) for i, c in enumerate(RELAY_CASES)],
)
def test_path_and_number_of_threads_do_not_change_a_bit(isa, num_threads, case, dtype):
    problem = build(case, dtype)
    num_threads(1)
    expected = run(problem, path="plain")
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        for path in ("auto", "relay", "plain"):
            name = f"{case.name}, {path}, {threads} threads"
            assert_same_bits(run(problem, path=path), expected, name)


def test_float32_with_a_few_keys_and_large_scores(isa):
    """Found by the fuzzer, with this name and seed: in one row of 340 the last rounding counts."""
    case = RelayCase(
        *("fuzz", (3, 0, 1, 1, 3, 0, 3, 3, 2, 1, 3, 3, 3, 3, 1, 3, 3)),
        *((0, -1, 0, 0, -1, -1, -1, 0, -1, 0, -1, -1, 0, 0, 0, -1, 0), (1,)),
        **{"head_num": 20, "kv_head_num": 4, "head_size": 64, "form": "list", "block_size": 1},
        **{"table_padding": "num_blocks", "is_query_flat": False, "is_kv_flat": True},
        **{"is_share_flat": False, "scores": "normal", "qk_scale": 1.0},
    )
    problem = build(case, "float32", seed=1521)
    output, lse = run(problem)
    assert_attention_close(output, expect(problem), case.name, lse)


@pytest.mark.parametrize("prefix", [2048, 3000, 4096])
def test_a_long_prefix_of_one_request(isa, num_threads, prefix):
    """Spans or kv heads are what is cut, as the number of threads divides them."""
    case = RelayCase(
        *(f"alone_{prefix}", (prefix + 70,), (0,), (prefix,)),
        **{"head_num": 16, "kv_head_num": 8, "head_size": 128, "form": "paged", "block_size": 16},
    )
    problem = build(case, "float16", seed=prefix)
    num_threads(1)
    expected = output, lse = run(problem)
    assert_attention_close(output, expect(problem), case.name, lse)
    for threads in (2, 3, 4, 8):
        num_threads(threads)
        for path in ("auto", "relay", "plain"):
            assert_same_bits(run(problem, path=path), expected, f"{threads} threads, {path}")


def test_large_float16_scores_of_head_size_224(isa):
    """Found by the fuzzer: the seed matters, one row of 96 erred twice its budget."""
    case = RelayCase(
        *("large_224", (33, 200, 33), (-1, -1, -1), ()),
        **{"head_num": 32, "kv_head_num": 8, "head_size": 224, "value_head_size": 408},
        **{"form": "paged", "block_size": 1, "table_padding": "int32_min", "twins": ((0, 2),)},
        **{"is_query_flat": False, "is_kv_flat": False, "is_share_flat": True},
        **{"scores": "large", "qk_scale": 0.25},
    )
    problem = build(case, "float16", seed=364)
    output, lse = run(problem)
    assert_attention_close(output, expect(problem), isa, lse)


def test_lse_is_optional_and_does_not_change_the_output():
    problem = build(GROUPS, "float16")
    output, lse = run(problem)
    assert lse.shape == (5, 4)
    assert_same_bits(run(problem, return_lse=False)[0], output, "C interface")
    args, kwargs = tensors_of(problem)
    result = relay_attention(*args, **kwargs)
    assert isinstance(result, ms.Tensor)
    assert_same_bits(to_numpy(result), output, "PyNative")


def test_an_operation_can_be_planned_and_run_again():
    """One operation, problems that grow and shrink, both operators' options in between."""
    names = ("batch_128_prefix_128", "batch_of_one", "everything_empty", "paged_block_64")
    problems = [build(case, "float16") for case in RELAY_CASES if case.name in names]
    with Operation() as operation:
        for _ in range(2):
            for problem in problems:
                assert_same_bits(operation.run(problem), run(problem), str(problem.kwargs))


def test_path_taken_can_be_asked_for():
    problem = build(GROUPS, "float16")
    with Operation() as operation:
        for name, number in (("relay", RELAY), ("plain", PLAIN)):
            operation.run(problem, path=name)
            assert [operation.path_of(group) for group in (0, 1)] == [number, number]
    for name in ("relay", "plain"):
        run_pynative(problem, path=name)
        assert last_relay_path() == [name, name]
    run_graph(problem, path="relay")
    assert last_relay_path() == ["relay", "relay"]


def test_automatic_path_relays_what_many_share_and_not_what_one_has_or_is_short():
    many = RelayCase("many", (4,) * 32 + (4,), (0,) * 32 + (1,), (2048, 2048), head_size=64)
    run_pynative(build(many, "bfloat16"))
    assert last_relay_path() == ["relay", "plain"]
    few = RelayCase("few", (4, 4), (0, 0), (64,), head_num=8, kv_head_num=2, head_size=64)
    run_pynative(build(few, "bfloat16"))
    assert last_relay_path() == ["plain"]
    run_pynative(build(RelayCase("no_groups", (4, 5)), "bfloat16"))
    assert last_relay_path() == []


def test_lengths_as_lists_and_numpy_arrays():
    problem = build(GROUPS, "float16")
    expected = run_pynative(problem)
    args, kwargs = tensors_of(problem)
    for convert in (np.ndarray.tolist, lambda array: array.astype(np.int64)):
        lengths = [convert(array) for array in problem.args[6:]]
        results = relay_attention(*args[:6], *lengths, **kwargs, return_lse=True)
        assert_same_bits(tuple(map(to_numpy, results)), expected, str(lengths[0]))


def test_optional_arguments_may_be_none_or_anything_that_is_ignored():
    problem = build(GROUPS, "float16")
    expected = run(problem)
    *first, mask, _, kv_seq_len, kv_share_map, kv_share_len = problem.args
    for mask in (None, np.full((3, 5), np.nan, np.float16)):
        args = (*first, mask, None, kv_seq_len, kv_share_map, kv_share_len)
        assert_same_bits(run(problem._replace(args=args)), expected, "no seq_len")
        assert_same_bits(run_pynative(problem._replace(args=args)), expected, "PyNative")


@each_dtype
def test_key_and_value_may_be_views_of_one_tensor(isa, dtype):
    """Strides of rows and heads: kv[:, 0] and kv[:, 1], and heads before rows."""
    problem = build(GROUPS, dtype)
    expected = run(problem)
    query, key, value, key_share, value_share, *rest = problem.args
    pairs = [np.stack([k, v], axis=1) for k, v in zip(key, value, strict=True)]
    shares = [
        tuple(np.ascontiguousarray(a.transpose(1, 0, 2)).transpose(1, 0, 2) for a in arrays)
        for arrays in (key_share, value_share)
    ]
    args = (
        query,
        [pair[:, 0] for pair in pairs],
        [pair[:, 1] for pair in pairs],
        *map(list, shares),
        *rest,
    )
    assert not args[1][0].flags.c_contiguous and not args[3][0].flags.c_contiguous
    assert_same_bits(run(problem._replace(args=args)), expected, "strided")


def test_views_in_mindspore_give_the_bits_of_copies():
    problem = build(GROUPS, "float32")
    args, kwargs = tensors_of(problem)
    pairs = [to_tensor(np.stack([k, v], axis=1)) for k, v in zip(*problem.args[1:3], strict=True)]
    views = ([pair[:, 0] for pair in pairs], [pair[:, 1] for pair in pairs])
    with mode("pynative"):
        results = relay_attention(args[0], *views, *args[3:], **kwargs, return_lse=True)
    assert_same_bits(tuple(map(to_numpy, results)), run(problem), "views")


@each_dtype
def test_nan_in_a_visible_key_or_value(isa, dtype):
    """Of a key: the rows that see it. Of a value: that column of these rows."""
    case = RelayCase("nan", (5, 33, 2), (0, 0, -1), (20,), head_num=2, kv_head_num=1, head_size=16)
    clean = build(case, dtype)
    nan = {"float32": np.nan, "float16": np.nan, "bfloat16": 0x7FC0}[dtype]
    sound, sound_lse = run(clean)

    clean.args[3][0][7, 0, 3] = nan  # key_share: read by the requests 0 and 1
    output, lse = map(_is_nan, run(clean))
    assert output[:2].all() and lse[:2].all() and not output[2].any() and not lse[2].any()

    clean = build(case, dtype)
    clean.args[2][1][32, 0, 3] = nan  # value: the last key of request 1
    output, lse = run(clean)
    is_nan = np.zeros((3, 2, 16), bool)
    is_nan[1, :, 3] = True
    np.testing.assert_array_equal(_is_nan(output).reshape(is_nan.shape), is_nan)
    assert_same_bits(lse, sound_lse, "lse")
    assert_same_bits(output[[0, 2]], sound[[0, 2]], "rows that do not see it")


@each_dtype
def test_nan_in_a_value_stays_when_its_weight_is_too_small_for_a_float(isa, dtype):
    """The value's score is 400 below that of a key far behind: exp(-400) is 0 in float32."""
    case = RelayCase("small", (1500,), head_num=1, kv_head_num=1, head_size=16, qk_scale=1.0)
    problem = build(case, dtype)
    query, key, value = problem.args[0], problem.args[1][0], problem.args[2][0]
    key[:] = from_float(np.zeros(key.shape), dtype)
    query[:] = from_float(np.full(query.shape, 5.0), dtype)
    key[1400] = from_float(np.full(key.shape[1:], 5.0), dtype)
    value[2, 0, 3] = {"float32": np.nan, "float16": np.nan, "bfloat16": 0x7FC0}[dtype]
    is_nan = np.arange(16) == 3
    for output in (run(problem)[0], reference.relay_attention(*problem.args, **problem.kwargs)):
        np.testing.assert_array_equal(_is_nan(output).ravel(), is_nan)


def _is_nan(array):
    return (array & 0x7FFF) > 0x7F80 if array.dtype == np.uint16 else np.isnan(array)


@pytest.mark.parametrize("num_elements", [2**31, 2**32], ids=["2^31", "2^32"])
def test_cache_with_more_elements_than_32_bits_count(num_elements):
    case = RelayCase("large", (20, 3), (0, -1), (17,), form="paged", head_size=64, is_kv_flat=True)
    small = build(case, "float16")
    expected = run(small)
    large = in_large_caches(small, num_elements)
    assert_same_bits(run(large), expected, "C interface")
    assert_same_bits(run_pynative(large), expected, "PyNative")


def test_oracle_is_compared_and_not_just_called():
    """One wrong unit in one row must be seen: the comparison of this file can fail."""
    problem = build(GROUPS, "float16")
    output, lse = run(problem)
    expected = expect(problem)
    assert_attention_close(output, expected, "right", lse)
    output[3, 7] = np.float16(output[3, 7] + 0.01)
    with pytest.raises(AssertionError, match="row"):
        assert_attention_close(output, expected, "wrong output")
    lse[2, 1] += 1e-3
    with pytest.raises(AssertionError, match="lse"):
        assert_attention_close(run(problem)[0], expected, "wrong lse", lse)
