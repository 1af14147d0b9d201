# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What a PagedKVCache must hold: each sequence is a list of tokens, each token has known content.

The model knows nothing of blocks. It is compared with the cache in three ways: the bytes that a
sequence reads through its slots, the owners that each block has, and the number of free blocks.
"""

import numpy as np

from mindspore_relay.bfloat16 import from_float, to_numpy
from soak_load import SoakError

# Tokens that differ in content. A prime, so that no regular distance between two tokens hides one
# that was taken for the other.
NUM_CONTENTS = 4099


class CacheModel:
    """Tokens of all sequences of one cache.

    Args:
        cache: PagedKVCache with its tensors, empty.
        random: numpy.random.Generator.
    """

    def __init__(self, cache, random):
        self.cache = cache
        self.texts = {}  # sequence -> list of tokens
        self._next_token = 0
        # [layer][0 key, 1 value]: (NUM_CONTENTS, kv_head_num, head_size), in the cache's dtype
        shapes = [
            (NUM_CONTENTS, cache.kv_head_num, head_size)
            for head_size in (cache.head_size, cache.value_head_size)
        ]
        self._contents = [
            [from_float(random.standard_normal(shape), cache.dtype) for shape in shapes]
            for _ in range(cache.num_layers)
        ]

    def new_tokens(self, count):
        """Tokens that no sequence had before."""
        tokens = list(range(self._next_token, self._next_token + count))
        self._next_token += count
        return tokens

    def content(self, layer, tokens):
        """Key and value of tokens: each (len(tokens), kv_head_num, head size)."""
        at = np.array(tokens, dtype=np.int64) % NUM_CONTENTS
        return tuple(table[at] for table in self._contents[layer])

    def memory(self, layer):
        """The cache's key and value memory: (num_blocks * block_size, kv_head_num, head size)."""
        caches = (self.cache.key_caches[layer], self.cache.value_caches[layer])
        return tuple(memory.reshape(-1, *memory.shape[2:]) for memory in map(to_numpy, caches))

    # ---- checks ----

    def check_content(self, seq_id):
        """Every byte that a sequence reads, in all layers."""
        text = self.texts[seq_id]
        slots = self.cache.slot_mapping(seq_id)
        if len(slots) != len(text):
            raise SoakError(f"sequence {seq_id} has {len(slots)} tokens instead of {len(text)}")
        for layer in range(self.cache.num_layers):
            pairs = zip(self.content(layer, text), self.memory(layer), strict=True)
            for name, (expected, memory) in zip(("key", "value"), pairs, strict=True):
                difference = memory[slots].view(np.uint8) != expected.view(np.uint8)
                if difference.any():
                    token = int(np.argwhere(difference)[0][0])
                    raise SoakError(
                        f"content: {name} of token {token} of sequence {seq_id} in layer {layer} "
                        f"(slot {slots[token]}) is not what was written; "
                        f"{int(difference.sum())} bytes differ"
                    )

    def check_books(self):
        """Lengths, owners of every block, and the number of free blocks."""
        cache = self.cache
        seq_ids = list(self.texts)
        lengths = [len(self.texts[seq_id]) for seq_id in seq_ids]
        if cache.kv_seq_len(seq_ids).tolist() != lengths:
            raise SoakError("books: kv_seq_len is not the number of tokens that were appended")
        tables = cache.block_tables(seq_ids)
        owners = np.zeros(cache.num_blocks, np.int64)
        for table, length in zip(tables, lengths, strict=True):
            owners[table[: -(-length // cache.block_size)]] += 1
        counted = np.array([cache.ref_count(block) for block in range(cache.num_blocks)])
        for block in np.flatnonzero(counted != owners):
            raise SoakError(
                f"books: block {block} belongs to {owners[block]} sequences, "
                f"ref_count says {counted[block]}: leaked or lost"
            )
        if cache.num_free_blocks != (owners == 0).sum():
            raise SoakError(
                f"books: {cache.num_free_blocks} blocks are free, nobody owns {(owners == 0).sum()}"
            )

    def check_empty(self):
        """At the end, when all sequences are freed: no block was leaked."""
        if self.texts:
            raise SoakError(f"the load left {len(self.texts)} sequences behind")
        self.check_books()
        if self.cache.num_free_blocks != self.cache.num_blocks:
            raise SoakError(
                f"leak: {self.cache.num_blocks - self.cache.num_free_blocks} blocks at the end"
            )
