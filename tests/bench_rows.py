# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of scripts/bench_attention.py, made up: for tests of what is made of them."""

# A machine that reads a byte, and multiplies, at round rates.
RATES = {
    "dram_read_gb_s": 10.0,
    "matrix_unit": "amx",
    "matrix_gflop_s": 1000.0,
    "float32_gflop_s": 100.0,
}


def bench_row(op, impl, ms, **more):
    return {
        **{"op": op, "impl": impl, "ms": ms, "ratio": ms, "floor_ms": 1.0, "rel_l2": None},
        **{"dtype": "bf16", "batch": 1, "prefix": 512, "private": 128, "q_len": 1},
        **{"head_num": 32, "kv_head_num": 8, "head_size": 128, "threads": 1, "runs": 5},
        **{"plan_us": 3.0, **more},
    }
