# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the AICore kernels under the host emulation, on the problems of tests/cases.py.

    result = run_on_device(problem, num_ai_cores=4)
    result.output, result.lse, result.counters

The kernels, the emulation and emulated_kernels.cpp are built by CMake: `build` does so on first
use.
"""

import ctypes
import functools
import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mindspore_relay.masks import MaskType

FOLDER = Path(__file__).resolve().parent
MAX_HEAD_SIZE = 256
FRACTAL = 16
DTYPES = {"float16": "half", "bfloat16": "bfloat16_t"}


class PlanError(ValueError):
    """The host plan refused the problem."""


class DeviceComplaint(AssertionError):
    """The emulation found a broken rule."""


class Result(NamedTuple):
    """What a launch left behind."""

    output: np.ndarray  # query's form and dtype
    lse: np.ndarray  # (tokens, head_num), float32; None if it was not asked for
    counters: dict  # see ToJson in emulated_kernels.cpp


def is_supported(problem):
    """Whether the device takes this problem; the rest is for the CPU only."""
    if problem.dtype not in DTYPES:
        return False
    query, key, value = problem.args[:3]
    head_num = problem.kwargs["head_num"]
    head_size = query.shape[-1] if query.ndim == 3 else query.shape[-1] // head_num
    if head_size % FRACTAL or head_size > MAX_HEAD_SIZE:
        return False
    first = (lambda x: x[0] if x else None) if isinstance(key, list) else (lambda x: x)
    if first(key) is not None and first(key).shape[-1] != first(value).shape[-1]:
        return False
    is_paged = (
        problem.operator == "prefix_encoder" or problem.kwargs.get("block_tables") is not None
    )
    return not is_paged or key.shape[1] % FRACTAL == 0


@functools.cache
def build():
    """Configures and builds everything; returns the folder with the shared libraries."""
    folder = Path(
        os.environ.get("MINDSPORE_RELAY_AICORE_BUILD", FOLDER.parents[1] / "build/aicore")
    )
    subprocess.run(["cmake", "-S", FOLDER, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", "2"], check=True)
    return folder


@functools.cache
def _library():
    library = ctypes.CDLL(str(build() / "libemulated_kernels.so"))
    for name in ("EmulateRelayAttention", "EmulatePrefixEncoder"):
        getattr(library, name).restype = ctypes.c_int32
    return library


# ---- the structures of emulated_kernels.cpp ------------------------------------------------------


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("num_bytes", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * 4),
    )


class _Kv(ctypes.Structure):
    _fields_ = (("num_tensors", ctypes.c_int32), ("tensors", ctypes.POINTER(_Buffer)))


class _Run(ctypes.Structure):
    _fields_ = (
        ("num_ai_cores", ctypes.c_int32),
        ("schedule_seed", ctypes.c_uint64),
        ("cube_module", ctypes.c_char_p),
        ("vector_module", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("text_bytes", ctypes.c_int64),
    )


_Ints = ctypes.POINTER(ctypes.c_int64)


def _fields(**types):
    return tuple((name, kind) for kind, names in types.values() for name in names.split())


class _RelayAttention(ctypes.Structure):
    _fields_ = _fields(
        sizes=(ctypes.c_int64, "num_groups head_num kv_head_num mask_type"),
        qk_scale=(ctypes.c_float, "qk_scale"),
        query=(_Buffer, "query"),
        kv=(_Kv, "key value key_share value_share"),
        tables=(_Buffer, "block_tables share_block_tables"),
        lengths=(_Ints, "seq_len kv_seq_len kv_share_map kv_share_len"),
        outputs=(_Buffer, "output lse"),
    )


class _PrefixEncoder(ctypes.Structure):
    _fields_ = _fields(
        sizes=(ctypes.c_int64, "batch_size head_num kv_head_num mask_type"),
        qk_scale=(ctypes.c_float, "qk_scale"),
        inputs=(_Buffer, "query key value block_tables mask slopes"),
        lengths=(_Ints, "seq_len kv_seq_len"),
        outputs=(_Buffer, "output lse"),
    )


class _Arena:
    """Keeps arrays alive while C++ holds their addresses."""

    def __init__(self):
        self.arrays = []

    def buffer(self, array):
        if array is None:
            return _Buffer()
        array = np.ascontiguousarray(array)
        self.arrays.append(array)
        dims = (ctypes.c_int64 * 4)(*array.shape)
        return _Buffer(array.ctypes.data, array.nbytes, array.ndim, dims)

    def ints(self, values):
        # One element more: an empty array has no address.
        array = np.append(np.asarray(values, dtype=np.int64), 0)
        self.arrays.append(array)
        return array.ctypes.data_as(_Ints)

    def tensors(self, tensors):
        """A dynamic input of a list of arrays, of one array, or of none."""
        if tensors is None or isinstance(tensors, np.ndarray):
            tensors = [] if tensors is None else [tensors]
        buffers = (_Buffer * max(len(tensors), 1))(*map(self.buffer, tensors))
        self.arrays.append(buffers)
        return _Kv(len(tensors), buffers)


# ---- the operators -------------------------------------------------------------------------------


def run_on_device(problem, num_ai_cores, schedule_seed=0, with_lse=True):
    """Plans and launches a `cases.Problem` on an emulated processor.

    Returns:
        Result.

    Raises:
        PlanError: the host plan refused the problem.
        DeviceComplaint: the kernel broke a rule of the processor, or left output unset.
    """
    arena = _Arena()
    query, head_num = problem.args[0], problem.kwargs["head_num"]
    lse = np.full((query.shape[0], head_num), np.nan, np.float32) if with_lse else None
    # Left-over data must not look like a result: NaN in every 16-bit format.
    output = np.full(query.shape, 0xFFFF, np.uint16).view(query.dtype)
    make = {"relay_attention": _relay_arguments, "prefix_encoder": _prefix_arguments}
    arguments = make[problem.operator](arena, problem)
    arguments.output, arguments.lse = arena.buffer(output), arena.buffer(lse)
    counters = _launch(problem, arguments, num_ai_cores, schedule_seed)
    return Result(output, lse, counters)


def _launch(problem, arguments, num_ai_cores, schedule_seed):
    stem = str(build() / f"lib{problem.operator}_{DTYPES[problem.dtype]}")
    text = ctypes.create_string_buffer(1 << 20)
    run = _Run(
        num_ai_cores,
        schedule_seed,
        f"{stem}_cube.so".encode(),
        f"{stem}_vector.so".encode(),
        ctypes.cast(text, ctypes.c_char_p),
        len(text),
    )
    entry = {"relay_attention": "EmulateRelayAttention", "prefix_encoder": "EmulatePrefixEncoder"}
    code = getattr(_library(), entry[problem.operator])(ctypes.byref(arguments), ctypes.byref(run))
    message = text.value.decode()
    if code:
        raise (PlanError if code == 1 else DeviceComplaint)(message)
    return json.loads(message)


def _attributes(arguments, kwargs):
    arguments.head_num, arguments.kv_head_num = kwargs["head_num"], kwargs["kv_head_num"]
    arguments.qk_scale = kwargs["qk_scale"]


def _relay_arguments(arena, problem):
    query, key, value, key_share, value_share, _, *lengths = problem.args
    seq_len, kv_seq_len, kv_share_map, kv_share_len = map(arena.ints, lengths)
    arguments = _RelayAttention()
    _attributes(arguments, problem.kwargs)
    arguments.num_groups = len(lengths[3])
    arguments.query = arena.buffer(query)
    arguments.key, arguments.value = arena.tensors(key), arena.tensors(value)
    arguments.key_share = arena.tensors(key_share)
    arguments.value_share = arena.tensors(value_share)
    arguments.block_tables = arena.buffer(problem.kwargs.get("block_tables"))
    arguments.share_block_tables = arena.buffer(problem.kwargs.get("share_block_tables"))
    arguments.seq_len, arguments.kv_seq_len = seq_len, kv_seq_len
    arguments.kv_share_map, arguments.kv_share_len = kv_share_map, kv_share_len
    return arguments


def _prefix_arguments(arena, problem):
    query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes = problem.args
    arguments = _PrefixEncoder()
    _attributes(arguments, problem.kwargs)
    arguments.batch_size = len(seq_len)
    arguments.mask_type = int(MaskType(problem.kwargs["mask_type"]))
    arguments.query, arguments.key = arena.buffer(query), arena.buffer(key)
    arguments.value, arguments.block_tables = arena.buffer(value), arena.buffer(block_tables)
    arguments.mask = arena.buffer(mask)
    arguments.slopes = arena.buffer(None if slopes is None else np.asarray(slopes, np.float32))
    arguments.seq_len, arguments.kv_seq_len = arena.ints(seq_len), arena.ints(kv_seq_len)
    return arguments
