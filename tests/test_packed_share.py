# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""pack_share, and relay_attention with what it packs: the same bits as without."""

import ctypes
import itertools
import re

import cases
import mindspore as ms
import numpy as np
import pytest
from capi_harness import GuardedCopy
from mindspore import mutable, nn
from modes import mode
from packed_inputs import pack_groups

import mindspore_relay
from mindspore_relay import _c_interface, _library, _packed_share, capi
from mindspore_relay.bfloat16 import from_float, to_numpy, to_tensor

HEADER_BYTES = 64
PATHS = ("auto", "relay", "plain")
GROUP_CASES = [case for case in cases.RELAY_CASES if case.kv_share_len]


def random(*shape, dtype="bfloat16", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return from_float(values, dtype)


def packs(dtype):
    """Whether the instruction set in use packs this dtype."""
    number = {name: n for n, name in _c_interface.DTYPE_NAMES.items()}[dtype]
    shape = (64, 2, 16)
    return _packed_share.packed_share_bytes(number, shape, shape, False, 2, 64) > HEADER_BYTES


def step(num_keys=100, heads=(4, 2), sizes=(16, 16), private=3, batch=5, dtype="bfloat16"):
    """Arguments and keywords of a step whose requests all share one prefix, in the list form."""
    head_num, kv_head_num = heads
    query = random(batch, head_num, sizes[0], dtype=dtype)
    own = [
        random(batch, private, kv_head_num, size, dtype=dtype, seed=n)
        for n, size in enumerate(sizes)
    ]
    share = [
        random(num_keys + 2, kv_head_num, size, dtype=dtype, seed=n + 9)
        for n, size in enumerate(sizes)
    ]
    lengths = (None, [num_keys + private] * batch, [0] * batch, [num_keys])
    args = (query, *own, [share[0]], [share[1]], None, *lengths)
    keywords = {"head_num": head_num, "kv_head_num": kv_head_num, "qk_scale": sizes[0] ** -0.5}
    return args, keywords


def pack(args, keywords, num_keys=None):
    return capi.pack_share(
        args[3][0],
        args[4][0],
        args[9][0] if num_keys is None else num_keys,
        kv_head_num=keywords["kv_head_num"],
    )


def assert_same_bits(args, keywords, packed_share, what=""):
    for path in PATHS:
        out, lse = capi.relay_attention(*args, **keywords, path=path, return_lse=True)
        packed_out, packed_lse = capi.relay_attention(
            *args, **keywords, path=path, return_lse=True, packed_share=packed_share
        )
        np.testing.assert_array_equal(packed_out, out, err_msg=f"{what}, path {path}")
        np.testing.assert_array_equal(packed_lse, lse, err_msg=f"{what}, path {path}")


# ---- the same result -----------------------------------------------------------------------------


def test_some_instruction_set_packs():
    """Whether the tests of this file try more than the 64 bytes that say "not packed"."""
    isas = _library.available_isas()
    before = _library.isa_name()
    try:
        packing = []
        for isa in isas:
            _library.set_isa(isa)
            packing += [f"{isa} {dtype}" for dtype in cases.DTYPES if packs(dtype)]
    finally:
        _library.set_isa(before)
    if not packing:
        pytest.skip(f"no instruction set of this machine packs a prefix: {', '.join(isas)}")
    assert set(packing) <= {"amx bfloat16", "avx512 bfloat16"}


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("case", GROUP_CASES, ids=lambda case: case.name)
def test_cases(case, dtype, isa):
    problem = cases.build(case, dtype)
    packed = pack_groups(problem)
    for array, num_keys in zip(packed, case.kv_share_len, strict=True):
        assert (array.nbytes > HEADER_BYTES) == (packs(dtype) and num_keys > 0)
    assert_same_bits(problem.args, problem.kwargs, packed, case.name)


@pytest.mark.parametrize("num_keys", [0, 1, 63, 64, 65, 1024, 1500])
def test_numbers_of_keys(num_keys, isa):
    args, keywords = step(num_keys)
    assert_same_bits(args, keywords, [pack(args, keywords)])


@pytest.mark.parametrize("sizes", [(8, 8), (16, 576), (40, 24), (72, 128), (128, 128), (576, 8)])
@pytest.mark.parametrize("batch", [1, 2, 70])
def test_head_sizes_and_batches(sizes, batch, isa):
    args, keywords = step(130, sizes=sizes, batch=batch)
    assert_same_bits(args, keywords, [pack(args, keywords)])


def test_some_groups_are_packed(isa):
    share = [random(n, 2, 16, seed=n) for n in (200, 90, 70)]
    own = random(6, 4, 2, 16)
    lengths = ([200, 90, 70], [0, 2, -1, 0, 2, 0])  # nobody reads group 1
    total = [4 + (lengths[0][g] if g >= 0 else 0) for g in lengths[1]]
    args = (random(6, 64), own, own, share, share, None, None, total, lengths[1], lengths[0])
    keywords = {"head_num": 4, "kv_head_num": 2}
    packed = [capi.pack_share(s, s, len(s), kv_head_num=2) for s in share]
    none = np.empty(0, np.uint8)
    for is_packed in itertools.product([True, False], repeat=3):
        chosen = [p if use else none for p, use in zip(packed, is_packed, strict=True)]
        assert_same_bits(args, keywords, chosen)


def test_what_no_length_covers_is_not_packed(isa):
    args, keywords = step(65)
    clean = capi.relay_attention(*args, **keywords, path="relay")
    for share in (args[3][0], args[4][0]):
        share[65:] = from_float(np.full(share[65:].shape, np.nan, np.float32), "bfloat16")
    packed = [pack(args, keywords)]
    out = capi.relay_attention(*args, **keywords, path="relay", packed_share=packed)
    np.testing.assert_array_equal(out, clean)


def test_merged_and_strided_heads(isa):
    """(rows, kv_head_num * head_size), and views of a tensor that holds keys and values."""
    both = random(100, 2, 3, 24)
    packed = capi.pack_share(both[:, 0], both[:, 1], 90, kv_head_num=3)
    merged = [np.ascontiguousarray(both[:, i]).reshape(100, 72) for i in (0, 1)]
    again = capi.pack_share(*merged, 90, kv_head_num=3, packed=np.empty_like(packed))
    np.testing.assert_array_equal(again, packed)


@pytest.mark.parametrize("shift", [0, 1, 2, 31])
def test_packed_bytes_may_be_moved(shift, isa, tmp_path):
    args, keywords = step(200)
    packed = pack(args, keywords)
    packed.tofile(tmp_path / "prefix")
    room = np.full(len(packed) + shift, 0xFF, np.uint8)
    room[shift:] = np.fromfile(tmp_path / "prefix", np.uint8)
    assert_same_bits(args, keywords, [room[shift:]])


@pytest.mark.parametrize("guard", ["after", "before"])
def test_no_access_outside(guard, isa):
    """Between pages without access rights. One byte too far ends the process."""
    args, keywords = step(130, sizes=(40, 24))
    share = [GuardedCopy(array[0][:130].copy(), guard) for array in args[3:5]]
    packed = pack(args, keywords)
    inputs = [copy.array for copy in share]
    target = GuardedCopy(np.full_like(packed, 0xFF), guard)
    capi.pack_share(*inputs, 130, kv_head_num=2, packed=target.array)
    target.assert_guards_intact("packed")
    args = (*args[:3], inputs[:1], inputs[1:], *args[5:])
    assert_same_bits(args, keywords, [target.array])


def test_number_of_threads_does_not_matter(num_threads):
    args, keywords = step(1500)
    packed = []
    for count in (1, 3, 8):
        num_threads(count)
        packed.append(pack(args, keywords))
        np.testing.assert_array_equal(packed[-1], packed[0])


def test_a_plan_runs_again_with_other_keys():
    """The plan keeps where the packed prefix lies, not what it holds."""
    args, keywords = step(100)
    packed = pack(args, keywords)
    out = np.empty_like(args[0])
    operation = capi.Operation()
    operation.plan_relay_attention(*args, **keywords, path="relay", packed_share=[packed], out=out)
    operation.run()
    for share in (args[3][0], args[4][0]):
        share[:] = random(*share.shape, seed=77)
    capi.pack_share(args[3][0], args[4][0], 100, kv_head_num=2, packed=packed)
    operation.run()
    np.testing.assert_array_equal(out, capi.relay_attention(*args, **keywords, path="relay"))


# ---- errors --------------------------------------------------------------------------------------

PACK_ERRORS = {
    "key_share must have dtype float16, bfloat16 or float32, got int32": {
        "key_share": np.ones((9, 2, 16), np.int32)
    },
    "value_share must have query's dtype float32, got float16": {
        "value_share": np.ones((9, 2, 16), np.float16)
    },
    "kv_head_num must be greater than 0, got kv_head_num=0": {"kv_head_num": 0},
    "kv_head_num must be greater than 0, got kv_head_num=-3": {"kv_head_num": -3},
    "key_share must hold kv_head_num=3 heads per token, got shape [9, 2, 16]": {"kv_head_num": 3},
    "kv_head_num must fit in 32 bits, got 4294967296": {"kv_head_num": 2**32},
    "kv_share_len must not be negative, got kv_share_len=-1": {"kv_share_len": -1},
    "key_share must have a row for each of kv_share_len=10 keys, got shape [9, 2, 16]": {
        "kv_share_len": 10
    },
    "key_share and value_share must have the same number of dimensions, got shapes [9, 2, 16] "
    "and [9, 32]": {"value_share": np.ones((9, 32), np.float32)},
    "key_share and value_share must have the same number of rows, got shapes [9, 2, 16] and "
    "[8, 2, 16]": {"value_share": np.ones((8, 2, 16), np.float32)},
    "share_block_table must have 1 dimension, got shape [1, 3]": {
        "key_share": np.ones((4, 4, 2, 16), np.float32),
        "value_share": np.ones((4, 4, 2, 16), np.float32),
        "share_block_table": np.zeros((1, 3), np.int32),
    },
    "share_block_table entries in use must be in [0, num_blocks=4), got "
    "share_block_table[0][1]=4": {
        "key_share": np.ones((4, 4, 2, 16), np.float32),
        "value_share": np.ones((4, 4, 2, 16), np.float32),
        "share_block_table": [0, 4, 1],
    },
    "share_block_table must have an entry for each block in use: group 0 has 9 keys in blocks of "
    "4, which needs 3 entries, got 2": {
        "key_share": np.ones((4, 4, 2, 16), np.float32),
        "value_share": np.ones((4, 4, 2, 16), np.float32),
        "share_block_table": [0, 1],
    },
    "packed must have at least 64 bytes, got shape [63]": {"packed": np.empty(63, np.uint8)},
    "packed must have dtype uint8, got int32": {"packed": np.empty(6000, np.int32)},
    "packed must have 1 dimension, got shape [8, 8]": {"packed": np.empty((8, 8), np.uint8)},
}


@pytest.mark.parametrize("message", PACK_ERRORS)
def test_pack_errors(message):
    share = np.ones((9, 2, 16), np.float32)
    right = {"key_share": share, "value_share": share, "kv_share_len": 9, "kv_head_num": 2}
    with pytest.raises(ValueError, match=re.escape(f"pack_share: {message}")):
        capi.pack_share(**{**right, **PACK_ERRORS[message]})
    assert capi.pack_share(**right).dtype == np.uint8


def test_pack_head_size():
    share = np.ones((9, 2, 12), np.float32)
    error = (
        "pack_share: head_size of key_share must be a multiple of 8 from 8 to 576, got head_size=12"
    )
    with pytest.raises(NotImplementedError, match=re.escape(error)):
        capi.pack_share(share, share, 9, kv_head_num=2)


@pytest.mark.parametrize("argument", ["kv_head_num", "kv_share_len"])
def test_pack_wants_ints(argument):
    share = np.ones((9, 2, 16), np.float32)
    right = {"kv_share_len": 9, "kv_head_num": 2}
    with pytest.raises(TypeError, match=f"pack_share: {argument} must be an int, got 1.5"):
        capi.pack_share(share, share, **{**right, argument: 1.5})


def _with_other(change):
    """A packed prefix of a step that differs, and the right step."""

    def make(args, keywords):
        return [pack(*step(**{"num_keys": 100, **change}))]

    return make


def _foreign(array):
    return lambda args, keywords: [array]


PACKED_WITH = (
    "packed_share must be packed with dtype bfloat16, kv_head_num=2, head_size=16 and value's "
    "head_size=16, got bfloat16, "
)
NOT_MADE_BY_PACK_SHARE = "packed_share must be made by pack_share of this version, got other bytes"
SHARE_ERRORS = (
    (
        "packed_share must be a list of one tensor for each of 1 groups, got 2",
        lambda args, keywords: 2 * [pack(args, keywords)],
    ),
    ("packed_share must be a list of one tensor for each of 1 groups, got 1 (stacked)", pack),
    ("packed_share must have dtype uint8, got int32", _foreign(np.zeros(64, np.int32))),
    (
        "packed_share must have 1 dimension, got shape [1, 64]",
        _foreign(np.zeros((1, 64), np.uint8)),
    ),
    (f"{NOT_MADE_BY_PACK_SHARE} at packed_share[0]", _foreign(np.zeros(4096, np.uint8))),
    (
        f"{NOT_MADE_BY_PACK_SHARE} at packed_share[0]",
        lambda args, keywords: [pack(args, keywords)[:63]],
    ),
    (
        "packed_share must be packed with kv_share_len[0]=100, got kv_share_len=99 at "
        "packed_share[0]",
        _with_other({"num_keys": 99}),
    ),
    (f"{PACKED_WITH}4, 16 and 16 at packed_share[0]", _with_other({"heads": (4, 4)})),
    (f"{PACKED_WITH}2, 24 and 16 at packed_share[0]", _with_other({"sizes": (24, 16)})),
    (f"{PACKED_WITH}2, 16 and 8 at packed_share[0]", _with_other({"sizes": (16, 8)})),
)


@pytest.mark.parametrize(("message", "make"), SHARE_ERRORS)
def test_share_errors(message, make):
    args, keywords = step()
    bad = make(args, keywords)
    with pytest.raises(ValueError, match=re.escape(f"relay_attention: {message}")):
        capi.relay_attention(*args, **keywords, packed_share=bad)
    assert_same_bits(args, keywords, [pack(args, keywords)])


def test_packed_with_another_dtype(isa):
    args, keywords = step()
    other = [pack(*step(dtype="float32"))]
    with pytest.raises(
        ValueError, match="packed_share must be packed (with dtype|for the kernels)"
    ):
        capi.relay_attention(*args, **keywords, packed_share=other)


def test_truncated(isa):
    args, keywords = step()
    if not packs("bfloat16"):
        return  # nothing but a header: see SHARE_ERRORS
    packed = pack(args, keywords)
    for num_bytes in (64, 127, len(packed) - 1):
        error = f"packed_share must be whole, got {num_bytes} bytes at packed_share[0]"
        with pytest.raises(ValueError, match=re.escape(error)):
            capi.relay_attention(*args, **keywords, packed_share=[packed[:num_bytes]])


def test_another_instruction_set():
    args, keywords = step()
    before = _library.isa_name()
    layouts = {}
    try:
        for isa in _library.available_isas():
            _library.set_isa(isa)
            packed = pack(args, keywords)
            layouts[isa] = bytes(packed[8:24]).rstrip(b"\0").decode(), packed
        for used, (layout, _) in layouts.items():
            _library.set_isa(used)
            for other, packed in layouts.values():
                if other == layout:
                    assert_same_bits(args, keywords, [packed])
                    continue
                error = (
                    "relay_attention: packed_share must be packed for the kernels in use, whose "
                    f"layout is {layout}, got layout {other} at packed_share[0]; pack the prefix "
                    "again"
                )
                with pytest.raises(ValueError, match=re.escape(error)):
                    capi.relay_attention(*args, **keywords, packed_share=[packed])
    finally:
        _library.set_isa(before)


# ---- MindSpore -----------------------------------------------------------------------------------


class PackAndAttend(nn.Cell):
    def __init__(self, num_keys):
        super().__init__()
        self.num_keys = num_keys
        self.attention = mindspore_relay.RelayAttention(4, 16, 2, path="relay")

    def construct(self, query, key, value, key_share, value_share, lengths, groups, share_len):
        packed = mindspore_relay.pack_share(key_share, value_share, self.num_keys, kv_head_num=2)
        return self.attention(
            query,
            key,
            value,
            [key_share],
            [value_share],
            None,
            None,
            lengths,
            groups,
            share_len,
            packed_share=[packed],
        )


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_in_mindspore(mode_name, dtype):
    args, keywords = step(100, dtype=dtype)
    expected = capi.relay_attention(*args, **keywords, path="relay")
    tensors = [to_tensor(a) for a in (*args[:3], args[3][0], args[4][0])]
    lengths = [ms.Tensor(a, ms.int32) for a in args[7:10]]
    with mode(mode_name):
        whole = PackAndAttend(100)(*tensors, *lengths)
        np.testing.assert_array_equal(to_numpy(whole), expected)
        # Packed before, as a caller does, and given to the layer as an argument.
        packed = mindspore_relay.pack_share(*tensors[3:], 100, kv_head_num=2)
        layer = mindspore_relay.RelayAttention(4, 16, 2, path="relay")
        out = layer(
            *tensors[:3],
            mutable(tensors[3:4]),
            mutable(tensors[4:]),
            None,
            None,
            *lengths,
            None,
            None,
            mutable([packed]),
        )
        np.testing.assert_array_equal(to_numpy(out), expected)


@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_paged_in_mindspore(mode_name):
    cache = random(9, 16, 2, 16)
    table, own = np.array([3, 0, 7], np.int32), np.array([[5], [8]], np.int32)
    query = random(2, 64)
    lengths = ([47, 44], [0, 0], [43])
    keywords = {"head_num": 4, "kv_head_num": 2, "block_tables": own}
    expected = capi.relay_attention(
        query, cache, cache, None, None, None, None, *lengths, **keywords,
        share_block_tables=table[None], path="relay",
    )  # fmt: skip
    with mode(mode_name):
        pages = to_tensor(cache)
        packed = mindspore_relay.pack_share(
            pages, pages, 43, kv_head_num=2, share_block_table=ms.Tensor(table)
        )
        out = mindspore_relay.relay_attention(
            to_tensor(query), pages, pages, None, None, None, None, *lengths,
            head_num=4, kv_head_num=2, block_tables=ms.Tensor(own),
            share_block_tables=ms.Tensor(table[None]), packed_share=[packed], path="relay",
        )  # fmt: skip
    np.testing.assert_array_equal(to_numpy(out), expected)


@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_errors_in_mindspore(mode_name):
    share = to_tensor(random(100, 2, 16))
    error = (
        r"pack_share: key_share must hold kv_head_num=3 heads per token, got shape \[100, 2, 16\]"
    )
    with mode(mode_name):
        with pytest.raises(RuntimeError, match=error):
            mindspore_relay.pack_share(share, share, 100, kv_head_num=3).asnumpy()
        with pytest.raises(TypeError, match="pack_share: value_share must be a Tensor, got int"):
            mindspore_relay.pack_share(share, 1, 100, kv_head_num=2)
        assert mindspore_relay.pack_share(share, share, 100, kv_head_num=2).dtype == ms.uint8


# ---- C -------------------------------------------------------------------------------------------


def test_options_of_a_program_older_than_packed_share():
    """struct_bytes 32 is the struct before packed_share: what lies behind it is not looked at."""
    functions = _c_interface.functions()
    room = (ctypes.c_uint8 * 64)()
    options = _c_interface.MsRelayOptions.from_buffer(room)
    room[32] = 0xFF  # where the list would be named
    handle = ctypes.c_void_p()
    _c_interface.check(functions.MsRelayCreateOperation(ctypes.byref(handle), None))
    try:
        options.struct_bytes = 32
        _c_interface.check(functions.MsRelayOperationSetOptions(handle, ctypes.byref(options)))
        options.struct_bytes = 36  # a part of the field
        with pytest.raises(NotImplementedError, match="options sets a field at byte 32"):
            _c_interface.check(functions.MsRelayOperationSetOptions(handle, ctypes.byref(options)))
    finally:
        functions.MsRelayDestroyOperation(handle)
