# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""pack_share, and relay_attention with what it packs: the same bits as without."""

import ctypes
import itertools
from pathlib import Path

import capi_harness
import cases
import mindspore as ms
import modes
import numpy as np
import pytest
from mindspore import mutable, nn
from modes import mode
from packed_inputs import pack_groups
from test_errors import text_of

import mindspore_relay
from mindspore_relay import _c_interface, _library, _packed_share, capi
from mindspore_relay.bfloat16 import from_float, to_float, to_numpy, to_tensor

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
    return _packed_share.packed_share_bytes(number, shape, shape, None, 2, 64) > HEADER_BYTES


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
        keywords = {**keywords, "path": path, "return_lse": True}
        expected = capi.relay_attention(*args, **keywords)
        got = capi.relay_attention(*args, **keywords, packed_share=packed_share)
        modes.assert_same_bits(got, expected, f"{what}, path {path}")


def layout_of(packed):
    """The name in a packed prefix of what it was packed for."""
    return packed[8:24].tobytes().rstrip(b"\0").decode()


# ---- the same result -----------------------------------------------------------------------------


def test_which_instruction_sets_pack():
    """If none does, the other tests of this file try no more than 64 bytes: "not packed"."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    expected = {"amx"}
    if "AuthenticAMD" in cpu and "avx512_bf16" in cpu:
        expected.add("avx512")
    isas = _library.available_isas()
    before = _library.isa_name()
    packing = set()
    try:
        for isa, dtype in itertools.product(isas, cases.DTYPES):
            _library.set_isa(isa)
            if packs(dtype):
                packing.add((isa, dtype))
    finally:
        _library.set_isa(before)
    assert packing == {(isa, "bfloat16") for isa in expected.intersection(isas)}
    if not packing:
        pytest.skip(f"no instruction set of this machine packs a prefix: {', '.join(isas)}")


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


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_what_no_length_covers_is_not_packed(garbage, isa):
    args, keywords = step(65)
    clean = capi.relay_attention(*args, **keywords, path="relay")
    packed = pack(args, keywords)
    for share in (args[3][0], args[4][0]):
        share[65:] = from_float(np.full(share[65:].shape, garbage, np.float32), "bfloat16")
    np.testing.assert_array_equal(pack(args, keywords), packed)
    out = capi.relay_attention(*args, **keywords, path="relay", packed_share=[packed])
    np.testing.assert_array_equal(out, clean)


def test_relay_reads_what_is_packed_and_plain_does_not(isa):
    """With the same bits everywhere no other test sees whether a packed prefix is read."""
    args, keywords = step(100)
    old = capi.relay_attention(*args, **keywords)
    packed = [pack(args, keywords)]
    for share in (args[3][0], args[4][0]):
        share[:] = random(*share.shape, seed=77)
    new = capi.relay_attention(*args, **keywords)
    assert (old != new).any()
    for path, is_packed_read in (("relay", packs("bfloat16")), ("plain", False)):
        out = capi.relay_attention(*args, **keywords, path=path, packed_share=packed)
        np.testing.assert_array_equal(out, old if is_packed_read else new, err_msg=path)


def test_auto_takes_relay_for_one_request_of_a_packed_prefix(isa, num_threads):
    num_threads(1)
    args, keywords = step(1500, batch=1)
    operation = capi.Operation()
    operation.plan_relay_attention(*args, **keywords, out=np.empty_like(args[0]))
    assert operation.relay_path() == ["plain"]
    packed = [pack(args, keywords)]
    operation.plan_relay_attention(
        *args, **keywords, packed_share=packed, out=np.empty_like(args[0])
    )
    assert operation.relay_path() == ["relay" if packs("bfloat16") else "plain"]


def test_merged_and_strided_heads(isa):
    """(rows, kv_head_num * head_size), and views of a tensor that holds keys and values."""
    both = random(100, 2, 3, 24)
    packed = capi.pack_share(both[:, 0], both[:, 1], 90, kv_head_num=3)
    merged = [np.ascontiguousarray(both[:, i]).reshape(100, 72) for i in (0, 1)]
    again = capi.pack_share(*merged, 90, kv_head_num=3, packed=np.empty_like(packed))
    np.testing.assert_array_equal(again, packed)


def test_tensors_without_rows(isa):
    nothing = random(0, 2, 16)
    packed = capi.pack_share(nothing, nothing, 0, kv_head_num=2)
    assert packed.nbytes == HEADER_BYTES
    args, keywords = step(0)
    assert_same_bits(args, keywords, [packed])


@pytest.mark.parametrize("shift", [0, 1, 2, 31])
def test_packed_bytes_may_be_moved(shift, isa, tmp_path):
    args, keywords = step(200)
    packed = pack(args, keywords)
    packed.tofile(tmp_path / "prefix")
    room = np.full(len(packed) + shift, 0xFF, np.uint8)
    room[shift:] = np.fromfile(tmp_path / "prefix", np.uint8)
    assert_same_bits(args, keywords, [room[shift:]])


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

CACHE = np.ones((4, 4, 2, 16), np.float32)
CACHES = {"key_share": CACHE, "value_share": CACHE}
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
    "key_share must have 2 dimensions (kv heads and elements merged) or 3 (apart), got shape "
    "[4, 4, 2, 16]": CACHES,
    "the caches of key_share and its values must have the same num_blocks, block_size and form, "
    "got shapes [4, 4, 2, 16] and [3, 4, 2, 16]": {
        **CACHES,
        "value_share": CACHE[:3],
        "share_block_table": [0, 1, 2],
    },
    "block_size of key_share must be from 1 to 512, got block_size=513": {
        **dict.fromkeys(CACHES, np.ones((1, 513, 2, 16), np.float32)),
        "share_block_table": [0],
    },
    "share_block_table must have 1 dimension, got shape [1, 3]": {
        **CACHES,
        "share_block_table": np.zeros((1, 3), np.int32),
    },
    "share_block_table entries in use must be in [0, num_blocks=4), got "
    "share_block_table[0][1]=4 (group 0, entry 1, 9 keys)": {
        **CACHES,
        "share_block_table": [0, 4, 1],
    },
    "share_block_table entries in use must be in [0, num_blocks=4), got "
    "share_block_table[0][2]=-1 (group 0, entry 2, 9 keys)": {
        **CACHES,
        "share_block_table": [0, 1, -1],
    },
    "share_block_table must have an entry for each block in use: group 0 has 9 keys in blocks of "
    "4, which needs 3 entries, got 2": {**CACHES, "share_block_table": [0, 1]},
    "packed must have at least 64 bytes, got shape [63]": {"packed": np.empty(63, np.uint8)},
    "packed must have dtype uint8, got int32": {"packed": np.empty(6000, np.int32)},
    "packed must have 1 dimension, got shape [8, 8]": {"packed": np.empty((8, 8), np.uint8)},
    "packed must have stride 1 in its last dimension, got 2": {
        "packed": np.empty(128, np.uint8)[::2]
    },
}


@pytest.mark.parametrize("message", PACK_ERRORS)
def test_pack_errors(message):
    share = np.ones((9, 2, 16), np.float32)
    right = {"key_share": share, "value_share": share, "kv_share_len": 9, "kv_head_num": 2}
    with pytest.raises(ValueError) as error:
        capi.pack_share(**{**right, **PACK_ERRORS[message]})
    assert str(error.value) == f"pack_share: {message}"
    assert capi.pack_share(**right).nbytes == HEADER_BYTES


def test_packed_one_byte_too_small(isa):
    args, keywords = step()
    packed = pack(args, keywords)
    for small in (packed[:-1], packed[:0]):
        before = small.copy()
        with pytest.raises(ValueError) as error:
            capi.pack_share(args[3][0], args[4][0], 100, kv_head_num=2, packed=small)
        text = f"packed must have at least {len(packed)} bytes, got shape [{len(small)}]"
        assert str(error.value) == f"pack_share: {text}"
        np.testing.assert_array_equal(small, before)


@pytest.mark.parametrize("name", ["key_share", "value_share"])
@pytest.mark.parametrize("head_size", [12, 584])
def test_pack_head_size(name, head_size):
    shares = dict.fromkeys(("key_share", "value_share"), np.ones((9, 2, 16), np.float32))
    shares[name] = np.ones((9, 2, head_size), np.float32)
    with pytest.raises(NotImplementedError) as error:
        capi.pack_share(**shares, kv_share_len=9, kv_head_num=2)
    assert str(error.value) == (
        f"pack_share: head_size of {name} must be a multiple of 8 from 8 to 576, got "
        f"head_size={head_size}"
    )


def test_pack_wants_a_table_of_ints():
    with pytest.raises(TypeError) as error:
        capi.pack_share(CACHE, CACHE, 9, kv_head_num=2, share_block_table=np.zeros(3, np.float32))
    assert str(error.value) == "pack_share: share_block_table must hold integers, got float32"


# dtype (bfloat16 is 3), kv_head_num, head_size, value_head_size, kv_share_len
SIZE_ERRORS = (
    ((4, 2, 16, 16, 9), "dtype must be float16, bfloat16 or float32, got int32"),
    ((99, 2, 16, 16, 9), "dtype must be float16, bfloat16 or float32, got unknown"),
    ((3, 0, 16, 16, 9), "kv_head_num must be greater than 0, got kv_head_num=0"),
    (
        (3, 2, 12, 16, 9),
        "head_size of key_share must be a multiple of 8 from 8 to 576, got head_size=12",
    ),
    (
        (3, 2, 16, 0, 9),
        "head_size of value_share must be a multiple of 8 from 8 to 576, got head_size=0",
    ),
    ((3, 2, 16, 16, -1), "kv_share_len must not be negative, got kv_share_len=-1"),
)


@pytest.mark.parametrize(("arguments", "message"), SIZE_ERRORS)
def test_size_errors(arguments, message):
    num_bytes = ctypes.c_uint64(77)
    get_size = _c_interface.functions().MsRelayPackShareGetSize
    with pytest.raises((ValueError, NotImplementedError)) as error:
        _c_interface.check(get_size(*arguments, ctypes.byref(num_bytes), None))
    assert str(error.value) == f"pack_share: {message}"
    assert num_bytes.value == 0


def test_size_that_does_not_fit(isa):
    arguments = (3, 2**31 - 1, 576, 576, 2**63 - 1)
    num_bytes = ctypes.c_uint64()
    get_size = _c_interface.functions().MsRelayPackShareGetSize
    status = get_size(*arguments, ctypes.byref(num_bytes), None)
    if not packs("bfloat16"):
        assert (status, num_bytes.value) == (_c_interface.OK, HEADER_BYTES)
        return
    with pytest.raises(ValueError) as error:
        _c_interface.check(status)
    assert str(error.value) == (
        "pack_share: a packed prefix must have less than 2^63 bytes, got "
        "kv_share_len=9223372036854775807 and kv_head_num=2147483647"
    )


@pytest.mark.parametrize("argument", ["kv_head_num", "kv_share_len"])
def test_pack_wants_ints(argument):
    share = np.ones((9, 2, 16), np.float32)
    right = {"kv_share_len": 9, "kv_head_num": 2}
    with pytest.raises(TypeError) as error:
        capi.pack_share(share, share, **{**right, argument: 1.5})
    assert str(error.value) == f"pack_share: {argument} must be an int, got 1.5"


def _with_other(change):
    """A packed prefix of a step that differs, and the right step."""

    def make(args, keywords):
        return [pack(*step(**{"num_keys": 100, **change}))]

    return make


def _foreign(array):
    return lambda args, keywords: [array]


def _with_bytes(offset, *values):
    """The right packed prefix, but for some bytes of its header."""

    def make(args, keywords):
        packed = pack(args, keywords)
        packed[offset : offset + len(values)] = values
        return [packed]

    return make


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
    # Headers that pack_share did not write: magic, version, dtype, kv_share_len.
    (f"{NOT_MADE_BY_PACK_SHARE} at packed_share[0]", _with_bytes(7, ord("Q"))),
    (f"{NOT_MADE_BY_PACK_SHARE} at packed_share[0]", _with_bytes(24, 2)),
    (
        PACKED_WITH.replace("got bfloat16", "got unknown") + "2, 16 and 16 at packed_share[0]",
        _with_bytes(28, 99),
    ),
    (
        "packed_share must be packed with kv_share_len[0]=100, got kv_share_len=-156 at "
        "packed_share[0]",
        _with_bytes(49, *(7 * [255])),
    ),
)


@pytest.mark.parametrize(("message", "make"), SHARE_ERRORS)
def test_share_errors(message, make):
    args, keywords = step()
    bad = make(args, keywords)
    with pytest.raises(ValueError) as error:
        capi.relay_attention(*args, **keywords, packed_share=bad)
    assert str(error.value) == f"relay_attention: {message}"
    assert_same_bits(args, keywords, [pack(args, keywords)])


def other_layout_error(wanted, got):
    return (
        "relay_attention: packed_share must be packed for the kernels in use, whose layout is "
        f"{wanted}, got layout {got} at packed_share[0]; pack the prefix again"
    )


def test_a_layout_that_does_not_end(isa):
    args, keywords = step()
    packed = pack(args, keywords)
    layout = layout_of(packed)
    packed[8:24] = ord("x")
    with pytest.raises(ValueError) as error:
        capi.relay_attention(*args, **keywords, packed_share=[packed])
    assert str(error.value) == other_layout_error(layout, 16 * "x")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_packed_with_another_dtype(dtype, isa):
    args, keywords = step()
    packed, other = pack(args, keywords), pack(*step(dtype=dtype))
    with pytest.raises(ValueError) as error:
        capi.relay_attention(*args, **keywords, packed_share=[other])
    if packs("bfloat16"):
        assert str(error.value) == other_layout_error(layout_of(packed), layout_of(other))
    else:
        what = PACKED_WITH.replace("got bfloat16", f"got {dtype}")
        assert str(error.value) == f"relay_attention: {what}2, 16 and 16 at packed_share[0]"
    assert_same_bits(args, keywords, [packed])


def test_the_group_of_an_error_is_named():
    share, own = random(50, 2, 16), random(3, 4, 2, 16)
    packed = [capi.pack_share(share, share, n, kv_head_num=2) for n in (50, 40, 41)]
    lengths = ([54, 44, 44], [0, 1, 2], [50, 40, 40])
    args = (random(3, 64), own, own, 3 * [share], 3 * [share], None, None, *lengths)
    with pytest.raises(ValueError) as error:
        capi.relay_attention(*args, head_num=4, kv_head_num=2, packed_share=packed)
    assert str(error.value) == (
        "relay_attention: packed_share must be packed with kv_share_len[2]=40, got kv_share_len=41 "
        "at packed_share[2]"
    )


def test_too_few_and_too_many_bytes(isa):
    args, keywords = step()
    packed = pack(args, keywords)
    for num_bytes in {1, 63, 64, 127, len(packed) - 1}:
        if num_bytes >= len(packed):
            continue  # a header is all where nothing is packed
        rule = NOT_MADE_BY_PACK_SHARE
        if num_bytes >= HEADER_BYTES:
            rule = f"packed_share must be whole, got {num_bytes} bytes"
        with pytest.raises(ValueError) as error:
            capi.relay_attention(*args, **keywords, packed_share=[packed[:num_bytes]])
        assert str(error.value) == f"relay_attention: {rule} at packed_share[0]"
    # As a caller has it who packs prefixes of several lengths into one array.
    assert_same_bits(args, keywords, [np.append(packed, np.full(99, 0xFF, np.uint8))])


def test_another_instruction_set():
    args, keywords = step()
    before = _library.isa_name()
    layouts = {}
    try:
        for isa in _library.available_isas():
            _library.set_isa(isa)
            packed = pack(args, keywords)
            layouts[isa] = layout_of(packed), packed
        for used, (layout, _) in layouts.items():
            _library.set_isa(used)
            for other, packed in layouts.values():
                if other == layout:
                    assert_same_bits(args, keywords, [packed])
                    continue
                with pytest.raises(ValueError) as error:
                    capi.relay_attention(*args, **keywords, packed_share=[packed])
                assert str(error.value) == other_layout_error(layout, other)
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


class Attend(nn.Cell):
    """The function, with all tensors and lists as inputs."""

    def construct(self, args, tables, packed):
        return mindspore_relay.relay_attention(
            *args,
            head_num=4,
            kv_head_num=2,
            qk_scale=0.25,
            return_lse=True,
            block_tables=tables[0],
            share_block_tables=tables[1],
            packed_share=packed,
            path="relay",
        )


def attend(problem, packed):
    """Attend on a Problem. Lists and tuples of a graph are inputs if they are mutable."""
    args, kwargs = modes.tensors_of(problem)
    args = tuple(mutable(arg) if isinstance(arg, list) else arg for arg in args)
    tables = (kwargs.get("block_tables"), kwargs.get("share_block_tables"))
    return tuple(map(to_numpy, Attend()(args, tables, mutable(packed))))


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_forms_in_mindspore(mode_name, form, dtype):
    """The second of three groups is not packed, the third is empty."""
    case = cases.RelayCase("packed", (5, 33, 0, 4), (0, 1, 0, 2), (90, 33, 0), form=form)
    problem = cases.build(case, dtype)
    expected = capi.relay_attention(*problem.args, **problem.kwargs, return_lse=True)
    key, value, key_share, value_share = problem.args[1:5]
    with mode(mode_name):
        packed = []
        for group, num_keys in enumerate(case.kv_share_len):
            if form == "paged":
                prefix, table = (key, value), problem.kwargs["share_block_tables"][group]
            else:
                prefix, table = (key_share[group], value_share[group]), None
            packed.append(
                mindspore_relay.pack_share(
                    *map(to_tensor, prefix),
                    num_keys,
                    kv_head_num=2,
                    share_block_table=None if table is None else ms.Tensor(table),
                )
            )
        for array, wanted in zip(packed, pack_groups(problem), strict=True):
            np.testing.assert_array_equal(array.asnumpy(), wanted)
        packed[1] = ms.Tensor(np.empty(0, np.uint8))
        modes.assert_same_bits(attend(problem, packed), expected, form)


@pytest.mark.parametrize("table", [[3, 0, 7], np.array([3, 0, 7])])
def test_kinds_of_tables_in_mindspore(table):
    cache = random(9, 16, 2, 16)
    expected = capi.pack_share(cache, cache, 43, kv_head_num=2, share_block_table=[3, 0, 7])
    pages = to_tensor(cache)
    with mode("pynative"):
        packed = mindspore_relay.pack_share(
            pages, pages, 43, kv_head_num=2, share_block_table=table
        )
    np.testing.assert_array_equal(packed.asnumpy(), expected)


class Pack(nn.Cell):
    def __init__(self, num_keys, kv_head_num):
        super().__init__()
        self.num_keys = num_keys
        self.kv_head_num = kv_head_num

    def construct(self, key_share, value_share, share_block_table):
        return mindspore_relay.pack_share(
            key_share,
            value_share,
            self.num_keys,
            kv_head_num=self.kv_head_num,
            share_block_table=share_block_table,
        )


# num_keys, kv_head_num, block table; the text
MINDSPORE_ERRORS = (
    (9, 3, None, "key_share must hold kv_head_num=3 heads per token, got shape [9, 2, 16]"),
    (9, 0, None, "kv_head_num must be greater than 0, got kv_head_num=0"),
    (
        *(10, 2, None),
        "key_share must have a row for each of kv_share_len=10 keys, got shape [9, 2, 16]",
    ),
    (-1, 2, None, "kv_share_len must not be negative, got kv_share_len=-1"),
    (9, 2, np.zeros(3, np.float32), "share_block_table must have dtype int32, got float32"),
    (
        *(9, 2, np.array([0, 1, 4], np.int32)),
        "share_block_table entries in use must be in [0, num_blocks=4), got "
        "share_block_table[0][2]=4 (group 0, entry 2, 9 keys)",
    ),
)


# One in graph mode: MindSpore waits 3 s when a graph fails.
@pytest.mark.parametrize(
    ("mode_name", "num_keys", "kv_head_num", "table", "text"),
    [("graph", *MINDSPORE_ERRORS[0]), *(("pynative", *error) for error in MINDSPORE_ERRORS)],
)
def test_pack_errors_in_mindspore(mode_name, num_keys, kv_head_num, table, text):
    share = ms.Tensor(np.ones((9, 2, 16), np.float32) if table is None else CACHE)
    table = None if table is None else ms.Tensor(table)
    with mode(mode_name):
        with pytest.raises(RuntimeError) as error:
            Pack(num_keys, kv_head_num)(share, share, table).asnumpy()
        assert text_of(error) == f"pack_share: {text}"
        right = None if table is None else ms.Tensor([0, 1, 2], ms.int32)
        assert Pack(9, 2)(share, share, right).shape == (HEADER_BYTES,)


def test_python_types_in_mindspore():
    share = to_tensor(random(9, 2, 16))
    with mode("pynative"):
        with pytest.raises(TypeError, match="pack_share: value_share must be a Tensor, got int"):
            mindspore_relay.pack_share(share, 1, 9, kv_head_num=2)
        with pytest.raises(
            TypeError,
            match="pack_share: kv_head_num must be an int, got 2.0",
        ):
            mindspore_relay.pack_share(share, share, 9, kv_head_num=2.0)
    with mode("graph"):
        with pytest.raises(TypeError, match="pack_share: kv_share_len must be an int, got 1.5"):
            Pack(1.5, 2)(share, share, None)


@pytest.mark.parametrize("mode_name", ["graph", "pynative"])
def test_share_errors_in_mindspore(mode_name):
    problem = cases.build(cases.RelayCase("packed", (5, 33), (0, 1), (90, 33)), "bfloat16")
    expected = capi.relay_attention(*problem.args, **problem.kwargs, return_lse=True)
    packed = [ms.Tensor(array) for array in pack_groups(problem)]
    one_for_each = "packed_share must be a list of one tensor for each of 2 groups, got "
    errors = (
        (packed[:1], f"{one_for_each}1"),
        (3 * packed[:1], f"{one_for_each}3"),
        (
            packed[::-1],
            "packed_share must be packed with kv_share_len[0]=90, got kv_share_len=33 at "
            "packed_share[0]",
        ),
        (
            [packed[0], ms.Tensor(np.ones((9, 9), np.uint8))],
            "packed_share must have 1 dimension, got shape [9, 9]",
        ),
        (
            [packed[0], ms.Tensor(np.ones(99, np.int32))],
            "packed_share must have dtype uint8, got int32",
        ),
        ([packed[0], packed[1][:63]], f"{NOT_MADE_BY_PACK_SHARE} at packed_share[1]"),
    )
    with mode(mode_name):
        for bad, text in errors if mode_name == "pynative" else errors[2:3]:
            with pytest.raises(RuntimeError) as error:
                attend(problem, bad)
            assert text_of(error) == f"relay_attention: {text}"
            modes.assert_same_bits(attend(problem, packed), expected, text)


# ---- C -------------------------------------------------------------------------------------------


def test_a_program_older_than_packed_share():
    """Its options have 32 bytes: what lies behind them is not looked at, the rest counts."""
    problem = cases.build(cases.RelayCase("old", (5, 9), (0, 0), (90,), form="paged"), "bfloat16")
    wrong = [np.zeros(HEADER_BYTES, np.uint8)]
    problem = problem._replace(kwargs={**problem.kwargs, "packed_share": wrong})
    with capi_harness.Operation() as operation:
        with pytest.raises(ValueError, match=NOT_MADE_BY_PACK_SHARE):
            operation.run(problem)
        operation.options_bytes = 32
        for path, number in (("relay", 1), ("plain", 2)):
            results = operation.run(problem, path=path)
            assert operation.path_of(0) == number
            problem.kwargs.pop("packed_share")
            expected = capi_harness.run(problem)
            problem.kwargs["packed_share"] = wrong
            modes.assert_same_bits(results, expected, path)


def test_struct_bytes_of_options():
    """32 bytes of the first version, 40 of this one. Others are those of programs to come, or
    none: bytes that the library does not know must be 0."""
    functions = _c_interface.functions()
    room = (ctypes.c_uint8 * 64)()
    options = _c_interface.MsRelayOptions.from_buffer(room)
    handle = ctypes.c_void_p()
    _c_interface.check(functions.MsRelayCreateOperation(ctypes.byref(handle), None))

    def set_options(num_bytes):
        options.struct_bytes = num_bytes
        _c_interface.check(functions.MsRelayOperationSetOptions(handle, ctypes.byref(options)))

    try:
        for num_bytes in (32, 36, 40, 44, 64):
            set_options(num_bytes)
        room[40] = 1
        set_options(40)
        with pytest.raises(NotImplementedError, match="options sets a field at byte 40"):
            set_options(44)
        room[32] = 1
        set_options(32)
        with pytest.raises(NotImplementedError, match="options sets a field at byte 32"):
            set_options(36)
        with pytest.raises(ValueError, match="struct_bytes"):
            set_options(31)
    finally:
        functions.MsRelayDestroyOperation(handle)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kv_share_len": 10**12}, "key_share must have a row for each of kv_share_len=10"),
        ({"kv_head_num": 2**30}, "key_share must hold kv_head_num=1073741824 heads per token"),
    ],
)
def test_nothing_is_allocated_for_more_than_there_is(change, text):
    share = random(100, 2, 16)
    right = {"kv_share_len": 100, "kv_head_num": 2}
    with pytest.raises(ValueError, match=f"pack_share: {text}"):
        capi.pack_share(share, share, **{**right, **change})
    tensor = to_tensor(share)
    with mode("pynative"), pytest.raises(RuntimeError, match=f"pack_share: {text}"):
        to_numpy(mindspore_relay.pack_share(tensor, tensor, **{**right, **change}))


def test_a_layout_of_any_bytes_is_told_in_words():
    """MindSpore makes no text of bytes that are not UTF-8."""
    args, keywords = step()
    packed = pack(args, keywords)
    packed[8:24] = np.arange(0xF0, 0x100)
    with pytest.raises(ValueError, match=r"got layout \?{16} at packed_share\[0\]"):
        capi.relay_attention(*args, **keywords, packed_share=[packed])


def test_one_tensor_is_no_list():
    share, query = to_tensor(random(100, 2, 16)), to_tensor(random(2, 64))
    own = to_tensor(random(2, 3, 2, 16))
    with pytest.raises(TypeError, match="packed_share must be a list of Tensors or None, got Tens"):
        mindspore_relay.relay_attention(
            query, own, own, [share], [share], None, None, [103, 103], [0, 0], [100],
            head_num=4, kv_head_num=2, packed_share=share,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_scores_past_float32_are_nan_on_every_path(dtype, isa):
    """Not a row without keys: a finite product, scaled, is infinite only then."""
    query, own, share = (
        from_float(np.full(shape, 1e4, np.float32), dtype)
        for shape in ((2, 4, 64), (2, 1, 1, 64), (64, 1, 64))
    )
    args = (query, own, own, [share], [share], None, None, [64, 64], [0, 0], [64])
    keywords = {"head_num": 4, "kv_head_num": 1, "qk_scale": 1e31}
    packed = capi.pack_share(share, share, 64, kv_head_num=1)
    for path, packed_share in itertools.product(PATHS, (None, [packed])):
        out, lse = capi.relay_attention(
            *args, **keywords, path=path, packed_share=packed_share, return_lse=True
        )
        assert np.isnan(to_float(out)).all() and np.isnan(lse).all(), path


@pytest.mark.parametrize("argument", ["kv_head_num", "kv_share_len"])
@pytest.mark.parametrize("value", [np.int32(2), True, 1.5])
def test_mindspore_wants_python_ints(argument, value):
    share = to_tensor(random(100, 2, 16))
    right = {"kv_share_len": 100, "kv_head_num": 2}
    with pytest.raises(TypeError, match=f"pack_share: {argument} must be an int, got"):
        mindspore_relay.pack_share(share, share, **{**right, argument: value})
