# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Serving by the operators alone: random keys, values and queries in place of a language model.

Requests come, wait for a place, are prefilled on top of one of three system prompts or of none, are
decoded one token a step with all others, fork, are cancelled, or end. The cache is too small for
all that want to run, so calls run out of blocks all the time. Every call goes through MindSpore or
through the C interface, by chance, over the same memory.
"""

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from mindspore_relay import _library
from mindspore_relay.bfloat16 import from_float
from mindspore_relay.paged_cache import OutOfBlocksError, PagedKVCache
from soak_load.attention_calls import CALLERS, SIZES, check_rows, prefill_pieces
from soak_load.cache_model import CacheModel

NUM_LAYERS = 2
BLOCK_SIZE = 16
NUM_BLOCKS = 44
MAX_TOKENS = SIZES.max_blocks * BLOCK_SIZE
# One that ends with a block, one in the middle of a block, one shorter than a block.
PROMPT_LENGTHS = (96, 61, 9)
MAX_WAITING = 12
# Chance per step, or per request and step.
P_ARRIVAL, P_FORK, P_CANCEL, P_DROP_PROMPT, P_THREADS, P_CHECK = 0.45, 0.05, 0.01, 0.02, 0.02, 0.3
STEPS_PER_FULL_CHECK = 100


@dataclass(eq=False)
class Request:
    """prompt: number of its system prompt, or None. seq_id: None while it waits."""

    prompt: int | None
    num_prompt_tokens: int
    num_new_tokens: int
    seq_id: int | None = None


class OperatorLoad:
    """The load over one cache.

    Args:
        random: numpy.random.Generator.
        dtype: of the cache.

    Attributes:
        counts: what happened so far.
    """

    def __init__(self, random, dtype):
        self.random = random
        self.dtype = dtype
        self.cache = PagedKVCache(
            NUM_LAYERS,
            NUM_BLOCKS,
            BLOCK_SIZE,
            SIZES.kv_head_num,
            SIZES.head_size,
            value_head_size=SIZES.value_head_size,
            dtype=dtype,
        )
        self.cache.create_tensors()
        self.model = CacheModel(self.cache, random)
        self.counts = Counter()
        self._waiting = deque()
        self._running = []
        self._prompts = [None] * len(PROMPT_LENGTHS)  # sequence of each system prompt
        self._num_steps = 0

    def step(self):
        """One round of a server. Raises SoakError."""
        if self._chance(P_THREADS):
            _library.set_num_threads(int(self.random.integers(1, 4)))
        self._arrive()
        self._cancel_some()
        self._admit_some()
        self._fork_one()
        self._decode()
        self._end_some()
        self._num_steps += 1
        if self._num_steps % STEPS_PER_FULL_CHECK == 0:
            self._check_everything()
        elif self.model.texts:
            self.model.check_content(int(self.random.choice(list(self.model.texts))))

    def finish(self):
        """Ends all sequences; raises SoakError if a block is missing then."""
        self._check_everything()
        self.free(list(self.model.texts))
        self._running.clear()
        self._waiting.clear()
        self._prompts = [None] * len(PROMPT_LENGTHS)
        self.model.check_empty()

    def free(self, seq_ids):
        """Ends sequences, in the cache and in the model."""
        self.cache.free(seq_ids)
        for seq_id in seq_ids:
            del self.model.texts[seq_id]

    # ---- requests ----

    def _arrive(self):
        while self._chance(P_ARRIVAL) and len(self._waiting) < MAX_WAITING:
            prompt = int(self.random.integers(-1, len(PROMPT_LENGTHS)))
            begin = PROMPT_LENGTHS[prompt] if prompt >= 0 else 0
            own = int(self.random.integers(1, 60))
            new = int(self.random.integers(1, MAX_TOKENS - begin - own + 1))
            self._waiting.append(Request(None if prompt < 0 else prompt, own, min(new, 90)))
            self.counts["arrivals"] += 1

    def _cancel_some(self):
        for request in [r for r in self._running if self._chance(P_CANCEL)]:
            self._stop(request, "cancelled")
        if self._waiting and self._chance(P_CANCEL):
            self._waiting.popleft()
            self.counts["cancelled in the queue"] += 1
        unused = [i for i, seq_id in enumerate(self._prompts) if seq_id is not None]
        if unused and self._chance(P_DROP_PROMPT):
            self._drop_prompt(unused[0])

    def _stop(self, request, why):
        self._running.remove(request)
        self.free([request.seq_id])
        self.counts[why] += 1

    def _drop_prompt(self, prompt):
        """Its requests go on: the blocks are theirs too."""
        self.free([self._prompts[prompt]])
        self._prompts[prompt] = None
        self.counts["prompts dropped"] += 1

    def _admit_some(self):
        while self._waiting and len(self._running) < SIZES.batch:
            request = self._waiting[0]
            try:
                self._admit(request)
            except OutOfBlocksError:
                self._note_out_of_blocks("out of blocks in prefill")
                return
            self._waiting.popleft()
            self._running.append(request)
            self.counts["admitted"] += 1

    def _admit(self, request):
        prompt = request.prompt
        if prompt is not None and self._prompts[prompt] is None:
            self._prompts[prompt] = self._with_tokens(None, PROMPT_LENGTHS[prompt])
        source = None if prompt is None else self._prompts[prompt]
        request.seq_id = self._with_tokens(source, request.num_prompt_tokens)

    def _with_tokens(self, source, num_tokens):
        """A new sequence on top of `source`, its new tokens prefilled; no sequence on an error."""
        if source is None:
            seq_id, text = self.cache.allocate(), []
        else:
            seq_id, text = self.cache.share(source), list(self.model.texts[source])
        self.model.texts[seq_id] = text
        caller = self._caller()
        try:
            for piece in prefill_pieces(self.random, caller, num_tokens):
                self._prefill(caller, seq_id, piece)
        except OutOfBlocksError:
            self.free([seq_id])
            raise
        return seq_id

    def _fork_one(self):
        """A second answer to a request, from a token on: blocks that two running requests own."""
        if not self._running or len(self._running) == SIZES.batch or not self._chance(P_FORK):
            return
        parent = self._running[self.random.integers(len(self._running))]
        text = self.model.texts[parent.seq_id]
        num_tokens = int(self.random.integers(1, len(text) + 1))
        seq_id = self.cache.share(parent.seq_id, num_tokens)
        self.model.texts[seq_id] = text[:num_tokens]
        self._running.append(Request(None, 0, min(40, MAX_TOKENS - num_tokens), seq_id))
        self.counts["forks"] += 1

    def _end_some(self):
        for request in list(self._running):
            request.num_new_tokens -= 1
            is_full = len(self.model.texts[request.seq_id]) >= MAX_TOKENS
            if request.num_new_tokens <= 0 or is_full:
                self._stop(request, "ended")

    # ---- the operators ----

    def _prefill(self, caller, seq_id, num_tokens):
        tokens = self._append([seq_id], num_tokens, caller)
        layer = int(self.random.integers(NUM_LAYERS))
        query = self._query(num_tokens)
        kv_seq_len = self.cache.kv_seq_len(seq_id)
        tables = self.cache.block_tables(seq_id, SIZES.max_blocks)
        output = caller.prefix_encoder(self.cache, layer, query, tables, [num_tokens], kv_seq_len)
        self.counts["tokens prefilled"] += len(tokens)
        if self._chance(P_CHECK):
            row = int(self.random.integers(num_tokens))
            text = self.model.texts[seq_id]
            visible = text[: len(text) - num_tokens + row + 1]
            self._check_row("prefix_encoder", layer, query[row], output[row], visible)

    def _decode(self):
        while self._running:
            seq_ids = [request.seq_id for request in self._running]
            seq_ids += [-1] * (SIZES.batch - len(seq_ids))
            order = self.random.permutation(len(seq_ids))
            seq_ids = [seq_ids[i] for i in order]
            caller = self._caller()
            try:
                self._append(seq_ids, 1, caller)
            except OutOfBlocksError:
                self._note_out_of_blocks("out of blocks in decode")
                self._make_room()
                continue
            break
        else:
            return
        groups = self.cache.find_shared_groups(seq_ids, SIZES.max_blocks).padded(SIZES.batch)
        kv_seq_len = self.cache.kv_seq_len(seq_ids)
        query = self._query(SIZES.batch)
        layer = int(self.random.integers(NUM_LAYERS))
        output = caller.relay_attention(self.cache, layer, query, kv_seq_len, groups)
        self.counts["tokens decoded"] += len(self._running)
        self.counts["keys shared"] += int(groups.kv_share_len.sum())
        if self._chance(P_CHECK):
            place = int(self.random.integers(SIZES.batch))
            text = [] if seq_ids[place] == -1 else self.model.texts[seq_ids[place]]
            self._check_row("relay_attention", layer, query[place], output[place], text)

    def _append(self, seq_ids, num_tokens, caller):
        """Room for new tokens in each sequence, and their keys and values in all layers."""
        result = self.cache.append(seq_ids, num_tokens)
        self.counts["copies on write"] += len(result.block_copies)
        tokens = self.model.new_tokens(len(seq_ids) * num_tokens)
        for i, seq_id in enumerate(seq_ids):
            if seq_id != -1:
                self.model.texts[seq_id] += tokens[i * num_tokens : (i + 1) * num_tokens]
        for layer in range(NUM_LAYERS):
            key, value = self.model.content(layer, tokens)
            caller.reshape_and_cache(self.cache, layer, key, value, result.slot_mapping)
        return tokens

    def _make_room(self):
        """A server's choice when a step does not fit: drop unused prompts, then stop a request."""
        for prompt, seq_id in enumerate(self._prompts):
            if seq_id is not None and self._chance(0.5):
                self._drop_prompt(prompt)
                return
        victim = self._running[self.random.integers(len(self._running))]
        self._stop(victim, "preempted")

    def _note_out_of_blocks(self, where):
        self.counts[where] += 1
        self.model.check_books()

    # ---- checks ----

    def _check_row(self, operator, layer, query, output, text):
        self.counts[f"rows of {operator} checked"] += 1
        key, value = self.model.content(layer, text)
        check_rows(operator, self.dtype, query[None], key, value, output[None])

    def _check_everything(self):
        self.model.check_books()
        for seq_id in self.model.texts:
            self.model.check_content(seq_id)
        self.counts["full checks"] += 1

    # ---- chance ----

    def _chance(self, probability):
        return self.random.random() < probability

    def _caller(self):
        return CALLERS[self.random.integers(len(CALLERS))]

    def _query(self, num_tokens):
        shape = (num_tokens, SIZES.head_num, SIZES.head_size)
        return from_float(self.random.standard_normal(shape), self.dtype)


def inject_fault(load, fault):
    """Breaks something on purpose, so that the checks can be seen to find it.

    Args:
        load: OperatorLoad with sequences.
        fault: "leak" (blocks of a sequence that nobody knows), "value" (one bit of a key in use) or
            "owner" (a block in use that the cache takes for free).
    """
    seq_id = next(s for s, text in load.model.texts.items() if text)
    slot = int(load.cache.slot_mapping(seq_id)[0])
    if fault == "leak":
        load.cache.share(seq_id)
    elif fault == "value":
        load.model.memory(0)[0][slot].view(np.uint8).reshape(-1)[0] ^= 1
    else:
        load.cache._owners.free_blocks.append(slot // BLOCK_SIZE)
        load.cache._owners.ref_count[slot // BLOCK_SIZE] = 0
