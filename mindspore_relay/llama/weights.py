# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration and float32 weights of a Llama-architecture model, from a GGUF file."""

import math
from dataclasses import dataclass

import numpy as np

from mindspore_relay.llama.gguf_file import GGUFFile

# Sizes beyond these are not a language model but an altered number.
_MAX_SIZE = 1 << 24

# What the operators accept: a multiple of 8, at most 576.
_HEAD_SIZE_MULTIPLE = 8
_MAX_HEAD_SIZE = 576


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes and constants of the model.

    Attributes:
        num_layers: decoder layers.
        hidden_size: width of the residual stream.
        intermediate_size: width inside the feed-forward part.
        head_num, kv_head_num, head_size: as in the operators.
        vocab_size: tokens.
        max_positions: longest sequence that the model was trained for, in tokens.
        rope_theta: base of the rotary frequencies.
        rms_norm_eps: added to the mean square.
    """

    num_layers: int
    hidden_size: int
    intermediate_size: int
    head_num: int
    kv_head_num: int
    head_size: int
    vocab_size: int
    max_positions: int
    rope_theta: float
    rms_norm_eps: float


@dataclass(frozen=True)
class LayerWeights:
    """float32 matrices of one decoder layer, each (outputs, inputs), as in the file.

    MindSpore's float32 MatMul on the CPU is fastest with the weight as its left operand in this
    order. Matrices with the same input are joined: one launch for query, key and value and one for
    gate and up. Their columns are multiplied by the weight of the norm in front of them: a launch
    less per norm.

    Attributes:
        qkv: ((head_num + 2 * kv_head_num) * head_size, hidden_size). The query and key rows of a
            head are in half-split order: rotary partners are i and i + head_size / 2.
        attn_output: (hidden_size, head_num * head_size).
        gate_up: (2 * intermediate_size, hidden_size).
        down: (hidden_size, intermediate_size).
    """

    qkv: np.ndarray
    attn_output: np.ndarray
    gate_up: np.ndarray
    down: np.ndarray


@dataclass(frozen=True)
class LlamaWeights:
    """All weights.

    Attributes:
        embedding: (vocab_size, hidden_size), float32.
        layers: one LayerWeights per decoder layer.
        output_norm: (hidden_size,).
        output: (vocab_size, hidden_size); the embedding itself when the file ties them.
    """

    embedding: np.ndarray
    layers: tuple[LayerWeights, ...]
    output_norm: np.ndarray
    output: np.ndarray


def _number(metadata, key, kind, *, default=None):
    """A positive number from the metadata; kind is int or float."""
    value = metadata.get(key, default)
    if value is None:
        raise ValueError(f"metadata {key!r} is missing")
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        good = good and isinstance(value, int) and 0 < value <= _MAX_SIZE
    else:
        good = good and math.isfinite(value) and value > 0
    if not good:
        limit = f" up to {_MAX_SIZE}" if kind is int else ""
        raise ValueError(
            f"metadata {key!r} is {value!r}, expected a positive {kind.__name__}{limit}"
        )
    return kind(value)


def _check_plain_llama(metadata):
    """Refuse what would load but compute something else than this code does."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f"general.architecture is {architecture!r}, only 'llama' is supported")
    if metadata.get("llama.expert_count", 0):
        raise ValueError("mixture-of-experts models are not supported (llama.expert_count is set)")
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(f"llama.rope.scaling.type is {scaling!r}, scaled RoPE is not supported")


def read_config(gguf: GGUFFile) -> LlamaConfig:
    """The model's configuration, checked.

    Raises:
        ValueError: another architecture, a missing or impossible value.
    """
    metadata = gguf.metadata
    _check_plain_llama(metadata)

    def size(key, default=None):
        return _number(metadata, f"llama.{key}", int, default=default)

    head_num = size("attention.head_count")
    kv_head_num = size("attention.head_count_kv", head_num)
    hidden_size = size("embedding_length")
    head_size = size("attention.key_length", hidden_size // head_num or None)
    tokens = metadata.get("tokenizer.ggml.tokens")
    vocab_size = size("vocab_size", len(tokens) if isinstance(tokens, list) else None)
    if head_num % kv_head_num:
        raise ValueError(f"head_count {head_num} is not a multiple of head_count_kv {kv_head_num}")
    if head_size % _HEAD_SIZE_MULTIPLE or head_size > _MAX_HEAD_SIZE:
        raise ValueError(
            f"head size {head_size} is not a multiple of {_HEAD_SIZE_MULTIPLE} up to "
            f"{_MAX_HEAD_SIZE}"
        )
    for key in ("attention.value_length", "rope.dimension_count"):
        if size(key, head_size) != head_size:
            raise ValueError(
                f"llama.{key} is {size(key)}, only the head size {head_size} is supported"
            )
    return LlamaConfig(
        num_layers=size("block_count"),
        hidden_size=hidden_size,
        intermediate_size=size("feed_forward_length"),
        head_num=head_num,
        kv_head_num=kv_head_num,
        head_size=head_size,
        vocab_size=vocab_size,
        max_positions=size("context_length"),
        rope_theta=_number(metadata, "llama.rope.freq_base", float, default=10000.0),
        rms_norm_eps=_number(metadata, "llama.attention.layer_norm_rms_epsilon", float),
    )


def _tensor_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name -> row-major shape of every tensor that the model must have."""
    hidden, inter = config.hidden_size, config.intermediate_size
    q_rows, kv_rows = config.head_num * config.head_size, config.kv_head_num * config.head_size
    shapes = {"token_embd.weight": (config.vocab_size, hidden), "output_norm.weight": (hidden,)}
    for layer in range(config.num_layers):
        layer_shapes = {
            "attn_norm": (hidden,),
            "attn_q": (q_rows, hidden),
            "attn_k": (kv_rows, hidden),
            "attn_v": (kv_rows, hidden),
            "attn_output": (hidden, q_rows),
            "ffn_norm": (hidden,),
            "ffn_gate": (inter, hidden),
            "ffn_up": (inter, hidden),
            "ffn_down": (hidden, inter),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in layer_shapes.items()}
    return shapes


def _check_tensors(gguf: GGUFFile, config: LlamaConfig):
    # Compared before the table of names is made: it bounds the table by the file.
    if config.num_layers > len(gguf.tensors):
        raise ValueError(
            f"block_count is {config.num_layers}, but the file has {len(gguf.tensors)} tensors"
        )
    shapes = _tensor_shapes(config)
    if "output.weight" in gguf.tensors:
        shapes["output.weight"] = (config.vocab_size, config.hidden_size)
    for name, shape in shapes.items():
        if name not in gguf.tensors:
            raise ValueError(f"tensor {name!r} is missing")
        if gguf.tensors[name].shape != shape:
            raise ValueError(
                f"tensor {name!r} has shape {gguf.tensors[name].shape}, the metadata ask for "
                f"{shape}"
            )
    unknown = sorted(set(gguf.tensors) - set(shapes))
    if unknown:
        raise ValueError(
            f"{len(unknown)} tensors are not part of a plain Llama model, the first is "
            f"{unknown[0]!r}"
        )


def _half_split_rows(matrix: np.ndarray, head_size: int) -> np.ndarray:
    """Undo the file's row order of attn_q and attn_k.

    The file stores them for interleaved RoPE, whose partners are rows 2i and 2i + 1 of a head.
    Moved to i and i + head_size / 2, a head is rotated as two halves, without a strided access.
    """
    rows, columns = matrix.shape
    pairs = matrix.reshape(rows // head_size, head_size // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def read_weights(gguf: GGUFFile, config: LlamaConfig) -> LlamaWeights:
    """Dequantise all weights to float32.

    Args:
        gguf: the file.
        config: result of read_config(gguf).

    Raises:
        ValueError: a tensor is missing, has another shape, is unknown, or holds NaN or infinity.
    """
    _check_tensors(gguf, config)

    def read(name):
        return gguf.tensors[name].dequantize()

    def read_layer(layer):
        def part(name):
            return read(f"blk.{layer}.{name}.weight")

        qkv = (
            _half_split_rows(part("attn_q"), config.head_size),
            _half_split_rows(part("attn_k"), config.head_size),
            part("attn_v"),
        )
        gate_up = (part("ffn_gate"), part("ffn_up"))
        return LayerWeights(
            qkv=np.concatenate(qkv) * part("attn_norm"),
            attn_output=np.ascontiguousarray(part("attn_output")),
            gate_up=np.concatenate(gate_up) * part("ffn_norm"),
            down=np.ascontiguousarray(part("ffn_down")),
        )

    embedding = read("token_embd.weight")
    return LlamaWeights(
        embedding=embedding,
        layers=tuple(read_layer(layer) for layer in range(config.num_layers)),
        output_norm=read("output_norm.weight"),
        output=read("output.weight") if "output.weight" in gguf.tensors else embedding,
    )
