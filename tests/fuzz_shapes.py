# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Random cases for both operators, until the time is over or one fails.

    python tests/fuzz_shapes.py --seconds 60 [--seed 7] [--isa portable]

A failure is printed as a case: put it, with a name that says what was wrong, into tests/cases.py.
"""

import argparse
import random
import sys
import time

import cases
import modes
import numerics

from mindspore_relay import _library


def random_case(rng):
    """A RelayCase or PrefixCase; small, with edges of tiles and blocks drawn more often."""
    block_size = rng.choice([1, 3, 16, 16, 32, 48, 128])
    edges = [0, 1, *(k * size + d for size in (16, block_size) for k in (1, 2) for d in (-1, 0, 1))]

    def length(longest):
        n = rng.choice([*edges, rng.randint(0, longest), rng.randint(0, longest)])
        return min(n, longest)

    kv_head_num = rng.choice([1, 1, 2, 3])
    common = {
        "head_num": kv_head_num * rng.choice([1, 1, 2, 3, 4, 7, 8]),
        "kv_head_num": kv_head_num,
        "head_size": 8 * rng.randint(1, 17),
        "value_head_size": rng.choice([0, 0, 8 * rng.randint(1, 17)]),
        "block_size": block_size,
        "table_padding": rng.choice(["-1", "int32_min", "num_blocks"]),
        "is_query_flat": rng.random() < 0.5,
        "is_kv_flat": rng.random() < 0.5,
        "scores": rng.choice(["normal", "normal", "equal"]),
    }
    if rng.random() < 0.5:
        return _random_relay(rng, length, common)
    return _random_prefix(rng, length, common)


def _random_relay(rng, length, common):
    batch, num_groups = rng.randint(1, 20), rng.randint(0, 4)
    form = rng.choice(["list", "stacked", "paged"])
    return cases.RelayCase(
        "fuzz",
        tuple(length(200) for _ in range(batch)),
        tuple(rng.randint(-1, num_groups - 1) for _ in range(batch)),
        tuple(length(400) for _ in range(num_groups)),
        form=form,
        has_own_share_caches=form == "paged" and num_groups > 0 and rng.random() < 0.5,
        is_share_flat=rng.random() < 0.5,
        **common,
    )


def _random_prefix(rng, length, common):
    seq_len = tuple(length(40) for _ in range(rng.randint(1, 5)))
    _, mask_type, is_mask_3d = rng.choice(cases.MASKS)
    return cases.PrefixCase(
        "fuzz",
        seq_len,
        tuple(rows + length(300) for rows in seq_len),
        mask_type=mask_type,
        is_mask_3d=is_mask_3d,
        **common,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if not given")
    parser.add_argument("--isa", default=None, help="instruction set, the best one if not given")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if args.seed is None else args.seed
    if args.isa:
        _library.set_isa(args.isa)
    print(f"seed {seed}, instruction set {_library.isa_name()}", flush=True)

    rng, end, num_cases = random.Random(seed), time.monotonic() + args.seconds, 0
    while time.monotonic() < end:
        case, dtype = random_case(rng), rng.choice(cases.DTYPES)
        problem = cases.build(case, dtype, seed=num_cases)
        path = {"path": rng.choice(["auto", "relay", "plain"])}
        try:
            kwargs = path if case.operator == "relay_attention" else {}
            output, lse = modes.run_pynative(problem, **kwargs)
            numerics.assert_attention_close(output, numerics.expect(problem), "fuzz", lse)
        except (AssertionError, RuntimeError) as error:
            sys.exit(f"{error}\ndtype {dtype}, seed {num_cases}, {kwargs}\n{case}")
        num_cases += 1
    print(f"{num_cases} cases passed")


if __name__ == "__main__":
    main()
