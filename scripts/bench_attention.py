# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the operators against the machine's floor and against other libraries.

    python scripts/bench_attention.py --preset quick
    python scripts/bench_attention.py --preset headline --peers torch,mindspore,vllm --refcheck \\
        --report docs/benchmarks

The rates of the machine are measured in the same run, before and after. For each problem the
libraries take turns, a few calls each, so that a slow minute hits all of them; a number is the
median of its calls. Explanation of what is measured: docs/benchmarks.md.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from bench import floors, machine, plots, problems, report
from bench.workers import Worker, WorkerError, WorkerLostError, vllm_python

PEERS = ("torch", "mindspore", "vllm")
# Processes that measure this project; without them there is nothing to compare.
OWN_FAMILIES = ("mindspore_relay", "mindspore")

# Turns that each library takes at a problem, and calls per turn at most.
NUM_TURNS = 5
MAX_CALLS = 40


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--preset", choices=problems.PRESETS, default="quick", help="which problems")
    add(
        "--dtype",
        type=_list_of(problems.DTYPES),
        default="bf16,fp16",
        help="some of bf16,fp16,fp32",
    )
    add("--threads", type=int, default=machine.describe()["processors"], help="for every library")
    add(
        "--peers",
        type=_list_of(PEERS),
        default="",
        help="some of torch,mindspore,vllm; vllm makes a venv of its own the first time",
    )
    add("--json", type=Path, help="file for all rows")
    add("--markdown", type=Path, help="file for the tables")
    add("--plot", type=Path, help="PNG file for the plots")
    add("--report", type=Path, help="folder for PRESET.json, PRESET.md and the plots as PNG")
    add("--refcheck", action="store_true", help="also the relative L2 error against float64")
    add("--seconds", type=float, default=0.4, help="time for the calls of one number")
    add("--pool-gb", type=float, default=1.0, help="keys and values that the calls rotate over")
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= machine.describe()["processors"]:
        parser.error(f"--threads must be 1 to the number of processors, got {options.threads}")
    if options.seconds <= 0 or options.pool_gb <= 0:
        parser.error("--seconds and --pool-gb must be positive")
    return options


def _list_of(names):
    def parse(text):
        values = tuple(dict.fromkeys(text.split(","))) if text else ()
        for value in values:
            if value not in names:
                raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(names)}")
        return values

    return parse


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


class Bench:
    """The workers of a run, and what they measured."""

    def __init__(self, options, progress):
        self._options, self._progress = options, progress
        self._workers = []
        self.notes = []

    def start(self):
        """Starts this project's workers, and those of the peers that can be had.

        Raises:
            WorkerError: this project's own library cannot be loaded.
        """
        for family in OWN_FAMILIES:
            self._start(family)
        for family in ("torch", "vllm"):
            if family in self._options.peers:
                self._attempt(family, self._start, family)

    def versions(self):
        return {k: v for worker in self._workers for k, v in worker.versions.items()}

    def close(self):
        for worker in self._workers:
            worker.close()

    def measure(self, problem):
        """Rows without floors of one problem."""
        tasks = []
        for worker in list(self._workers):
            self._progress.show(f"{problem}: {worker.family}")
            for variant in self._attempt(worker.family, worker.set_problem, problem) or ():
                if "mindspore" in self._options.peers or variant[1] != "mindspore_composed":
                    tasks.append(_Task(worker, variant))
        for turn in range(NUM_TURNS):
            self._visit(tasks, problem, f"turn {turn + 1}", self._take_turn)
        if self._options.refcheck:
            self._visit(tasks, problem, "check", _Task.check)
        return [task.row(problem, self._options.threads) for task in tasks]

    def _visit(self, tasks, problem, what, function):
        """Calls function(task) for all tasks; those that fail are taken from the list."""
        for task in list(tasks):
            self._progress.show(f"{problem}: {' '.join(task.variant)}, {what}")
            is_lost = task.worker not in self._workers
            if is_lost or not self._attempt(task.variant[1], function, task):
                tasks.remove(task)

    def _take_turn(self, task):
        return task.take_turn(self._options.seconds / NUM_TURNS)

    def _start(self, family):
        self._progress.show(f"starting {family}")
        arguments = (family, self._options.threads, int(self._options.pool_gb * 2**30))
        if family == "vllm":
            worker = Worker(*arguments, python=vllm_python(self._progress.say))
        else:
            worker = Worker(*arguments)
        self._workers.append(worker)
        self.notes += worker.notes

    def _attempt(self, name, function, *arguments):
        """What function returns; None after an error of a peer, which is noted.

        Args:
            name: of a family or of an impl. This project, alone or called from MindSpore, must not
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
            if any(worker.family in OWN_FAMILIES for worker in lost):
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
        self._ms, self._plan_us, self._facts = [], [], {}

    def take_turn(self, seconds):
        """Calls for about `seconds`; True."""
        if self._expected_ms is None:
            # Compiles and wakes up; tells how many calls to make and is not kept.
            self._expected_ms = min(self.worker.measure(self.variant, 2)["ms"])
        calls = int(1e3 * seconds / max(self._expected_ms, 1e-3))
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
            "impl": impl,
            "ms": statistics.median(self._ms),
            "best_ms": min(self._ms),
            "runs": len(self._ms),
            "plan_us": statistics.median(self._plan_us) if self._plan_us else None,
            "rel_l2": self._rel_l2,
            **self._facts,
        }


def add_floors(problem, rows, rates):
    floor = floors.floor_ms(problem, rates)
    for row in rows:
        row["floor_ms"] = floor
        row["ratio"] = row["ms"] / floor
        row["limit"] = floors.limit(problem, rates)


def run(options, progress):
    """Measures everything.

    Returns:
        The result as a dict, ready for JSON, and the error that ended the run early, or None.
    """
    chosen = problems.preset(options.preset, options.dtype)
    megabytes = max(64, int(1024 * options.pool_gb))
    progress.show("measuring the machine")
    measured = [machine.measure_rates(options.threads, megabytes)]
    bench = Bench(options, progress)
    groups, error = [], None
    try:
        bench.start()
        for progress.index, problem in enumerate(chosen, 1):
            rows = bench.measure(problem)
            add_floors(problem, rows, measured[0])
            groups.append((problem, rows))
            progress.clear()
            print(f"{problem}: floor {rows[0]['floor_ms']:.3f} ms ({rows[0]['limit']})")
            print("\n".join(map(report.line, rows)), flush=True)
    except (WorkerError, KeyboardInterrupt) as ended:
        error = ended if isinstance(ended, WorkerError) else WorkerError("interrupted")
        bench.notes.append(f"ended early, after {len(groups)} of {len(chosen)} problems")
    finally:
        bench.close()
    progress.show("measuring the machine again")
    measured.append(machine.measure_rates(options.threads, megabytes))
    rates = machine.best_rates(measured)
    for problem, rows in groups:
        add_floors(problem, rows, rates)
    progress.clear()
    result = {
        "preset": options.preset,
        "threads": options.threads,
        "pool_gb": options.pool_gb,
        "command": " ".join(["python scripts/bench_attention.py", *sys.argv[1:]]),
        "commit": machine.commit(),
        "machine": machine.describe(),
        "rates": rates,
        "versions": bench.versions(),
        "notes": bench.notes,
        "rows": [row for _, rows in groups for row in rows],
    }
    return result, error


def write(result, options):
    """The files that the options ask for."""
    json_file, markdown_file, images = options.json, options.markdown, []
    if options.report:
        options.report.mkdir(parents=True, exist_ok=True)
        for suffix, title, panels in plots.PICTURES:
            images.append((title, f"{options.preset}_{suffix}.png"))
            plots.draw(result, panels, options.report / images[-1][1])
        _write_tables(result, options.report / options.preset, images)
    if json_file:
        json_file.write_text(_as_json(result))
    if markdown_file:
        markdown_file.write_text(report.page(result, []))
    if options.plot:
        plots.draw(result, plots.ALL_PANELS, options.plot)


def _write_tables(result, stem, images):
    stem.with_suffix(".json").write_text(_as_json(result))
    stem.with_suffix(".md").write_text(report.page(result, images))


def _as_json(result):
    """Indented, with a row per line: differences between two runs stay readable."""
    rows = ",\n".join("    " + json.dumps(row) for row in result["rows"])
    head = json.dumps({**result, "rows": []}, indent=2, ensure_ascii=False)
    return head.replace('"rows": []', f'"rows": [\n{rows}\n  ]') + "\n"


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.plot or options.report:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            sys.exit("error: plots need matplotlib: pip install '.[bench]'")
    progress = Progress(len(problems.preset(options.preset, options.dtype)))
    try:
        result, error = run(options, progress)
    except RuntimeError as failed:
        progress.clear()
        sys.exit(f"error: {failed}")
    if result["rows"]:
        write(result, options)
    rates = result["rates"]
    print(
        f"{result['threads']} threads: DRAM {rates['dram_read_gb_s']:.1f} GB/s, "
        f"{rates['matrix_unit']} {rates['matrix_gflop_s']:.0f} GFLOP/s, "
        f"float32 {rates['float32_gflop_s']:.0f} GFLOP/s"
    )
    if error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
