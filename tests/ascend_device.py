# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""An Ascend device for tests: the CPU library behind the interface of the device operators.

A StandIn takes what MindSpore would hand to aclnnRelayAttention or aclnnPrefixEncoder, in that
order, and calls the CPU operator. Results are right only if every argument is in its place.
"""

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindspore_relay import _ascend_ops, _ascend_primitives, _custom_ops
from mindspore_relay._arguments import shape_carrier


def use(monkeypatch):
    """From here on operators of this thread run on the stand-in. Returns the list of StandIns."""
    made = []

    def make(op, head_num):
        made.append(StandIn(op, head_num))
        return made[-1]

    set_target(monkeypatch)
    monkeypatch.setattr(_ascend_primitives, "check_environment", lambda op: None)
    monkeypatch.setattr(_ascend_primitives, "_make_primitive", make)
    return made


def set_target(monkeypatch):
    """The device target is Ascend, and no operator has been used on it yet."""
    monkeypatch.setattr(_custom_ops._thread_state, "target", "Ascend")
    monkeypatch.setattr(_ascend_primitives._thread_state, "primitives", {})
    _ascend_ops._device_call.cache_clear()


class StandIn(nn.Cell):
    """A device operator, made of the CPU operator `op`."""

    def __init__(self, op, head_num):
        super().__init__()
        self.op = op
        self.head_num = head_num
        self.cpu = _custom_ops._make_cpu_primitive(_custom_ops._OPERATORS[op])

    def construct(self, *args):
        if self.op == "relay_attention":
            return self.relay_attention(*args)
        return self.prefix_encoder(*args)

    def relay_attention(
        self,
        query,
        keys,
        values,
        key_shares,
        value_shares,
        attention_mask,
        block_tables,
        share_block_tables,
        seq_len,
        kv_seq_len,
        kv_share_map,
        kv_share_len,
        head_num,
        qk_scale,
        kv_head_num,
        mask_type,
    ):
        counts = (len(keys), len(values), len(key_shares), len(value_shares), 0)
        width = query.shape[-1] // (head_num if len(query.shape) == 2 else 1)
        width = width * (kv_head_num if kv_head_num > 0 else head_num)
        # The pair of key and value, and that of the groups: 1 + 2 and 4 + 8 if they are stacked.
        stacked = 3 * is_stacked(keys[0].shape, len(keys), len(kv_seq_len), width)
        stacked = stacked + 12 * is_stacked(
            key_shares[0].shape, len(key_shares), len(kv_share_len), width
        )
        return self.cpu(
            shape_carrier(self.op, self.head_num, True, *counts),
            query,
            keys[0],
            values[0],
            *keys,
            *values,
            *key_shares,
            *value_shares,
            attention_mask,
            int32(seq_len),
            int32(kv_seq_len),
            int32(kv_share_map),
            int32(kv_share_len),
            block_tables,
            share_block_tables,
            15 if block_tables is not None else stacked,
            head_num,
            kv_head_num,
            qk_scale,
            mask_type,
            0,
        )

    def prefix_encoder(
        self,
        query,
        key,
        value,
        block_tables,
        mask,
        slopes,
        seq_len,
        kv_seq_len,
        mask_type,
        head_num,
        kv_head_num,
        qk_scale,
    ):
        return self.cpu(
            shape_carrier(self.op, self.head_num, True),
            query,
            key,
            value,
            block_tables,
            mask,
            int32(seq_len),
            int32(kv_seq_len),
            slopes,
            mask_type,
            head_num,
            kv_head_num,
            qk_scale,
        )


@ops.constexpr
def int32(values):
    assert isinstance(values, tuple) and values, values
    return Tensor(values, ms.int32)


@ops.constexpr
def is_stacked(shape, num_tensors, num_sources, width):
    """The device's rule (IsStacked in relay_attention_tiling_core.cpp), as 0 or 1."""
    is_listed = shape[-1] == width if len(shape) == 3 else len(shape) == 4
    return int(num_tensors == 1 and shape[0] == num_sources and is_listed)
