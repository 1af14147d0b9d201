# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The oracle against formulas that are written another way, and against answers worked by hand."""

import dataclasses

import cases
import numpy as np
import pytest
from reference_calls import PREFIX, RELAY, one_block_prefix, run
from scipy.special import logsumexp, softmax

from mindspore_relay import reference
from mindspore_relay.masks import (
    MaskType,
    alibi_slopes,
    make_alibi_mask,
    make_alibi_mask_128,
)

# ---- worked by hand ------------------------------------------------------------------------------


def test_two_keys_by_hand():
    """Scores ln 3 and 0: weights 3/4 and 1/4, lse ln 4."""
    query = np.array([[1.0, 0.0]])
    key = [np.array([[[np.log(3.0), 5.0]], [[0.0, -7.0]]])]
    value = [np.array([[[4.0, 8.0, 0.0]], [[0.0, 4.0, 1.0]]])]
    output, lse = reference.relay_attention(
        query, key, value, None, None, None, [1], [2], [-1], None, head_num=1, return_lse=True
    )
    np.testing.assert_allclose(output, [[3.0, 7.0, 0.25]], rtol=1e-15)
    np.testing.assert_allclose(lse, [[np.log(4.0)]], rtol=1e-15)


def test_shared_and_private_keys_both_count():
    """Key 0 is in the group, key 1 private; qk_scale 2 squares the weight of key 0."""
    query = np.array([[1.0]])
    output, lse = reference.relay_attention(
        query,
        [np.array([[[0.0]]])],
        [np.array([[[10.0]]])],
        [np.array([[[np.log(3.0)]]])],
        [np.array([[[20.0]]])],
        None,
        [1],
        [2],
        [0],
        [1],
        head_num=1,
        qk_scale=2.0,
        return_lse=True,
    )
    np.testing.assert_allclose(output, [[(9 * 20 + 1 * 10) / 10]], rtol=1e-15)
    np.testing.assert_allclose(lse, [[np.log(10.0)]], rtol=1e-15)


def test_causal_picture():
    """seq_len 2, kv_seq_len 5: row 0 sees 1 1 1 1 0, row 1 sees 1 1 1 1 1."""
    output, lse = one_block_prefix(
        np.zeros((2, 1, 5)), np.ones((5, 1, 5)), np.eye(5)[:, None], seq_len=2, head_num=1
    )
    np.testing.assert_allclose(output[:, 0], [[0.25] * 4 + [0.0], [0.2] * 5], rtol=1e-15)
    np.testing.assert_allclose(lse[:, 0], np.log([4.0, 5.0]), rtol=1e-15)


def test_query_head_reads_kv_head_of_its_group():
    """9 query heads, 3 kv heads: heads 0-2 read kv head 0, 3-5 read 1, 6-8 read 2."""
    value = np.broadcast_to(np.array([10.0, 11.0, 12.0])[None, :, None], (4, 3, 1))
    output, _ = one_block_prefix(
        np.ones((1, 9, 2)), np.ones((4, 3, 2)), value, seq_len=1, head_num=9, kv_head_num=3
    )
    np.testing.assert_allclose(output[0, :, 0], [10] * 3 + [11] * 3 + [12] * 3, rtol=1e-15)


# ---- against SciPy -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["share_tails_d16", "four_groups_interleaved", "heads_9_3"])
def test_relay_is_softmax_over_all_keys(name):
    problem = cases.build(RELAY[name], "float32")
    output, lse = run(problem)
    query, key, value, key_share, value_share, _, _, kv_seq_len, share_map, share_len = problem.args
    head_num, kv_head_num = problem.kwargs["head_num"], problem.kwargs["kv_head_num"]
    for b, num_keys in enumerate(kv_seq_len):
        shared = share_len[share_map[b]] if share_map[b] >= 0 else 0
        k = np.concatenate([key_share[share_map[b]][:shared], key[b][: num_keys - shared]])
        v = np.concatenate([value_share[share_map[b]][:shared], value[b][: num_keys - shared]])
        k, v = (np.repeat(a, head_num // kv_head_num, axis=1).astype(np.float64) for a in (k, v))
        q = query[b].reshape(head_num, -1).astype(np.float64)
        score = np.einsum("hd,khd->hk", q, k) * problem.kwargs["qk_scale"]
        np.testing.assert_allclose(lse[b], logsumexp(score, axis=1), rtol=1e-13, atol=1e-13)
        expected = np.einsum("hk,khd->hd", softmax(score, axis=1), v).ravel()
        np.testing.assert_allclose(output[b], expected, rtol=1e-11, atol=1e-13)


def _dense_bias(mask_type, slopes, positions, num_keys):
    """(head_num, rows, num_keys) of a whole prefill, -inf above the diagonal."""
    distance = positions[:, None] - np.arange(num_keys)
    term = {
        MaskType.CAUSAL: np.zeros_like(distance, dtype=float),
        MaskType.ALIBI_COMPRESS: distance.astype(float),
        MaskType.ALIBI_COMPRESS_SQRT: np.sqrt(np.maximum(distance, 0)),
        MaskType.ALIBI_COMPRESS_LEFT_ALIGN: np.broadcast_to(np.arange(num_keys), distance.shape),
    }[mask_type]
    bias = slopes[:, None, None].astype(np.float64) * term
    return np.where(distance >= 0, bias, -np.inf)


@pytest.mark.parametrize("seq_len, kv_seq_len", [(2, 5), (1, 40), (40, 40), (172, 300)])
@pytest.mark.parametrize("mask_type", [t for _, t, is_mask_3d in cases.MASKS if not is_mask_3d])
def test_prefix_is_softmax_with_dense_bias(mask_type, seq_len, kv_seq_len):
    random = np.random.default_rng(seq_len)
    head_num, head_size = 6, 8
    query = random.standard_normal((seq_len, head_num, head_size))
    key, value = random.standard_normal((2, kv_seq_len, head_num, head_size))
    mask, slopes, dense_slopes = None, None, np.zeros(head_num)
    if mask_type != MaskType.CAUSAL:
        mask, slopes = make_alibi_mask(mask_type, head_num)
        dense_slopes = slopes
    output, lse = one_block_prefix(
        query,
        key,
        value,
        seq_len,
        mask_type,
        mask=mask,
        slopes=slopes,
        head_num=head_num,
        qk_scale=0.3,
    )
    positions = np.arange(kv_seq_len - seq_len, kv_seq_len)
    score = 0.3 * np.einsum("qhd,khd->hqk", query, key)
    score += _dense_bias(mask_type, dense_slopes, positions, kv_seq_len)
    np.testing.assert_allclose(lse.T, logsumexp(score, axis=-1), rtol=1e-13, atol=1e-13)
    expected = np.einsum("hqk,khd->qhd", softmax(score, axis=-1), value)
    np.testing.assert_allclose(output, expected, rtol=1e-11, atol=1e-13)


# ---- forms and identities ------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"form": "stacked"}, {"form": "paged"}, {"is_kv_flat": True}])
def test_forms_of_the_same_tensors_agree(changes):
    case = RELAY["list_query_3d"]
    expected = run(cases.build(case, "float16"))
    changed = run(cases.build(dataclasses.replace(case, **changes), "float16"))
    for one, other in zip(expected, changed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("split", [0, 1, 7, 12, 13])
def test_split_and_merge_is_one_pass(split):
    random = np.random.default_rng(split)
    query = random.standard_normal((3, 4, 8))
    key, value = random.standard_normal((2, 3, 13, 2, 8))

    def part(begin, end):
        lens = [end - begin] * 3
        rows = slice(begin, end)
        args = (
            query,
            key[:, rows],
            value[:, rows],
            None,
            None,
            None,
            [1] * 3,
            lens,
            [-1] * 3,
            None,
        )
        return reference.relay_attention(*args, head_num=4, kv_head_num=2, return_lse=True)

    merged = reference.merge_attention_states(*part(0, split), *part(split, 13))
    for one, other in zip(merged, part(0, 13), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_merge_of_empty_parts():
    """An empty part has no say, whatever its output holds; +inf counts as empty; NaN stays."""
    nan, inf = np.nan, np.inf
    lse_a = np.array([[-inf], [-inf], [1.0], [inf], [inf], [nan], [1000.0], [-1000.0]])
    lse_b = np.array([[-inf], [1.0], [-inf], [1.0], [-inf], [1.0], [999.0], [-1001.0]])
    out_a = np.array([nan, nan, 5.0, nan, nan, 5.0, 1.0, 1.0])[:, None, None]
    out_b = np.array([nan, 7.0, nan, 7.0, nan, 7.0, 0.0, 0.0])[:, None, None]
    out, lse = reference.merge_attention_states(out_a, lse_a, out_b, lse_b)
    weight = np.e / (1 + np.e)
    np.testing.assert_allclose(out[:, 0, 0], [0, 7, 5, 7, 0, nan, weight, weight], rtol=1e-13)
    both = np.log1p(np.exp(-1.0))
    expected = [-inf, 1.0, 1.0, 1.0, -inf, nan, 1000 + both, -1000 + both]
    np.testing.assert_allclose(lse[:, 0], expected, rtol=1e-15)


@pytest.mark.parametrize("num_chunks", [2, 3, 7])
@pytest.mark.parametrize("mask", [name for name, _, _ in cases.MASKS])
def test_chunked_prefill_is_one_pass(mask, num_chunks):
    problem = cases.build(PREFIX[f"{mask}_rows_140"], "float16")
    whole, whole_lse = run(problem)
    rows_seen = []
    for chunk, rows in cases.chunks_of(problem, num_chunks):
        output, lse = run(chunk)
        np.testing.assert_allclose(output, whole[rows], rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(lse, whole_lse[rows], rtol=1e-13)
        rows_seen.extend(rows)
    assert sorted(rows_seen) == list(range(len(whole)))


@pytest.mark.parametrize("mask_type", [t for _, t, is_mask_3d in cases.MASKS if not is_mask_3d])
def test_one_row_over_100_keys_is_the_last_row_of_a_full_pass(mask_type):
    query, key, value = np.random.default_rng(0).standard_normal((3, 100, 12, 8))
    kwargs = {"head_num": 12}
    if mask_type != MaskType.CAUSAL:
        kwargs["mask"], kwargs["slopes"] = make_alibi_mask(mask_type, 12)
    full = one_block_prefix(query, key, value, 100, mask_type, **kwargs)
    last = one_block_prefix(query[-1:], key, value, 1, mask_type, **kwargs)
    for one, other in zip(full, last, strict=True):
        np.testing.assert_allclose(one[-1:], other, rtol=1e-12, atol=1e-14)


def test_left_align_differs_from_distance_by_a_constant_per_row():
    """slope * j = -slope * (p - j) + slope * p: the output is the same, lse is slope * p larger."""
    query, key, value = np.random.default_rng(1).standard_normal((3, 60, 4, 8))
    distance = MaskType.ALIBI_COMPRESS
    left_align = MaskType.ALIBI_COMPRESS_LEFT_ALIGN
    results = []
    for mask_type in (distance, left_align):
        mask, slopes = make_alibi_mask(mask_type, 4)
        results.append(
            one_block_prefix(query, key, value, 60, mask_type, mask=mask, slopes=slopes, head_num=4)
        )
    (output_a, lse_a), (output_b, lse_b) = results
    np.testing.assert_allclose(output_a, output_b, rtol=1e-11, atol=1e-13)
    shift = np.arange(60)[:, None] * alibi_slopes(4, left_align)
    np.testing.assert_allclose(lse_b - lse_a, shift, rtol=1e-12, atol=1e-12)


def test_3d_mask_of_alibi_is_alibi():
    """300 keys: three pieces of 128 columns. Slopes of 8 heads are powers of two: bias is exact."""
    query, key, value = np.random.default_rng(2).standard_normal((3, 300, 8, 4))
    mask, slopes = make_alibi_mask(MaskType.ALIBI_COMPRESS, 8)
    mask_128 = make_alibi_mask_128(8, 300, "float32")
    kwargs = {"mask_type": MaskType.ALIBI_COMPRESS, "head_num": 8}
    expected = one_block_prefix(query[250:], key, value, 50, mask=mask, slopes=slopes, **kwargs)
    found = one_block_prefix(query[250:], key, value, 50, mask=mask_128, **kwargs)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
