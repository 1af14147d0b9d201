# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the operators over the tensors of a PagedKVCache, and the comparison with the oracle."""

from dataclasses import dataclass

import numerics
import numpy as np
from case_inputs import Problem

from mindspore_relay import capi, operators
from mindspore_relay.bfloat16 import to_numpy, to_tensor
from mindspore_relay.masks import MaskType
from soak_load import SoakError


@dataclass(frozen=True)
class Sizes:
    """Shapes of the load's calls. Ratios and sizes that are no powers of two, to meet tails."""

    head_num: int = 6
    kv_head_num: int = 2
    head_size: int = 24
    value_head_size: int = 40
    batch: int = 12  # places of a decode step
    max_blocks: int = 12  # columns of block tables


SIZES = Sizes()
# Lengths of prefill calls through MindSpore. Each shape that PyNative has not met costs memory that
# MindSpore keeps, so they are few; the C interface gets any.
MINDSPORE_PIECES = (33, 16, 5, 1)


def _attributes():
    return {
        "head_num": SIZES.head_num,
        "kv_head_num": SIZES.kv_head_num,
        "qk_scale": SIZES.head_size**-0.5,
    }


def _int32(values):
    return np.ascontiguousarray(values, dtype=np.int32)


class CInterfaceCalls:
    """Through capi.py, on the memory of the cache's Parameters."""

    has_fixed_shapes = False

    @staticmethod
    def _memory(cache, layer):
        return to_numpy(cache.key_caches[layer]), to_numpy(cache.value_caches[layer])

    def reshape_and_cache(self, cache, layer, key, value, slots):
        capi.reshape_and_cache(key, value, *self._memory(cache, layer), _int32(slots))

    def prefix_encoder(self, cache, layer, query, tables, seq_len, kv_seq_len):
        return capi.prefix_encoder(
            query,
            *self._memory(cache, layer),
            tables,
            None,
            _int32(seq_len),
            _int32(kv_seq_len),
            None,
            mask_type=MaskType.CAUSAL,
            **_attributes(),
        )

    def relay_attention(self, cache, layer, query, kv_seq_len, groups):
        return capi.relay_attention(
            query,
            *self._memory(cache, layer),
            None,
            None,
            None,
            np.ones(len(query), np.int32),
            _int32(kv_seq_len),
            groups.kv_share_map,
            groups.kv_share_len,
            block_tables=groups.block_tables,
            share_block_tables=groups.share_block_tables,
            **_attributes(),
        )


class MindSporeCalls:
    """Through the MindSpore operators, in the mode that is set."""

    has_fixed_shapes = True

    def reshape_and_cache(self, cache, layer, key, value, slots):
        caches = (cache.key_caches[layer], cache.value_caches[layer])
        key, value, slots = map(to_tensor, (key, value, _int32(slots)))
        operators.reshape_and_cache(key, value, *caches, slots)

    def prefix_encoder(self, cache, layer, query, tables, seq_len, kv_seq_len):
        query, tables = to_tensor(query), to_tensor(tables)
        seq_len, kv_seq_len = to_tensor(_int32(seq_len)), to_tensor(_int32(kv_seq_len))
        output = operators.prefix_encoder(
            query,
            cache.key_caches[layer],
            cache.value_caches[layer],
            tables,
            None,
            seq_len,
            kv_seq_len,
            None,
            mask_type=MaskType.CAUSAL,
            **_attributes(),
        )
        return to_numpy(output)

    def relay_attention(self, cache, layer, query, kv_seq_len, groups):
        output = operators.relay_attention(
            to_tensor(query),
            cache.key_caches[layer],
            cache.value_caches[layer],
            None,
            None,
            None,
            to_tensor(np.ones(len(query), np.int32)),
            to_tensor(_int32(kv_seq_len)),
            to_tensor(groups.kv_share_map),
            to_tensor(groups.kv_share_len),
            block_tables=to_tensor(groups.block_tables),
            share_block_tables=to_tensor(groups.share_block_tables),
            **_attributes(),
        )
        return to_numpy(output)


CALLERS = (CInterfaceCalls(), MindSporeCalls())


def prefill_pieces(random, caller, num_tokens):
    """Lengths of the calls in which a prompt of num_tokens tokens is prefilled."""
    pieces = []
    while num_tokens:
        if caller.has_fixed_shapes:
            piece = next(n for n in MINDSPORE_PIECES if n <= num_tokens)
        else:
            piece = int(random.integers(1, num_tokens + 1))
        pieces.append(piece)
        num_tokens -= piece
    return pieces


def check_rows(operator, dtype, query, key, value, output):
    """Raises SoakError unless the output is right for queries that see all these keys.

    Args:
        query: (1, head_num, head_size). key, value: (num_keys, kv_head_num, head size).
        output: (1, head_num, value_head_size).
    """
    lengths = ([1], [len(key)], [-1], [])
    args = (query, [key], [value], [], [], None, *map(_int32, lengths))
    problem = Problem("relay_attention", args, _attributes(), dtype)
    try:
        numerics.assert_attention_close(output, numerics.expect(problem), operator)
    except AssertionError as error:
        raise SoakError(f"result: {error}") from error
