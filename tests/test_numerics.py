# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: honest float32 arithmetic passes in every case, mistakes do not."""

import cases
import numerics
import numpy as np
import pytest
from reference_calls import PREFIX, RELAY

from mindspore_relay import reference
from mindspore_relay.bfloat16 import from_float, to_float

KEY_TILE = 64


def tiled_attend(query, key, value, bias, qk_scale):
    """What a kernel does in place of `reference.attend`: float32, tile after tile, no rounding.

    Keeps the running maximum, sum and weighted values of one part, and merges two parts by lse.
    """
    visible = ~np.isneginf(bias)
    query, key, value, bias = (
        np.asarray(a, np.float32) for a in (query, key[visible], value[visible], bias[visible])
    )
    middle = len(key) // 3
    parts = [slice(0, middle), slice(middle, len(key))]
    output, lse = np.zeros(value.shape[1], np.float32), np.float32(-np.inf)
    for part in parts:
        part_output, part_lse = _attend_part(query, key[part], value[part], bias[part], qk_scale)
        lse_max = max(lse, part_lse)
        if np.isneginf(lse_max):
            continue
        weight, part_weight = np.exp(lse - lse_max), np.exp(part_lse - lse_max)
        weight_sum = weight + part_weight
        output = weight / weight_sum * output + part_weight / weight_sum * part_output
        lse = lse_max + np.log(weight_sum)
    return output, lse


def _attend_part(query, key, value, bias, qk_scale):
    row_max, row_sum = np.float32(-np.inf), np.float32(0)
    acc = np.zeros(value.shape[1], np.float32)
    for begin in range(0, len(key), KEY_TILE):
        tile = slice(begin, begin + KEY_TILE)
        score = (key[tile] @ query) * np.float32(qk_scale) + bias[tile]
        new_max = max(row_max, score.max())
        alpha, weight = np.exp(row_max - new_max), np.exp(score - new_max)
        row_sum = row_sum * alpha + weight.sum()
        # one key after the other, as a kernel's accumulator does
        terms = np.concatenate([(acc * alpha)[None], weight[:, None] * value[tile]])
        acc = np.add.accumulate(terms)[-1]
        row_max = new_max
    if row_sum == 0:
        return acc, np.float32(-np.inf)
    return acc / row_sum, row_max + np.log(row_sum)


def run(problem, attend=tiled_attend):
    """Output in the storage of the problem's dtype, and lse."""
    operator = getattr(reference, problem.operator)
    output, lse = operator(*problem.args, **problem.kwargs, return_lse=True, attend=attend)
    return from_float(output, problem.dtype), lse.astype(np.float32)


# ---- what must pass ------------------------------------------------------------------------------


def _num_rows(case):
    num_tokens = len(case.private_len) if case in cases.RELAY_CASES else sum(case.seq_len)
    return num_tokens * case.head_num


# float32 has the narrowest budget: every case. The 16-bit types: those that do not take long.
_TRIED = [
    pytest.param(case, dtype, id=f"{case.operator}-{case.name}-{dtype}")
    for case in cases.CASES
    for dtype in cases.DTYPES
    if dtype == "float32" or _num_rows(case) <= 64
]


@pytest.mark.parametrize("case, dtype", _TRIED)
def test_float32_tiles_pass_in_every_case(case, dtype):
    """No case asks for more than float32 arithmetic can give."""
    output, lse = run(cases.build(case, dtype))
    numerics.assert_attention_close(output, numerics.expect_case(case, dtype), case.name, lse)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_plain_formula_passes(dtype):
    case = RELAY["share_tails_d64"]
    output, lse = run(cases.build(case, dtype), reference.attend_plain(dtype))
    numerics.assert_attention_close(output, numerics.expect_case(case, dtype), case.name, lse)


def test_names_are_unique():
    names = [(case.operator, case.name) for case in cases.CASES]
    assert len(names) == len(set(names))


def test_a_case_is_the_same_every_time():
    case = PREFIX["mixed_lengths"]
    for one, other, changed in zip(
        cases.build(case, "float16").args[:3],
        cases.build(case, "float16").args[:3],
        cases.build(case, "float16", seed=1).args[:3],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
        assert not np.array_equal(one, changed, equal_nan=True)


# ---- what must fail ------------------------------------------------------------------------------


@pytest.fixture(params=cases.DTYPES)
def right(request):
    """Expected result and a right output (tokens, head_num, value_head_size) with its lse."""
    case = RELAY["quarter_of_rows_empty"]
    expected = numerics.expect_case(case, request.param)
    output, lse = run(cases.build(case, request.param))
    return expected, to_float(numerics.as_rows(output, expected.lse)), lse


def assert_fails(right, message, output=None, lse=None):
    expected, right_output, right_lse = right
    output = right_output if output is None else output
    lse = right_lse if lse is None else lse
    stored = from_float(output, expected.dtype).reshape(expected.shape)
    with pytest.raises(AssertionError, match=message):
        numerics.assert_attention_close(stored, expected, "case", lse)


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


# Row 1 has keys, row 0 has none.
@pytest.mark.parametrize("at", [(1, 0, 0), (7, 3, 15), (0, 0, 0)])
def test_one_nan_fails(right, at):
    assert_fails(
        right, rf"case: \({at[0]}, {at[1]}, {at[2]}\) is nan", changed(right[1], at, np.nan)
    )


def test_all_nan_fails(right):
    assert_fails(right, "is nan, the oracle has", np.full_like(right[1], np.nan))


def test_infinity_fails(right):
    assert_fails(right, r"row \(1, 0\): error inf", changed(right[1], (1, 0, 0), np.inf))


def test_a_row_that_was_not_written_fails(right):
    assert_fails(right, r"row \(3, 2\): error", changed(right[1], (3, 2), 0.0))


def test_a_row_of_another_head_fails(right):
    assert_fails(right, r"row \(3, 2\): error", changed(right[1], (3, 2), right[1][3, 1]))


def test_output_of_another_step_fails(right):
    case = RELAY["quarter_of_rows_empty"]
    stale, lse = run(cases.build(case, right[0].dtype, seed=1))
    assert_fails(right, "rows fail", to_float(numerics.as_rows(stale, lse)))


def test_anything_but_zero_in_a_row_without_keys_fails(right):
    smallest = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}[right[0].dtype]
    assert_fails(right, "row without keys|error", changed(right[1], (4, 1, 7), smallest))


def test_an_error_just_over_the_budget_fails(right):
    """In a row of small numbers too: a large row does not excuse it."""
    expected, output, _ = right
    unit = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[expected.dtype]
    over = (
        expected.output[2, 1] + 1.1 * expected.budget[2, 1] + unit * np.abs(expected.output[2, 1])
    )
    assert_fails(right, r"row \(2, 1\): error .* 1 of 32 rows fail", changed(output, (2, 1), over))
    # and the budget is of the size of the dtype's rounding, not of the values
    assert expected.budget[2, 1] < 24 * unit * np.abs(expected.output[2, 1]).max()


def test_lse_is_compared_too(right):
    lse = right[2]
    assert_fails(right, r"lse: row \(1, 0\): error", lse=changed(lse, (1, 0), lse[1, 0] + 1e-3))
    assert_fails(right, r"lse: \(1, 0, 0\) is nan", lse=changed(lse, (1, 0), np.nan))
    assert_fails(right, r"lse: row \(1, 0\): error inf", lse=changed(lse, (1, 0), -np.inf))
    assert_fails(right, "lse of a row without keys is not -inf", lse=changed(lse, (0, 0), -1e30))
    assert_fails(right, "lse has dtype float64", lse=lse.astype(np.float64))
    assert_fails(right, r"lse \(4, 8\), not \(8, 4\)", lse=lse.T.copy())
    in_base_2 = (lse / np.log(2.0)).astype(np.float32)
    assert_fails(right, "lse: row", lse=in_base_2)


def test_wrong_form_fails(right):
    expected, output, _ = right
    stored = from_float(output, expected.dtype)
    with pytest.raises(AssertionError, match="output .* not"):
        numerics.assert_attention_close(stored, expected, "case")
    other = "float16" if expected.dtype != "float16" else "bfloat16"
    with pytest.raises(AssertionError, match="output has dtype"):
        numerics.assert_attention_close(
            from_float(output, other).reshape(expected.shape), expected, "case"
        )


def test_nan_is_right_where_the_oracle_has_nan():
    oracle = np.array([[1.0, np.nan, 2.0]])
    numerics.assert_rows_close(oracle.copy(), oracle, np.zeros(1), "case")
    with pytest.raises(AssertionError, match=r"\(0, 1\) is 5.0, the oracle has nan"):
        numerics.assert_rows_close(np.array([[1.0, 5.0, 2.0]]), oracle, np.full(1, 9.0), "case")


def test_nan_in_a_visible_value_has_a_budget_of_its_own():
    """Column 3 of one kv head is NaN; what the other columns hold is compared all the same."""
    problem = cases.build(RELAY["list_query_3d"], "float32")
    problem.args[2][0][1, 1, 3] = np.nan
    expected = numerics.expect(problem)
    output, lse = run(problem)
    assert np.isnan(output[0, 2:, 3]).all() and np.isnan(output).sum() == 2
    numerics.assert_attention_close(output, expected, "case", lse)
    for at, value in (((0, 2), np.nan), ((0, 2, 3), 0.0), ((0, 2, 4), 0.0)):
        with pytest.raises(AssertionError, match=r"case: .*0, 2"):
            numerics.assert_attention_close(changed(output, at, value), expected, "case", lse)


def test_a_case_that_cannot_be_measured_is_an_error():
    """float16 with query . key of 240000: the plain formula is infinite and no measure."""
    problem = cases.build(RELAY["scores_large_scale_0.25"], "float16")
    args = (problem.args[0] * np.float16(4), *problem.args[1:])
    with pytest.raises(ValueError, match="overflows"), np.errstate(invalid="ignore"):
        numerics.expect(problem._replace(args=args))


@pytest.mark.parametrize(
    "dtype, largest, expected",
    [
        ("float32", 1.0, 2.0**-24),
        ("float16", 1.5, 2.0**-11),
        ("float16", 2.0, 2.0**-10),
        ("bfloat16", 0.75, 2.0**-9),
        ("float16", 0.0, 2.0**-25),
    ],
)
def test_half_unit_of_row(dtype, largest, expected):
    assert numerics.half_unit_of_row(np.array([[0.0, -largest]]), dtype)[0] == expected
