# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""How many bytes the library packs a prefix into; for every interface to it."""

import ctypes

from mindspore_relay._c_interface import OK, functions


def packed_share_bytes(dtype, key_shape, value_shape, num_blocks, kv_head_num, kv_share_len):
    """Bytes of a packed prefix with the instruction set in use.

    Args:
        dtype: number of an MsRelayDType.
        key_shape, value_shape: of key_share and value_share.
        num_blocks: entries of the block table where these are caches; else None.
        kv_head_num, kv_share_len: ints.

    Returns:
        int; 0 for arguments that break a rule, which the library names when it is asked to pack:
        nothing is allocated for more keys or heads than there are.
    """
    is_paged = num_blocks is not None
    num_leading = 2 if is_paged else 1
    if len(key_shape) < num_leading + 1:
        return 0
    num_rows = num_blocks * key_shape[1] if is_paged else key_shape[0]
    if kv_share_len > num_rows or kv_head_num > key_shape[num_leading]:
        return 0
    num_bytes = ctypes.c_uint64()
    status = functions().MsRelayPackShareGetSize(
        dtype,
        kv_head_num,
        _head_size(key_shape, is_paged, kv_head_num),
        _head_size(value_shape, is_paged, kv_head_num),
        kv_share_len,
        ctypes.byref(num_bytes),
        None,
    )
    return num_bytes.value if status == OK else 0


def _head_size(shape, is_paged, kv_head_num):
    rank_of_merged_heads = 3 if is_paged else 2
    size = shape[-1] if shape else 0
    if len(shape) == rank_of_merged_heads:
        size //= max(kv_head_num, 1)
    return min(size, 2**31 - 1)
