# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other attention libraries, by name: merge and shared prefix.

A problem here goes through the C interface and PyNative mode in every dtype, through graph mode in
float16, and where it can be asked for in every form (list, stacked, paged); it is compared with the
oracle once, and its bits between the three. Every instruction set runs the same cases in
test_relay_attention.py and test_prefix_encoder.py.

What stands elsewhere, where more of its kind stands:

* merge and lse: test_merge.py (empty parts, infinite lse, scipy's logsumexp, keys split)
* which path ran: test_relay_attention.py; chunked prefill, views of one tensor, NaN and infinity
  behind the diagonal, caches of more than 2^32 elements: there and in test_prefix_encoder.py
* one row against a full pass: test_metamorphic.py
* errors: the rules of test_errors.py, of which this file runs some in every mode and dtype
* the package (imports, two copies, a missing library): test_package.py, test_modes.py
"""

import re

import capi_harness
import cases
import failure_cases
import numpy as np
import pytest
import test_errors
from cases import DTYPES, PrefixCase, RelayCase, build
from failure_cases import each_case
from modes import assert_same_bits, run_graph, run_pynative
from numerics import assert_attention_close, expect

from mindspore_relay import MaskType
from mindspore_relay.bfloat16 import from_float, to_float

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def assert_right(problem, name):
    """Compares the C interface with the oracle, and both modes with its bits; output and lse."""
    output, lse = capi_harness.run(problem)
    assert_attention_close(output, expect(problem), name, lse)
    assert_same_bits(run_pynative(problem), (output, lse), f"{name}, PyNative")
    # Compiling a graph takes MindSpore a second, and more with hundreds of list entries.
    if problem.dtype == "float16" and len(problem.args[1]) < 64:
        assert_same_bits(run_graph(problem), (output, lse), f"{name}, graph")
    return output, lse


def check(case, dtype):
    return assert_right(build(case, dtype), case.name)


def arguments_of(problem):
    """All arguments of a problem by name; changing one does not change the problem."""
    return dict(zip(test_errors.POSITIONAL[problem.operator], problem.args, strict=True)) | (
        problem.kwargs
    )


_texts_out_of_graphs = set()


def in_every_way(operator, arguments, text):
    """Asserts that the call fails with this text: C interface, PyNative, graph.

    MindSpore takes three seconds to report an error out of a graph: one of each kind, whatever its
    numbers.
    """
    kwargs = {
        name: value
        for name, value in arguments.items()
        if name not in test_errors.POSITIONAL[operator]
    }
    args = tuple(arguments[name] for name in test_errors.POSITIONAL[operator])
    with pytest.raises(ValueError) as error:
        capi_harness.run(cases.Problem(operator, args, kwargs, ""))
    assert str(error.value) == text
    kind = re.sub(r"\d+", "#", text)
    modes = ("pynative",) if kind in _texts_out_of_graphs else ("pynative", "graph")
    _texts_out_of_graphs.add(kind)
    for mode_name in modes:
        with pytest.raises(RuntimeError) as error:
            test_errors.Caller(mode_name)(operator, arguments)
        assert test_errors.text_of(error) == text


# ---- merge and lse -------------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.ROWS_WITHOUT_KEYS)
def test_rows_without_keys(case, dtype):
    """0 and -inf, though output and workspace held NaN before."""
    check(case, dtype)


@each_dtype
@pytest.mark.parametrize("hidden", [-np.inf, -60000.0], ids=["-inf", "-60000"])
def test_fully_masked_rows(dtype, hidden):
    """A 3-D mask may hide every key of a row: by -inf there is then nothing to attend. By a large
    number all keys are equally far away, which is no empty row."""
    case = PrefixCase("masked", (9,), (9,), MaskType.ALIBI_COMPRESS, is_mask_3d=True)
    problem = build(case, dtype)
    mask = problem.args[4]
    for row in (0, 4, 8):
        mask[:, row] = from_float(np.full(128, hidden), dtype)
    output, lse = assert_right(problem, "masked")
    if np.isneginf(hidden):
        assert np.isneginf(lse[[0, 4, 8]]).all() and (to_float(output)[[0, 4, 8]] == 0).all()
    assert np.isfinite(lse[[1, 2, 3, 5, 6, 7]]).all()


@each_dtype
@each_case(*failure_cases.MANY_SPLITS)
def test_lse_of_a_batch_of_128_with_keys_split_over_many_work_items(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.EXTREME_SCORES)
def test_scores_near_the_limit_of_float16_equal_or_far_apart(case, dtype):
    check(case, dtype)


# ---- shared prefix -------------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.FOUR_GROUPS_INTERLEAVED)
def test_4_groups_of_8_and_3_requests_without_interleaved(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.GROUPS_OF_ONE_NONE_AND_EVERYTHING)
def test_groups_of_one_of_none_and_of_everything(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.NO_PRIVATE_KEYS)
def test_no_private_keys_behind_a_prefix(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.LONG_AND_SHORT_PREFIXES)
def test_8_query_heads_on_1_with_a_long_prefix_and_many_requests_with_a_short_one(case, dtype):
    check(case, dtype)


@each_dtype
@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
@pytest.mark.parametrize(
    ("group", "kv_seq_len", "text"),
    [
        (
            *(0, 34),
            "kv_seq_len[0]=34 is smaller than its shared prefix kv_share_len[0]=35; kv_seq_len "
            "counts shared and private keys together",
        ),
        (2, 40, "kv_share_map must be -1 or a group in [0, 2), got kv_share_map[0]=2"),
        (-2, 40, "kv_share_map must be -1 or a group in [0, 2), got kv_share_map[0]=-2"),
    ],
    ids=["prefix longer than all", "group too large", "group too small"],
)
def test_a_prefix_longer_than_kv_seq_len_or_a_group_that_is_not(
    form, dtype, group, kv_seq_len, text
):
    problem = build(RelayCase("wrong", (5, 33), (0, 1), (35, 7), form=form), dtype)
    arguments = arguments_of(problem)
    arguments["kv_share_map"][0], arguments["kv_seq_len"][0] = group, kv_seq_len
    in_every_way(problem.operator, arguments, f"relay_attention: {text}")
