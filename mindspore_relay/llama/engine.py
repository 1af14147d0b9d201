# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Launches of the two graphs over one paged cache.

Every length and block is settled on the host by PagedKVCache before a launch: a kernel that refuses
its input would leave the compiled graph unusable, so none may ever get a bad one.
"""

import time
from dataclasses import dataclass

import numpy as np

from mindspore_relay.llama.weights import LlamaConfig, LlamaWeights
from mindspore_relay.paged_cache import PagedKVCache
from mindspore_relay.shared_groups import SharedGroups

ATTENTION_MODES = ("relay", "plain")

# Tokens per prefill launch. The matrix products are as fast per token with 256 rows as with more. A
# graph of open shapes keeps the activations of all layers to its end, about 2 MB per token of the
# demo's model: 256 tokens take 0.5 GB.
MAX_PREFILL_TOKENS = 256


@dataclass(frozen=True)
class CacheSize:
    """Capacities of the engine's cache and graphs; all fixed when the graphs are compiled.

    Attributes:
        batch: places in a decode step.
        num_blocks: blocks of the cache.
        max_blocks: blocks that one request can use, its shared prefix included.
        block_size: tokens per block.
    """

    batch: int
    num_blocks: int
    max_blocks: int
    block_size: int


@dataclass(frozen=True)
class DecodeInputs:
    """Host arrays of one decode step, int32, in the order of DecodeStep.construct."""

    token_ids: np.ndarray
    positions: np.ndarray
    slot_mapping: np.ndarray
    seq_len: np.ndarray
    kv_seq_len: np.ndarray
    kv_share_map: np.ndarray
    kv_share_len: np.ndarray
    block_tables: np.ndarray
    share_block_tables: np.ndarray

    def tensors(self):
        return [_int32_tensor(array) for array in vars(self).values()]


class LlamaEngine:
    """A model, its cache and its compiled graphs.

    Sequences are named by the ids of `cache`; a request on top of a prefix is made by
    `cache.share`.

    Args:
        config, weights: from mindspore_relay.llama.weights.
        size: capacities.
        dtype: 'float16', 'bfloat16' or 'float32': type of the cache.

    Attributes:
        cache: the PagedKVCache.
        attention: 'relay', where requests with common leading blocks read these once per step, or
            'plain', where each request reads all its keys for itself. May be changed between steps:
            both are the same compiled graph, and give the same bits.
    """

    def __init__(self, config: LlamaConfig, weights: LlamaWeights, size: CacheSize, dtype: str):
        from mindspore_relay.llama.model import (
            AttentionProbe,
            DecodeStep,
            LlamaModel,
            Prefill,
            ProductProbe,
        )

        self.config = config
        self.size = size
        self.attention = "relay"
        self.cache = PagedKVCache(
            config.num_layers,
            size.num_blocks,
            size.block_size,
            config.kv_head_num,
            config.head_size,
            dtype=dtype,
        )
        self.cache.create_tensors()
        caches = (self.cache.key_caches, self.cache.value_caches)
        num_positions = min(config.max_positions, size.max_blocks * size.block_size)
        model = LlamaModel(config, weights, num_positions)
        self._decode_graph = DecodeStep(model, config, *caches)
        self._attention_probe = AttentionProbe(model, config, *caches)
        self._product_probe = ProductProbe(model, config.num_layers)
        self._prefill_graph = Prefill(model, config, *caches)
        self._prefill_graph.set_inputs(*_prefill_input_shapes(size.max_blocks))

    @property
    def num_compiles(self) -> dict[str, int]:
        """How often each graph has been compiled."""
        return {
            "decode": len(self._decode_graph.compile_cache),
            "prefill": len(self._prefill_graph.compile_cache),
        }

    def compile(self) -> float:
        """Compile both graphs and let them allocate their memory; returns the seconds that took.

        The cache is left as it was.
        """
        begin = time.perf_counter()
        num_free = self.cache.num_free_blocks * self.size.block_size
        num_tokens = min(MAX_PREFILL_TOKENS, num_free, self.size.max_blocks * self.size.block_size)
        seq_id = self.cache.allocate()
        self.prefill([seq_id], [[0] * num_tokens])
        self.cache.free(seq_id)
        idle = [-1] * self.size.batch
        self.decode(self.prepare_decode(idle, [0] * self.size.batch))
        return time.perf_counter() - begin

    def prefill(self, seq_ids: list[int], token_lists: list[list[int]]) -> np.ndarray:
        """Append tokens to sequences and predict what follows each.

        Args:
            seq_ids: sequences; each attends to what it holds already.
            token_lists: new tokens of each, at least one.

        Returns:
            (len(seq_ids), vocab_size), float32: logits after the last token of each.

        Raises:
            OutOfBlocksError: nothing was changed.
        """
        lengths = [len(tokens) for tokens in token_lists]
        begins = self.cache.kv_seq_len(seq_ids)
        slots = self.cache.append(seq_ids, lengths).slot_mapping
        tables = self.cache.block_tables(seq_ids, self.size.max_blocks)
        positions = [begin + np.arange(n) for begin, n in zip(begins, lengths, strict=True)]
        token_ids, positions = np.concatenate(token_lists), np.concatenate(positions)
        # Cut the packed tokens into launches; a request may lie in several.
        ends = np.cumsum(lengths)
        logits = np.empty((len(seq_ids), self.config.vocab_size), np.float32)
        for first in range(0, len(token_ids), MAX_PREFILL_TOKENS):
            last = min(first + MAX_PREFILL_TOKENS, len(token_ids))
            parts = np.clip(ends, first, last) - np.clip(ends - lengths, first, last)
            rows = np.flatnonzero(parts)
            piece = slice(first, last)
            part_ends = np.minimum(ends[rows], last)
            kv_seq_len = begins[rows] + part_ends - (ends - lengths)[rows]
            inputs = (token_ids[piece], positions[piece], slots[piece], parts[rows], kv_seq_len)
            inputs = (*inputs, tables[rows], part_ends - first - 1)
            logits[rows] = self._prefill_graph(*map(_int32_tensor, inputs)).asnumpy()
        return logits

    def prepare_decode(self, seq_ids: list[int], token_ids: list[int]) -> DecodeInputs:
        """Make room for one token per sequence and gather a step's inputs.

        Args:
            seq_ids: exactly `size.batch` sequences, -1 for an idle place.
            token_ids: the token that each sequence gets; anything at an idle place.

        Raises:
            OutOfBlocksError: nothing was changed.
        """
        slots = self.cache.append(seq_ids, 1).slot_mapping
        kv_seq_len = self.cache.kv_seq_len(seq_ids)
        is_busy = kv_seq_len > 0
        groups = self.cache.find_shared_groups(seq_ids, self.size.max_blocks)
        if self.attention == "plain":
            groups = _one_group_each(groups)
        groups = groups.padded(self.size.batch)
        return DecodeInputs(
            token_ids=np.where(is_busy, token_ids, 0),
            positions=np.maximum(kv_seq_len - 1, 0),
            slot_mapping=slots,
            seq_len=np.ones(len(seq_ids)),
            kv_seq_len=kv_seq_len,
            kv_share_map=groups.kv_share_map,
            kv_share_len=groups.kv_share_len,
            block_tables=groups.block_tables,
            share_block_tables=groups.share_block_tables,
        )

    def decode(self, inputs: DecodeInputs) -> np.ndarray:
        """One step; (batch, vocab_size), float32 logits, meaningless at idle places."""
        return self._decode_graph(*inputs.tensors()).asnumpy()

    def time_attention(self, inputs: DecodeInputs) -> float:
        """Seconds that the attention of this step takes by itself, over all layers.

        Everything is launched again in a graph of its own: inside the step's graph no operator can
        be timed.
        """
        query = _random_tensor(self.size.batch, self.config.head_num, self.config.head_size)
        # The first three inputs only write this step's keys, which is done.
        return _time_graph(self._attention_probe, query, *inputs.tensors()[3:])

    def time_products(self) -> float:
        """Seconds that the matrix products of a step take by themselves, in the same way."""
        config, batch = self.config, self.size.batch
        x = _random_tensor(config.hidden_size, batch)
        rows = _random_tensor(batch, config.head_num * config.head_size)
        gated = _random_tensor(config.intermediate_size, batch)
        return _time_graph(self._product_probe, x, rows, gated)

    def kv_bytes(self, inputs: DecodeInputs) -> int:
        """Bytes of keys and values that the attention of one step has to read, over all layers."""
        shared = inputs.kv_share_len
        of_request = np.where(inputs.kv_share_map >= 0, shared[inputs.kv_share_map], 0)
        num_keys = int(shared.sum() + (inputs.kv_seq_len - of_request).sum())
        item_bytes = 4 if self.cache.dtype == "float32" else 2
        per_key = 2 * self.config.num_layers * self.config.kv_head_num * self.config.head_size
        return num_keys * per_key * item_bytes


def _one_group_each(groups: SharedGroups) -> SharedGroups:
    """The same keys with every request in a group of its own, which it thus reads for itself.

    Prefix and private keys stay apart, so that sums have the order, and results the bits, that they
    have in common groups.
    """
    members = np.flatnonzero(groups.kv_share_map >= 0)
    group_of_member = groups.kv_share_map[members]
    kv_share_map = np.full_like(groups.kv_share_map, -1)
    kv_share_map[members] = np.arange(len(members))
    return groups._replace(
        kv_share_map=kv_share_map,
        kv_share_len=groups.kv_share_len[group_of_member],
        share_block_tables=groups.share_block_tables[group_of_member],
    )


def _random_tensor(*shape):
    from mindspore import Tensor

    return Tensor(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def _time_graph(graph, *inputs) -> float:
    """Seconds of a launch; the first one, which compiles, is not timed."""
    if not graph.compile_cache:
        graph(*inputs)
    begin = time.perf_counter()
    for output in graph(*inputs):
        output.asnumpy()
    return time.perf_counter() - begin


def _int32_tensor(array):
    from mindspore import Tensor

    return Tensor.from_numpy(np.ascontiguousarray(array, dtype=np.int32))


def _prefill_input_shapes(max_blocks):
    """Number of tokens and of requests are left open, so that one compilation serves them all."""
    import mindspore as ms

    def open_shape(*shape):
        return ms.Tensor(shape=shape, dtype=ms.int32)

    tokens, requests = open_shape(None), open_shape(None)
    tables = open_shape(None, max_blocks)
    return tokens, tokens, tokens, requests, requests, tables, requests
