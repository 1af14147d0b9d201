# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Traffic, multiply-adds, lower bound and balance of ten problems, counted by the emulation.

    python tests/aicore/traffic_table.py [--json FILE] [--markdown FILE]

The committed table is aicore/traffic_table.md and .json; scripts/test_aicore.sh --table FILE.json
makes it again.
"""

import argparse
import functools
import json
import math

import cases
import numpy as np
from emulated_device import run_on_device

NUM_AI_CORES = 24
DTYPE = "bfloat16"
ELEMENT_BYTES = 2
TILE_ROWS = 128
LSE_BYTES = 4


def _decode(name, batch, private, prefix, heads, head_size=128):
    share = {"kv_share_map": (0,) * batch, "kv_share_len": (prefix,)} if prefix else {}
    head_num, kv_head_num = heads
    sizes = {"head_num": head_num, "kv_head_num": kv_head_num, "head_size": head_size}
    return cases.RelayCase(name, (private,) * batch, **share, **sizes)


def _prefill(name, seq_len, kv_seq_len, heads, head_size=128):
    head_num, kv_head_num = heads
    sizes = {"head_num": head_num, "kv_head_num": kv_head_num, "head_size": head_size}
    return cases.PrefixCase(name, seq_len, kv_seq_len, block_size=128, **sizes)


PROBLEMS = (
    _decode("decode32_prefix2048", 32, 128, 2048, (32, 8)),
    _decode("decode64_prefix2048", 64, 128, 2048, (32, 8)),
    _decode("decode8_prefix4000_kv1", 8, 16, 4000, (8, 1)),
    _decode("decode1_prefix8192_kv1", 1, 0, 8192, (8, 1)),
    _decode("decode128_prefix128", 128, 32, 128, (16, 2)),
    _decode("decode16_prefix1024_d256", 16, 64, 1024, (16, 4), 256),
    _decode("decode16_no_prefix_mha", 16, 512, 0, (16, 16), 64),
    _prefill("prefill512_no_prefix", (512,), (512,), (8, 2)),
    _prefill("prefill4x128_prefix1024", (128,) * 4, (1152,) * 4, (8, 2)),
    _prefill("prefill_mixed", (1, 7, 130, 300), (2000, 900, 700, 300), (12, 4), 64),
)


@functools.cache
def measure(case):
    """One launch on 24 cores; a row of the table as a dict. Bytes: GM without workspace."""
    problem = cases.build(case, DTYPE)
    counters = run_on_device(problem, NUM_AI_CORES).counters
    ideal = {"relay_attention": _relay_ideal, "prefix_encoder": _prefix_ideal}[case.operator]
    row = {
        "name": case.name,
        "operator": case.operator,
        "batch": len(problem.args[5 if case.operator == "prefix_encoder" else 6]),
        "heads": f"{case.head_num}/{case.kv_head_num}",
        "head_size": case.head_size,
        "cores": counters["num_cores"],
        **_traffic(counters),
        **ideal(case),
        "macs": sum(core["macs"] for core in counters["cores"]),
        "balance_plan": counters["plan_imbalance"],
        "balance_gm": _balance(counters, is_cube=True, what="gm_bytes"),
        "balance_vector": _balance(counters, is_cube=False, what="vector_repeats"),
        "bound_us": counters["bound"]["bound_us"],
        "hbm_us": counters["bound"]["hbm_us"],
        "cube_us": counters["bound"]["cube_us"],
        "vector_us": counters["bound"]["vector_us"],
    }
    return row


def _traffic(counters):
    """Bytes read and written, in groups. The tensors of a list are named key[0], key[1], ..."""
    totals = {}
    for name, buffer in counters["buffers"].items():
        # The list itself, its addresses, is not KV.
        base = name.split("[")[0]
        totals[base] = totals.get(base, 0) + buffer["read"] + buffer["written"]
    kv = sum(totals.get(name, 0) for name in ("key", "value", "key_share", "value_share"))
    rest = sum(totals.get(name, 0) for name in ("query", "output", "lse", "mask"))
    return {
        "kv_bytes": kv,
        "shared_bytes": totals.get("key_share", 0) + totals.get("value_share", 0),
        "traffic_bytes": kv + rest,
        "workspace_bytes": totals.get("workspace", 0),
    }


def _token_bytes(case):
    """Bytes of one token's keys and values of all kv heads."""
    return 2 * case.kv_head_num * case.head_size * ELEMENT_BYTES


def _row_bytes(case, num_tokens):
    """Query and output rows, each moved once, and lse."""
    rows = num_tokens * case.head_num
    return rows * (2 * case.head_size * ELEMENT_BYTES + LSE_BYTES)


def _relay_ideal(case):
    heads = case.head_num // case.kv_head_num
    shared = 0
    for group, num_keys in enumerate(case.kv_share_len):
        rows = case.kv_share_map.count(group) * heads
        shared += math.ceil(rows / TILE_ROWS) * num_keys * _token_bytes(case)
    kv = shared + sum(case.private_len) * _token_bytes(case)
    total = kv + _row_bytes(case, len(case.private_len))
    return {"shared_bytes_ideal": shared, "kv_bytes_ideal": kv, "traffic_bytes_ideal": total}


def _prefix_ideal(case):
    """KV once per tile of 128 rows (tokens x heads of a kv head), up to its last position."""
    tokens = TILE_ROWS // (case.head_num // case.kv_head_num)
    kv = 0
    for seq_len, kv_seq_len in zip(case.seq_len, case.kv_seq_len, strict=True):
        ends = [min(end, seq_len) for end in range(tokens, seq_len + tokens, tokens)]
        kv += sum(kv_seq_len - seq_len + end for end in ends) * _token_bytes(case)
    total = kv + _row_bytes(case, sum(case.seq_len))
    return {"shared_bytes_ideal": 0, "kv_bytes_ideal": kv, "traffic_bytes_ideal": total}


def _balance(counters, is_cube, what):
    """Largest over mean among the cores of one kind."""
    values = np.array([core[what] for core in counters["cores"] if core["is_cube"] == is_cube])
    return float(values.max() / values.mean())


MARKDOWN_HEAD = """\
# Traffic of the AICore kernels

Counted by the host emulation on 24 cores, {dtype}; made by
`bash scripts/test_aicore.sh --table aicore/traffic_table.json`. Nothing here is a measurement of
time: `bound` is the largest of what HBM (1.6 TB/s, each byte of inputs and outputs once), the
busiest cube core and the busiest vector core need at their published rates, so a lower bound.

KV and total are GM bytes without workspace, over the ideal: keys and values once per 128 query
rows, query and output once. Workspace is the traffic between cube and vector cores and of partial
results; it stays within the L2 cache. Balance is the largest share of a core over the mean, for
the plan's cost, the GM bytes of the cube cores (workspace included) and the repeats of the vector
cores.

"""
COLUMNS = (
    *("problem", "heads", "cores", "KV MB", "KV / ideal", "total / ideal", "workspace MB", "MMACs"),
    *("balance plan", "balance GM", "balance vector", "bound us", "limited by"),
)


def to_markdown(rows):
    lines = [MARKDOWN_HEAD.format(dtype=DTYPE)]
    lines.append("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n")
    for row in rows:
        limits = {name: row[f"{name}_us"] for name in ("hbm", "cube", "vector")}
        cells = (
            row["name"],
            f"{row['heads']} x {row['head_size']}",
            row["cores"],
            f"{row['kv_bytes'] / 1e6:.2f}",
            f"{row['kv_bytes'] / row['kv_bytes_ideal']:.3f}",
            f"{row['traffic_bytes'] / row['traffic_bytes_ideal']:.3f}",
            f"{row['workspace_bytes'] / 1e6:.2f}",
            f"{row['macs'] / 1e6:.0f}",
            f"{row['balance_plan']:.2f}",
            f"{row['balance_gm']:.2f}",
            f"{row['balance_vector']:.2f}",
            f"{row['bound_us']:.1f}",
            max(limits, key=limits.get),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="file for the rows as JSON")
    parser.add_argument("--markdown", help="file for the table")
    arguments = parser.parse_args()
    rows = [measure(problem) for problem in PROBLEMS]
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"num_ai_cores": NUM_AI_CORES, "dtype": DTYPE, "rows": rows}, file, indent=1)
            file.write("\n")
    text = to_markdown(rows)
    if arguments.markdown:
        with open(arguments.markdown, "w") as file:
            file.write(text)
    print(text)


if __name__ == "__main__":
    main()
