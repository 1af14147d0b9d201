# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/idea.png, the picture of the README: python docs/draw_idea.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch  # noqa: E402

TARGET = Path(__file__).parent / "images" / "idea.png"

NUM_REQUESTS = 4
ROW_PITCH = 1.0
SHARED = "#3b6ea5"  # keys and values of the system prompt
PRIVATE = "#e0913f"  # keys and values of one request
QUERY = "#5b5b5b"
TEXT = "#222222"


def draw_box(axes, x, y, width, height, color, label="", text_color="white"):
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=color,
            edgecolor="none",
        )
    )
    axes.text(
        x + width / 2,
        y + height / 2,
        label,
        ha="center",
        va="center",
        color=text_color,
        fontsize=10,
    )


def draw_arrow(axes, start, end):
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color="#777777", lw=1.1)
    )


def draw_panel(axes, title, note):
    axes.set_xlim(0, 11.2)
    axes.set_ylim(-0.95, 4.75)
    axes.axis("off")
    axes.text(0, 4.4, title, fontsize=13, fontweight="bold", color=TEXT)
    axes.text(0, -0.75, note, fontsize=10.5, color=TEXT, linespacing=1.4)


def draw_plain(axes):
    draw_panel(
        axes,
        "Plain attention: every request reads the prompt again",
        "keys read per step: requests × (shared + own),\n"
        "as matrix-vector products that wait for memory",
    )
    for request in range(NUM_REQUESTS):
        y = (NUM_REQUESTS - 1 - request) * ROW_PITCH + 0.4
        draw_box(axes, 0, y, 1.5, 0.62, QUERY, f"query {request}")
        draw_arrow(axes, (1.55, y + 0.31), (2.35, y + 0.31))
        draw_box(axes, 2.4, y, 5.6, 0.62, SHARED, "system prompt (shared)")
        draw_box(axes, 8.1, y, 2.6, 0.62, PRIVATE, f"own keys {request}")


def draw_relay(axes):
    draw_panel(
        axes,
        "RelayAttention: the prompt is read once for all",
        "keys read per step: shared + requests × own; the shared part is one\n"
        "matrix-matrix product, the two results are merged by their log-sum-exp",
    )
    height = (NUM_REQUESTS - 1) * ROW_PITCH + 0.62
    for request in range(NUM_REQUESTS):
        y = (NUM_REQUESTS - 1 - request) * ROW_PITCH + 0.4
        draw_box(axes, 0, y, 1.5, 0.62, QUERY, f"query {request}")
        draw_arrow(axes, (1.55, y + 0.31), (2.35, y + 0.31))
        draw_arrow(axes, (5.65, y + 0.31), (6.35, y + 0.31))
        draw_box(axes, 6.4, y, 2.6, 0.62, PRIVATE, f"own keys {request}")
        draw_arrow(axes, (9.05, y + 0.31), (9.65, y + 0.31))
    draw_box(axes, 2.4, 0.4, 3.2, height, SHARED, "system prompt\n(shared)\n\nread once")
    draw_box(axes, 9.7, 0.4, 1.1, height, "#4f8f6b", "merge\nby lse")


def main():
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 3.6), dpi=100)
    draw_plain(left)
    draw_relay(right)
    figure.subplots_adjust(left=0.015, right=0.995, top=0.99, bottom=0.01, wspace=0.05)
    # No date or version inside: the same script gives the same file.
    figure.savefig(TARGET, metadata={"Software": None})


if __name__ == "__main__":
    main()
