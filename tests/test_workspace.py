# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Workspace: phase 1 asks for no more than the documented bound, phase 2 stays within it.

capi_harness puts guard bytes around every workspace and looks at them after every run.
"""

import random

import capi_harness
import numpy as np
import pytest
from cases import CASES, DTYPES, PrefixCase, RelayCase, build
from fuzz_shapes import random_case
from workspace_bound import workspace_bound

THREADS = (1, 2, 5)


def workspace_bytes(problem, path="auto"):
    """Bytes that phase 1 asked for, after a run within them."""
    with capi_harness.Operation() as operation:
        operation.run(problem, path=path)
        return operation.workspace_bytes


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_case_is_within_the_bound(isa, dtype, num_threads):
    for case in CASES:
        problem = build(case, dtype)
        for threads in THREADS:
            num_threads(threads)
            bound = workspace_bound(problem, threads)
            assert workspace_bytes(problem) <= bound, (case.name, threads)


@pytest.mark.parametrize("seed", range(2))
def test_random_problems_are_within_the_bound(isa, seed, num_threads):
    rng = random.Random(seed)
    for number in range(60):
        case, dtype = random_case(rng), rng.choice(DTYPES)
        problem = build(case, dtype, seed=number)
        threads = rng.randint(1, 7)
        num_threads(threads)
        path = rng.choice(["auto", "relay", "plain"])
        needed = workspace_bytes(problem, path)
        assert needed <= workspace_bound(problem, threads), (case, dtype, threads, path)


# Large enough that partial results and accumulators, not roundings, are most of the workspace.
HEADS = {"head_num": 16, "kv_head_num": 4, "head_size": 64}
LARGE = {
    "shared prefix": RelayCase("shared", (3,) * 150, (0,) * 150, (3000,), **HEADS),
    # A piece of the prefix has many rows of few kv heads, a piece of a request's own keys the other
    # way round: their product belongs to no piece.
    "many kv heads": RelayCase(
        "many", (70,) * 80, (0,) * 80, (200,), head_num=24, kv_head_num=24, head_size=128
    ),
    "one long request": RelayCase("long", (9000,), **HEADS),
    "prefill": PrefixCase("prefill", (300, 40), (1500, 4000), **HEADS),
}


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", LARGE)
def test_the_bound_is_no_empty_promise(name, threads, num_threads):
    """It is within a small factor of what is needed: a plan that needs much more breaks it.

    The bound is that of AMX; other instruction sets attend a quarter of its rows in prefill.
    """
    problem = build(LARGE[name], "bfloat16")
    num_threads(threads)
    needed, bound = workspace_bytes(problem), workspace_bound(problem, threads)
    assert needed <= bound <= 8 * needed, (needed, bound)


def test_a_byte_less_is_refused_and_nothing_is_written():
    problem = build(LARGE["shared prefix"], "float16")
    with capi_harness.Operation() as operation:
        operation.run(problem)
        needed = operation.workspace_bytes
        with pytest.raises(ValueError, match=f"workspace must have at least {needed} bytes"):
            operation.run(problem, missing_bytes=1)
        assert (operation.output.array.view(np.uint8) == 0xFF).all()
