# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Paged KV cache: which block of the cache belongs to which sequence.

The cache of a layer is `num_blocks` blocks of `block_size` tokens. A sequence owns a list of
blocks; its token t lives in slot `blocks[t // block_size] * block_size + t % block_size`. Blocks
are counted by reference, so that sequences with a common beginning own the same blocks (`share`). A
sequence that grows into a partly filled block that others own too first gets its own copy of that
block (copy-on-write, in `append`).

Everything here runs on the host. MindSpore is imported by `create_tensors` and `copy_blocks` only.
"""

import itertools
from typing import NamedTuple

import numpy as np

from mindspore_relay._block_owners import BlockOwners, Change, OutOfBlocksError, ceil_div
from mindspore_relay.bfloat16 import DTYPES, to_tensor
from mindspore_relay.shared_groups import find_shared_groups

__all__ = ["AppendResult", "OutOfBlocksError", "PagedKVCache"]

_INT32_MAX = np.iinfo(np.int32).max


class AppendResult(NamedTuple):
    """What `PagedKVCache.append` did.

    Attributes:
        slot_mapping: (sum of num_tokens,), int32. Slot of each new token, sequence after sequence:
            what `reshape_and_cache` needs to write the keys and values of these tokens.
        block_copies: (num_copies, 2), int32. Pairs (source block, destination block) of
            copy-on-write. Already performed on the cache's own tensors if `create_tensors` was
            called; a caller that keeps the tensors itself copies these blocks, in every layer,
            before it writes the new tokens.
    """

    slot_mapping: np.ndarray
    block_copies: np.ndarray


class PagedKVCache:
    """Block allocator of a paged KV cache, and, after `create_tensors`, the cache itself.

    A sequence is named by the int that `allocate` and `share` return; names are never used twice.
    Where a method takes several sequences, -1 stands for an idle place of a fixed-capacity batch:
    length 0, no blocks, slot -1. Not safe for use from several threads at a time.

    Every call that changes sequences does so completely or not at all, whatever it raises: no block
    is lost when memory is short, or when Ctrl-C comes in the middle of a call.

    Args:
        num_layers: number of layers; each has one key and one value cache. All layers use the same
            tables.
        num_blocks: blocks in the cache of each layer.
        block_size: tokens per block, 1 to 512.
        kv_head_num: heads of keys and values.
        head_size: elements per head of a key.
        value_head_size: elements per head of a value; head_size if None.
        dtype: 'float16', 'bfloat16' or 'float32'.

    Example:
        >>> cache = PagedKVCache(1, num_blocks=8, block_size=4, kv_head_num=2, head_size=64)
        >>> prefix = cache.allocate()
        >>> cache.append(prefix, 6).slot_mapping  # six tokens in blocks 0 and 1
        array([0, 1, 2, 3, 4, 5], dtype=int32)
        >>> request = cache.share(prefix)  # owns blocks 0 and 1 too
        >>> result = cache.append(request, 1)  # block 1 is partly filled and not its own
        >>> result.slot_mapping, result.block_copies
        (array([10], dtype=int32), array([[1, 2]], dtype=int32))
        >>> cache.block_tables([prefix, request], max_blocks=3)
        array([[ 0,  1, -1],
               [ 0,  2, -1]], dtype=int32)
    """

    def __init__(
        self,
        num_layers,
        num_blocks,
        block_size,
        kv_head_num,
        head_size,
        *,
        value_head_size=None,
        dtype="float16",
    ):
        value_head_size = head_size if value_head_size is None else value_head_size
        sizes = {
            "num_layers": num_layers,
            "num_blocks": num_blocks,
            "block_size": block_size,
            "kv_head_num": kv_head_num,
            "head_size": head_size,
            "value_head_size": value_head_size,
        }
        for name, size in sizes.items():
            if not isinstance(size, (int, np.integer)) or size < 1:
                raise ValueError(f"PagedKVCache: {name} must be an int of at least 1, got {size!r}")
        if block_size > 512:
            raise ValueError(f"PagedKVCache: block_size must be at most 512, got {block_size}")
        if num_blocks * block_size > _INT32_MAX:
            raise ValueError(
                f"PagedKVCache: slots are int32, so num_blocks * block_size must be at most "
                f"{_INT32_MAX}, got {num_blocks} * {block_size}"
            )
        if dtype not in DTYPES:
            raise ValueError(
                f"PagedKVCache: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
            )
        self.num_layers = num_layers
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.kv_head_num = kv_head_num
        self.head_size = head_size
        self.value_head_size = value_head_size
        self.dtype = dtype
        self.key_caches = []
        self.value_caches = []
        self._owners = BlockOwners(num_blocks, block_size)

    # ---- sequences -------------------------------------------------------------------------------

    def allocate(self, num_tokens=0):
        """Makes a sequence of `num_tokens` tokens whose keys and values are still to be written.

        Returns:
            int: the name of the sequence.

        Raises:
            OutOfBlocksError: too few free blocks; nothing was changed.
            ValueError: num_tokens is negative.
        """
        _check_num_tokens(num_tokens)
        num_needed = ceil_div(num_tokens, self.block_size)
        self._owners.check_free(num_needed)
        blocks = self._owners.next_free(num_needed)
        return self._owners.add_sequence(blocks, num_tokens, num_needed, dict.fromkeys(blocks, 1))

    def share(self, seq_id, num_tokens=None):
        """Makes a sequence of the first `num_tokens` tokens of `seq_id` (None: all), in its blocks.

        Takes no block and copies nothing: the new sequence, and the old one too, copy a common
        block when they append to it. The old one may be freed at any time.

        Returns:
            int: the name of the new sequence.

        Raises:
            KeyError: no such sequence.
            ValueError: num_tokens is negative or more than `seq_id` has.
        """
        source = self._sequence(seq_id)
        num_tokens = source.num_tokens if num_tokens is None else num_tokens
        _check_num_tokens(num_tokens)
        if num_tokens > source.num_tokens:
            raise ValueError(
                f"PagedKVCache.share: num_tokens must be at most {source.num_tokens}, the length "
                f"of "
                f"sequence {seq_id}, got {num_tokens}"
            )
        blocks = source.blocks[: ceil_div(num_tokens, self.block_size)]
        ref_count = dict(zip(blocks, (self._owners.ref_count[blocks] + 1).tolist(), strict=True))
        return self._owners.add_sequence(blocks, num_tokens, 0, ref_count)

    def append(self, seq_ids, num_tokens=1):
        """Makes room for new tokens at the end of sequences: all of them or, on an error, none.

        A partly filled last block that other sequences own too is replaced by a copy first.

        Args:
            seq_ids: one sequence, or several; -1 is an idle place: it gets num_tokens slots of -1,
                which `reshape_and_cache` skips.
            num_tokens: int, or one per sequence: number of tokens to append, 0 or more.

        Returns:
            AppendResult(slot_mapping, block_copies).

        Raises:
            OutOfBlocksError: too few free blocks; nothing was changed.
            KeyError: no such sequence. ValueError: num_tokens is negative, or a sequence is named
                twice.
        """
        seq_ids, counts = self._seq_ids_and_counts(seq_ids, num_tokens)
        growths = self._owners.plan_growths(seq_ids, counts)
        num_needed = sum(growth.num_blocks for growth in growths)
        self._owners.check_free(num_needed)
        new_blocks = iter(self._owners.next_free(num_needed))
        sequences, ref_count, block_copies, slots = {}, {}, [], []
        for growth in growths:
            blocks = list(itertools.islice(new_blocks, growth.num_blocks))
            if growth.is_copied:
                source = self._owners.sequences[growth.seq_id].blocks[-1]
                block_copies.append((source, blocks[0]))
                ref_count[source] = ref_count.get(source, int(self._owners.ref_count[source])) - 1
            ref_count.update(dict.fromkeys(blocks, 1))
            if growth.seq_id != -1:
                sequences[growth.seq_id] = self._owners.grown(growth, blocks)
            slots.append(self._new_slots(growth, sequences))
        result = AppendResult(
            np.concatenate([np.empty(0, np.int32), *slots]),
            np.array(block_copies, dtype=np.int32).reshape(-1, 2),
        )
        # Should a copy fail, only blocks that nobody owns have been written.
        if self.key_caches:
            self.copy_blocks(result.block_copies)
        self._owners.carry_out(Change(sequences, self.num_free_blocks - num_needed, [], ref_count))
        return result

    def free(self, seq_ids):
        """Ends sequences (-1 is skipped). A block is free again when its last owner is gone.

        Raises:
            KeyError: no such sequence; nothing was changed. ValueError: a sequence is named twice.
        """
        seq_ids, _ = self._seq_ids_and_counts(seq_ids, 0)
        sequences = {seq_id: None for seq_id in seq_ids if seq_id != -1}
        ref_count, free_blocks = {}, []
        for seq_id in sequences:
            for block in reversed(self._owners.sequences[seq_id].blocks):
                ref_count[block] = ref_count.get(block, int(self._owners.ref_count[block])) - 1
                if ref_count[block] == 0:
                    free_blocks.append(block)
        self._owners.carry_out(Change(sequences, self.num_free_blocks, free_blocks, ref_count))

    # ---- what the operators need -----------------------------------------------------------------

    def kv_seq_len(self, seq_ids):
        """(len(seq_ids),), int32: tokens of each sequence; 0 for -1."""
        seq_ids, _ = self._seq_ids_and_counts(seq_ids, 0)
        return np.array(
            [0 if i == -1 else self._owners.sequences[i].num_tokens for i in seq_ids],
            dtype=np.int32,
        )

    def block_tables(self, seq_ids, max_blocks=None):
        """Block tables of the sequences, padded with -1.

        Args:
            seq_ids: the sequences; -1 gives a row of -1.
            max_blocks: columns of the table; as many as the longest sequence has blocks, if None.

        Returns:
            (len(seq_ids), max_blocks), int32.

        Raises:
            KeyError: no such sequence. ValueError: a sequence has more than max_blocks blocks.
        """
        seq_ids, _ = self._seq_ids_and_counts(seq_ids, 0)
        rows = [[] if i == -1 else self._owners.sequences[i].blocks for i in seq_ids]
        max_blocks = max(map(len, rows), default=0) if max_blocks is None else max_blocks
        tables = np.full((len(rows), max_blocks), -1, dtype=np.int32)
        for seq_id, row, blocks in zip(seq_ids, tables, rows, strict=True):
            if len(blocks) > max_blocks:
                raise ValueError(
                    f"PagedKVCache.block_tables: sequence {seq_id} has {len(blocks)} blocks, more "
                    f"than "
                    f"max_blocks={max_blocks}"
                )
            row[: len(blocks)] = blocks
        return tables

    def slot_mapping(self, seq_id, begin=0, end=None):
        """(end - begin,), int32: slots of tokens begin .. end - 1; end is the length if None."""
        sequence = self._sequence(seq_id)
        end = sequence.num_tokens if end is None else end
        if not 0 <= begin <= end <= sequence.num_tokens:
            raise ValueError(
                f"PagedKVCache.slot_mapping: begin and end must be within 0 and "
                f"{sequence.num_tokens}, "
                f"the length of sequence {seq_id}, got begin={begin}, end={end}"
            )
        return self._slots(sequence, begin, end)

    def find_shared_groups(self, seq_ids, max_blocks=None):
        """Groups sequences with the same leading blocks, for the paged form of `relay_attention`.

        See `mindspore_relay.find_shared_groups`, which this calls with the sequences' tables and
        lengths.
        """
        return find_shared_groups(
            self.block_tables(seq_ids, max_blocks), self.kv_seq_len(seq_ids), self.block_size
        )

    # ---- how full it is --------------------------------------------------------------------------

    @property
    def num_free_blocks(self):
        """Blocks that no sequence owns."""
        return len(self._owners.free_blocks)

    def num_blocks_needed(self, seq_ids, num_tokens=1):
        """Free blocks that `append(seq_ids, num_tokens)` would take, copies included."""
        seq_ids, counts = self._seq_ids_and_counts(seq_ids, num_tokens)
        return sum(growth.num_blocks for growth in self._owners.plan_growths(seq_ids, counts))

    def ref_count(self, block):
        """Number of sequences that own a block."""
        return int(self._owners.ref_count[block])

    # ---- the tensors -----------------------------------------------------------------------------

    def create_tensors(self):
        """Creates the caches, filled with zeros: per layer one Parameter for keys, one for values.

        Afterwards `key_caches[layer]` is (num_blocks, block_size, kv_head_num, head_size) and
        `value_caches[layer]` (num_blocks, block_size, kv_head_num, value_head_size), of the cache's
        dtype, and `append` copies blocks by itself. Compiled graphs may hold the Parameters: they
        are changed in place only, never replaced.
        """
        from mindspore import Parameter

        if self.key_caches:
            raise RuntimeError("PagedKVCache.create_tensors: the tensors exist already")
        storage = np.uint16 if self.dtype == "bfloat16" else self.dtype

        def caches(name, head_size):
            shape = (self.num_blocks, self.block_size, self.kv_head_num, head_size)
            for layer in range(self.num_layers):
                tensor = to_tensor(np.zeros(shape, dtype=storage))
                yield Parameter(tensor, name=f"{name}.{layer}", requires_grad=False)

        # All of them or none: when memory ends at the last layer, it may be tried again.
        key_caches = list(caches("key_cache", self.head_size))
        value_caches = list(caches("value_cache", self.value_head_size))
        self.key_caches, self.value_caches = key_caches, value_caches

    def copy_blocks(self, block_copies):
        """Copies whole blocks inside the key and value caches of all layers, in place.

        Args:
            block_copies: (num_copies, 2) ints: source block, destination block. No block is both.
        """
        block_copies = np.asarray(block_copies, dtype=np.int32).reshape(-1, 2)
        if not len(block_copies):
            return
        from mindspore import Tensor, get_context, ops

        source, destination = block_copies.T
        on_cpu = get_context("device_target") == "CPU"
        for cache in (*self.key_caches, *self.value_caches):
            if on_cpu:
                # asnumpy() waits for operators in flight and then shares the Parameter's memory,
                # bfloat16 included.
                memory = cache.asnumpy()
                memory[destination] = memory[source]
            else:
                blocks = ops.gather(cache, Tensor(source), 0)
                ops.scatter_update(cache, Tensor(destination), blocks)

    # ---- private ---------------------------------------------------------------------------------

    def _sequence(self, seq_id):
        if seq_id not in self._owners.sequences:
            raise KeyError(f"PagedKVCache: there is no sequence {seq_id!r}")
        return self._owners.sequences[seq_id]

    def _seq_ids_and_counts(self, seq_ids, num_tokens):
        """Sequences and token counts as checked lists: each sequence exists and is named once."""
        seq_ids = [int(i) for i in np.atleast_1d(np.asarray(seq_ids, dtype=np.int64))]
        counts = np.asarray(num_tokens)
        if counts.ndim and counts.shape != (len(seq_ids),):
            raise ValueError(
                f"PagedKVCache: num_tokens must be one int or one per sequence ({len(seq_ids)}), "
                f"got shape {counts.shape}"
            )
        counts = [int(n) for n in np.broadcast_to(counts, len(seq_ids))]
        named = set()
        for seq_id, count in zip(seq_ids, counts, strict=True):
            _check_num_tokens(count)
            if seq_id == -1:
                continue
            self._sequence(seq_id)
            if seq_id in named:
                raise ValueError(f"PagedKVCache: sequence {seq_id} is named twice in one call")
            named.add(seq_id)
        return seq_ids, counts

    def _new_slots(self, growth, sequences):
        """Slots of the tokens that a growth adds; sequences: as they are after it."""
        if growth.seq_id == -1:
            return np.full(growth.num_tokens, -1, dtype=np.int32)
        sequence = sequences[growth.seq_id]
        return self._slots(sequence, sequence.num_tokens - growth.num_tokens, sequence.num_tokens)

    def _slots(self, sequence, begin, end):
        tokens = np.arange(begin, end)
        blocks = np.asarray(sequence.blocks, dtype=np.int64)
        return (
            blocks[tokens // self.block_size] * self.block_size + tokens % self.block_size
        ).astype(np.int32)


def _check_num_tokens(num_tokens):
    if num_tokens < 0:
        raise ValueError(f"PagedKVCache: num_tokens must be 0 or more, got {num_tokens}")
