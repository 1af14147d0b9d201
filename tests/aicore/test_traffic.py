# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""GM traffic of the kernels, counted by the emulation: KV is read once per tile of query rows."""

import cases
import pytest
from traffic_table import PROBLEMS, measure

NAMES = {problem.name: problem for problem in PROBLEMS}


WITH_PREFIX = [p for p in PROBLEMS if p.operator == "relay_attention" and p.kv_share_len]


@pytest.mark.parametrize("problem", WITH_PREFIX, ids=lambda p: p.name)
def test_shared_part_is_read_once_per_tile(problem):
    row = measure(problem)
    assert row["shared_bytes"] == pytest.approx(row["shared_bytes_ideal"], rel=0.05)


def test_decode_traffic_is_near_the_ideal():
    """B=32, 32 heads on 8, head_size 128, prefix 2048, private 128."""
    row = measure(NAMES["decode32_prefix2048"])
    assert (row["batch"], row["heads"], row["head_size"]) == (32, "32/8", 128)
    assert row["traffic_bytes"] <= 1.15 * row["traffic_bytes_ideal"]
    assert row["traffic_bytes"] >= row["traffic_bytes_ideal"]


def test_group_of_129_rows_is_read_twice():
    case = cases.RelayCase(
        "rows_129", (1,) * 129, (0,) * 129, (512,), head_num=1, kv_head_num=1, head_size=64
    )
    row = measure(case)
    assert row["shared_bytes"] == pytest.approx(2 * 512 * 64 * 2 * 2, rel=0.05)
