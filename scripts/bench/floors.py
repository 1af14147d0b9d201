# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""How fast a problem could be on this machine: no algorithm reads less or multiplies less.

    floor = max(bytes / DRAM rate, operations / matrix rate)

The floor belongs to the problem, not to an implementation: plain attention, which reads the shared
keys once per request, is compared with the same floor.
"""

from bench.problems import ELEMENT_BYTES


def problem_bytes(problem):
    """Each shared key and value once, each private one once, query and output."""
    p = problem
    if p.is_decode:
        tokens = p.prefix + p.batch * p.private
    else:
        tokens = p.batch * p.kv_len
    rows = 2 * p.num_tokens * p.head_num * p.head_size * ELEMENT_BYTES[p.dtype]
    return tokens * p.token_bytes + rows


def problem_operations(problem):
    """Multiplications and additions of query . key and of probability . value."""
    p = problem
    # Row i of a prefill request sees prefix + i + 1 keys; the row of a decode request sees all.
    pairs = p.kv_len if p.is_decode else p.q_len * p.prefix + p.q_len * (p.q_len + 1) // 2
    return 4 * p.batch * p.head_num * p.head_size * pairs


def operation_rate(problem, rates):
    """(operations per second, name of the unit) that the floor assumes; (None, ...) if unmeasured.

    float16 is held to the bfloat16 rate too: a matrix unit for float16 would be as fast.
    """
    if problem.dtype != "fp32" and rates["matrix_gflop_s"] > 0:
        return rates["matrix_gflop_s"] * 1e9, rates["matrix_unit"]
    if rates["float32_gflop_s"] > 0:
        return rates["float32_gflop_s"] * 1e9, "float32"
    return None, "none"


def floor_ms(problem, rates):
    """Milliseconds.

    Args:
        rates: dict with dram_read_gb_s, matrix_gflop_s, matrix_unit, float32_gflop_s: the output of
            machine_rates.cc.
    """
    memory = problem_bytes(problem) / (rates["dram_read_gb_s"] * 1e9)
    rate, _ = operation_rate(problem, rates)
    compute = problem_operations(problem) / rate if rate else 0.0
    return 1e3 * max(memory, compute)


def limit(problem, rates):
    """Which side of the floor is larger: "memory" or "compute"."""
    memory = problem_bytes(problem) / (rates["dram_read_gb_s"] * 1e9)
    return "memory" if 1e3 * memory >= floor_ms(problem, rates) else "compute"
