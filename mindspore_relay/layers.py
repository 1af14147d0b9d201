# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The two attention operators as Cells that hold their constants.

A Cell in graph mode takes a list or tuple of tensors that is an argument of the whole graph for a
constant, and compiles anew at each call. Wrap it: `cell(query, mutable(keys), ...)`.
"""

from mindspore import nn

from mindspore_relay.masks import MaskType
from mindspore_relay.operators import prefix_encoder, relay_attention


class RelayAttention(nn.Cell):
    """`relay_attention` with fixed heads: called with that function's tensors, in its order.

    Args:
        head_num: int, number of query heads.
        head_size: int, elements per head of query and key; it only gives qk_scale its default.
        kv_head_num: int, number of key and value heads. 0 means head_num.
        qk_scale: float, factor on query . key. None: head_size ** -0.5.
        return_lse: bool, whether lse is returned too.
        path: "auto", "relay" or "plain".

    Example:
        >>> attention = RelayAttention(head_num=4, head_size=16, kv_head_num=2)
        >>> query = Tensor(np.ones((2, 4 * 16)), mstype.float16)
        >>> key = Tensor(np.ones((2, 3, 2 * 16)), mstype.float16)
        >>> lengths = Tensor([3, 1], mstype.int32)
        >>> no_group = Tensor([-1, -1], mstype.int32)
        >>> attention(query, key, key, None, None, None, None, lengths, no_group, None).shape
        (2, 64)
    """

    def __init__(
        self, head_num, head_size, kv_head_num=0, qk_scale=None, return_lse=False, *, path="auto"
    ):
        super().__init__()
        self.head_num = head_num
        self.kv_head_num = kv_head_num
        self.qk_scale = head_size**-0.5 if qk_scale is None else float(qk_scale)
        self.return_lse = return_lse
        self.path = path

    def construct(
        self,
        query,
        key,
        value,
        key_share,
        value_share,
        attention_mask,
        seq_len,
        kv_seq_len,
        kv_share_map,
        kv_share_len,
        block_tables=None,
        share_block_tables=None,
        packed_share=None,
    ):
        return relay_attention(
            query,
            key,
            value,
            key_share,
            value_share,
            attention_mask,
            seq_len,
            kv_seq_len,
            kv_share_map,
            kv_share_len,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            return_lse=self.return_lse,
            block_tables=block_tables,
            share_block_tables=share_block_tables,
            packed_share=packed_share,
            path=self.path,
        )


class PrefixEncoderAttention(nn.Cell):
    """`prefix_encoder` with fixed heads and mask type: called with its tensors, in its order.

    Args:
        head_num: int, number of query heads.
        head_size: int, elements per head of query and key; it only gives qk_scale its default.
        kv_head_num: int, number of key and value heads. 0 means head_num.
        qk_scale: float, factor on query . key. None: head_size ** -0.5.
        mask_type: a MaskType.
        return_lse: bool, whether lse is returned too.

    Example:
        >>> attention = PrefixEncoderAttention(head_num=4, head_size=16, kv_head_num=2)
        >>> cache = Tensor(np.ones((8, 16, 2 * 16)), mstype.float16)
        >>> query = Tensor(np.ones((7, 4 * 16)), mstype.float16)
        >>> block_tables = Tensor([[0, 1], [0, 2]], mstype.int32)
        >>> seq_len = Tensor([3, 4], mstype.int32)
        >>> kv_seq_len = Tensor([19, 20], mstype.int32)
        >>> attention(query, cache, cache, block_tables, None, seq_len, kv_seq_len, None).shape
        (7, 64)
    """

    def __init__(
        self,
        head_num,
        head_size,
        kv_head_num=0,
        qk_scale=None,
        mask_type=MaskType.CAUSAL,
        return_lse=False,
    ):
        super().__init__()
        self.head_num = head_num
        self.kv_head_num = kv_head_num
        self.qk_scale = head_size**-0.5 if qk_scale is None else float(qk_scale)
        # A plain int: a graph knows no enum.
        self.mask_type = int(mask_type)
        self.return_lse = return_lse

    def construct(
        self,
        query,
        key,
        value,
        block_tables,
        mask,
        seq_len,
        kv_seq_len,
        slopes,
    ):
        return prefix_encoder(
            query,
            key,
            value,
            block_tables,
            mask,
            seq_len,
            kv_seq_len,
            slopes,
            mask_type=self.mask_type,
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            return_lse=self.return_lse,
        )
