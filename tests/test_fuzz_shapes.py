# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""2,000 random problems, new ones each time; and the fuzzer says how to repeat what it found."""

import pathlib
import re

import fuzz_shapes
import pytest

FUZZER = pathlib.Path(__file__).with_name("fuzz_shapes.py")

# Runs the fuzzer with operators whose output is wrong in the last row.
BROKEN = f"""
import runpy, sys
sys.path.insert(0, {str(FUZZER.parent)!r})
import capi_harness
run = capi_harness.run
def run_broken(problem, **kwargs):
    output, lse = run(problem, **kwargs)
    output[-1:] = 0
    return output, lse
capi_harness.run = run_broken
runpy.run_path({str(FUZZER)!r}, run_name="__main__")
"""


def test_2000_random_problems(run_python):
    result = run_python(FUZZER, "--problems", 2000, "--jobs", 2, timeout=3600)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = re.findall(r"(\d+) problems passed, (\d+) could not be measured", result.stdout)
    passed, unmeasured = (sum(map(int, numbers)) for numbers in zip(*counts, strict=True))
    assert passed + unmeasured == 2000 and unmeasured < 100, result.stdout


def test_a_failure_is_printed_as_a_case_and_can_be_repeated(run_python):
    result = run_python("-c", BROKEN, "--seed", 1)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "fuzz: row" in result.stderr
    assert "Case(name='fuzz'" in result.stderr
    again = re.search(r"again: (.*)", result.stderr).group(1).split()
    assert run_python("-c", BROKEN, *again).stderr == result.stderr
    assert run_python(FUZZER, *again).returncode == 0


def test_a_job_that_fails_fails_the_run(run_python):
    result = run_python(FUZZER, "--problems", 4, "--jobs", 2, "--isa", "mmx")
    assert result.returncode == 1, result.stdout
    assert "isa must be one of" in result.stderr


@pytest.mark.parametrize("index", range(3))
def test_a_problem_is_the_same_every_time(index):
    first, again = (fuzz_shapes.random_case(fuzz_shapes.rng_of(7, index)) for _ in range(2))
    assert first == again
    assert first != fuzz_shapes.random_case(fuzz_shapes.rng_of(8, index))
