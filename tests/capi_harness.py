# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls the C interface by ctypes, without MindSpore.

For what MindSpore cannot show: other instruction sets in one process, strided tensors, and memory
that an operator must not touch. Every tensor and the workspace lie in pages of their own between
two pages without any access right: `guard` says whether they end where the page behind begins
("after") or begin where the page before ends ("before"). One byte too far ends the process, as
does a write to an input, whose pages are read-only. What is left of the pages on the other side
holds a pattern that is looked at after the run. Outputs and workspace are filled with NaN before.

Arrays are NumPy arrays in the storage of `mindspore_relay.bfloat16`: uint16 is bfloat16.
"""

import ctypes
import mmap

import numpy as np

from mindspore_relay import _library

OK = 0
_MAX_RANK = 6
_DTYPES = {"float32": 1, "float16": 2, "uint16": 3, "int32": 4, "uint32": 5, "uint8": 6}
PATHS = {"auto": 0, "relay": 1, "plain": 2}

# Every byte 0xff makes a NaN of each dtype.
_FILL = 0xFF
_PATTERN = 0xA5
_PROT_NONE = 0
_WORKSPACE_ALIGNMENT_BYTES = 64
# Inputs above it stay where they are: some tests describe more memory than the machine has.
_MAX_COPIED_BYTES = 64 << 20

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("strides", ctypes.c_int64 * _MAX_RANK),
    ]


class _TensorList(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("is_stacked", ctypes.c_int32),
        ("num_tensors", ctypes.c_int64),
        ("tensors", ctypes.POINTER(_Tensor)),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("path", ctypes.c_int32),
        ("lse", ctypes.POINTER(_Tensor)),
        ("block_tables", ctypes.POINTER(_Tensor)),
        ("share_block_tables", ctypes.POINTER(_Tensor)),
        ("packed_share", ctypes.POINTER(_TensorList)),
    ]


def _protect(address, num_bytes, protection):
    if _mprotect(address, num_bytes, protection):
        raise OSError(ctypes.get_errno(), "mprotect failed")


class GuardedBytes:
    """`bytes`: an array of bytes at the edge of a page without access rights."""

    def __init__(self, num_bytes, guard, alignment=1):
        page = mmap.PAGESIZE
        self._inner_bytes = max(1, -(-num_bytes // page)) * page
        self._pages = np.frombuffer(mmap.mmap(-1, self._inner_bytes + 2 * page), np.uint8)
        self._begin = page
        if guard == "after":
            self._begin += (self._inner_bytes - num_bytes) // alignment * alignment
        self._end = self._begin + num_bytes
        self._inner = self._pages[page:-page]
        self._inner[:] = _PATTERN
        self.bytes = self._pages[self._begin : self._end]
        for edge in (self._pages[:page], self._pages[-page:]):
            _protect(edge.ctypes.data, page, _PROT_NONE)

    @property
    def address(self):
        return self.bytes.ctypes.data

    def make_read_only(self):
        _protect(self._inner.ctypes.data, self._inner_bytes, mmap.PROT_READ)

    def assert_guards_intact(self, what):
        page = mmap.PAGESIZE
        assert (self._pages[page : self._begin] == _PATTERN).all(), f"{what}: bytes before changed"
        assert (self._pages[self._end : -page] == _PATTERN).all(), f"{what}: bytes after changed"


class GuardedArray(GuardedBytes):
    """`array`: an array of NaN at the edge of a page without access rights."""

    def __init__(self, shape, dtype, guard):
        num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        super().__init__(num_bytes, guard)
        self.bytes[:] = _FILL
        self.array = self.bytes.view(dtype).reshape(shape)


class GuardedCopy(GuardedBytes):
    """`array`: a copy of an array with its strides and with the bytes between its elements."""

    def __init__(self, array, guard):
        reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        low = sum(min(0, offset) for offset in reach) if array.size else 0
        high = sum(max(0, offset) for offset in reach) + array.itemsize if array.size else 0
        super().__init__(high - low, guard)
        if array.size:
            source = (ctypes.c_uint8 * (high - low)).from_address(array.ctypes.data + low)
            self.bytes[:] = np.frombuffer(source, np.uint8)
        self._original = array
        self._before = self.bytes.copy()
        self.array = self._view(self.bytes, array.dtype, -low)
        self._is_element = np.zeros(high - low, bool)
        for byte in range(array.itemsize):
            self._view(self._is_element, bool, byte - low)[...] = True

    def _view(self, buffer, dtype, offset):
        if not self._original.size:
            return np.empty(self._original.shape, dtype)
        shape, strides = self._original.shape, self._original.strides
        return np.ndarray(shape, dtype, buffer, offset, strides)

    def write_back(self, what):
        """Copies the elements to the original array; nothing else may have changed."""
        self._original[...] = self.array
        changed = self.bytes != self._before
        assert not changed[~self._is_element].any(), f"{what}: bytes between its elements changed"
        self.assert_guards_intact(what)


def _input(array, guard):
    """The array in read-only pages; None for None."""
    if array is None or array.nbytes > _MAX_COPIED_BYTES:
        return array
    copy = GuardedCopy(array, guard)
    copy.make_read_only()
    return copy.array


def tensor(array):
    """Pointer to the description of an array, with its strides; None for None."""
    if array is None:
        return None
    out = _Tensor(struct_bytes=ctypes.sizeof(_Tensor), dtype=_DTYPES[array.dtype.name])
    out.rank = array.ndim
    out.data = array.ctypes.data if array.size else None
    out.shape[: array.ndim] = array.shape
    strides = [stride // array.itemsize for stride in array.strides]
    if not array.size:  # NumPy says 0 for all of them
        strides = [int(np.prod(array.shape[dim + 1 :])) for dim in range(array.ndim)]
    out.strides[: array.ndim] = strides
    out.array = array  # keeps it alive
    return ctypes.pointer(out)


def tensor_list(pointers, is_stacked):
    """Pointer to the list of descriptions of arrays, or of one stacked or paged array."""
    out = _TensorList(ctypes.sizeof(_TensorList), is_stacked, len(pointers))
    out.tensors = (_Tensor * len(pointers))(*(pointer.contents for pointer in pointers))
    out.pointers = pointers
    return ctypes.pointer(out)


def check(status):
    """Raises ValueError with the library's text unless the status is OK."""
    if status != OK:
        raise ValueError(_library.library().MsRelayLastError().decode())


class Operation:
    """An MsRelayOperation: the two phases of both attention operators, as often as wanted.

    Attributes:
        output, lse: GuardedArray of the last call.
        workspace_bytes: of the last call.
        options_bytes: struct_bytes of the options. A test hands over those of an older program.

    Args:
        guard: side of the page without access rights, "after" or "before".
    """

    def __init__(self, guard="after"):
        self._guard = guard
        self.options_bytes = ctypes.sizeof(_Options)
        self._library = _library.library()
        self._operation = ctypes.c_void_p()
        check(self._library.MsRelayCreateOperation(ctypes.byref(self._operation), None))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.MsRelayDestroyOperation(self._operation)

    def run(self, problem, *, path="auto", return_lse=True, missing_bytes=0):
        """Runs a `cases.Problem`. Returns output and lse (None without return_lse), as copies.

        The workspace is `missing_bytes` smaller than phase 1 asked for.
        """
        self._missing_bytes = missing_bytes
        run = {"relay_attention": self._relay, "prefix_encoder": self._prefix}[problem.operator]
        return run(problem, path, return_lse)

    def path_of(self, group):
        """Path of a group in the last relay_attention: 1 relay, 2 plain."""
        path = ctypes.c_int32()
        check(
            self._library.MsRelayOperationGetPath(
                self._operation, ctypes.c_int64(group), ctypes.byref(path)
            )
        )
        return path.value

    def describe(self, name, array):
        """Description of an argument that is in place. A test describes one wrongly."""
        return tensor(array)

    def address_of(self, workspace):
        """Address that is handed over as the workspace, likewise."""
        return workspace.address

    def _input(self, name, array):
        return self.describe(name, _input(array, self._guard))

    def _inputs(self, **arrays):
        return [self._input(name, array) for name, array in arrays.items()]

    def _list(self, name, arrays):
        if arrays is None:
            return None
        is_stacked = not isinstance(arrays, (list, tuple))
        arrays = [arrays] if is_stacked else arrays
        return tensor_list([self._input(name, array) for array in arrays], is_stacked)

    def _relay(self, problem, path, return_lse):
        query, key, value, key_share, value_share, mask, *lengths = problem.args
        kwargs = problem.kwargs
        self._make_outputs(query, key, value, kwargs["head_num"])
        self._set_options(
            path,
            return_lse,
            kwargs.get("block_tables"),
            kwargs.get("share_block_tables"),
            kwargs.get("packed_share"),
        )
        lists = {"key": key, "value": value, "key_share": key_share, "value_share": value_share}
        names = ("seq_len", "kv_seq_len", "kv_share_map", "kv_share_len")
        self._run_phases(
            self._library.MsRelayAttentionGetWorkspaceSize,
            self._library.MsRelayAttention,
            self._input("query", query),
            *(self._list(name, arrays) for name, arrays in lists.items()),
            self._input("attention_mask", mask),
            *(self._input(name, length) for name, length in zip(names, lengths, strict=True)),
            *self._attributes(0, kwargs),
        )
        return self._results(return_lse)

    def _prefix(self, problem, path, return_lse):
        query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes = problem.args
        self._make_outputs(query, key, value, problem.kwargs["head_num"])
        self._set_options(path, return_lse)
        inputs = self._inputs(
            query=query,
            key=key,
            value=value,
            block_tables=block_tables,
            mask=mask,
            seq_len=seq_len,
            kv_seq_len=kv_seq_len,
            slopes=slopes,
        )
        self._run_phases(
            self._library.MsRelayPrefixEncoderGetWorkspaceSize,
            self._library.MsRelayPrefixEncoder,
            *inputs,
            *self._attributes(int(problem.kwargs["mask_type"]), problem.kwargs),
        )
        return self._results(return_lse)

    def _make_outputs(self, query, key, value, head_num):
        key, value = (a[0] if isinstance(a, list) and a else a for a in (key, value))
        hidden = query.shape[-1]
        if len(key):
            hidden = hidden * value.shape[-1] // key.shape[-1]
        self.output = GuardedArray((*query.shape[:-1], hidden), query.dtype, self._guard)
        self.lse = GuardedArray((len(query), head_num), np.float32, self._guard)

    def _set_options(
        self, path, return_lse, block_tables=None, share_block_tables=None, packed_share=None
    ):
        self._lse = self.describe("lse", self.lse.array) if return_lse else None
        self._tables = self._inputs(
            block_tables=block_tables, share_block_tables=share_block_tables
        )
        self._packed = self._list("packed_share", packed_share)
        options = _Options(self.options_bytes, PATHS[path], self._lse, *self._tables, self._packed)
        check(self._library.MsRelayOperationSetOptions(self._operation, ctypes.byref(options)))

    @staticmethod
    def _attributes(mask_type, kwargs):
        return (
            ctypes.c_int(mask_type),
            ctypes.c_int32(kwargs["head_num"]),
            ctypes.c_int32(kwargs["kv_head_num"]),
            ctypes.c_float(kwargs["qk_scale"]),
        )

    def _run_phases(self, get_workspace_size, run, *arguments):
        workspace_bytes = ctypes.c_uint64(1)
        output = self.describe("attn_out", self.output.array)
        try:
            check(
                get_workspace_size(
                    *arguments,
                    output,
                    ctypes.byref(workspace_bytes),
                    ctypes.byref(self._operation),
                    None,
                )
            )
        except ValueError:
            assert workspace_bytes.value == 0, "a failed phase 1 must set workspace_bytes to 0"
            raise
        self.workspace_bytes = workspace_bytes.value
        num_bytes = self.workspace_bytes - self._missing_bytes
        workspace = GuardedBytes(num_bytes, self._guard, _WORKSPACE_ALIGNMENT_BYTES)
        workspace.bytes[:] = _FILL
        address = ctypes.c_void_p(self.address_of(workspace))
        check(run(address, ctypes.c_uint64(num_bytes), self._operation, None))
        workspace.assert_guards_intact("workspace")

    def _results(self, return_lse):
        self.output.assert_guards_intact("output")
        self.lse.assert_guards_intact("lse")
        if not return_lse:
            assert (self.lse.array.view(np.uint8) == _FILL).all(), "lse was written unasked"
            return self.output.array.copy(), None
        return self.output.array.copy(), self.lse.array.copy()


def run(problem, guard="after", **options):
    """`Operation.run` with an operation of its own."""
    with Operation(guard) as operation:
        return operation.run(problem, **options)


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, guard="after"):
    """MsRelayReshapeAndCache: changes the caches, which may have any strides, in place."""
    caches = {"key_cache": key_cache, "value_cache": value_cache}
    caches = {name: GuardedCopy(cache, guard) for name, cache in caches.items()}
    arrays = (
        _input(key, guard),
        _input(value, guard),
        *(cache.array for cache in caches.values()),
        _input(slot_mapping, guard),
    )
    try:
        check(_library.library().MsRelayReshapeAndCache(*map(tensor, arrays), None))
    finally:
        for name, cache in caches.items():
            cache.write_back(name)


def merge_attention_states(out_a, lse_a, out_b, lse_b, guard="after"):
    """MsRelayMergeAttentionStates. Returns out and lse."""
    out = GuardedArray(out_a.shape, out_a.dtype, guard)
    lse = GuardedArray(lse_a.shape, lse_a.dtype, guard)
    inputs = [_input(array, guard) for array in (out_a, lse_a, out_b, lse_b)]
    check(
        _library.library().MsRelayMergeAttentionStates(
            *map(tensor, (*inputs, out.array, lse.array)), None
        )
    )
    out.assert_guards_intact("out")
    lse.assert_guards_intact("lse")
    return out.array.copy(), lse.array.copy()
