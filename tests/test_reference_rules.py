# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The oracle's rules: rows without keys, NaN, the plain formula, cache writes, errors."""

import cases
import numerics
import numpy as np
import pytest
from reference_calls import PREFIX, RELAY, one_block_prefix, run

from mindspore_relay import reference
from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import (
    MaskType,
    make_alibi_mask_128,
)

# ---- rows without keys, NaN ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("case", cases.CASES, ids=lambda c: f"{c.operator}-{c.name}")
def test_bytes_that_no_length_covers_do_not_matter(case, dtype):
    """They are NaN and infinity in every case; and rows without keys are exactly (0, -inf)."""
    problem = cases.build(case, dtype)
    output, lse = run(problem)
    assert np.isfinite(output).all()
    rows = numerics.as_rows(output, lse)
    is_empty = np.isneginf(lse)
    assert np.isfinite(lse[~is_empty]).all()
    assert (rows[is_empty] == 0).all()
    if problem.operator == "relay_attention":
        np.testing.assert_array_equal(is_empty.all(axis=1), problem.args[7] == 0)
    else:
        assert not is_empty.any()


def test_nan_in_a_visible_value_stays_in_its_column_and_rows():
    query, key, value = np.random.default_rng(3).standard_normal((3, 4, 2, 8))
    value[2, 1, 5] = np.nan
    output, lse = one_block_prefix(query, key, value, 4, head_num=2)
    expected = np.zeros((4, 2, 8), bool)
    expected[2:, 1, 5] = True  # rows 2 and 3 see key 2
    np.testing.assert_array_equal(np.isnan(output), expected)
    assert np.isfinite(lse).all()


def test_nan_in_a_visible_key_reaches_the_rows_that_see_it():
    query, key, value = np.random.default_rng(4).standard_normal((3, 4, 2, 8))
    key[2, 1, 5] = np.nan
    output, lse = one_block_prefix(query, key, value, 4, head_num=2)
    expected = np.zeros((4, 2), bool)
    expected[2:, 1] = True
    np.testing.assert_array_equal(np.isnan(lse), expected)
    np.testing.assert_array_equal(np.isnan(output), np.broadcast_to(expected[..., None], (4, 2, 8)))


def test_3d_mask_may_hide_keys():
    """-inf below the diagonal hides a key, NaN in its value included; all hidden: (0, -inf)."""
    mask = make_alibi_mask_128(1, 3, "float32", slopes=[0.0])
    mask[0, 2, 0] = -np.inf
    mask[0, 1, :] = -np.inf
    value = np.array([[[np.nan]], [[2.0]], [[4.0]]])
    output, lse = one_block_prefix(
        np.zeros((2, 1, 1)),
        np.zeros((3, 1, 1)),
        value,
        2,
        MaskType.ALIBI_COMPRESS,
        mask=mask,
        head_num=1,
    )
    np.testing.assert_array_equal(output.ravel(), [0.0, 3.0])
    np.testing.assert_allclose(lse.ravel(), [-np.inf, np.log(2.0)])


# ---- the plain formula ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, unit", [("float32", 2.0**-24), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
)
def test_plain_formula_errs_as_its_dtype(dtype, unit):
    problem = cases.build(RELAY["private_tails_d64"], dtype)
    output, lse = run(problem)
    plain, plain_lse = run(problem, attend=reference.attend_plain(dtype))
    np.testing.assert_array_equal(plain, to_float(from_float(plain, dtype)))  # it is of that dtype
    error = np.abs(plain - output).max()
    assert unit / 4 < error < 16 * unit
    assert 0 < np.abs(plain_lse - lse).max() < 1e-5


# ---- reshape_and_cache ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("is_flat", [False, True])
def test_reshape_and_cache_writes_what_the_slots_say(dtype, is_flat):
    random = np.random.default_rng(5)
    key, value = random.standard_normal((4, 2, 3)), random.standard_normal((4, 2, 5))
    caches = [from_float(np.full((3, 4, 2, size), 9.0), dtype) for size in (3, 5)]
    if is_flat:
        key, value = key.reshape(4, 6), value.reshape(4, 10)
        caches = [cache.reshape(3, 4, -1) for cache in caches]
    reference.reshape_and_cache(key, value, *caches, [7, -1, 0, 11])
    for tokens, cache in zip((key, value), caches, strict=True):
        slots = cache.reshape(12, *cache.shape[2:])
        for token, slot in ((0, 7), (2, 0), (3, 11)):
            np.testing.assert_array_equal(slots[slot], from_float(tokens[token], dtype))
        untouched = np.delete(slots, [7, 0, 11], axis=0)
        assert (to_float(untouched) == 9.0).all()


def test_reshape_and_cache_refuses_a_slot_outside_before_writing():
    cache = np.zeros((2, 4, 1, 1), np.float16)
    with pytest.raises(ValueError, match=r"slot_mapping\[1\] must be in \[-1, 8\), got 8"):
        reference.reshape_and_cache(np.ones((2, 1, 1)), np.ones((2, 1, 1)), cache, cache, [0, 8])
    assert (cache == 0).all()


# ---- errors --------------------------------------------------------------------------------------


def _changed(problem, **changes):
    """A problem with arguments replaced, by their names in the operator."""
    names = {
        "relay_attention": "query key value key_share value_share attention_mask seq_len kv_seq_len"
        " kv_share_map kv_share_len",
        "prefix_encoder": "query key value block_tables mask seq_len kv_seq_len slopes",
    }[problem.operator].split()
    args = tuple(changes.pop(n, a) for n, a in zip(names, problem.args, strict=True))
    return problem._replace(args=args, kwargs={**problem.kwargs, **changes})


@pytest.mark.parametrize(
    "case, changes, message",
    [
        ("list_flat", {"kv_seq_len": [40, 33, 60, 5]}, r"kv_seq_len\[2\]=60 is smaller than .*70"),
        ("list_flat", {"kv_share_map": [0, -1, 2, 0]}, r"kv_share_map\[2\] must be in \[-1, 2\)"),
        ("list_flat", {"kv_share_map": [0, -2, 1, 0]}, r"kv_share_map\[1\] must be at least -1"),
        ("list_flat", {"kv_seq_len": [40, 33, 78, 99]}, "entry 3 has 22 rows, its length is 64"),
        ("list_flat", {"seq_len": [1, 2, 1, 1]}, r"seq_len\[1\] must be 1, got 2"),
        ("list_flat", {"seq_len": [1, 1, 1]}, r"seq_len must have shape \(4,\), got \(3,\)"),
        ("list_flat", {"kv_head_num": 3}, "head_num must be a multiple of kv_head_num.*=3"),
        ("list_flat", {"mask_type": MaskType.CAUSAL}, "mask_type must be UNDEFINED"),
        ("paged_flat", {"block_tables": np.full((4, 9), -1)}, "entry 0 of row 0.* got -1"),
        ("paged_flat", {"block_tables": np.zeros((4, 0), int)}, "row 0 .* needs 1 entries, has 0"),
    ],
)
def test_relay_refuses(case, changes, message):
    problem = cases.build(RELAY[case], "float16")
    run(problem)
    with pytest.raises(ValueError, match=message):
        run(_changed(problem, **changes))


@pytest.mark.parametrize(
    "case, changes, message",
    [
        (
            "causal_short",
            {"seq_len": [6, 1, 2]},
            r"seq_len\[0\]=6 is larger than kv_seq_len\[0\]=5",
        ),
        ("causal_short", {"seq_len": [5, 1, 4]}, r"sum\(seq_len\) = 10 rows, got 9"),
        ("causal_short", {"slopes": np.zeros(4)}, "must be None with mask_type CAUSAL"),
        ("alibi_short", {"slopes": np.ones(4)}, "<= 0, got slopes"),
        ("alibi_short", {"mask": np.zeros((512, 512))}, r"shape \(256, 256\), got \(512, 512\)"),
        ("alibi_short", {"mask_type": 4}, r"fits ALIBI_COMPRESS \(3\)"),
        ("alibi_128_short", {"slopes": np.zeros(4)}, "slopes must be None"),
        ("alibi_128_short", {"kv_seq_len": [5, 9, 44]}, r"longest kv_seq_len=44"),
    ],
)
def test_prefix_refuses(case, changes, message):
    problem = cases.build(PREFIX[case], "float16")
    run(problem)
    with pytest.raises(ValueError, match=message):
        run(_changed(problem, **changes))
