# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The same question asked in another way has the same answer, without an oracle: bit by bit where
nothing is computed in another order, else within the rounding that both answers may have.

More of the kind stands where it belongs: the number of threads and the path (relay or plain) in
test_relay_attention.py, chunks in test_prefix_encoder.py, keys split and merged in test_merge.py.
"""

import capi_harness
import numpy as np
import pytest
import transforms
from capi_harness import run
from cases import DTYPES, MASKS, PrefixCase, RelayCase, build
from modes import assert_same_bits
from numerics import as_rows, assert_attention_close, assert_rows_close, expect, half_unit_of_row

from mindspore_relay import MaskType
from mindspore_relay.bfloat16 import from_float, to_float

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_mask = pytest.mark.parametrize(
    ("mask_type", "is_mask_3d"), [mask[1:] for mask in MASKS], ids=[mask[0] for mask in MASKS]
)

GROUPS = RelayCase("groups", (5, 33, 0, 20, 1070), (0, -1, 1, 0, 1), (35, 1100))
PAGED = RelayCase("groups", (5, 33, 0, 20, 70), (0, -1, 1, 0, 1), (35, 1100), form="paged")
OWN_CACHES = RelayCase(
    "groups", (5, 33, 0, 20), (0, -1, 1, 0), (35, 70), form="paged", has_own_share_caches=True
)
# Requests of every kind: with a prefix, without, without rows, with one row.
MIXED = PrefixCase("mixed", (3, 40, 0, 1, 17), (90, 40, 20, 65, 1300))


# ---- the order and number of requests ------------------------------------------------------------


@each_dtype
def test_relay_permuted_requests_and_each_alone(isa, dtype):
    problem = build(GROUPS, dtype)
    output, lse = run(problem)
    for order in ([4, 2, 0, 3, 1], *([b] for b in range(5))):
        results = run(transforms.relay_requests(problem, order))
        assert_same_bits(results, (output[order], lse[order]), f"requests {order}")


@each_dtype
def test_prefix_permuted_requests_and_each_alone(isa, dtype):
    problem = build(MIXED, dtype)
    output, lse = run(problem)
    for order in ([4, 2, 0, 3, 1], *([b] for b in range(5))):
        part, rows = transforms.prefix_requests(problem, order)
        assert_same_bits(run(part), (output[rows], lse[rows]), f"requests {order}")


BATCHES = (7, 60, 257)  # the last is more than a unit of work holds


@each_dtype
def test_relay_alone_or_in_a_batch(isa, dtype):
    lens = tuple(7 * i % 50 for i in range(BATCHES[-1]))
    groups = tuple(i % 3 - 1 for i in range(BATCHES[-1]))
    case = RelayCase("batch", lens, groups, (200, 1050), head_num=2, kv_head_num=1)
    problem = build(case, dtype)
    output, lse = run(problem)
    for batch in (*BATCHES[:-1], 1, 2):
        order = list(range(batch))
        results = run(transforms.relay_requests(problem, order))
        assert_same_bits(results, (output[:batch], lse[:batch]), f"{batch} of 257")
    for request in (3, 59, 256):
        results = run(transforms.relay_requests(problem, [request]))
        expected = output[request : request + 1], lse[request : request + 1]
        assert_same_bits(results, expected, f"request {request} alone")


@each_dtype
def test_prefix_alone_or_in_a_batch(isa, dtype):
    rows = tuple(i % 4 for i in range(BATCHES[-1]))
    lens = tuple(n + 11 * i % 70 for i, n in enumerate(rows))
    problem = build(PrefixCase("batch", rows, lens, head_num=2, kv_head_num=1), dtype)
    output, lse = run(problem)
    for order in (*(list(range(batch)) for batch in (*BATCHES[:-1], 2)), [3], [59], [255]):
        part, part_rows = transforms.prefix_requests(problem, order)
        assert_same_bits(run(part), (output[part_rows], lse[part_rows]), f"requests {order[-1]}")


# ---- where keys and values lie -------------------------------------------------------------------


@each_dtype
def test_relay_list_stacked_and_paged(isa, dtype):
    problem = build(GROUPS, dtype)
    expected = run(problem)
    for is_flat in (False, True):
        for to_form in (transforms.stacked, transforms.paged):
            name = f"{to_form.__name__}, flat {is_flat}"
            assert_same_bits(run(to_form(problem, is_flat)), expected, name)
    for block_size in (1, 48, 256):
        results = run(transforms.paged(problem, True, block_size))
        assert_same_bits(results, expected, f"blocks of {block_size}")


@each_dtype
@pytest.mark.parametrize("case", [PAGED, OWN_CACHES, MIXED], ids=["relay", "own caches", "prefix"])
def test_permuted_physical_blocks(isa, dtype, case):
    problem = build(case, dtype)
    expected = run(problem)
    random = np.random.default_rng(0)
    for _ in range(3):
        moved = transforms.with_blocks_permuted(problem, random)
        assert not np.array_equal(moved.args[1].view(np.uint8), problem.args[1].view(np.uint8))
        assert_same_bits(run(moved), expected, "blocks moved")


@each_dtype
@pytest.mark.parametrize("case", [GROUPS, PAGED, OWN_CACHES], ids=["list", "paged", "own caches"])
def test_renumbered_groups(isa, dtype, case):
    problem = build(case, dtype)
    assert_same_bits(run(transforms.with_groups(problem, (1, 0))), run(problem), "exchanged")


@each_dtype
@pytest.mark.parametrize("case", [GROUPS, PAGED, OWN_CACHES], ids=["list", "paged", "own caches"])
def test_an_added_group_without_members(isa, dtype, case):
    problem = build(case, dtype)
    expected = run(problem)
    for numbers in ((1, 2), (0, 5), (3, 0)):
        results = run(transforms.with_groups(problem, numbers))
        assert_same_bits(results, expected, f"groups are {numbers}")


@each_dtype
def test_a_group_without_keys_is_no_group(isa, dtype):
    """Group 2, of no keys, holds all requests that had none."""
    problem = build(GROUPS, dtype)
    query, key, value, key_share, value_share, *rest = problem.args
    mask, seq_len, kv_seq_len, kv_share_map, kv_share_len = rest
    share_map = np.where(kv_share_map < 0, 2, kv_share_map).astype(np.int32)
    share_len = np.append(kv_share_len, np.int32(0))
    shares = ([*groups, groups[0][:0]] for groups in (key_share, value_share))
    args = (query, key, value, *shares, mask, seq_len, kv_seq_len, share_map, share_len)
    assert_same_bits(run(problem._replace(args=args)), run(problem), "group of no keys")


# ---- prefixes cut elsewhere ----------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("split", [0, 1, 15, 64, 100, 1023, 1024, 1025, 1300])
def test_relay_prefix_that_ends_anywhere(isa, dtype, split):
    """The first `split` of the same 1,300 keys are the group's, the rest every request's own."""
    case = RelayCase("whole", (1300,), head_num=4, kv_head_num=2, head_size=64)
    whole = build(case, dtype)
    query, key, value, _, _, mask, *_ = whole.args
    rows = np.concatenate([query, from_float(-to_float(query), dtype)])
    ones, lens = np.ones(2, np.int32), np.full(2, 1300, np.int32)
    own = ([array[0][split:1300]] * 2 for array in (key, value))
    share = ([array[0][:split]] for array in (key, value))
    group = (np.zeros(2, np.int32), np.array([split], np.int32))
    output, lse = run(whole._replace(args=(rows, *own, *share, mask, ones, lens, *group)))
    assert_attention_close(output[:1], expect(whole), f"split at {split}", lse[:1])
    no_groups = (np.full(2, -1, np.int32), np.zeros(0, np.int32))
    all_own = (rows, key * 2, value * 2, [], [], mask, ones, lens, *no_groups)
    assert_attention_close(output, expect(whole._replace(args=all_own)), f"split at {split}", lse)


@each_dtype
@pytest.mark.parametrize("num_prefix_blocks", [0, 1, 2, 5])
def test_prefix_is_a_relayed_prefix_and_the_new_keys_merged(isa, dtype, num_prefix_blocks):
    """relay_attention of the new rows over the prefix, prefix_encoder of them over themselves."""
    num_rows, prefix_len = 23, num_prefix_blocks * 16
    case = PrefixCase("whole", (num_rows,), (prefix_len + num_rows,), head_size=64)
    problem = build(case, dtype)
    query, key, value, block_tables, *_ = problem.args
    tables = block_tables[:, num_prefix_blocks:].copy()
    lens = np.array([num_rows], np.int32)
    own_args = (query, key, value, tables, None, lens, lens, None)
    parts = [*run(problem._replace(args=own_args))]

    rows, no_tables = np.ones(num_rows, np.int32), np.zeros((num_rows, 0), np.int32)
    kwargs = {name: problem.kwargs[name] for name in ("head_num", "kv_head_num", "qk_scale")}
    kwargs |= {"block_tables": no_tables, "share_block_tables": block_tables}
    lengths = (rows * prefix_len, rows * 0, np.array([prefix_len], np.int32))
    relay_args = (query, key, value, None, None, None, rows, *lengths)
    relay = problem._replace(operator="relay_attention", args=relay_args, kwargs=kwargs)
    parts += run(relay)

    output, lse = capi_harness.merge_attention_states(*parts)
    assert_attention_close(output, _with_rounding_of(expect(problem), parts[::2]), "merged", lse)


def _with_rounding_of(expected, parts):
    """A budget that allows that parts of the result were rounded before they were merged."""
    shape = expected.output.shape
    units = [half_unit_of_row(to_float(part).reshape(shape), expected.dtype) for part in parts]
    return expected._replace(budget=expected.budget + sum(units))


# ---- content -------------------------------------------------------------------------------------

both_operators = pytest.mark.parametrize(
    "case", [GROUPS, PAGED, MIXED], ids=["list", "paged", "prefix"]
)


def _with_content(problem, query=None, value=None):
    """The problem with `query` and `value` applied to queries and to values, as float64."""

    def apply(function, array):
        if array is None or function is None:
            return array
        if isinstance(array, list):
            return [apply(function, entry) for entry in array]
        return from_float(function(to_float(array)), problem.dtype)

    args = list(problem.args)
    args[0] = apply(query, args[0])
    args[2] = apply(value, args[2])
    if problem.operator == "relay_attention":
        args[4] = apply(value, args[4])
    return problem._replace(args=tuple(args))


@each_dtype
@both_operators
def test_value_scaled_by_2(isa, dtype, case):
    """Twice the output, exactly. All values are above 1: no output is a subnormal float16."""
    with np.errstate(invalid="ignore"):
        once = _with_content(build(case, dtype), value=lambda value: 1 + np.abs(value))
        twice = _with_content(once, value=lambda value: 2 * value)
    output, lse = run(once)
    doubled, doubled_lse = run(twice)
    assert (to_float(output)[np.isfinite(lse).any(axis=1)] > 0.9).all()
    np.testing.assert_array_equal(to_float(doubled), 2 * to_float(output))
    assert_same_bits(doubled_lse, lse, "lse")


@each_dtype
@both_operators
def test_query_of_zeros_gives_the_mean_of_the_visible_values(isa, dtype, case):
    problem = _with_content(build(case, dtype), query=np.zeros_like)
    output, lse = run(problem)
    means, counts = _visible_means(problem)
    is_empty = counts == 0
    # All probabilities are the same; what is left is the float32 sum of values around 1.
    budget = half_unit_of_row(means, dtype) + 2.0**-21
    rows = as_rows(to_float(output), lse)
    assert_rows_close(rows, means, budget, "mean")
    assert (rows[is_empty] == 0).all() and np.isneginf(lse[is_empty]).all()
    expected_lse = np.log(counts[~is_empty])
    np.testing.assert_allclose(lse[~is_empty], expected_lse[:, None].repeat(4, axis=1), rtol=1e-6)


def _visible_means(problem):
    """Mean of the values that each row and head sees (0 without any), and how many there are."""
    values = []
    if problem.operator == "prefix_encoder":
        _, _, cache, tables, _, seq_len, kv_seq_len, _ = problem.args
        for num_rows, num_keys, table in zip(seq_len, kv_seq_len, tables, strict=True):
            for position in range(num_keys - num_rows, num_keys):
                values.append(_first_tokens(cache, table, position + 1))
    else:
        _, _, value, _, value_share, _, _, kv_seq_len, kv_share_map, kv_share_len = problem.args
        own, share = (problem.kwargs.get(n) for n in ("block_tables", "share_block_tables"))
        value_share = value if value_share is None else value_share
        for request, (num_keys, group) in enumerate(zip(kv_seq_len, kv_share_map, strict=True)):
            num_shared = kv_share_len[group] if group >= 0 else 0
            parts = [_tokens_of(value, own, request, num_keys - num_shared)]
            if group >= 0:
                parts.append(_tokens_of(value_share, share, group, num_shared))
            values.append(np.concatenate(parts))
    means = [tokens.sum(axis=0) / max(len(tokens), 1) for tokens in values]
    means = np.repeat(np.array(means), 2, axis=1)  # 4 query heads on 2 kv heads
    return means, np.array([len(tokens) for tokens in values])


def _tokens_of(source, tables, index, num_tokens):
    if tables is None:
        return to_float(source[index][:num_tokens])
    return _first_tokens(source, tables[index], num_tokens)


def _first_tokens(cache, table, num_tokens):
    blocks = cache[table[: -(-num_tokens // cache.shape[1])]]
    return to_float(blocks.reshape(-1, *cache.shape[2:])[:num_tokens])


# ---- biases --------------------------------------------------------------------------------------


def _assert_shifted(problem, shifted, lse_shift):
    """Output the same and lse moved by lse_shift, within what both may be off."""
    (output, lse), (shifted_output, shifted_lse) = run(problem), run(shifted)
    one, other = expect(problem), expect(shifted)
    output, shifted_output = (as_rows(to_float(a), lse) for a in (output, shifted_output))
    assert_rows_close(shifted_output, output, one.budget + other.budget, "output")
    budget = one.lse_budget + other.lse_budget
    assert_rows_close(
        shifted_lse.astype(np.float64)[..., None],
        (lse + lse_shift)[..., None],
        budget,
        "lse",
    )


@each_dtype
@pytest.mark.parametrize("shift", [-3.0, 2.0])
def test_finished_biases_shifted_by_a_constant(isa, dtype, shift):
    """Every bias of a head is moved: the output stays, and lse moves by as much."""
    case = PrefixCase("shift", (20, 5), (150, 5), MaskType.ALIBI_COMPRESS, is_mask_3d=True)
    problem = build(case, dtype)
    args = list(problem.args)
    with np.errstate(invalid="ignore"):
        # Multiples of 1/16 between -8 and 8 are exact in every dtype.
        mask = np.round(to_float(args[4]) * 16) / 16
        args[4] = from_float(mask, dtype)
        problem = problem._replace(args=tuple(args))
        args[4] = from_float(mask + shift, dtype)
    _assert_shifted(problem, problem._replace(args=tuple(args)), shift)


@each_dtype
def test_left_aligned_biases_are_distances_shifted_by_a_constant_per_row(isa, dtype):
    """slope * j = -slope * (p - j) + slope * p."""
    lens = {"seq_len": (20, 5), "kv_seq_len": (150, 5)}
    distance = build(PrefixCase("shift", **lens, mask_type=MaskType.ALIBI_COMPRESS), dtype)
    mask_type = MaskType.ALIBI_COMPRESS_LEFT_ALIGN
    left = build(PrefixCase("shift", **lens, mask_type=mask_type), dtype)
    slopes = left.args[-1]
    np.testing.assert_array_equal(slopes, -distance.args[-1])
    positions = np.concatenate([np.arange(130, 150), np.arange(5)])
    _assert_shifted(distance, left, positions[:, None] * slopes)


@each_dtype
@each_mask
def test_one_row_is_the_last_row_of_a_full_pass(isa, dtype, mask_type, is_mask_3d):
    problem = build(PrefixCase("full", (100,), (100,), mask_type, is_mask_3d), dtype)
    output, lse = run(problem)
    query, key, value, block_tables, mask, _, kv_seq_len, slopes = problem.args
    one = np.ones(1, np.int32)
    args = (query[-1:], key, value, block_tables, mask, one, kv_seq_len, slopes)
    results = run(problem._replace(args=args))
    assert_same_bits(results, (output[-1:], lse[-1:]), "one row")
