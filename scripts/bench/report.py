# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables: one line per measured problem on the terminal, and a page in Markdown."""

import dataclasses
import math

from bench.problems import DECODE, PREFILL, Problem

OURS = "mindspore_relay"
# How this project is called, where the column already says that it is this project.
WAYS = {
    OURS: "C interface",
    "mindspore_relay.packed": "prefix packed",
    "mindspore_relay.graph": "graph",
    "mindspore_relay.pynative": "PyNative",
    "mindspore_relay.avx512": "AVX-512",
    "mindspore_relay.avx2": "AVX2",
}
_PEERS = ("vllm", "torch", "torch_matmul", "mindspore_composed")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def cell_key(row):
    """What a row measured, whatever computed it: decode rows of relay and plain share a cell."""
    kind = "prefill" if row["op"] == "prefix_encoder" else "decode"
    names = ("dtype", "head_num", "kv_head_num", "head_size", "prefix", "private", "q_len", "batch")
    return (kind, *(row[name] for name in names))


def cells(rows):
    """{cell_key: {(op, impl): row}}, in the order of rows."""
    result = {}
    for row in rows:
        result.setdefault(cell_key(row), {})[row["op"], row["impl"]] = row
    return result


def is_decode(row):
    return row["op"] != "prefix_encoder"


def problem_of(row):
    """The Problem that a row measured."""
    names = (field.name for field in dataclasses.fields(Problem) if field.name in row)
    return Problem(DECODE if is_decode(row) else PREFILL, **{name: row[name] for name in names})


def cell_name(cell):
    """Such as "decode bf16 B8 S512+128 heads 32/8"."""
    return str(problem_of(ours(cell)))


def is_peer(impl):
    return impl in _PEERS


def ours(cell):
    """This project's row of a cell: the automatic choice, or the prefill."""
    return cell.get(("relay", OURS)) or cell[("prefix_encoder", OURS)]


def best_peer(cell):
    """The fastest row of another library, or None."""
    peers = [row for (_, impl), row in cell.items() if is_peer(impl)]
    return min(peers, key=lambda row: row["ms"], default=None)


def line(row):
    """A row for the terminal."""
    name = f"{row['op']} {row['impl']}"
    text = f"  {name:<40} {row['ms']:9.3f} ms  {row['ratio']:6.2f} x floor"
    if row.get("plan_us") is not None:
        text += f"  plan {row['plan_us']:.0f} us"
    if row["rel_l2"] is not None:
        text += f"  rel_l2 {row['rel_l2']:.1e}"
    return text + (f"  ({row['path']})" if row.get("path") else "")


def peer_line(cell):
    """This project against the fastest of the others, for the terminal; "" without any."""
    peer = best_peer(cell)
    if not peer:
        return ""
    share = ours(cell)["ms"] / peer["ms"]
    return f"  best peer: {peer['op']} {peer['impl']}, this project takes {share:.2f} of its time"


def page(result, images, claims):
    """The result of a run as a page.

    Args:
        result: what bench_attention.py writes as JSON.
        images: [(title, file name)] of the plots.
        claims: table of bench/claims.py, Markdown.
    """
    parts = [_head(result)]
    parts += [f"![{title}]({name})" for title, name in images]
    grid = cells(result["rows"])
    parts.append("## Claims\n\n" + claims)
    parts.append(_summary(grid))
    dtypes = list(dict.fromkeys(key[1] for key in grid))
    for kind, title in (("decode", "Decode"), ("prefill", "Prefill with a cached prefix")):
        for dtype in dtypes:
            chosen = {k: c for k, c in grid.items() if k[:2] == (kind, dtype)}
            if chosen:
                parts.append(f"## {title}, {dtype}\n\n" + _table(kind, chosen))
    return "\n\n".join(parts) + "\n"


def _head(result):
    machine, rates = result["machine"], result["rates"]
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        f"# Preset {', '.join(result['presets'])}, {result['threads']} threads",
        "",
        "Written by `scripts/bench_attention.py`; how to read it: docs/benchmarks.md.",
        "",
        f"- command: `{result['command']}`",
        f"- commit: {result['commit']}",
        f"- versions: {versions}",
        f"- machine: {machine['architecture']}, {machine['processors']} processors, "
        f"{' '.join(machine['features'])}; caches: {caches}",
        f"- rates: DRAM read {rates['dram_read_gb_s']:.1f} GB/s; matrix unit "
        f"({rates['matrix_unit']}) {rates['matrix_gflop_s']:.0f} GFLOP/s; float32 "
        f"{rates['float32_gflop_s']:.0f} GFLOP/s",
        f"- runs: median of at least {min(row['runs'] for row in result['rows'])} per number; keys "
        f"and values rotate over {result['pool_gb']:g} GB",
        "- huge pages of each process, least at any problem: "
        + ", ".join(f"{name} {size:g} GB" for name, size in result["huge_page_gb"].items()),
    ]
    if rates["matrix_gflop_s"] <= 0:
        lines.append("- no bfloat16 matrix unit was found: floors use the float32 rate")
    lines += [f"- {note}" for note in result["notes"]]
    return "\n".join(lines)


def _summary(grid):
    """Geometric mean and worst ratio to the floor, and how this project stands to its peers."""
    head = (
        "| | dtype | cells | x floor, geometric mean | worst | automatic choice, worst loss | "
        "speed-up over the best peer, least | geometric mean |"
    )
    lines = ["## Summary", "", head, "|---|---|---|---|---|---|---|---|"]
    for kind, dtype in dict.fromkeys(key[:2] for key in grid):
        chosen = [cell for key, cell in grid.items() if key[:2] == (kind, dtype)]
        ratios = [ours(cell)["ratio"] for cell in chosen]
        losses = [loss for loss in map(choice_loss, chosen) if loss is not None]
        gains = [best_peer(c)["ms"] / ours(c)["ms"] for c in chosen if best_peer(c)]
        lines.append(
            f"| {kind} | {dtype} | {len(chosen)} | {geometric_mean(ratios):.2f} | "
            f"{max(ratios):.2f} | {f'{max(losses):.0%}' if losses else '–'} | "
            + (f"{min(gains):.2f} | {geometric_mean(gains):.2f} |" if gains else "– | – |")
        )
    return "\n".join(lines)


def choice_loss(cell):
    """How much slower the path that was chosen is than the other one; None: not measured."""
    plain, forced_relay = cell.get(("plain", OURS)), cell.get(("relay", "mindspore_relay.forced"))
    if not plain:
        return None
    if ours(cell)["path"] == "relay":
        return max(0.0, ours(cell)["ms"] / plain["ms"] - 1.0)
    # The automatic choice and plain are the same here, measured twice.
    return max(0.0, min(ours(cell)["ms"], plain["ms"]) / forced_relay["ms"] - 1.0)


def _table(kind, grid):
    """One line per cell; only columns that somebody measured."""
    is_decode = kind == "decode"
    ways = [impl for impl in WAYS if any(impl == i for c in grid.values() for _, i in c)]
    peers = [
        variant
        for variant in dict.fromkeys(v for cell in grid.values() for v in cell)
        if variant[1] in _PEERS
    ]
    own_op = "relay" if is_decode else "prefix_encoder"
    head = ["heads", "prefix", "private" if is_decode else "q_len", "batch", "floor ms"]
    head += [WAYS[impl] for impl in ways]
    head += ["x floor", "plan µs"] + (["own plain", "path"] if is_decode else [])
    head += [f"{impl}, {op}" if is_decode else impl for op, impl in peers]
    head += ["of the best peer's time"] if peers else []
    has_errors = any(ours(cell)["rel_l2"] is not None for cell in grid.values())
    head += ["rel. L2"] if has_errors else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for cell in grid.values():
        row = ours(cell)
        fields = [f"{row['head_num']}/{row['kv_head_num']}", str(row["prefix"])]
        fields += [str(row["private" if is_decode else "q_len"]), str(row["batch"])]
        fields += [f"{row['floor_ms']:.3g}"]
        fields += [_ms(cell.get((own_op, impl))) for impl in ways]
        fields += [f"**{row['ratio']:.2f}**", f"{row['plan_us']:.0f}"]
        fields += [_ms(cell.get(("plain", OURS))), row["path"]] if is_decode else []
        fields += [_ms(cell.get(variant)) for variant in peers]
        fields += [_share(cell)] if peers else []
        fields += [f"{row['rel_l2']:.1e}"] if has_errors else []
        lines.append("| " + " | ".join(fields) + " |")
    return "\n".join(lines)


def _ms(row):
    return f"{row['ms']:.3g}" if row else "–"


def _share(cell):
    peer = best_peer(cell)
    return f"{ours(cell)['ms'] / peer['ms']:.2f} ({peer['impl']})" if peer else "–"
