# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""relay_attention and prefix_encoder with device_target Ascend, on a host without one.

What MindSpore would hand to the device operators is run by a stand-in (ascend_device.py) and must
give the CPU operators' bits. Registration and generated callbacks: test_ascend_registration.py.
"""

import ascend_device
import mindspore as ms
import numpy as np
import pytest
from cases import PREFIX_CASES, RELAY_CASES, PrefixCase, RelayCase, build
from mindspore import Tensor
from modes import assert_same_bits, mode, run_pynative, tensors_of

import mindspore_relay
from mindspore_relay import MaskType, _ascend_ops, make_alibi_mask
from mindspore_relay.bfloat16 import to_numpy


def is_supported(case):
    """Whether the kernels' limits allow the case (aicore/*/README.md, "Constraints")."""
    return (
        case.head_size % 16 == 0
        and case.head_size <= 256
        and case.value_head_size in (0, case.head_size)
        and case.block_size % 16 == 0
        and case.block_size <= 512
    )


CASES = [case for case in RELAY_CASES + PREFIX_CASES if is_supported(case)]
DTYPES = ("float16", "bfloat16")

LIST = RelayCase("list", (5, 33, 0), (0, -1, 0), (35,), is_share_flat=True)
PAGED = RelayCase("paged", (5, 33, 0), (0, -1, 0), (35,), form="paged")
PREFIX = PrefixCase("causal", (3, 0, 5), (20, 17, 5))


@pytest.fixture
def device(monkeypatch):
    """Operators of the test run on the stand-in. Yields the list of operators that were made."""
    yield ascend_device.use(monkeypatch)
    _ascend_ops._device_call.cache_clear()


# One dtype per case, in turn: each case is compiled as a graph.
@pytest.mark.parametrize(
    ("case", "dtype"), [pytest.param(c, DTYPES[i % 2], id=c.name) for i, c in enumerate(CASES)]
)
def test_pynative_call_gives_the_bits_of_the_cpu(case, dtype, monkeypatch):
    problem = build(case, dtype)
    expected = run_pynative(problem)
    made = ascend_device.use(monkeypatch)
    assert_same_bits(run_pynative(problem), expected, case.name)
    assert len(made) == (len(problem.args[0]) > 0), "the device operator has run"
    _ascend_ops._device_call.cache_clear()


def test_call_outside_a_graph_in_graph_mode(monkeypatch):
    problem = build(PAGED, "float16")
    expected = run_pynative(problem)
    ascend_device.use(monkeypatch)
    args, kwargs = tensors_of(problem)
    with mode("graph"):
        results = mindspore_relay.relay_attention(*args, **kwargs, return_lse=True)
    assert_same_bits(tuple(map(to_numpy, results)), expected, "graph mode")


def test_cells(monkeypatch):
    for case, cell in ((LIST, "RelayAttention"), (PREFIX, "PrefixEncoderAttention")):
        problem = build(case, "bfloat16")
        (expected, _) = run_pynative(problem)
        with monkeypatch.context() as patch:
            made = ascend_device.use(patch)
            args, _ = tensors_of(problem)
            net = getattr(mindspore_relay, cell)(case.head_num, case.head_size, case.kv_head_num)
            assert_same_bits(to_numpy(net(*args)), expected, cell)
            assert len(made) == 1


def test_lengths_may_be_lists_arrays_or_tensors(device):
    args, kwargs = tensors_of(build(LIST, "float16"))
    lengths = [to_numpy(length) for length in args[6:10]]
    expected = None
    for convert in (lambda a: a, Tensor, lambda a: a.tolist(), lambda a: a.astype(np.int64)):
        got = mindspore_relay.relay_attention(*args[:6], *map(convert, lengths), **kwargs)
        expected = expected or to_numpy(got).tobytes()
        assert to_numpy(got).tobytes() == expected
    # Without seq_len: all 1.
    got = mindspore_relay.relay_attention(*args[:6], None, *lengths[1:], **kwargs)
    assert to_numpy(got).tobytes() == expected


def test_calls_with_the_same_lengths_share_a_graph_and_others_do_not(device):
    def run(case):
        problem = build(case, "float16")
        args, kwargs = tensors_of(problem)
        mindspore_relay.relay_attention(*args, **kwargs)
        return _ascend_ops._device_call.cache_info().currsize

    assert run(LIST) == 1
    assert run(LIST) == 1
    assert run(RelayCase("other", (5, 32, 0), (0, -1, 0), (35,), is_share_flat=True)) == 2
    assert len(device) == 1, "one operator for all lengths"


def test_no_rows(device):
    none = Tensor(np.zeros((0, 64)), ms.float16)
    output, lse = mindspore_relay.relay_attention(
        none, [], [], None, None, None, None, [], [], None, head_num=4, return_lse=True
    )
    assert (output.shape, output.dtype) == ((0, 64), ms.float16)
    assert (lse.shape, lse.dtype) == ((0, 4), ms.float32)
    assert not device, "nothing is run"


def relay(dtype="float16", case=LIST, **changes):
    """Calls relay_attention with a problem's arguments, some of them changed."""
    names = (
        "query key value key_share value_share attention_mask "
        "seq_len kv_seq_len kv_share_map kv_share_len"
    ).split()
    args, kwargs = tensors_of(build(case, dtype))
    arguments = {**dict(zip(names, args, strict=True)), **kwargs, **changes}
    return mindspore_relay.relay_attention(**arguments)


def prefix(dtype="float16", case=PREFIX, **changes):
    names = "query key value block_tables mask seq_len kv_seq_len slopes".split()
    args, kwargs = tensors_of(build(case, dtype))
    arguments = {**dict(zip(names, args, strict=True)), **kwargs, **changes}
    return mindspore_relay.prefix_encoder(**arguments)


def ones(shape, dtype=ms.float16):
    return Tensor(np.ones(shape), dtype)


LINEAR, LINEAR_SLOPES = make_alibi_mask(MaskType.ALIBI_COMPRESS, 4)
TWO = [ones((99, 2, 16))] * 2
FLOATS = ones((35, 32), ms.float32)
ALIBI = {"mask": Tensor(LINEAR), "slopes": Tensor(LINEAR_SLOPES)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relay("float32"), "query must be float16 or bfloat16, got Float32"),
        (lambda: prefix("float32"), "query must be float16 or bfloat16, got Float32"),
        (lambda: relay(case=RelayCase("x", (5,), head_size=24)), "a multiple of 16 up to 256"),
        (lambda: relay(case=RelayCase("x", (5,), head_size=272)), "up to 256, got 272"),
        (lambda: relay(case=RelayCase("x", (5,), value_head_size=32)), "must have one shape"),
        (lambda: relay(case=RelayCase("x", (5,), form="paged", block_size=8)), "multiple of 16"),
        (lambda: prefix(case=PrefixCase("x", (3,), (20,), block_size=8)), "up to 512"),
        (lambda: relay(head_num=3), "head_num must be a positive multiple of kv_head_num"),
        (lambda: relay(head_num=6), "query must have shape"),
        (lambda: relay(path="plain"), "path must be auto or relay"),
        (lambda: relay(mask_type=MaskType.CAUSAL), "mask_type must be UNDEFINED"),
        (lambda: relay(seq_len=[1, 2, 1]), r"seq_len\[1\] must be 1 in a decode step, got 2"),
        (lambda: relay(kv_seq_len=[40, 33]), "kv_seq_len must have 3 values, got 2"),
        (lambda: relay(kv_seq_len=[34, 33, 35]), r"kv_seq_len\[0\]=34 is smaller than its shared"),
        (lambda: relay(kv_seq_len=[999, 33, 35]), r"key\[0\] needs 964 keys, but its tensor has"),
        (lambda: relay(kv_share_map=[1, -1, 0]), r"kv_share_map\[0\] must be in \[-1, 1\), got 1"),
        (lambda: relay(kv_share_len=[-1]), r"kv_share_len\[0\] must not be negative"),
        (lambda: relay(kv_share_map=None), "kv_share_map must be given with groups"),
        (lambda: relay(key=TWO, value=TWO), "key must have 3 values, got 2"),
        (lambda: relay(key_share=None, value_share=None), "must have"),
        (lambda: relay(key_share=[FLOATS], value_share=[FLOATS]), "must have query's dtype"),
        (
            lambda: relay(case=PAGED, block_tables=Tensor(np.full((3, 3), 99), ms.int32)),
            r"block_tables\[0\]\[0\] must be in \[0, \d+\), got 99",
        ),
        (lambda: relay(case=PAGED, block_tables=ones((3, 3), ms.int64)), "must be int32"),
        (
            lambda: prefix(block_tables=Tensor([[0, -1], [0, 1], [0, 1]], ms.int32)),
            r"block_tables\[0\]\[1\] must be in \[0, \d+\), got -1",
        ),
        (lambda: prefix(block_tables=ones((3, 1), ms.int32)), "row 0 with 20 keys needs 2 blocks"),
        (lambda: prefix(block_tables=None), "block_tables must be given"),
        (lambda: prefix(seq_len=[3, 0, 4]), "the sum of seq_len must be query's rows 8, got 7"),
        (lambda: prefix(seq_len=[3, 0, 6]), r"seq_len\[2\] must be in \[0, kv_seq_len\[2\]=5\]"),
        (lambda: prefix(mask=ALIBI["mask"]), "must be None with mask_type CAUSAL"),
        (lambda: prefix(mask_type=MaskType.NORM), "mask_type must be CAUSAL or one of the ALiBi"),
        (lambda: prefix(mask_type=MaskType.ALIBI_COMPRESS), "mask must be a Tensor"),
        (
            lambda: prefix(mask_type=MaskType.ALIBI_COMPRESS_SQRT, **ALIBI),
            r"the content of mask fits ALIBI_COMPRESS \(3\)",
        ),
        (
            lambda: prefix(
                mask_type=MaskType.ALIBI_COMPRESS,
                mask=ALIBI["mask"],
                slopes=Tensor(-LINEAR_SLOPES),
            ),
            "must be finite and <= 0",
        ),
        (
            lambda: prefix(mask_type=MaskType.ALIBI_COMPRESS, mask=ALIBI["mask"]),
            "slopes must be given with a mask of rank 2",
        ),
        (
            lambda: prefix(mask_type=MaskType.ALIBI_COMPRESS, mask=ones((4, 19, 128))),
            "at least the longest kv_seq_len=20, 128",
        ),
    ],
)
def test_error_before_the_call(device, call, message):
    with pytest.raises(RuntimeError, match=message):
        call()
    assert not device, "nothing was run"
