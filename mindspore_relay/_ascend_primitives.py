# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The device operators aclnnRelayAttention and aclnnPrefixEncoder as MindSpore primitives.

What is registered here repeats the operators' definitions (aicore/<operator>/op_host/*_def.cpp), as
MindSpore calls the C function with inputs, attributes and outputs in the order of registration.
"""

import os
import shutil
import threading
from pathlib import Path
from typing import NamedTuple

from mindspore import dtype as mstype
from mindspore import jit, nn, ops
from mindspore.ops import CustomRegOp, DataType


class _Operator(NamedTuple):
    """A device operator: its C function and header, inputs (name, kind, dtype), attributes."""

    function: str
    header: str
    inputs: tuple
    attributes: tuple


# A list of ints is an attribute for MindSpore, though an input of the definition: the device
# operator takes it as an aclIntArray of host values, behind all tensors. A float is "double", which
# the C function takes; "float" would hand over another register.
_OPERATORS = {
    "relay_attention": _Operator(
        "aclnnRelayAttention",
        "aclnn_relay_attention.h",
        inputs=(
            ("query", "required", "float"),
            ("key", "dynamic", "float"),
            ("value", "dynamic", "float"),
            ("key_share", "dynamic", "float"),
            ("value_share", "dynamic", "float"),
            ("attention_mask", "optional", "float"),
            ("block_tables", "optional", "int32"),
            ("share_block_tables", "optional", "int32"),
        ),
        attributes=(
            ("seq_len", "listInt"),
            ("kv_seq_len", "listInt"),
            ("kv_share_map", "listInt"),
            ("kv_share_len", "listInt"),
            ("head_num", "int"),
            ("qk_scale", "double"),
            ("kv_head_num", "int"),
            ("mask_type", "int"),
        ),
    ),
    "prefix_encoder": _Operator(
        "aclnnPrefixEncoder",
        "aclnn_prefix_encoder.h",
        inputs=(
            ("query", "required", "float"),
            ("key", "required", "float"),
            ("value", "required", "float"),
            ("block_tables", "required", "int32"),
            ("mask", "optional", "float"),
            ("slopes", "optional", "float32"),
        ),
        attributes=(
            ("seq_len", "listInt"),
            ("kv_seq_len", "listInt"),
            ("mask_type", "int"),
            ("head_num", "int"),
            ("kv_head_num", "int"),
            ("qk_scale", "double"),
        ),
    ),
}
_OUTPUTS = (("attn_out", "float"), ("lse", "float32"))

# The kernels exist once for each of these: "float" above is one of them.
_KERNEL_DTYPES = (DataType.F16_Default, DataType.BF16_Default)
_FIXED_DTYPES = {"int32": DataType.I32_Default, "float32": DataType.F32_Default}


class _ThreadState(threading.local):
    """Primitives of a thread by operator and head_num: see _custom_ops."""

    def __init__(self):
        self.primitives = {}


_thread_state = _ThreadState()


@ops.constexpr
def device_primitive(op, head_num):
    """The primitive of a device operator. In a graph, a constant found when it is compiled.

    One for each head_num: the shape of lse depends on it, and MindSpore's shape inference sees
    shapes only.

    Raises:
        RuntimeError: what the operator needs at run time is missing; the message says what.
    """
    key = (op, head_num)
    primitive = _thread_state.primitives.get(key)
    if primitive is None:
        check_environment(op)
        primitive = _make_primitive(op, head_num)
        _thread_state.primitives[key] = primitive
    return primitive


def check_environment(op):
    """RuntimeError if MindSpore could not find the device operator or compile its callback."""
    operator = _OPERATORS[op]
    opp_path = os.environ.get("ASCEND_OPP_PATH")
    if not opp_path:
        raise RuntimeError(f"{op}: ASCEND_OPP_PATH is not set: source set_env.sh of CANN")
    custom_paths = filter(None, os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"))
    folders = [*map(Path, custom_paths), *Path(opp_path, "vendors").glob("*")]
    if not any((folder / "op_api/include" / operator.header).is_file() for folder in folders):
        looked_in = ", ".join(map(str, folders)) or "no folder"
        raise RuntimeError(
            f"{op}: the device operator {operator.function} is not installed: build it with "
            "scripts/build.sh --device ascend and let ASCEND_CUSTOM_OPP_PATH name "
            f"packages/vendors/mindspore_relay of the result (looked in {looked_in})"
        )
    if shutil.which("g++") is None:
        raise RuntimeError(f"{op}: MindSpore needs g++ to compile the operator's callback")


def _make_primitive(op, head_num):
    operator = _OPERATORS[op]
    return ops.Custom(
        operator.function,
        out_shape=lambda query, *_: (query, (query[0], head_num)),
        out_dtype=lambda query, *_: (query, mstype.float32),
        func_type="aot",
        reg_info=_registration(operator),
    )


def _registration(operator):
    registration = CustomRegOp(operator.function)
    for index, (name, kind, _) in enumerate(operator.inputs):
        registration.input(index, name, kind)
    for name, value_type in operator.attributes:
        registration.attr(name, "required", value_type)
    for index, (name, _) in enumerate(_OUTPUTS):
        registration.output(index, name, "required")
    dtypes = [dtype for _, _, dtype in operator.inputs] + [dtype for _, dtype in _OUTPUTS]
    for kernel_dtype in _KERNEL_DTYPES:
        registration.dtype_format(*(_FIXED_DTYPES.get(dtype, kernel_dtype) for dtype in dtypes))
    return registration.target("Ascend").get_op_info()


class DeviceCall(nn.Cell):
    """A call of a device operator as a graph, for PyNative mode: there the primitive itself takes
    tensors only.

    The attributes are constants of the graph, lengths included. MindSpore plans an operator of
    fixed shapes when it builds the graph, and keeps the plan: one made for other lengths would give
    wrong results.
    """

    def __init__(self, primitive, attributes):
        super().__init__()
        self.primitive = primitive
        self.attributes = attributes

    # O0: operators one by one, the level for which MindSpore supports custom operators.
    @jit(jit_level="O0")
    def construct(self, *inputs):
        return self.primitive(*inputs, *self.attributes)
