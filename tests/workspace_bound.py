# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The bound on the workspace that docs/c_and_pytorch.md ("How large the workspace is") states.

Letters are those of that page. It is computed from the lengths alone, and knows nothing of
instruction sets, paths, or how a plan cuts its work.
"""

import heapq

import numpy as np

SPAN_KEYS = 1024
STATE_ELEMENTS = 65536
SHARED_ROWS = 256
PREFILL_ROWS = 512


def round_up(number, multiple):
    return -(-number // multiple) * multiple


def workspace_bound(problem, num_threads):
    """Bytes that phase 1 asks for at most.

    Args:
        problem: case_inputs.Problem.
        num_threads: that the plan may use.
    """
    head_num = problem.kwargs["head_num"]
    kv_head_num = problem.kwargs["kv_head_num"] or head_num
    heads_per_kv_head = head_num // kv_head_num
    head_size, value_head_size = _head_sizes(problem, kv_head_num)
    d, v = round_up(head_size, 32), round_up(value_head_size, 16)

    is_relay = problem.operator == "relay_attention"
    pieces, num_grouped = (_relay_pieces if is_relay else _prefill_pieces)(
        problem, heads_per_kv_head
    )
    n = num_grouped
    if num_threads > 1:
        results = (tokens * -(-keys // SPAN_KEYS) for tokens, keys in pieces)
        n += sum(heapq.nlargest(3 * num_threads, results))
    r = heads_per_kv_head * max((tokens for tokens, _ in pieces), default=1)
    h = min(r * kv_head_num, max(r, STATE_ELEMENTS // v))
    k = min(kv_head_num, h)
    scratch = 4 * h * (2 * v + 5) + 4 * d * (h + 15 * k) + 16 * r + 1024 * d + 1160 * v + 1024
    return n * round_up(4 * head_num * (v + 2), 64) + num_threads * scratch


def _head_sizes(problem, kv_head_num):
    """head_size and value_head_size."""
    query, key, value = problem.args[:3]
    head_num = problem.kwargs["head_num"]
    head_size = query.shape[-1] // head_num if query.ndim == 2 else query.shape[-1]
    if isinstance(key, list):
        if not key:
            return head_size, head_size
        key, value = key[0], value[0]
    return head_size, head_size * value.shape[-1] // key.shape[-1]


def _relay_pieces(problem, heads_per_kv_head):
    """Pieces (tokens, keys) that are attended together, and the number of requests in groups."""
    kv_seq_len, kv_share_map, kv_share_len = (np.asarray(a, np.int64) for a in problem.args[7:10])
    most_tokens = max(1, SHARED_ROWS // heads_per_kv_head)
    pieces, num_grouped = [], 0
    for group, num_keys in enumerate(kv_share_len):
        num_members = int((kv_share_map == group).sum())
        if num_keys:
            num_grouped += num_members
            whole, rest = divmod(num_members, most_tokens)
            pieces += [(tokens, int(num_keys)) for tokens in [most_tokens] * whole + [rest]]
    shared = np.append(kv_share_len, 0)[kv_share_map]
    pieces += [(1, int(num_keys)) for num_keys in kv_seq_len - shared]
    return pieces, num_grouped


def _prefill_pieces(problem, heads_per_kv_head):
    seq_len, kv_seq_len = (np.asarray(problem.args[i], np.int64) for i in (5, 6))
    most_tokens = max(1, PREFILL_ROWS // heads_per_kv_head)
    pieces = []
    for rows, keys in zip(seq_len.tolist(), kv_seq_len.tolist(), strict=True):
        for first in range(0, rows, most_tokens):
            tokens = min(most_tokens, rows - first)
            pieces.append((tokens, keys - rows + first + tokens))
    return pieces, 0
