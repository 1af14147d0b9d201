# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the oracle that several tests make."""

import cases
import numpy as np

from mindspore_relay import reference
from mindspore_relay.masks import MaskType

RELAY = {case.name: case for case in cases.RELAY_CASES}
PREFIX = {case.name: case for case in cases.PREFIX_CASES}


def run(problem, **kwargs):
    """Output and lse of a problem, by the oracle."""
    operator = getattr(reference, problem.operator)
    return operator(*problem.args, **problem.kwargs, return_lse=True, **kwargs)


def one_block_prefix(query, key, value, seq_len, mask_type=MaskType.CAUSAL, **kwargs):
    """prefix_encoder of one request whose keys are one block; output and lse."""
    num_keys = key.shape[0]
    return reference.prefix_encoder(
        query,
        key[None],
        value[None],
        np.zeros((1, 1), np.int32),
        kwargs.pop("mask", None),
        [seq_len],
        [num_keys],
        kwargs.pop("slopes", None),
        mask_type=mask_type,
        return_lse=True,
        **kwargs,
    )
