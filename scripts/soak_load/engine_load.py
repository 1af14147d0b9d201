# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Serving by the text engine: a Llama of a few kilobytes behind the paged cache.

Requests over three system prompts come, are decoded together, and end by their own or are
cancelled. Every answer is what the float64 forward pass of tests/tiny_llama.py calls likeliest, up
to rounding. Now and then a list of requests goes through the Scheduler instead.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tiny_llama import EOS, TinyLlama

from mindspore_relay.llama.engine import CacheSize, LlamaEngine
from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.scheduler import Request, Scheduler, TokenLimits
from mindspore_relay.llama.weights import read_config, read_weights
from mindspore_relay.paged_cache import OutOfBlocksError
from soak_load import SoakError

SIZE = CacheSize(batch=6, num_blocks=18, max_blocks=12, block_size=8)
PROMPT_LENGTHS = (24, 21, 5)
MAX_OWN_TOKENS = 19
MAX_NEW_TOKENS = 20
VOCABULARY = (3, 263)
P_ARRIVAL, P_CANCEL, P_DROP_PROMPT, P_CHECK, P_SCHEDULER = 0.4, 0.02, 0.02, 0.3, 0.005
# A token passes for the likeliest if its float64 logit is this close to the largest: what float16
# keys and values may do to a logit of this model, with room.
LOGIT_MARGIN = 0.05


@dataclass(eq=False)
class Running:
    """A request with a place: its sequence, prompt with system prompt, and answer so far."""

    seq_id: int
    prompt_ids: list
    num_new_tokens: int
    answer: list = field(default_factory=list)


class EngineLoad:
    """The load; like OperatorLoad.

    Args:
        random: numpy.random.Generator.
        dtype: of the cache.
    """

    def __init__(self, random, dtype):
        import mindspore as ms

        ms.set_context(mode=ms.GRAPH_MODE)
        self.random = random
        self.llama = TinyLlama()
        with tempfile.TemporaryDirectory() as folder:
            self.llama.write(Path(folder) / "tiny.gguf")
            file = read_gguf(Path(folder) / "tiny.gguf")
            config = read_config(file)
            self.engine = LlamaEngine(config, read_weights(file, config), SIZE, dtype)
        self.engine.compile()
        self.cache = self.engine.cache
        self._visit_prefill_shapes()
        self.counts = Counter()
        self._prompt_ids = [tuple(self._tokens(n)) for n in PROMPT_LENGTHS]
        self._prompts = [None] * len(PROMPT_LENGTHS)
        self._running = []

    def step(self):
        """One round of a server. Raises SoakError."""
        if self._chance(P_SCHEDULER):
            self.finish()
            self._run_scheduler()
        self.engine.attention = "relay" if self._chance(0.8) else "plain"
        for request in [r for r in self._running if self._chance(P_CANCEL)]:
            self._stop(request, "cancelled")
        if self._chance(P_DROP_PROMPT):
            self._drop_prompt(int(self.random.integers(len(self._prompts))))
        if len(self._running) < SIZE.batch and self._chance(P_ARRIVAL):
            self._admit()
        self._decode()
        self._check_books()

    def finish(self):
        """Ends all sequences; raises SoakError if a block is missing then."""
        for request in list(self._running):
            self._stop(request, "stopped for the end")
        for prompt in range(len(self._prompts)):
            self._drop_prompt(prompt)
        if self.cache.num_free_blocks != self.cache.num_blocks:
            missing = self.cache.num_blocks - self.cache.num_free_blocks
            raise SoakError(f"leak: {missing} blocks at the end")

    # ---- requests ----

    def _visit_prefill_shapes(self):
        """Every number of requests and tokens that a prefill of this load can have, once.

        MindSpore's matrix library keeps code for each number of rows that it meets (about 70 kB of
        each, 1,024 pieces at most): a shape that comes for the first time after the warm-up would
        look like a leak.
        """
        longest = max(MAX_OWN_TOKENS, *PROMPT_LENGTHS)
        for num_requests in range(1, SIZE.batch + 1):
            for num_tokens in range(num_requests, num_requests * longest + 1):
                short, num_longer = divmod(num_tokens, num_requests)
                seq_ids = [self.cache.allocate() for _ in range(num_requests)]
                lengths = [short + (i < num_longer) for i in range(num_requests)]
                self.engine.prefill(seq_ids, [[EOS] * length for length in lengths])
                for seq_id in seq_ids:
                    self.cache.free(seq_id)

    def _admit(self):
        self.counts["arrivals"] += 1
        prompt = int(self.random.integers(-1, len(self._prompts)))
        own = self._tokens(int(self.random.integers(1, MAX_OWN_TOKENS + 1)))
        seq_id = None
        try:
            if prompt >= 0 and self._prompts[prompt] is None:
                self._prompts[prompt] = self.cache.allocate()
                self.engine.prefill([self._prompts[prompt]], [list(self._prompt_ids[prompt])])
            shared = self._prompts[prompt] if prompt >= 0 else None
            seq_id = self.cache.allocate() if shared is None else self.cache.share(shared)
            logits = self.engine.prefill([seq_id], [own])
        except OutOfBlocksError:
            self.counts["out of blocks in prefill"] += 1
            if seq_id is not None:
                self.cache.free(seq_id)
            elif self.cache.kv_seq_len(self._prompts[prompt]) == 0:
                self._drop_prompt(prompt)
            return
        prompt_ids = [*(self._prompt_ids[prompt] if prompt >= 0 else ()), *own]
        num_new = int(self.random.integers(1, MAX_NEW_TOKENS + 1))
        self._running.append(Running(seq_id, prompt_ids, num_new))
        self._take_tokens(self._running[-1:], logits)

    def _decode(self):
        while self._running:
            running = self._running
            seq_ids = [r.seq_id for r in running] + [-1] * (SIZE.batch - len(running))
            tokens = [r.answer[-1] for r in running] + [0] * (SIZE.batch - len(running))
            try:
                inputs = self.engine.prepare_decode(seq_ids, tokens)
            except OutOfBlocksError:
                self.counts["out of blocks in decode"] += 1
                self._stop(running[self.random.integers(len(running))], "preempted")
                continue
            logits = self.engine.decode(inputs)
            self.counts["tokens decoded"] += len(running)
            self._take_tokens(list(running), logits[: len(running)])
            return

    def _take_tokens(self, running, logits):
        for request, row in zip(running, logits, strict=True):
            token = int(row.argmax())
            request.answer.append(token)
            if token == EOS or len(request.answer) == request.num_new_tokens:
                if self._chance(P_CHECK):
                    self._check_answer(request.prompt_ids, request.answer)
                self._stop(request, "ended")

    def _stop(self, request, why):
        self._running.remove(request)
        self.cache.free(request.seq_id)
        self.counts[why] += 1

    def _drop_prompt(self, prompt):
        if self._prompts[prompt] is not None:
            self.cache.free(self._prompts[prompt])
            self._prompts[prompt] = None

    def _run_scheduler(self):
        """A list of requests with other limits, through the package's own scheduler."""
        requests = []
        for index in range(int(self.random.integers(1, 10))):
            prefix = self._prompt_ids[self.random.integers(len(self._prompt_ids))]
            own = tuple(self._tokens(int(self.random.integers(1, MAX_OWN_TOKENS + 1))))
            requests.append(Request(index, prefix, own))
        limits = TokenLimits(
            int(self.random.integers(1, MAX_NEW_TOKENS)), self.llama.max_positions, SIZE.block_size
        )
        completions, _ = Scheduler(self.engine, limits, [EOS]).run(requests)
        for request, completion in zip(requests, completions, strict=True):
            if self._chance(P_CHECK):
                prompt_ids = [*request.prefix_ids, *request.prompt_ids]
                self._check_answer(prompt_ids, completion.token_ids)
        self.counts["runs of the scheduler"] += 1
        self.finish()

    # ---- checks ----

    def _check_answer(self, prompt_ids, answer):
        """Every token of an answer against float64 logits."""
        logits = self.llama.forward([*prompt_ids, *answer])
        for i, token in enumerate(answer):
            row = logits[len(prompt_ids) + i - 1]
            if row[token] < row.max() - LOGIT_MARGIN:
                raise SoakError(
                    f"result: token {i} of an answer after {len(prompt_ids)} tokens is {token}, "
                    f"the float64 logits prefer {int(row.argmax())} by {row.max() - row[token]:.3f}"
                )
        self.counts["answers checked"] += 1

    def _check_books(self):
        cache = self.cache
        live = [r.seq_id for r in self._running] + [p for p in self._prompts if p is not None]
        used = set(cache.block_tables(live).ravel().tolist()) - {-1}
        if cache.num_free_blocks != cache.num_blocks - len(used):
            raise SoakError(
                f"books: {cache.num_blocks - cache.num_free_blocks} blocks are taken, the "
                f"sequences own {len(used)}: leaked or lost"
            )

    # ---- chance ----

    def _chance(self, probability):
        return self.random.random() < probability

    def _tokens(self, count):
        return self.random.integers(*VOCABULARY, count).tolist()
