# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other attention libraries, by name: paged cache, masks, tensors, package.

How each goes through the C interface and both modes: test_failures.py.
"""

import functools
import shutil
import subprocess
from pathlib import Path

import capi_harness
import failure_cases
import numpy as np
import pytest
from cases import DTYPES, PrefixCase, RelayCase, build
from failure_cases import each_case, in_every_form
from modes import assert_same_bits
from test_failures import (
    arguments_of,
    assert_right,
    check,
    each_dtype,
    in_every_way,
)

from mindspore_relay import MaskType

# ---- paged cache ---------------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.UNUSED_TABLE_ENTRIES)
def test_unused_entries_of_tables_and_tables_of_no_width(case, dtype):
    """-1 is the padding of all other cases."""
    problem = build(case, dtype)
    tables = problem.kwargs.get("block_tables", problem.args[3])
    assert tables.shape[1] == 0 or tables.min() < 0 or tables.max() == len(problem.args[1])
    assert_right(problem, case.name)


@each_dtype
@pytest.mark.parametrize("entry", [-1, -(2**31), 11, 2**31 - 1])
def test_a_needed_entry_that_is_no_block(dtype, entry):
    relay = build(RelayCase("errors", (5, 33, 0), (0, -1, 1), (35, 7), form="paged"), dtype)
    assert len(relay.args[1]) == 11
    arguments = arguments_of(relay)
    arguments["block_tables"][1, 2] = entry
    text = (
        f"relay_attention: block_tables entries in use must be in [0, num_blocks=11), got "
        f"block_tables[1][2]={entry} (request 1, entry 2, 33 keys)"
    )
    in_every_way(relay.operator, arguments, text)


@each_dtype
@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf])
@each_case(*failure_cases.TAILS_AND_UNUSED_BLOCKS)
def test_nan_and_infinity_in_unused_tails_and_blocks(case, dtype, content):
    """Of keys and of values; all other cases have a mixture of them there."""
    problem = build(case, dtype)
    clean = capi_harness.run(problem)
    failure_cases.fill_unused(problem, content)
    assert_same_bits(assert_right(problem, case.name), clean, str(content))


@each_dtype
@each_case(*failure_cases.BLOCK_SIZES)
def test_block_sizes_and_lengths_around_them(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.BLOCKS_OF_256_AND_MANY_KEYS)
def test_blocks_of_256_with_8192_and_16384_keys(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.SAME_BLOCKS)
def test_two_requests_on_the_same_blocks(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.HITS_AND_MISSES)
def test_hits_and_misses_of_the_prefix_in_one_batch(case, dtype):
    check(case, dtype)


# ---- masks and positions -------------------------------------------------------------------------


@each_dtype
@each_case(*failure_cases.ROWS_AND_KEYS)
def test_fewer_rows_than_keys_and_as_many(case, dtype):
    check(case, dtype)


@each_dtype
@each_case(*failure_cases.SLOPES_OF_MANY_HEADS)
def test_slopes_of_12_40_and_66_heads_and_of_a_part_of_them(case, dtype):
    check(case, dtype)


MASK_ERRORS = {
    "wrong shape": (
        {"mask": lambda mask: mask[:128, :128].copy()},
        "mask must be [256, 256] or [head_num, rows, 128] for mask_type ALIBI_COMPRESS (3), got "
        "shape [128, 128]",
    ),
    "wrong type": (
        {"mask_type": MaskType.ALIBI_COMPRESS_SQRT},
        "mask must have the content of mask_type ALIBI_COMPRESS_SQRT (4), got the content of "
        "ALIBI_COMPRESS (3) (another public header numbers these masks one higher)",
    ),
    "wrong sign": (
        {"slopes": lambda slopes: -slopes},
        "slopes must be finite and all <= 0 for mask_type ALIBI_COMPRESS (3), got slopes[0]=0.25",
    ),
}


@each_dtype
@pytest.mark.parametrize("length", [1, 40, 512, 513])
@pytest.mark.parametrize("kind", MASK_ERRORS)
def test_a_mask_of_the_wrong_shape_type_or_sign(kind, length, dtype):
    problem = build(PrefixCase("mask", (1,), (length,), MaskType.ALIBI_COMPRESS), dtype)
    arguments = arguments_of(problem)
    changes, text = MASK_ERRORS[kind]
    for name, change in changes.items():
        arguments[name] = change(arguments[name]) if callable(change) else change
    in_every_way(problem.operator, arguments, f"prefix_encoder: {text}")


@each_dtype
@pytest.mark.parametrize(("seq_len", "kv_seq_len"), [(1, 0), (21, 20), (513, 512)])
def test_more_rows_than_keys(seq_len, kv_seq_len, dtype):
    problem = build(PrefixCase("rows", (seq_len,), (seq_len,)), dtype)
    problem.args[6][0] = kv_seq_len
    arguments = arguments_of(problem)
    text = (
        f"prefix_encoder: seq_len[0]={seq_len} is greater than kv_seq_len[0]={kv_seq_len}; "
        "kv_seq_len counts cached and new keys together"
    )
    in_every_way(problem.operator, arguments, text)


# ---- tensors -------------------------------------------------------------------------------------


@each_dtype
def test_transposed_heads(isa, dtype):
    """Heads before tokens in memory: read by strides, in lists, stacks and caches."""

    def transposed(array):
        if array.ndim < 3 or array.shape[-2:] != (2, 16):
            return array
        return np.ascontiguousarray(np.swapaxes(array, -2, -3)).swapaxes(-2, -3)

    relay = RelayCase("transposed", (5, 33), (0, 0), (35,))
    for case in (*in_every_form(relay), PrefixCase("transposed", (5, 1), (37, 40))):
        problem = build(case, dtype)
        args, kwargs = problem.map_arrays(transposed)
        key = args[1][0] if isinstance(args[1], list) else args[1]
        assert not key.flags.c_contiguous
        results = capi_harness.run(problem._replace(args=args, kwargs=kwargs))
        assert_same_bits(results, capi_harness.run(problem), case.name)


@each_dtype
@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
@pytest.mark.parametrize(("head_num", "kv_head_num"), [(4, 3), (3, 4), (2, 4)])
def test_head_num_that_is_no_multiple_of_kv_head_num(form, dtype, head_num, kv_head_num):
    problem = build(RelayCase("heads", (5, 33), (0, 0), (35,), form=form), dtype)
    arguments = arguments_of(problem) | {"head_num": head_num, "kv_head_num": kv_head_num}
    text = (
        "relay_attention: head_num must be a multiple of kv_head_num, "
        f"got head_num={head_num}, kv_head_num={kv_head_num}"
    )
    in_every_way(problem.operator, arguments, text)


@each_dtype
def test_fewer_keys_than_values(dtype):
    problem = build(RelayCase("lists", (5, 33), (0, 0), (35,)), dtype)
    arguments = arguments_of(problem)
    arguments["key"] = arguments["key"][:1]
    text = "key and value must have the same form and number of tensors, got 1 and 2"
    in_every_way(problem.operator, arguments, f"relay_attention: {text}")


@pytest.mark.parametrize("form", ["list", "stacked", "paged", "prefix"])
@pytest.mark.parametrize(("dtype", "other"), [(a, b) for a in DTYPES for b in DTYPES if a != b])
def test_keys_of_another_dtype_than_the_query(form, dtype, other):
    make = RelayCase("dtypes", (5, 33), (0, 0), (35,), form=form)
    case = PrefixCase("dtypes", (5,), (40,)) if form == "prefix" else make
    problem = build(case, dtype)
    arguments = arguments_of(problem)
    arguments["key"] = build(case, other).args[1]
    name = "key[0]" if form == "list" else "key"
    text = f"{problem.operator}: {name} must have query's dtype {dtype}, got {other}"
    in_every_way(problem.operator, arguments, text)


# ---- package -------------------------------------------------------------------------------------


@functools.cache
def _without_network():
    """A command that runs another one without a network, or nothing where that is not allowed."""
    command = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and not subprocess.run([*command, "true"]).returncode:
        return command
    return []


def test_build_without_network(tmp_path):
    """CMake fetches nothing: with its requirements there, a build is configured offline."""
    source = Path(__file__).resolve().parent.parent
    command = [*_without_network(), "cmake", "-G", "Ninja", "-S", source, "-B", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    for name in ("FetchContent", "ExternalProject", "file(DOWNLOAD"):
        for path in (source / "CMakeLists.txt", *source.glob("ops/**/CMakeLists.txt")):
            assert name not in path.read_text(encoding="utf-8"), path
