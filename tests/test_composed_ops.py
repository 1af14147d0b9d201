# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""reshape_and_cache and merge_attention_states as Ascend has them: composed of MindSpore's own
operators, here run on the CPU (which lacks some of them for bfloat16)."""

import ascend_device
import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from modes import assert_same_bits, mode
from test_cache_ops import SLOTS, expected_caches, make

from mindspore_relay import merge_attention_states, reference, reshape_and_cache
from mindspore_relay.bfloat16 import from_float, to_float, to_numpy, to_tensor

# -1 is skipped, and a slot may occur more than once: the last token stays.
SLOT_MAPPINGS = (
    SLOTS,
    np.full(5, -1, np.int32),
    np.array([11, 11, 11, 11, 0], np.int32),
    np.array([-1, -1, 3, -1, -1], np.int32),
    np.array([4, 3, 2, 1, 0], np.int32),
)


@pytest.fixture(autouse=True)
def device(monkeypatch):
    ascend_device.set_target(monkeypatch)


@pytest.mark.parametrize("slots", SLOT_MAPPINGS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "cache_dtype"), [("float16", "float16"), ("float32", "float16"), ("float32",) * 2]
)
def test_written_values(slots, dtype, cache_dtype):
    for is_flat, is_cache_flat in ((False, False), (True, True), (False, True)):
        arrays = make(dtype, cache_dtype, is_flat, is_cache_flat)
        expected = expected_caches(*arrays, slots)
        tensors = [to_tensor(array.copy()) for array in arrays]
        status = reshape_and_cache(*tensors, Tensor(slots))
        assert_same_bits(tuple(map(to_numpy, tensors[2:])), expected, "caches")
        assert_same_bits(to_numpy(status), np.zeros(1, np.int32), "status")


class CacheNet(nn.Cell):
    """Writes into its caches, ignores the status, and reads them."""

    def __init__(self, key_cache, value_cache):
        super().__init__()
        self.key_cache = Parameter(key_cache, name="key_cache")
        self.value_cache = Parameter(value_cache, name="value_cache")

    def construct(self, key, value, slot_mapping):
        reshape_and_cache(key, value, self.key_cache, self.value_cache, slot_mapping)
        return self.key_cache * 1, self.value_cache * 1


# A graph cannot see the values: a slot outside the caches is not written.
@pytest.mark.parametrize("slots", [*SLOT_MAPPINGS, np.array([99, 7, -3, 7, 12], np.int32)], ids=str)
def test_graph_writes_before_later_reads(slots):
    arrays = make("float32", "float16")
    is_inside = (slots >= 0) & (slots < 12)
    expected = expected_caches(*arrays, np.where(is_inside, slots, -1).astype(np.int32))
    key, value, key_cache, value_cache = [to_tensor(array.copy()) for array in arrays]
    with mode("graph"):
        net = CacheNet(key_cache, value_cache)
        read = net(key, value, Tensor(slots))
    assert_same_bits(tuple(map(to_numpy, read)), expected, "what is read")
    stored = (to_numpy(net.key_cache), to_numpy(net.value_cache))
    assert_same_bits(stored, expected, "caches")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": Tensor([0, 1, 2, 3, 12], ms.int32)}, r"slot_mapping\[4\] .* \[-1, 12\), got 12"),
        ({"slots": Tensor([-2, 1, 2, 3, 4], ms.int32)}, r"slot_mapping\[0\] .* got -2"),
        ({"slots": Tensor(SLOTS, ms.int64)}, "slot_mapping must be int32"),
        ({"slots": Tensor(SLOTS[:4])}, "key must have 4 tokens"),
        ({"key": Tensor(np.ones((5, 47)), ms.float32)}, "key must have 5 tokens .* 48 elements"),
        (
            {"value_cache": Tensor(np.ones((3, 5, 16)), ms.float32)},
            "key_cache and value_cache must have the same blocks",
        ),
        ({"value": Tensor(np.ones(5), ms.float32)}, "value must have rank 2 or 3"),
    ],
)
def test_errors_of_reshape_and_cache(change, message):
    arrays = make("float32", "float32")
    names = ("key", "value", "key_cache", "value_cache", "slots")
    arguments = dict(zip(names, [*map(to_tensor, arrays), Tensor(SLOTS)], strict=True))
    arguments.update(change)
    before = to_numpy(arguments["key_cache"]).copy()
    with pytest.raises(RuntimeError, match=f"reshape_and_cache: {message}"):
        reshape_and_cache(*arguments.values())
    assert_same_bits(to_numpy(arguments["key_cache"]), before, "nothing was written")


def states(dtype, is_flat):
    """Two results of 6 rows and 3 heads; an empty part's output is NaN. The lse of row r are those
    of LSE[r]."""
    random = np.random.default_rng(1)
    outs, lses = [], []
    for part in range(2):
        lse = np.repeat([[pair[part]] for pair in LSE], 3, axis=1).astype(np.float32)
        out = random.standard_normal((len(LSE), 3, 8))
        out[np.isinf(lse)] = np.nan
        outs.append(from_float(out.reshape(len(LSE), -1) if is_flat else out, dtype))
        lses.append(lse)
    return outs[0], lses[0], outs[1], lses[1]


INF = np.inf
LSE = ((0.0, 1.0), (-INF, 1.0), (1.0, INF), (-INF, INF), (1000.0, 999.0), (-1000.0, -1002.0))


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_merge(dtype, is_flat):
    arrays = states(dtype, is_flat)
    out, lse = map(to_numpy, merge_attention_states(*map(to_tensor, arrays)))
    expected, expected_lse = reference.merge_attention_states(*arrays)
    assert out.dtype == arrays[0].dtype and out.shape == arrays[0].shape
    # Half a unit in the last place of the result, and what is lost in between: exp of MindSpore's
    # CPU kernels is a few units of float32 off.
    unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    allowed = unit * np.abs(expected) + 16 * 2.0**-24
    assert (np.abs(to_float(out) - expected) <= allowed).all()
    assert np.isfinite(expected_lse).sum() == 15 and (lse[3] == -INF).all()
    # log too.
    np.testing.assert_allclose(lse, expected_lse, rtol=2.0**-23, atol=4 * 2.0**-23)


def test_merge_keeps_nan():
    for which in range(4):
        arrays = list(states("float32", False))
        arrays[which][0, 0] = np.nan
        out, lse = map(to_numpy, merge_attention_states(*map(to_tensor, arrays)))
        assert np.isnan(out[0, 0]).all() and np.isfinite(out[0, 1:]).all()
        assert np.isnan(lse[0, 0]) == (which in (1, 3)) and np.isfinite(lse[0, 1:]).all()


def test_merge_in_a_graph():
    class Net(nn.Cell):
        def construct(self, *args):
            return merge_attention_states(*args)

    tensors = [to_tensor(array) for array in states("float16", True)]
    expected = tuple(map(to_numpy, merge_attention_states(*tensors)))
    with mode("graph"):
        assert_same_bits(tuple(map(to_numpy, Net()(*tensors))), expected, "graph")


def test_errors_of_merge():
    out_a, lse_a, out_b, lse_b = map(to_tensor, states("float32", False))
    for arguments, message in (
        ((out_a, lse_a, out_b[:5], lse_b), "out_a and out_b must have one shape"),
        (
            (out_a, lse_a, out_b.astype(ms.float16), lse_b),
            "out_a and out_b must have one shape and dtype",
        ),
        ((out_a, lse_a, out_b, lse_b[:, :2]), "lse_a and lse_b must be float32 of one shape"),
        ((out_a, lse_a, out_b, lse_b.astype(ms.float16)), "lse_a and lse_b must be float32"),
        ((out_a, lse_a[:, :2], out_b, lse_b[:, :2]), r"out_a must be \(num_tokens"),
    ):
        with pytest.raises(RuntimeError, match=f"merge_attention_states: {message}"):
            merge_attention_states(*arguments)
