# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The Cells RelayAttention and PrefixEncoderAttention, and the examples of the docstrings."""

import doctest

import mindspore as ms
import numpy as np
import pytest
from cases import PrefixCase, RelayCase, build
from mindspore import Tensor, mutable, ops
from modes import assert_same_bits, mode, run_pynative, tensors_of

from mindspore_relay import (
    MaskType,
    PrefixEncoderAttention,
    RelayAttention,
    last_relay_path,
    layers,
    operators,
    packed_share,
    relay_attention,
)
from mindspore_relay.bfloat16 import to_numpy

each_mode = pytest.mark.parametrize("mode_name", ["pynative", "graph"])


def call(mode_name, cell, args, **tables):
    with mode(mode_name):
        args = [mutable(arg) if isinstance(arg, list) and arg else arg for arg in args]
        return tuple(map(to_numpy, cell(*args, **tables)))


@each_mode
@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
def test_relay_attention(mode_name, form):
    case = RelayCase("cell", (5, 33, 8), (0, -1, 0), (35,), form=form)
    problem = build(case, "float16")
    args, kwargs = tensors_of(problem)
    cell = RelayAttention(case.head_num, case.head_size, case.kv_head_num, return_lse=True)
    tables = [kwargs.get("block_tables"), kwargs.get("share_block_tables")]
    results = call(mode_name, cell, [*args, *tables])
    assert_same_bits(results, run_pynative(problem), form)


@each_mode
@pytest.mark.parametrize("mask_type", [MaskType.CAUSAL, MaskType.ALIBI_COMPRESS_SQRT])
def test_prefix_encoder_attention(mode_name, mask_type):
    case = PrefixCase("cell", (5, 1), (5, 40), mask_type)
    problem = build(case, "float16")
    sizes = (case.head_num, case.head_size, case.kv_head_num)
    cell = PrefixEncoderAttention(*sizes, mask_type=mask_type, return_lse=True)
    results = call(mode_name, cell, tensors_of(problem)[0])
    assert_same_bits(results, run_pynative(problem), mask_type.name)


@each_mode
def test_constants_reach_the_operator(mode_name):
    case = RelayCase("constants", (5, 33), (0, 0), (35,), kv_head_num=0, qk_scale=0.75)
    problem = build(case, "float32")
    args, _ = tensors_of(problem)
    cell = RelayAttention(4, 16, qk_scale=0.75, return_lse=True, path="plain")
    assert_same_bits(call(mode_name, cell, args), run_pynative(problem), "RelayAttention")
    call(mode_name, cell, args)
    assert last_relay_path() == ["plain"]

    case = PrefixCase("constants", (5, 1), (5, 40), kv_head_num=0, qk_scale=0.75)
    problem = build(case, "float32")
    cell = PrefixEncoderAttention(4, 16, qk_scale=0.75, return_lse=True)
    results = call(mode_name, cell, tensors_of(problem)[0])
    assert_same_bits(results, run_pynative(problem), "PrefixEncoderAttention")


def test_defaults():
    """qk_scale is head_size ** -0.5, the mask CAUSAL, and only the output is returned."""
    assert RelayAttention(4, 64).qk_scale == PrefixEncoderAttention(4, 64).qk_scale == 0.125
    assert PrefixEncoderAttention(4, 64).mask_type == MaskType.CAUSAL
    problem = build(RelayCase("defaults", (5, 33), (0, 0), (35,), kv_head_num=0), "float32")
    with mode("pynative"):
        output = RelayAttention(4, 16)(*tensors_of(problem)[0])
    assert isinstance(output, ms.Tensor)
    assert_same_bits(to_numpy(output), run_pynative(problem)[0], "output")


@pytest.mark.parametrize(("module", "num_lines"), [(operators, 6), (layers, 6), (packed_share, 5)])
def test_examples_of_docstrings(module, num_lines):
    names = {"np": np, "ms": ms, "mstype": ms, "ops": ops, "Tensor": Tensor, "MaskType": MaskType}
    names["relay_attention"] = relay_attention
    with mode("pynative"):
        failed, attempted = doctest.testmod(module, extraglobs=names)
    assert attempted >= num_lines and failed == 0
