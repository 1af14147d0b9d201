# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/soak.py: a short load passes, and each kind of fault is found.

MINDSPORE_RELAY_SOAK_MINUTES makes the load longer; from one minute on RSS is judged too.
"""

import mmap
import os
import re
import sys
from pathlib import Path

import pytest

SCRIPTS_DIR = Path(__file__).resolve().parent.parent / "scripts"
SOAK = SCRIPTS_DIR / "soak.py"
MINUTES = float(os.environ.get("MINDSPORE_RELAY_SOAK_MINUTES", 0.3))

sys.path.append(str(SCRIPTS_DIR))

from soak_load import SoakError, memory  # noqa: E402


def test_both_loads_pass(run_python):
    timeout = 60 * MINUTES + 600  # imports, compiling, last steps, on a busy machine
    result = run_python(SOAK, "--minutes", MINUTES, "--seed", 1, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "seed 1"
    for load in ("operators", "engine"):
        assert any(line.startswith(load) and line.endswith("| passed") for line in lines), lines


@pytest.mark.parametrize(
    "fault, message",
    [
        ("leak", "ref_count says"),
        ("value", "key of token .* is not what was written; 1 bytes differ"),
        ("owner", "belongs to .* sequences, ref_count says"),
    ],
)
def test_a_fault_is_found_and_said_with_the_seed(fault, message, run_python):
    arguments = ("--load", "operators", "--steps", 600, "--seed", 3, "--fault", fault)
    result = run_python(SOAK, *arguments, timeout=600)
    assert result.returncode == 1, result.stdout + result.stderr
    *_, failed, again = result.stdout.splitlines()
    assert failed.startswith("FAILED in step ") and re.search(message, failed)
    assert "--load operators --seed 3 --steps " in again


def test_a_wrong_result_is_found(run_python):
    """An operator whose last row is wrong."""
    program = f"""
import sys
sys.path.insert(0, {str(SCRIPTS_DIR)!r})
from mindspore_relay import capi, operators
for module in (capi, operators):
    def broken(*args, real=module.relay_attention, **kwargs):
        return real(*args, **{{**kwargs, "qk_scale": 1.02 * kwargs["qk_scale"]}})
    module.relay_attention = broken
import soak
sys.exit(soak.main(["--load", "operators", "--steps", "300", "--seed", "1"]))
"""
    result = run_python("-c", program, timeout=600)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "result: relay_attention: row" in result.stdout


def watch(monkeypatch, samples, seconds=400):
    """A MemoryWatch that saw these (RSS, anonymous part) in MB, one every 10 s."""
    now = [0.0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    values = iter(samples)
    monkeypatch.setattr(memory, "resident_bytes", lambda: tuple(1e6 * x for x in next(values)))
    watch = memory.MemoryWatch(seconds)
    for _ in samples:
        watch.sample()
        watch.sample()  # not due yet: takes nothing
        now[0] += 10
    return watch


WARM_UP = [(300, 100)] * 8 + [(500, 200)] * 2  # 100 s, a quarter of 400 s


@pytest.mark.parametrize(
    "later, message",
    [
        ([(504, 203)] * 10, None),
        ([(400, 200)] * 10, None),
        ([(506, 200)] * 10, "RSS grew from 500.0 to 506.0 MB"),
        ([(500, 200)] * 9 + [(506, 200)], "by 1.20% of the RSS; allowed is 1%"),
        # Other programs took pages of files away while the heap grew.
        ([(450, 206)] * 10, "the anonymous part of RSS grew from 200.0 to 206.0 MB"),
    ],
)
def test_growth_of_memory_is_judged(monkeypatch, later, message):
    seen = watch(monkeypatch, WARM_UP + later)
    if message is None:
        seen.check()
    else:
        with pytest.raises(SoakError, match=message):
            seen.check()


def test_a_short_run_is_not_judged(monkeypatch):
    watch(monkeypatch, [(300, 100)] * 2 + [(900, 500)] * 3, seconds=50).check()


def test_memory_of_this_process_is_read():
    before = memory.resident_bytes()
    # New pages, not some that an earlier test has given back.
    kept = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.write(b"x" * len(kept))
    growths = [now - then for now, then in zip(memory.resident_bytes(), before, strict=True)]
    assert all(60 << 20 <= growth <= 80 << 20 for growth in growths), (growths, len(kept))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--minutes", "0"], "must be above 0"),
        (["--steps", "5"], "--steps and --fault need --load"),
        (["--load", "engine", "--fault", "leak"], "--fault needs --load operators"),
    ],
)
def test_wrong_options(arguments, message, run_python):
    result = run_python(SOAK, *arguments)
    assert result.returncode == 2 and message in result.stderr
