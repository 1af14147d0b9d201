# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Relative L2 error of a result against float64, for --refcheck."""

import numpy as np

from bench.storage import decode

# Tokens of a result that are compared; float64 attention over all of them would take minutes.
MAX_TOKENS = 8


def relative_l2(problem, query, output, keys_values):
    """||output - oracle|| / ||oracle|| over up to MAX_TOKENS tokens, first and last among them.

    Args:
        query, output: (num_tokens, head_num, head_size), storage dtype.
        keys_values: function of a request: key and value (kv_len, kv_head_num, head_size).
    """
    tokens = np.unique(np.linspace(0, problem.num_tokens - 1, MAX_TOKENS).astype(int))
    oracle = []
    for token in tokens:
        request, row = divmod(int(token), problem.q_len)
        num_visible = problem.kv_len - problem.q_len + row + 1
        key, value = (decode(array[:num_visible]) for array in keys_values(request))
        oracle.append(attend(decode(query[token]), key, value, problem.head_size**-0.5))
    oracle = np.stack(oracle)
    return float(np.linalg.norm(decode(output[tokens]) - oracle) / np.linalg.norm(oracle))


def attend(query, key, value, qk_scale):
    """Attention of one token: query (head_num, head_size), key and value (n, kv_head_num, size)."""
    kv_head_num = key.shape[1]
    rows = query.reshape(kv_head_num, -1, query.shape[-1])
    scores = qk_scale * np.einsum("hgd,nhd->hgn", rows, key, optimize=True)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hgn,nhd->hgd", weights, value, optimize=True).reshape(query.shape[0], -1)
