# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Cases that broke other attention libraries, by what is special about them.

For the CPU (test_failures.py, test_failures_tensors.py) and the device kernels under the emulation
(aicore/test_device_failures.py): each has a test of the same name for each list.
"""

import dataclasses

import numpy as np
import pytest
from cases import CASES, PREFIX_CASES, PrefixCase, RelayCase
from reference_calls import PREFIX, RELAY

from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import MaskType


def each_case(*these):
    return pytest.mark.parametrize("case", these, ids=lambda case: f"{case.operator}-{case.name}")


def in_every_form(*relay_cases):
    """The cases as lists, stacked, and paged."""
    return [
        dataclasses.replace(case, name=f"{case.name}_as_{form}", form=form)
        for case in relay_cases
        for form in ("list", "stacked", "paged")
    ]


ROWS_WITHOUT_KEYS = [
    *in_every_form(RELAY["quarter_of_rows_empty"], RELAY["everything_empty"]),
    RELAY["everything_empty_no_groups"],
    PREFIX["no_rows"],
    PREFIX["no_keys_at_all"],
]
EXTREME_SCORES = [case for case in CASES if case.name.startswith("scores_")]
MANY_SPLITS = in_every_form(RELAY["batch_128_many_splits"])
FOUR_GROUPS_INTERLEAVED = in_every_form(RELAY["four_groups_interleaved"])
GROUPS_OF_ONE_NONE_AND_EVERYTHING = in_every_form(
    RELAY["group_of_one"],
    RELAY["groups_without_members"],
    RELAY["all_without_group"],
    RELAY["one_group_of_all"],
)
NO_PRIVATE_KEYS = in_every_form(RELAY["private_empty"])
LONG_AND_SHORT_PREFIXES = in_every_form(RELAY["batch_8_prefix_4000"], RELAY["batch_128_prefix_128"])
UNUSED_TABLE_ENTRIES = [
    *(RELAY[f"paged_padding_{padding}"] for padding in ("int32_min", "num_blocks")),
    *(PREFIX[f"padding_{padding}"] for padding in ("int32_min", "num_blocks")),
    RELAY["everything_empty_paged"],
    PREFIX["no_keys_at_all"],
]
TAILS_AND_UNUSED_BLOCKS = [
    RelayCase("tails", (5, 33), (0, 0), (35,), form="paged"),
    PrefixCase("tails", (5, 1), (37, 40)),
]
BLOCK_SIZES = [
    case
    for block_size in (16, 32, 48, 64, 96, 128, 160, 192, 256)
    for case in (RELAY[f"paged_block_{block_size}"], PREFIX[f"block_{block_size}"])
]
BLOCKS_OF_256_AND_MANY_KEYS = [RELAY["paged_block_256_keys_8192"], PREFIX["block_256_keys_8192"]]
SAME_BLOCKS = [RELAY["paged_same_blocks"], PREFIX["common_prefix_blocks"]]
HITS_AND_MISSES = in_every_form(RELAY["hits_and_misses"])
ROWS_AND_KEYS = [
    PREFIX[name] for name in ("rows_2_keys_5", "rows_172_keys_300", "one_row", "no_prefix")
]
SLOPES_OF_MANY_HEADS = [
    case
    for case in PREFIX_CASES
    if case.mask_type != MaskType.CAUSAL
    and (case.head_num in (12, 40, 66) or case.slopes_rows)
    and not case.name.startswith("heads")
]


def fill_unused(problem, fill):
    """Writes `fill` wherever a cache of TAILS_AND_UNUSED_BLOCKS holds nothing that is in use."""
    for cache in problem.args[1:3]:
        unused = ~np.isfinite(to_float(cache))
        assert unused.reshape(len(cache), -1).all(axis=1).sum() == 3  # whole blocks
        cache[unused] = from_float(np.array(fill), problem.dtype)
