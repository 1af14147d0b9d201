# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls the C interface by ctypes, without MindSpore.

For what MindSpore cannot show: other instruction sets in one process, strided tensors, and memory
that an operator must not touch. Outputs and workspace are filled with NaN before each run and lie
between guard bytes that are looked at after it.

Arrays are NumPy arrays in the storage of `mindspore_relay.bfloat16`: uint16 is bfloat16.
"""

import ctypes

import numpy as np

from mindspore_relay import _library

OK = 0
_MAX_RANK = 6
_DTYPES = {"float32": 1, "float16": 2, "uint16": 3, "int32": 4, "uint32": 5}
PATHS = {"auto": 0, "relay": 1, "plain": 2}

# Every byte 0xff makes a NaN of each dtype.
_FILL = 0xFF
_GUARD = 0xA5
_GUARD_BYTES = 256
_ALIGNMENT_BYTES = 64


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
    ]


class GuardedArray:
    """An array of NaN between guard bytes. `array` is the array, 64-byte aligned."""

    def __init__(self, shape, dtype):
        num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._memory = np.full(num_bytes + 2 * _GUARD_BYTES + _ALIGNMENT_BYTES, _GUARD, np.uint8)
        shift = -(self._memory.ctypes.data + _GUARD_BYTES) % _ALIGNMENT_BYTES
        self._begin = _GUARD_BYTES + shift
        self._end = self._begin + num_bytes
        self._memory[self._begin : self._end] = _FILL
        self.array = self._memory[self._begin : self._end].view(dtype).reshape(shape)

    def assert_guards_intact(self, what):
        assert (self._memory[: self._begin] == _GUARD).all(), f"{what}: bytes before it changed"
        assert (self._memory[self._end :] == _GUARD).all(), f"{what}: bytes after it changed"


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


def tensor_list(arrays):
    """Pointer to the list of a list of arrays, or of one stacked or paged array; None for None."""
    if arrays is None:
        return None
    is_stacked = not isinstance(arrays, (list, tuple))
    pointers = [tensor(array) for array in ([arrays] if is_stacked else arrays)]
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
    """

    def __init__(self):
        self._library = _library.library()
        self._operation = ctypes.c_void_p()
        check(self._library.MsRelayCreateOperation(ctypes.byref(self._operation), None))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.MsRelayDestroyOperation(self._operation)

    def run(self, problem, *, path="auto", return_lse=True):
        """Runs a `cases.Problem`. Returns output and lse (None without return_lse), as copies."""
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

    def _relay(self, problem, path, return_lse):
        query, key, value, key_share, value_share, mask, *lengths = problem.args
        kwargs = problem.kwargs
        self._make_outputs(query, key, value, kwargs["head_num"])
        self._set_options(
            path, return_lse, kwargs.get("block_tables"), kwargs.get("share_block_tables")
        )
        self._run_phases(
            self._library.MsRelayAttentionGetWorkspaceSize,
            self._library.MsRelayAttention,
            tensor(query),
            *map(tensor_list, (key, value, key_share, value_share)),
            tensor(mask),
            *map(tensor, lengths),
            *self._attributes(0, kwargs),
        )
        return self._results(return_lse)

    def _prefix(self, problem, path, return_lse):
        query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes = problem.args
        self._make_outputs(query, key, value, problem.kwargs["head_num"])
        self._set_options(path, return_lse, None, None)
        self._run_phases(
            self._library.MsRelayPrefixEncoderGetWorkspaceSize,
            self._library.MsRelayPrefixEncoder,
            *map(tensor, (query, key, value, block_tables, mask, seq_len, kv_seq_len, slopes)),
            *self._attributes(int(problem.kwargs["mask_type"]), problem.kwargs),
        )
        return self._results(return_lse)

    def _make_outputs(self, query, key, value, head_num):
        key, value = (a[0] if isinstance(a, list) and a else a for a in (key, value))
        hidden = query.shape[-1]
        if len(key):
            hidden = hidden * value.shape[-1] // key.shape[-1]
        self.output = GuardedArray((*query.shape[:-1], hidden), query.dtype)
        self.lse = GuardedArray((len(query), head_num), np.float32)

    def _set_options(self, path, return_lse, block_tables, share_block_tables):
        self._lse = tensor(self.lse.array) if return_lse else None
        self._tables = tensor(block_tables), tensor(share_block_tables)
        options = _Options(ctypes.sizeof(_Options), PATHS[path], self._lse, *self._tables)
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
        output = tensor(self.output.array)
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
        workspace = GuardedArray((self.workspace_bytes,), np.uint8)
        check(
            run(
                ctypes.c_void_p(workspace.array.ctypes.data),
                workspace_bytes,
                self._operation,
                None,
            )
        )
        workspace.assert_guards_intact("workspace")

    def _results(self, return_lse):
        self.output.assert_guards_intact("output")
        self.lse.assert_guards_intact("lse")
        if not return_lse:
            assert (self.lse.array.view(np.uint8) == _FILL).all(), "lse was written unasked"
            return self.output.array.copy(), None
        return self.output.array.copy(), self.lse.array.copy()


def run(problem, **options):
    """`Operation.run` with an operation of its own."""
    with Operation() as operation:
        return operation.run(problem, **options)


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping):
    """MsRelayReshapeAndCache: changes the caches, which may have any strides, in place."""
    arrays = (key, value, key_cache, value_cache, slot_mapping)
    check(_library.library().MsRelayReshapeAndCache(*map(tensor, arrays), None))


def merge_attention_states(out_a, lse_a, out_b, lse_b):
    """MsRelayMergeAttentionStates. Returns out and lse."""
    out = GuardedArray(out_a.shape, out_a.dtype)
    lse = GuardedArray(lse_a.shape, lse_a.dtype)
    arrays = (out_a, lse_a, out_b, lse_b, out.array, lse.array)
    check(_library.library().MsRelayMergeAttentionStates(*map(tensor, arrays), None))
    out.assert_guards_intact("out")
    lse.assert_guards_intact("lse")
    return out.array.copy(), lse.array.copy()
