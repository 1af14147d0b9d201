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
import contextlib
import json
import re
import signal
import sys
from pathlib import Path

from bench import claims, floors, machine, plots, problems, report
from bench.session import PEERS, Progress, Session
from bench.workers import WorkerError

# Instruction sets that the preset claims compares, where the machine has them.
ISAS = ("avx512", "avx2")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add(
        "--preset",
        type=_list_of(tuple(problems.PRESETS)),
        default="quick",
        help=f"some of {','.join(problems.PRESETS)}: which problems",
    )
    add("--only", type=_pattern, help="of these, the problems whose name has this pattern in it")
    add("--list", action="store_true", help="show the problems' names and end")
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
    add("--report", type=Path, help="folder for PRESETS.json, PRESETS.md and the plots as PNG")
    add("--refcheck", action="store_true", help="also the relative L2 error against float64")
    add("--seconds", type=float, default=0.4, help="time for the calls of one number")
    add("--pool-gb", type=float, default=1.0, help="keys and values that the calls rotate over")
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= machine.describe()["processors"]:
        parser.error(f"--threads must be 1 to the number of processors, got {options.threads}")
    if options.seconds <= 0 or options.pool_gb <= 0:
        parser.error("--seconds and --pool-gb must be positive")
    options.problems = [
        problem
        for problem in problems.preset(options.preset, options.dtype)
        if not options.only or options.only.search(str(problem))
    ]
    if not options.problems:
        parser.error("no problem is left; --list shows their names")
    return options


def _pattern(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _list_of(names):
    def parse(text):
        values = tuple(dict.fromkeys(text.split(","))) if text else ()
        for value in values:
            if value not in names:
                raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(names)}")
        return values

    return parse


def add_floors(problem, rows, rates):
    floor = floors.floor_ms(problem, rates)
    for row in rows:
        row["floor_ms"] = floor
        row["ratio"] = row["ms"] / floor
        row["limit"] = floors.limit(problem, rates)


class Interrupted(Exception):
    """SIGINT or SIGTERM has come."""


@contextlib.contextmanager
def interruptible():
    """The first SIGINT or SIGTERM raises Interrupted; later ones, also behind, are ignored.

    So what was measured is written, whoever ends the run: a user, or a program with a time limit.
    """

    def interrupt(number, frame):
        ignore()
        raise Interrupted(signal.Signals(number).name)

    def ignore():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        ignore()


def run(options, progress):
    """Measures everything.

    Returns:
        The result as a dict, ready for JSON, and the error that ended the run early, or None.
    """
    megabytes = max(64, int(1024 * options.pool_gb))
    session = Session(options, progress)
    measured, groups, error = [], [], None

    def measure_machine():
        progress.show("measuring the machine")
        measured.append(machine.measure_rates(options.threads, megabytes))

    try:
        with interruptible():
            measure_machine()
            session.start(ISAS if "claims" in options.preset else ())
            for progress.index, problem in enumerate(options.problems, 1):
                rows = session.measure(problem)
                add_floors(problem, rows, measured[0])
                groups.append((problem, rows))
                show(problem, rows, progress)
            session.close()
            measure_machine()
    except (WorkerError, Interrupted) as ended:
        error = ended
        session.notes.append(
            f"ended early, after {len(groups)} of {len(options.problems)} problems"
            + (f": {ended}" if isinstance(ended, Interrupted) else "")
        )
        session.close(at_once=True)
    rates = machine.best_rates(measured) if measured else None
    for problem, rows in groups:
        add_floors(problem, rows, rates)
    progress.clear()
    result = {
        "presets": options.preset,
        "threads": options.threads,
        "pool_gb": options.pool_gb,
        "command": " ".join(["python scripts/bench_attention.py", *sys.argv[1:]]),
        "commit": machine.commit(),
        "machine": machine.describe(),
        "rates": rates,
        "versions": session.versions(),
        "huge_page_gb": session.huge_page_gb(),
        "notes": session.notes,
        "rows": [row for _, rows in groups for row in rows],
    }
    return result, error


def show(problem, rows, progress):
    """A problem's rows on the terminal."""
    progress.clear()
    print(f"{problem}: floor {rows[0]['floor_ms']:.3f} ms ({rows[0]['limit']})")
    (cell,) = report.cells(rows).values()
    lines = [*map(report.line, rows), report.peer_line(cell)]
    print("\n".join(filter(None, lines)), flush=True)


def write(result, options):
    """The files that the options ask for."""
    json_file, markdown_file, images = options.json, options.markdown, []
    name = "_".join(options.preset)
    if options.report:
        options.report.mkdir(parents=True, exist_ok=True)
        for suffix, title, panels in plots.PICTURES:
            images.append((title, f"{name}_{suffix}.png"))
            plots.draw(result, panels, options.report / images[-1][1])
        _write_tables(result, options.report / name, images)
    if json_file:
        json_file.write_text(_as_json(result))
    if markdown_file:
        markdown_file.write_text(_page(result, []))
    if options.plot:
        plots.draw(result, plots.ALL_PANELS, options.plot)


def _write_tables(result, stem, images):
    stem.with_suffix(".json").write_text(_as_json(result))
    stem.with_suffix(".md").write_text(_page(result, images))


def _page(result, images):
    return report.page(result, images, _claims(result))


def _claims(result):
    return claims.table(claims.all_claims(report.cells(result["rows"]), result["rates"]))


def _as_json(result):
    """Indented, with a row per line: differences between two runs stay readable."""
    rows = ",\n".join("    " + json.dumps(row) for row in result["rows"])
    head = json.dumps({**result, "rows": []}, indent=2, ensure_ascii=False)
    return head.replace('"rows": []', f'"rows": [\n{rows}\n  ]') + "\n"


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.list:
        return print("\n".join(map(str, options.problems)))
    if options.plot or options.report:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            sys.exit("error: plots need matplotlib: pip install '.[bench]'")
    progress = Progress(len(options.problems))
    try:
        result, error = run(options, progress)
    except RuntimeError as failed:
        progress.clear()
        sys.exit(f"error: {failed}")
    if result["rows"]:
        write(result, options)
        print("\n" + _claims(result))
        rates = result["rates"]
        print(
            f"{result['threads']} threads: DRAM {rates['dram_read_gb_s']:.1f} GB/s, "
            f"{rates['matrix_unit']} {rates['matrix_gflop_s']:.0f} GFLOP/s, "
            f"float32 {rates['float32_gflop_s']:.0f} GFLOP/s"
        )
    if error:
        what = "interrupted by " if isinstance(error, Interrupted) else ""
        sys.exit(f"error: {what}{error}")


if __name__ == "__main__":
    main()
