# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run tells its user: answers, table, agreement of the modes, JSON lines."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

from mindspore_relay.generate.runner import Job, Run
from mindspore_relay.llama.engine import LlamaEngine
from mindspore_relay.llama.scheduler import Completion, RunStats

# How far relay and plain may move two logits apart, by type of the cache. Where the two best tokens
# are closer than this, either may win: their order is rounding. float32 has no such room: measured
# differences of the logits are below 1e-4, and no two best tokens of the truth are that close.
NEAR_TIE_LOGITS = {"float32": 0.0, "float16": 0.1, "bfloat16": 0.8}


@dataclass(frozen=True)
class Difference:
    """First place where two modes chose another token for a request.

    Attributes:
        index: number of the request.
        position: number of the generated token, from 0.
        gap: by how much the two tokens' logits moved against each other, at least.
    """

    index: int
    position: int
    gap: float


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
        # In one run the first token led by a margin, in the other the second: together, the least
        # movement.
        differences.append(Difference(a.index, position, a.margins[position] + b.margins[position]))
    return differences


def print_header(job: Job, engine: LlamaEngine, compile_seconds: float) -> None:
    config, cache = job.config, engine.cache
    item_bytes = 4 if cache.dtype == "float32" else 2
    num_slots = cache.num_blocks * cache.block_size
    cache_bytes = (
        num_slots * 2 * config.num_layers * config.kv_head_num * config.head_size * item_bytes
    )
    prefixes = {request.prefix_ids for request in job.requests if request.prefix_ids}
    print(
        f"model     {job.model_path.name}: {config.num_layers} layers, hidden "
        f"{config.hidden_size}, "
        f"{config.head_num}/{config.kv_head_num} heads of {config.head_size}"
    )
    print(
        f"requests  {len(job.requests)} in batches of {engine.size.batch}; {len(prefixes)} shared "
        "system "
        f"prompts of {', '.join(str(len(ids)) for ids in list(prefixes)[:4]) or 'no'} tokens"
    )
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


def _rows(engine: LlamaEngine) -> Iterator[tuple[str, Callable[[RunStats], float], int]]:
    """Label, value and decimals of each row of the table."""
    yield "prefill, tokens/s", lambda s: s.prefill_tokens / s.prefill_seconds, 0
    yield "decode, tokens/s", decode_tokens_per_second, 0
    yield "decode step, ms (median)", lambda s: 1e3 * median(s.step_seconds or [0.0]), 1
    yield "  host work of it, ms", lambda s: 1e3 * median(s.host_seconds or [0.0]), 1
    yield "  share in attention, %", lambda s: 100 * s.attention_share, 1
    yield "keys and values read per step, MB", lambda s: kv_bytes_per_step(s) / 1e6, 1


def decode_tokens_per_second(stats: RunStats) -> float:
    seconds = sum(stats.step_seconds)
    return stats.decode_tokens / seconds if seconds else 0.0


def kv_bytes_per_step(stats: RunStats) -> float:
    return stats.kv_bytes / max(1, len(stats.step_seconds))


def print_table(runs: list[Run], engine: LlamaEngine) -> None:
    """One column per run, and the ratio of the last to the first where there are two."""
    is_probed = any(run.stats.attention_seconds for run in runs)
    header = "".join(f"{run.attention:>12}" for run in runs)
    print(f"{'':36}{header}" + (f"{'ratio':>12}" if len(runs) == 2 else ""))
    for label, value, decimals in _rows(engine):
        if "attention" in label and not is_probed:
            continue
        values = [value(run.stats) for run in runs]
        line = f"{label:36}" + "".join(f"{v:12,.{decimals}f}" for v in values)
        if len(runs) == 2 and values[0]:
            better = max(values) / min(values) if min(values) else float("inf")
            line += f"{better:11.2f}x"
        print(line)
    counts = ", ".join(f"{name} {count}" for name, count in engine.num_compiles.items())
    print(f"\ngraphs compiled: {counts}; decode steps: {len(runs[0].stats.step_seconds)} per run")


def print_agreement(runs: list[Run], dtype: str) -> bool:
    """Say whether the modes gave the same texts; False if they differ by more than rounding
    explains."""
    first, second = runs
    differences = find_differences(first.completions, second.completions)
    num_same = len(first.completions) - len(differences)
    print(
        f"greedy texts of {first.attention} and {second.attention}: {num_same} of "
        f"{len(first.completions)} the same"
    )
    is_good = True
    for difference in differences:
        is_tie = difference.gap <= NEAR_TIE_LOGITS[dtype]
        is_good = is_good and is_tie
        verdict = f"a near tie in {dtype}" if is_tie else "MORE THAN ROUNDING"
        print(
            f"  request {difference.index} differs from token {difference.position} on: the two "
            "best "
            f"logits were {difference.gap:.3g} apart, {verdict}"
        )
    return is_good


def write_jsonl(file: TextIO, job: Job, run: Run) -> None:
    """One line per request, in their order."""
    for prompt, request, completion, text in zip(
        job.prompts, job.requests, run.completions, run.texts, strict=True
    ):
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
