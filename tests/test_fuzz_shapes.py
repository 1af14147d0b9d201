# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer works, and says how to repeat what it found."""

import pathlib

FUZZER = pathlib.Path(__file__).with_name("fuzz_shapes.py")

# Runs the fuzzer with an operator whose output is wrong in one row.
BROKEN = """
import runpy, sys
import modes
run = modes.run_pynative
def run_broken(problem, **kwargs):
    output, lse = run(problem, **kwargs)
    output[-1:] = 0
    return output, lse
modes.run_pynative = run_broken
sys.argv = ["fuzz_shapes.py", "--seconds", "60", "--seed", "1"]
runpy.run_path(sys.path[0] + "/fuzz_shapes.py", run_name="__main__")
"""


def test_a_few_seconds_of_random_cases_pass(run_python):
    result = run_python(FUZZER, "--seconds", 3, "--seed", 1)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "cases passed" in result.stdout


def test_a_failure_is_printed_as_a_case(run_python, tmp_path):
    program = f"import sys; sys.path.insert(0, {str(FUZZER.parent)!r})\n{BROKEN}"
    result = run_python("-c", program)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "fuzz: row" in result.stderr
    assert "Case(name='fuzz'" in result.stderr
