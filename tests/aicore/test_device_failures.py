# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other attention libraries, on the device: one test for each, named after it.

test_kernels.py runs the same cases on 1, 4, 20 and 24 AI cores; here each has a name and more is
asserted than that the output is right. Where the contract demands an error, the host plan gives it.
What the device has no part in stands in ../test_failures.py: merging of given lse, the automatic
choice of a path, views of tensors, contents of tables and masks (device memory, which the plan does
not see), the package.
"""

import dataclasses

import cases
import failure_cases
import numpy as np
import pytest
from emulated_device import PlanError, run_on_device
from failure_cases import each_case
from numerics import as_rows, assert_attention_close, expect, expect_case
from reference_calls import PREFIX, RELAY
from sparse_memory import in_large_caches

from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import MaskType

each_dtype = pytest.mark.parametrize("dtype", ("float16", "bfloat16"))


def check(case, dtype, num_ai_cores=24):
    """Output and lse against the oracle; output and workspace are NaN or unset before."""
    result = run_on_device(cases.build(case, dtype), num_ai_cores, schedule_seed=5)
    assert_attention_close(result.output, expect_case(case, dtype), case.name, result.lse)
    return result


def same_bits(first, second):
    np.testing.assert_array_equal(first.output.view(np.uint16), second.output.view(np.uint16))
    np.testing.assert_array_equal(first.lse.view(np.uint32), second.lse.view(np.uint32))


# ---- merge and lse -------------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.ROWS_WITHOUT_KEYS)
def test_rows_without_keys(case, dtype):
    result = check(case, dtype)
    is_empty = np.isneginf(expect_case(case, dtype).lse)
    assert (as_rows(to_float(result.output), result.lse)[is_empty] == 0).all()


@each_dtype
@pytest.mark.parametrize("hidden", [-np.inf, -60000.0], ids=["-inf", "-60000"])
@pytest.mark.parametrize("num_keys", [9, 700])
def test_fully_masked_rows(num_keys, hidden, dtype):
    """A 3-D mask may hide every key of a row; 700 keys are cut between cores. -60000 is no empty
    row: all keys are equally far away."""
    case = cases.PrefixCase(
        "masked", (9,), (num_keys,), MaskType.ALIBI_COMPRESS, is_mask_3d=True, head_num=2
    )
    problem = cases.build(case, dtype)
    mask, first = problem.args[4], num_keys - 9
    for row in (0, 4, 8):
        for key in range(0, num_keys, 128):
            if first + row >= key:
                mask[:, first + row - key] = from_float(np.full(128, hidden), dtype)
    result = run_on_device(problem, 24)
    expected = expect(problem)
    assert_attention_close(result.output, expected, "masked", result.lse)
    if np.isneginf(hidden):
        assert np.isneginf(result.lse[[0, 4, 8]]).all()


@each_dtype
@each_case(RELAY["private_splits"], RELAY["share_splits"], PREFIX["key_splits"])
def test_lse_of_keys_split_over_cores_is_that_of_one_core(case, dtype):
    split, whole = check(case, dtype), check(case, dtype, num_ai_cores=1)
    np.testing.assert_allclose(split.lse, whole.lse, rtol=1e-5, atol=1e-5)


@each_dtype
@each_case(
    RELAY["batch_128_many_splits"],
    cases.RelayCase(
        "batch_128_gqa", (300,) * 128, (0,) * 128, (900,), head_num=8, kv_head_num=2, head_size=16
    ),
)
def test_lse_of_a_batch_of_128_with_keys_split_over_many_work_items(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.EXTREME_SCORES)
def test_scores_near_the_limit_of_float16_equal_or_far_apart(case, dtype):
    check(case, dtype, num_ai_cores=4)


# ---- shared prefix -------------------------------------------------------------------------------


@each_dtype
@each_case(RELAY["four_groups_interleaved"])
def test_4_groups_of_8_and_3_requests_without_interleaved(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(
    *(RELAY[name] for name in ("group_of_one", "groups_without_members", "all_without_group")),
    RELAY["one_group_of_all"],
)
def test_groups_of_one_of_none_and_of_everything(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.NO_PRIVATE_KEYS)
def test_no_private_keys_behind_a_prefix(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(RELAY["batch_8_prefix_4000"], RELAY["batch_128_prefix_128"])
def test_8_query_heads_on_1_with_a_long_prefix_and_many_requests_with_a_short_one(case, dtype):
    check(case, dtype)


def _refused(case, dtype, said, **arguments):
    """The plan refuses the case with these arguments changed. arguments: position -> value."""
    problem = cases.build(case, dtype)
    args = list(problem.args)
    for position, value in arguments.items():
        args[int(position[1:])] = value
    with pytest.raises(PlanError, match=said):
        run_on_device(problem._replace(args=tuple(args)), 4)


@each_dtype
def test_a_prefix_longer_than_kv_seq_len_or_a_group_that_is_not(dtype):
    case = RELAY["one_group_of_all"]  # 5, 1, 30, 17 private keys behind 50
    said = r"kv_seq_len\[1\]=49 is smaller than its shared prefix kv_share_len\[0\]=50"
    _refused(case, dtype, said, _7=np.array([55, 49, 80, 67]))
    for group in (-2, 1):
        said = rf"kv_share_map\[2\] must be in \[-1, 1\), got {group}"
        _refused(case, dtype, said, _8=np.array([0, 0, group, 0]))


# ---- paged cache ---------------------------------------------------------------------------------


@pytest.mark.parametrize("num_elements", [2**31, 2**32], ids=["2^31", "2^32"])
@each_dtype
def test_cache_with_more_elements_than_32_bits_count(num_elements, dtype):
    """The last blocks of a cache of which only they exist."""
    small = cases.build(cases.PrefixCase("large", (20, 3), (20, 90), head_size=64), dtype)
    large = in_large_caches(small, num_elements)
    same_bits(run_on_device(large, 4), run_on_device(small, 4))


@each_dtype
@each_case(*failure_cases.UNUSED_TABLE_ENTRIES)
def test_unused_entries_of_tables_and_tables_of_no_width(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(
    cases.RelayCase("tables", (5, 33), (0, 0), (35,), form="paged"),
    cases.PrefixCase("tables", (5, 1), (37, 40)),
)
def test_a_table_with_fewer_entries_than_blocks_are_needed(case, dtype):
    """What a needed entry says is device memory: the plan sees how many there are."""
    problem = cases.build(case, dtype)
    if case.operator == "prefix_encoder":
        args = (*problem.args[:3], problem.args[3][:, :2].copy(), *problem.args[4:])
        problem = problem._replace(args=args)
    else:
        tables = {"block_tables": problem.kwargs["block_tables"][:, :2].copy()}
        problem = problem._replace(kwargs={**problem.kwargs, **tables})
    with pytest.raises(PlanError, match="needs 3 blocks of 16, but a row of the block table has 2"):
        run_on_device(problem, 4)


@each_dtype
@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf])
@each_case(*failure_cases.TAILS_AND_UNUSED_BLOCKS)
def test_nan_and_infinity_in_unused_tails_and_blocks(case, content, dtype):
    """Of keys and of values; all other cases have a mixture of them there."""
    problem = cases.build(case, dtype)
    clean = run_on_device(problem, 4)
    failure_cases.fill_unused(problem, content)
    result = run_on_device(problem, 4)
    same_bits(result, clean)
    assert_attention_close(result.output, expect(problem), case.name, result.lse)


@each_dtype
@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
def test_nan_and_infinity_of_other_groups_and_requests_and_past_lengths(form, content, dtype):
    """Requests 0 and 2 share group 0; what is not theirs is not finite, in keys and in values."""
    case = cases.RelayCase(
        "others", (5, 33, 8, 20), (0, 1, 0, -1), (35, 70, 9), form=form, has_own_share_caches=True
    )
    problem = cases.build(case, dtype)
    expected = expect(problem)
    fill = from_float(np.array(content), dtype)
    for own, shared in ((1, 3), (2, 4)):
        for source, table, used, lengths in (
            (problem.args[own], "block_tables", (0, 2), (5, 33, 8, 20)),
            (problem.args[shared], "share_block_tables", (0,), (35, 70, 9)),
        ):
            keep = [np.zeros(len(array), bool) for array in source]
            for entry in used:
                if form == "paged":
                    for key in range(lengths[entry]):
                        block = problem.kwargs[table][entry, key // case.block_size]
                        keep[block][key % case.block_size] = True
                else:
                    keep[entry][: lengths[entry]] = True
            for array, kept in zip(source, keep, strict=True):
                array[~kept] = fill
    result = run_on_device(problem, 24)
    rows = as_rows(to_float(result.output), result.lse)
    assert np.isnan(rows[[1, 3]]).any()  # of the others' own keys and values
    rows[[1, 3]], result.lse[[1, 3]] = expected.output[[1, 3]], expected.lse[[1, 3]]
    output = from_float(rows, dtype).reshape(result.output.shape)
    assert_attention_close(output, expected, f"others, {form}", result.lse)


@each_dtype
@each_case(*failure_cases.BLOCK_SIZES)
def test_block_sizes_and_lengths_around_them(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.BLOCKS_OF_256_AND_MANY_KEYS)
def test_blocks_of_256_with_8192_and_16384_keys(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.SAME_BLOCKS)
def test_two_requests_on_the_same_blocks(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.HITS_AND_MISSES)
def test_hits_and_misses_of_the_prefix_in_one_batch(case, dtype):
    check(case, dtype)


# ---- masks and positions -------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.ROWS_AND_KEYS)
def test_fewer_rows_than_keys_and_as_many(case, dtype):
    check(case, dtype)


@each_dtype
@pytest.mark.parametrize("num_chunks", [2, 3, 7])
@pytest.mark.parametrize("mask", cases.MASKS, ids=lambda mask: mask[0])
def test_chunked_prefill_equals_one_pass(mask, num_chunks, dtype):
    name, mask_type, is_mask_3d = mask
    kind = {"mask_type": mask_type, "is_mask_3d": is_mask_3d}
    case = cases.PrefixCase(f"chunks_{name}", (40, 9), (90, 9), **kind)
    problem = cases.build(case, dtype)
    expected = expect(problem)
    output, lse, _ = run_on_device(problem, 4)
    for chunk, rows in cases.chunks_of(problem, num_chunks):
        result = run_on_device(chunk, 4)
        output[rows], lse[rows] = result.output, result.lse
    assert_attention_close(output, expected, case.name, lse)


@each_dtype
@pytest.mark.parametrize("mask", cases.MASKS[1:], ids=lambda mask: mask[0])
def test_one_alibi_row_over_100_keys_equals_the_last_row_of_a_full_pass(mask, dtype):
    name, mask_type, is_mask_3d = mask
    kind = {"mask_type": mask_type, "is_mask_3d": is_mask_3d}
    full = cases.build(cases.PrefixCase(f"one_of_{name}", (100,), (100,), **kind), dtype)
    query, *rest = full.args
    one = full._replace(args=(query[-1:].copy(), *rest[:4], np.array([1]), *rest[5:]))
    result, expected = run_on_device(one, 4), expect(full)
    of_row = expected._replace(
        shape=(1, *expected.shape[1:]),
        **{
            name: getattr(expected, name)[-1:] for name in ("output", "budget", "lse", "lse_budget")
        },
    )
    assert_attention_close(result.output, of_row, name, result.lse)


@each_dtype
@each_case(*failure_cases.SLOPES_OF_MANY_HEADS)
def test_slopes_of_12_40_and_66_heads_and_of_a_part_of_them(case, dtype):
    check(case, dtype, num_ai_cores=4)


@each_dtype
@pytest.mark.parametrize("length", [5, 512, 513])
def test_a_mask_of_the_wrong_shape_or_type(length, dtype):
    """The sign of slopes and the content of the mask are device memory: the plan sees shapes."""
    case = cases.PrefixCase("mask", (5,), (length,), MaskType.ALIBI_COMPRESS)
    mask = cases.build(case, dtype).args[4]
    _refused(case, dtype, r"needs a mask of the shape \[256, 256\], got \[128, 128\]",
             _4=mask[:128, :128].copy())  # fmt: skip
    _refused(case, dtype, r"slopes must have the shape \[head_num\] = \[4\], got \[3\]",
             _7=np.full(3, -1.0, np.float32))  # fmt: skip
    table = np.zeros((4, length - 1, 128), mask.dtype)
    _refused(case, dtype, "a 3-D mask must have the shape", _4=table, _7=None)
    sqrt = dataclasses.replace(case, mask_type=MaskType.ALIBI_COMPRESS_SQRT)
    _refused(sqrt, dtype, "a 3-D mask needs mask_type 3, got 4", _4=table, _7=None)
    causal = dataclasses.replace(case, mask_type=MaskType.CAUSAL)
    _refused(causal, dtype, r"mask_type 9 \(causal\) takes no mask", _4=mask)


@each_dtype
@pytest.mark.parametrize("seq_len, kv_seq_len", [(6, 5), (1, 0)])
def test_more_rows_than_keys(seq_len, kv_seq_len, dtype):
    case = cases.PrefixCase("rows", (seq_len,), (seq_len,))
    said = rf"seq_len\[0\] must be in \[0, kv_seq_len\[0\]={kv_seq_len}\], got {seq_len}"
    _refused(case, dtype, said, _6=np.array([kv_seq_len]))


# ---- tensors -------------------------------------------------------------------------------------


@each_dtype
@each_case(RELAY["no_groups"], PREFIX["one_row"])
def test_head_num_that_is_no_multiple_of_kv_head_num(case, dtype):
    problem = cases.build(case, dtype)
    problem = problem._replace(kwargs={**problem.kwargs, "kv_head_num": 3})
    with pytest.raises(PlanError, match="head_num=4, kv_head_num=3"):
        run_on_device(problem, 4)


@each_dtype
def test_fewer_keys_than_values(dtype):
    case = RELAY["no_groups"]
    keys = cases.build(case, dtype).args[1]
    _refused(case, dtype, "key has 3 tensors and its value counterpart 4", _1=keys[:3])
