# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run tells its user: answers, table, agreement of the modes, JSON lines."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

from mindspore_relay.generate.model_file import MODEL_FILE
from mindspore_relay.generate.runner import Job, Run
from mindspore_relay.llama.engine import LlamaEngine
from mindspore_relay.llama.scheduler import Completion, RunStats


@dataclass(frozen=True)
class Difference:
    """First place where two modes chose another token for a request.

    Attributes:
        index: number of the request.
        position: number of the generated token, from 0.
    """

    index: int
    position: int


def find_differences(first: list[Completion], second: list[Completion]) -> list[Difference]:
    """Requests whose token ids differ between two runs, at their first different token."""
    differences = []
    for a, b in zip(first, second, strict=True):
        if (a.token_ids, a.finish_reason) == (b.token_ids, b.finish_reason):
            continue
        pairs = zip(a.token_ids, b.token_ids, strict=False)
        # Without a different token inside, one run ended the text where the other went on.
        shorter = min(len(a.token_ids), len(b.token_ids))
        position = next((i for i, (x, y) in enumerate(pairs) if x != y), shorter)
        differences.append(Difference(a.index, position))
    return differences


def print_header(job: Job, engine: LlamaEngine, compile_seconds: float) -> None:
    config, cache = job.config, engine.cache
    item_bytes = 4 if cache.dtype == "float32" else 2
    num_slots = cache.num_blocks * cache.block_size
    cache_bytes = (
        num_slots * 2 * config.num_layers * config.kv_head_num * config.head_size * item_bytes
    )
    prefixes = dict.fromkeys(r.prefix_ids for r in job.requests if r.prefix_ids)
    lengths = " + ".join(str(len(ids)) for ids in prefixes) or "none"
    heads = f"{config.head_num}/{config.kv_head_num} heads of {config.head_size}"
    print(f"model     {job.model_path.name}, {config.num_layers} layers, {heads}")
    if job.model_path.name == MODEL_FILE:
        print("          (a very small model: its answers are fluent, but often wrong)")
    print(f"requests  {len(job.requests)}, up to {engine.size.batch} at a time")
    print(f"prefixes  tokens of the shared system prompts: {lengths}")
    print(
        f"cache     {cache.dtype}, {cache.num_blocks} blocks of {cache.block_size} tokens, "
        f"{cache_bytes / 2**20:.0f} MiB"
    )
    print(f"graphs    compiled in {compile_seconds:.1f} s\n")


def print_answers(job: Job, run: Run) -> None:
    for prompt, completion, text in zip(job.prompts, run.completions, run.texts, strict=True):
        ending = " ..." if completion.finish_reason == "length" else ""
        print(f"[{completion.index}] {prompt.text}\n    {' '.join(text.split())}{ending}")
    print()


@dataclass(frozen=True)
class _Row:
    """A line of the table.

    Attributes:
        label: what it says.
        value: the number of a run.
        decimals: places after the point.
        gain: what the first run gains over the last, from their numbers; None where it means
            nothing.
    """

    label: str
    value: Callable[[RunStats], float]
    decimals: int
    gain: Callable[[float, float], float] | None = None


def _more_is_better(first, last):
    return first / last if last else 0.0


def _less_is_better(first, last):
    return last / first if first else 0.0


def _rows(is_probed: bool) -> list[_Row]:
    def prefill_speed(stats):
        return stats.prefill_tokens / stats.prefill_seconds

    def step_ms(stats):
        return 1e3 * median(stats.step_seconds or [0.0])

    def host_ms(stats):
        return 1e3 * median(stats.host_seconds or [0.0])

    def read_mb(stats):
        return kv_bytes_per_step(stats) / 1e6

    rows = [
        _Row("prefill, tokens/s", prefill_speed, 0, _more_is_better),
        _Row("decode, tokens/s", decode_tokens_per_second, 0, _more_is_better),
        _Row("decode step, ms (median)", step_ms, 1, _less_is_better),
        _Row("  host work of it, ms", host_ms, 1),
        _Row("keys and values read per step, MB", read_mb, 1, _less_is_better),
    ]
    if is_probed:
        rows[4:4] = _share_rows()
    return rows


def _share_rows() -> list[_Row]:
    """Where a step's time goes, by probes: shares of different steps need not add up exactly."""

    def rest(stats):
        return max(0.0, 1 - stats.attention_share - stats.product_share - stats.host_share)

    return [
        _Row("  share in attention, %", lambda stats: 100 * stats.attention_share, 1),
        _Row("  in matrix products, %", lambda stats: 100 * stats.product_share, 1),
        _Row("  in norms, RoPE, launches, %", lambda stats: 100 * rest(stats), 1),
        _Row("  in host work, %", lambda stats: 100 * stats.host_share, 1),
    ]


def decode_tokens_per_second(stats: RunStats) -> float:
    seconds = sum(stats.step_seconds)
    return stats.decode_tokens / seconds if seconds else 0.0


def kv_bytes_per_step(stats: RunStats) -> float:
    return stats.kv_bytes / max(1, len(stats.step_seconds))


def print_table(runs: list[Run], engine: LlamaEngine) -> None:
    """One column per run and, where there are two, what the first gains over the second."""
    header = "".join(f"{run.attention:>12}" for run in runs)
    print(f"{'':36}{header}" + (f"{'gain':>12}" if len(runs) == 2 else ""))
    for row in _rows(any(run.stats.attention_seconds for run in runs)):
        values = [row.value(run.stats) for run in runs]
        line = f"{row.label:36}" + "".join(f"{value:12,.{row.decimals}f}" for value in values)
        if len(runs) == 2 and row.gain is not None:
            line += f"{row.gain(*values):11.2f}x"
        print(line)
    counts = ", ".join(f"{name} {count}" for name, count in engine.num_compiles.items())
    print(f"\ngraphs compiled: {counts}; decode steps: {len(runs[0].stats.step_seconds)} per run")


def print_agreement(runs: list[Run], *, is_greedy: bool = True) -> bool:
    """Say whether the modes gave the same texts, as they must: their results have the same bits."""
    first, second = runs
    differences = find_differences(first.completions, second.completions)
    num_same = len(first.completions) - len(differences)
    print(
        f"{'greedy' if is_greedy else 'sampled'} texts of {first.attention} and "
        f"{second.attention}: {num_same} of {len(first.completions)} the same"
    )
    for difference in differences:
        print(f"  request {difference.index} DIFFERS from token {difference.position} on")
    return not differences


def write_jsonl(file: TextIO, job: Job, run: Run) -> None:
    """One line per answer of the run, in the order of the requests."""
    for completion, text in zip(run.completions, run.texts, strict=True):
        prompt, request = job.prompts[completion.index], job.requests[completion.index]
        row = {
            "index": completion.index,
            "prompt": prompt.text,
            "text": text,
            "prompt_token_ids": [*request.prefix_ids, *request.prompt_ids],
            "token_ids": completion.token_ids,
            "finish_reason": completion.finish_reason,
        }
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def save_jsonl(path: Path, job: Job, run: Run) -> None:
    with path.open("w", encoding="utf-8") as file:
        write_jsonl(file, job, run)
