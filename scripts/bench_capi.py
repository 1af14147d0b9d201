#!/usr/bin/env python3
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What a call costs when there is next to nothing to compute: one request, one head, 16 keys.

Microseconds for both phases together, operation reused, mean over a whole loop (the best of five
loops): from C++ (bench_capi.cc, compiled against the installed package), from mindspore_relay.capi
on NumPy arrays, for `Operation.run` alone, and from mindspore_relay.torch where PyTorch is
installed. The target for C is below 5.

The lines plan64_* are the host work of a decode step of 64 requests, in C: checks, reading of
tables and plan, for blocks of 16 and 128 tokens with one group or none, and for lists of tensors.
Their target is below 20.
"""

import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

import numpy as np

from mindspore_relay import _library, capi

SOURCE = Path(__file__).resolve().parent / "bench_capi.cc"
NUM_KEYS, HEAD_SIZE = 16, 128
NUM_CALLS = 5000
NUM_LOOPS = 5


def c_rows():
    """Lines (operator, dtype, microseconds) of bench_capi.cc."""
    package = [sys.executable, "-P", "-m", "mindspore_relay"]
    options = subprocess.run(
        [*package, "--cflags", "--libs"], check=True, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench_capi"
        compile_command = ["c++", "-std=c++17", "-O2", SOURCE, *options.stdout.split()]
        subprocess.run([*compile_command, "-o", program], check=True)
        result = subprocess.run([program], check=True, capture_output=True, text=True)
    for line in result.stdout.splitlines():
        operator, dtype, microseconds = line.split()
        yield operator, dtype, float(microseconds)


def microseconds_per_call(function):
    function()
    seconds = min(timeit.repeat(function, number=NUM_CALLS, repeat=NUM_LOOPS))
    return seconds / NUM_CALLS * 1e6


def python_rows():
    """Lines (what, dtype, microseconds) of relay_attention from Python, in float32."""
    query = np.zeros((1, HEAD_SIZE), np.float32)
    rows = [np.zeros((NUM_KEYS, HEAD_SIZE), np.float32)]
    lengths = [np.array(n, np.int32) for n in ([1], [NUM_KEYS])]
    out = np.empty_like(query)
    args = (query, rows, rows, None, None, None, *lengths, None, None)
    operation = capi.Operation()
    operation.plan_relay_attention(*args, head_num=1, out=out)
    yield "capi.Operation.run", "float32", microseconds_per_call(operation.run)
    yield (
        "capi.relay_attention",
        "float32",
        microseconds_per_call(lambda: capi.relay_attention(*args, head_num=1, out=out)),
    )
    try:
        import torch

        from mindspore_relay import torch as relay_torch
    except ImportError:
        return
    torch_rows = [torch.from_numpy(rows[0])]
    torch_args = (torch.from_numpy(query), torch_rows, torch_rows, None, None, None)
    torch_args += (*map(torch.from_numpy, lengths), None, None)
    yield (
        "torch relay_attention",
        "float32",
        microseconds_per_call(lambda: relay_torch.relay_attention(*torch_args, head_num=1)),
    )


def main():
    print(f"instruction set {_library.isa_name()}, {_library.get_num_threads()} threads")
    for rows in (c_rows(), python_rows()):
        for what, dtype, microseconds in rows:
            print(f"{what:24} {dtype:10} {microseconds:8.2f} us", flush=True)


if __name__ == "__main__":
    main()
