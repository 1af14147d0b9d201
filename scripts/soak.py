#!/usr/bin/env python3
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Serving-like load for a long time: no wrong value, no lost block, no memory that grows.

    python scripts/soak.py                      ten minutes
    python scripts/soak.py --minutes 30 --seed 7
    python scripts/soak.py --load operators --seed 7 --steps 500    as a failure's last line asks

Two loads, each in a process of its own, at the same time:
  operators  random keys, values and queries through both attention operators and the paged cache,
             by MindSpore and by the C interface, one cache of each dtype in turn
  engine     the text engine with a model of a few kilobytes

Both compare results with float64, the cache's content and books with a model of them, and RSS after
the warm-up (the first quarter, 150 s at most) with RSS in it: 1 % more is a failure, in runs of a
minute or longer. The exit code is 1 after a failure, which is printed with the seed. Needs the
installed package with its extra "demo", and the folder tests/ beside this one.
"""

import argparse
import random
import subprocess
import sys
import threading
import time

DTYPES = ("float16", "bfloat16", "float32")
LOADS = ("operators", "engine")
FAULTS = ("leak", "value", "owner", "memory")
PROGRESS_SECONDS = 30
# Kept per step by the fault "memory".
LEAKED_BYTES = 1 << 20


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=10.0, help="how long (default: 10)")
    add("--steps", type=int, help="this many steps of one --load instead; RSS is not judged")
    add("--seed", type=int, help="of everything random (default: a new one)")
    add("--load", choices=(*LOADS, "both"), default="both", help="which load (default: both)")
    add("--fault", choices=FAULTS, help="break this in the load operators, to see it found")
    options = parser.parse_args(arguments)
    if options.minutes <= 0 or (options.steps is not None and options.steps <= 0):
        parser.error("--minutes and --steps must be above 0")
    if options.load == "both" and (options.steps or options.fault):
        parser.error("--steps and --fault need --load")
    if options.load == "engine" and options.fault:
        parser.error("--fault needs --load operators")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


def run_both(options):
    """Both loads as processes; their lines with the load's name before them."""
    processes = {}
    for load in LOADS:
        command = [sys.executable, "-u", __file__, "--load", load, "--seed", str(options.seed)]
        command += ["--minutes", str(options.minutes)]
        processes[load] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def forward(load):
        for line in processes[load].stdout:
            print(f"{load:9} | {line}", end="", flush=True)

    threads = [threading.Thread(target=forward, args=(load,)) for load in LOADS]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(int(process.wait() != 0) for process in processes.values())
    finally:
        for process in processes.values():
            process.kill()


def make_loads(options):
    """What takes steps in turn."""
    import mindspore as ms
    import numpy as np

    ms.set_device("CPU")
    if options.load == "engine":
        from soak_load.engine_load import EngineLoad

        return [EngineLoad(np.random.default_rng([options.seed, 9]), "float16")]
    from soak_load.operator_load import OperatorLoad

    ms.set_context(mode=ms.PYNATIVE_MODE)
    return [
        OperatorLoad(np.random.default_rng([options.seed, i]), dtype)
        for i, dtype in enumerate(DTYPES)
    ]


class Run:
    """One load from begin to end, with progress."""

    def __init__(self, options):
        from soak_load.memory import MemoryWatch

        self.options = options
        self.loads = make_loads(options)
        self.num_steps = 0
        self.begin = time.monotonic()
        self.memory = MemoryWatch(0 if options.steps else 60 * options.minutes)
        self.next_progress = self.begin + PROGRESS_SECONDS
        self.kept = []

    @property
    def seconds(self):
        return time.monotonic() - self.begin

    def is_over(self):
        if self.options.steps:
            return self.num_steps >= self.options.steps
        return self.seconds >= 60 * self.options.minutes

    def run(self):
        """Raises SoakError, or what a load raises."""
        while not self.is_over():
            self.loads[self.num_steps % len(self.loads)].step()
            self.num_steps += 1
            self._break_something()
            self.memory.sample()
            if time.monotonic() >= self.next_progress:
                print(self.progress())
                self.next_progress += PROGRESS_SECONDS
        for load in self.loads:
            load.finish()
        self.memory.check()

    def progress(self):
        return f"{self.seconds:6.0f} s, {self.num_steps} steps, {self.memory}"

    def _break_something(self):
        if self.options.fault == "memory":
            self.kept.append(bytearray(b"x") * LEAKED_BYTES)
        elif self.options.fault and self.num_steps == 50 * len(self.loads):
            from soak_load.operator_load import inject_fault

            inject_fault(self.loads[0], self.options.fault)

    def summary(self):
        counts = sum((load.counts for load in self.loads[1:]), start=self.loads[0].counts.copy())
        lines = [f"{count:12,} {what}" for what, count in sorted(counts.items())]
        return "\n".join([self.progress(), *lines])


def run_one(options):
    """One load in this process. Returns the exit code."""
    run = Run(options)
    try:
        run.run()
    except Exception as error:
        if not isinstance(error, AssertionError):
            import traceback

            traceback.print_exc()
        print(run.summary())
        print(f"FAILED in step {run.num_steps}: {error}")
        print(
            f"again: scripts/soak.py --load {options.load} --seed {options.seed} "
            f"--steps {run.num_steps + 1}"
        )
        return 1
    print(run.summary())
    print("passed")
    return 0


def main(arguments=None):
    options = parse_arguments(arguments)
    print(f"seed {options.seed}", flush=True)
    return run_both(options) if options.load == "both" else run_one(options)


if __name__ == "__main__":
    sys.exit(main())
