# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""merge_attention_states: empty parts, lse, and attention over keys that were split."""

import capi_harness
import numpy as np
import pytest
import scipy.special
from cases import DTYPES, RelayCase, build
from mindspore import nn
from modes import assert_same_bits, mode
from numerics import assert_attention_close, assert_rows_close, expect, half_unit_of_row

import mindspore_relay
from mindspore_relay import reference
from mindspore_relay.bfloat16 import from_float, to_float, to_numpy, to_tensor

INF = np.inf
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


class _Merge(nn.Cell):
    def construct(self, out_a, lse_a, out_b, lse_b):
        return mindspore_relay.merge_attention_states(out_a, lse_a, out_b, lse_b)


def run_mindspore(mode_name, *arrays):
    with mode(mode_name):
        call = mindspore_relay.merge_attention_states if mode_name == "pynative" else _Merge()
        return tuple(map(to_numpy, call(*map(to_tensor, arrays))))


def states(dtype, num_tokens=40, head_num=3, head_size=24, seed=0):
    """Two parts; a quarter of the rows of each is empty, with garbage for an output."""
    random = np.random.default_rng(seed)
    parts = []
    for part in range(2):
        out = random.standard_normal((num_tokens, head_num, head_size))
        lse = random.uniform(-20, 20, size=(num_tokens, head_num)).astype(np.float32)
        lse[part::4] = -INF
        lse[2::8] = -INF  # rows that are empty in both
        out[np.isinf(lse)] = np.nan
        parts += [from_float(out, dtype), lse]
    return parts


def assert_merged(results, arrays, dtype, name):
    """lse within two roundings; out within one of its dtype, and float32 rounding of two terms."""
    out, lse = results
    expected_out, expected_lse = reference.merge_attention_states(*arrays)
    np.testing.assert_allclose(lse, expected_lse, rtol=3e-7, atol=3e-7)
    budget = half_unit_of_row(expected_out, dtype) + 2.0**-21 * np.abs(expected_out).max(axis=-1)
    assert_rows_close(to_float(out), expected_out, budget, name)
    is_empty = np.isneginf(expected_lse)
    assert is_empty.any() and (to_float(out)[is_empty] == 0).all(), name
    assert np.isneginf(lse[is_empty]).all(), name


@each_dtype
def test_accuracy_of_each_isa(isa, dtype):
    arrays = states(dtype)
    assert_merged(capi_harness.merge_attention_states(*arrays), arrays, dtype, isa)


@each_dtype
@pytest.mark.parametrize("mode_name", ["pynative", "graph"])
def test_mindspore_gives_the_bits_of_the_c_interface(mode_name, dtype):
    for arrays in (states(dtype), [array[:0] for array in states(dtype)]):
        expected = capi_harness.merge_attention_states(*arrays)
        assert_same_bits(run_mindspore(mode_name, *arrays), expected, mode_name)


@each_dtype
def test_layout_of_heads_and_number_of_threads_do_not_change_a_bit(isa, num_threads, dtype):
    arrays = states(dtype, num_tokens=900, head_size=128)  # enough bytes for several threads
    num_threads(1)
    out, lse = capi_harness.merge_attention_states(*arrays)
    flat = [a.reshape(len(a), -1) if a.ndim == 3 else a for a in arrays]
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        for problem in (arrays, flat):
            results = capi_harness.merge_attention_states(*problem)
            expected = (out.reshape(problem[0].shape), lse)
            assert_same_bits(results, expected, f"{threads} threads")


@pytest.mark.parametrize(
    ("lse_a", "lse_b", "weight_a", "lse"),
    [
        (0.0, 0.0, 0.5, np.log(2.0)),
        (-INF, 1.0, 0.0, 1.0),
        (1.0, -INF, 1.0, 1.0),
        (-INF, -INF, None, -INF),
        (INF, 1.0, 0.0, 1.0),
        (1.0, INF, 1.0, 1.0),
        (INF, INF, None, -INF),
        (INF, -INF, None, -INF),
        (1000.0, 999.0, 1 / (1 + np.exp(-1.0)), 1000 + np.log1p(np.exp(-1.0))),
        (-1000.0, -1000.0, 0.5, -1000 + np.log(2.0)),
        (3e38, -3e38, 1.0, 3e38),
        (0.0, -200.0, 1.0, 0.0),
    ],
)
def test_known_answers(isa, lse_a, lse_b, weight_a, lse):
    """out_a is 3 and out_b -1; the output of a part without keys is NaN and must not matter."""
    out = [
        np.full((1, 8), np.nan if np.isinf(part_lse) else value, np.float32)
        for value, part_lse in ((3.0, lse_a), (-1.0, lse_b))
    ]
    lses = [np.array([[part_lse]], np.float32) for part_lse in (lse_a, lse_b)]
    merged, merged_lse = capi_harness.merge_attention_states(out[0], lses[0], out[1], lses[1])
    expected = 0.0 if weight_a is None else 3.0 * weight_a - (1.0 - weight_a)
    np.testing.assert_allclose(merged, np.full((1, 8), expected), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(merged_lse, [[lse]], rtol=1e-6)


def test_nan_stays_in_its_row(isa):
    arrays = states("float32")
    out_a, lse_a, out_b, lse_b = arrays
    out_a[5, 1, 2], lse_b[7, 0] = np.nan, np.nan
    lse_a[5, 1] = lse_b[5, 1] = lse_a[7, 0] = 0.0
    out_b[5, 1] = out_a[7, 0] = out_b[7, 0] = 1.0
    out, lse = capi_harness.merge_attention_states(*arrays)
    expected = np.zeros(out.shape, bool)
    expected[5, 1, 2] = expected[7, 0, :] = True
    np.testing.assert_array_equal(np.isnan(out), expected)
    np.testing.assert_array_equal(np.argwhere(np.isnan(lse)), [[7, 0]])


def test_lse_is_that_of_scipy(isa):
    random = np.random.default_rng(0)
    lse_a, lse_b = random.uniform(-90, 90, size=(2, 500, 2)).astype(np.float32)
    out = np.ones((500, 2 * 8), np.float32)
    _, lse = capi_harness.merge_attention_states(out, lse_a, out, lse_b)
    expected = scipy.special.logsumexp(np.stack([lse_a, lse_b]).astype(np.float64), axis=0)
    np.testing.assert_allclose(lse, expected, rtol=2.0**-22, atol=2.0**-22)


@each_dtype
def test_keys_split_at_any_point_and_merged_again(isa, dtype):
    """Attention over the keys before and after each point, merged, is attention over all of them.

    The parts are rounded to the dtype before they are merged, which adds one rounding of each.
    """
    problem = build(RelayCase("split", (200,), head_num=4, kv_head_num=2, head_size=64), dtype)
    query, key, value, *rest = problem.args
    expected = expect(problem)
    for split in range(201):
        parts = []
        for keys in (slice(0, split), slice(split, 200)):
            lengths = (np.ones(1, np.int32), np.array([keys.stop - keys.start], np.int32))
            args = (query, [key[0][keys]], [value[0][keys]], *rest[:3], *lengths, *rest[5:])
            parts += capi_harness.run(problem._replace(args=args))
        out, lse = capi_harness.merge_attention_states(*parts)
        rounding = sum(
            half_unit_of_row(to_float(part).reshape(expected.output.shape), dtype)
            for part in (parts[0], parts[2])
        )
        budget = expected._replace(budget=expected.budget + rounding)
        assert_attention_close(out, budget, f"split at {split}", lse)


def test_operators_of_one_graph_work_together():
    """Own keys and shared keys by two operators and merged by a third: what relay_attention does
    in one."""
    problem = build(RelayCase("graph", (9, 9), (0, 0), (40,)), "float32")
    query, key, value, key_share, value_share, *_ = problem.args
    attributes = {name: problem.kwargs[name] for name in ("head_num", "kv_head_num", "qk_scale")}

    class Net(nn.Cell):
        def construct(self, query, key, value, key_share, value_share):
            own = mindspore_relay.relay_attention(
                *(query, key, value, None, None, None, None, [9, 9], None, None),
                return_lse=True,
                **attributes,
            )
            shared = mindspore_relay.relay_attention(
                *(query, key_share, value_share, None, None, None, None, [40, 40], None, None),
                return_lse=True,
                **attributes,
            )
            return mindspore_relay.merge_attention_states(*own, *shared)

    own = [np.stack(entries) for entries in (key, value)]
    shared = [np.stack(entries * 2) for entries in (key_share, value_share)]
    with mode("graph"):
        out, lse = map(to_numpy, Net()(*map(to_tensor, (query, *own, *shared))))
    assert_attention_close(out, expect(problem), "merged", lse)
