# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch user would write by hand, each with keys and values in its fastest order.

relay torch           two calls of the flash kernel that returns lse, and a merge
relay torch_matmul    matrix products and softmax for the prefix, the flash kernel for the rest
plain torch           scaled_dot_product_attention, each request with a copy of the prefix
prefix_encoder torch  two flash calls (cached keys, new keys causal) and a merge
"""

import numpy as np
import torch
from torch.nn import functional

from bench.head_major import HeadMajorPool, kv_shapes, request_keys_values
from bench.worker import Call, Family

# Every request with a copy of the prefix: problems that need more are left out.
MAX_JOINED_BYTES = 1250 << 20

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def merge(out_a, lse_a, out_b, lse_b):
    """Joins results over different keys. out (..., rows, head_size); lse (..., rows)."""
    weight_b = torch.sigmoid(lse_b - lse_a).unsqueeze(-1)
    return torch.lerp(out_a.float(), out_b.float(), weight_b).to(out_a.dtype)


def relay_rows(problem, query):
    """Rows of all requests under their kv head: (kv_head_num, batch * rows, head_size)."""
    rows = query.view(problem.batch, problem.kv_head_num, -1, problem.head_size)
    return rows.transpose(0, 1).reshape(problem.kv_head_num, -1, problem.head_size)


def own_rows(problem, query):
    """(batch, kv_head_num, heads_per_kv_head, head_size)."""
    return query.view(problem.batch, problem.kv_head_num, -1, problem.head_size)


def _rows_per_request(problem, out, lse):
    """The inverse of relay_rows, for a result and its lse."""
    p = problem
    out = out.view(p.kv_head_num, p.batch, -1, p.head_size).transpose(0, 1)
    return out, lse.view(p.kv_head_num, p.batch, -1).transpose(0, 1)


def flash_relay(problem, query, share, own):
    scale = problem.head_size**-0.5
    rows = relay_rows(problem, query).unsqueeze(0)
    out_a, lse_a = _flash(rows, share[0].unsqueeze(0), share[1].unsqueeze(0), scale=scale)
    return _with_own(problem, query, out_a, lse_a, own)


def matmul_relay(problem, query, share, own):
    rows = relay_rows(problem, query) * problem.head_size**-0.5
    scores = torch.bmm(rows, share[0].transpose(1, 2)).float()
    lse_a = torch.logsumexp(scores, dim=-1)
    out_a = torch.bmm(torch.exp(scores - lse_a.unsqueeze(-1)).to(rows.dtype), share[1])
    return _with_own(problem, query, out_a, lse_a, own)


def _with_own(problem, query, out_a, lse_a, own):
    out_a, lse_a = _rows_per_request(problem, out_a, lse_a)
    out_b, lse_b = _flash(own_rows(problem, query), *own, scale=problem.head_size**-0.5)
    return merge(out_a, lse_a, out_b, lse_b)


def sdpa_plain(problem, query, joined):
    return functional.scaled_dot_product_attention(own_rows(problem, query), *joined)


def flash_prefill(problem, query, cached, new):
    """query (batch, q_len, head_num, head_size); keys (batch, kv_head_num, n, head_size)."""
    p = problem
    scale = p.head_size**-0.5
    rows = query.view(p.batch, p.q_len, p.kv_head_num, p.heads_per_kv_head, p.head_size)
    # (batch, kv_head_num, heads_per_kv_head, q_len, head_size)
    rows = rows.permute(0, 2, 3, 1, 4).contiguous()
    by_kv_head = rows.view(p.batch, p.kv_head_num, -1, p.head_size)
    out_a, lse_a = _flash(by_kv_head, *cached, scale=scale)
    # Causal needs one head's rows alone; a kv head is a batch entry, its query heads share it.
    by_head = rows.view(-1, p.heads_per_kv_head, p.q_len, p.head_size)
    shape = (-1, p.heads_per_kv_head, -1, -1)
    new = [a.view(-1, 1, p.q_len, p.head_size).expand(shape) for a in new]
    out_b, lse_b = _flash(by_head, *new, is_causal=True, scale=scale)
    out = merge(out_a.reshape(out_b.shape), lse_a.reshape(lse_b.shape), out_b, lse_b)
    out = out.view(p.batch, p.head_num, p.q_len, p.head_size)
    return out.transpose(1, 2)  # (batch, q_len, head_num, head_size)


FUNCTIONS = {
    ("relay", "torch"): (flash_relay, False),
    ("relay", "torch_matmul"): (matmul_relay, False),
    ("plain", "torch"): (sdpa_plain, True),
    ("prefix_encoder", "torch"): (flash_prefill, False),
}


class _TorchCall(Call):
    def __init__(self, family, function, is_joined):
        self._family, self._function = family, function
        self._pairs = family.take(is_joined)
        self._tensors = [tuple(map(family.to_torch, pair)) for pair in self._pairs]
        self._output = None

    def run(self):
        family = self._family
        self._output = self._function(family.problem, family.query, *self._tensors)

    def output(self):
        output = self._output.contiguous()
        if output.dtype == torch.bfloat16:
            output = output.view(torch.uint16)
        p = self._family.problem
        return output.numpy().reshape(p.num_tokens, p.head_num, p.head_size)

    def keys_values(self, request):
        return request_keys_values(self._pairs, request)


class Torch(Family):
    def __init__(self, num_threads, pool_bytes):
        torch.set_num_threads(num_threads)
        self.versions = {"torch": torch.__version__}
        self._pool_bytes = pool_bytes
        self._pool = None

    def set_problem(self, problem, query):
        self.problem = problem
        self.query = self.to_torch(query)
        joined_bytes = problem.batch * problem.kv_len * problem.token_bytes
        with_joined = problem.is_decode and joined_bytes <= MAX_JOINED_BYTES
        num_rows = self._shapes(with_joined)[1]
        if self._pool is None or not self._pool.fits(problem, num_rows):
            self._pool = None
            needed = num_rows * problem.token_bytes // problem.kv_head_num
            self._pool = HeadMajorPool(problem, max(self._pool_bytes, needed))
        variants = [v for v in FUNCTIONS if (v[0] == "prefix_encoder") != problem.is_decode]
        return [v for v in variants if v[0] != "plain" or with_joined]

    def prepare(self, op, impl):
        return _TorchCall(self, *FUNCTIONS[op, impl])

    def copies(self, op, impl):
        # A request's copy of the prefix makes plain read far more than relay: each rotates alone.
        return self._pool.copies(self.problem, self._shapes(FUNCTIONS[op, impl][1])[1])

    def take(self, is_joined):
        return self._pool.take(self._shapes(is_joined)[0])

    def _shapes(self, is_joined):
        """What kv_shapes says; the prefix of a prefill belongs to each request."""
        p = self.problem
        if p.is_decode:
            return kv_shapes(p, is_joined)
        shapes = [(p.batch, p.kv_head_num, n, p.head_size) for n in (p.prefix, p.q_len)]
        return shapes, sum(int(np.prod(shape[:-1])) for shape in shapes)

    @staticmethod
    def to_torch(array):
        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if array.dtype == np.uint16 else tensor


def create(num_threads, pool_bytes):
    return Torch(num_threads, pool_bytes)
