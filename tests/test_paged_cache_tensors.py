# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""PagedKVCache with its MindSpore Parameters: copies reach what compiled graphs read."""

import mindspore as ms
import modes
import numpy as np
import pytest
from mindspore import nn, ops

from mindspore_relay.paged_cache import PagedKVCache

DTYPES = ("float16", "bfloat16", "float32")


def make_cache(**kwargs):
    kwargs = {"num_layers": 2, "kv_head_num": 2, "head_size": 8, **kwargs}
    return PagedKVCache(num_blocks=8, block_size=4, **kwargs)


@pytest.fixture(params=["graph", "pynative"])
def mode(request):
    with modes.mode(request.param):
        yield request.param


def _reader(parameter):
    """A net that reads the whole Parameter, as float32."""

    class Reader(nn.Cell):
        def __init__(self):
            super().__init__()
            self.parameter = parameter

        def construct(self, scale):
            return ops.cast(self.parameter, ms.float32) * scale

    net = Reader()
    return lambda: net(ms.Tensor(1.0)).asnumpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors(dtype):
    cache = make_cache(dtype=dtype, value_head_size=16)
    cache.create_tensors()
    assert [p.shape for p in cache.key_caches] == [(8, 4, 2, 8)] * 2
    assert [p.shape for p in cache.value_caches] == [(8, 4, 2, 16)] * 2
    parameters = [*cache.key_caches, *cache.value_caches]
    assert {p.dtype for p in parameters} == {getattr(ms, dtype)}
    assert len({p.name for p in parameters}) == 4
    assert not any(p.requires_grad for p in parameters)
    assert all((p.asnumpy().astype(np.float32) == 0).all() for p in parameters)
    with pytest.raises(RuntimeError, match="the tensors exist already"):
        cache.create_tensors()


@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_on_write_reaches_what_operators_read(dtype, mode):
    """The net reads before and after: a copy into memory of its own would not be seen."""
    cache = make_cache(dtype=dtype)
    cache.create_tensors()
    parameters = [*cache.key_caches, *cache.value_caches]
    readers = [_reader(parameter) for parameter in parameters]
    prefix = cache.allocate(6)
    prefix_blocks = cache.block_tables(prefix)[0].tolist()
    written = np.arange(1, 9).reshape(1, 1, 8)  # exact in every dtype
    for number, (parameter, read) in enumerate(zip(parameters, readers, strict=True)):
        parameter.asnumpy()[prefix_blocks] = written * (number + 1)
        assert (read()[prefix_blocks] == written * (number + 1)).all()
    request = cache.share(prefix)
    (source, destination), *_ = cache.append(request, 1).block_copies
    for number, read in enumerate(readers):
        contents = read()
        for block in range(8):
            is_written = block in prefix_blocks or block == destination
            expected = written * (number + 1) if is_written else 0
            np.testing.assert_array_equal(contents[block], np.broadcast_to(expected, (4, 2, 8)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_copy_by_operators(dtype, mode, monkeypatch):
    """What devices other than the CPU get; on the CPU these operators have no bfloat16."""
    cache = make_cache(dtype=dtype, num_layers=1)
    cache.create_tensors()
    read = _reader(cache.key_caches[0])
    read()
    contents = np.arange(8 * 4 * 2 * 8).reshape(8, 4, 2, 8) % 512
    cache.key_caches[0].asnumpy()[...] = contents
    monkeypatch.setattr(ms, "get_context", lambda name: "Ascend")
    cache.copy_blocks([(1, 5), (1, 6), (2, 7)])
    monkeypatch.undo()
    np.testing.assert_array_equal(read(), contents[[0, 1, 2, 3, 4, 1, 1, 2]])
