# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""From options to finished runs: load, plan the cache, compile, generate."""

import argparse
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from mindspore_relay import _library
from mindspore_relay.generate.model_file import find_model_file
from mindspore_relay.generate.options import COMPARE
from mindspore_relay.generate.prompts import (
    DEFAULT_PROMPTS,
    DEFAULT_SYSTEM_PROMPT,
    Prompt,
    make_requests,
    read_prompts,
    read_text,
)
from mindspore_relay.llama.engine import ATTENTION_MODES, CacheSize, LlamaEngine
from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.scheduler import (
    Completion,
    Request,
    RunStats,
    Scheduler,
    TokenLimits,
    plan_cache,
)
from mindspore_relay.llama.tokenizer import Tokenizer
from mindspore_relay.llama.weights import LlamaConfig, LlamaWeights, read_config, read_weights

# What "pip install mindspore_relay[demo]" brings: module -> when it is needed.
_DEMO_MODULES = {
    "gguf": lambda options: True,
    "tokenizers": lambda options: True,
    "matplotlib": lambda options: options.plot is not None,
}


@dataclass(frozen=True)
class Job:
    """Everything that is known before MindSpore starts."""

    model_path: Path
    config: LlamaConfig
    tokenizer: Tokenizer
    prompts: list[Prompt]
    requests: list[Request]
    limits: TokenLimits
    size: CacheSize


@dataclass(frozen=True)
class Run:
    """All requests answered with one kind of attention.

    Attributes:
        attention: 'relay' or 'plain'.
        completions: in the order of the requests.
        texts: what the completions say.
        stats: counts and times.
    """

    attention: str
    completions: list[Completion]
    texts: list[str]
    stats: RunStats


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a run; as a string, how far it was.

    Attributes:
        run: the answers that were complete: of the first mode, if it was over, else without stats.
    """

    def __init__(self, run: Run, num_requests: int):
        super().__init__(f": {len(run.completions)} of {num_requests} answers were complete")
        self.run = run


def check_environment(options: argparse.Namespace) -> None:
    """What would end the program later ends it here.

    Raises:
        ValueError: a module or an output folder is missing.
        ImportError: the package's library cannot be loaded.
    """
    _library.library()
    missing = [
        name
        for name, is_needed in _DEMO_MODULES.items()
        if is_needed(options) and importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ValueError(
            f"{', '.join(missing)} not installed: python -m pip install 'mindspore_relay[demo]'"
        )
    for path in (options.output, options.plot):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"the folder of {path} does not exist")


def _system_prompt(options: argparse.Namespace) -> str:
    """Of prompts that name none."""
    if options.system_prompt is not None:
        return read_text(options.system_prompt).strip()
    if options.no_system_prompt or options.raw:
        return ""
    return read_text(DEFAULT_SYSTEM_PROMPT).strip()


def load_job(options: argparse.Namespace) -> tuple[Job, LlamaWeights]:
    """Read and check all input files.

    The weights are apart, so that they can be dropped when the engine has its own copy.

    Raises:
        ValueError: something in them is wrong, or a request does not fit. OSError: a file cannot be
        read.
    """
    prompts = read_prompts(options.prompts or DEFAULT_PROMPTS, _system_prompt(options))
    model_path = options.model or find_model_file()
    gguf = read_gguf(model_path)
    try:
        config = read_config(gguf)
        tokenizer = Tokenizer(gguf.metadata)
        if tokenizer.vocab_size != config.vocab_size:
            raise ValueError(
                f"the tokenizer has {tokenizer.vocab_size} tokens, the model {config.vocab_size}"
            )
        weights = read_weights(gguf, config)
    except ValueError as error:
        raise ValueError(f"{model_path}: {error}") from None
    requests = make_requests(prompts, tokenizer, is_raw=options.raw)
    limits = TokenLimits(options.max_new_tokens, config.max_positions, options.block_size)
    size = plan_cache(
        requests,
        limits,
        batch=min(options.batch, len(requests)),
        block_size=options.block_size,
        num_blocks=options.cache_blocks,
    )
    job = Job(model_path, config, tokenizer, prompts, requests, limits, size)
    return job, weights


class _Progress:
    """A bar of finished requests on a terminal; nothing elsewhere."""

    def __init__(self, label: str, num_requests: int):
        self._bar = None
        self._num_tokens = 0
        if sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None:
            from tqdm import tqdm

            self._bar = tqdm(total=num_requests, desc=label, unit="request", leave=False)

    def add_tokens(self, num_tokens: int) -> None:
        if self._bar is not None:
            self._num_tokens += num_tokens
            self._bar.set_postfix_str(f"{self._num_tokens} tokens")

    def add_request(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._bar is not None:
            self._bar.close()


def run_job(job: Job, engine: LlamaEngine, options: argparse.Namespace) -> list[Run]:
    """Answer all requests once per attention mode; `engine` is made of this job.

    Raises:
        Interrupted: on Ctrl-C.
    """
    modes = ATTENTION_MODES if options.attention == COMPARE else (options.attention,)
    runs = []
    for mode in modes:
        try:
            runs.append(_run(mode, job, engine, options))
        except Interrupted:
            if not runs:
                raise
            raise Interrupted(runs[0], len(job.requests)) from None
    return runs


def _run(mode: str, job: Job, engine: LlamaEngine, options: argparse.Namespace) -> Run:
    engine.attention = mode
    finished = []

    def finish(completion):
        finished.append(completion)
        progress.add_request()

    def make_run(completions, stats):
        texts = [job.tokenizer.decode(completion.token_ids) for completion in completions]
        return Run(mode, completions, texts, stats)

    with _Progress(mode, len(job.requests)) as progress:
        scheduler = Scheduler(
            engine,
            job.limits,
            job.tokenizer.eos_token_ids,
            sampling=options.sampling,
            probes=options.attention == COMPARE,
            on_tokens=progress.add_tokens,
            on_finish=finish,
        )
        try:
            return make_run(*scheduler.run(job.requests))
        except KeyboardInterrupt:
            finished.sort(key=lambda completion: completion.index)
            raise Interrupted(make_run(finished, RunStats()), len(job.requests)) from None
