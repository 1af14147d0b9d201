# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""A process that measures one library: `python bench_worker.py FAMILY THREADS POOL_BYTES`.

Reads requests, one JSON object a line, from stdin and answers on stdout:
    {"do": "problem", "problem": {...}}            -> {"variants": [[op, impl], ...],
                                                       "huge_page_gb": x}
    {"do": "measure", "variant": [op, impl], "runs": n}
                                                   -> {"ms": [...], "plan_us": [...], ...}
    {"do": "check", "variant": [op, impl]}         -> {"rel_l2": x}
    {"do": "quit"}
The first answer, before any request, describes the library: {"versions": {...}, "notes": [...]}.
"""

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from bench.oracle import relative_l2
from bench.problems import Problem
from bench.storage import encode

# Calls before those that are timed take this long together, so that threads have found their
# processors again.
WARM_UP_SECONDS = 0.01

FAMILIES = {
    "mindspore_relay": "bench.impl_relay",
    "mindspore": "bench.impl_mindspore",
    "torch": "bench.impl_torch",
    "vllm": "bench.impl_vllm",
}


class Family:
    """One library; what the modules impl_*.py offer.

    Attributes:
        versions: dict of what is reported, strings.
        notes: what a reader of the result must know, sentences.
    """

    versions = {}
    notes = ()

    def set_problem(self, problem, query):
        """Gets ready; returns the variants [(op, impl), ...] that this library offers for it.

        Args:
            query: (num_tokens, head_num, head_size), storage dtype.
        """
        raise NotImplementedError

    def prepare(self, op, impl):
        """A Call over keys and values that the last ones did not touch."""
        raise NotImplementedError

    def copies(self, op, impl):
        """Number of calls of a variant until it reads keys and values again."""
        raise NotImplementedError


class Call:
    """One prepared call."""

    # What is reported beside the times, e.g. {"path": "relay"}.
    facts = {}

    def run(self):
        """Computes the result; returns the seconds that went into a plan, or None."""
        raise NotImplementedError

    def output(self):
        """(num_tokens, head_num, head_size), storage dtype."""
        raise NotImplementedError

    def keys_values(self, request):
        """See oracle.relative_l2."""
        raise NotImplementedError


class Session:
    def __init__(self, family):
        self._family = family
        self._problem = None
        self._query = None

    def do_problem(self, problem):
        problem = Problem(**problem)
        shape = (problem.num_tokens, problem.head_num, problem.head_size)
        values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
        self._problem, self._query = problem, encode(values, problem.dtype)
        variants = self._family.set_problem(problem, self._query)
        return {"variants": variants, "huge_page_gb": huge_page_gb()}

    def do_measure(self, variant, runs):
        # One call more than is timed: it wakes threads and, the first time, compiles.
        num_calls = min(runs, self._family.copies(*variant)) + 1
        calls = [self._family.prepare(*variant) for _ in range(num_calls)]
        begin = time.perf_counter()
        while True:
            calls[0].run()
            if time.perf_counter() - begin > WARM_UP_SECONDS:
                break
        seconds, plan_seconds = [], []
        for index in range(runs):
            call = calls[1 + index % (len(calls) - 1)]
            begin = time.perf_counter()
            planned = call.run()
            seconds.append(time.perf_counter() - begin)
            if planned is not None:
                plan_seconds.append(planned)
        return {
            "ms": [1e3 * s for s in seconds],
            "plan_us": [1e6 * s for s in plan_seconds],
            "facts": calls[0].facts,
        }

    def do_check(self, variant):
        call = self._family.prepare(*variant)
        call.run()
        error = relative_l2(self._problem, self._query, call.output(), call.keys_values)
        return {"rel_l2": error}


def huge_page_gb():
    """Memory of this process in huge pages, GiB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) / 2**20
    return 0.0


def serve(family_name, num_threads, pool_bytes):
    """Runs until "quit" or the end of stdin."""
    # Libraries print what they like: stdout becomes stderr, and answers keep a descriptor of their
    # own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    processors = sorted(os.sched_getaffinity(0))
    # As many processors as threads, for every library: none may gain from helpers.
    os.sched_setaffinity(0, processors[:num_threads])
    try:
        family = importlib.import_module(FAMILIES[family_name]).create(num_threads, pool_bytes)
        answer = {"versions": family.versions, "notes": family.notes}
    except Exception as error:
        _send(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    _send(answers, answer)
    session = Session(family)
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("do")
        if what == "quit":
            break
        try:
            answer = getattr(session, f"do_{what}")(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        _send(answers, answer)
    # Some libraries crash while the interpreter ends; nothing is left to do.
    os._exit(0)


def _send(answers, answer):
    with contextlib.suppress(BrokenPipeError):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
