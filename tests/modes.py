# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the problems of tests/cases.py through MindSpore, in PyNative and in graph mode.

Results are NumPy arrays in the storage of `mindspore_relay.bfloat16`: uint16 is bfloat16.
"""

import contextlib

import mindspore as ms
import numpy as np
from mindspore import mutable, nn, ops

import mindspore_relay
from mindspore_relay.bfloat16 import to_numpy, to_tensor

# Each call raises its own error: without it an error may surface at a later call.
ms.set_context(pynative_synchronize=True)


@contextlib.contextmanager
def mode(name):
    """Sets "pynative" or "graph" mode; what was set before is restored."""
    before = ms.get_context("mode")
    ms.set_context(mode={"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}[name])
    try:
        yield
    finally:
        ms.set_context(mode=before)


def tensors_of(problem):
    """The problem's args and kwargs with tensors in place of arrays."""
    return problem.map_arrays(to_tensor)


def run_pynative(problem, **kwargs):
    """Output and lse of a problem; kwargs are added to the operator's."""
    with mode("pynative"):
        args, problem_kwargs = tensors_of(problem)
        _leave_nan_in_free_memory(args[0])
        operator = getattr(mindspore_relay, problem.operator)
        results = operator(*args, **problem_kwargs, return_lse=True, **kwargs)
        return tuple(map(to_numpy, results))


def run_graph(problem, **kwargs):
    """Output and lse of a problem, from a graph that consists of the operator."""
    with mode("graph"):
        args, problem_kwargs = tensors_of(problem)
        net = OperatorNet(problem.operator, **problem_kwargs, return_lse=True, **kwargs)
        return tuple(map(to_numpy, net.run(*args)))


class OperatorNet(nn.Cell):
    """One of the two attention operators as a graph.

    Args:
        operator: name of the operator.
        kwargs: its keyword arguments; tensors among them become inputs of the graph.
    """

    def __init__(self, operator, **kwargs):
        super().__init__()
        self.tables = (kwargs.pop("block_tables", None), kwargs.pop("share_block_tables", None))
        self.operator = getattr(mindspore_relay, operator)
        self.is_paged_relay = self.tables[0] is not None or self.tables[1] is not None
        self.head_num = kwargs["head_num"]
        self.kv_head_num = kwargs["kv_head_num"]
        self.qk_scale = kwargs["qk_scale"]
        self.mask_type = int(kwargs.get("mask_type", 0))
        self.return_lse = kwargs["return_lse"]
        self.path = kwargs.get("path", "auto")
        self.is_relay = operator == "relay_attention"

    def run(self, *args):
        """Calls the net with the operator's positional arguments; lists are wrapped for it."""
        args = [mutable(arg) if isinstance(arg, list) and arg else arg for arg in args]
        tables = self.tables if self.is_relay else (None, None)
        return self(tables[0], tables[1], *args)

    def construct(self, block_tables, share_block_tables, *args):
        if self.is_relay:
            return self.operator(
                *args,
                head_num=self.head_num,
                kv_head_num=self.kv_head_num,
                qk_scale=self.qk_scale,
                return_lse=self.return_lse,
                path=self.path,
                block_tables=block_tables,
                share_block_tables=share_block_tables,
            )
        return self.operator(
            *args,
            mask_type=self.mask_type,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            return_lse=self.return_lse,
        )


def assert_same_bits(got, expected, name):
    """Asserts that two arrays, or two tuples of arrays, are equal bit by bit."""
    if isinstance(got, tuple):
        for which, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_same_bits(a, b, f"{name}, result {which}")
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape, name
    difference = got.view(np.uint8) != expected.view(np.uint8)
    assert not difference.any(), f"{name}: {difference.sum()} of {difference.size} bytes differ"


def _leave_nan_in_free_memory(query):
    """Fills memory with NaN and frees it, so that the output is likely to lie there: what the
    operator does not write shows."""
    for factor in (1, 2):
        ops.full((factor * query.size,), float("nan"), dtype=ms.float32).asnumpy()
