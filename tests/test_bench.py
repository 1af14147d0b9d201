# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench_attention.py: what its numbers mean. No time is asserted."""

import importlib.util
import json
import platform
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench_rows import RATES, bench_row

from mindspore_relay import reference
from mindspore_relay.bfloat16 import bfloat16_bits

SCRIPTS_DIR = Path(__file__).resolve().parent.parent / "scripts"
sys.path.append(str(SCRIPTS_DIR))

from bench import floors, kv_pool, machine, oracle, problems, report, storage  # noqa: E402
from bench.worker import Session  # noqa: E402
from bench.workers import Worker, WorkerLostError  # noqa: E402

DECODE = problems.Problem(problems.DECODE, "bf16", 8, 512, 128)
PREFILL = problems.Problem(problems.PREFILL, "fp16", 2, 256, q_len=128)
ROW_KEYS = {
    *("op", "dtype", "batch", "prefix", "private", "q_len", "head_num", "kv_head_num"),
    *("head_size", "threads", "impl", "ms", "floor_ms", "ratio", "rel_l2"),
}


def test_decode_reads_the_prefix_once():
    # 512 shared and 8 x 128 own tokens of 8 heads x 128 x 2 bytes x (key, value); query and output.
    assert floors.problem_bytes(DECODE) == (512 + 8 * 128) * 4096 + 2 * 8 * 32 * 128 * 2
    assert floors.problem_operations(DECODE) == 4 * 8 * 32 * 128 * (512 + 128)


def test_prefill_counts_what_the_causal_mask_leaves():
    visible = sum(256 + i + 1 for i in range(128))
    assert floors.problem_operations(PREFILL) == 4 * 2 * 32 * 128 * visible
    assert floors.problem_bytes(PREFILL) == 2 * 384 * 4096 + 2 * 256 * 32 * 128 * 2


def test_floor_is_the_slower_side():
    assert floors.limit(DECODE, RATES) == "memory"
    assert floors.floor_ms(DECODE, RATES) == floors.problem_bytes(DECODE) / 10e9 * 1e3
    assert floors.limit(PREFILL, RATES) == "compute"
    assert floors.floor_ms(PREFILL, RATES) == floors.problem_operations(PREFILL) / 1000e9 * 1e3


@pytest.mark.parametrize(
    ("dtype", "matrix", "float32", "expected"),
    [
        ("bf16", 1000.0, 100.0, (1e12, "amx")),
        ("fp16", 1000.0, 100.0, (1e12, "amx")),
        ("fp32", 1000.0, 100.0, (1e11, "float32")),
        ("bf16", 0.0, 100.0, (1e11, "float32")),  # no matrix unit
        ("bf16", 0.0, 0.0, (None, "none")),  # not measured on this architecture
    ],
)
def test_rate_that_the_floor_assumes(dtype, matrix, float32, expected):
    problem = problems.Problem(problems.PREFILL, dtype, 1, 1024, q_len=512)
    rates = {**RATES, "matrix_gflop_s": matrix, "float32_gflop_s": float32}
    assert floors.operation_rate(problem, rates) == expected
    memory_ms = floors.problem_bytes(problem) / 10e9 * 1e3
    compute_ms = floors.problem_operations(problem) / expected[0] * 1e3 if expected[0] else 0
    assert floors.floor_ms(problem, rates) == pytest.approx(max(memory_ms, compute_ms), rel=1e-12)


def test_headline_is_the_grid_and_the_prefill_shapes():
    chosen = problems.preset(("headline",), ("bf16", "fp16"))
    assert len(chosen) == len(set(chosen)) == 2 * (8 * 4 + 6)
    assert {p.batch for p in chosen if p.is_decode} == {1, 8, 32, 64}
    assert set(chosen) <= set(problems.preset(("full",), ("bf16", "fp16")))


def test_rates_of_two_measurements_are_the_best_of_each():
    faster_memory = {**RATES, "dram_read_gb_s": 12.0, "matrix_gflop_s": 900.0}
    assert machine.best_rates([RATES, faster_memory]) == {**RATES, "dram_read_gb_s": 12.0}


def test_description_names_no_machine():
    text = json.dumps(machine.describe())
    assert platform.node() not in text
    assert platform.machine() in text


def test_pool_hands_out_every_block_before_one_comes_again():
    pool = kv_pool.KvPool(DECODE, pool_bytes=100 * DECODE.num_blocks * 128 * 4096 // 10)
    assert pool.copies(DECODE) == 10
    taken = np.concatenate([pool.take_blocks(DECODE.num_blocks) for _ in range(10)])
    assert len(set(taken.tolist())) == pool.num_blocks == 10 * DECODE.num_blocks
    assert (pool.take_blocks(DECODE.num_blocks) == taken[: DECODE.num_blocks]).all()


def test_step_gathers_what_the_cache_holds():
    problem = problems.Problem(problems.DECODE, "fp16", 3, 200, 130, kv_head_num=2, head_size=16)
    pool = kv_pool.KvPool(problem, pool_bytes=1)
    caches = pool.fill()
    step = kv_pool.PagedStep(pool, problem)
    for cache, got in zip(caches, step.keys_values(2), strict=True):
        share = np.concatenate(cache[step.share_blocks])[:200]
        own = np.concatenate(cache[step.own_blocks[2]])[:130]
        np.testing.assert_array_equal(got, np.concatenate([share, own]))


def test_storage_rounds_like_the_package():
    values = np.random.default_rng(0).standard_normal(10000, dtype=np.float32)
    np.testing.assert_array_equal(storage.encode(values, "bf16"), bfloat16_bits(values))
    assert storage.decode(storage.encode(values, "fp16")).dtype == np.float64


def test_oracle_agrees_with_the_reference():
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal(s) for s in ((6, 16), (40, 2, 16), (40, 2, 16)))
    got = oracle.attend(query, key, value, 0.25)
    for head in range(6):
        kv_head = head // 3
        expected, _ = reference.attend(
            query[head], key[:, kv_head], value[:, kv_head], np.zeros(40), 0.25
        )
        np.testing.assert_allclose(got[head], expected, rtol=1e-12, atol=1e-14)


def test_oracle_sees_the_causal_diagonal():
    """A prefill row is compared with the keys up to its own position, no more and no fewer."""
    problem = problems.Problem(
        problems.PREFILL, "fp32", 2, 5, q_len=3, head_num=2, kv_head_num=1, head_size=8
    )
    rng = np.random.default_rng(0)
    query = rng.standard_normal((6, 2, 8), dtype=np.float32)
    key, value = rng.standard_normal((2, 2, 8, 1, 8), dtype=np.float32)

    def result(num_hidden):
        rows = [divmod(token, 3) for token in range(6)]
        return np.stack(
            [
                oracle.attend(
                    query[3 * r + i].astype(np.float64),
                    key[r, : 6 + i - num_hidden].astype(np.float64),
                    value[r, : 6 + i - num_hidden].astype(np.float64),
                    8**-0.5,
                ).astype(np.float32)
                for r, i in rows
            ]
        )

    def error(output):
        return oracle.relative_l2(problem, query, output, lambda r: (key[r], value[r]))

    assert error(result(0)) < 1e-6
    assert error(result(1)) > 0.05
    assert error(np.zeros_like(query)) == 1.0


@pytest.mark.parametrize("problem", [DECODE, PREFILL], ids=str)
def test_what_torch_users_write_is_right(problem):
    """A peer that computes something else would be no peer."""
    pytest.importorskip("torch", reason="the peer torch is not installed")
    from bench import impl_torch

    session = Session(impl_torch.create(1, pool_bytes=1))
    variants = session.do_problem(vars(problem))["variants"]
    assert len(variants) == (3 if problem.is_decode else 1)
    for variant in variants:
        assert session.do_check(variant)["rel_l2"] < (7e-3 if problem.dtype == "bf16" else 1e-3)


def test_torch_reads_the_whole_pool_before_any_of_it_again():
    """Relay reads less than plain with its copies: it must not rotate over fewer bytes."""
    pytest.importorskip("torch", reason="the peer torch is not installed")
    from bench import impl_torch

    pool_bytes = 16 * DECODE.num_blocks * 128 * 4096
    family = impl_torch.create(1, pool_bytes)
    Session(family).do_problem(vars(DECODE))
    for variant in impl_torch.FUNCTIONS:
        if variant[0] == "prefix_encoder":
            continue
        calls = [family.prepare(*variant) for _ in range(family.copies(*variant))]
        addresses = [
            tensor.data_ptr() for call in calls for pair in call._tensors for tensor in pair
        ]
        assert len(set(addresses)) == len(addresses)
        size = sum(t.nbytes for call in calls for pair in call._tensors for t in pair)
        assert size > 0.7 * pool_bytes


def test_only_chooses_problems_by_name(tmp_path):
    outcome = run_bench(
        "--preset", "headline", "--only", "fp16 B32 S2048.*/32", "--list", cwd=tmp_path
    )
    assert outcome.stdout == "decode fp16 B32 S2048+128 heads 32/32\n"


def test_missing_peer_says_what_to_install():
    if importlib.util.find_spec("vllm"):
        pytest.skip("vllm is installed here, it is not missing")
    with pytest.raises(WorkerLostError, match=r"vllm: (.|\n)*to install it: "):
        Worker("vllm", num_threads=1, pool_bytes=1)


def test_page_shows_every_number_of_a_cell():
    rows = [
        bench_row("relay", "mindspore_relay", 1.25, path="plain"),
        bench_row("plain", "mindspore_relay", 1.375, path="plain"),
        bench_row("relay", "mindspore_relay.forced", 1.0, path="relay"),
        bench_row("plain", "vllm", 2.5),
        bench_row("relay", "torch", 5.0),
    ]
    result = {
        **{"presets": ["quick"], "threads": 1, "command": "c", "commit": "abc", "versions": {}},
        **{"machine": machine.describe(), "rates": {**RATES, "matrix_gflop_s": 0.0}},
        **{"notes": ["left out: nothing"], "pool_gb": 1, "rows": rows},
        **{"huge_page_gb": {"mindspore_relay": 0.75}},
    }
    page = report.page(result, [("title", "file.png")], "| a claim |")
    texts = ("**1.25**", "1.38", "2.5", "vllm, plain", "0.50 (vllm)", "a claim", "0.75 GB")
    for text in (*texts, "abc", "left out", "float32 rate"):
        assert text in page
    # The automatic choice took plain, 25 % slower than relay; the best peer takes twice the time.
    assert "| decode | bf16 | 1 | 1.25 | 1.25 | 25% | 2.00 | 2.00 |" in page


def run_bench(*arguments, cwd):
    return subprocess.run(
        bench_command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=600
    )


def bench_command(*arguments):
    command = [sys.executable, SCRIPTS_DIR / "bench_attention.py", *arguments]
    return [str(word) for word in command]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_writes_what_it_measured(number, tmp_path):
    arguments = ("--preset", "full", "--dtype", "fp16", "--threads", 1, "--pool-gb", 0.03)
    process = subprocess.Popen(
        bench_command(*arguments, "--seconds", 0.001, "--report", "report"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        name = next(line for line in process.stdout if line.startswith("decode ")).split(":")[0]
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 1
    assert f"interrupted by {number.name}" in errors
    result = json.loads((tmp_path / "report" / "full.json").read_text())
    assert name in {str(report.problem_of(row)) for row in result["rows"]}
    assert any("ended early" in note for note in result["notes"])
    assert "ended early" in (tmp_path / "report" / "full.md").read_text()


def test_quick_run_writes_what_it_promises(tmp_path):
    """All of the script, with the peer that is always installed, on tiny limits."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    outcome = run_bench(
        *("--preset", "quick", "--dtype", "fp16", "--threads", 1, "--peers", "mindspore"),
        *("--pool-gb", 0.03, "--seconds", 0.001, "--refcheck", "--json", "rows.json"),
        *("--markdown", "page.md", "--plot", "all.png", "--report", "report"),
        cwd=tmp_path,
    )
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads((tmp_path / "rows.json").read_text())
    # A source tree that was touched after the build is worth a note, not a failure.
    assert [note for note in result["notes"] if "older than ops/" not in note] == []
    ways = {}
    for row in result["rows"]:
        assert row.keys() >= ROW_KEYS
        ways.setdefault((row["batch"], row["prefix"], row["q_len"]), set()).add(
            (row["op"], row["impl"])
        )
        operator = problems.PREFILL if row["op"] == "prefix_encoder" else problems.DECODE
        shape = {name: row[name] for name in problems.Problem.__dataclass_fields__ if name in row}
        floor = floors.floor_ms(problems.Problem(operator, **shape), result["rates"])
        assert row["floor_ms"] == pytest.approx(floor, rel=1e-12)
        assert row["ratio"] == pytest.approx(row["ms"] / floor, rel=1e-12)
        assert 0 < row["rel_l2"] < 1e-3
    whole_calls = {"mindspore_relay", "mindspore_relay.graph", "mindspore_relay.pynative"}
    decode = {("relay", impl) for impl in (*whole_calls, "mindspore_composed")}
    decode |= {("plain", impl) for impl in ("mindspore_relay", "mindspore_composed")}
    assert ways[8, 512, 1] == ways[32, 2048, 1] == decode
    assert ways[1, 1024, 128] == {("prefix_encoder", impl) for impl in whole_calls}
    assert (tmp_path / "page.md").read_text().count("\n| 32/8 |") == 3
    images = {"quick_speed_up.png", "quick_floor.png", "quick_growth.png"}
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"quick.json", "quick.md", *images}
    for path in (tmp_path / "all.png", *(tmp_path / "report").glob("*.png")):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--dtype", "bf16,int8"), "'int8' is none of bf16, fp16, fp32"),
        (("--peers", "numpy"), "'numpy' is none of torch, mindspore, vllm"),
        (("--threads", 0), "--threads must be 1 to the number of processors, got 0"),
        (("--pool-gb", 0), "must be positive"),
        (("--preset", "quick,slow"), "'slow' is none of quick, headline, claims, growth, full"),
        (("--only", "("), "'(': "),
        (("--only", "B9 "), "no problem is left"),
    ],
)
def test_wrong_options_are_named(arguments, text, tmp_path):
    outcome = run_bench(*arguments, cwd=tmp_path)
    assert outcome.returncode == 2
    assert text in outcome.stderr
