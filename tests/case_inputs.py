# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the inputs of a case in tests/cases.py.

Everything that no length covers holds NaN or infinity: rows past a length, tails of blocks, unused
blocks, entries of a 3-D mask above the diagonal. Unused entries of a block table hold the case's
`table_padding`.
"""

import zlib
from typing import NamedTuple

import numpy as np

from mindspore_relay.bfloat16 import from_float
from mindspore_relay.masks import MaskType, alibi_slopes, make_alibi_mask


class Problem(NamedTuple):
    """One call of an operator: `operator(*args, **kwargs)`; kwargs without return_lse."""

    operator: str  # "relay_attention" or "prefix_encoder"
    args: tuple
    kwargs: dict
    dtype: str

    def map_arrays(self, function):
        """The problem with `function` applied to every array, inside lists too: args, kwargs."""

        def mapped(value):
            if isinstance(value, np.ndarray):
                return function(value)
            return [mapped(v) for v in value] if isinstance(value, list) else value

        return tuple(map(mapped, self.args)), {k: mapped(v) for k, v in self.kwargs.items()}


def build(case, dtype, seed=0):
    """Inputs of a case in one dtype; the same for the same arguments, on every machine.

    Returns:
        Problem.
    """
    random = np.random.default_rng([zlib.crc32(case.name.encode()), seed])
    build_operator = {"relay_attention": _build_relay, "prefix_encoder": _build_prefix}
    return build_operator[case.operator](case, dtype, random)


def _build_relay(case, dtype, random):
    batch, num_groups = len(case.private_len), len(case.kv_share_len)
    kv_share_map = np.array(case.kv_share_map or (-1,) * batch, dtype=np.int32)
    kv_share_len = np.array(case.kv_share_len, dtype=np.int32)
    private_len = np.array(case.private_len, dtype=np.int32)
    share_of_request = np.append(kv_share_len, 0)[kv_share_map]
    kv_seq_len = (private_len + share_of_request).astype(np.int32)

    query = _query(case, random, batch)
    privates = [_tokens(case, random, n) for n in private_len]
    groups = [_tokens(case, random, n) for n in kv_share_len]
    for a, b in case.twins:
        privates[b] = privates[a]

    tables = {}
    if case.form == "paged":
        twin_of = {b: a for a, b in case.twins}
        requests = shares = _Blocks(case, random, case.is_kv_flat)
        for b, tokens in enumerate(privates):
            requests.add(tokens, same_as=twin_of.get(b))
        if case.has_own_share_caches:
            shares = _Blocks(case, random, case.is_share_flat)
        for tokens in groups:
            shares.add(tokens)
        key, value, all_tables = requests.build(dtype)
        tables["block_tables"] = all_tables[:batch]
        if case.has_own_share_caches:
            key_share, value_share, tables["share_block_tables"] = shares.build(dtype)
        else:
            key_share = value_share = None
            tables["share_block_tables"] = all_tables[batch:]
        if num_groups == 0:
            tables["share_block_tables"] = None
    else:
        layout = _stacked if case.form == "stacked" else _listed
        key, value = layout(random, privates, dtype, case.is_kv_flat)
        key_share, value_share = layout(random, groups, dtype, case.is_share_flat)
        if num_groups == 0 and case.form == "stacked":
            key_share = value_share = None

    args = (
        from_float(_flat(query, case.is_query_flat), dtype),
        key,
        value,
        key_share,
        value_share,
        None,
        np.ones(batch, dtype=np.int32),
        kv_seq_len,
        kv_share_map,
        kv_share_len,
    )
    return Problem("relay_attention", args, {**tables, **_attributes(case)}, dtype)


def _build_prefix(case, dtype, random):
    seq_len = np.array(case.seq_len, dtype=np.int32)
    kv_seq_len = np.array(case.kv_seq_len, dtype=np.int32)
    query = _query(case, random, int(seq_len.sum()))
    blocks = _Blocks(case, random, case.is_kv_flat)
    for request, num_tokens in enumerate(kv_seq_len):
        same_as = 0 if request and case.num_common_blocks else None
        blocks.add(_tokens(case, random, num_tokens), same_as, case.num_common_blocks)
    key, value, block_tables = blocks.build(dtype)
    mask, slopes = _mask_and_slopes(case, dtype, random)
    args = (
        from_float(_flat(query, case.is_query_flat), dtype),
        key,
        value,
        block_tables,
        mask,
        seq_len,
        kv_seq_len,
        slopes,
    )
    kwargs = {"mask_type": case.mask_type, **_attributes(case)}
    return Problem("prefix_encoder", args, kwargs, dtype)


def _attributes(case):
    return {
        "head_num": case.head_num,
        "kv_head_num": case.kv_head_num,
        "qk_scale": case.qk_scale or case.head_size**-0.5,
    }


# ---- content -------------------------------------------------------------------------------------


def _direction(head_size):
    """A fixed vector of +-1 that queries and keys of the extreme scores follow."""
    return np.where(np.arange(head_size) % 3 == 0, -1.0, 1.0)


def _query(case, random, num_rows):
    """(num_rows, head_num, head_size), float64."""
    query = random.standard_normal((num_rows, case.head_num, case.head_size))
    if case.scores == "outlier":
        return 0.01 * query + 4.0 * _direction(case.head_size)
    if case.scores == "large":
        return 0.01 * query + np.sqrt(58000 / case.head_size) * _direction(case.head_size)
    return query


def _tokens(case, random, num_tokens):
    """Keys (num_tokens, kv_head_num, head_size) and values, float64.

    case.scores: "normal"; "equal": all keys are the same; "outlier": the score of one key in the
    middle is 1e4 above the rest; "large": query . key is spread over +-58000, near the largest
    float16.
    """
    value_head_size = case.value_head_size or case.head_size
    kv_head_num = case.kv_head_num or case.head_num
    key = random.standard_normal((num_tokens, kv_head_num, case.head_size))
    value = random.standard_normal((num_tokens, kv_head_num, value_head_size))
    direction = _direction(case.head_size)
    if case.scores == "equal":
        key[:] = direction / 2
    elif case.scores == "outlier" and num_tokens:
        qk_scale = case.qk_scale or case.head_size**-0.5
        key[num_tokens // 2] = direction * 1e4 / (4.0 * case.head_size * qk_scale)
    elif case.scores == "large":
        share = random.uniform(-1, 1, size=(num_tokens, kv_head_num, 1))
        key = 0.01 * key + share * np.sqrt(58000 / case.head_size) * direction
    return key, value


def _mask_and_slopes(case, dtype, random):
    if case.mask_type == MaskType.CAUSAL:
        return None, None
    if case.is_mask_3d:
        # Free data: any bias per head on and below the diagonal, NaN where it is not read.
        num_rows = max(case.kv_seq_len) + 3
        bias = random.uniform(-4, 1, size=(case.head_num, num_rows, 128))
        distance = np.arange(num_rows)[:, None] - np.arange(128)
        bias = np.where(distance >= 0, bias, np.nan)
        bias[:, max(case.kv_seq_len) :] = np.nan
        return from_float(bias, dtype), None
    mask, slopes = make_alibi_mask(case.mask_type, case.head_num, dtype)
    if case.slopes_rows:
        first, total = case.slopes_rows
        slopes = alibi_slopes(total, case.mask_type)[first : first + case.head_num]
    return mask, slopes


# ---- layout --------------------------------------------------------------------------------------


def _poison(random, shape):
    """NaN and infinities, float64."""
    return random.choice([np.nan, np.inf, -np.inf], size=shape, p=[0.8, 0.1, 0.1])


def _flat(array, is_flat):
    """(..., head_num, head_size) with the last two axes in one, if is_flat."""
    *leading, head_num, head_size = array.shape
    return array.reshape(*leading, head_num * head_size) if is_flat else array


def _listed(random, entries, dtype, is_flat):
    """Two lists of arrays (rows, ...), each with a few rows of poison after the last token."""
    lists = []
    for arrays in zip(*entries, strict=True) if entries else ([], []):
        padded = [np.concatenate([a, _poison(random, (2, *a.shape[1:]))]) for a in arrays]
        lists.append([from_float(_flat(a, is_flat), dtype) for a in padded])
    return lists


def _stacked(random, entries, dtype, is_flat):
    """Two arrays (entries, longest + 2, ...), poison after the last token of each entry."""
    stacked = []
    for arrays in zip(*entries, strict=True) if entries else ([], []):
        if not arrays:
            return None, None
        longest = max(map(len, arrays))
        out = _poison(random, (len(arrays), longest + 2, *arrays[0].shape[1:]))
        for entry, tokens in zip(out, arrays, strict=True):
            entry[: len(tokens)] = tokens
        stacked.append(from_float(_flat(out, is_flat), dtype))
    return stacked


class _Blocks:
    """Key and value caches in which the tokens added lie in blocks of random order."""

    NUM_UNUSED_BLOCKS = 3
    NUM_UNUSED_ENTRIES = 2

    def __init__(self, case, random, is_flat):
        self.case = case
        self.random = random
        self.is_flat = is_flat
        self.entries = []  # tokens (key, value) and the numbers of their blocks before shuffling
        self.num_used = 0

    def add(self, tokens, same_as=None, num_same=None):
        """Adds a request or group; its first num_same blocks (None: all) are those of `same_as`."""
        num_blocks = -(-len(tokens[0]) // self.case.block_size)
        blocks = [] if same_as is None else self.entries[same_as][1][:num_blocks][:num_same]
        num_new = num_blocks - len(blocks)
        blocks = [*blocks, *range(self.num_used, self.num_used + num_new)]
        self.entries.append((tokens, blocks, num_blocks - num_new))
        self.num_used += num_new

    def build(self, dtype):
        """Key cache, value cache, block tables (entries, most blocks + 2; 0 without any block)."""
        block_size = self.case.block_size
        num_blocks = self.num_used + self.NUM_UNUSED_BLOCKS
        shuffled = self.random.permutation(num_blocks).astype(np.int32)
        padding = {"-1": -1, "int32_min": np.iinfo(np.int32).min, "num_blocks": num_blocks}
        width = max((len(blocks) for _, blocks, _ in self.entries), default=0)
        if width:  # else a table without columns: nothing is needed
            width += self.NUM_UNUSED_ENTRIES
        shape = (len(self.entries), width)
        tables = np.full(shape, padding[self.case.table_padding], dtype=np.int32)
        caches = []
        for which in (0, 1):
            head_size = self.case.head_size if which == 0 else self.case.value_head_size
            kv_head_num = self.case.kv_head_num or self.case.head_num
            shape = (kv_head_num, head_size or self.case.head_size)
            cache = _poison(self.random, (num_blocks, block_size, *shape))
            for row, (tokens, blocks, num_same) in zip(tables, self.entries, strict=True):
                row[: len(blocks)] = shuffled[blocks]
                for i in range(num_same, len(blocks)):
                    piece = tokens[which][i * block_size : (i + 1) * block_size]
                    cache[shuffled[blocks[i]], : len(piece)] = piece
            caches.append(from_float(_flat(cache, self.is_flat), dtype))
        return *caches, tables


# ---- chunked prefill -----------------------------------------------------------------------------


def chunks_of(problem, num_chunks):
    """A prefix_encoder problem as `num_chunks` problems, to be run one after the other.

    Chunk c has the c-th part of each request's rows, and the keys up to its last row.

    Returns:
        List of (problem, rows): `rows` are the rows of the whole problem's output that it computes.
    """
    query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes = problem.args
    first_row = np.cumsum(seq_len) - seq_len
    chunks = []
    for chunk in range(num_chunks):
        parts = [np.array_split(np.arange(n), num_chunks)[chunk] for n in seq_len]
        rows = np.concatenate([first + part for first, part in zip(first_row, parts, strict=True)])
        lens = np.array([len(part) for part in parts], dtype=np.int32)
        num_done = np.array([part[-1] + 1 if len(part) else 0 for part in parts], dtype=np.int32)
        kv_lens = np.where(lens > 0, kv_seq_len - seq_len + num_done, 0).astype(np.int32)
        args = (query[rows], key, value, block_tables, mask, lens, kv_lens, slopes)
        chunks.append((problem._replace(args=args), rows))
    return chunks
