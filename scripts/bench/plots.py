# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a result: speed-up over plain, ratio to the floor, growth. Needs matplotlib."""

from bench.report import OURS, best_peer, cells, ours

_HEADS = "32 heads, 8 kv heads of 128"


def draw(result, panels, path):
    """Draws panels (functions of this module) side by side into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.6 * len(panels), 4.2), squeeze=False, layout="constrained"
    )
    grid = cells(result["rows"])
    dtype = next(iter(grid))[1]
    for axis, panel in zip(axes[0], panels, strict=True):
        panel(axis, grid, dtype, result)
        axis.grid(True, alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def speed_up(axis, grid, dtype, result):
    """This project's plain path over its automatic choice, by prefix length, a line per batch."""
    lines = {}
    for key, cell in _decode(grid, dtype, private=128):
        if ("plain", OURS) in cell:
            gain = cell["plain", OURS]["ms"] / ours(cell)["ms"]
            lines.setdefault(key["batch"], []).append((key["prefix"], gain))
    for batch, points in _longest(lines):
        axis.plot(*zip(*sorted(points), strict=True), marker="o", label=f"batch {batch}")
    axis.axhline(1.0, color="grey", linewidth=0.8)
    _logarithmic(axis)
    axis.set(
        xlabel="length of the shared prefix, tokens",
        ylabel="speed-up over plain attention",
        title=f"One decode step, {dtype}, 128 private tokens\n{_HEADS}",
    )
    if lines:
        axis.legend()


def floor_ratio(axis, grid, dtype, result):
    """Ratio to the floor of every decode cell: this project and the best peer of each cell."""
    order = ("head_num", "kv_head_num", "prefix", "private", "batch")
    chosen = sorted(_decode(grid, dtype), key=lambda pair: [pair[0][name] for name in order])
    labels = [f"{k['prefix']}+{k['private']} B{k['batch']} kv{k['kv_head_num']}" for k, _ in chosen]
    positions = range(len(chosen))
    axis.plot(positions, [ours(c)["ratio"] for _, c in chosen], "o", label="mindspore_relay")
    peers = [(i, best_peer(c)["ratio"]) for i, (_, c) in enumerate(chosen) if best_peer(c)]
    if peers:
        axis.plot(*zip(*peers, strict=True), "x", label="best peer")
    axis.axhline(1.0, color="grey", linewidth=0.8)
    axis.set_yscale("log", base=2)
    axis.yaxis.set_major_formatter("{x:g}")
    step = max(1, len(chosen) // 32)
    axis.set_xticks(positions[::step], labels[::step], rotation=90, fontsize=6)
    axis.set(ylabel="time / floor", title=f"Decode, {dtype}: time over what the machine allows")
    axis.legend()


def growth(axis, grid, dtype, result):
    """Milliseconds by batch: relay and plain, a pair of lines per prefix; the floor dotted."""
    lines = {}
    for key, cell in _decode(grid, dtype, private=128):
        floor = ours(cell)["floor_ms"]
        plain = cell.get(("plain", OURS))
        lines.setdefault(key["prefix"], []).append(
            (key["batch"], ours(cell)["ms"], floor, plain["ms"] if plain else None)
        )
    for index, (prefix, points) in enumerate(_longest(lines)):
        batch, relay, floor, plain = zip(*sorted(points), strict=True)
        color = f"C{index}"
        axis.plot(batch, relay, marker="o", color=color, label=f"prefix {prefix}, automatic")
        axis.plot(batch, floor, ":", color=color, label="its floor")
        if None not in plain:
            axis.plot(batch, plain, "--", marker="x", color=color, label="plain")
    axis.set(xlabel="batch", ylabel="ms", title=f"One decode step, {dtype}, 128 private tokens")
    _logarithmic(axis)
    if lines:
        axis.legend(fontsize=7)


def private_growth(axis, grid, dtype, result):
    """Milliseconds by private length, a line per prefix and batch; the floor dotted."""
    lines = {}
    for key, cell in _decode(grid, dtype, head_num=32):
        point = (key["private"], ours(cell)["ms"], ours(cell)["floor_ms"])
        lines.setdefault((key["prefix"], key["batch"]), []).append(point)
    for index, ((prefix, batch), points) in enumerate(_longest(lines)[-4:]):
        private, relay, floor = zip(*sorted(points), strict=True)
        label = f"prefix {prefix}, batch {batch}"
        axis.plot(private, relay, marker="o", color=f"C{index}", label=label)
        axis.plot(private, floor, ":", color=f"C{index}", label="its floor")
    axis.set(xlabel="private tokens per request", ylabel="ms", title=f"One decode step, {dtype}")
    axis.set_ylim(bottom=0)
    if lines:
        axis.legend(fontsize=7)


ALL_PANELS = (speed_up, floor_ratio, growth, private_growth)
# File name suffix, title and panels of the pictures of --report.
PICTURES = (
    ("speed_up", "Speed-up over plain attention by prefix length", (speed_up,)),
    ("floor", "Ratio to the floor", (floor_ratio,)),
    ("growth", "Time by batch and by private length", (growth, private_growth)),
)


def _decode(grid, dtype, **wanted):
    """(dict of the key, cell) of this dtype's decode cells, with 8 kv heads if `wanted` says more.

    Args:
        wanted: values that the key must have.
    """
    if wanted:
        wanted = {"head_num": 32, "kv_head_num": 8, **wanted}
    names = (
        *("kind", "dtype", "head_num", "kv_head_num", "head_size"),
        *("prefix", "private", "q_len", "batch"),
    )
    for values, cell in grid.items():
        key = dict(zip(names, values, strict=True))
        if key["kind"] == "decode" and key["dtype"] == dtype:
            if all(key[name] == value for name, value in wanted.items()):
                yield key, cell


def _longest(lines):
    """Items of {name: points}, by name: the lines with the most points."""
    most = max(map(len, lines.values()), default=0)
    return [(name, points) for name, points in sorted(lines.items()) if len(points) == most]


def _logarithmic(axis):
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
