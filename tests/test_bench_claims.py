# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench/claims.py: what a run says about the project's claims. Nothing is measured."""

import sys
from pathlib import Path

import pytest
from bench_rows import RATES, bench_row

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

from bench import claims, problems, report  # noqa: E402

OURS = "mindspore_relay"
DECODE = problems.Problem(problems.DECODE, "bf16", 8, 512, 128)


def claim_rows(problem, *rows):
    """Rows of one problem: (op, impl, ms, more)."""
    shape = {name: getattr(problem, name) for name in ("dtype", "batch", "prefix", "private")}
    shape |= {name: getattr(problem, name) for name in ("q_len", "head_num", "kv_head_num")}
    return [
        bench_row(op, impl, ms, **{"path": "relay", "isa": "amx"}, **shape, **dict(*more))
        for op, impl, ms, *more in rows
    ]


@pytest.mark.parametrize(
    ("problem", "text", "good", "bad"),
    [
        (
            DECODE,
            "time / floor",
            [("relay", OURS, 1.5)],
            [("relay", OURS, 1.7)],
        ),
        (
            DECODE,
            "time / fastest peer",
            [("relay", OURS, 1.5), ("plain", "vllm", 1.6), ("relay", "torch", 9.0)],
            [("relay", OURS, 1.5), ("plain", "vllm", 1.4), ("relay", "torch", 9.0)],
        ),
        (
            problems.Problem(problems.DECODE, "bf16", *problems.RELAY_GAIN),
            "relay over own plain",
            [("relay", OURS, 1.0), ("plain", OURS, 15.0)],
            [("relay", OURS, 1.0), ("plain", OURS, 14.9)],
        ),
        (
            problems.Problem(problems.DECODE, "fp16", *problems.COMPOSED_GAIN),
            "own operators, plain",
            [("relay", OURS, 1.0), ("plain", "mindspore_composed", 100.0)],
            [("relay", OURS, 1.0), ("plain", "mindspore_composed", 99.0)],
        ),
        (
            DECODE,
            "avx512 over amx",
            [("relay", OURS, 1.0), ("relay", "mindspore_relay.avx512", 1.3)],
            [("relay", OURS, 1.0), ("relay", "mindspore_relay.avx512", 1.4)],
        ),
        (
            problems.Problem(problems.DECODE, "bf16", 1, 512, 128),
            "avx2 over avx512",
            [
                *(("relay", OURS, 1.0), ("relay", "mindspore_relay.avx512", 1.0)),
                ("relay", "mindspore_relay.avx2", 1.5),
            ],
            [
                *(("relay", OURS, 1.0), ("relay", "mindspore_relay.avx512", 1.0)),
                ("relay", "mindspore_relay.avx2", 1.6),
            ],
        ),
        (
            problems.Problem(problems.DECODE, "bf16", 128, 128, 128),
            "where it is hard",
            [("relay", OURS, 1.04), ("plain", OURS, 1.0)],
            [("relay", OURS, 1.06), ("plain", OURS, 1.0)],
        ),
        (
            DECODE,
            "relative L2 error",
            [("relay", OURS, 1.0, {"rel_l2": 2.4e-3})],
            [("relay", OURS, 1.0, {"rel_l2": 2.5e-3})],
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_claims_hold_or_not(problem, text, good, bad):
    for rows, holds in ((good, True), (bad, False)):
        made = claims.all_claims(report.cells(claim_rows(problem, *rows)), RATES)
        assert [claim.holds for claim in made if text in claim.text] == [holds]
        assert ("**no**" in claims.table(made)) == (not holds)


def test_growth_is_told_against_a_line():
    batch, prefix, privates = problems.GROWTH_PRIVATE
    rows = []
    for private in privates:
        problem = problems.Problem(problems.DECODE, "bf16", batch, prefix, private)
        # Off the line of the others by a tenth at one length.
        ms = (1 + private / 128) * (1.1 if private == privates[1] else 1)
        rows += claim_rows(problem, ("relay", OURS, ms, {"floor_ms": private / 128}))
    (claim,) = (c for c in claims.all_claims(report.cells(rows), RATES) if "linear" in c.text)
    assert claim.holds is None
    assert claim.measured.startswith("at most 10% off a line; its slope is 0.99 x")


def test_a_run_says_nothing_of_what_it_did_not_measure():
    assert claims.all_claims({}, RATES) == []
