# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The Llama as Cells: RMSNorm, RoPE, grouped-query attention over a paged cache, SwiGLU.

Activations are float32, because MindSpore's float16 MatMul on the CPU is several times slower. The
cache may be float16 or bfloat16: query, key and value are rounded to its type right at the
operators.

A row is a token. Activations lie transposed, (features, rows): a product is weight @ activations,
which MindSpore's MatMul computes up to 1.6 times as fast as activations @ weight. Only heads, for
RoPE and the operators, lie (rows, heads, head_size). Operators of tensors of one shape are twice as
fast as those that broadcast; both count, since a step launches hundreds of them.

`DecodeStep` and `Prefill` are two graphs over the same Parameters; what they share is in
`LlamaLayer` and `LlamaModel`, what differs is the attention operator and how rows find their
blocks.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from mindspore_relay import PrefixEncoderAttention, RelayAttention, reshape_and_cache
from mindspore_relay.llama.weights import LayerWeights, LlamaConfig, LlamaWeights


def _parameter(array: np.ndarray, name: str) -> Parameter:
    return Parameter(Tensor.from_numpy(array), name=name, requires_grad=False)


class RMSNorm(nn.Cell):
    """x * rsqrt(mean(x^2) + eps), over the features of x (hidden_size, rows), without a weight."""

    def __init__(self, hidden_size: int, eps: float, name: str):
        super().__init__(auto_prefix=False)
        # As a product the mean over the first axis is six times as fast as by ReduceMean.
        mean_row = np.full((1, hidden_size), 1.0 / hidden_size, np.float32)
        self.mean_row = _parameter(mean_row, f"{name}.mean_row")
        self.eps = eps
        self.matmul = ops.MatMul()

    def construct(self, x):
        return x * ops.rsqrt(self.matmul(self.mean_row, x * x) + self.eps)


class LlamaLayer(nn.Cell):
    """One decoder layer without its attention operator: what comes before it and what follows.

    Args:
        weights: the layer's matrices.
        config: sizes.
        index: number of the layer, for the Parameters' names.
    """

    def __init__(self, weights: LayerWeights, config: LlamaConfig, index: int):
        super().__init__(auto_prefix=False)
        name = f"layers.{index}"
        norm_args = (config.hidden_size, config.rms_norm_eps)
        self.attn_norm = RMSNorm(*norm_args, f"{name}.attn_norm")
        self.qkv = _parameter(weights.qkv, f"{name}.qkv")
        self.attn_output = _parameter(weights.attn_output, f"{name}.attn_output")
        self.ffn_norm = RMSNorm(*norm_args, f"{name}.ffn_norm")
        self.gate_up = _parameter(weights.gate_up, f"{name}.gate_up")
        self.down = _parameter(weights.down, f"{name}.down")
        self.matmul = ops.MatMul()
        self.matmul_transposed = ops.MatMul(transpose_b=True)
        self.split_gate_up = ops.Split(axis=0, output_num=2)
        self.split_halves = ops.Split(axis=2, output_num=2)
        self.concat_halves = ops.Concat(axis=2)
        self.head_size = config.head_size
        self.num_heads = config.head_num + 2 * config.kv_head_num
        self.head_num = config.head_num
        self.value_begin = config.head_num + config.kv_head_num

    def project(self, x, cos, sin):
        """Query, key and value of each row, the first two rotated to its position.

        Args:
            x: (hidden_size, rows), float32.
            cos, sin: from LlamaModel.begin.

        Returns:
            query (rows, head_num, head_size), key and value (rows, kv_head_num, head_size),
            float32.
        """
        heads = ops.transpose(self.matmul(self.qkv, self.attn_norm(x)), (1, 0))
        heads = heads.reshape(-1, self.num_heads, self.head_size)
        first, second = self.split_halves(heads)
        # Value heads too, by the angle 0: that is less work than taking them out and in again.
        heads = heads * cos + self.concat_halves((second, first)) * sin
        return (
            heads[:, : self.head_num],
            heads[:, self.head_num : self.value_begin],
            heads[:, self.value_begin :],
        )

    def finish(self, x, attention):
        """x (hidden_size, rows) plus attention (rows, head_num * head_size) plus feed-forward."""
        x = x + self.matmul_transposed(self.attn_output, attention)
        gate, up = self.split_gate_up(self.matmul(self.gate_up, self.ffn_norm(x)))
        return x + self.matmul(self.down, ops.silu(gate) * up)


class LlamaModel(nn.Cell):
    """Parameters and everything but attention.

    Args:
        config: sizes.
        weights: float32 arrays.
        num_positions: positions that will be used, at most config.max_positions.
    """

    def __init__(self, config: LlamaConfig, weights: LlamaWeights, num_positions: int):
        super().__init__(auto_prefix=False)
        self.layers = nn.CellList(
            [LlamaLayer(layer, config, i) for i, layer in enumerate(weights.layers)],
            auto_prefix=False,
        )
        self.embedding = _parameter(weights.embedding, "embedding")
        is_tied = weights.output is weights.embedding
        self.output = self.embedding if is_tied else _parameter(weights.output, "output")
        self.output_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, "output_norm")
        self.output_norm_weight = _parameter(weights.output_norm, "output_norm.weight")
        angles = np.outer(np.arange(num_positions), _rotary_frequencies(config))
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        # A head is [first half, second half], and its rotation head * cos + swapped halves * sin.
        self.cos = _parameter(np.concatenate([cos, cos], axis=1)[:, None, :], "rope_cos")
        self.sin = _parameter(np.concatenate([-sin, sin], axis=1)[:, None, :], "rope_sin")
        # 1 for heads that are rotated: queries and keys; 0 for values.
        is_rotated = np.ones((1, config.head_num + 2 * config.kv_head_num, 1), np.float32)
        is_rotated[:, config.head_num + config.kv_head_num :] = 0
        self.is_rotated = _parameter(is_rotated, "rope_is_rotated")
        self.is_kept = _parameter(1 - is_rotated, "rope_is_kept")
        # Rows of the embedding are tokens, so the output matrix is its transpose.
        self.matmul_transposed = ops.MatMul(transpose_b=True)

    def begin(self, token_ids, positions):
        """What a step begins with.

        Args:
            token_ids, positions: (rows,), int32.

        Returns:
            x (hidden_size, rows); cos and sin (rows, head_num + 2 * kv_head_num, head_size).
        """
        return (
            ops.transpose(ops.gather(self.embedding, token_ids, 0), (1, 0)),
            ops.gather(self.cos, positions, 0) * self.is_rotated + self.is_kept,
            ops.gather(self.sin, positions, 0) * self.is_rotated,
        )

    def logits(self, x):
        """(hidden_size, rows) -> (rows, vocab_size), float32."""
        x = ops.transpose(self.output_norm(x), (1, 0)) * self.output_norm_weight
        return self.matmul_transposed(x, self.output)


def _rotary_frequencies(config: LlamaConfig) -> np.ndarray:
    """(head_size / 2,), float64: theta^(-2i / head_size), radians per position."""
    return config.rope_theta ** (-np.arange(0, config.head_size, 2) / config.head_size)


class _CachedGraph(nn.Cell):
    """A graph over the model and the paged caches of all layers."""

    def __init__(self, model: LlamaModel, config: LlamaConfig, key_caches, value_caches):
        super().__init__(auto_prefix=False)
        self.model = model
        self.key_caches = ms.ParameterTuple(key_caches)
        self.value_caches = ms.ParameterTuple(value_caches)
        self.cache_dtype = key_caches[0].dtype
        self.num_layers = config.num_layers
        self.hidden_size = config.head_num * config.head_size
        heads = (config.head_num, config.head_size, config.kv_head_num)
        self.relay_attention = RelayAttention(*heads)
        self.prefix_encoder = PrefixEncoderAttention(*heads)


class _DecodeGraph(_CachedGraph):
    """What a decode step and its probe have in common."""

    def attend(self, layer, query, inputs):
        """Attention of one layer's queries.

        Args:
            layer: its number.
            query: (batch, head_num, head_size), float32.
            inputs: seq_len, kv_seq_len, kv_share_map, kv_share_len, block_tables,
                share_block_tables, as in DecodeStep.

        Returns:
            (batch, head_num * head_size), float32.
        """
        seq_len, kv_seq_len, kv_share_map, kv_share_len, block_tables, share_block_tables = inputs
        attention = self.relay_attention(
            ops.cast(query.reshape(-1, self.hidden_size), self.cache_dtype),
            self.key_caches[layer],
            self.value_caches[layer],
            None,  # the groups' keys and values lie in the same caches
            None,
            None,
            seq_len,
            kv_seq_len,
            kv_share_map,
            kv_share_len,
            block_tables,
            share_block_tables,
        )
        return ops.cast(attention, ms.float32)


class DecodeStep(_DecodeGraph):
    """One token of every request in the batch; compiled once per batch capacity.

    A place without a request has slot -1, kv_seq_len 0 and kv_share_map -1; its outputs mean
    nothing.
    """

    def construct(self, token_ids, positions, slot_mapping, *inputs):
        """Write the tokens' keys and values, attend, predict.

        Args:
            token_ids, positions, slot_mapping: (batch,), int32.
            inputs: seq_len, kv_seq_len, kv_share_map: (batch,), int32;
                kv_share_len: (num_groups,), int32;
                block_tables: (batch, max_blocks), int32, blocks after the shared ones;
                share_block_tables: (num_groups, max_blocks), int32.

        Returns:
            logits (batch, vocab_size), float32.
        """
        x, cos, sin = self.model.begin(token_ids, positions)
        for i in range(self.num_layers):
            layer = self.model.layers[i]
            query, key, value = layer.project(x, cos, sin)
            reshape_and_cache(key, value, self.key_caches[i], self.value_caches[i], slot_mapping)
            x = layer.finish(x, self.attend(i, query, inputs))
        return self.model.logits(x)


class AttentionProbe(_DecodeGraph):
    """Only the attention of a decode step, in all layers, on filled caches: for timing."""

    def construct(self, query, *inputs):
        """query: (batch, head_num, head_size), float32, for all layers; inputs of DecodeStep."""
        outputs = ()
        for i in range(self.num_layers):
            outputs = (*outputs, self.attend(i, query, inputs))
        return outputs


class ProductProbe(nn.Cell):
    """Only the matrix products of a decode step, in all layers and for the logits: for timing."""

    def __init__(self, model: LlamaModel, num_layers: int):
        super().__init__(auto_prefix=False)
        self.model = model
        self.num_layers = num_layers

    def construct(self, x, rows, gated):
        """x (hidden_size, batch), rows (batch, head_num * head_size), gated (intermediate_size,
        batch), for all layers."""
        outputs = ()
        for i in range(self.num_layers):
            layer = self.model.layers[i]
            outputs = (
                *outputs,
                layer.matmul(layer.qkv, x),
                layer.matmul_transposed(layer.attn_output, rows),
                layer.matmul(layer.gate_up, x),
                layer.matmul(layer.down, gated),
            )
        return (*outputs, self.model.logits(x))


class Prefill(_CachedGraph):
    """Tokens of several requests, packed, on top of what the cache already holds of each."""

    def construct(
        self, token_ids, positions, slot_mapping, seq_len, kv_seq_len, block_tables, last_rows
    ):
        """Write the tokens' keys and values, attend causally, predict after the last token of each
        request.

        Args:
            token_ids, positions, slot_mapping: (num_tokens,), int32, packed in the order of the
            requests. seq_len, kv_seq_len: (batch,), int32: new tokens, and cached plus new tokens,
            of each request. block_tables: (batch, max_blocks), int32, all blocks of each request.
            last_rows: (batch,), int32: row of each request's last token.

        Returns:
            logits (batch, vocab_size), float32.
        """
        x, cos, sin = self.model.begin(token_ids, positions)
        for i in range(self.num_layers):
            layer = self.model.layers[i]
            query, key, value = layer.project(x, cos, sin)
            reshape_and_cache(key, value, self.key_caches[i], self.value_caches[i], slot_mapping)
            attention = self.prefix_encoder(
                ops.cast(query.reshape(-1, self.hidden_size), self.cache_dtype),
                self.key_caches[i],
                self.value_caches[i],
                block_tables,
                None,
                seq_len,
                kv_seq_len,
                None,
            )
            x = layer.finish(x, ops.cast(attention, ms.float32))
        return self.model.logits(ops.gather(x, last_rows, 1))
