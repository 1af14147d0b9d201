# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Owners of the blocks of a paged cache. A change happens whole or, on an error, not at all."""

from typing import NamedTuple

import numpy as np


class OutOfBlocksError(RuntimeError):
    """The cache has fewer free blocks than a call needs. The call changed nothing.

    Free a sequence, or wait until one is done, and call again.

    Attributes:
        needed_blocks: free blocks that the call needs.
        free_blocks: free blocks that there are.
    """

    def __init__(self, needed_blocks, free_blocks, num_blocks):
        super().__init__(
            f"PagedKVCache: {needed_blocks} free blocks are needed, {free_blocks} of {num_blocks} "
            f"are free; nothing was changed, free a sequence or make the cache larger"
        )
        self.needed_blocks = needed_blocks
        self.free_blocks = free_blocks


class Sequence(NamedTuple):
    """Blocks and number of tokens of one sequence. Replaced when it grows, never changed."""

    blocks: list
    num_tokens: int


class Growth(NamedTuple):
    """Planned growth of one sequence (-1: an idle place)."""

    seq_id: int
    num_tokens: int
    is_copied: bool  # its last block is partly filled and others own it too
    num_blocks: int  # free blocks to take, the copy included


class Change(NamedTuple):
    """What a call changes: new values, all computed before the first of them is set."""

    sequences: dict  # name -> Sequence, or None when it ends
    num_free_kept: int  # free blocks below those that the call takes
    free_blocks: list  # that lie above these afterwards
    ref_count: dict  # block -> number of owners


class BlockOwners:
    """Sequences, the blocks that they own, and the blocks that nobody owns.

    Read freely, changed by `carry_out` only.

    Attributes:
        sequences: name -> Sequence.
        free_blocks: a stack: the block freed last is used first, because its memory is the
            likeliest to be in a cache.
        ref_count: (num_blocks,), int32. Number of sequences that own each block.
        next_seq_id: name of the next new sequence.
    """

    def __init__(self, num_blocks, block_size):
        self._block_size = block_size
        self.sequences = {}
        self.free_blocks = list(range(num_blocks - 1, -1, -1))
        self.ref_count = np.zeros(num_blocks, dtype=np.int32)
        self.next_seq_id = 0

    def check_free(self, num_needed):
        if num_needed > len(self.free_blocks):
            raise OutOfBlocksError(num_needed, len(self.free_blocks), len(self.ref_count))

    def next_free(self, count):
        """The free blocks that are used next, the top of the stack first."""
        return self.free_blocks[: -count - 1 : -1] if count else []

    def add_sequence(self, blocks, num_tokens, num_taken, ref_count):
        """Adds a sequence, which takes num_taken blocks off the stack; returns its name."""
        seq_id = self.next_seq_id
        sequences = {seq_id: Sequence(blocks, num_tokens)}
        self.carry_out(Change(sequences, len(self.free_blocks) - num_taken, [], ref_count))
        self.next_seq_id = seq_id + 1
        return seq_id

    def plan_growths(self, seq_ids, counts):
        """One Growth for each sequence, -1 included, by so many tokens."""
        growths = []
        # Owners that a block loses in this call: of two owners who both append, only the first
        # needs a copy.
        lost_owners = {}
        for seq_id, count in zip(seq_ids, counts, strict=True):
            if seq_id == -1:
                growths.append(Growth(-1, count, False, 0))
                continue
            sequence = self.sequences[seq_id]
            is_copied = False
            if count and sequence.num_tokens % self._block_size:
                last = sequence.blocks[-1]
                is_copied = self.ref_count[last] - lost_owners.get(last, 0) > 1
                lost_owners[last] = lost_owners.get(last, 0) + is_copied
            num_blocks = ceil_div(sequence.num_tokens + count, self._block_size) - len(
                sequence.blocks
            )
            growths.append(Growth(seq_id, count, is_copied, num_blocks + is_copied))
        return growths

    def grown(self, growth, blocks):
        """The sequence after a planned growth into these free blocks."""
        old_blocks, num_tokens = self.sequences[growth.seq_id]
        if blocks:
            kept = old_blocks[:-1] if growth.is_copied else old_blocks
            old_blocks = kept + blocks
        return Sequence(old_blocks, num_tokens + growth.num_tokens)

    def carry_out(self, change):
        """Sets all that a call changes, or raises and leaves everything as it was."""
        blocks = list(change.ref_count)
        before = Change(
            {seq_id: self.sequences.get(seq_id) for seq_id in change.sequences},
            change.num_free_kept,
            self.free_blocks[change.num_free_kept :],
            dict(zip(blocks, self.ref_count[blocks].tolist(), strict=True)),
        )
        try:
            self._set(change)
        except BaseException:  # Ctrl-C too
            self._set(before)
            raise

    def _set(self, change):
        """Assignments only: done twice, or over a half of themselves, they give the same."""
        for seq_id, sequence in change.sequences.items():
            if sequence is None:
                self.sequences.pop(seq_id, None)
            else:
                self.sequences[seq_id] = sequence
        self.free_blocks[change.num_free_kept :] = change.free_blocks
        self.ref_count[list(change.ref_count)] = list(change.ref_count.values())


def ceil_div(numerator, denominator):
    return -(-numerator // denominator)
