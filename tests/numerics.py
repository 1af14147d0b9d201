# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""How close is close enough: every row of an output against the float64 oracle.

    error of a row <= 2 * error of the plain formula in the same dtype + one rounding

A row is one token and one head; its error is the largest over its elements. The plain formula is
`reference.attend_plain`. "One rounding" is

* half a unit in the last place of the row's largest element;
* float32: besides, what float32 sums cannot avoid, carried to the output to first order
  (`_float32_rounding`). Half a unit of the output alone would be no measure here: the plain formula
  rounds no more often than any other float32 program, so in some rows it is right by luck, and
  programs that only sum in another order would fail.

A comparison that passed without comparing would be worse than none: NaN, a wrong shape or a wrong
dtype fail, and rows without keys must be exactly 0 with an lse of exactly -inf.
"""

import functools
from typing import NamedTuple

import cases
import numpy as np

from mindspore_relay import reference
from mindspore_relay.bfloat16 import dtype_name, to_float, to_numpy

# Half a unit in the last place of 1.
_HALF_UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# The smallest positive number.
_SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
# Relative error of a product inside a score. bfloat16 products are exact in float32. A float16
# operand may enter a matrix unit as two bfloat16 terms, the product of the two small ones, 2 ** -9
# each, left out.
_TERM_UNIT = {"float32": 2.0**-24, "bfloat16": 0.0, "float16": 2.0**-17}


class Expected(NamedTuple):
    """What an output is compared with. Rows are (tokens, head_num)."""

    dtype: str
    shape: tuple  # of the output
    output: np.ndarray  # (tokens, head_num, value_head_size), float64
    budget: np.ndarray  # (tokens, head_num): allowed error of a row
    lse: np.ndarray  # (tokens, head_num), float64
    lse_budget: np.ndarray  # (tokens, head_num)


def expect(problem, evens_luck=False):
    """Expected result of a `cases.Problem`: runs the oracle and the plain formula.

    evens_luck: of thousands of random problems, the plain formula in a 16-bit dtype has hardly any
        error in some row, by luck, and no other program can be held to that. Then counts instead
        its median error of the problem's rows, in units of each; and half a unit more at most for
        what float32 does to large scores.
    """
    operator = getattr(reference, problem.operator)

    def run(attend):
        output, lse = operator(*problem.args, **problem.kwargs, return_lse=True, attend=attend)
        return output.shape, as_rows(output, lse), lse

    shape, output, lse = run(reference.attend)
    _, plain_output, plain_lse = run(reference.attend_plain(problem.dtype))
    _, output_rounding, lse_rounding = run(_float32_rounding(_TERM_UNIT[problem.dtype]))

    half_unit = half_unit_of_row(output, problem.dtype)
    plain_error = _row_max(_difference(plain_output, output))
    output_rounding = _row_max(np.where(np.isnan(output), 0.0, output_rounding))
    if problem.dtype != "float32":
        output_rounding = np.minimum(output_rounding, half_unit) if evens_luck else 0.0
        has_keys = ~np.isneginf(lse)
        if evens_luck and has_keys.any():
            median = np.median((plain_error / half_unit)[has_keys])
            plain_error = np.maximum(plain_error, median * half_unit)
    budget = 2.0 * plain_error + half_unit + output_rounding
    lse_rounding = np.where(np.isnan(lse), 0.0, lse_rounding) + 2.0**-23 * _finite(lse)
    lse_budget = 2.0 * _difference(plain_lse, lse) + lse_rounding
    if not np.isfinite(budget).all() or not np.isfinite(lse_budget).all():
        raise ValueError("the plain formula overflows in this dtype: no measure for this case")
    return Expected(problem.dtype, shape, output, budget, lse, lse_budget)


@functools.cache
def expect_case(case, dtype, seed=0):
    """`expect(cases.build(case, dtype, seed))`, computed once per test run."""
    return expect(cases.build(case, dtype, seed))


def assert_attention_close(output, expected, name, lse=None):
    """Asserts that an operator's output, and its lse if given, is right in every row.

    Args:
        output: MindSpore tensor or NumPy array (uint16 for bfloat16), in the operator's form.
        expected: Expected.
        name: of the case, for the message.
        lse: float32, (tokens, head_num).
    """
    output = _as_numpy(output)
    assert dtype_name(output) == expected.dtype, f"{name}: output has dtype {dtype_name(output)}"
    assert output.shape == expected.shape, f"{name}: output {output.shape}, not {expected.shape}"
    rows = as_rows(to_float(output), expected.lse)
    assert_rows_close(rows, expected.output, expected.budget, name)
    is_empty = np.isneginf(expected.lse)
    assert (rows[is_empty] == 0).all(), f"{name}: a row without keys is not exactly 0"
    if lse is not None:
        assert_lse_close(lse, expected, name)


def assert_lse_close(lse, expected, name):
    """Asserts that an lse is right in every row: exactly -inf without keys, else within budget."""
    lse = _as_numpy(lse)
    assert lse.dtype == np.float32, f"{name}: lse has dtype {lse.dtype}"
    assert lse.shape == expected.lse.shape, f"{name}: lse {lse.shape}, not {expected.lse.shape}"
    is_empty = np.isneginf(expected.lse)
    assert np.isneginf(lse[is_empty]).all(), f"{name}: lse of a row without keys is not -inf"
    lse, oracle = np.where(is_empty, 0.0, lse), np.where(is_empty, 0.0, expected.lse)
    assert_rows_close(lse[..., None], oracle[..., None], expected.lse_budget, f"{name}: lse")


def assert_rows_close(rows, oracle, budget, name):
    """Asserts |rows - oracle| <= budget in each row, and NaN exactly where the oracle has NaN.

    Args:
        rows, oracle: (..., row_size), float64. budget: (...).
    """
    assert rows.shape == oracle.shape, f"{name}: shape {rows.shape}, not {oracle.shape}"
    is_wrong_nan = np.isnan(rows) != np.isnan(oracle)
    if is_wrong_nan.any():
        at = tuple(int(i) for i in np.argwhere(is_wrong_nan)[0])
        raise AssertionError(f"{name}: {at} is {rows[at]}, the oracle has {oracle[at]}")
    error = _row_max(_difference(rows, oracle))
    if (error > budget).any():
        excess = error / np.maximum(budget, np.finfo(np.float64).tiny)
        worst = np.unravel_index(np.argmax(excess), error.shape)
        raise AssertionError(
            f"{name}: row {tuple(int(i) for i in worst)}: error {error[worst]:.3e} > "
            f"budget {budget[worst]:.3e}; {int((error > budget).sum())} of {error.size} rows fail"
        )


def as_rows(output, lse):
    """An output in either form as (tokens, head_num, value_head_size)."""
    tokens, head_num = lse.shape
    is_flat = output.ndim == 2
    value_head_size = output.shape[1] // head_num if is_flat else output.shape[2]
    return output.reshape(tokens, head_num, value_head_size)


def half_unit_of_row(oracle, dtype):
    """Half a unit in the last place, in dtype, of the largest element of each row."""
    largest = _row_max(_finite(oracle))
    # 2 ** exponent <= largest < 2 ** (exponent + 1); the unit of 0 and of the subnormal numbers is
    # the smallest of them
    exponent = np.where(largest > 0, np.frexp(largest)[1] - 1, -200)
    return np.maximum(np.ldexp(_HALF_UNIT[dtype], exponent), _SMALLEST[dtype] / 2)


def _float32_rounding(term_unit):
    """In place of `reference.attend`: what float32 rounding may do to output and to lse.

    With score[j] = qk_scale * sum_d(query[d] * key[j][d]) + bias[j] and p = softmax(score), the
    terms of score[j] sum up, in magnitude, to size[j]. To first order, with the units of
    `_sum_unit` for sums over d and over j,
      an error of (term_unit + unit_d) * size[j] in score[j], and a relative error of 2 ** -23 in
        weight j, move output by p[j] times that times value[j] - output, and lse by p[j] times it;
      the sum of p[j] * value[j] is itself off by unit_j * sum(p[j] * |value[j]|), and lse by the
        relative error unit_j of the sum of the weights.

    Returns:
        Function like `reference.attend`: bounds for output (value_head_size,) and for lse.
    """

    def bounds(query, key, value, bias, qk_scale):
        output, lse = reference.attend(query, key, value, bias, qk_scale)
        if np.isneginf(lse):
            return output, 0.0
        visible = ~np.isneginf(bias)
        key, value, bias = key[visible], value[visible], bias[visible]
        p = np.exp(qk_scale * (key @ query) + bias - lse)
        size = abs(qk_scale) * (np.abs(key) @ np.abs(query)) + np.abs(bias)
        weight_error = p * ((term_unit + _sum_unit(len(query))) * size + 2.0**-23)
        sum_unit = _sum_unit(len(p))
        output_error = weight_error @ np.abs(value - output) + sum_unit * (p @ np.abs(value))
        return output_error, weight_error.sum() + sum_unit

    return bounds


def _sum_unit(num_terms):
    """Relative error of a float32 sum of num_terms terms, added one after the other.

    Each addition rounds by 2 ** -24 at most, and the errors, of either sign, grow with the square
    root of their number (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis,
    2019). Not less than one unit in the last place.
    """
    return max(2.0, num_terms**0.5) * 2.0**-24


def _as_numpy(array):
    return to_numpy(array) if hasattr(array, "asnumpy") else np.asarray(array)


def _row_max(array):
    return array.max(axis=-1) if array.size else np.zeros(array.shape[:-1])


def _difference(a, b):
    """|a - b|; 0 where both are the same infinity or b is NaN."""
    with np.errstate(invalid="ignore"):
        return np.where((a == b) | np.isnan(b), 0.0, np.abs(a - b))


def _finite(array):
    """|array|, 0 where it is not finite."""
    return np.where(np.isfinite(array), np.abs(array), 0.0)
