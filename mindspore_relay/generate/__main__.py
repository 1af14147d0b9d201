# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""python -m mindspore_relay.generate"""

import argparse
import os
import signal
import sys

from mindspore_relay.generate import report
from mindspore_relay.generate.options import COMPARE, parse_options
from mindspore_relay.generate.runner import Interrupted, check_environment, load_job, run_job

EXIT_DIFFERENT = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, 1 if relay and plain disagree, 2 if an input is wrong, 130 after
    Ctrl-C or SIGTERM."""
    options = parse_options(arguments)
    # Since its first graph MindSpore answers Ctrl-C itself: it sends its own process SIGTERM.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _generate(options)
    except KeyboardInterrupt as interrupt:
        print(f"interrupted{interrupt}", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _generate(options: argparse.Namespace) -> int:
    try:
        check_environment(options)
        job, weights = load_job(options)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT

    # Warnings of the framework about its own start would stand between the answers.
    os.environ.setdefault("GLOG_v", "3")
    import mindspore as ms

    from mindspore_relay.llama.engine import LlamaEngine

    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    engine = LlamaEngine(job.config, weights, job.size, options.dtype)
    del weights
    report.print_header(job, engine, engine.compile())
    try:
        runs = run_job(job, engine, options)
    except Interrupted as interrupted:
        if options.output is not None:
            report.save_jsonl(options.output, job, interrupted.run)
        raise
    report.print_answers(job, runs[0])
    report.print_table(runs, engine)
    is_same = options.attention != COMPARE or report.print_agreement(
        runs, is_greedy=options.temperature == 0
    )
    if options.output is not None:
        report.save_jsonl(options.output, job, runs[0])
        print(f"answers written to {options.output}")
    if options.plot is not None:
        from mindspore_relay.generate.plot import save_plot

        title = (
            f"{job.model_path.stem}, {len(job.requests)} requests, batch {engine.size.batch}, "
            f"{options.dtype} cache"
        )
        save_plot(options.plot, runs, title)
        print(f"plot written to {options.plot}")
    return 0 if is_same else EXIT_DIFFERENT


if __name__ == "__main__":
    sys.exit(main())
