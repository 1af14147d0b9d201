# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What the machine can do, what it is, and where things that are made once are kept."""

import json
import os
import platform
import subprocess
import zlib
from pathlib import Path

SCRIPTS_DIR = Path(__file__).resolve().parent.parent
_RATES_SOURCE = SCRIPTS_DIR / "machine_rates.cc"

# Features that decide which kernels can run, as /proc/cpuinfo spells them (x86-64, aarch64).
_FEATURES = (
    *("avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_bf16", "amx_fp16"),
    *("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"),
)


def cache_dir():
    """Folder for the compiled probe and the venv of --peers vllm; made if it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "mindspore_relay" / "bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def build_probe():
    """Compiles machine_rates.cc with g++, unless that is done; returns the program's path.

    Raises:
        RuntimeError: no g++, or it fails.
    """
    program = cache_dir() / f"machine_rates-{zlib.crc32(_RATES_SOURCE.read_bytes()):08x}"
    if program.exists():
        return program
    new = program.with_suffix(f".{os.getpid()}")
    command = ["g++", "-std=c++17", "-O2", "-pthread", _RATES_SOURCE, "-o", new]
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("g++ is missing: it compiles scripts/machine_rates.cc") from None
    if result.returncode:
        raise RuntimeError(f"g++ cannot compile {_RATES_SOURCE.name}:\n{result.stderr}")
    os.replace(new, program)
    return program


def measure_rates(num_threads, megabytes=1024):
    """DRAM, matrix and float32 rates with num_threads threads: the dict of machine_rates.cc."""
    command = [build_probe(), str(num_threads), str(megabytes)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def best_rates(measured):
    """The best of several measurements: what disturbs the machine only makes it slower."""
    best = dict(measured[0])
    for name in ("dram_read_gb_s", "matrix_gflop_s", "float32_gflop_s"):
        best[name] = max(rates[name] for rates in measured)
    return best


def describe():
    """Architecture, instruction sets and caches; nothing that identifies a machine."""
    flags = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            flags.update(value.split())
            break
    return {
        "architecture": platform.machine(),
        "features": [feature for feature in _FEATURES if feature in flags],
        "processors": len(os.sched_getaffinity(0)),
        "caches": _caches(),
    }


def _caches():
    """Size of each cache of the first processor, such as {"L1 data": "48K", "L3": "32768K"}."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            sizes[f"L{level}" if kind == "Unified" else f"L{level} {kind.lower()}"] = size
    return sizes


def commit():
    """Short hash of HEAD, with "+changes" when what is measured differs from it; or "unknown"."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changes = _git("status", "--porcelain", "--", "ops", "mindspore_relay", "CMakeLists.txt")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+changes" if changes else "")


def _git(*arguments):
    command = ["git", "-C", SCRIPTS_DIR, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
