# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Both kernels under the emulation: every case that the device supports, without a complaint.

The accuracy rule is that of the CPU (tests/numerics.py). Each number of cores comes with a schedule
of its own: 0 runs a core until it blocks, the others interleave the cores in different orders.
"""

import dataclasses

import cases
import numpy as np
import pytest
from emulated_device import FRACTAL, PlanError, is_supported, run_on_device
from numerics import assert_attention_close, expect, expect_case

from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import MaskType

DTYPES = ("float16", "bfloat16")
SCHEDULE_OF_CORES = {1: 0, 4: 1, 20: 2, 24: 3}
RELAY = {case.name: case for case in cases.RELAY_CASES}
PREFIX = {case.name: case for case in cases.PREFIX_CASES}


def supported_cases():
    return [case for case in cases.CASES if is_supported(cases.build(case, "float16"))]


@pytest.mark.parametrize("num_ai_cores", SCHEDULE_OF_CORES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", supported_cases(), ids=lambda c: f"{c.operator}-{c.name}")
def test_case(case, dtype, num_ai_cores):
    result = run_on_device(cases.build(case, dtype), num_ai_cores, SCHEDULE_OF_CORES[num_ai_cores])
    assert_attention_close(result.output, expect_case(case, dtype), case.name, result.lse)


def test_most_cases_are_supported():
    """What is left out: other head sizes, block sizes that are no multiple of 16."""
    left_out = {case.name for case in cases.CASES} - {case.name for case in supported_cases()}
    for name in left_out:
        case = {**RELAY, **PREFIX}[name]
        sizes = (case.head_size, case.value_head_size or case.head_size)
        is_odd = sizes[0] != sizes[1] or sizes[0] % FRACTAL or sizes[0] > 256
        assert is_odd or case.block_size % FRACTAL, name


@pytest.mark.parametrize(
    "case",
    [RELAY["four_groups_interleaved"], RELAY["batch_8_prefix_4000"], PREFIX["mixed_lengths"]],
    ids=lambda c: c.name,
)
def test_result_does_not_depend_on_the_schedule(case):
    problem = cases.build(case, "bfloat16")
    first = run_on_device(problem, 24, schedule_seed=0)
    for seed in range(10, 16):
        other = run_on_device(problem, 24, schedule_seed=seed)
        np.testing.assert_array_equal(first.output.view(np.uint16), other.output.view(np.uint16))
        np.testing.assert_array_equal(first.lse, other.lse)


@pytest.mark.parametrize(
    "case", [RELAY["hits_and_misses"], PREFIX["mixed_lengths"]], ids=lambda c: c.name
)
def test_lse_is_optional(case):
    problem = cases.build(case, "float16")
    result = run_on_device(problem, 4, with_lse=False)
    assert_attention_close(result.output, expect_case(case, "float16"), case.name)
    assert "lse" not in result.counters["buffers"]


# ---- shapes that the cases leave out -------------------------------------------------------------

EXTRA_RELAY = [
    # 71 heads on one kv head: a tile of rows begins in the middle of a request
    cases.RelayCase(
        "tile_cuts_a_request", (5, 9, 300, 0), (0, 0, 0, 0), (700,), head_num=71, kv_head_num=1
    ),
    # more heads on a kv head than a tile has rows
    cases.RelayCase("heads_200_1", (300, 40), (0, -1), (90,), head_num=200, kv_head_num=1),
    # split private parts and split groups at once, at the widest head
    cases.RelayCase(
        "wide_and_split",
        (900, 0, 1500),
        (0, 0, -1),
        (1100,),
        head_num=6,
        kv_head_num=2,
        head_size=256,
    ),
    # a core that is busy with a group and gets no part of the request that its neighbours share
    cases.RelayCase(
        "idle_on_one_axis",
        (40, 500, 200, 300, 500, 300),
        (0, 0, 0, 1, 1, 0),
        (300, 700),
        head_num=8,
        kv_head_num=2,
    ),
    # the second vector core has rows of the group, and none of the requests after it
    cases.RelayCase(
        "one_row_after_long_group", (40, 30), (0, 0), (900,), head_num=1, kv_head_num=1
    ),
    # a strip of merged rows spans kv heads that were cut between cores and others
    *(
        cases.RelayCase(
            f"cut_and_whole_heads_{heads}_{kv_heads}",
            (300, 40, 0),
            (0, 0, -1),
            (900,),
            head_num=heads,
            kv_head_num=kv_heads,
        )
        for heads, kv_heads in ((32, 8), (20, 5), (27, 9))
    ),
    # rows of K further apart than an instruction's stride field can say
    cases.RelayCase(
        "rows_far_apart", (20, 9), (0, -1), (17,), head_num=260, kv_head_num=260, head_size=256
    ),
]
EXTRA_PREFIX = [
    cases.PrefixCase("heads_130_1", (3, 2), (70, 5), head_num=130, kv_head_num=1),
    cases.PrefixCase(
        "long_and_split", (70, 300), (1500, 800), head_num=3, kv_head_num=1, head_size=80
    ),
    cases.PrefixCase(
        "table_long_and_split",
        (70, 300),
        (1500, 800),
        MaskType.ALIBI_COMPRESS,
        is_mask_3d=True,
        head_num=2,
        kv_head_num=1,
    ),
    cases.PrefixCase(
        "rows_far_apart", (5, 3), (40, 3), head_num=260, kv_head_num=260, head_size=256
    ),
]


@pytest.mark.parametrize("num_ai_cores", SCHEDULE_OF_CORES)
@pytest.mark.parametrize("case", EXTRA_RELAY + EXTRA_PREFIX, ids=lambda c: c.name)
def test_extra_shape(case, num_ai_cores):
    problem = cases.build(case, "bfloat16")
    result = run_on_device(problem, num_ai_cores, SCHEDULE_OF_CORES[num_ai_cores])
    assert_attention_close(result.output, expect_case(case, "bfloat16"), case.name, result.lse)


def test_group_is_read_once_at_every_split():
    """One group over many cores: the whole cover, seen from the answer."""
    case = cases.RelayCase("long_group", (3,) * 8, (0,) * 8, (4000,), head_num=8, kv_head_num=1)
    for num_ai_cores in range(2, 24, 3):
        result = run_on_device(cases.build(case, "float16"), num_ai_cores, num_ai_cores)
        assert_attention_close(result.output, expect_case(case, "float16"), case.name, result.lse)


def _at_the_end_of_a_large_cache(cache, block_tables, path):
    """The cache's blocks, last one first, at the end of one of more than 2 ** 32 elements.

    The new cache is a sparse file: only the blocks at its end take memory.
    """
    num_blocks = 2**32 // cache[0].size + len(cache)
    large = np.memmap(path, cache.dtype, "w+", shape=(num_blocks, *cache.shape[1:]))
    large[num_blocks - len(cache) :] = cache[::-1]
    return large, np.where(block_tables < 0, block_tables, num_blocks - 1 - block_tables)


@pytest.mark.parametrize(
    "case", [RELAY["paged_kv_flat"], PREFIX["mixed_lengths"]], ids=lambda c: c.name
)
def test_cache_of_more_than_2_32_elements(case, tmp_path):
    problem = cases.build(case, "float16")
    args, kwargs = list(problem.args), dict(problem.kwargs)
    tables = {"block_tables", "share_block_tables"} & kwargs.keys()
    for which, name in ((1, "key"), (2, "value")):
        small = args[which]
        for table in tables:
            args[which], moved = _at_the_end_of_a_large_cache(
                small, problem.kwargs[table], tmp_path / name
            )
            kwargs[table] = moved.astype(np.int32)
        if not tables:
            args[which], moved = _at_the_end_of_a_large_cache(
                small, problem.args[3], tmp_path / name
            )
            args[3] = moved.astype(np.int32)
    large = problem._replace(args=tuple(args), kwargs=kwargs)
    result = run_on_device(large, 4)
    assert_attention_close(result.output, expect_case(case, "float16"), case.name, result.lse)


# ---- NaN -----------------------------------------------------------------------------------------


def _with_nan(problem, argument, request, at):
    """The problem with NaN in one element of one tensor of a list."""
    arrays = [array.copy() for array in problem.args[argument]]
    values = to_float(arrays[request])
    values[at] = np.nan
    arrays[request] = from_float(values, problem.dtype)
    args = list(problem.args)
    args[argument] = arrays
    return problem._replace(args=tuple(args))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_a_visible_key_stays_in_its_rows(dtype):
    case = RELAY["list_query_3d"]  # private 5, 33, 8, 20; groups 0, -1, 1, 0 of 35 and 70 keys
    in_private = _with_nan(cases.build(case, dtype), 1, request=1, at=(32, 1, 3))
    in_group = _with_nan(cases.build(case, dtype), 3, request=0, at=(34, 0, 0))
    for problem in (in_private, in_group):
        result = run_on_device(problem, 4)
        expected = expect(problem)
        assert 0 < np.isnan(expected.output).sum() < expected.output.size
        assert_attention_close(result.output, expected, case.name, result.lse)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_a_visible_value_stays_in_its_column(dtype):
    case = RELAY["list_query_3d"]
    problem = _with_nan(cases.build(case, dtype), 4, request=1, at=(69, 0, 5))
    result = run_on_device(problem, 4)
    output = to_float(result.output)
    expected = expect(problem)
    np.testing.assert_array_equal(np.isnan(output), np.isnan(expected.output))
    assert np.isnan(output).sum() == 2  # the two heads of request 2 on kv head 0


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case, changes, said",
    [
        (RELAY["paged_kv_flat"], {"block_size": 24}, "block_size must be a multiple of 16"),
        (RELAY["no_groups"], {"head_size": 24}, "head_size must be a multiple of 16 up to 256"),
        (PREFIX["rows_2_keys_5"], {"block_size": 7}, "block_size must be a multiple of 16"),
        (
            PREFIX["rows_2_keys_5"],
            {"head_size": 272},
            "head_size must be a multiple of 16 up to 256",
        ),
    ],
    ids=["relay_block", "relay_head_size", "prefix_block", "prefix_head_size"],
)
def test_refusal(case, changes, said):
    problem = cases.build(dataclasses.replace(case, **changes), "float16")
    with pytest.raises(PlanError, match=said):
        run_on_device(problem, 4)
