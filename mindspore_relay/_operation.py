# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Context and Operation of capi.py: the handles of the C interface, and the two phases."""

import ctypes
import threading
from numbers import Real
from operator import index

import numpy as np

from mindspore_relay._c_interface import (
    INTERRUPTED,
    InterruptFunction,
    MsRelayOptions,
    MsRelayTensor,
    MsRelayTensorList,
    check,
    describe,
    functions,
)
from mindspore_relay.masks import MaskType

# Names of MsRelayPath, in its order.
PATH_NAMES = ("auto", "relay", "plain")

# Types of host tensors that are handed over as they are.
INT32 = (np.dtype(np.int32),)
INT32_OR_UINT32 = (np.dtype(np.int32), np.dtype(np.uint32))

# The library wants its workspace so aligned.
_ALIGN_BYTES = 64
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

    @property
    def last_error(self):
        """Text of the last failure of a call with this context, in any thread; "" without one."""
        text = ctypes.create_string_buffer(1024)  # longer than any
        functions().MsRelayContextLastError(self._handle, text, len(text))
        return text.value.decode(errors="replace")

    def __del__(self):
        if getattr(self, "_handle", None):
            functions().MsRelayDestroyContext(self._handle)


class _SignalCheck:
    """Lets the signals of Python be handled while the library works, so that Ctrl-C ends the work.

    Python handles signals between two of its own instructions, in the main thread. The library
    calls `function` there about ten times a second.

    Attributes:
        function: an InterruptFunction; it answers 1 when a signal's handler raised.
        errors: what handlers raised.
    """

    def __init__(self):
        self.errors = []
        answers = self._answers(self.errors)
        next(answers)
        self.function = InterruptFunction(answers.send)

    @staticmethod
    def _answers(errors):
        """A generator and not a function: it goes on inside of its `try`, where the first
        instruction may already handle a signal. That of a function is outside of any."""
        answer = 0
        while True:
            try:
                while True:
                    yield answer
                    answer = 0
            except GeneratorExit:
                return
            except BaseException as error:
                errors.append(error)
                answer = 1


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
        self._signal_check = None  # made, and handed over, for runs in the main thread
        self._is_signal_checked = False
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
        packed_share=None,
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
            describe_lengths(op, name, value, INT32)
            for name, value in (
                ("seq_len", seq_len),
                ("kv_seq_len", kv_seq_len),
                ("kv_share_map", kv_share_map),
                ("kv_share_len", kv_share_len),
            )
        ]
        options = self._options(op, path, lse, block_tables, share_block_tables, packed_share)
        out = describe(op, "out", out, is_output=True)
        self._plan(
            functions().MsRelayAttentionGetWorkspaceSize,
            functions().MsRelayAttention,
            (*tensors, *lists, None, *lengths),
            _head_params(op, mask_type, head_num, kv_head_num, qk_scale),
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
            describe_lengths(op, name, value, INT32_OR_UINT32)
            for name, value in (("seq_len", seq_len), ("kv_seq_len", kv_seq_len))
        ]
        tensors += [*lengths, _describe_optional(op, "slopes", slopes)]
        options = self._options(op, "auto", lse)
        out = describe(op, "out", out, is_output=True)
        self._plan(
            functions().MsRelayPrefixEncoderGetWorkspaceSize,
            functions().MsRelayPrefixEncoder,
            tensors,
            _head_params(op, mask_type, head_num, kv_head_num, qk_scale),
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
            KeyboardInterrupt, or whatever a signal's handler raises: in the main thread, within
                about a tenth of a second. The outputs are not complete then; the plan stays.
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
        self._choose_signal_check()
        status = self._run_function(address, workspace.nbytes, self._handle, self._context_handle)
        if status == INTERRUPTED:
            raise self._signal_check.errors.pop()
        check(status)

    def relay_path(self):
        """How the planned relay_attention reads each group's keys: list of "relay" or "plain"."""
        path = ctypes.c_int32()
        paths = []
        for group in range(self._num_groups):
            check(functions().MsRelayOperationGetPath(self._handle, group, ctypes.byref(path)))
            paths.append(PATH_NAMES[path.value])
        return paths

    # ---- pieces ----

    def _choose_signal_check(self):
        """Only the main thread handles signals. Another thread must not come back into Python from
        within the library: when the interpreter has ended meanwhile, that would end the process."""
        is_wanted = threading.get_ident() == threading.main_thread().ident
        if is_wanted == self._is_signal_checked:
            return
        if self._signal_check is None:
            self._signal_check = _SignalCheck()
        function = self._signal_check.function if is_wanted else InterruptFunction()
        check(functions().MsRelayOperationSetInterrupt(self._handle, function, None))
        self._is_signal_checked = is_wanted

    def _options(
        self, op, path, lse, block_tables=None, share_block_tables=None, packed_share=None
    ):
        """MsRelayOptions, and the descriptions that it points to."""
        described = (
            None if lse is None else describe(op, "lse", lse, is_output=True),
            _describe_optional(op, "block_tables", block_tables),
            _describe_optional(op, "share_block_tables", share_block_tables),
            _describe_list(op, "packed_share", packed_share),
        )
        pointers = [None if struct is None else ctypes.pointer(struct) for struct in described]
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
            self._workspace = aligned_bytes(num_bytes)

    def _release(self):
        """Lets go of the planned arrays, and of a workspace too large to keep."""
        self._forget_plan()
        if self._workspace.nbytes > _KEPT_WORKSPACE_BYTES:
            self._workspace = np.empty(0, np.uint8)


def aligned_bytes(num_bytes):
    """New uint8 array at an address that is a multiple of 64."""
    room = np.empty(num_bytes + _ALIGN_BYTES, np.uint8)
    begin = -room.__array_interface__["data"][0] % _ALIGN_BYTES
    return room[begin : begin + num_bytes]


class _IdleOperations(threading.local):
    """Operations of this thread that no call uses at the moment, without context."""

    def __init__(self):
        self.operations = []


_idle = _IdleOperations()


def run_once(context, plan):
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


# ---- arguments -----------------------------------------------------------------------------------


def _head_params(op, mask_type, head_num, kv_head_num, qk_scale):
    """The scalars of both operators, checked: ctypes would cut an int to 32 bits in silence."""
    params = [
        check_int(op, argument, value, 32)
        for argument, value in (
            ("mask_type", mask_type),
            ("head_num", head_num),
            ("kv_head_num", kv_head_num),
        )
    ]
    if not isinstance(qk_scale, Real):
        raise TypeError(f"{op}: qk_scale must be a float, got {qk_scale!r}")
    return *params, float(qk_scale)


def check_int(op, argument, value, bits):
    """`value` as an int that fits in so many bits, signed."""
    try:
        value = index(value)
    except TypeError:
        raise TypeError(f"{op}: {argument} must be an int, got {value!r}") from None
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{op}: {argument} must fit in {bits} bits, got {value}")
    return value


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


def describe_lengths(op, argument, values, dtypes):
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
