# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of cases.py by the C interface alone, in a process that may die of it.

    python tests/run_cases.py [--dtype NAME] [--isa NAME] [--every N]

Every tensor lies at the edge of a page that nobody may touch (capi_harness.py), once before and
once behind it, so the first access outside of it ends the process. Each case must give the same
bits in both places and on every path. What is run is said before it is run: the last line names
the culprit. test_guard_pages.py runs it, and scripts/check.sh with a library built for a
sanitizer: MindSpore is not imported.
"""

import argparse
import itertools

import capi_harness
import numpy as np
from cases import CASES, DTYPES, build
from packed_inputs import with_packed_groups

from mindspore_relay import _library, capi
from mindspore_relay.bfloat16 import from_float

GUARDS = ("after", "before")
# Elements of a head, or of a token: on both sides of the widths of vectors, and of the 512 elements
# that are converted at once.
SIZES = (1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 511, 512, 513)
# Of pack_share: keys, a multiple of BLOCK, on both sides of a tile and of a register; head sizes of
# key and value.
BLOCK = 5
PACKED_KEYS = (5, 15, 20, 60, 65, 130)
PACKED_SIZES = ((8, 8), (40, 24), (16, 72), (576, 8))


def announce(*words):
    print(*words, flush=True)


def assert_same(results, expected, name):
    for result, wanted in zip(results, expected, strict=True):
        assert result.tobytes() == wanted.tobytes(), f"{name}: other bits"


def run_case(case, dtype, isas):
    """The case on each instruction set, path and side of the page."""
    problem = build(case, dtype)
    paths = ("relay", "plain") if problem.operator == "relay_attention" else ("auto",)
    for isa in isas:
        _library.set_isa(isa)
        expected = None
        for path, guard in itertools.product(paths, GUARDS):
            announce(isa, dtype, problem.operator, case.name, path, guard)
            result = capi_harness.run(problem, guard=guard, path=path)
            expected = expected or result
            assert_same(result, expected, case.name)
        if problem.operator != "relay_attention" or not case.kv_share_len:
            continue
        packed = with_packed_groups(problem)
        for guard in GUARDS:
            announce(isa, dtype, problem.operator, case.name, "packed", guard)
            result = capi_harness.run(packed, guard=guard, path="relay")
            assert_same(result, expected, case.name)


def run_cache_writes(dtype, isas):
    """reshape_and_cache from `dtype` to every dtype, heads apart and merged, whole and as views."""
    slots = np.array([5, -1, 0, 11, 5], np.int32)
    random = np.random.default_rng(0)
    for size, cache_dtype, isa, guard in itertools.product(SIZES, DTYPES, isas, GUARDS):
        announce(isa, dtype, "reshape_and_cache", cache_dtype, size, guard)
        _library.set_isa(isa)
        tokens = [from_float(random.standard_normal((5, 2, size)), dtype) for _ in range(2)]
        for is_flat, is_cache_flat in itertools.product((False, True), repeat=2):
            pair = from_float(random.standard_normal((3, 2, 4, 2, size)), cache_dtype)
            caches = [pair[:, 0], np.ascontiguousarray(pair[:, 1])]
            if is_cache_flat:
                caches = [np.reshape(cache, (3, 4, 2 * size)) for cache in caches]
            rows = [np.reshape(token, (5, 2 * size)) if is_flat else token for token in tokens]
            expected = [cache.copy() for cache in caches]
            capi_harness.reshape_and_cache(*rows, *caches, slots, guard=guard)
            for before, after in zip(expected, caches, strict=True):
                touched = (before != after).reshape(12, -1).any(axis=1)
                assert not touched[[1, 2, 3, 4, 6, 7, 8, 9, 10]].any(), "another slot changed"


def run_merges(dtype, isas):
    """merge_attention_states, heads apart and merged."""
    random = np.random.default_rng(0)
    for size in SIZES:
        out_a, out_b = (from_float(random.standard_normal((5, 3, size)), dtype) for _ in range(2))
        lse_a, lse_b = random.standard_normal((2, 5, 3)).astype(np.float32)
        lse_a[0, 0], lse_b[1, 2] = -np.inf, -np.inf
        for isa, guard in itertools.product(isas, GUARDS):
            announce(isa, dtype, "merge_attention_states", size, guard)
            _library.set_isa(isa)
            apart = capi_harness.merge_attention_states(out_a, lse_a, out_b, lse_b, guard)
            flat = [np.reshape(out, (5, 3 * size)) for out in (out_a, out_b)]
            merged = capi_harness.merge_attention_states(flat[0], lse_a, flat[1], lse_b, guard)
            assert_same(merged, apart, f"size {size}")


def run_packs(dtype, isas):
    """pack_share from rows, and from blocks that are all in use, of heads apart and merged. Every
    byte is written, so that the same prefix gives the same file."""
    random = np.random.default_rng(0)
    for num_keys, sizes in itertools.product(PACKED_KEYS, PACKED_SIZES):
        rows = [from_float(random.standard_normal((num_keys, 2, d)), dtype) for d in sizes]
        blocks = [array.reshape(num_keys // BLOCK, BLOCK, *array.shape[1:]) for array in rows]
        table = np.arange(num_keys // BLOCK, dtype=np.int32)
        for isa, guard in itertools.product(isas, GUARDS):
            announce(isa, dtype, "pack_share", num_keys, sizes, guard)
            _library.set_isa(isa)
            expected = capi.pack_share(*rows, num_keys, kv_head_num=2)
            for prefix, blocks_of_prefix in ((rows, None), (blocks, table)):
                merged = [np.reshape(array, (*array.shape[:-2], -1)) for array in prefix]
                for arrays in (prefix, merged):
                    packed = run_pack(arrays, num_keys, blocks_of_prefix, len(expected), guard)
                    assert packed.tobytes() == expected.tobytes(), "other bytes"


def run_pack(prefix, num_keys, table, num_bytes, guard):
    """Packs into so many bytes; input and output each at the edge of a page."""
    copies = [capi_harness.GuardedCopy(array, guard) for array in prefix]
    for copy in copies:
        copy.make_read_only()
    packed = capi_harness.GuardedArray((num_bytes,), np.uint8, guard)
    capi.pack_share(
        *(copy.array for copy in copies),
        num_keys,
        kv_head_num=2,
        share_block_table=table,
        packed=packed.array,
    )
    packed.assert_guards_intact("packed")
    return packed.array


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="default: all")
    parser.add_argument("--isa", action="append", help="default: all that this machine can run")
    parser.add_argument("--every", type=int, default=1, help="every N-th case only")
    return parser.parse_args()


def main():
    options = parse_arguments()
    isas = options.isa or _library.available_isas()
    _library.set_num_threads(3)
    num_cases = 0
    for dtype in options.dtype or DTYPES:
        for case in CASES[:: options.every]:
            run_case(case, dtype, isas)
            num_cases += 1
        run_cache_writes(dtype, isas)
        run_merges(dtype, isas)
        run_packs(dtype, isas)
    announce(f"ok: {num_cases} cases on {', '.join(isas)}")


if __name__ == "__main__":
    main()
