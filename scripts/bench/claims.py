# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What the project claims about its speed, against what a run measured.

Each function takes the cells of a run (report.cells) and its rates, and returns a Claim for
everything that the run can tell about; a run without the problems that a claim needs says nothing
about it.
"""

import dataclasses

import numpy as np

from bench import floors, problems
from bench.report import (
    OURS,
    best_peer,
    cell_name,
    choice_loss,
    geometric_mean,
    is_decode,
    is_peer,
    ours,
    problem_of,
)


@dataclasses.dataclass(frozen=True)
class Claim:
    """A line of the table. holds: None where the claim is a description."""

    text: str
    target: str
    measured: str
    holds: bool | None = None


# (kind, dtype) -> most that the geometric mean, and the worst, of time / floor may be on the grid.
FLOOR_TARGETS = {
    ("decode", "bf16"): (1.6, 2.2),
    ("decode", "fp16"): (2.0, 3.3),
    ("prefill", "bf16"): (2.0, 2.5),
    ("prefill", "fp16"): (4.4, 5.2),
}
# Relative L2 error against float64: of the best peer that computes in this dtype.
ERROR_TARGETS = {"bf16": 2.4e-3, "fp16": 2.2e-4}
RELAY_GAIN_TARGET = 15.0
COMPOSED_TARGETS = {"relay": 20.0, "plain": 100.0}
CHOICE_TARGET = 0.05
# Slower set, faster set, how much slower it may be.
ISA_TARGETS = (("avx512", "amx", 1.3), ("avx2", "avx512", 1.5))


def all_claims(grid, rates):
    makers = (_floors, _peers, _relay_gain, _composed, _growth, _isas, _choice, _accuracy)
    return [claim for make in makers for claim in make(grid, rates)]


def table(claims):
    """Markdown."""
    marks = {True: "yes", False: "**no**", None: "–"}
    lines = ["| claim | target | measured | holds |", "|---|---|---|---|"]
    lines += [f"| {c.text} | {c.target} | {c.measured} | {marks[c.holds]} |" for c in claims]
    return "\n".join(lines)


def _headline(grid, kind, dtype):
    """The cells of the grid that belong to the headline."""
    wanted = set(problems.preset(("headline",), (dtype,)))
    cells = [c for c in grid.values() if problem_of(ours(c)) in wanted]
    return [c for c in cells if is_decode(ours(c)) == (kind == "decode")]


def _impls(cell):
    return {impl for _, impl in cell}


def _find(grid, dtype, batch, prefix, private):
    """A decode cell with 32/8 heads of 128, or None."""
    wanted = problems.Problem(problems.DECODE, dtype, batch, prefix, private)
    return next((c for c in grid.values() if problem_of(ours(c)) == wanted), None)


def _floors(grid, rates):
    for (kind, dtype), (mean_target, worst_target) in FLOOR_TARGETS.items():
        cells = _headline(grid, kind, dtype)
        if not cells:
            continue
        mean = geometric_mean([ours(c)["ratio"] for c in cells])
        worst = max(cells, key=lambda c: ours(c)["ratio"])
        ratio = ours(worst)["ratio"]
        yield Claim(
            f"{kind} {dtype}, time / floor, {len(cells)} cells of the grid",
            f"geometric mean {mean_target}, worst {worst_target}",
            f"{mean:.2f}, {ratio:.2f} ({cell_name(worst)})",
            mean <= mean_target and ratio <= worst_target,
        )


def _peers(grid, rates):
    for kind, dtype in FLOOR_TARGETS:
        # MindSpore's own operators have a claim of their own: alone they say nothing of peers.
        cells = [c for c in _headline(grid, kind, dtype) if {"vllm", "torch"} & _impls(c)]
        if not cells:
            continue
        shares = [ours(c)["ms"] / best_peer(c)["ms"] for c in cells]
        worst = int(np.argmax(shares))
        slower = sum(share > 1 for share in shares)
        yield Claim(
            f"{kind} {dtype}, time / fastest peer, {len(cells)} cells",
            "worst 1.00",
            f"geometric mean {geometric_mean(shares):.2f}, worst {shares[worst]:.2f} "
            f"({cell_name(cells[worst])}); slower in {slower}",
            slower == 0,
        )


def _gain(text, target, slower_ms, own_ms):
    gain = slower_ms / own_ms
    measured = f"{gain:.1f}x ({slower_ms:.2f} / {own_ms:.2f} ms)"
    return Claim(text, f">= {target:g}x", measured, gain >= target)


def _relay_gain(grid, rates):
    for dtype in problems.DTYPES:
        cell = _find(grid, dtype, *problems.RELAY_GAIN)
        if cell and ("plain", OURS) in cell:
            text = f"relay over own plain, {cell_name(cell)}"
            yield _gain(text, RELAY_GAIN_TARGET, cell["plain", OURS]["ms"], ours(cell)["ms"])


def _composed(grid, rates):
    cell = _find(grid, "fp16", *problems.COMPOSED_GAIN)
    for op, target in COMPOSED_TARGETS.items():
        row = cell.get((op, "mindspore_composed")) if cell else None
        if row:
            text = f"over MindSpore's own operators, {op}, {cell_name(cell)}"
            yield _gain(text, target, row["ms"], ours(cell)["ms"])


def _growth(grid, rates):
    for dtype in problems.DTYPES:
        batch, prefix, privates = problems.GROWTH_PRIVATE
        cells = [_find(grid, dtype, batch, prefix, private) for private in privates]
        if None not in cells:
            yield _private_growth(privates, [ours(c) for c in cells])
        (short, long), private = problems.GROWTH_BATCH
        pairs = [
            [_find(grid, dtype, batch, prefix, private) for prefix in (short, long)]
            for batch in problems.BATCHES
        ]
        if all(cell for pair in pairs for cell in pair):
            yield _prefix_growth(pairs, long - short)


def _private_growth(privates, rows):
    """How well a line fits the times, and its slope over the floor's."""
    times = np.array([row["ms"] for row in rows])
    slope, start = np.polyfit(privates, times, 1)
    off = np.abs(start + slope * np.array(privates) - times) / times
    floor_slope = np.polyfit(privates, [row["floor_ms"] for row in rows], 1)[0]
    first = rows[0]
    return Claim(
        f"time linear in the private length ({privates[0]} to {privates[-1]}), {first['dtype']} "
        f"B{first['batch']} S{first['prefix']}",
        "a line",
        f"at most {off.max():.0%} off a line; its slope is {slope / floor_slope:.2f} x the floor's",
    )


def _prefix_growth(pairs, num_keys):
    """What a longer prefix adds at each batch."""
    added = [ours(long)["ms"] - ours(short)["ms"] for short, long in pairs]
    floor = [ours(long)["floor_ms"] - ours(short)["floor_ms"] for short, long in pairs]
    texts = [
        f"B{batch} {ms:.2f} (floor {floor_ms:.2f})"
        for batch, ms, floor_ms in zip(problems.BATCHES, added, floor, strict=True)
    ]
    return Claim(
        f"ms that {num_keys} more shared keys add, {ours(pairs[0][0])['dtype']}",
        "flat until compute-bound",
        ", ".join(texts),
    )


def _isas(grid, rates):
    for slower, faster, target in ISA_TARGETS:
        for dtype in problems.DTYPES:
            shares = {}
            for cell in grid.values():
                rows = [_isa_row(cell, isa) for isa in (slower, faster)]
                if ours(cell)["dtype"] != dtype or None in rows:
                    continue
                if slower == "avx2" and not _is_memory_bound(problem_of(rows[0]), rates):
                    continue
                shares[cell_name(cell)] = rows[0]["ms"] / rows[1]["ms"]
            if shares:
                worst = max(shares, key=shares.get)
                what = "memory-bound decode" if slower == "avx2" else "decode, batch <= 8"
                yield Claim(
                    f"{slower} over {faster}, {what}, {dtype}, {len(shares)} cells",
                    f"<= {target}x",
                    f"geometric mean {geometric_mean(list(shares.values())):.2f}x, worst "
                    f"{shares[worst]:.2f}x ({worst})",
                    shares[worst] <= target,
                )


def _isa_row(cell, isa):
    """This project's decode with an instruction set, forced or chosen by itself; or None."""
    row = ours(cell)
    if not is_decode(row):
        return None
    return row if row.get("isa") == isa else cell.get(("relay", f"{OURS}.{isa}"))


def _is_memory_bound(problem, rates):
    """Whether AVX2, with half the float32 rate of AVX-512, does the arithmetic while it reads."""
    rate = rates["float32_gflop_s"] * 1e9 / 2
    seconds = floors.problem_bytes(problem) / (rates["dram_read_gb_s"] * 1e9)
    return floors.problem_operations(problem) / rate <= seconds


def _choice(grid, rates):
    hard = {
        (head_num, kv_head_num, batch, prefix, private)
        for head_num, kv_head_num, batch, prefix, private in problems.CHOICE_SHAPES
    }
    names = ("head_num", "kv_head_num", "batch", "prefix", "private")
    for dtype in problems.DTYPES:
        cells = [c for c in grid.values() if ours(c)["dtype"] == dtype]
        for is_hard in (False, True):
            losses = {
                cell_name(cell): choice_loss(cell)
                for cell in cells
                if (tuple(ours(cell)[name] for name in names) in hard) == is_hard
            }
            losses = {name: loss for name, loss in losses.items() if loss is not None}
            if losses:
                worst = max(losses, key=losses.get)
                what = "where it is hard" if is_hard else "elsewhere"
                yield Claim(
                    f"automatic choice over the better path, {what}, {dtype}, {len(losses)} cells",
                    f"<= {CHOICE_TARGET:.0%} slower",
                    f"worst {losses[worst]:.0%}" + (f" ({worst})" if losses[worst] else ""),
                    losses[worst] <= CHOICE_TARGET,
                )


def _accuracy(grid, rates):
    for dtype, target in ERROR_TARGETS.items():
        worst = {}
        for cell in grid.values():
            for (_, impl), row in cell.items():
                if row["dtype"] == dtype and row["rel_l2"] is not None:
                    worst[impl] = max(worst.get(impl, 0.0), row["rel_l2"])
        if OURS in worst:
            peers = [f"{impl} {error:.1e}" for impl, error in worst.items() if is_peer(impl)]
            yield Claim(
                f"relative L2 error against float64, worst, {dtype}",
                f"<= {target:.1e}",
                ", ".join([f"{worst[OURS]:.1e}", *peers]),
                worst[OURS] <= target,
            )
