# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""mindspore_relay.capi: the operators for NumPy and DLPack arrays, without MindSpore."""

import doctest
import functools
import gc
import re
import sys
import threading
import weakref
from pathlib import Path

import cases
import numerics
import numpy as np
import pytest
import test_errors

import mindspore_relay
from mindspore_relay import _operation, capi, reference
from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import MaskType, make_alibi_mask

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "c_and_pytorch.md"


def random(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def decode_arguments(dtype=np.float32, batch=3, shared=90):
    """Arguments and keywords of a small relay_attention in the list form."""
    own = [random(n + 1, 2, 16, dtype=dtype, seed=n) for n in range(batch)]
    share = [random(shared, 2, 16, dtype=dtype, seed=9)]
    lengths = ([1] * batch, [shared + n + 1 for n in range(batch)], [0] * batch, [shared])
    args = (random(batch, 4 * 16, dtype=dtype), own, own, share, share, None, *lengths)
    return args, {"head_num": 4, "kv_head_num": 2, "qk_scale": 0.25}


def prefill_arguments(dtype=np.float32):
    """Arguments and keywords of a small prefix_encoder."""
    cache = random(4, 16, 2, 16, dtype=dtype, seed=1)
    tables = np.array([[3, 1], [0, -1]], np.int32)
    args = (random(5, 4, 16, dtype=dtype), cache, cache, tables, None, [3, 2], [20, 2], None)
    return args, {"mask_type": MaskType.CAUSAL, "head_num": 4, "kv_head_num": 2, "qk_scale": 0.25}


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: f"{case.operator}-{case.name}")
def test_cases(case, dtype):
    problem = cases.build(case, dtype)
    function = getattr(capi, problem.operator)
    output, lse = function(*problem.args, **problem.kwargs, return_lse=True)
    expected = numerics.expect_case(case, dtype)
    numerics.assert_attention_close(output, expected, case.name, lse)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_merge_attention_states(dtype):
    out_a, out_b = (from_float(random(6, 4, 16, seed=s), dtype) for s in (1, 2))
    lse_a, lse_b = random(6, 4, seed=3), random(6, 4, seed=4)
    lse_a[1:3], lse_b[2:4] = -np.inf, -np.inf
    out, lse = capi.merge_attention_states(out_a, lse_a, out_b, lse_b)
    expected_out, expected_lse = reference.merge_attention_states(out_a, lse_a, out_b, lse_b)
    assert out.dtype == out_a.dtype and lse.dtype == np.float32
    budget = numerics.half_unit_of_row(expected_out, dtype) + 4 * 2.0**-24 * np.abs(
        np.stack([to_float(out_a), to_float(out_b)])
    ).max(axis=(0, -1))
    numerics.assert_rows_close(to_float(out), expected_out, budget, dtype)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-6, atol=1e-6)
    # In place, over one of the inputs.
    in_place = capi.merge_attention_states(out_a, lse_a, out_b, lse_b, out=out_a, lse=lse_a)
    assert in_place[0] is out_a and in_place[1] is lse_a
    np.testing.assert_array_equal(out_a, out)
    np.testing.assert_array_equal(lse_a, lse)


@pytest.mark.parametrize("cache_dtype", cases.DTYPES)
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_reshape_and_cache(dtype, cache_dtype):
    key, value = (from_float(random(5, 2, 8, seed=s), dtype) for s in (1, 2))
    cache = from_float(random(4, 2, 16, 2, 8, seed=3), cache_dtype)
    expected = cache.copy()
    slots = [3, 17, -1, 63, 17]  # 17 twice: the later token stays
    reference.reshape_and_cache(key, value, expected[:, 0], expected[:, 1], slots)
    # Strided views of one array are written where they are.
    assert capi.reshape_and_cache(key, value, cache[:, 0], cache[:, 1], slots) is None
    np.testing.assert_array_equal(cache, expected)


def test_slots_are_checked_before_the_first_write():
    key = random(2, 2, 8)
    cache = np.zeros((4, 16, 2, 8), np.float32)
    with pytest.raises(ValueError, match=r"slot_mapping\[1\]=64"):
        capi.reshape_and_cache(key, key, cache, cache, [0, 64])
    assert (cache == 0).all()


def test_strided_tensors_are_read_in_place():
    """Key and value as views of one array, and heads before tokens."""
    args, kwargs = decode_arguments()
    expected = capi.relay_attention(*args, **kwargs)
    key_value = [np.stack([key, key], axis=1) for key in args[1]]
    heads_first = [np.ascontiguousarray(key.transpose(1, 0, 2)) for key in args[3]]
    strided = (
        args[0],
        [both[:, 0] for both in key_value],
        [both[:, 1] for both in key_value],
        [share.transpose(1, 0, 2) for share in heads_first],
        [share.transpose(1, 0, 2) for share in heads_first],
    )
    np.testing.assert_array_equal(capi.relay_attention(*strided, *args[5:], **kwargs), expected)


@pytest.mark.parametrize("convert", [list, tuple, np.int64, np.uint16, np.int32])
def test_lengths_of_any_integer_kind(convert):
    args, kwargs = decode_arguments()
    expected = capi.relay_attention(*args, **kwargs)
    lengths = [
        convert(values) if convert in (list, tuple) else np.array(values, convert)
        for values in (args[6], args[7], [0, 0, 0], args[9])
    ]
    np.testing.assert_array_equal(capi.relay_attention(*args[:6], *lengths, **kwargs), expected)


def test_uint32_lengths():
    args, kwargs = prefill_arguments()
    lengths = [np.array(values, np.uint32) for values in args[5:7]]
    output = capi.prefix_encoder(*args[:5], *lengths, args[7], **kwargs)
    np.testing.assert_array_equal(output, capi.prefix_encoder(*args, **kwargs))


# ---- outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (capi.relay_attention, decode_arguments),
        (capi.prefix_encoder, prefill_arguments),
    ],
)
def test_out_and_lse(function, arguments):
    args, kwargs = arguments()
    expected_out, expected_lse = function(*args, **kwargs, return_lse=True)
    assert function(*args, **kwargs).shape == expected_out.shape  # without lse: one array
    # Every second row of a larger array, the others untouched.
    room = np.full((2 * len(expected_out), *expected_out.shape[1:]), 7.0, np.float32)
    lse_room = np.full((len(expected_lse), 2, 4), 7.0, np.float32)
    out, lse = room[::2], lse_room[:, 1]
    result = function(*args, **kwargs, out=out, lse=lse)
    assert result[0] is out and result[1] is lse
    np.testing.assert_array_equal(out, expected_out)
    np.testing.assert_array_equal(lse, expected_lse)
    assert (room[1::2] == 7.0).all() and (lse_room[:, 0] == 7.0).all()
    assert function(*args, **kwargs, out=out) is out


def test_value_head_size_of_its_own():
    args, kwargs = decode_arguments()
    value = [random(*key.shape[:2], 8, seed=5) for key in args[2]]
    value_share = [random(90, 2, 8, seed=6)]
    arguments = (args[0], args[1], value, args[3], value_share, *args[5:])
    assert capi.relay_attention(*arguments, **kwargs).shape == (3, 4 * 8)


# ---- DLPack --------------------------------------------------------------------------------------


class Exporter:
    """An array of another library: speaks DLPack and nothing else."""

    def __init__(self, array, device=(1, 0), before_export=None):
        self.array = array
        self.device = device
        self.before_export = before_export

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None):
        if self.before_export:
            self.before_export()
        return self.array.__dlpack__()


def test_dlpack():
    args, kwargs = prefill_arguments()
    expected = capi.prefix_encoder(*args, **kwargs)
    lengths = [Exporter(np.array(values, np.int32)) for values in args[5:7]]
    both = np.stack([args[1], args[2]], axis=1)
    cache = Exporter(both[:, 0]), Exporter(both[:, 1])  # strided
    out = np.zeros_like(expected)
    arguments = (Exporter(args[0]), *cache, Exporter(args[3]), None, *lengths, None)
    capi.prefix_encoder(*arguments, **kwargs, out=Exporter(out))
    np.testing.assert_array_equal(out, expected)
    output = capi.prefix_encoder(*arguments, **kwargs)
    assert isinstance(output, np.ndarray)
    np.testing.assert_array_equal(output, expected)


def test_dlpack_of_another_device():
    with pytest.raises(
        ValueError, match="prefix_encoder: query must be in host memory, got DLPack"
    ):
        args, kwargs = prefill_arguments()
        capi.prefix_encoder(Exporter(args[0], device=(2, 0)), *args[1:], **kwargs)


def test_dlpack_dtype():
    out = Exporter(np.zeros((2, 4, 8), np.float64))
    with pytest.raises(TypeError, match="merge_attention_states: out_a must have dtype .* float64"):
        capi.merge_attention_states(out, out, out, out)


def test_dlpack_refusal_names_the_argument():
    def refuse():
        raise BufferError("not now")

    array = Exporter(np.zeros((2, 4, 8), np.float32), before_export=refuse)
    with pytest.raises(BufferError, match="out_a cannot be read through DLPack: not now"):
        capi.merge_attention_states(array, array, array, array)


def test_call_inside_of_an_export():
    """An exporter may run Python code, and that code may call an operator."""
    args, kwargs = prefill_arguments()
    expected = capi.prefix_encoder(*args, **kwargs)
    other_args, other_kwargs = decode_arguments()
    query = Exporter(
        args[0], before_export=lambda: capi.relay_attention(*other_args, **other_kwargs)
    )
    np.testing.assert_array_equal(capi.prefix_encoder(query, *args[1:], **kwargs), expected)


@pytest.mark.parametrize("wrap", [lambda array: array, Exporter], ids=["numpy", "dlpack"])
def test_nothing_is_kept_after_a_call(wrap):
    """Neither a success nor a failure keeps an argument alive."""

    class Array(np.ndarray):  # of which weak references can be made
        pass

    def query():
        return random(5, 4, 16).view(Array)

    args, kwargs = prefill_arguments()
    array = query()
    capi.prefix_encoder(wrap(array), *args[1:], **kwargs)
    with pytest.raises(ValueError, match="head_num"):
        capi.prefix_encoder(wrap(array), *args[1:], **{**kwargs, "head_num": 3})
    reference_to_array = weakref.ref(array)
    del array
    gc.collect()
    assert reference_to_array() is None


# ---- two phases ----------------------------------------------------------------------------------


def test_operation_runs_again_on_new_content():
    args, kwargs = decode_arguments()
    query = args[0].copy()
    out, lse = np.empty_like(query), np.empty((3, 4), np.float32)
    operation = capi.Operation()
    lengths = [np.array(values, np.int32) for values in args[6:]]
    operation.plan_relay_attention(query, *args[1:6], *lengths, **kwargs, out=out, lse=lse)
    for values in lengths:
        values[:] = -5  # part of the plan: not read any more
    for scale in (1.0, 2.0):
        query[:] = args[0] * np.float32(scale)
        operation.run()
        expected = capi.relay_attention(args[0] * np.float32(scale), *args[1:], **kwargs)
        np.testing.assert_array_equal(out, expected)
    # The same operation, another operator.
    prefill_args, prefill_kwargs = prefill_arguments()
    prefill_out = np.empty_like(prefill_args[0])
    operation.plan_prefix_encoder(*prefill_args, **prefill_kwargs, out=prefill_out)
    operation.run()
    expected = capi.prefix_encoder(*prefill_args, **prefill_kwargs)
    np.testing.assert_array_equal(prefill_out, expected)


def test_operation_keeps_its_arrays_alive():
    args, kwargs = prefill_arguments()
    out = np.empty_like(args[0])
    operation = capi.Operation()
    query = args[0].copy()
    operation.plan_prefix_encoder(Exporter(query), *args[1:], **kwargs, out=out)
    expected = capi.prefix_encoder(*args, **kwargs)
    references = sys.getrefcount(query)
    del query, args
    gc.collect()
    assert references > 2
    operation.run()
    np.testing.assert_array_equal(out, expected)


def test_plan_that_fails_leaves_none():
    args, kwargs = decode_arguments()
    out = np.empty_like(args[0])
    operation = capi.Operation()
    with pytest.raises(ValueError, match="nothing is planned"):
        operation.run()
    operation.plan_relay_attention(*args, **kwargs, out=out)
    assert operation.workspace_bytes > 0 and len(operation.relay_path()) == 1
    for wrong in ({"head_num": 3}, {"path": "fast"}, {"lse": "text"}):
        with pytest.raises((ValueError, TypeError)):
            operation.plan_relay_attention(*args, **{**kwargs, **wrong}, out=out)
        assert operation.workspace_bytes == 0 and operation.relay_path() == []
        with pytest.raises(ValueError, match="nothing is planned"):
            operation.run()
    operation.plan_relay_attention(*args, **kwargs, out=out)
    operation.run()
    np.testing.assert_array_equal(out, capi.relay_attention(*args, **kwargs))


@pytest.mark.parametrize("path", ["relay", "plain"])
def test_relay_path(path):
    args, kwargs = decode_arguments()
    out = np.empty_like(args[0])
    operation = capi.Operation()
    operation.plan_relay_attention(*args, **kwargs, path=path, out=out)
    assert operation.relay_path() == [path]
    operation.run()
    np.testing.assert_array_equal(out, capi.relay_attention(*args, **kwargs))


def test_workspace_of_the_caller():
    args, kwargs = decode_arguments()
    out = np.empty_like(args[0])
    operation = capi.Operation()
    operation.plan_relay_attention(*args, **kwargs, out=out)
    room = np.full(operation.workspace_bytes + 128, 0xFF, np.uint8)
    begin = -room.ctypes.data % 64
    operation.run(room[begin : begin + operation.workspace_bytes])
    np.testing.assert_array_equal(out, capi.relay_attention(*args, **kwargs))
    with pytest.raises(ValueError, match="workspace must have at least"):
        operation.run(room[begin : begin + operation.workspace_bytes - 1])
    with pytest.raises(ValueError, match="workspace must be aligned"):
        operation.run(room[begin + 1 : begin + 1 + operation.workspace_bytes])
    with pytest.raises(ValueError, match="contiguous"):
        operation.run(room[::2])
    with pytest.raises(TypeError, match="uint8"):
        operation.run(room.view(np.int8))
    with pytest.raises(TypeError, match="uint8"):
        operation.run(bytearray(1 << 20))


def test_large_workspace_is_not_kept(monkeypatch):
    """An idle operation of a thread keeps a small workspace for its next call, not a large one."""
    args, kwargs = decode_arguments()
    kept = []

    def work():
        capi.relay_attention(*args, **kwargs)
        kept.append([operation._workspace.nbytes for operation in _operation._idle.operations])

    for limit in (_operation._KEPT_WORKSPACE_BYTES, 0):
        monkeypatch.setattr(_operation, "_KEPT_WORKSPACE_BYTES", limit)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    ((small,), (large,)) = kept
    assert small > 0 and large == 0


# ---- context and threads -------------------------------------------------------------------------


def test_context():
    args, kwargs = decode_arguments(batch=9, shared=1500)
    expected = capi.relay_attention(*args, **kwargs)
    context = capi.Context(num_threads=1)
    one_thread = capi.relay_attention(*args, **kwargs, context=context)
    np.testing.assert_array_equal(one_thread, expected)
    context.num_threads = 0
    np.testing.assert_array_equal(capi.relay_attention(*args, **kwargs, context=context), expected)
    prefill_args, prefill_kwargs = prefill_arguments()
    capi.prefix_encoder(*prefill_args, **prefill_kwargs, context=context)
    for wrong in (-1, 1025):
        with pytest.raises(ValueError, match=rf"num_threads must be in \[0, 1024\], got {wrong}"):
            context.num_threads = wrong
        with pytest.raises(ValueError, match="num_threads"):
            capi.Context(num_threads=wrong)
    assert context.num_threads == 0


def test_last_error_of_a_context():
    context, other = capi.Context(), capi.Context()
    args, kwargs = decode_arguments()
    assert context.last_error == ""
    with pytest.raises(ValueError) as error:
        capi.relay_attention(*args, **{**kwargs, "head_num": 3}, context=context)
    capi.relay_attention(*args, **kwargs, context=context)  # a success leaves it
    with pytest.raises(ValueError, match="num_threads"):
        other.num_threads = -1
    assert context.last_error == str(error.value)
    assert "head_num" in context.last_error and "num_threads" in other.last_error


def test_same_bits_for_any_number_of_threads(num_threads):
    args, kwargs = decode_arguments(batch=9, shared=1500)
    outputs = []
    for count in (1, 2, 3, 8):
        num_threads(count)
        outputs.append(capi.relay_attention(*args, **kwargs))
    for output in outputs[1:]:
        np.testing.assert_array_equal(output, outputs[0])


def test_many_threads():
    """Functions called from many threads at once give the right bits, and errors stay apart."""
    problems = [decode_arguments(batch=1 + i % 5, shared=40 + 200 * (i % 4)) for i in range(8)]
    expected = [capi.relay_attention(*args, **kwargs) for args, kwargs in problems]
    failures = []

    def work(thread):
        try:
            for i in range(40):
                index = (i + thread) % len(problems)
                args, kwargs = problems[index]
                out = capi.relay_attention(*args, **kwargs)
                np.testing.assert_array_equal(out, expected[index])
                wrong = 1000 + thread
                with pytest.raises(ValueError, match=f"head_num={wrong}"):
                    capi.relay_attention(*args, **{**kwargs, "head_num": wrong, "kv_head_num": 7})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# ---- errors --------------------------------------------------------------------------------------


def relay_error(change, error, match):
    """relay_attention after `change(list of args, kwargs)` raises."""
    args, kwargs = decode_arguments()
    args = list(args)
    change(args, kwargs)
    with pytest.raises(error, match=match):
        capi.relay_attention(*args, **kwargs)


def at(index, value):
    return lambda args, kwargs: args.__setitem__(index, value)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (at(0, None), TypeError, "relay_attention: query must be a NumPy array or speak DLPack"),
        (at(0, [[1.0]]), TypeError, "query must be a NumPy array or speak DLPack, got list"),
        (at(1, [None]), TypeError, "key must be a NumPy array or speak DLPack, got NoneType"),
        (at(0, np.zeros((3, 64))), TypeError, "query must have dtype float16, .* got float64"),
        (at(0, np.zeros((3, 64), ">f4")), TypeError, "query must have dtype .* got >f4"),
        (
            at(0, np.zeros((3,) + (1,) * 6, "f4")),
            ValueError,
            "query must have at most 6 dimensions",
        ),
        (at(0, np.zeros((), "f4")), ValueError, "query must have 1 to 6 dimensions, got 0"),
        (
            at(0, np.zeros((3, 128), "f4")[:, ::2]),
            ValueError,
            "query must have stride 1 in its last",
        ),
        (at(0, np.zeros((3, 64), "f2")), ValueError, "relay_attention: key"),
        (at(6, [1.0, 1.0, 1.0]), TypeError, "seq_len must hold integers, got float64"),
        (at(7, [2**31, 1, 1]), ValueError, "kv_seq_len must fit in 32 bits, got 2147483648"),
        (at(7, [91, 92]), ValueError, "kv_seq_len"),
        (at(8, [0, 0, 1]), ValueError, r"kv_share_map\[2\]=1"),
        (lambda a, k: k.update(path="fast"), ValueError, "path must be one of auto, relay, plain"),
        (lambda a, k: k.update(mask_type=MaskType.NORM), NotImplementedError, "mask_type"),
        (lambda a, k: k.update(head_num=3), ValueError, "head_num"),
        (lambda a, k: k.update(head_num=2**32 + 4), ValueError, "head_num must fit in 32 bits"),
        (lambda a, k: k.update(head_num=4.0), TypeError, "head_num must be an int, got 4.0"),
        (
            lambda a, k: k.update(kv_head_num=None),
            TypeError,
            "kv_head_num must be an int, got None",
        ),
        (lambda a, k: k.update(mask_type=0.5), TypeError, "mask_type must be an int, got 0.5"),
        (lambda a, k: k.update(qk_scale="1"), TypeError, "qk_scale must be a float, got '1'"),
        (lambda a, k: k.update(qk_scale=np.nan), ValueError, "qk_scale must be finite"),
        (
            lambda a, k: k.update(out=np.zeros((3, 32), "f4")),
            ValueError,
            "relay_attention: attn_out must",
        ),
        (
            lambda a, k: k.update(out=np.zeros((3, 64), "f2")),
            ValueError,
            "relay_attention: attn_out must",
        ),
        (
            lambda a, k: k.update(lse=np.zeros((3, 3), "f4")),
            ValueError,
            "relay_attention: lse must",
        ),
    ],
)
def test_broken_arguments(change, error, match):
    relay_error(change, error, match)


# capi judges the dtypes of arrays itself, and takes lengths of any integer type.
RULES = [rule for rule in test_errors.RULES if "must have dtype" not in rule[2]]


@pytest.mark.parametrize(("base", "changes", "text"), RULES)
def test_every_rule_of_the_operators(base, changes, text):
    """The whole message, as users of the MindSpore operators get it."""
    operator, arguments = test_errors.make_call(base, changes)
    with pytest.raises((ValueError, NotImplementedError)) as error:
        getattr(capi, operator)(**arguments)
    assert str(error.value) == text


def test_strides_between_elements():
    records = np.zeros((3, 64), np.dtype([("a", np.float32), ("b", np.uint8)]))["a"]
    relay_error(at(0, records), ValueError, "strides of query must be multiples of its elements")


@pytest.mark.parametrize("argument", ["out", "lse"])
def test_output_must_be_writeable(argument):
    args, kwargs = decode_arguments()
    array = np.zeros((3, 64) if argument == "out" else (3, 4), np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match=f"relay_attention: {argument} must be writeable"):
        capi.relay_attention(*args, **kwargs, **{argument: array})
    with pytest.raises(ValueError, match="key_cache must be writeable"):
        cache = np.zeros((2, 16, 2, 16), np.float32)
        cache.flags.writeable = False
        capi.reshape_and_cache(args[1][0], args[1][0], cache, cache, [0])


def test_mask_of_another_type():
    args, kwargs = prefill_arguments()
    mask, slopes = make_alibi_mask(MaskType.ALIBI_COMPRESS, 4, "float32")
    wrong = {**kwargs, "mask_type": MaskType.ALIBI_COMPRESS_SQRT}
    with pytest.raises(ValueError, match="ALIBI_COMPRESS"):
        capi.prefix_encoder(*args[:4], mask, *args[5:7], slopes, **wrong)


def test_unsupported_isa_is_an_error_of_each_call(run_python):
    code = (
        "import numpy as np; from mindspore_relay import capi; x = np.zeros((1, 8), np.float32);"
        "capi.merge_attention_states(x, x[:, :1], x, x[:, :1])"
    )
    result = run_python("-c", code, env={"MINDSPORE_RELAY_ISA": "mmx"})
    assert result.returncode == 1
    assert "MINDSPORE_RELAY_ISA" in result.stderr.splitlines()[-1]


def test_number_of_heads_near_the_end_of_int32(run_python):
    """2^31 - 1 heads, all in the same memory: planned, with sizes counted in 64 bits, or refused.

    The loop over pieces of heads once passed 2^31 and began anew, for ever."""
    code = (
        "import numpy as np; from mindspore_relay import capi\n"
        "head_num = 2**31 - 1; row = np.zeros((1, 1, 8), np.float32)\n"
        "wide = lambda n: np.lib.stride_tricks.as_strided(row, (n, head_num, 8), (0, 0, 4))\n"
        "operation = capi.Operation()\n"
        "operation.plan_relay_attention(wide(1), [wide(4)], [wide(4)], None, None, None, None, "
        "[4], None, None, head_num=head_num, kv_head_num=0, qk_scale=1.0, out=wide(1))\n"
        "print(0 < operation.workspace_bytes < 1 << 30)\n"
    )
    result = run_python("-c", code, timeout=60)
    assert result.stdout == "True\n", result.stderr


def test_number_of_heads_of_one_kv_head():
    """Rows of a kv head are counted in 32 bits; their bytes once overflowed in the AMX kernels."""
    for head_num, fits in ((65536, True), (65537, False), (2**31 - 1, False)):
        row, key = np.zeros((1, 1, 8), np.float32), np.zeros((4, 1, 8), np.float32)
        wide = np.lib.stride_tricks.as_strided(row, (1, head_num, 8), (0, 0, 4))
        operation = capi.Operation()
        arguments = (wide, [key], [key], None, None, None, None, [4], None, None)
        plan = functools.partial(
            operation.plan_relay_attention, *arguments, head_num=head_num, kv_head_num=1, out=wide
        )
        if fits:
            plan()
            continue
        with pytest.raises(NotImplementedError, match=r"at most 65536 times kv_head_num, got head"):
            plan()


# ---- package -------------------------------------------------------------------------------------


def test_needs_only_numpy(run_python, tmp_path):
    """In an environment with NumPy and this package, and nothing else."""
    site = tmp_path / "site"
    site.mkdir()
    for folder in (Path(np.__file__).parent, Path(mindspore_relay.__file__).parent):
        (site / folder.name).symlink_to(folder)
    libraries = Path(np.__file__).parent.parent / "numpy.libs"
    if libraries.exists():
        (site / "numpy.libs").symlink_to(libraries)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "import numpy as np; from mindspore_relay import capi\n"
        "x = np.ones((2, 1, 8), np.float32); lse = np.zeros((2, 1), np.float32)\n"
        "out, _ = capi.merge_attention_states(x, lse, 3 * x, lse)\n"
        "print(out.max(), sorted(m for m in sys.modules if m.split('.')[0] in "
        "('mindspore', 'torch')))\n"
    )
    # -S: no site-packages. -I: no environment variables, no working directory.
    result = run_python("-S", "-I", "-c", code)
    assert (result.returncode, result.stdout) == (0, "2.0 []\n"), result.stderr


def test_docstring_examples():
    names = {"np": np, "MaskType": MaskType}
    result = doctest.testmod(capi, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 4 and result.failed == 0


def test_document_example(run_python):
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    ((code, output),) = [block for block in blocks if "import capi" in block[0]]
    result = run_python("-c", code)
    assert (result.returncode, result.stdout) == (0, output), result.stderr


def test_document_links_exist():
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", DOCUMENT.read_text(encoding="utf-8"))
    assert len(links) > 2
    assert [link for link in links if not (DOCUMENT.parent / link).exists()] == []
