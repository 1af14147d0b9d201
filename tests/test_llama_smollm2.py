# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct, the model of the demo: the greedy texts of an independent implementation.

The expected ids come from a float32 program without cache, blocks or batches, for the same file.
With a float32 cache they must come out exactly, whatever else is in the batch.
"""

import pytest
from modes import mode

from mindspore_relay.generate.model_file import find_model_file
from mindspore_relay.llama.engine import LlamaEngine
from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.sampling import SamplingOptions
from mindspore_relay.llama.scheduler import Request, Scheduler, TokenLimits, plan_cache
from mindspore_relay.llama.tokenizer import Tokenizer
from mindspore_relay.llama.weights import read_config, read_weights

BATCH = 6
BLOCK_SIZE = 16
NUM_NEW_TOKENS = 8

STORY = "Once upon a time, there was a little girl who"
STORY_IDS = [5732, 288, 1238, 351, 874, 9173, 30, 2306]
CAPITAL = "The capital of France is"
CAPITAL_IDS = [7042, 30, 198, 198, 504, 2988, 314, 42]
GRAVITY = "What is gravity? Answer in two sentences."
GRAVITY_IDS = [22007, 6463, 314, 253, 4959, 1909, 281, 6944]


@pytest.fixture(scope="module")
def file():
    return read_gguf(find_model_file())


@pytest.fixture(scope="module")
def tokenizer(file):
    return Tokenizer(file.metadata)


@pytest.fixture(scope="module")
def limits():
    return TokenLimits(NUM_NEW_TOKENS, 8192, BLOCK_SIZE)


@pytest.fixture(scope="module")
def truth(tokenizer):
    """Function: number of requests -> requests of all kinds in turn, and their expected ids.

    The fourth kind gives the model the very tokens of the third, the last those of the first, but
    with a shared beginning. The text of the wizard's group is not known here.
    """
    system = tuple(tokenizer.chat_prefix(tokenizer.default_system_prompt))
    user = tuple(tokenizer.chat_user(GRAVITY))
    wizard = tuple(tokenizer.chat_prefix("You are a wizard. Answer in rhyme. " * 5))
    kinds = [
        ((), tuple(tokenizer.encode(STORY)), STORY_IDS),
        ((), tuple(tokenizer.encode(CAPITAL)), CAPITAL_IDS),
        ((), system + user, GRAVITY_IDS),
        (system, user, GRAVITY_IDS),
        (wizard, user, None),
        (system, user, GRAVITY_IDS),
        (tuple(tokenizer.encode(STORY)[:6]), tuple(tokenizer.encode(STORY)[6:]), STORY_IDS),
    ]

    def make(num_requests):
        chosen = [kinds[i % len(kinds)] for i in range(num_requests)]
        requests = [Request(i, prefix, prompt) for i, (prefix, prompt, _) in enumerate(chosen)]
        return requests, [ids for _, _, ids in chosen]

    return make


@pytest.fixture(scope="module")
def engine(file, truth, limits):
    config = read_config(file)
    requests, _ = truth(20)
    size = plan_cache(requests, limits, batch=BATCH, block_size=BLOCK_SIZE)
    with mode("graph"):
        engine = LlamaEngine(config, read_weights(file, config), size, "float32")
        engine.compile()
        yield engine
    assert engine.num_compiles == {"decode": 1, "prefill": 1}


def assert_truth(engine, limits, requests, expected):
    completions, _ = Scheduler(engine, limits, [2]).run(requests)
    for completion, ids in zip(completions, expected, strict=True):
        if ids is not None:
            assert completion.token_ids == ids, f"request {completion.index}"
            assert completion.finish_reason == "length"
    assert engine.cache.num_free_blocks == engine.cache.num_blocks
    return completions


@pytest.mark.parametrize("attention", ["relay", "plain"])
def test_alone(engine, limits, truth, attention):
    engine.attention = attention
    requests, expected = truth(4)
    for request, ids in zip(requests, expected, strict=True):
        assert_truth(engine, limits, [request], [ids])


@pytest.mark.parametrize("attention", ["relay", "plain"])
def test_mixed_batch_and_queue(engine, limits, truth, attention):
    """20 requests of three groups and none in 6 places."""
    engine.attention = attention
    requests, expected = truth(20)
    completions = assert_truth(engine, limits, requests, expected)
    texts = [completions[i].token_ids for i in (4, 11, 18)]
    assert texts[0] == texts[1] == texts[2] != GRAVITY_IDS


def test_texts_that_end(engine, file, tokenizer, truth):
    """An answer that the model itself ends; its neighbours go on undisturbed."""
    limits = TokenLimits(NUM_NEW_TOKENS, 8192, BLOCK_SIZE)
    engine.attention = "relay"
    requests, _ = truth(3)
    short = tuple(tokenizer.chat_prefix("Answer with one word."))
    short += tuple(tokenizer.chat_user("Is water wet? Answer yes or no."))
    requests[1] = Request(1, (), short)
    completions, stats = Scheduler(engine, limits, tokenizer.eos_token_ids).run(requests)
    assert completions[1].finish_reason == "stop"
    assert len(completions[1].token_ids) < NUM_NEW_TOKENS
    assert completions[0].token_ids == STORY_IDS
    assert completions[2].token_ids == GRAVITY_IDS
    assert stats.decode_tokens < 3 * (NUM_NEW_TOKENS - 1)


def test_sampling_is_repeatable(engine, limits, truth):
    requests, _ = truth(6)

    def texts(seed):
        options = SamplingOptions(temperature=0.8, top_p=0.95, seed=seed)
        completions, _ = Scheduler(engine, limits, [2], sampling=options).run(requests)
        return [completion.token_ids for completion in completions]

    assert texts(1) == texts(1) != texts(2)
