# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: requests finish at different times, the next in the queue takes the free
place.

A request is admitted only when the cache can hold it to its last token, together with all that run
already. So a running request never meets an exhausted cache, and none is ever thrown out half done.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from mindspore_relay.llama.engine import CacheSize, LlamaEngine
from mindspore_relay.llama.sampling import Sampler, SamplingOptions

# Every so many steps the attention, and the matrix products, of a step are timed by themselves.
PROBE_INTERVAL_STEPS = 8


@dataclass(frozen=True)
class Request:
    """One prompt, as token ids.

    Attributes:
        index: number of the request, from 0.
        prefix_ids: tokens of the system prompt; requests with the same ones share their cache
        blocks. prompt_ids: tokens after the prefix, at least one.
    """

    index: int
    prefix_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]


@dataclass(frozen=True)
class Completion:
    """What the model answered.

    Attributes:
        index: number of the request.
        token_ids: generated tokens, without the one that ended the text.
        finish_reason: 'stop' (the model ended the text) or 'length' (a limit did).
    """

    index: int
    token_ids: list[int]
    finish_reason: str


@dataclass
class RunStats:
    """Counts and times of one run.

    Attributes:
        prefill_tokens, prefill_seconds: prefixes and prompts.
        decode_tokens: tokens that came out of decode steps.
        step_seconds: each decode step, host work included.
        host_seconds: the part of each step outside the graph.
        kv_bytes: keys and values that attention read in decode steps.
        attention_seconds: step number -> seconds that the attention of this step's inputs takes
            alone.
        product_seconds: the same for the matrix products.
    """

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    step_seconds: list[float] = field(default_factory=list)
    host_seconds: list[float] = field(default_factory=list)
    kv_bytes: int = 0
    attention_seconds: dict[int, float] = field(default_factory=dict)
    product_seconds: dict[int, float] = field(default_factory=dict)

    @property
    def attention_share(self) -> float:
        """Part of the probed steps' time that attention takes, 0 to 1."""
        return self._share(self.attention_seconds)

    @property
    def product_share(self) -> float:
        """Part of the probed steps' time that the matrix products take, 0 to 1."""
        return self._share(self.product_seconds)

    @property
    def host_share(self) -> float:
        """Part of all steps' time outside the graph, 0 to 1."""
        return sum(self.host_seconds) / sum(self.step_seconds) if self.step_seconds else 0.0

    def _share(self, probed_seconds: dict[int, float]) -> float:
        step_seconds = sum(self.step_seconds[step] for step in probed_seconds)
        return sum(probed_seconds.values()) / step_seconds if step_seconds else 0.0


@dataclass
class _Prefix:
    """A system prompt in the cache."""

    seq_id: int
    num_blocks: int
    num_members: int = 0


@dataclass(eq=False)
class _Running:
    """A request that has a place in the batch."""

    request: Request
    sampler: Sampler
    seq_id: int
    num_reserved_blocks: int
    max_new_tokens: int
    token_ids: list[int] = field(default_factory=list)


def _ceil_div(numerator, denominator):
    return -(-numerator // denominator)


class TokenLimits:
    """How many tokens and blocks a request can come to.

    Args:
        max_new_tokens: limit on generated tokens.
        max_positions: longest sequence of the model.
        block_size: tokens per block.
    """

    def __init__(self, max_new_tokens: int, max_positions: int, block_size: int):
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        self._max_new_tokens = max_new_tokens
        self._max_positions = max_positions
        self._block_size = block_size

    def new_tokens(self, request: Request) -> int:
        """Generated tokens at most; the last one is never fed back, so it needs no position.

        Raises:
            ValueError: the prompt is empty or alone too long for the model.
        """
        num_prompt = len(request.prefix_ids) + len(request.prompt_ids)
        if not request.prompt_ids:
            raise ValueError(f"request {request.index}: the prompt has no tokens")
        if num_prompt > self._max_positions:
            raise ValueError(
                f"request {request.index}: system prompt and prompt are {num_prompt} tokens, "
                f"the model takes {self._max_positions}"
            )
        return min(self._max_new_tokens, self._max_positions - num_prompt + 1)

    def all_blocks(self, request: Request) -> int:
        """Blocks of the whole sequence, shared ones included."""
        num_prompt = len(request.prefix_ids) + len(request.prompt_ids)
        return _ceil_div(num_prompt + self.new_tokens(request) - 1, self._block_size)

    def own_blocks(self, request: Request) -> int:
        """Blocks of its own. The prefix's last block is copied if it is partly filled."""
        return self.all_blocks(request) - len(request.prefix_ids) // self._block_size

    def prefix_blocks(self, prefix_ids: tuple[int, ...]) -> int:
        return _ceil_div(len(prefix_ids), self._block_size)


def plan_cache(
    requests: list[Request],
    limits: TokenLimits,
    *,
    batch: int,
    block_size: int,
    num_blocks: int | None = None,
) -> CacheSize:
    """Capacities for these requests.

    Args:
        requests: all that will be run.
        limits: with the same block_size.
        batch: places in a decode step.
        num_blocks: blocks of the cache; enough for any `batch` of the requests, if None.

    Raises:
        ValueError: no request, or one that does not fit into num_blocks even alone.
    """
    if not requests:
        raise ValueError("there are no requests")
    own = sorted((limits.own_blocks(request) for request in requests), reverse=True)
    prefixes = {request.prefix_ids for request in requests}
    prefix_blocks = sorted((limits.prefix_blocks(ids) for ids in prefixes), reverse=True)
    if num_blocks is None:
        num_blocks = sum(own[:batch]) + sum(prefix_blocks[:batch])
    for request in requests:
        needed = limits.own_blocks(request) + limits.prefix_blocks(request.prefix_ids)
        if needed > num_blocks:
            raise ValueError(
                f"request {request.index} needs {needed} cache blocks of {block_size} tokens "
                f"({len(request.prefix_ids)} system prompt + {len(request.prompt_ids)} prompt + "
                f"{limits.new_tokens(request)} new tokens), the cache has {num_blocks}"
            )
    max_blocks = max(limits.all_blocks(request) for request in requests)
    return CacheSize(batch, num_blocks, max_blocks, block_size)


class Scheduler:
    """Runs a list of requests through an engine.

    Args:
        engine: its cache must be empty.
        limits: with the engine's block size.
        eos_token_ids: tokens that end a text.
        sampling: how tokens are chosen.
        probes: time attention and matrix products by themselves now and then, outside the steps'
            own time.
        on_tokens: called after each step with the number of new tokens.
        on_finish: called with each Completion, in the order in which they finish.
    """

    def __init__(
        self,
        engine: LlamaEngine,
        limits: TokenLimits,
        eos_token_ids: Iterable[int],
        *,
        sampling: SamplingOptions | None = None,
        probes: bool = False,
        on_tokens: Callable[[int], None] = lambda num_tokens: None,
        on_finish: Callable[[Completion], None] = lambda completion: None,
    ):
        self._engine = engine
        self._limits = limits
        self._eos_token_ids = frozenset(eos_token_ids)
        self._sampling = sampling or SamplingOptions()
        self._probes = probes
        self._on_tokens = on_tokens
        self._on_finish = on_finish

    def run(self, requests: list[Request]) -> tuple[list[Completion], RunStats]:
        """Generate for all requests.

        Returns:
            Completions in the order of the requests, and what the run took.

        Raises:
            ValueError: a request cannot fit into the cache even alone, or its prompt is too long.
        """
        size = self._engine.size
        plan_cache(
            requests,
            self._limits,
            batch=size.batch,
            block_size=size.block_size,
            num_blocks=size.num_blocks,
        )
        self._queue = deque(requests)
        self._num_waiting = Counter(request.prefix_ids for request in requests)
        self._places: list[_Running | None] = [None] * size.batch
        self._prefixes: dict[tuple[int, ...], _Prefix] = {}
        self._num_unreserved_blocks = size.num_blocks
        self._stats = RunStats()
        self._completions: dict[int, Completion] = {}
        while self._queue or any(self._places):
            # Again, as long as a request ends with its very first token and leaves its place.
            while self._admit():
                pass
            if any(self._places):
                self._step()
        return [self._completions[request.index] for request in requests], self._stats

    # ---- admission ------------------------------------------------------------------------------

    def _admit(self) -> bool:
        """Fill free places from the queue, as far as the cache can hold the requests to the end.

        Returns:
            bool: whether any request was admitted.
        """
        new_prefixes: list[tuple[int, ...]] = []
        admitted: list[_Running] = []
        free_places = [i for i, running in enumerate(self._places) if running is None]
        for place in free_places:
            if not self._queue or not self._reserve(self._queue[0], new_prefixes):
                break
            request = self._queue.popleft()
            self._num_waiting[request.prefix_ids] -= 1
            running = _Running(
                request,
                Sampler(self._sampling, request.index),
                seq_id=-1,
                num_reserved_blocks=self._limits.own_blocks(request),
                max_new_tokens=self._limits.new_tokens(request),
            )
            self._places[place] = running
            admitted.append(running)
        if admitted:
            self._prefill(new_prefixes, admitted)
        return bool(admitted)

    def _reserve(self, request: Request, new_prefixes: list) -> bool:
        """Set blocks aside for a request, and for its prefix if that is not in the cache."""
        own_blocks = self._limits.own_blocks(request)
        is_new = request.prefix_ids and request.prefix_ids not in self._prefixes
        prefix_blocks = self._limits.prefix_blocks(request.prefix_ids) if is_new else 0
        needed = own_blocks + prefix_blocks
        if needed > self._num_unreserved_blocks:
            self._drop_prefixes(lambda ids, prefix: ids != request.prefix_ids)
        if needed > self._num_unreserved_blocks:
            return False
        self._num_unreserved_blocks -= needed
        if is_new:
            # The id is set when the prefix is computed, right after the whole round is admitted.
            self._prefixes[request.prefix_ids] = _Prefix(seq_id=-1, num_blocks=prefix_blocks)
            new_prefixes.append(request.prefix_ids)
        if request.prefix_ids:
            self._prefixes[request.prefix_ids].num_members += 1
        return True

    def _drop_prefixes(self, may_drop):
        """Forget prefixes without members; one that is still needed is computed again later."""
        for ids, prefix in list(self._prefixes.items()):
            if prefix.num_members == 0 and may_drop(ids, prefix):
                self._engine.cache.free(prefix.seq_id)
                self._num_unreserved_blocks += prefix.num_blocks
                del self._prefixes[ids]

    def _prefill(self, new_prefixes, admitted):
        cache = self._engine.cache
        begin = time.perf_counter()
        num_tokens = 0
        if new_prefixes:
            for ids in new_prefixes:
                self._prefixes[ids].seq_id = cache.allocate()
            seq_ids = [self._prefixes[ids].seq_id for ids in new_prefixes]
            self._engine.prefill(seq_ids, [list(ids) for ids in new_prefixes])
            num_tokens += sum(map(len, new_prefixes))
        for running in admitted:
            prefix = self._prefixes.get(running.request.prefix_ids)
            running.seq_id = cache.share(prefix.seq_id) if prefix else cache.allocate()
        prompts = [list(running.request.prompt_ids) for running in admitted]
        logits = self._engine.prefill([running.seq_id for running in admitted], prompts)
        num_tokens += sum(map(len, prompts))
        self._stats.prefill_seconds += time.perf_counter() - begin
        self._stats.prefill_tokens += num_tokens
        self._take_tokens(admitted, logits)

    # ---- decoding -------------------------------------------------------------------------------

    def _step(self):
        begin = time.perf_counter()
        seq_ids = [running.seq_id if running else -1 for running in self._places]
        token_ids = [running.token_ids[-1] if running else 0 for running in self._places]
        inputs = self._engine.prepare_decode(seq_ids, token_ids)
        graph_begin = time.perf_counter()
        logits = self._engine.decode(inputs)
        graph_end = time.perf_counter()
        busy = [place for place, running in enumerate(self._places) if running]
        probed_step = len(self._stats.step_seconds)
        self._take_tokens([self._places[place] for place in busy], [logits[p] for p in busy])
        end = time.perf_counter()
        self._stats.step_seconds.append(end - begin)
        self._stats.host_seconds.append(end - graph_end + graph_begin - begin)
        self._stats.decode_tokens += len(busy)
        self._stats.kv_bytes += self._engine.kv_bytes(inputs)
        if self._probes and probed_step % PROBE_INTERVAL_STEPS == 0:
            # Finished requests' blocks still hold their keys: the probe only reads.
            self._stats.attention_seconds[probed_step] = self._engine.time_attention(inputs)
            self._stats.product_seconds[probed_step] = self._engine.time_products()

    def _take_tokens(self, rows: list[_Running], logits: Iterable[np.ndarray]):
        """Choose each row's next token; logits of each (vocab_size,)."""
        for running, row in zip(rows, logits, strict=True):
            token_id = running.sampler(row)
            if token_id in self._eos_token_ids:
                self._finish(running, "stop")
                continue
            running.token_ids.append(token_id)
            if len(running.token_ids) == running.max_new_tokens:
                self._finish(running, "length")
        self._on_tokens(len(rows))

    def _finish(self, running: _Running, reason: str):
        self._places[self._places.index(running)] = None
        self._engine.cache.free(running.seq_id)
        self._num_unreserved_blocks += running.num_reserved_blocks
        prefix = self._prefixes.get(running.request.prefix_ids)
        if prefix:
            prefix.num_members -= 1
            self._drop_prefixes(lambda ids, prefix: not self._num_waiting[ids])
        completion = Completion(running.request.index, running.token_ids, reason)
        self._completions[completion.index] = completion
        self._on_finish(completion)
