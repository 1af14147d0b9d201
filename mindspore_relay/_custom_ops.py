# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators as MindSpore primitives of the CPU, each made when a thread first uses it.

Not earlier: ops.Custom fixes the device target when it is constructed, and a program may import
mindspore_relay first and set its device later. And one for each thread: MindSpore mixes up the
arguments of two threads that call one ops.Custom at once.
"""

import itertools
import os
import threading
from typing import NamedTuple

import mindspore
from mindspore import context, ops

from mindspore_relay import _library
from mindspore_relay._mindspore_version import warn_if_untested


class _Operator(NamedTuple):
    """An operator's function in the library, and the kind of its result."""

    function: str
    has_many_outputs: bool = True
    writes_inputs: bool = False


_OPERATORS = {
    "relay_attention": _Operator("RelayAttention"),
    "prefix_encoder": _Operator("PrefixEncoder"),
    "reshape_and_cache": _Operator("ReshapeAndCache", has_many_outputs=False, writes_inputs=True),
    "pack_share": _Operator("PackShare", has_many_outputs=False),
    "merge_attention_states": _Operator("MergeAttentionStates"),
}

warn_if_untested(mindspore.__version__)  # here, because a module is imported once per process

_thread_numbers = itertools.count()


class _ThreadState(threading.local):
    """Primitives of a thread by operator name, a number that no other thread has, and the device
    target that was set when the thread first called an operator."""

    def __init__(self):
        self.primitives = {}
        self.target = None
        self.number = next(_thread_numbers)


_thread_state = _ThreadState()

# A fork of a process in which an operator has run.
_is_forked = False


def _forget_primitives_of_parent():
    global _is_forked, _thread_state
    _is_forked = _is_forked or bool(_thread_state.primitives)
    _thread_state = _ThreadState()


os.register_at_fork(after_in_child=_forget_primitives_of_parent)


@ops.constexpr
def primitive_of(name):
    """The primitive of an operator. In a graph, a constant that is found when it is compiled."""
    primitive = _thread_state.primitives.get(name)
    if primitive is None:
        primitive = _make_primitive(name)
        _thread_state.primitives[name] = primitive
    return primitive


@ops.constexpr
def is_on_ascend():
    """Whether operators run on Ascend. In a graph, a constant."""
    # Asked once: a primitive does not change its target either, and asking takes 20 us.
    if _thread_state.target is None:
        _thread_state.target = device_target()
    return _thread_state.target == "Ascend"


def device_target():
    return context.get_context("device_target")


def _make_primitive(name):
    """The operator's primitive for the device target that is set now, which is not Ascend."""
    target = device_target()
    if target == "CPU":
        return _make_cpu_primitive(_OPERATORS[name])
    raise RuntimeError(
        f"{name}: device_target must be CPU or Ascend, got {target}; "
        'call mindspore.set_device("CPU") before the first operator'
    )


def _check_forked_pynative(operator):
    """MindSpore's asynchronous PyNative mode runs operators on threads that a forked child does not
    have: it would wait for ever."""
    if not context.get_context("pynative_synchronize"):
        raise RuntimeError(
            f"{operator.function}: asynchronous PyNative mode does not work in a fork of a process "
            "that has run operators; start the process by spawn, or call "
            "mindspore.set_context(pynative_synchronize=True)"
        )


def _make_cpu_primitive(operator):
    if _is_forked and context.get_context("mode") == context.PYNATIVE_MODE:
        _check_forked_pynative(operator)
    _library.library()  # errors of loading, in words; and the library stays loaded
    primitive = ops.Custom(f"{_library.library_path()}:{operator.function}", func_type="aot")
    primitive.add_prim_attr("reg_op_name", operator.function)
    # Primitives with the same attributes share what is not safe to share.
    primitive.add_prim_attr("thread_number", _thread_state.number)
    if operator.has_many_outputs:
        primitive.add_prim_attr("multi_output", True)
    if operator.writes_inputs:
        # Without it graph mode drops calls whose status nobody uses and reads caches too early.
        primitive.add_prim_attr("side_effect_mem", True)
    return primitive
