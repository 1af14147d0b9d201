# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""prefix_encoder: every case of cases.py against the float64 oracle, and what must not matter."""

import mindspore as ms
import numpy as np
import pytest
from capi_harness import Operation, run
from cases import DTYPES, MASKS, PREFIX_CASES, PrefixCase, build, chunks_of
from modes import assert_same_bits, mode, run_graph, run_pynative, tensors_of
from numerics import assert_attention_close, expect_case
from sparse_memory import in_large_caches

from mindspore_relay import MaskType, prefix_encoder
from mindspore_relay.bfloat16 import from_float, to_float, to_numpy

each_case = pytest.mark.parametrize("case", PREFIX_CASES, ids=lambda case: case.name)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_mask = pytest.mark.parametrize(
    ("mask_type", "is_mask_3d"), [mask[1:] for mask in MASKS], ids=[mask[0] for mask in MASKS]
)
# One dtype per case, in turn.
each_case_in_a_dtype = pytest.mark.parametrize(
    ("case", "dtype"),
    [pytest.param(c, DTYPES[i % 3], id=c.name) for i, c in enumerate(PREFIX_CASES)],
)

# Requests of every kind: with a prefix, without, without rows, with one row.
MIXED = PrefixCase("mixed", (3, 40, 0, 1, 17), (90, 40, 20, 65, 300))


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
    [pytest.param(c, DTYPES[i % 3], id=c.name) for i, c in enumerate(PREFIX_CASES[::2])],
)
def test_graph_mode_gives_the_bits_of_pynative_mode(case, dtype):
    problem = build(case, dtype)
    assert_same_bits(run_graph(problem), run_pynative(problem), case.name)


@each_case_in_a_dtype
def test_number_of_threads_does_not_change_a_bit(isa, num_threads, case, dtype):
    problem = build(case, dtype)
    num_threads(1)
    expected = run(problem)
    for threads in (2, 3, 8):
        num_threads(threads)
        assert_same_bits(run(problem), expected, f"{case.name}, {threads} threads")


@each_dtype
@each_mask
@pytest.mark.parametrize("num_chunks", [2, 3, 7])
def test_chunked_prefill_gives_the_bits_of_one_pass(isa, num_chunks, mask_type, is_mask_3d, dtype):
    case = PrefixCase("chunks", (100, 7, 0), (290, 7, 5), mask_type, is_mask_3d)
    problem = build(case, dtype)
    output, lse = run(problem)
    for chunk, rows in chunks_of(problem, num_chunks):
        chunk_output, chunk_lse = run(chunk)
        assert_same_bits(chunk_output, output[rows], "output")
        assert_same_bits(chunk_lse, lse[rows], "lse")


@each_dtype
def test_layout_of_heads_does_not_change_a_bit(isa, dtype):
    problem = build(MIXED, dtype)
    expected = run(problem)
    query, key, value, *rest = problem.args
    flat_caches = [cache.reshape(*cache.shape[:2], -1) for cache in (key, value)]
    query_3d = query.reshape(len(query), MIXED.head_num, -1)
    for args in ((query, *flat_caches), (query_3d, key, value), (query_3d, *flat_caches)):
        output, lse = run(problem._replace(args=(*args, *rest)))
        assert output.shape == args[0].shape
        assert_same_bits(output.reshape(query.shape), expected[0], "output")
        assert_same_bits(lse, expected[1], "lse")


@each_dtype
def test_caches_may_be_views_of_one_tensor(isa, dtype):
    problem = build(MIXED, dtype)
    query, key, value, *rest = problem.args
    pair = np.stack([key, value], axis=1)
    views = problem._replace(args=(query, pair[:, 0], pair[:, 1], *rest))
    assert not views.args[1].flags.c_contiguous
    assert_same_bits(run(views), run(problem), "strided")


def test_lengths_may_be_uint32_lists_or_numpy_arrays():
    problem = build(MIXED, "float16")
    expected = run_pynative(problem)
    *first, seq_len, kv_seq_len, slopes = problem.args
    unsigned = (*first, seq_len.astype(np.uint32), kv_seq_len.astype(np.uint32), slopes)
    unsigned = problem._replace(args=unsigned)
    assert_same_bits(run(unsigned), expected, "C interface")
    assert_same_bits(run_pynative(unsigned), expected, "PyNative")
    assert_same_bits(run_graph(unsigned), expected, "graph")
    args, kwargs = tensors_of(problem)
    for convert in (np.ndarray.tolist, lambda array: array.astype(np.int64)):
        lengths = map(convert, (seq_len, kv_seq_len))
        results = prefix_encoder(*args[:5], *lengths, None, **kwargs, return_lse=True)
        assert_same_bits(tuple(map(to_numpy, results)), expected, str(convert))


def test_lse_is_optional_and_does_not_change_the_output():
    problem = build(MIXED, "float16")
    output, _ = run(problem)
    assert_same_bits(run(problem, return_lse=False)[0], output, "C interface")
    args, kwargs = tensors_of(problem)
    result = prefix_encoder(*args, **kwargs)
    assert isinstance(result, ms.Tensor)
    assert_same_bits(to_numpy(result), output, "PyNative")


def test_an_operation_can_be_planned_and_run_again():
    names = ("rows_172_keys_300", "one_row", "no_rows_at_all", "alibi_128_edges", "block_64")
    problems = [build(case, "bfloat16") for case in PREFIX_CASES if case.name in names]
    assert len(problems) == len(names)
    with Operation() as operation:
        for _ in range(2):
            for problem in problems:
                assert_same_bits(operation.run(problem), run(problem), str(problem.kwargs))


def test_mask_type_may_be_given_as_the_number_of_the_documents():
    case = PrefixCase("number", (5, 1), (5, 40), MaskType.ALIBI_COMPRESS_SQRT)
    problem = build(case, "float16")
    as_int = problem._replace(kwargs={**problem.kwargs, "mask_type": 4})
    assert_same_bits(run_pynative(as_int), run_pynative(problem), "4")


@each_dtype
@pytest.mark.parametrize("prefix_len", [0, 5, 63, 1100])
@pytest.mark.parametrize("kind", ["nan", "inf", "-inf"])
def test_value_behind_the_diagonal_does_not_reach_a_row(isa, dtype, prefix_len, kind):
    """Values of the last new token that are not finite: only the last row sees them."""
    num_rows = 70
    case = PrefixCase(
        "hidden", (num_rows,), (prefix_len + num_rows,), head_num=4, kv_head_num=2, block_size=16
    )
    problem = build(case, dtype)
    _, _, value, block_tables = problem.args[:4]
    sound, sound_lse = run(problem)
    last = prefix_len + num_rows - 1
    bits = from_float(np.array([float(kind)]), dtype)[0]
    value[block_tables[0, last // 16], last % 16, 1, 3] = bits  # kv head 1: query heads 2 and 3
    output, lse = run(problem)
    assert_same_bits(lse, sound_lse, "lse")
    assert_same_bits(output[:-1], sound[:-1], "rows before the last")
    sound, output = (to_float(a[-1]).reshape(4, 16) for a in (sound, output))
    np.testing.assert_array_equal(output[2:, 3], float(kind))
    output[2:, 3] = sound[2:, 3]
    np.testing.assert_array_equal(output, sound)


@each_dtype
def test_nan_in_a_visible_value_stays_in_its_column(isa, dtype):
    case = PrefixCase("nan", (3,), (40,), head_num=2, kv_head_num=1, block_size=16)
    problem = build(case, dtype)
    sound_output, sound_lse = run(problem)
    nan = {"float32": np.nan, "float16": np.nan, "bfloat16": 0x7FC0}[dtype]
    value, block_tables = problem.args[2:4]
    value[block_tables[0, 0], 5, 0, 3] = nan  # key 5 is seen by every row
    output, lse = run(problem)
    is_nan = (output & 0x7FFF) > 0x7F80 if dtype == "bfloat16" else np.isnan(output)
    expected = np.zeros((3, 2, 16), bool)
    expected[:, :, 3] = True
    np.testing.assert_array_equal(is_nan.reshape(expected.shape), expected)
    assert_same_bits(lse, sound_lse, "lse")
    others = ~expected.reshape(output.shape)
    assert_same_bits(output[others], sound_output[others], "other columns")


@pytest.mark.parametrize("num_elements", [2**31, 2**32], ids=["2^31", "2^32"])
def test_cache_with_more_elements_than_32_bits_count(num_elements):
    case = PrefixCase("large", (20, 3), (20, 90), head_size=64)
    small = build(case, "bfloat16")
    assert_same_bits(run(in_large_caches(small, num_elements)), run(small), "C interface")
    with mode("pynative"):
        # float16: a bfloat16 tensor made from NumPy is a view, which MindSpore copies.
        half = build(case, "float16")
        large = in_large_caches(half, num_elements)
        assert_same_bits(run_pynative(large), run(half), "PyNative")
