# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The workers of a run: who measures which problem, in turns, and what comes out."""

import statistics
import sys
import time

from bench import problems, report
from bench.workers import Worker, WorkerError, WorkerLostError, vllm_python

PEERS = ("torch", "mindspore", "vllm")
# Processes that measure this project; without them there is nothing to compare.
OWN_FAMILIES = ("mindspore_relay", "mindspore")

# Turns that each library takes at a problem, and calls per turn at most.
NUM_TURNS = 5
MAX_CALLS = 40
# A call that takes longer than a turn is a steady one: turns at it beyond these say no more.
NUM_TURNS_OF_LONG_CALLS = 3


class Progress:
    """What happens now, on stderr: one line that is overwritten on a terminal."""

    def __init__(self, num_problems):
        self._num_problems = num_problems
        self._begin = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self.index = 0

    def show(self, text):
        """A short-lived message; on a terminal only."""
        if self._is_terminal:
            seconds = int(time.monotonic() - self._begin)
            head = f"[{self.index}/{self._num_problems}] {seconds // 60}:{seconds % 60:02d}"
            print(f"\r\033[K{head} {text}", end="", file=sys.stderr, flush=True)

    def say(self, text):
        """A message that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self):
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Session:
    """The workers of a run, and what they measured.

    Args:
        options: of bench_attention.py.
        progress: a Progress.
    """

    def __init__(self, options, progress):
        self._options, self._progress = options, progress
        self._workers = []
        self.notes = []

    def start(self, with_isas=()):
        """Starts this project's workers, and those of the peers that can be had.

        Args:
            with_isas: instruction sets that this project is measured with besides its choice.

        Raises:
            WorkerError: this project's own library cannot be loaded.
        """
        for family in OWN_FAMILIES:
            self._start(family)
        for isa in with_isas:
            self._attempt(isa, self._start, "mindspore_relay", isa)
        for family in ("torch", "vllm"):
            if family in self._options.peers:
                self._attempt(family, self._start, family)

    def versions(self):
        return {k: v for worker in self._workers for k, v in worker.versions.items()}

    def huge_page_gb(self):
        """Least memory in huge pages of each worker at any problem."""
        sizes = {worker.name: worker.huge_page_gb for worker in self._workers}
        return {name: round(size, 2) for name, size in sizes.items() if size is not None}

    def close(self, *, at_once=False):
        """Ends the workers. at_once: also those that are busy."""
        for worker in self._workers:
            worker.close(at_once=at_once)

    def measure(self, problem):
        """Rows without floors of one problem."""
        tasks = []
        for worker in list(self._workers):
            if worker.isa and not problems.is_for_isas(problem, self._options.preset):
                continue
            self._progress.show(f"{problem}: {worker.name}")
            for variant in self._attempt(worker.name, worker.set_problem, problem) or ():
                if self._is_wanted(worker, variant, problem):
                    tasks.append(_Task(worker, variant))
        for turn in range(NUM_TURNS):
            self._visit(tasks, problem, f"turn {turn + 1}", self._take_turn)
        if self._options.refcheck:
            self._visit(tasks, problem, "check", _Task.check)
        return [task.row(problem, self._options.threads) for task in tasks]

    def _is_wanted(self, worker, variant, problem):
        op, impl = variant
        if worker.isa:
            return (op, impl) == ("relay", report.OURS)
        if impl == "mindspore_composed" and "mindspore" not in self._options.peers:
            return problems.is_for_composed(problem, self._options.preset)
        return True

    def _visit(self, tasks, problem, what, function):
        """Calls function(task) for all tasks; those that fail are taken from the list."""
        for task in list(tasks):
            self._progress.show(f"{problem}: {' '.join(task.variant)}, {what}")
            is_lost = task.worker not in self._workers
            if is_lost or not self._attempt(task.variant[1], function, task):
                tasks.remove(task)

    def _take_turn(self, task):
        return task.take_turn(self._options.seconds / NUM_TURNS)

    def _start(self, family, isa=None):
        self._progress.show(f"starting {family}")
        arguments = (family, self._options.threads, int(self._options.pool_gb * 2**30))
        if family == "vllm":
            worker = Worker(*arguments, python=vllm_python(self._progress.say))
        else:
            worker = Worker(*arguments, isa=isa)
        self._workers.append(worker)
        self.notes += worker.notes

    def _attempt(self, name, function, *arguments):
        """What function returns; None after an error of a peer, which is noted.

        Args:
            name: of a worker or of an impl. This project, alone or called from MindSpore, must not
                fail.
        """
        try:
            return function(*arguments)
        except WorkerLostError as error:
            if name in OWN_FAMILIES:
                raise
            self._note(error)
            lost = [worker for worker in self._workers if worker.is_lost]
            self._workers = [worker for worker in self._workers if worker not in lost]
            if any(worker.name in OWN_FAMILIES for worker in lost):
                raise
        except WorkerError as error:
            if name in OWN_FAMILIES or name.startswith(report.OURS):
                raise
            self._note(error)

    def _note(self, error):
        self._progress.say(f"left out: {error}")
        self.notes.append(f"left out: {str(error).splitlines()[0]}")


class _Task:
    """One number: a library and what it computes."""

    def __init__(self, worker, variant):
        self.worker, self.variant = worker, variant
        self._rel_l2 = None
        self._expected_ms = None
        self._num_turns = 0
        self._ms, self._plan_us, self._facts = [], [], {}

    def take_turn(self, seconds):
        """Calls for about `seconds`; True."""
        if self._expected_ms is None:
            # Compiles and wakes up; tells how many calls to make and is not kept.
            self._expected_ms = min(self.worker.measure(self.variant, 2)["ms"])
        calls = int(1e3 * seconds / max(self._expected_ms, 1e-3))
        self._num_turns += 1
        if calls < 1 and self._num_turns > NUM_TURNS_OF_LONG_CALLS:
            return True
        result = self.worker.measure(self.variant, min(max(calls, 1), MAX_CALLS))
        self._ms += result["ms"]
        self._plan_us += result["plan_us"]
        self._facts = result["facts"]
        return True

    def check(self):
        """Finds the error against float64; True."""
        self._rel_l2 = self.worker.check(self.variant)
        return True

    def row(self, problem, threads):
        op, impl = self.variant
        isa = self.worker.isa
        return {
            "op": op,
            "dtype": problem.dtype,
            "batch": problem.batch,
            "prefix": problem.prefix,
            "private": problem.private,
            "q_len": problem.q_len,
            "head_num": problem.head_num,
            "kv_head_num": problem.kv_head_num,
            "head_size": problem.head_size,
            "threads": threads,
            "impl": f"{impl}.{isa}" if isa else impl,
            "ms": statistics.median(self._ms),
            "best_ms": min(self._ms),
            "runs": len(self._ms),
            "plan_us": statistics.median(self._plan_us) if self._plan_us else None,
            "rel_l2": self._rel_l2,
            **self._facts,
        }
