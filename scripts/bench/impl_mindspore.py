# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole calls from MindSpore: this project's operators, and what its own operators can do.

    relay mindspore_relay.graph      ops.Custom in a graph that holds nothing else
    relay mindspore_relay.pynative   the function in PyNative mode
    prefix_encoder ...               the same two
    relay mindspore_composed         matrix products, softmax and merge by hand, as a graph
    plain mindspore_composed         each request with a copy of the prefix, as a graph
Every call ends with the result as a NumPy array.
"""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

import mindspore_relay
from bench.head_major import HeadMajorPool, kv_shapes, request_keys_values
from bench.kv_pool import PagedStep
from bench.worker import Call, Family
from mindspore_relay import _library
from mindspore_relay.bfloat16 import to_numpy

# The composed forms take seconds and gigabytes beyond: keys and values of all requests, in bytes.
MAX_COMPOSED_BYTES = 400 << 20


def to_tensor(array):
    """Tensor over the memory of a storage array; never a view, which PyNative would copy whole."""
    if array.dtype == np.uint16:
        bfloat16 = ms.Tensor([0.0], ms.bfloat16).asnumpy().dtype
        array = array.view(bfloat16)
    return ms.Tensor.from_numpy(array)


class RelayNet(nn.Cell):
    """relay_attention over a paged cache."""

    def __init__(self, problem):
        super().__init__()
        self.head_num, self.kv_head_num = problem.head_num, problem.kv_head_num
        self.qk_scale = problem.head_size**-0.5

    def construct(self, query, key, value, lengths, block_tables, share_block_tables):
        kv_seq_len, kv_share_map, kv_share_len = lengths
        return mindspore_relay.relay_attention(
            query,
            key,
            value,
            None,
            None,
            None,
            None,
            kv_seq_len,
            kv_share_map,
            kv_share_len,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            block_tables=block_tables,
            share_block_tables=share_block_tables,
        )


class PrefillNet(nn.Cell):
    """prefix_encoder, causal."""

    def __init__(self, problem):
        super().__init__()
        self.head_num, self.kv_head_num = problem.head_num, problem.kv_head_num
        self.qk_scale = problem.head_size**-0.5

    def construct(self, query, key, value, lengths, block_tables, share_block_tables):
        seq_len, kv_seq_len = lengths
        return mindspore_relay.prefix_encoder(
            query,
            key,
            value,
            block_tables,
            None,
            seq_len,
            kv_seq_len,
            None,
            mask_type=mindspore_relay.MaskType.CAUSAL,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
        )


class ComposedNet(nn.Cell):
    """Attention of MindSpore's own operators: products in dtype, softmax in float32.

    bfloat16 has no matrix product on the CPU: it is computed in float32.
    """

    def __init__(self, problem):
        super().__init__()
        self.problem = problem
        self.dtype = ms.float16 if problem.dtype == "fp16" else ms.float32
        self.scale = problem.head_size**-0.5
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.weighted = ops.BatchMatMul()
        self.largest = ops.ReduceMax(keep_dims=True)

    def attend(self, rows, key, value):
        """(..., rows, head_size), unnormalised, float32; row maximum and row sum (..., rows, 1)."""
        key, value = ops.cast(key, self.dtype), ops.cast(value, self.dtype)
        scores = ops.cast(self.scores(rows, key), ms.float32) * self.scale
        row_max = self.largest(scores, -1)
        weights = ops.exp(scores - row_max)
        out = ops.cast(self.weighted(ops.cast(weights, self.dtype), value), ms.float32)
        return out, row_max, weights.sum(axis=-1, keepdims=True)

    def own_rows(self, query):
        """(batch, kv_head_num, heads_per_kv_head, head_size), computing dtype."""
        p = self.problem
        rows = ops.cast(query, self.dtype)
        return ops.reshape(rows, (p.batch, p.kv_head_num, p.heads_per_kv_head, p.head_size))


class ComposedRelay(ComposedNet):
    def construct(self, query, key_share, value_share, key, value):
        p = self.problem
        rows = self.own_rows(query)
        joint = ops.reshape(ops.transpose(rows, (1, 0, 2, 3)), (p.kv_head_num, -1, p.head_size))
        parts = []
        for part in self.attend(joint, key_share, value_share):
            part = ops.reshape(part, (p.kv_head_num, p.batch, p.heads_per_kv_head, -1))
            parts.append(ops.transpose(part, (1, 0, 2, 3)))
        out_a, max_a, sum_a = parts
        out_b, max_b, sum_b = self.attend(rows, key, value)
        row_max = ops.maximum(max_a, max_b)
        factor_a, factor_b = ops.exp(max_a - row_max), ops.exp(max_b - row_max)
        out = out_a * factor_a + out_b * factor_b
        return ops.cast(out / (sum_a * factor_a + sum_b * factor_b), query.dtype)


class ComposedPlain(ComposedNet):
    def construct(self, query, key, value):
        out, _, row_sum = self.attend(self.own_rows(query), key, value)
        return ops.cast(out / row_sum, query.dtype)


class _NetCall(Call):
    """A net, its inputs, and the mode that it runs in."""

    def __init__(self, net, inputs, mode, keys_values, query_shape):
        self._net, self._inputs, self._mode = net, inputs, mode
        self._query_shape = query_shape
        self._result = None
        self.keys_values = keys_values

    def run(self):
        if ms.get_context("mode") != self._mode:
            ms.set_context(mode=self._mode)
        self._result = to_numpy(self._net(*self._inputs))

    def output(self):
        return self._result.reshape(self._query_shape)


class MindSpore(Family):
    def __init__(self, num_threads, pool_bytes):
        ms.set_device("CPU")
        _library.set_num_threads(num_threads)
        self.versions = {"mindspore": ms.__version__}
        self._pool_bytes = pool_bytes
        self._pool = self._flat = None

    def set_problem(self, problem, query):
        self.problem = problem
        self._query_shape = query.shape
        self._query = to_tensor(query.reshape(query.shape[0], -1))
        joined_bytes = problem.batch * problem.kv_len * problem.token_bytes
        with_composed = problem.is_decode and joined_bytes <= MAX_COMPOSED_BYTES
        self._set_pools(joined_bytes if with_composed else 0)
        op = "relay" if problem.is_decode else "prefix_encoder"
        net = RelayNet if problem.is_decode else PrefillNet
        self._nets = {
            (op, "mindspore_relay.graph"): net(problem),
            (op, "mindspore_relay.pynative"): net(problem),
        }
        if with_composed:
            self._nets["relay", "mindspore_composed"] = ComposedRelay(problem)
            self._nets["plain", "mindspore_composed"] = ComposedPlain(problem)
        return list(self._nets)

    def prepare(self, op, impl):
        net = self._nets[op, impl]
        mode = ms.PYNATIVE_MODE if impl.endswith(".pynative") else ms.GRAPH_MODE
        if impl == "mindspore_composed":
            shapes, _ = kv_shapes(self.problem, op == "plain")
            pairs = self._flat.take(shapes)
            inputs = [to_tensor(array) for pair in pairs for array in pair]

            def keys_values(request):
                return request_keys_values(pairs, request)
        else:
            step = PagedStep(self._pool, self.problem)
            tables = (to_tensor(step.own_blocks), to_tensor(step.share_blocks[None]))
            inputs = [*self._caches, self._lengths, *tables]
            keys_values = step.keys_values
        return _NetCall(net, [self._query, *inputs], mode, keys_values, self._query_shape)

    def copies(self, op, impl):
        if impl != "mindspore_composed":
            return self._pool.copies(self.problem)
        return self._flat.copies(self.problem, kv_shapes(self.problem, op == "plain")[1])

    def _set_pools(self, min_bytes):
        """Caches of at least min_bytes, and lengths; the head-major pool shares their memory."""
        p = self.problem
        min_rows = min_bytes * p.kv_head_num // p.token_bytes
        if self._flat is None or not self._flat.fits(p, min_rows):
            self._pool = self._flat = self._caches = None
            self._flat = HeadMajorPool(p, max(self._pool_bytes, min_bytes))
            self._pool = self._flat.pool
            shape = (self._pool.num_blocks, *self._pool.patterns[0].shape[1:])
            self._caches = [to_tensor(a.reshape(shape)) for a in (self._flat.key, self._flat.value)]
        kv_seq_len = np.full(p.batch, p.kv_len, np.int32)
        if p.is_decode:
            lengths = (kv_seq_len, np.zeros(p.batch, np.int32), np.array([p.prefix], np.int32))
        else:
            lengths = (np.full(p.batch, p.q_len, np.int32), kv_seq_len)
        self._lengths = ms.mutable(tuple(map(to_tensor, lengths)))


def create(num_threads, pool_bytes):
    return MindSpore(num_threads, pool_bytes)
