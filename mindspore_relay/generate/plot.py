# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The picture of a comparison."""

from pathlib import Path
from statistics import median

from mindspore_relay.generate.report import decode_tokens_per_second, kv_bytes_per_step
from mindspore_relay.generate.runner import Run

_COLORS = {"relay": "#1b7f79", "plain": "#c8553d"}
_REST_COLOR = "#c9ced6"


def _label_bars(axis, bars, text):
    axis.bar_label(bars, labels=[text(bar.get_height()) for bar in bars], padding=2)
    axis.margins(y=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def save_plot(path: Path, runs: list[Run], title: str) -> None:
    """Three panels, one bar per run: decode speed, time of a step with attention's part, bytes
    read.

    The type of the file follows from its name.
    """
    from matplotlib.figure import Figure

    names = [run.attention for run in runs]
    colors = [_COLORS[name] for name in names]
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    figure.suptitle(title)
    speed, step, read = figure.subplots(1, 3)

    bars = speed.bar(names, [decode_tokens_per_second(run.stats) for run in runs], color=colors)
    _label_bars(speed, bars, lambda height: f"{height:.0f}")
    speed.set_title("decode, tokens/s (more is better)", fontsize=10)

    step_ms = [1e3 * median(run.stats.step_seconds or [0.0]) for run in runs]
    bars = step.bar(names, step_ms, color=_REST_COLOR, label="rest of the step")
    if any(run.stats.attention_seconds for run in runs):
        parts = [ms * run.stats.attention_share for ms, run in zip(step_ms, runs, strict=True)]
        step.bar(names, parts, color=colors, label="attention")
        step.legend(loc="lower center", fontsize=8)
    _label_bars(step, bars, lambda height: f"{height:.1f}")
    step.set_title("decode step, ms (median)", fontsize=10)

    bars = read.bar(names, [kv_bytes_per_step(run.stats) / 1e6 for run in runs], color=colors)
    _label_bars(read, bars, lambda height: f"{height:.0f}")
    read.set_title("keys and values read per step, MB", fontsize=10)
    figure.savefig(path, dpi=120)
