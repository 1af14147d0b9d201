# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""This project through its C interface, without MindSpore: plan and run in every call.

Descriptions of the arrays are prepared outside the time, as a C caller would keep them.
    relay mindspore_relay          the automatic choice; facts["path"] says which
    relay mindspore_relay.forced   path="relay" where the automatic choice is plain
    relay mindspore_relay.packed   the automatic choice with the prefix packed, where the
                                   instruction set packs this dtype
    plain mindspore_relay          path="plain"
"""

import ctypes
import os
import time

import numpy as np

from bench.kv_pool import KvPool, PagedStep
from bench.machine import SCRIPTS_DIR
from bench.storage import empty
from bench.worker import Call, Family
from mindspore_relay import MaskType, _library, capi
from mindspore_relay._c_interface import check, describe
from mindspore_relay._packed_share import packed_share_bytes

# What packing takes where nothing is packed.
PACKED_HEADER_BYTES = 64


class _Operation(capi.Operation):
    """An operation that can be planned again with the descriptions of its first plan."""

    def _plan(self, plan_function, run_function, tensors, params, out, options):
        super()._plan(plan_function, run_function, tensors, params, out, options)
        self._plan_function = plan_function
        self._pointers = (
            *(None if tensor is None else ctypes.byref(tensor) for tensor in tensors),
            *params,
            ctypes.byref(out),
            ctypes.byref(ctypes.c_uint64()),
            ctypes.byref(self._handle),
            self._context_handle,
        )

    def plan_again(self):
        check(self._plan_function(*self._pointers))


class _RelayCall(Call):
    def __init__(self, family, path, is_packed=False):
        self._step = PagedStep(family.pool, family.problem)
        self._operation = _Operation()
        packed_share = [family.pack(self._step)] if is_packed else None
        family.plan(self._operation, self._step, path, packed_share)
        self._workspace = family.reserve(self._operation.workspace_bytes)
        self._output = family.output
        self.facts = {"isa": family.versions["isa"]}
        if family.problem.is_decode:
            self.facts["path"] = self._operation.relay_path()[0]
        self.keys_values = self._step.keys_values

    def run(self):
        begin = time.perf_counter()
        self._operation.plan_again()
        planned = time.perf_counter()
        self._operation.run(self._workspace)
        return planned - begin

    def output(self):
        return self._output


class Relay(Family):
    def __init__(self, num_threads, pool_bytes):
        _library.set_num_threads(num_threads)
        self.versions = {"mindspore_relay": _version(), "isa": _isa()}
        if _is_stale():
            self.notes = ("the library is older than ops/: what was measured is not this commit",)
        self._pool_bytes = pool_bytes
        self.pool = None
        self._workspace = np.empty(0, np.uint8)

    def set_problem(self, problem, query):
        if self.pool is None or not self.pool.fits(problem):
            self.pool = self._caches = None  # free the old one first
            self.pool = KvPool(problem, self._pool_bytes)
            self._caches = self.pool.fill()
        self.problem, self._query = problem, query
        self.output = empty(query.shape, query.dtype)
        if not problem.is_decode:
            return [("prefix_encoder", "mindspore_relay")]
        variants = [("relay", "mindspore_relay"), ("plain", "mindspore_relay")]
        if _RelayCall(self, "auto").facts["path"] == "plain":
            variants.append(("relay", "mindspore_relay.forced"))
        if self._packed_bytes() > PACKED_HEADER_BYTES:
            variants.append(("relay", "mindspore_relay.packed"))
        return variants

    def prepare(self, op, impl):
        if op == "plain":
            return _RelayCall(self, "plain")
        is_packed = impl.endswith(".packed")
        return _RelayCall(self, "relay" if impl.endswith(".forced") else "auto", is_packed)

    def copies(self, op, impl):
        return self.pool.copies(self.problem)

    def _packed_bytes(self):
        p = self.problem
        cache_shapes = (cache.shape for cache in self._caches)
        dtype = describe("bench", "key", self._caches[0]).dtype
        return packed_share_bytes(dtype, *cache_shapes, p.shared_blocks, p.kv_head_num, p.prefix)

    def pack(self, step):
        """The step's prefix, packed."""
        return capi.pack_share(
            *self._caches,
            self.problem.prefix,
            kv_head_num=self.problem.kv_head_num,
            share_block_table=step.share_blocks,
            packed=empty((self._packed_bytes(),), np.uint8),
        )

    def plan(self, operation, step, path, packed_share=None):
        p = self.problem
        params = {
            "head_num": p.head_num,
            "kv_head_num": p.kv_head_num,
            "qk_scale": p.head_size**-0.5,
            "out": self.output,
        }
        kv_seq_len = np.full(p.batch, p.kv_len, np.int32)
        if p.is_decode:
            operation.plan_relay_attention(
                self._query,
                *self._caches,
                None,
                None,
                None,
                np.ones(p.batch, np.int32),
                kv_seq_len,
                np.zeros(p.batch, np.int32),
                np.array([p.prefix], np.int32),
                block_tables=step.own_blocks,
                share_block_tables=step.share_blocks[None],
                packed_share=packed_share,
                path=path,
                **params,
            )
        else:
            operation.plan_prefix_encoder(
                self._query,
                *self._caches,
                step.own_blocks,
                None,
                np.full(p.batch, p.q_len, np.int32),
                kv_seq_len,
                None,
                mask_type=MaskType.CAUSAL,
                **params,
            )

    def reserve(self, num_bytes):
        """One workspace for all calls: memory that is new would cost page faults."""
        if self._workspace.nbytes < num_bytes:
            self._workspace = empty((num_bytes,), np.uint8)
            self._workspace[:] = 0
        return self._workspace


def _version():
    return _library.library().MsRelayVersion().decode()


def _isa():
    """Instruction set in use.

    Raises:
        ValueError: the one that the environment asks for cannot be used here.
    """
    isa = _library.isa_name()
    if not isa:
        wanted = os.environ.get("MINDSPORE_RELAY_ISA")
        raise ValueError(f"this machine or library has no instruction set {wanted!r}")
    return isa


def _is_stale():
    """Whether the library was built before its sources in this tree changed."""
    sources = (path for path in (SCRIPTS_DIR.parent / "ops").rglob("*") if path.is_file())
    built = _library.library_path().stat().st_mtime
    return any(path.stat().st_mtime > built for path in sources)


def create(num_threads, pool_bytes):
    return Relay(num_threads, pool_bytes)
