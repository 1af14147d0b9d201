# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The two graphs over the paged cache, against a float64 forward pass that knows no cache."""

from dataclasses import replace

import numpy as np
import pytest
from modes import mode
from tiny_llama import TinyLlama

import mindspore_relay.llama.engine as engine_module
from mindspore_relay.llama.engine import CacheSize, LlamaEngine
from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.weights import read_config, read_weights
from mindspore_relay.paged_cache import OutOfBlocksError
from mindspore_relay.shared_groups import SharedGroups

DTYPES = ["float32", "float16", "bfloat16"]
BATCH = 5
BLOCK_SIZE = 8
MAX_BLOCKS = 12
NUM_BLOCKS = 40

MODELS = {
    "6 heads on 2": TinyLlama(),
    "quantised": TinyLlama(quantization="Q4_1", seed=1),
    "9 heads on 3, untied, one layer": TinyLlama(
        num_layers=1, head_num=9, kv_head_num=3, is_tied=False, rope_theta=1e5, seed=2
    ),
    "as many kv heads": TinyLlama(head_num=4, kv_head_num=4, seed=3),
}


@pytest.fixture(autouse=True)
def graph_mode():
    with mode("graph"):
        yield


def make_engine(model, path, dtype):
    model.write(path)
    file = read_gguf(path)
    config = read_config(file)
    size = CacheSize(BATCH, NUM_BLOCKS, MAX_BLOCKS, BLOCK_SIZE)
    return LlamaEngine(config, read_weights(file, config), size, dtype)


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Function (name of the model, dtype) -> engine with an empty cache; each is compiled once."""
    folder, made = tmp_path_factory.mktemp("engines"), {}

    def get(name="6 heads on 2", dtype="float32"):
        if (name, dtype) not in made:
            made[name, dtype] = make_engine(MODELS[name], folder / "tiny.gguf", dtype)
        engine = made[name, dtype]
        engine.attention = "relay"
        assert engine.cache.num_free_blocks == NUM_BLOCKS, "a test left sequences behind"
        return engine

    return get


@pytest.fixture
def engine(engines):
    return engines()


def random_tokens(length, seed=0):
    return np.random.default_rng([seed, length]).integers(3, 263, length).tolist()


def assert_logits(model, dtype, sequences, logits, rows):
    """Compare logits (n, vocab_size) with the truth after token rows[i] of sequences[i].

    Allowed: twice the largest error of a plain float32 program that rounds to the same cache type,
    and one float32 unit of the largest logit for each matrix product, whose order of summation is
    MindSpore's affair.
    """
    truth, plain = [], []
    for tokens, row in zip(sequences, rows, strict=True):
        truth.append(model.forward(tokens)[row])
        plain.append(model.forward(tokens, compute=np.float32, cache_dtype=dtype)[row])
    truth = np.stack(truth)
    num_products = 4 * model.num_layers + 1
    budget = 2 * np.abs(np.stack(plain) - truth).max()
    budget += num_products * 2.0**-23 * np.abs(truth).max()
    assert np.isfinite(logits).all()
    error = np.abs(logits - truth).max()
    assert error <= budget, f"error {error:.3g}, budget {budget:.3g}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_prefill_of_packed_prompts(engines, name, dtype):
    engine = engines(name, dtype)
    prompts = [random_tokens(length) for length in (1, 8, 33, 15, 2, 64)]
    seq_ids = [engine.cache.allocate() for _ in prompts]
    logits = engine.prefill(seq_ids, prompts)
    engine.cache.free(seq_ids)
    assert_logits(MODELS[name], dtype, prompts, logits, [-1] * len(prompts))


@pytest.mark.parametrize("attention", ["relay", "plain"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_decode_with_groups(engines, name, dtype, attention):
    """Interleaved groups, prefixes of whole and of broken blocks, one alone, an idle place."""
    engine = engines(name, dtype)
    engine.attention = attention
    cache = engine.cache
    prefixes = [random_tokens(19, 1), random_tokens(16, 2)]
    prefix_ids = [cache.allocate() for _ in prefixes]
    engine.prefill(prefix_ids, prefixes)
    groups = [0, 1, None, 0, 1]
    tokens = [
        [*([] if g is None else prefixes[g]), *random_tokens(3 + i)] for i, g in enumerate(groups)
    ]
    seq_ids = [cache.allocate() if g is None else cache.share(prefix_ids[g]) for g in groups]
    starts = [0 if g is None else len(prefixes[g]) for g in groups]
    logits = engine.prefill(seq_ids, [t[n:] for t, n in zip(tokens, starts, strict=True)])
    assert_logits(MODELS[name], dtype, tokens, logits, [-1] * BATCH)

    for step in range(10):
        if step == 5:  # the request alone ends; its place stays empty
            cache.free(seq_ids[2])
            seq_ids[2] = -1
        new_tokens = random_tokens(BATCH, 100 + step)
        inputs = engine.prepare_decode(seq_ids, new_tokens)
        # plain: a group for each request that has a prefix
        expected_map = [0, 1, -1, 0, 1] if attention == "relay" else [0, 1, -1, 2, 3]
        assert inputs.kv_share_map.tolist() == expected_map
        logits = engine.decode(inputs)
        busy = [i for i in range(BATCH) if seq_ids[i] != -1]
        for i in busy:
            tokens[i].append(new_tokens[i])
        assert_logits(
            MODELS[name], dtype, [tokens[i] for i in busy], logits[busy], [-1] * len(busy)
        )
    cache.free([*prefix_ids, *seq_ids])


def test_long_prompts_are_cut_into_launches(engine, monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_PREFILL_TOKENS", 7)
    prefix, cache = random_tokens(13), engine.cache
    prefix_id = cache.allocate()
    engine.prefill([prefix_id], [prefix])
    seq_ids = [cache.share(prefix_id), cache.allocate(), cache.allocate()]
    prompts = [random_tokens(20), random_tokens(3), random_tokens(18)]
    logits = engine.prefill(seq_ids, prompts)
    cache.free([prefix_id, *seq_ids])
    sequences = [prefix + prompts[0], *prompts[1:]]
    assert_logits(MODELS["6 heads on 2"], "float32", sequences, logits, [-1, -1, -1])


def test_graphs_are_compiled_once(tmp_path):
    engine = make_engine(TinyLlama(num_layers=1), tmp_path / "tiny.gguf", "float16")
    assert engine.num_compiles == {"decode": 0, "prefill": 0}
    assert engine.compile() > 0
    assert engine.num_compiles == {"decode": 1, "prefill": 1}
    assert engine.cache.num_free_blocks == NUM_BLOCKS
    seq_ids = []
    for length in (1, 2, 9, 30):
        seq_ids.append(engine.cache.allocate())
        engine.prefill(seq_ids[-1:], [random_tokens(length)])
        places = [*seq_ids, *[-1] * (BATCH - len(seq_ids))]
        for attention in ("relay", "plain"):
            engine.attention = attention
            inputs = engine.prepare_decode(places, [5] * BATCH)
            engine.decode(inputs)
            engine.time_attention(inputs)
    assert engine.num_compiles == {"decode": 1, "prefill": 1}
    # The count does see a second compilation: here another batch, behind the engine's back.
    tensors = engine.prepare_decode(places, [5] * BATCH).tensors()
    engine._decode_graph(*[t[:2] if t.shape[0] == BATCH else t for t in tensors])
    assert engine.num_compiles == {"decode": 2, "prefill": 1}


def test_out_of_blocks_changes_nothing(engine):
    cache = engine.cache
    tokens = random_tokens(9)
    seq_id = cache.allocate()
    engine.prefill([seq_id], [tokens])
    hog = cache.allocate(cache.num_free_blocks * BLOCK_SIZE)
    other = cache.allocate()
    with pytest.raises(OutOfBlocksError):
        engine.prefill([other], [random_tokens(4)])
    places = [seq_id, -1, -1, -1, -1]
    for token in random_tokens(7):  # to the end of the second block
        tokens.append(token)
        engine.decode(engine.prepare_decode(places, [token] * BATCH))
    with pytest.raises(OutOfBlocksError):
        engine.prepare_decode(places, [5] * BATCH)
    assert cache.kv_seq_len([seq_id, other]).tolist() == [16, 0]
    cache.free(hog)
    tokens.append(5)
    logits = engine.decode(engine.prepare_decode(places, [5] * BATCH))
    cache.free([seq_id, other])
    assert_logits(MODELS["6 heads on 2"], "float32", [tokens], logits[:1], [-1])


@pytest.mark.parametrize(("dtype", "item_bytes"), [("float32", 4), ("float16", 2)])
def test_kv_bytes(engines, dtype, item_bytes):
    """Two requests with 3 tokens and the new one on a prefix of two whole blocks and 3 tokens."""
    engine = engines(dtype=dtype)
    cache = engine.cache
    prefix_id = cache.allocate(2 * BLOCK_SIZE + 3)
    seq_ids = [cache.share(prefix_id), cache.share(prefix_id)]
    cache.append(seq_ids, 3)
    places = [*seq_ids, -1, -1, -1]
    bytes_per_key = 2 * 2 * 2 * 16 * item_bytes  # key and value, layers, kv heads, head size
    inputs = engine.prepare_decode(places, [5] * BATCH)
    assert engine.kv_bytes(inputs) == (16 + 2 * (3 + 3 + 1)) * bytes_per_key
    engine.attention = "plain"
    inputs = engine.prepare_decode(places, [5] * BATCH)
    assert engine.kv_bytes(inputs) == 2 * (16 + 3 + 3 + 2) * bytes_per_key
    cache.free([prefix_id, *seq_ids])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_relay_and_plain_give_the_same_bits(engines, dtype):
    """Three requests on a prefix of two whole blocks and a partial one, and one without."""
    engine = engines(dtype=dtype)
    cache = engine.cache
    prefix_id = cache.allocate()
    engine.prefill([prefix_id], [random_tokens(2 * BLOCK_SIZE + 3)])
    seq_ids = [cache.share(prefix_id) for _ in range(3)] + [cache.allocate()]
    engine.prefill(seq_ids, [random_tokens(n) for n in (1, 5, 2, 7)])
    inputs = engine.prepare_decode([*seq_ids, -1], [5] * BATCH)
    assert inputs.kv_share_map.tolist() == [0, 0, 0, -1, -1]
    relay = engine.decode(inputs)
    fields = ("kv_share_map", "kv_share_len", "share_block_tables", "block_tables")
    groups = SharedGroups(*(getattr(inputs, field) for field in fields))
    alone = engine_module._one_group_each(groups).padded(BATCH)
    assert alone.kv_share_map.tolist() == [0, 1, 2, -1, -1]
    # The step writes the same token to the same place again.
    plain = engine.decode(replace(inputs, **alone._asdict()))
    np.testing.assert_array_equal(relay[:4], plain[:4])
    cache.free([prefix_id, *seq_ids])


def test_probe_only_reads(engine):
    seq_id = engine.cache.allocate()
    tokens = random_tokens(12)
    engine.prefill([seq_id], [tokens])
    places = [seq_id, -1, -1, -1, -1]
    assert engine.time_attention(engine.prepare_decode(places, [7] * BATCH)) > 0
    assert engine.time_products() > 0
    # The probe wrote no keys: position 12 is still empty until this step writes it.
    engine.cache.free(seq_id)
    seq_id = engine.cache.allocate()
    engine.prefill([seq_id], [tokens])
    before = [cache.asnumpy().copy() for cache in engine.cache.key_caches]
    inputs = engine.prepare_decode([seq_id, -1, -1, -1, -1], [7] * BATCH)
    engine.time_attention(inputs)
    for cache, copy in zip(engine.cache.key_caches, before, strict=True):
        np.testing.assert_array_equal(cache.asnumpy(), copy)
    engine.cache.free(seq_id)
