# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""reshape_and_cache: what is written, where, in both modes, and how graphs order it."""

import capi_harness
import mindspore as ms
import numpy as np
import pytest
from cases import DTYPES
from mindspore import Parameter, Tensor, nn, ops
from modes import assert_same_bits, mode
from sparse_memory import sparse_array

from mindspore_relay import reference, reshape_and_cache
from mindspore_relay.bfloat16 import bfloat16_values, from_float, to_numpy, to_tensor

NUM_BLOCKS, BLOCK_SIZE, KV_HEAD_NUM, HEAD_SIZE, VALUE_HEAD_SIZE = 3, 4, 2, 24, 8
# -1 is skipped; 7 occurs twice: the later token stays; 11 is the last slot.
SLOTS = np.array([7, -1, 0, 11, 7], np.int32)

each_dtype_pair = pytest.mark.parametrize(
    ("dtype", "cache_dtype"), [(a, b) for a in DTYPES for b in DTYPES]
)
each_layout = pytest.mark.parametrize("is_flat", [False, True], ids=["apart", "flat"])


def make(dtype, cache_dtype, is_flat=False, is_cache_flat=False):
    """key, value, key_cache, value_cache: values that need rounding, and special ones."""
    random = np.random.default_rng(0)
    num_tokens = len(SLOTS)
    tokens, caches = [], []
    for size in (HEAD_SIZE, VALUE_HEAD_SIZE):
        token = random.standard_normal((num_tokens, KV_HEAD_NUM, size))
        token[0, 0, :6] = [np.inf, -np.inf, 1e-7, -0.0, 65519.0, 65520.0]
        tokens.append(from_float(token.reshape(num_tokens, -1) if is_flat else token, dtype))
        cache = random.standard_normal((NUM_BLOCKS, BLOCK_SIZE, KV_HEAD_NUM, size))
        cache = cache.reshape(NUM_BLOCKS, BLOCK_SIZE, -1) if is_cache_flat else cache
        caches.append(from_float(cache, cache_dtype))
    return (*tokens, *caches)


def expected_caches(key, value, key_cache, value_cache, slots=SLOTS):
    caches = key_cache.copy(), value_cache.copy()
    reference.reshape_and_cache(key, value, *caches, slots)
    return caches


@each_dtype_pair
@each_layout
@pytest.mark.parametrize("is_cache_flat", [False, True], ids=["cache_apart", "cache_flat"])
def test_written_values_of_each_isa(isa, dtype, cache_dtype, is_flat, is_cache_flat):
    arrays = make(dtype, cache_dtype, is_flat, is_cache_flat)
    expected = expected_caches(*arrays)
    capi_harness.reshape_and_cache(*arrays, SLOTS)
    assert_same_bits(arrays[2:], expected, "caches")


def test_nan_stays_nan(isa):
    for dtype, cache_dtype in [(a, b) for a in DTYPES for b in DTYPES]:
        arrays = make(dtype, cache_dtype)
        nan = {"float32": np.nan, "float16": np.nan, "bfloat16": 0x7F81}[dtype]  # a signalling one
        arrays[0][0, 0, 0] = nan
        capi_harness.reshape_and_cache(*arrays, np.array([5, -1, -1, -1, -1], np.int32))
        written = arrays[2][1, 1, 0, 0]
        is_nan = (written & 0x7FFF) > 0x7F80 if cache_dtype == "bfloat16" else np.isnan(written)
        assert is_nan, (dtype, cache_dtype)


def test_caches_may_be_views_of_one_array(isa):
    key, value, key_cache, _ = make("float32", "float16")
    value = np.concatenate([value] * 3, axis=2)
    pair = np.stack([key_cache, key_cache], axis=1)
    caches = pair[:, 0], pair[:, 1]
    expected = expected_caches(key, value, *caches)
    capi_harness.reshape_and_cache(key, value, *caches, SLOTS)
    assert_same_bits(tuple(map(np.ascontiguousarray, caches)), expected, "caches")


def test_number_of_threads_does_not_matter(isa, num_threads):
    num_tokens = 2000  # enough bytes for several threads
    random = np.random.default_rng(1)
    slots = random.integers(-1, 500, num_tokens).astype(np.int32)  # each slot about four times
    key = random.standard_normal((num_tokens, 256)).astype(np.float32)
    cache = np.zeros((125, 4, 256), np.float16)
    expected = expected_caches(key, key, cache, cache, slots)
    for threads in (1, 2, 3, 8):
        num_threads(threads)
        caches = cache.copy(), cache.copy()
        capi_harness.reshape_and_cache(key, key, *caches, slots)
        assert_same_bits(caches, expected, f"{threads} threads")


@each_dtype_pair
@pytest.mark.parametrize("mode_name", ["pynative", "graph"])
def test_mindspore(mode_name, dtype, cache_dtype):
    arrays = make(dtype, cache_dtype)
    expected = expected_caches(*arrays)
    with mode(mode_name):
        key, value = map(to_tensor, arrays[:2])
        caches = [Parameter(_owned_tensor(cache)) for cache in arrays[2:]]
        call = reshape_and_cache if mode_name == "pynative" else _Write()
        status = call(key, value, *caches, Tensor(SLOTS))
        assert status.shape == (1,) and status.dtype == ms.int32 and int(status[0]) == 0
        assert_same_bits(tuple(map(to_numpy, caches)), expected, mode_name)


def test_no_tokens():
    for mode_name, call in (("pynative", reshape_and_cache), ("graph", _Write())):
        arrays = make("float32", "float16")
        none = [Tensor(array[:0].copy()) for array in arrays[:2]]
        caches = [Tensor(cache.copy()) for cache in arrays[2:]]
        with mode(mode_name):
            status = call(*none, *caches, Tensor(SLOTS[:0].copy()))
            assert int(status[0]) == 0
        assert_same_bits(tuple(map(to_numpy, caches)), arrays[2:], mode_name)


def _owned_tensor(array):
    """A tensor with memory of its own: not a view, which could not be written."""
    if array.dtype == np.uint16:
        return Tensor(bfloat16_values(array), ms.bfloat16)
    return Tensor(array)


class _Write(nn.Cell):
    def construct(self, *args):
        return reshape_and_cache(*args)


# ---- views: MindSpore hands over a copy ----------------------------------------------------------


def _views():
    base = np.zeros((2, 3, 4, 8), np.float32)
    yield "element", Tensor(base)[1], (3, 4, 8)
    yield "slice", Tensor(base[0])[0:2], (2, 4, 8)
    yield "strided", Tensor(np.zeros((3, 4, 2, 8), np.float32))[:, :, 0], (3, 4, 8)
    yield "reshape", Tensor(base).reshape(6, 4, 8), (6, 4, 8)
    yield "parameter", Parameter(Tensor(base)[1]), (3, 4, 8)


@pytest.mark.parametrize("which", ["key_cache", "value_cache"])
def test_a_view_is_refused_in_pynative_mode(which):
    key = Tensor(np.ones((1, 8), np.float32))
    slots = Tensor([2], ms.int32)
    with mode("pynative"):
        for name, view, shape in _views():
            caches = {"key_cache": ops.zeros(shape), "value_cache": ops.zeros(shape), which: view}
            with pytest.raises(
                RuntimeError, match=f"reshape_and_cache: {which} must not be a view"
            ):
                reshape_and_cache(key, key, *caches.values(), slots)
            assert (view.asnumpy() == 0).all(), name
            assert all((cache.asnumpy() == 0).all() for cache in caches.values()), name


def test_tensors_of_every_origin_are_taken_in_pynative_mode():
    key = Tensor(np.ones((1, 8), np.float32))
    slots = Tensor([2], ms.int32)
    zeros = np.zeros((3, 4, 8), np.float32)
    with mode("pynative"):
        base = Tensor(np.zeros((2, 3, 4, 8), np.float32))
        origins = {
            "NumPy": Tensor(zeros.copy()),
            "from_numpy": Tensor.from_numpy(zeros.copy()),
            "operator": ops.zeros((3, 4, 8)) + 0,
            "copy of a view": base[1].copy(),
            "Parameter": Parameter(Tensor(zeros.copy())),
            "moved Parameter": Parameter(Tensor(zeros.copy())),
        }
        origins["moved Parameter"].set_data(ops.zeros((3, 4, 8)))
        for name, cache in origins.items():
            other = ops.zeros((3, 4, 8))
            for _ in range(2):  # the second call finds the tensor where the first left it
                reshape_and_cache(key, key, cache, other, slots)
            assert cache.asnumpy().sum() == 8 and other.asnumpy().sum() == 8, name


# ---- order in a graph ----------------------------------------------------------------------------


class _Steps(nn.Cell):
    """Reads and writes a cache in turn; no status is used."""

    def __init__(self, cache):
        super().__init__()
        self.cache = Parameter(cache, name="cache", requires_grad=False)

    def construct(self, key, slots):
        before = self.cache.sum()
        reshape_and_cache(key, key, self.cache, self.cache, slots)
        between = self.cache.sum()
        reshape_and_cache(key, key, self.cache, self.cache, slots + 1)
        reshape_and_cache(key, key, self.cache, self.cache, slots + 2)
        return before, between, self.cache.sum()


@pytest.mark.parametrize("mode_name", ["pynative", "graph"])
def test_writes_happen_in_the_order_of_the_program(mode_name):
    with mode(mode_name):
        net = _Steps(Tensor(np.zeros((2, 4, 8), np.float32)))
        key, slots = Tensor(np.ones((1, 8), np.float32)), Tensor([1], ms.int32)
        assert [float(x) for x in net(key, slots)] == [0, 8, 24]
        assert [float(x) for x in net(key, slots)] == [24, 24, 24]
        assert net.cache.asnumpy().sum() == 24


def test_a_parameter_may_be_written_by_both_modes_in_turn():
    net = _Steps(Tensor(np.zeros((2, 4, 8), np.float32)))
    key = Tensor(np.ones((1, 8), np.float32))
    for mode_name, slot, total in (("pynative", 0, 8), ("graph", 1, 32), ("pynative", 5, 40)):
        with mode(mode_name):
            slots = Tensor([slot], ms.int32)
            if mode_name == "graph":
                net(key, slots)
            else:
                reshape_and_cache(key, key, net.cache, net.cache, slots)
        assert net.cache.asnumpy().sum() == total, mode_name


def test_key_and_value_cache_of_more_elements_than_32_bits_count():
    num_blocks = 2**32 // (4 * 1024) + 2
    caches = [sparse_array((num_blocks, 4, 1024), np.float16) for _ in "kv"]
    key = np.arange(2 * 1024, dtype=np.float32).reshape(2, 1024) % 251
    slots = np.array([4 * num_blocks - 1, 2**21 - 1], np.int32)
    with mode("pynative"):
        tensors = [Tensor.from_numpy(cache) for cache in caches]
        reshape_and_cache(Tensor(key), Tensor(-key), *tensors, Tensor(slots))
    for cache, sign in zip(caches, (1, -1), strict=True):
        tokens = cache.reshape(-1, 1024)
        assert_same_bits(tokens[slots], (sign * key).astype(np.float16), "written")
        assert not tokens[[0, 4 * num_blocks - 2, 2**21 - 2, 2**21]].any()
