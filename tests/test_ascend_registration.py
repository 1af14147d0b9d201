# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""How the device operators are registered with MindSpore, on a host without CANN.

MindSpore's ops.Custom is constructed as on Ascend, with the headers of tests/ascend_stubs in place
of CANN's: it registers the operator and compiles the callback that calls the C function. The
callback is then called from C++ (tests/ascend_stubs/call_callback.cpp).
"""

import re
import subprocess
from pathlib import Path

import ascend_device
import mindspore as ms
import pytest
from cases import PrefixCase, RelayCase, build
from mindspore import Tensor, mutable, nn, ops
from mindspore.ops.operations import custom_ops
from modes import mode, tensors_of

import mindspore_relay
from mindspore_relay import MaskType, _ascend_primitives
from mindspore_relay.bfloat16 import to_numpy

ROOT = Path(__file__).parent.parent
STUBS = ROOT / "tests" / "ascend_stubs"

# The C types after const, pointer and name are taken away, by registered kind.
C_TYPES = {
    "required": "aclTensor*",
    "optional": "aclTensor*",
    "dynamic": "aclTensorList*",
    "listInt": "aclIntArray*",
    "int": "int64_t",
    "double": "double",
}

each_operator = pytest.mark.parametrize("op", ["relay_attention", "prefix_encoder"])


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host that looks to MindSpore like one with CANN and the device operators."""
    (tmp_path / "opp").mkdir()
    monkeypatch.setenv("MS_COMPILER_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(STUBS / "opp"))
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(STUBS / "include"))
    get_context = custom_ops.context.get_context
    monkeypatch.setattr(
        custom_ops.context,
        "get_context",
        lambda name: "Ascend" if name == "device_target" else get_context(name),
    )
    monkeypatch.setattr(ops.Custom, "compiled_bin", [])
    ascend_device.set_target(monkeypatch)
    return tmp_path


@each_operator
def test_registration(op, host):
    primitive = _ascend_primitives.device_primitive(op, 4)
    operator = _ascend_primitives._OPERATORS[op]
    info = primitive.reg_info
    assert info["target"] == "Ascend"
    assert [(i["index"], i["name"], i["paramType"]) for i in info["inputs"]] == [
        (index, name, kind) for index, (name, kind, _) in enumerate(operator.inputs)
    ]
    assert [(a["name"], a["type"], a["paramType"]) for a in info["attr"]] == [
        (name, value_type, "required") for name, value_type in operator.attributes
    ]
    assert [o["name"] for o in info["outputs"]] == ["attn_out", "lse"]
    for dtype, row in zip(("float16", "bfloat16"), info["dtype_format"], strict=True):
        # JSON has lists in place of tuples.
        assert [column[0] for column in row] == [
            dtype if kind == "float" else kind for _, _, kind in operator.inputs
        ] + [dtype, "float32"]
        assert {column[1] for column in row} == {"DefaultFormat"}
    attributes = primitive.get_attr_dict()
    assert attributes["reg_op_name"] == operator.function
    assert attributes["multi_output"] is True
    kinds = [kind for _, kind, _ in operator.inputs] + [kind for _, kind in operator.attributes]
    assert attributes["custom_inputs_type"] == [C_TYPES[kind] for kind in kinds] + [
        "aclTensor*",
        "aclTensor*",
    ]


@each_operator
def test_one_primitive_for_each_head_num(op, host):
    primitive = _ascend_primitives.device_primitive
    assert primitive(op, 4) is primitive(op, 4)
    assert primitive(op, 8) is not primitive(op, 4)


@each_operator
def test_registration_follows_the_definition(op):
    """Names, kinds, dtypes and their order in aicore/<op>/op_host/<op>_def.cpp."""
    definition = (ROOT / "aicore" / op / "op_host" / f"{op}_def.cpp").read_text()
    operator = _ascend_primitives._OPERATORS[op]
    tensors = re.findall(r'Input\("(\w+)"\)\.ParamType\((\w+)\)\.DataType\((\w+)\)', definition)
    dtypes = {"kFloats": "float", "kInt32": "int32", "kFloat32": "float32"}
    assert operator.inputs == tuple(
        (name, kind.lower(), dtypes[dtype]) for name, kind, dtype in tensors
    )
    lists = re.findall(r"for \(const char \*\w+ : \{(.*?)\}\)", definition)
    lengths = [name for names in lists for name in re.findall(r'"(\w+)"', names)]
    attributes = re.findall(r'Attr\("(\w+)"\)\.AttrType\(\w+\)\.(Int|Float)\(', definition)
    assert operator.attributes == (
        *((name, "listInt") for name in lengths),
        *((name, {"Int": "int", "Float": "double"}[kind]) for name, kind in attributes),
    )
    outputs = re.findall(r'Output\("(\w+)"\)\.ParamType\(\w+\)\.DataType\((\w+)\)', definition)
    assert _ascend_primitives._OUTPUTS == tuple((name, dtypes[dtype]) for name, dtype in outputs)


# Without the header MindSpore takes the C types from the registration.
@pytest.mark.parametrize("has_header", [True, False], ids=["header", "no_header"])
@each_operator
def test_callback_hands_over_every_argument(op, has_header, host, monkeypatch):
    if not has_header:
        monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
    primitive = _ascend_primitives._make_primitive(op, 4)
    callback, function = primitive.get_attr_dict()["custom_callback_func"].split(":")
    assert function == _ascend_primitives._OPERATORS[op].function
    program = host / "call_callback"
    include = STUBS / "opp/op_api/include"
    source = STUBS / "call_callback.cpp"
    compiler = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-o"]
    subprocess.run([*compiler, program, source, "-ldl"], check=True)
    result = subprocess.run([program, callback, op], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "0 wrong\n"), result


class Net(nn.Cell):
    """An operator in a graph, with lengths that are constants of it. Its results are shapes and
    dtypes, known when it is compiled: nothing is left to run."""

    def __init__(self, problem):
        super().__init__()
        args, kwargs = tensors_of(problem)
        self.is_relay = problem.operator == "relay_attention"
        # Lengths are behind the other arguments, but for slopes.
        lengths = slice(6, 10) if self.is_relay else slice(5, 7)
        self.lengths = [None if a is None else to_numpy(a).tolist() for a in args[lengths]]
        self.tensors = [*args[: lengths.start], *args[lengths.stop :]]
        self.tables = (kwargs.get("block_tables"), kwargs.get("share_block_tables"))
        self.mask_type = int(kwargs.get("mask_type", 0))
        self.head_num = kwargs["head_num"]
        self.kv_head_num = kwargs["kv_head_num"]

    def run(self):
        tensors = [mutable(arg) if isinstance(arg, list) and arg else arg for arg in self.tensors]
        return self(*self.tables, *tensors)

    def construct(self, block_tables, share_block_tables, *tensors):
        if self.is_relay:
            output, lse = mindspore_relay.relay_attention(
                *tensors,
                *self.lengths,
                head_num=self.head_num,
                kv_head_num=self.kv_head_num,
                qk_scale=0.25,
                return_lse=True,
                block_tables=block_tables,
                share_block_tables=share_block_tables,
            )
        else:
            output, lse = mindspore_relay.prefix_encoder(
                *tensors[:5],
                *self.lengths,
                tensors[5],
                mask_type=self.mask_type,
                head_num=self.head_num,
                kv_head_num=self.kv_head_num,
                qk_scale=0.25,
                return_lse=True,
            )
        return output.shape, output.dtype, lse.shape, lse.dtype


@pytest.fixture
def inferred(host, monkeypatch):
    """The arguments with which MindSpore asks an operator for its results' shapes: shapes of
    tensors, values of constants."""
    calls = []
    infer = ops.Custom.__infer__

    def record(self, *args):
        calls.append([what_is_known(arg["shape"], arg["value"]) for arg in args])
        return infer(self, *args)

    def what_is_known(shape, value):
        is_list_of_tensors = isinstance(value, (list, tuple)) and None in value
        return shape if value is None or is_list_of_tensors else value

    monkeypatch.setattr(ops.Custom, "__infer__", record)
    return calls


HEADS = (4, 0.25, 2)  # head_num, qk_scale, kv_head_num
GROUPS = {"kv_share_map": (0, -1, 0), "kv_share_len": (35,)}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        # query, key, value, key_share, value_share, attention_mask, the two block tables
        ("list", [[3, 64], *[[[9, 2, 16]] * 3] * 2, *[[[9, 2, 16]]] * 2, None, None, None]),
        ("stacked", [[3, 64], *[[[3, 9, 2, 16]]] * 2, *[[[1, 9, 2, 16]]] * 2, None, None, None]),
        ("paged", [[3, 64], *[[[9, 16, 2, 16]]] * 4, None, [3, 9], [1, 9]]),
    ],
)
def test_relay_attention_in_a_graph(form, expected, inferred):
    case = RelayCase("graph", (5, 33, 0), **GROUPS, form=form)
    with mode("graph"):
        results = Net(build(case, "bfloat16")).run()
    assert results == ((3, 64), ms.bfloat16, (3, 4), ms.float32)
    (arguments,) = inferred
    assert [hide_rows(argument, form) for argument in arguments[:8]] == expected
    head_num, qk_scale, kv_head_num = HEADS
    assert arguments[8:] == [
        *((1, 1, 1), (40, 33, 35), (0, -1, 0), (35,)),
        *(head_num, qk_scale, kv_head_num, 0),
    ]


def hide_rows(argument, form):
    """The shape, or shapes of a list, with 9 for what the problem has chosen by chance: rows, and
    columns of block tables."""
    if argument is None or len(argument) == 0:
        return argument
    if isinstance(argument[0], (list, tuple)):
        return [hide_rows(shape, form) for shape in argument]
    row_axis = {3: 0, 4: 1 if form == "stacked" else 0}
    columns = len(argument) == 2 and argument[1] != 64
    axis = 1 if columns else row_axis.get(len(argument))
    return [9 if i == axis else size for i, size in enumerate(argument)]


def test_relay_attention_in_pynative_mode(inferred):
    """Every argument reaches the primitive; then MindSpore finds that this is no Ascend."""
    args, kwargs = tensors_of(build(RelayCase("call", (5, 33, 0), **GROUPS), "float16"))
    refusal = "function path 'aclnnRelayAttention' is illegal"
    with mode("pynative"), pytest.raises(RuntimeError, match=refusal):
        mindspore_relay.relay_attention(*args, **kwargs)
    lists = [[list(tensor.shape) for tensor in tensors] for tensors in args[1:5]]
    arguments = [as_lists(argument) for argument in inferred[0]]
    assert arguments[:8] == [[3, 64], *lists, None, None, None]
    lengths = [[1, 1, 1], [40, 33, 35], [0, -1, 0], [35]]
    assert arguments[8:12] == lengths
    head_num, _, kv_head_num = HEADS
    assert arguments[12:] == [head_num, pytest.approx(kwargs["qk_scale"]), kv_head_num, 0]


def as_lists(argument):
    return list(map(as_lists, argument)) if isinstance(argument, (list, tuple)) else argument


@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
def test_without_groups_an_empty_group_takes_their_place(form, inferred):
    """MindSpore cannot hand over an empty list."""
    with mode("graph"):
        Net(build(RelayCase("graph", (5, 33), form=form), "float16")).run()
    (arguments,) = inferred
    # 2 rows of 64 elements are 4 tokens of 2 * 16.
    assert [list(map(list, arguments[i])) for i in (3, 4)] == [[[1, 4, 32]]] * 2
    assert arguments[7] is None, "share_block_tables"
    assert arguments[10:12] == [(-1, -1), (0,)], "kv_share_map and kv_share_len"


@pytest.mark.parametrize("mask_type", [MaskType.CAUSAL, MaskType.ALIBI_COMPRESS])
def test_prefix_encoder_in_a_graph(mask_type, inferred):
    case = PrefixCase("graph", (3, 0, 5), (20, 17, 5), mask_type=mask_type)
    problem = build(case, "float16")
    with mode("graph"):
        results = Net(problem).run()
    assert results == ((8, 64), ms.float16, (8, 4), ms.float32)
    (arguments,) = inferred
    has_mask = mask_type != MaskType.CAUSAL
    tensors = [list(array.shape) for array in problem.args[:4]]
    assert arguments == [
        *tensors,
        [256, 256] if has_mask else None,
        [4] if has_mask else None,
        *((3, 0, 5), (20, 17, 5)),
        *(int(mask_type), 4, 2, 0.25),
    ]


def test_a_length_in_a_graph_must_not_be_a_tensor(inferred):
    net = Net(build(PrefixCase("graph", (3,), (20,)), "float16"))
    net.lengths = [Tensor(length, ms.int32) for length in net.lengths]
    with (
        mode("graph"),
        pytest.raises(TypeError, match="must be a list or array of ints in a graph"),
    ):
        net.run()
    assert not inferred


@each_operator
def test_what_is_missing_is_named(op, host, monkeypatch):
    def message():
        with pytest.raises(RuntimeError) as error:
            _ascend_primitives.device_primitive(op, 4)
        return str(error.value)

    _ascend_primitives.check_environment(op)
    monkeypatch.setattr(_ascend_primitives.shutil, "which", lambda name: None)
    assert f"{op}: MindSpore needs g++" in message()
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{host}/nothing")
    function = _ascend_primitives._OPERATORS[op].function
    assert f"{op}: the device operator {function} is not installed" in message()
    assert f"looked in {host}/nothing" in message()
    monkeypatch.delenv("ASCEND_OPP_PATH")
    assert message() == f"{op}: ASCEND_OPP_PATH is not set: source set_env.sh of CANN"


def test_operators_installed_into_the_vendors_folder_are_found(host, monkeypatch):
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
    (host / "opp/vendors").mkdir()
    (host / "opp/vendors/mindspore_relay").symlink_to(STUBS / "opp")
    _ascend_primitives.check_environment("relay_attention")


_PROGRAM = """
import mindspore
import mindspore_relay
try:
    mindspore.set_device("Ascend")
except RuntimeError as error:
    print("RuntimeError", "Ascend" in str(error))
"""


def test_a_host_without_cann(run_python):
    """MindSpore says so itself, before any operator of this package is called."""
    result = run_python("-c", _PROGRAM)
    assert result.stdout == "RuntimeError True\n", result.stderr


@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_nothing_is_packed_for_ascend(mode_name, inferred):
    args, kwargs = tensors_of(build(RelayCase("call", (5, 33, 0), **GROUPS), "float16"))
    with mode(mode_name):
        with pytest.raises(
            ValueError, match="relay_attention: packed_share must be None on Ascend"
        ):
            mindspore_relay.relay_attention(*args, **kwargs, packed_share=[args[0]])
        with pytest.raises(RuntimeError, match="pack_share: device_target must be CPU, got Ascend"):
            mindspore_relay.pack_share(args[3][0], args[4][0], 35, kv_head_num=2)
    assert not inferred
