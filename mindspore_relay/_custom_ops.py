# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators as MindSpore primitives, each made when it is first used.

`_custom_ops.RELAY_ATTENTION` and its like are looked up by attribute, in PyNative mode at each call
and in graph mode while a graph is compiled. Not earlier, since ops.Custom fixes the device target
when it is constructed: a program may import mindspore_relay first and set its device later.
"""

from typing import NamedTuple

from mindspore import context, ops

from mindspore_relay import _library


class _Operator(NamedTuple):
    """An operator's name in messages, its function in the library, and the kind of its result."""

    name: str
    function: str
    has_many_outputs: bool
    writes_inputs: bool


_OPERATORS = {
    "RELAY_ATTENTION": _Operator("relay_attention", "RelayAttention", True, False),
    "PREFIX_ENCODER": _Operator("prefix_encoder", "PrefixEncoder", True, False),
    "RESHAPE_AND_CACHE": _Operator("reshape_and_cache", "ReshapeAndCache", False, True),
    "MERGE_ATTENTION_STATES": _Operator(
        "merge_attention_states", "MergeAttentionStates", True, False
    ),
}


def __getattr__(name):
    operator = _OPERATORS.get(name)
    if operator is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    primitive = _make_primitive(operator)
    globals()[name] = primitive  # next time without this function
    return primitive


def _make_primitive(operator):
    """The operator's primitive for the device target that is set now."""
    target = context.get_context("device_target")
    if target == "CPU":
        return _make_cpu_primitive(operator)
    raise RuntimeError(
        f"{operator.name}: device_target must be CPU, got {target}; "
        'call mindspore.set_device("CPU") before the first operator'
    )


def _make_cpu_primitive(operator):
    _library.library()  # errors of loading, in words; and the library stays loaded
    primitive = ops.Custom(f"{_library.library_path()}:{operator.function}", func_type="aot")
    primitive.add_prim_attr("reg_op_name", operator.function)
    if operator.has_many_outputs:
        primitive.add_prim_attr("multi_output", True)
    if operator.writes_inputs:
        # Without it graph mode drops calls whose status nobody uses and reads caches too early.
        primitive.add_prim_attr("side_effect_mem", True)
    return primitive
