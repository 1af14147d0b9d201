# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration and weights: what is read, and every reason to refuse a file."""

import numpy as np
import pytest
from tiny_llama import TinyLlama

from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.weights import read_config, read_weights


@pytest.fixture
def load(tmp_path):
    """Function that writes a tiny model with changes and reads configuration and weights."""

    def write_and_load(model=None, **changes):
        path = tmp_path / "tiny.gguf"
        (model or TinyLlama()).write(path, **changes)
        file = read_gguf(path)
        config = read_config(file)
        return config, read_weights(file, config)

    return write_and_load


def test_config(load):
    model = TinyLlama(rope_theta=50000.0, rms_norm_eps=3e-5)
    config, _ = load(model)
    assert (config.num_layers, config.hidden_size, config.intermediate_size) == (2, 64, 96)
    assert (config.head_num, config.kv_head_num, config.head_size) == (6, 2, 16)
    assert config.vocab_size == len(model.tokens)
    assert config.max_positions == 256
    assert config.rope_theta == 50000.0
    assert config.rms_norm_eps == pytest.approx(3e-5, rel=1e-6)


def test_defaults_of_the_format(load):
    """As many kv heads as heads; hidden size by heads; 10,000."""
    model = TinyLlama(head_num=4, kv_head_num=4)
    absent = ["attention.head_count_kv", "attention.key_length", "rope.freq_base"]
    config, _ = load(model, metadata={f"llama.{key}": None for key in absent})
    assert (config.kv_head_num, config.head_size, config.rope_theta) == (4, 16, 10000.0)


def test_matrices_are_joined_and_hold_the_norm_in_front(load):
    model = TinyLlama()
    _, weights = load(model)
    tensors, layer = model.tensors(), weights.layers[1]
    part = {name.split(".")[2]: t for name, t in tensors.items() if name.startswith("blk.1.")}
    assert not (part["ffn_norm"] == 1).all() and not (part["attn_norm"] == 1).all()
    gate_up = np.concatenate([part["ffn_gate"], part["ffn_up"]]) * part["ffn_norm"]
    np.testing.assert_array_equal(layer.gate_up, gate_up)
    np.testing.assert_array_equal(layer.down, part["ffn_down"])
    np.testing.assert_array_equal(layer.attn_output, part["attn_output"])
    value_rows = layer.qkv[(6 + 2) * 16 :]
    np.testing.assert_array_equal(value_rows, part["attn_v"] * part["attn_norm"])
    for matrix in vars(layer).values():
        assert matrix.flags.c_contiguous and matrix.dtype == np.float32


def test_query_and_key_rows_become_half_split(load):
    """Row 2i of a head in the file becomes row i, row 2i + 1 becomes row i + head_size / 2."""
    model = TinyLlama()
    _, weights = load(model)
    tensors = model.tensors()
    qkv = weights.layers[0].qkv.reshape(6 + 2 + 2, 16, 64)
    norm = tensors["blk.0.attn_norm.weight"]
    query = (tensors["blk.0.attn_q.weight"] * norm).reshape(6, 16, 64)
    key = (tensors["blk.0.attn_k.weight"] * norm).reshape(2, 16, 64)
    np.testing.assert_array_equal(qkv[:6, :8], query[:, 0::2])
    np.testing.assert_array_equal(qkv[:6, 8:], query[:, 1::2])
    np.testing.assert_array_equal(qkv[6:8, :8], key[:, 0::2])
    np.testing.assert_array_equal(qkv[6:8, 8:], key[:, 1::2])


@pytest.mark.parametrize("is_tied", [True, False])
def test_output_matrix(load, is_tied):
    model = TinyLlama(is_tied=is_tied)
    _, weights = load(model)
    assert (weights.output is weights.embedding) == is_tied
    if not is_tied:
        np.testing.assert_array_equal(weights.output, model.tensors()["output.weight"])


BAD_METADATA = {
    "no block count": ({"llama.block_count": None}, "'llama.block_count' is missing"),
    "zero heads": ({"llama.attention.head_count": 0}, "head_count' is 0, expected a positive int"),
    "text for a size": ({"llama.embedding_length": "64"}, "embedding_length' is '64'"),
    "fraction for a size": ({"llama.block_count": 1.5}, "block_count' is 1.5"),
    "flag for a size": ({"llama.block_count": True}, "block_count' is True"),
    "huge size": ({"llama.context_length": 1 << 31}, "up to 16777216"),
    "heads per kv head": ({"llama.attention.head_count_kv": 4}, "6 is not a multiple .* 4"),
    "head size": ({"llama.attention.key_length": 12}, "head size 12 is not a multiple of 8"),
    "large head size": (
        {"llama.attention.key_length": 584},
        "584 is not a multiple of 8 up to 576",
    ),
    "value head size": ({"llama.attention.value_length": 32}, "value_length is 32"),
    "part of a head rotated": ({"llama.rope.dimension_count": 8}, "dimension_count is 8"),
    "scaled RoPE": ({"llama.rope.scaling.type": "yarn"}, "scaled RoPE"),
    "experts": ({"llama.expert_count": 8}, "mixture-of-experts"),
    "negative theta": ({"llama.rope.freq_base": -1.0}, "expected a positive float"),
    "theta not a number": ({"llama.rope.freq_base": float("nan")}, "expected a positive float"),
    "more layers than tensors": ({"llama.block_count": 5000}, "block_count is 5000, but the file"),
    "one layer more": ({"llama.block_count": 3}, "'blk.2.attn_norm.weight' is missing"),
    "one layer less": ({"llama.block_count": 1}, "not part of a plain Llama model"),
    "another width": ({"llama.embedding_length": 32}, r"shape \(263, 64\).*\(263, 32\)"),
    "vocabulary": ({"llama.vocab_size": 262}, r"ask for \(262, 64\)"),
}


@pytest.mark.parametrize(("metadata", "message"), BAD_METADATA.values(), ids=BAD_METADATA.keys())
def test_bad_metadata(load, metadata, message):
    with pytest.raises(ValueError, match=message):
        load(metadata=metadata)


def test_other_architecture(load):
    with pytest.raises(ValueError, match="general.architecture is 'qwen2'"):
        load(architecture="qwen2")


def test_missing_tensor(load):
    with pytest.raises(ValueError, match=r"'blk\.1\.ffn_up\.weight' is missing"):
        load(tensors={"blk.1.ffn_up.weight": None})


def test_unknown_tensor(load):
    """A bias would load and be ignored; the text would be wrong."""
    bias = np.zeros(96, np.float32)
    with pytest.raises(ValueError, match=r"the first is 'blk\.0\.attn_q\.bias'"):
        load(tensors={"blk.0.attn_q.bias": bias})


def test_transposed_tensor(load):
    tensor = TinyLlama().tensors()["blk.0.ffn_down.weight"].T.copy()
    with pytest.raises(ValueError, match=r"ffn_down\.weight' has shape \(96, 64\)"):
        load(tensors={"blk.0.ffn_down.weight": tensor})
