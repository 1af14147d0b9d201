# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Continuous batching on the host: places, queue, blocks. A fake engine stands in for the model.

The fake predicts from a sequence's whole history, so a request that got another's blocks, a wrong
prefix, or tokens in a wrong order gets other tokens than it gets alone.
"""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindspore_relay.llama.engine import CacheSize
from mindspore_relay.llama.sampling import SamplingOptions
from mindspore_relay.llama.scheduler import (
    PROBE_INTERVAL_STEPS,
    Request,
    Scheduler,
    TokenLimits,
    plan_cache,
)
from mindspore_relay.paged_cache import PagedKVCache

VOCAB_SIZE = 50
EOS = 0
BLOCK_SIZE = 4
MAX_POSITIONS = 64


class HistoryCache(PagedKVCache):
    """A cache that remembers each sequence's tokens in place of keys and values."""

    def __init__(self, num_blocks):
        super().__init__(1, num_blocks, BLOCK_SIZE, 1, 8)
        self.history = {}

    def allocate(self, num_tokens=0):
        seq_id = super().allocate(num_tokens)
        self.history[seq_id] = ()
        return seq_id

    def share(self, seq_id, num_tokens=None):
        new_id = super().share(seq_id, num_tokens)
        self.history[new_id] = self.history[seq_id]
        return new_id


def next_logits(history):
    """(VOCAB_SIZE,), float32: differs for each history; the end token wins in one of about ten."""
    random = np.random.default_rng(zlib.crc32(repr(tuple(map(int, history))).encode()))
    logits = random.standard_normal(VOCAB_SIZE).astype(np.float32)
    logits[EOS] += 1.0
    return logits


class FakeEngine:
    """LlamaEngine's interface without a model."""

    def __init__(self, size):
        self.size = size
        self.cache = HistoryCache(size.num_blocks)
        self.prefilled = []  # token lists, call by call
        self.num_running = []  # busy places of each step
        self.num_probes = 0

    def prefill(self, seq_ids, token_lists):
        self.cache.append(seq_ids, [len(tokens) for tokens in token_lists])
        self.prefilled.append(token_lists)
        for seq_id, tokens in zip(seq_ids, token_lists, strict=True):
            self.cache.history[seq_id] += tuple(tokens)
        return np.stack([next_logits(self.cache.history[seq_id]) for seq_id in seq_ids])

    def prepare_decode(self, seq_ids, token_ids):
        assert len(seq_ids) == self.size.batch
        self.cache.append(seq_ids, 1)
        for seq_id, token_id in zip(seq_ids, token_ids, strict=True):
            if seq_id != -1:
                self.cache.history[seq_id] += (token_id,)
        # Raises if a sequence outgrew what was planned.
        self.cache.block_tables(seq_ids, self.size.max_blocks)
        return seq_ids, int(self.cache.kv_seq_len(seq_ids).sum())

    def decode(self, inputs):
        seq_ids, _ = inputs
        self.num_running.append(sum(seq_id != -1 for seq_id in seq_ids))
        rows = [() if seq_id == -1 else self.cache.history[seq_id] for seq_id in seq_ids]
        return np.stack([next_logits(row) for row in rows])

    def kv_bytes(self, inputs):
        return inputs[1]

    def time_attention(self, inputs):
        self.num_probes += 1
        return 1.0

    def time_products(self):
        return 2.0


def alone(request, max_new_tokens):
    """(token_ids, finish_reason) of a request by definition."""
    history = [*request.prefix_ids, *request.prompt_ids]
    limit = min(max_new_tokens, MAX_POSITIONS - len(history) + 1)
    token_ids = []
    while len(token_ids) < limit:
        token_id = int(next_logits([*history, *token_ids]).argmax())
        if token_id == EOS:
            return token_ids, "stop"
        token_ids.append(token_id)
    return token_ids, "length"


def run(requests, *, batch, max_new_tokens=8, num_blocks=None, **options):
    """Completions, stats and engine of a run."""
    limits = TokenLimits(max_new_tokens, MAX_POSITIONS, BLOCK_SIZE)
    size = plan_cache(requests, limits, batch=batch, block_size=BLOCK_SIZE, num_blocks=num_blocks)
    engine = FakeEngine(size)
    scheduler = Scheduler(engine, limits, [EOS], **options)
    completions, stats = scheduler.run(requests)
    return completions, stats, engine


def some_requests(num_requests, prefixes=((),)):
    return [
        Request(i, prefixes[i % len(prefixes)], tuple(range(1, 2 + i % 5)) + (7 + i,))
        for i in range(num_requests)
    ]


def assert_same_as_alone(requests, completions, max_new_tokens=8):
    assert [completion.index for completion in completions] == [r.index for r in requests]
    for request, completion in zip(requests, completions, strict=True):
        expected = alone(request, max_new_tokens)
        assert (completion.token_ids, completion.finish_reason) == expected, request.index


PREFIX_A = tuple(range(10, 23))  # three blocks and a token
PREFIX_B = tuple(range(30, 38))  # two whole blocks


@pytest.mark.parametrize("batch", [1, 2, 5, 40])
def test_each_request_gets_what_it_gets_alone(batch):
    requests = some_requests(20, [(), PREFIX_A, PREFIX_B, PREFIX_A])
    completions, stats, engine = run(requests, batch=batch)
    assert_same_as_alone(requests, completions)
    assert {completion.finish_reason for completion in completions} == {"stop", "length"}
    assert engine.cache.num_free_blocks == engine.cache.num_blocks
    assert stats.decode_tokens == sum(engine.num_running)


def test_finished_places_are_filled_from_the_queue():
    """As long as the queue holds requests, no place stays empty in a step."""
    requests = some_requests(30)
    _, _, engine = run(requests, batch=4)
    num_full_steps = engine.num_running.count(4)
    assert num_full_steps > 10
    # Only the last requests, with nothing left to fill in, run in fewer places.
    assert engine.num_running == sorted(engine.num_running, reverse=True)


def test_prefix_is_computed_once():
    requests = some_requests(12, [PREFIX_A, PREFIX_B])
    _, stats, engine = run(requests, batch=3)
    prefilled = [tuple(tokens) for call in engine.prefilled for tokens in call]
    assert prefilled.count(PREFIX_A) == prefilled.count(PREFIX_B) == 1
    num_own_tokens = sum(len(request.prompt_ids) for request in requests)
    assert stats.prefill_tokens == num_own_tokens + len(PREFIX_A) + len(PREFIX_B)


def test_small_cache_makes_requests_wait():
    """With blocks for two requests and their prefix, at most two of eight places are used."""
    requests = some_requests(10, [PREFIX_A])
    limits = TokenLimits(8, MAX_POSITIONS, BLOCK_SIZE)
    own_blocks = max(map(limits.own_blocks, requests))
    num_blocks = 2 * own_blocks + limits.prefix_blocks(PREFIX_A)
    completions, _, engine = run(requests, batch=8, num_blocks=num_blocks)
    assert_same_as_alone(requests, completions)
    assert max(engine.num_running) in (2, 3)  # three where two are short
    assert engine.cache.num_free_blocks == num_blocks


def test_idle_prefix_gives_way_and_comes_back():
    """The cache holds one group at a time; A, B, A: the first A is dropped and computed again."""
    requests = [Request(i, p, (5, 6)) for i, p in enumerate([PREFIX_A, PREFIX_B, PREFIX_A])]
    limits = TokenLimits(8, MAX_POSITIONS, BLOCK_SIZE)
    num_blocks = limits.own_blocks(requests[0]) + limits.prefix_blocks(PREFIX_A)
    completions, _, engine = run(requests, batch=3, num_blocks=num_blocks)
    assert_same_as_alone(requests, completions)
    prefilled = [tuple(tokens) for call in engine.prefilled for tokens in call]
    assert prefilled.count(PREFIX_A) == 2
    assert max(engine.num_running) == 1
    assert engine.cache.num_free_blocks == num_blocks


def test_request_that_can_never_fit_is_refused_before_the_start():
    requests = some_requests(3, [PREFIX_A])
    message = r"request 0 needs 7 cache blocks of 4 tokens \(13 system .* 2 prompt .* 8 new"
    with pytest.raises(ValueError, match=message):
        run(requests, batch=2, num_blocks=6)


def test_context_limit_ends_a_text():
    request = Request(0, (), tuple(range(1, MAX_POSITIONS - 1)))
    completions, _, _ = run([request], batch=1, max_new_tokens=100)
    assert_same_as_alone([request], completions, max_new_tokens=100)
    # 62 prompt tokens of 64 positions: two tokens are fed back, the third is not.
    assert len(completions[0].token_ids) <= 3
    full = Request(0, (), tuple(range(1, MAX_POSITIONS + 1)))
    completions, _, engine = run([full], batch=1, max_new_tokens=100)
    assert len(completions[0].token_ids) <= 1
    assert engine.num_running == []


def test_prompt_longer_than_the_context():
    request = Request(4, PREFIX_A, tuple(range(MAX_POSITIONS)))
    with pytest.raises(ValueError, match="request 4: .* 77 tokens, the model takes 64"):
        run([request], batch=1)


def test_prompt_without_tokens():
    with pytest.raises(ValueError, match="request 0: the prompt has no tokens"):
        run([Request(0, PREFIX_A, ())], batch=1)


def test_no_requests():
    with pytest.raises(ValueError, match="no requests"):
        run([], batch=1)


def test_one_new_token_needs_no_step():
    requests = some_requests(5)
    completions, stats, engine = run(requests, batch=2, max_new_tokens=1)
    assert_same_as_alone(requests, completions, max_new_tokens=1)
    assert engine.num_running == [] and stats.step_seconds == []
    assert stats.attention_share == stats.product_share == stats.host_share == 0.0
    with pytest.raises(ValueError, match="max_new_tokens must be at least 1, got 0"):
        run(requests, batch=2, max_new_tokens=0)


def test_callbacks_and_probes():
    finished, counts = [], []
    requests = some_requests(20)
    completions, stats, engine = run(
        requests,
        batch=3,
        probes=True,
        on_finish=lambda completion: finished.append(completion.index),
        on_tokens=counts.append,
    )
    assert sorted(finished) == list(range(20)) != finished
    num_ends = sum(completion.finish_reason == "stop" for completion in completions)
    assert sum(counts) == num_ends + sum(len(completion.token_ids) for completion in completions)
    num_steps = len(stats.step_seconds)
    assert engine.num_probes == -(-num_steps // PROBE_INTERVAL_STEPS)
    assert list(stats.attention_seconds) == list(range(0, num_steps, PROBE_INTERVAL_STEPS))
    probed = sum(stats.step_seconds[step] for step in stats.attention_seconds)
    assert stats.attention_share == pytest.approx(engine.num_probes / probed)
    assert stats.product_share == pytest.approx(2 * engine.num_probes / probed)
    assert 0 < stats.host_share < 1


def test_sampled_texts_depend_on_seed_and_index_alone():
    requests = some_requests(9, [PREFIX_A, ()])

    def texts(batch, seed):
        options = SamplingOptions(temperature=1.5, top_p=0.9, seed=seed)
        completions, _, _ = run(requests, batch=batch, sampling=options)
        return [completion.token_ids for completion in completions]

    assert texts(1, seed=3) == texts(4, seed=3) == texts(9, seed=3)
    assert texts(4, seed=3) != texts(4, seed=4)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 6),
    max_new_tokens=st.integers(1, 12),
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=14),
    spare_blocks=st.integers(0, 12),
)
def test_any_mix_in_any_cache(batch, max_new_tokens, shapes, spare_blocks):
    """Any requests, in the smallest cache that holds each of them and some more blocks."""
    prefixes = [(), PREFIX_A, PREFIX_B, (9, 9)]
    requests = [
        Request(i, prefixes[which], tuple(1 + (i + j) % 40 for j in range(length)))
        for i, (which, length) in enumerate(shapes)
    ]
    limits = TokenLimits(max_new_tokens, MAX_POSITIONS, BLOCK_SIZE)
    needed = max(limits.own_blocks(r) + limits.prefix_blocks(r.prefix_ids) for r in requests)
    completions, _, engine = run(
        requests,
        batch=batch,
        max_new_tokens=max_new_tokens,
        num_blocks=needed + spare_blocks,
    )
    assert_same_as_alone(requests, completions, max_new_tokens)
    assert engine.cache.num_free_blocks == engine.cache.num_blocks


def test_default_cache_holds_a_full_batch():
    """plan_cache without num_blocks: no request waits for blocks."""
    requests = some_requests(16, [PREFIX_A, PREFIX_B, ()])
    _, _, engine = run(requests, batch=8)
    assert engine.num_running[0] == 8
    limits = TokenLimits(8, MAX_POSITIONS, BLOCK_SIZE)
    size = plan_cache(requests, limits, batch=8, block_size=BLOCK_SIZE)
    assert isinstance(size, CacheSize)
    assert size.max_blocks == max(map(limits.all_blocks, requests))
