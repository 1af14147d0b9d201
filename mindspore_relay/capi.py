# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators for NumPy arrays and everything that speaks DLPack, without MindSpore.

    import numpy as np
    from mindspore_relay import capi

    out, lse = capi.merge_attention_states(out_a, lse_a, out_b, lse_b)

Functions have the names, arguments and meaning of the MindSpore operators (operators.py). Arrays
are NumPy arrays, in which **uint16 holds bfloat16 bit patterns**, or other arrays in host memory
with `__dlpack__`, such as PyTorch's CPU tensors, bfloat16 included. None is copied: an array is
read and written where it lies, whatever its strides, as long as its last dimension has stride 1.

Results go into `out=` and `lse=` where these are given; otherwise into new NumPy arrays.

Two phases. `Operation` checks and plans once and runs many times over the same arrays, whose
content may change between runs; a function does both phases in one call.

Threads. All functions may be called from any number of threads at once; the interpreter lock is
released while the library works. A Context may be shared; an Operation belongs to one thread at a
time.

Errors, in all functions:
    TypeError: an argument is no array, or an array of a dtype that no argument has.
    ValueError: a rule of the operator is broken; nothing was written.
    NotImplementedError: legal, but not offered on this machine or by this version.
    MemoryError: no memory for the plan.
    BufferError: an array cannot be exported (a PyTorch tensor that requires grad).
"""

import ctypes
import threading

import numpy as np

from mindspore_relay._c_interface import (
    BFLOAT16,
    DTYPE_NAMES,
    MsRelayOptions,
    MsRelayTensor,
    MsRelayTensorList,
    check,
    describe,
    functions,
)
from mindspore_relay.masks import MaskType

__all__ = [
    "Context",
    "Operation",
    "merge_attention_states",
    "prefix_encoder",
    "relay_attention",
    "reshape_and_cache",
]

# Names of MsRelayPath, in its order.
PATH_NAMES = ("auto", "relay", "plain")

# Types of host tensors that are handed over as they are.
_INT32 = (np.dtype(np.int32),)
_INT32_OR_UINT32 = (np.dtype(np.int32), np.dtype(np.uint32))

# The library wants its workspace so aligned.
_WORKSPACE_ALIGN_BYTES = 64
# Largest workspace that an idle operation keeps. Each thread that calls functions holds one, so
# this bounds what they hold together; a call that needs more takes milliseconds and pays for one
# allocation.
_KEPT_WORKSPACE_BYTES = 64 << 20


class Context:
    """Settings that calls share.

    Args:
        num_threads: most threads that one operation uses; 0: as many as the process has set.
    """

    def __init__(self, num_threads=0):
        self._handle = ctypes.c_void_p()
        check(functions().MsRelayCreateContext(ctypes.byref(self._handle)))
        self.num_threads = num_threads

    @property
    def num_threads(self):
        """Most threads that operations planned from now on use; 0: as many as the process."""
        return self._num_threads

    @num_threads.setter
    def num_threads(self, num_threads):
        check(functions().MsRelayContextSetNumThreads(self._handle, num_threads))
        self._num_threads = num_threads

    def __del__(self):
        if getattr(self, "_handle", None):
            functions().MsRelayDestroyContext(self._handle)


class Operation:
    """One operator call in two phases: `plan_...` checks and plans, `run` computes.

    After a plan, `run` may be called any number of times; it reads the arrays of the plan anew,
    except for the lengths, masks and slopes, whose values are part of the plan. Block tables must
    not change. A new plan replaces the old one; a plan that fails leaves none.

    Args:
        context: Context or None for defaults.
    """

    def __init__(self, context=None):
        self._context = context
        self._handle = ctypes.c_void_p()
        self._run_function = None
        self._arguments = None  # descriptions whose owners keep the planned arrays alive
        self._workspace = np.empty(0, np.uint8)
        self.workspace_bytes = 0
        self._num_groups = 0
        check(functions().MsRelayCreateOperation(ctypes.byref(self._handle), self._context_handle))

    def __del__(self):
        if getattr(self, "_handle", None):
            functions().MsRelayDestroyOperation(self._handle)

    @property
    def _context_handle(self):
        return None if self._context is None else self._context._handle

    def plan_relay_attention(
        self,
        query,
        key,
        value,
        key_share,
        value_share,
        attention_mask,
        seq_len,
        kv_seq_len,
        kv_share_map,
        kv_share_len,
        *,
        head_num,
        kv_head_num=0,
        qk_scale=1.0,
        mask_type=MaskType.UNDEFINED,
        block_tables=None,
        share_block_tables=None,
        path="auto",
        out,
        lse=None,
    ):
        """Checks and plans `relay_attention`; `out` and `lse` (or None) are written by `run`."""
        op = "relay_attention"
        if path not in PATH_NAMES:
            raise ValueError(f"{op}: path must be one of {', '.join(PATH_NAMES)}, got {path!r}")
        self._forget_plan()
        lists = [
            _describe_list(op, name, value)
            for name, value in (
                ("key", key),
                ("value", value),
                ("key_share", key_share),
                ("value_share", value_share),
            )
        ]
        tensors = [_describe_optional(op, "query", query)]
        lengths = [
            _describe_lengths(op, name, value, _INT32)
            for name, value in (
                ("seq_len", seq_len),
                ("kv_seq_len", kv_seq_len),
                ("kv_share_map", kv_share_map),
                ("kv_share_len", kv_share_len),
            )
        ]
        options = self._options(op, path, lse, block_tables, share_block_tables)
        out = describe(op, "out", out, is_output=True)
        self._plan(
            functions().MsRelayAttentionGetWorkspaceSize,
            functions().MsRelayAttention,
            (*tensors, *lists, None, *lengths),
            (int(mask_type), head_num, kv_head_num, qk_scale),
            out,
            options,
        )
        self._num_groups = 0 if kv_share_len is None else lengths[-1].shape[0]

    def plan_prefix_encoder(
        self,
        query,
        key,
        value,
        block_tables,
        mask,
        seq_len,
        kv_seq_len,
        slopes,
        *,
        mask_type,
        head_num,
        kv_head_num=0,
        qk_scale=1.0,
        out,
        lse=None,
    ):
        """Checks and plans `prefix_encoder`; `out` and `lse` (or None) are written by `run`."""
        op = "prefix_encoder"
        self._forget_plan()
        tensors = [
            _describe_optional(op, name, value)
            for name, value in (
                ("query", query),
                ("key", key),
                ("value", value),
                ("block_tables", block_tables),
                ("mask", mask),
            )
        ]
        lengths = [
            _describe_lengths(op, name, value, _INT32_OR_UINT32)
            for name, value in (("seq_len", seq_len), ("kv_seq_len", kv_seq_len))
        ]
        tensors += [*lengths, _describe_optional(op, "slopes", slopes)]
        options = self._options(op, "auto", lse, None, None)
        out = describe(op, "out", out, is_output=True)
        self._plan(
            functions().MsRelayPrefixEncoderGetWorkspaceSize,
            functions().MsRelayPrefixEncoder,
            tensors,
            (int(mask_type), head_num, kv_head_num, qk_scale),
            out,
            options,
        )

    def run(self, workspace=None):
        """Runs the plan.

        Args:
            workspace: None, or a contiguous uint8 array of at least `workspace_bytes` bytes at an
                address that is a multiple of 64; its content does not matter. None: the operation's
                own, which it keeps for the next run.

        Raises:
            ValueError: nothing is planned; the workspace is too small or not aligned.
        """
        if self._run_function is None:
            raise ValueError("Operation.run: nothing is planned; call plan_... first")
        if workspace is None:
            self._reserve(self.workspace_bytes)
            workspace = self._workspace
        elif not isinstance(workspace, np.ndarray) or workspace.dtype != np.uint8:
            raise TypeError("Operation.run: workspace must be a NumPy array of dtype uint8")
        elif not workspace.flags.c_contiguous or not workspace.flags.writeable:
            raise ValueError("Operation.run: workspace must be contiguous and writeable")
        address = workspace.__array_interface__["data"][0]
        check(self._run_function(address, workspace.nbytes, self._handle, self._context_handle))

    def relay_path(self):
        """How the planned relay_attention reads each group's keys: list of "relay" or "plain"."""
        path = ctypes.c_int32()
        paths = []
        for group in range(self._num_groups):
            check(functions().MsRelayOperationGetPath(self._handle, group, ctypes.byref(path)))
            paths.append(PATH_NAMES[path.value])
        return paths

    # ---- pieces ----

    def _options(self, op, path, lse, block_tables, share_block_tables):
        """MsRelayOptions, and the descriptions that it points to."""
        described = (
            None if lse is None else describe(op, "lse", lse, is_output=True),
            _describe_optional(op, "block_tables", block_tables),
            _describe_optional(op, "share_block_tables", share_block_tables),
        )
        pointers = [ctypes.pointer(tensor) if tensor is not None else None for tensor in described]
        options = MsRelayOptions(ctypes.sizeof(MsRelayOptions), PATH_NAMES.index(path), *pointers)
        return options, described

    def _plan(self, plan_function, run_function, tensors, params, out, options):
        options, option_tensors = options
        check(functions().MsRelayOperationSetOptions(self._handle, ctypes.byref(options)))
        workspace_bytes = ctypes.c_uint64()
        pointers = [None if tensor is None else ctypes.byref(tensor) for tensor in tensors]
        status = plan_function(
            *pointers,
            *params,
            ctypes.byref(out),
            ctypes.byref(workspace_bytes),
            ctypes.byref(self._handle),
            self._context_handle,
        )
        check(status)
        self._arguments = (tensors, out, option_tensors)
        self._run_function = run_function
        self.workspace_bytes = workspace_bytes.value

    def _forget_plan(self):
        self._run_function = None
        self._arguments = None
        self.workspace_bytes = 0
        self._num_groups = 0

    def _reserve(self, num_bytes):
        if self._workspace.nbytes < num_bytes:
            room = np.empty(num_bytes + _WORKSPACE_ALIGN_BYTES, np.uint8)
            begin = -room.__array_interface__["data"][0] % _WORKSPACE_ALIGN_BYTES
            self._workspace = room[begin : begin + num_bytes]

    def _release(self):
        """Lets go of the planned arrays, and of a workspace too large to keep."""
        self._forget_plan()
        if self._workspace.nbytes > _KEPT_WORKSPACE_BYTES:
            self._workspace = np.empty(0, np.uint8)


class _IdleOperations(threading.local):
    """Operations of this thread that no call uses at the moment, without context."""

    def __init__(self):
        self.operations = []


_idle = _IdleOperations()


def _run_once(context, plan):
    """Plans with `plan(operation)` and runs, with an operation of this thread."""
    is_kept = context is None
    operation = _idle.operations.pop() if is_kept and _idle.operations else Operation(context)
    try:
        plan(operation)
        operation.run()
    finally:
        operation._release()
        if is_kept:
            _idle.operations.append(operation)


# ---- the operators -------------------------------------------------------------------------------


def relay_attention(
    query,
    key,
    value,
    key_share,
    value_share,
    attention_mask,
    seq_len,
    kv_seq_len,
    kv_share_map,
    kv_share_len,
    *,
    head_num,
    kv_head_num=0,
    qk_scale=1.0,
    mask_type=MaskType.UNDEFINED,
    return_lse=False,
    block_tables=None,
    share_block_tables=None,
    path="auto",
    out=None,
    lse=None,
    context=None,
):
    """One decode step in which the requests of a group read their shared prefix once.

    Meaning, shapes and forms (list, stacked, paged): `mindspore_relay.relay_attention`.

    Args:
        query: (batch, head_num * head_size) or (batch, head_num, head_size); float16, bfloat16 or
            float32.
        key, value: list of batch arrays (rows, kv_head_num, head_size) or (rows, kv_head_num *
            head_size); or one array (batch, rows, ...); or caches (num_blocks, block_size, ...)
            with `block_tables`.
        key_share, value_share: the same for the groups, with `share_block_tables`; None without
            groups or when their blocks are in the caches key and value.
        attention_mask: reserved, its content is ignored.
        seq_len, kv_seq_len, kv_share_map: (batch,), int32; kv_share_len: (num_groups,), int32.
            Also lists of ints, and NumPy arrays of other integer types. kv_seq_len counts shared
            and private keys together; kv_share_map is -1 for no group.
        head_num, kv_head_num, qk_scale, mask_type, block_tables, share_block_tables, path: see
            there.
        return_lse: whether lse is returned; `lse` implies it.
        out: array that gets the output: query's shape with value's head size, dtype of query.
        lse: array that gets lse: (batch, head_num), float32.
        context: Context or None.

    Returns:
        out (a new NumPy array if it was None), or (out, lse).

    Example:
        >>> query = np.ones((2, 4 * 16), np.float16)
        >>> key = [np.ones((n, 2, 16), np.float16) for n in (3, 1)]
        >>> share = [np.ones((100, 2, 16), np.float16)]
        >>> relay_attention(query, key, key, share, share, None, [1, 1], [103, 101], [0, 0], [100],
        ...                 head_num=4, kv_head_num=2, qk_scale=0.25).shape
        (2, 64)
    """
    op = "relay_attention"
    if out is None:
        out = _new_output(op, query, _first(key), _first(value))
    if lse is None and return_lse:
        lse = _new_lse(op, query, head_num)
    _run_once(
        context,
        lambda operation: operation.plan_relay_attention(
            query,
            key,
            value,
            key_share,
            value_share,
            attention_mask,
            seq_len,
            kv_seq_len,
            kv_share_map,
            kv_share_len,
            head_num=head_num,
            kv_head_num=kv_head_num,
            qk_scale=qk_scale,
            mask_type=mask_type,
            block_tables=block_tables,
            share_block_tables=share_block_tables,
            path=path,
            out=out,
            lse=lse,
        ),
    )
    return out if lse is None else (out, lse)


def prefix_encoder(
    query,
    key,
    value,
    block_tables,
    mask,
    seq_len,
    kv_seq_len,
    slopes,
    *,
    mask_type,
    head_num,
    kv_head_num=0,
    qk_scale=1.0,
    return_lse=False,
    out=None,
    lse=None,
    context=None,
):
    """Prefill attention over a paged cache that already holds a prefix, and the new tokens.

    Meaning, shapes and masks: `mindspore_relay.prefix_encoder`.

    Args:
        query: (num_tokens, head_num * head_size) or (num_tokens, head_num, head_size); float16,
            bfloat16 or float32.
        key, value: caches (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size).
        block_tables: (batch, max_blocks), int32.
        mask: dtype of query, or None. slopes: (head_num,), float32, or None.
        seq_len, kv_seq_len: (batch,), int32 or uint32; also lists of ints, and NumPy arrays of
            other integer types.
        mask_type, head_num, kv_head_num, qk_scale: see there.
        return_lse: whether lse is returned; `lse` implies it.
        out: array that gets the output: query's shape with value's head size, dtype of query.
        lse: array that gets lse: (num_tokens, head_num), float32.
        context: Context or None.

    Returns:
        out (a new NumPy array if it was None), or (out, lse).

    Example:
        >>> cache = np.ones((8, 16, 2 * 64), np.float16)  # 8 blocks of 16 tokens
        >>> query = np.ones((7, 4 * 64), np.float16)  # 3 + 4 new tokens, 4 heads
        >>> block_tables = np.array([[0, 1], [0, 2]], np.int32)  # both begin with block 0
        >>> prefix_encoder(query, cache, cache, block_tables, None, [3, 4], [19, 20], None,
        ...                mask_type=MaskType.CAUSAL, head_num=4, kv_head_num=2).shape
        (7, 256)
    """
    op = "prefix_encoder"
    if out is None:
        out = _new_output(op, query, key, value)
    if lse is None and return_lse:
        lse = _new_lse(op, query, head_num)
    _run_once(
        context,
        lambda operation: operation.plan_prefix_encoder(
            query,
            key,
            value,
            block_tables,
            mask,
            seq_len,
            kv_seq_len,
            slopes,
            mask_type=mask_type,
            head_num=head_num,
            kv_head_num=kv_head_num,
            qk_scale=qk_scale,
            out=out,
            lse=lse,
        ),
    )
    return out if lse is None else (out, lse)


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, *, context=None):
    """Writes new keys and values into a paged cache, in place. Returns nothing.

    Args:
        key, value: (num_tokens, kv_head_num, head_size) or (num_tokens, kv_head_num * head_size);
            float16, bfloat16 or float32.
        key_cache, value_cache: (num_blocks, block_size, kv_head_num, head_size) or (num_blocks,
            block_size, kv_head_num * head_size), any of the three dtypes. **Changed in place.**
        slot_mapping: (num_tokens,), int32, or a list of ints: block * block_size + offset; -1: the
            token is not written.
        context: Context or None.
    """
    op = "reshape_and_cache"
    tensors = (
        describe(op, "key", key),
        describe(op, "value", value),
        describe(op, "key_cache", key_cache, is_output=True),
        describe(op, "value_cache", value_cache, is_output=True),
        _describe_lengths(op, "slot_mapping", slot_mapping, _INT32),
    )
    _call(functions().MsRelayReshapeAndCache, tensors, context)


def merge_attention_states(out_a, lse_a, out_b, lse_b, *, out=None, lse=None, context=None):
    """Joins the results of attention over two disjoint sets of keys into that over all of them.

    Meaning: `mindspore_relay.merge_attention_states`.

    Args:
        out_a, out_b: (num_tokens, head_num, head_size) or (num_tokens, head_num * head_size); one
            of float16, bfloat16 and float32.
        lse_a, lse_b: (num_tokens, head_num), float32, natural log; -inf: the part had no keys.
        out: array that gets the output, like out_a; may be out_a or out_b.
        lse: array that gets the lse, like lse_a; may be lse_a or lse_b.
        context: Context or None.

    Returns:
        (out, lse); new NumPy arrays where they were None.
    """
    op = "merge_attention_states"
    inputs = (
        describe(op, "out_a", out_a),
        describe(op, "lse_a", lse_a),
        describe(op, "out_b", out_b),
        describe(op, "lse_b", lse_b),
    )
    if out is None:
        out = _empty_like(inputs[0])
    if lse is None:
        lse = _empty_like(inputs[1])
    outputs = (
        describe(op, "out", out, is_output=True),
        describe(op, "lse", lse, is_output=True),
    )
    _call(functions().MsRelayMergeAttentionStates, inputs + outputs, context)
    return out, lse


# ---- pieces --------------------------------------------------------------------------------------


def _call(function, tensors, context):
    pointers = [None if tensor is None else ctypes.byref(tensor) for tensor in tensors]
    check(function(*pointers, None if context is None else context._handle))


def _describe_optional(op, argument, array):
    return None if array is None else describe(op, argument, array)


def _describe_list(op, argument, arrays):
    """MsRelayTensorList of a list of arrays, or of one array that holds them all; None for None."""
    if arrays is None:
        return None
    is_stacked = not isinstance(arrays, (list, tuple))
    described = [describe(op, argument, a) for a in ([arrays] if is_stacked else arrays)]
    tensors = (MsRelayTensor * len(described))(*described)
    tensor_list = MsRelayTensorList(
        ctypes.sizeof(MsRelayTensorList), is_stacked, len(described), tensors
    )
    tensor_list.owner = (described, tensors)
    return tensor_list


def _describe_lengths(op, argument, values, dtypes):
    """A small integer array; Python lists and other integer types become int32."""
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.dtype not in dtypes:
        values = _to_int32(op, argument, values)
    elif isinstance(values, (list, tuple)):
        values = _to_int32(op, argument, np.array(values or np.zeros(0, np.int32)))
    return describe(op, argument, values)


def _to_int32(op, argument, array):
    if array.dtype.kind not in "iu":
        raise TypeError(f"{op}: {argument} must hold integers, got {array.dtype}")
    limits = np.iinfo(np.int32)
    for value in array[(array < limits.min) | (array > limits.max)]:
        raise ValueError(f"{op}: {argument} must fit in 32 bits, got {value}")
    return np.ascontiguousarray(array, dtype=np.int32)


def _first(arrays):
    """The array, or the first of a list; None if there is none."""
    if isinstance(arrays, (list, tuple)):
        return arrays[0] if arrays else None
    return arrays


def _numpy_dtype(tensor):
    return np.dtype(np.uint16 if tensor.dtype == BFLOAT16 else DTYPE_NAMES[tensor.dtype])


def _empty_like(tensor):
    return np.empty(tensor.shape[: tensor.rank], _numpy_dtype(tensor))


def _new_output(op, query, key, value):
    """New array for the output: query's shape with value's head size.

    As key and value have one layout, the last dimension of the output is that of query times that
    of value over that of key. Arguments that break a rule give some shape; the library names them.
    """
    tensor = describe(op, "query", query)
    shape = list(tensor.shape[: tensor.rank])
    if shape and key is not None and value is not None:
        key_dim, value_dim = np.shape(key)[-1:], np.shape(value)[-1:]
        if key_dim and value_dim and key_dim[0] > 0:
            shape[-1] = shape[-1] * value_dim[0] // key_dim[0]
    return np.empty(shape, _numpy_dtype(tensor))


def _new_lse(op, query, head_num):
    num_rows = describe(op, "query", query).shape[0]
    return np.empty((num_rows, max(int(head_num), 0)), np.float32)
