# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Random problems for both operators through the C interface, against the float64 oracle.

    python tests/fuzz_shapes.py                          until one fails or Ctrl-C
    python tests/fuzz_shapes.py --problems 2000 --jobs 2
    python tests/fuzz_shapes.py --seed 7 --first 1234 --problems 1      problem 1234 of seed 7 again

Each problem runs on every instruction set of this machine, or on that of --isa. A failure is
printed as a case: put it, with a name that says what was wrong, into tests/cases.py.
"""

import argparse
import itertools
import multiprocessing
import random
import sys
import time

import capi_harness
import cases
import numerics
import numpy as np
from packed_inputs import with_packed_groups

from mindspore_relay import _library
from mindspore_relay.masks import MaskType

# Most query rows x heads x keys of a problem: the oracle does these one row and head at a time.
_MOST_SCORES = 200_000
# Most query rows x heads: each is one call of the oracle's `attend`.
_MOST_ROWS = 600


def random_case(rng):
    """A RelayCase or PrefixCase; small, with the edges of tiles, spans and blocks drawn often."""
    make = _random_relay if rng.random() < 0.5 else _random_prefix
    while True:
        case = make(rng, _random_common(rng))
        if _num_rows(case) <= _MOST_ROWS and _num_scores(case) <= _MOST_SCORES:
            return case


def _num_rows(case):
    tokens = len(case.private_len) if case.operator == "relay_attention" else sum(case.seq_len)
    return tokens * case.head_num


def _num_scores(case):
    if case.operator == "prefix_encoder":
        rows = zip(case.seq_len, case.kv_seq_len, strict=True)
        return case.head_num * sum(num_rows * num_keys for num_rows, num_keys in rows)
    share_len = (*case.kv_share_len, 0)
    groups = case.kv_share_map or (-1,) * len(case.private_len)
    lens = zip(case.private_len, groups, strict=True)
    return case.head_num * sum(private + share_len[group] for private, group in lens)


def _random_common(rng):
    """The fields that both kinds of case have."""
    kv_head_num = rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 8])
    head_num = kv_head_num * rng.choice([1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
    head_size = rng.choice([16, 64, 64, 80, 96, 128, 128, 8 * rng.randint(1, 17)])
    value_head_size = rng.choice([0, 0, 0, 8 * rng.randint(1, 17)])
    if rng.random() < 0.05:
        head_size = 8 * rng.randint(17, 72)
        value_head_size = rng.choice([0, 8 * rng.randint(1, 72)])
    # What the extreme scores need to stay below the largest float16: see _tokens in case_inputs.py.
    scores = rng.choice(["normal"] * 5 + ["equal", "outlier", "large"])
    scales = {
        "outlier": [0.25, 0.5, 1.0],
        "large": [1e-4, 1e-2, 0.25],
    }.get(scores, [0.0, 0.0, 0.0, 1.0, 3.0, -0.25, 0.01, 2.0**-20])
    return {
        "head_num": head_num,
        "kv_head_num": 0 if kv_head_num == head_num and rng.random() < 0.5 else kv_head_num,
        "head_size": head_size,
        "value_head_size": value_head_size,
        "block_size": rng.choice([1, 3, 16, 16, 32, 48, 128, 256, rng.randint(1, 512)]),
        "table_padding": rng.choice(["-1", "int32_min", "num_blocks"]),
        "is_query_flat": rng.random() < 0.5,
        "is_kv_flat": rng.random() < 0.5,
        "scores": scores,
        "qk_scale": rng.choice(scales),
    }


def _random_length(rng, longest, block_size):
    """0 .. longest: any number, or one at the edge of some tiles, spans or blocks."""
    edge = rng.choice([1, 2, 3]) * rng.choice([16, 32, 64, 512, 1024, block_size])
    any_length = rng.randint(0, longest)
    return min(longest, rng.choice([0, 1, edge - 1, edge, edge + 1, any_length, any_length]))


def _random_relay(rng, common):
    batch = rng.choice([1, 2, 3, rng.randint(1, 20), rng.randint(1, 20), rng.randint(20, 140)])
    num_groups = rng.choice([0, 1, 1, 2, 3, 4, 7])
    longest = rng.choice([3, 40, 200, 200, 2200])
    longest_share = rng.choice([40, 200, 400, 2200])
    form = rng.choice(["list", "stacked", "paged"])
    private_len = [_random_length(rng, longest, common["block_size"]) for _ in range(batch)]
    twins = ()
    if form == "paged" and batch > 1 and rng.random() < 0.3:
        first, second = sorted(rng.sample(range(batch), 2))
        private_len[second] = private_len[first]
        twins = ((first, second),)
    return cases.RelayCase(
        "fuzz",
        tuple(private_len),
        tuple(rng.randint(-1, num_groups - 1) for _ in range(batch)),
        tuple(_random_length(rng, longest_share, common["block_size"]) for _ in range(num_groups)),
        form=form,
        has_own_share_caches=form == "paged" and num_groups > 0 and rng.random() < 0.5,
        is_share_flat=rng.random() < 0.5,
        twins=twins,
        **common,
    )


def _random_prefix(rng, common):
    block_size = common["block_size"]
    longest = rng.choice([1, 1, 5, 40, 40, 150])
    longest_prefix = rng.choice([0, 20, 300, 300, 2200])
    seq_len = tuple(_random_length(rng, longest, block_size) for _ in range(rng.randint(1, 6)))
    kv_seq_len = tuple(n + _random_length(rng, longest_prefix, block_size) for n in seq_len)
    _, mask_type, is_mask_3d = rng.choice(cases.MASKS)
    slopes_rows = ()
    if mask_type != MaskType.CAUSAL and not is_mask_3d and rng.random() < 0.3:
        total = common["head_num"] * rng.choice([2, 3])
        slopes_rows = (rng.randint(0, total - common["head_num"]), total)
    return cases.PrefixCase(
        "fuzz",
        seq_len,
        kv_seq_len,
        mask_type=mask_type,
        is_mask_3d=is_mask_3d,
        slopes_rows=slopes_rows,
        # Only blocks that the first request fills: the others read all of them.
        num_common_blocks=rng.choice([0, 0, kv_seq_len[0] // block_size]),
        **common,
    )


def rng_of(seed, index):
    """What problem `index` of a seed is drawn from."""
    return random.Random(f"{seed} {index}")


def run_problem(seed, index, isas):
    """Builds problem `index` of a seed and runs it on each instruction set.

    Returns:
        Whether it could be measured: with extreme scores the plain formula may overflow.

    Raises:
        SystemExit: with the case and what is wrong, if an output is not right.
    """
    rng = rng_of(seed, index)
    case, dtype = random_case(rng), rng.choice(cases.DTYPES)
    with np.errstate(over="ignore", invalid="ignore"):
        problem = cases.build(case, dtype, seed=index)
        try:
            expected = numerics.expect(problem, evens_luck=True)
        except ValueError:
            return False
    for isa in isas:
        path, num_threads = rng.choice(["auto", "relay", "plain"]), rng.choice([1, 2, 3, 8])
        _library.set_isa(isa)
        _library.set_num_threads(num_threads)
        is_packed = case.operator == "relay_attention" and rng.random() < 0.5
        try:
            call = with_packed_groups(problem) if is_packed else problem
            output, lse = capi_harness.run(call, path=path)
            numerics.assert_attention_close(output, expected, "fuzz", lse)
        except (AssertionError, ValueError) as error:
            sys.exit(
                f"{error}\n{isa}, {num_threads} threads, path {path}"
                f"{', packed' if is_packed else ''}; "
                f"again: --seed {seed} --first {index} --problems 1\n"
                f"{case}\nbuild(case, {dtype!r}, seed={index})"
            )
    return True


def _work(job, args, seed):
    """Every args.jobs-th problem from args.first + job on."""
    isas = [args.isa] if args.isa else _library.available_isas()
    end = None if args.problems is None else args.first + args.problems
    deadline = None if args.seconds is None else time.monotonic() + args.seconds
    num_passed = num_unmeasured = 0
    for index in itertools.count(args.first + job, args.jobs):
        if end is not None and index >= end or deadline is not None and time.monotonic() > deadline:
            break
        if run_problem(seed, index, isas):
            num_passed += 1
        else:
            num_unmeasured += 1
        if end is None and index % 1000 < args.jobs:
            print(f"at problem {index}", flush=True)
    print(f"{num_passed} problems passed, {num_unmeasured} could not be measured", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, help="how many; for ever if not given")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument("--seed", type=int, help="drawn if not given, printed always")
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--isa", help="one instruction set, all if not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if args.seed is None else args.seed
    isas = args.isa or ", ".join(_library.available_isas())
    print(f"seed {seed}, instruction sets {isas}", flush=True)
    if args.jobs == 1:
        return _work(0, args, seed)
    # Not fork: each process starts with a library of its own.
    spawn = multiprocessing.get_context("spawn")
    jobs = [spawn.Process(target=_work, args=(job, args, seed)) for job in range(args.jobs)]
    for process in jobs:
        process.start()
    for process in jobs:
        process.join()
    sys.exit(any(process.exitcode for process in jobs))


if __name__ == "__main__":
    main()
