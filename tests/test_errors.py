# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule of the operators: what breaks it is an error that names operator, argument, rule and
value, in both modes, and the process lives on."""

import re

import mindspore as ms
import numpy as np
import pytest
from cases import PrefixCase, RelayCase, build
from mindspore import Tensor, mutable, nn
from modes import assert_same_bits, mode

import mindspore_relay
from mindspore_relay import MaskType
from mindspore_relay.bfloat16 import to_numpy, to_tensor

INT32_MIN = -(2**31)

POSITIONAL = {
    "relay_attention": (
        *("query", "key", "value", "key_share", "value_share", "attention_mask"),
        *("seq_len", "kv_seq_len", "kv_share_map", "kv_share_len"),
    ),
    "prefix_encoder": (
        *("query", "key", "value", "block_tables", "mask", "seq_len", "kv_seq_len", "slopes"),
    ),
    "reshape_and_cache": ("key", "value", "key_cache", "value_cache", "slot_mapping"),
    "merge_attention_states": ("out_a", "lse_a", "out_b", "lse_b"),
}


def _of_case(case):
    """The case's call. Built anew each time: tests may write into the arrays."""

    def make():
        problem = build(case, "float16")
        return problem.operator, problem.args, problem.kwargs

    return make


def _relay(form):
    return _of_case(RelayCase("errors", (5, 33, 0), (0, -1, 1), (35, 7), form=form))


def _prefix(mask_type, is_mask_3d=False):
    return _of_case(PrefixCase("errors", (3, 40), (20, 40), mask_type, is_mask_3d))


def _cache():
    key = np.ones((3, 2, 16), np.float32)
    cache = np.zeros((4, 16, 2, 16), np.float16)
    arrays = (key, key, cache, cache.copy(), np.array([5, -1, 63], np.int32))
    return "reshape_and_cache", arrays, {}


def _merge():
    out, lse = np.ones((3, 4, 16), np.float16), np.zeros((3, 4), np.float32)
    return "merge_attention_states", (out, lse, out, lse), {}


# A right call of each form, as a function that makes it; the tests break one thing at a time.
BASES = {
    "relay": _relay("list"),
    "stacked": _relay("stacked"),
    "paged": _relay("paged"),
    "causal": _prefix(MaskType.CAUSAL),
    "alibi": _prefix(MaskType.ALIBI_COMPRESS),
    "left_align": _prefix(MaskType.ALIBI_COMPRESS_LEFT_ALIGN),
    "alibi_128": _prefix(MaskType.ALIBI_COMPRESS, is_mask_3d=True),
    "cache": _cache,
    "merge": _merge,
}


def make_call(base, changes=None):
    """Operator name and arguments of a base, with changes {argument: value, or function of the
    right value}."""
    operator, args, kwargs = BASES[base]()
    arguments = dict(zip(POSITIONAL[operator], args, strict=True)) | kwargs
    for name, change in (changes or {}).items():
        arguments[name] = change(arguments[name]) if callable(change) else change
    return operator, arguments


def at(*index, value):
    """Change: the entry at `index` of a copy of the array is `value`."""

    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


def ints(*values):
    return np.array(values, np.int32)


def as_dtype(dtype):
    return lambda array: array.astype(dtype)


# (base, changes, text). The text is the whole message.
RULES = [
    # -- heads
    (
        *("relay", {"head_num": 0}),
        "relay_attention: head_num must be greater than 0, got head_num=0",
    ),
    (
        *("relay", {"head_num": -4}),
        "relay_attention: head_num must be greater than 0, got head_num=-4",
    ),
    (
        *("relay", {"head_num": 2**40}),
        "relay_attention: head_num must fit in 32 bits, got 1099511627776",
    ),
    (
        *("relay", {"kv_head_num": 3}),
        "relay_attention: head_num must be a multiple of kv_head_num, "
        "got head_num=4, kv_head_num=3",
    ),
    (
        *("causal", {"kv_head_num": -1}),
        "prefix_encoder: kv_head_num must be 0 (meaning head_num) or positive, got kv_head_num=-1",
    ),
    (
        *("relay", {"qk_scale": float("nan")}),
        "relay_attention: qk_scale must be finite, got qk_scale=nan",
    ),
    # -- query
    (
        *("relay", {"query": lambda q: q[:, :63].copy()}),
        "relay_attention: query must be [nTokens, head_num * head_size] or [nTokens, head_num, "
        "head_size] with head_num=4, got shape [3, 63]",
    ),
    (
        *("causal", {"query": lambda q: q.reshape(43, 2, 32)}),
        "prefix_encoder: query must be [nTokens, head_num * head_size] or [nTokens, head_num, "
        "head_size] with head_num=4, got shape [43, 2, 32]",
    ),
    (
        *("relay", {"query": as_dtype(np.int32)}),
        "relay_attention: query must have dtype float16, bfloat16 or float32, got int32",
    ),
    (
        *("relay", {"query": as_dtype(np.float64)}),
        "relay_attention: query must have dtype float32, float16, bfloat16, int32, uint32 or "
        "uint8, got float64",
    ),
    (
        *("relay", {"query": lambda q: q[:, : 4 * 4].copy()}),
        "relay_attention: head_size of query must be a multiple of 8 from 8 to 576, "
        "got head_size=4",
    ),
    # -- keys and values
    (
        *("relay", {"key": lambda key: [*key[:2], key[2].astype(np.float32)]}),
        "relay_attention: key[2] must have query's dtype float16, got float32",
    ),
    (
        *("causal", {"value": as_dtype(np.float32)}),
        "prefix_encoder: value must have query's dtype float16, got float32",
    ),
    (
        *("relay", {"key": lambda key: key[:2]}),
        "relay_attention: key and value must have the same form and number of tensors, got 2 and 3",
    ),
    (
        *("relay", {"key": lambda key: key[:2], "value": lambda value: value[:2]}),
        "relay_attention: key must hold one tensor for each request, got 2 tensors for 3 requests",
    ),
    (
        *("relay", {"key_share": None}),
        "relay_attention: key_share and value_share must have the same form and number of "
        "tensors, got 0 and 2",
    ),
    (
        *("stacked", {"value": lambda value: list(value)}),
        "relay_attention: key and value must have the same form and number of tensors, "
        "got 1 (stacked) and 3",
    ),
    (
        *("stacked", {"key": lambda k: k[:2].copy(), "value": lambda v: v[:2].copy()}),
        "relay_attention: key must be stacked over 3 requests, got shape [2, 35, 2, 16]",
    ),
    (
        *("relay", {"value": lambda value: [v.reshape(len(v), -1) for v in value]}),
        "relay_attention: all tensors of key and value must have the same number of dimensions, "
        "got shapes [7, 2, 16] and [7, 32] at 0, [7, 2, 16] at 0",
    ),
    (
        *("relay", {"key": lambda key: [k[:, :1].copy() for k in key]}),
        "relay_attention: key[0] must hold kv_head_num=2 heads per token, got shape [7, 1, 16]",
    ),
    (
        *("relay", {"key": lambda key: [k[:, :, :8].copy() for k in key]}),
        "relay_attention: key[0] must have head_size=16, got head_size=8 "
        "(shape [7, 2, 8], kv_head_num=2)",
    ),
    (
        *("relay", {"value": lambda value: [value[0][:6].copy(), *value[1:]]}),
        "relay_attention: key and value must have the same number of rows, "
        "got shapes [7, 2, 16] and [6, 2, 16] at 0",
    ),
    (
        *("paged", {"key": lambda cache: cache.reshape(-1, 16)}),
        "relay_attention: key must have 3 dimensions (kv heads and elements merged) or 4 (apart), "
        "got shape [352, 16]",
    ),
    (
        *("causal", dict.fromkeys(("key", "value"), np.zeros((1, 513, 2, 16), np.float16))),
        "prefix_encoder: block_size of key must be from 1 to 512, got block_size=513",
    ),
    # -- lengths of relay_attention
    (
        *("relay", {"seq_len": ints(1, 2, 1)}),
        "relay_attention: seq_len must be 1 for each request of a decode step, got seq_len[1]=2",
    ),
    (
        *("relay", {"kv_seq_len": ints(40, 33)}),
        "relay_attention: kv_seq_len must be [3] (batch), got shape [2]",
    ),
    (
        *("relay", {"kv_seq_len": None}),
        "relay_attention: kv_seq_len is required, got none",
    ),
    (
        *("relay", {"kv_seq_len": as_dtype(np.int64)}),
        "relay_attention: kv_seq_len must have dtype float32, float16, bfloat16, int32, uint32 or "
        "uint8, got int64",
    ),
    (
        *("relay", {"kv_seq_len": as_dtype(np.float32)}),
        "relay_attention: kv_seq_len must have dtype int32, got float32",
    ),
    (
        *("relay", {"kv_seq_len": at(1, value=-1)}),
        "relay_attention: kv_seq_len must not be negative, got kv_seq_len[1]=-1",
    ),
    (
        *("relay", {"kv_seq_len": at(0, value=34)}),
        "relay_attention: kv_seq_len[0]=34 is smaller than its shared prefix kv_share_len[0]=35; "
        "kv_seq_len counts shared and private keys together",
    ),
    (
        *("relay", {"kv_seq_len": at(1, value=36)}),
        "relay_attention: key must have a row for each key: request 1 has 36 keys there, "
        "got 35 rows",
    ),
    (
        *("relay", {"kv_share_map": at(2, value=2)}),
        "relay_attention: kv_share_map must be -1 or a group in [0, 2), got kv_share_map[2]=2",
    ),
    (
        *("relay", {"kv_share_map": at(2, value=-2)}),
        "relay_attention: kv_share_map must be -1 or a group in [0, 2), got kv_share_map[2]=-2",
    ),
    (
        *("relay", {"kv_share_len": at(1, value=10)}),
        "relay_attention: key_share must have a row for each key: group 1 has 10 keys there, "
        "got 9 rows",
    ),
    (
        *("relay", {"kv_share_len": at(1, value=-7)}),
        "relay_attention: kv_share_len must not be negative, got kv_share_len[1]=-7",
    ),
    (
        *("relay", {"kv_share_len": ints(35)}),
        "relay_attention: kv_share_len must be [2] (number of groups), got shape [1]",
    ),
    (
        *("relay", {"mask_type": MaskType.NORM}),
        "relay_attention: mask_type must be UNDEFINED (0), got mask_type=1",
    ),
    # -- block tables
    (
        *("paged", {"block_tables": at(1, 2, value=-1)}),
        "relay_attention: block_tables entries in use must be in [0, num_blocks=11), got "
        "block_tables[1][2]=-1 (request 1, entry 2, 33 keys)",
    ),
    (
        *("paged", {"share_block_tables": at(0, 0, value=11)}),
        "relay_attention: share_block_tables entries in use must be in [0, num_blocks=11), got "
        "share_block_tables[0][0]=11 (group 0, entry 0, 35 keys)",
    ),
    (
        *("paged", {"block_tables": lambda tables: tables[:, :2].copy()}),
        "relay_attention: block_tables must have an entry for each block in use: request 1 has 33 "
        "keys in blocks of 16, which needs 3 entries, got 2",
    ),
    (
        *("paged", {"block_tables": lambda tables: tables[:2].copy()}),
        "relay_attention: block_tables must have one row for each of 3 requests, got shape [2, 5]",
    ),
    (
        *("causal", {"block_tables": at(0, 1, value=INT32_MIN)}),
        "prefix_encoder: block_tables entries in use must be in [0, num_blocks=8), got "
        "block_tables[0][1]=-2147483648 (request 0, entry 1, 20 keys)",
    ),
    (
        *("causal", {"block_tables": None}),
        "prefix_encoder: block_tables is required, got none",
    ),
    (
        *("causal", {"block_tables": lambda tables: tables.ravel()}),
        "prefix_encoder: block_tables must have 2 dimensions, got shape [10]",
    ),
    # -- lengths of prefix_encoder
    (
        *("causal", {"seq_len": ints(21, 22)}),
        "prefix_encoder: seq_len[0]=21 is greater than kv_seq_len[0]=20; kv_seq_len counts cached "
        "and new keys together",
    ),
    (
        *("causal", {"seq_len": ints(3, -40)}),
        "prefix_encoder: lengths must not be negative, got seq_len[1]=-40, kv_seq_len[1]=40",
    ),
    (
        *("causal", {"seq_len": ints(3, 39)}),
        "prefix_encoder: the sum of seq_len must be query's number of tokens, got sum 42 and query "
        "[43, 64]",
    ),
    (
        *("causal", {"kv_seq_len": ints(20, 40, 1)}),
        "prefix_encoder: kv_seq_len must be [2] (rows of block_tables), got shape [3]",
    ),
    (
        *("causal", {"seq_len": as_dtype(np.int64)}),
        "prefix_encoder: seq_len must have dtype float32, float16, bfloat16, int32, uint32 or "
        "uint8, got int64",
    ),
    # -- masks
    (
        *("causal", {"mask_type": 0}),
        "prefix_encoder: mask_type must be ALIBI_COMPRESS (3), ALIBI_COMPRESS_SQRT (4), "
        "ALIBI_COMPRESS_LEFT_ALIGN (5) or CAUSAL (9), got mask_type=0",
    ),
    (
        *("left_align", {"mask_type": 6}),
        "prefix_encoder: mask_type must be ALIBI_COMPRESS (3), ALIBI_COMPRESS_SQRT (4), "
        "ALIBI_COMPRESS_LEFT_ALIGN (5) or CAUSAL (9), got mask_type=6; another public header "
        "numbers these masks one higher, its 6 is 5 here",
    ),
    (
        *("alibi", {"mask_type": MaskType.ALIBI_COMPRESS_SQRT}),
        "prefix_encoder: mask must have the content of mask_type ALIBI_COMPRESS_SQRT (4), got the "
        "content of ALIBI_COMPRESS (3) (another public header numbers these masks one higher)",
    ),
    (
        *("alibi", {"mask": at(200, 100, value=7.0)}),
        "prefix_encoder: mask must have the content of mask_type ALIBI_COMPRESS (3), which is 100 "
        "at [200][100], got 7",
    ),
    (
        *("alibi", {"mask": lambda mask: mask[:128, :128].copy()}),
        "prefix_encoder: mask must be [256, 256] or [head_num, rows, 128] for mask_type "
        "ALIBI_COMPRESS (3), got shape [128, 128]",
    ),
    (
        *("alibi", {"mask": as_dtype(np.float32)}),
        "prefix_encoder: mask must have query's dtype float16, got float32",
    ),
    (
        *("alibi", {"mask": None}),
        "prefix_encoder: mask is required for mask_type ALIBI_COMPRESS (3), got none",
    ),
    (
        *("alibi", {"slopes": None}),
        "prefix_encoder: slopes is required with a [256, 256] mask, got none",
    ),
    (
        *("alibi", {"slopes": at(2, value=0.5)}),
        "prefix_encoder: slopes must be finite and all <= 0 for mask_type ALIBI_COMPRESS (3), "
        "got slopes[2]=0.5",
    ),
    (
        *("left_align", {"slopes": at(3, value=-0.25)}),
        "prefix_encoder: slopes must be finite and all >= 0 for mask_type "
        "ALIBI_COMPRESS_LEFT_ALIGN (5), got slopes[3]=-0.25",
    ),
    (
        *("alibi", {"slopes": lambda slopes: slopes[:3].copy()}),
        "prefix_encoder: slopes must be [head_num=4], got shape [3]",
    ),
    (
        *("alibi", {"slopes": as_dtype(np.float16)}),
        "prefix_encoder: slopes must have dtype float32, got float16",
    ),
    (
        *("causal", {"mask": np.zeros((256, 256), np.float16)}),
        "prefix_encoder: mask and slopes must be none for mask_type CAUSAL (9), got mask of shape "
        "[256, 256]",
    ),
    (
        *("causal", {"slopes": np.zeros(4, np.float32)}),
        "prefix_encoder: mask and slopes must be none for mask_type CAUSAL (9), got slopes of "
        "shape [4]",
    ),
    (
        *("alibi_128", {"slopes": np.zeros(4, np.float32)}),
        "prefix_encoder: slopes must be none with a 3-D mask, whose biases are finished, "
        "got shape [4]",
    ),
    (
        *("alibi_128", {"mask": lambda mask: mask[:, :39].copy()}),
        "prefix_encoder: a 3-D mask must be [head_num=4, rows >= 40 (the longest kv_seq_len), "
        "128], got shape [4, 39, 128]",
    ),
    # -- reshape_and_cache
    (
        *("cache", {"slot_mapping": ints(5, 64, 0)}),
        "reshape_and_cache: slot_mapping must be -1 or a slot in [0, num_blocks * block_size = "
        "64), got slot_mapping[1]=64",
    ),
    (
        *("cache", {"slot_mapping": ints(5, 6, -2)}),
        "reshape_and_cache: slot_mapping must be -1 or a slot in [0, num_blocks * block_size = "
        "64), got slot_mapping[2]=-2",
    ),
    (
        *("cache", {"slot_mapping": ints(5, 6)}),
        "reshape_and_cache: key must have one token for each entry of slot_mapping, got shape "
        "[3, 2, 16] and 2 entries",
    ),
    (
        *("cache", {"slot_mapping": as_dtype(np.uint32)}),
        "reshape_and_cache: slot_mapping must have dtype int32, got uint32",
    ),
    (
        *("cache", {"value": lambda value: value[:, :1].copy()}),
        "reshape_and_cache: value and value_cache must have the same heads per token, got shapes "
        "[3, 1, 16] and [4, 16, 2, 16]",
    ),
    (
        *("cache", {"key_cache": as_dtype(np.int32)}),
        "reshape_and_cache: key and its cache must have dtype float16, bfloat16 or float32, got "
        "float32 and int32",
    ),
    # -- merge_attention_states
    (
        *("merge", {"lse_a": lambda lse: lse[:, :3].copy()}),
        "merge_attention_states: out_a must be [n, head_num, head_size] or [n, head_num * "
        "head_size] and lse_a [n, head_num], got shapes [3, 4, 16] and [3, 3]",
    ),
    (
        *("merge", {"out_b": as_dtype(np.float32)}),
        "merge_attention_states: out_b must have dtype float16, got float32",
    ),
    (
        *("merge", {"lse_b": as_dtype(np.float16)}),
        "merge_attention_states: lse_b must have dtype float32, got float16",
    ),
    (
        *("merge", {"out_b": lambda out: out.reshape(3, 64)}),
        "merge_attention_states: out_b must have the shape of out_a [3, 4, 16], got [3, 64]",
    ),
]


def to_tensors(value):
    if isinstance(value, np.ndarray):
        return Tensor(value) if value.dtype in (np.int64, np.float64) else to_tensor(value)
    return [to_tensors(entry) for entry in value] if isinstance(value, list) else value


class _Call(nn.Cell):
    """A call as a graph: tensors are inputs, the rest are constants."""

    def __init__(self, operator, arguments):
        super().__init__()
        self.operator = getattr(mindspore_relay, operator)
        self.num_positional = len(POSITIONAL[operator])
        self.is_relay = operator == "relay_attention"
        self.has_attributes = "head_num" in arguments
        self.head_num = arguments.get("head_num")
        self.kv_head_num = arguments.get("kv_head_num")
        self.qk_scale = arguments.get("qk_scale")
        self.mask_type = int(arguments.get("mask_type", 0))

    def construct(self, block_tables, share_block_tables, *args):
        if not self.has_attributes:
            return self.operator(*args)
        if self.is_relay:
            return self.operator(
                *args,
                head_num=self.head_num,
                kv_head_num=self.kv_head_num,
                qk_scale=self.qk_scale,
                mask_type=self.mask_type,
                block_tables=block_tables,
                share_block_tables=share_block_tables,
            )
        return self.operator(
            *args,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            mask_type=self.mask_type,
        )


class Caller:
    """Runs calls in one mode. In graph mode one net serves all calls of one Caller."""

    def __init__(self, mode_name):
        self.mode_name = mode_name
        self.net = None

    def __call__(self, operator, arguments):
        arguments = {name: to_tensors(value) for name, value in arguments.items()}
        with mode(self.mode_name):
            if self.mode_name == "pynative":
                result = getattr(mindspore_relay, operator)(**arguments)
            else:
                self.net = self.net or _Call(operator, arguments)
                tables = [None, None]
                if operator == "relay_attention":
                    tables = [arguments.get(f"{n}block_tables") for n in ("", "share_")]
                args = [arguments[name] for name in POSITIONAL[operator]]
                args = [mutable(arg) if isinstance(arg, list) else arg for arg in args]
                result = self.net(*tables, *args)
            return to_numpy(result[0] if isinstance(result, tuple) else result)


def text_of(error):
    """The library's text within MindSpore's."""
    return re.search(r"Error message is (.*)", str(error.value)).group(1)


# Graphs of every seventh rule: a graph takes MindSpore 0.1 to 1 s to compile.
@pytest.mark.parametrize(
    ("mode_name", "base", "changes", "text"),
    [
        pytest.param(mode_name, *rule, id=f"{mode_name}-{i}-{rule[0]}-{'-'.join(rule[1])}")
        for mode_name, step in (("pynative", 1), ("graph", 7))
        for i, rule in list(enumerate(RULES))[::step]
    ],
)
def test_rule(mode_name, base, changes, text):
    """The message; and nothing of what failed is left for the next call."""
    with pytest.raises(RuntimeError) as error:
        Caller(mode_name)(*make_call(base, changes))
    assert text_of(error) == text
    assert np.isfinite(Caller("pynative")(*make_call(base))).all()


@pytest.mark.parametrize("base", BASES)
def test_the_calls_that_the_rules_break_are_right(base):
    result = Caller("pynative")(*make_call(base))
    assert np.isfinite(result).all()
    assert_same_bits(Caller("graph")(*make_call(base)), result, base)


# ---- what never reaches the library --------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "changes", "error", "text"),
    [
        ("relay", {"query": None}, TypeError, "query must be a Tensor, got NoneType"),
        (
            *("relay", {"key": 3}, TypeError),
            "key must be a Tensor, a list of Tensors or None, got int",
        ),
        (
            *("relay", {"value_share": lambda v: [v[0], None]}, TypeError),
            "value_share must hold Tensors only",
        ),
        ("relay", {"value": lambda v: [None] * len(v)}, TypeError, "value must hold Tensors only"),
        (
            *("relay", {"block_tables": [[1, 2]]}, TypeError),
            "block_tables must be a Tensor or None, got list",
        ),
        ("relay", {"head_num": 4.0}, TypeError, "head_num must be an int, got float"),
        (
            "relay",
            {"path": "fast"},
            ValueError,
            "path must be one of auto, relay, plain, got 'fast'",
        ),
        ("relay", {"mask_type": "CAUSAL"}, TypeError, "mask_type must be a MaskType, got 'CAUSAL'"),
        (
            *("relay", {"kv_seq_len": [40.0, 33.0, 7.0]}, TypeError),
            "kv_seq_len must be a Tensor, or a list or array of ints, got [40.0, 33.0, 7.0]",
        ),
        (
            *("relay", {"kv_seq_len": [2**31, 33, 7]}, ValueError),
            "kv_seq_len must fit in 32 bits, got 2147483648",
        ),
        ("causal", {"value": None}, TypeError, "value must be a Tensor, got NoneType"),
        ("alibi", {"mask": 3}, TypeError, "mask must be a Tensor or None, got int"),
        ("cache", {"slot_mapping": None}, TypeError, "slot_mapping must be a Tensor, got NoneType"),
        ("merge", {"lse_b": None}, TypeError, "lse_b must be a Tensor, got NoneType"),
    ],
)
def test_python_types(base, changes, error, text):
    operator, arguments = make_call(base, changes)
    with pytest.raises(error, match=re.escape(f"{operator}: {text}")):
        Caller("pynative")(operator, arguments)


def test_python_types_in_a_graph():
    """The same errors, when the graph is compiled."""
    operator, arguments = make_call("relay", {"query": None})
    with pytest.raises(TypeError, match="relay_attention: query must be a Tensor"):
        Caller("graph")(operator, arguments)

    _, arguments = make_call("relay")
    inputs = Tensor(arguments["query"]), Tensor(arguments["kv_seq_len"])
    with mode("graph"):
        with pytest.raises(TypeError, match="relay_attention: query, key and value must be"):
            _Holes(None)(*inputs)
        with pytest.raises(RuntimeError, match="relay_attention: key must hold tensors only"):
            _Holes(inputs[0])(*inputs)


class _Holes(nn.Cell):
    def __init__(self, first):
        super().__init__()
        self.first = first

    def construct(self, query, lengths):
        tensors = [self.first, None, None]
        return mindspore_relay.relay_attention(
            *(query, tensors, tensors, None, None, None, None, lengths, None, None), head_num=4
        )


# ---- life after an error -------------------------------------------------------------------------


def test_pynative_mode_works_on_after_an_error():
    expected = Caller("pynative")(*make_call("relay"))
    call = Caller("pynative")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="kv_share_map must be -1 or a group"):
            call(*make_call("relay", {"kv_share_map": ints(0, -1, 2)}))
        assert_same_bits(call(*make_call("relay")), expected, "next call")


def test_asynchronous_pynative_mode_reports_by_the_time_a_result_is_read():
    expected = Caller("pynative")(*make_call("relay"))
    ms.set_context(pynative_synchronize=False)
    try:
        with pytest.raises(RuntimeError, match="kv_share_map must be -1 or a group"):
            Caller("pynative")(*make_call("relay", {"kv_share_map": ints(0, -1, 2)}))
        assert_same_bits(Caller("pynative")(*make_call("relay")), expected, "next call")
    finally:
        ms.set_context(pynative_synchronize=True)


@pytest.mark.parametrize("base", ["relay", "causal"])
def test_ways_out_of_an_error_in_graph_mode(base):
    """MindSpore refuses the failed graph from then on. A new net works, and so does the old one
    when its graphs are dropped; other nets were never concerned."""
    length = "kv_seq_len"
    expected = Caller("pynative")(*make_call(base))
    other, call = Caller("graph"), Caller("graph")
    for caller in (other, call):
        assert_same_bits(caller(*make_call(base)), expected, "before")
    with pytest.raises(RuntimeError) as error:
        call(*make_call(base, {length: lambda lengths: -lengths}))
    assert "must not be negative" in text_of(error)
    with pytest.raises(RuntimeError, match="error occurred in the previous step"):
        call(*make_call(base))

    assert_same_bits(other(*make_call(base)), expected, "another net")
    assert_same_bits(Caller("graph")(*make_call(base)), expected, "a new net")
    call.net.compile_cache.clear()
    assert_same_bits(call(*make_call(base)), expected, "the same net")


def test_nothing_is_written_when_a_slot_is_wrong():
    operator, arguments = make_call("cache", {"slot_mapping": ints(5, 6, 64)})
    caches = [Tensor(arguments.pop(name)) for name in ("key_cache", "value_cache")]
    tensors = {name: to_tensors(value) for name, value in arguments.items()}
    with mode("pynative"), pytest.raises(RuntimeError, match=r"slot_mapping\[2\]=64"):
        mindspore_relay.reshape_and_cache(**tensors, key_cache=caches[0], value_cache=caches[1])
    assert not caches[0].asnumpy().any() and not caches[1].asnumpy().any()


def test_an_unknown_instruction_set_is_an_error_and_not_another_one(run_python):
    program = """
import numpy as np, mindspore as ms
from mindspore_relay import relay_attention
query = ms.Tensor(np.ones((1, 16)), ms.float16)
relay_attention(query, [query], [query], None, None, None, None, [1], None, None, head_num=1)
print(query)
"""
    result = run_python("-c", program, env={"MINDSPORE_RELAY_ISA": "mmx"})
    assert result.returncode == 1
    assert "MINDSPORE_RELAY_ISA" in result.stderr and "mmx" in result.stderr
