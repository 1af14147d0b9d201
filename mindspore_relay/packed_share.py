# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Prefixes packed once for many decode steps."""

from mindspore import ops

from mindspore_relay import _c_interface
from mindspore_relay._arguments import (
    as_int32,
    check_optional_tensors,
    check_tensors,
    empty_tensor,
)
from mindspore_relay._custom_ops import is_on_ascend, primitive_of
from mindspore_relay._operation import check_int
from mindspore_relay._packed_share import packed_share_bytes

_DTYPE_NUMBERS = {name.capitalize(): number for number, name in _c_interface.DTYPE_NAMES.items()}
_DTYPE_NUMBERS["BFloat16"] = _DTYPE_NUMBERS.pop("Bfloat16")


def pack_share(key_share, value_share, kv_share_len, *, kv_head_num, share_block_table=None):
    """Packs the keys and values of a prefix once, for the `packed_share` of `relay_attention`.

    The tile kernels transpose keys, and pair values, before they compute with them. A prefix is the
    same in every step: packed when it is made, it spares each step that work. The result of
    `relay_attention` is the same to the bit.

    What is gained depends on the instruction set in use and the dtype: bfloat16 with AMX, and with
    AVX-512 BF16 on AMD, up to a fifth of a step (docs/packed_prefix.md). For everything else
    nothing is packed: the result is 64 bytes that say so, and `relay_attention` reads the keys and
    values themselves. A packed prefix takes about as many bytes as its keys and values, which are
    still needed. It serves the instruction set that was in use, and must be made anew when keys or
    values change.

    Args:
        key_share, value_share: (rows, kv_head_num, head_size) or (rows, kv_head_num * head_size);
            or caches (num_blocks, block_size, ...) with `share_block_table`. float16, bfloat16 or
            float32. value_share may have a head size of its own.
        kv_share_len: int, keys of the prefix.
        kv_head_num: int, number of key and value heads.
        share_block_table: (max_blocks,), int32: cache blocks of the prefix; also a list of ints or
            a NumPy array. None: not paged.

        In a graph, shapes must be static and the ints constants.

    Returns:
        (bytes,), uint8.

    Raises:
        TypeError: an argument is no Tensor (or int, or None, where allowed).
        RuntimeError: another rule is broken; or the device target is Ascend, whose kernels read
            keys and values as they lie.

    Example:
        >>> share = Tensor(np.ones((100, 2, 16)), mstype.bfloat16)
        >>> packed_share = [pack_share(share, share, 100, kv_head_num=2)]
        >>> query = Tensor(np.ones((2, 4 * 16)), mstype.bfloat16)
        >>> key = Tensor(np.ones((2, 3, 2, 16)), mstype.bfloat16)
        >>> relay_attention(query, key, key, [share], [share], None, None, [103, 101], [0, 0],
        ...                 [100], head_num=4, kv_head_num=2, packed_share=packed_share).shape
        (2, 64)
    """
    op = "pack_share"
    table = as_int32(op, "share_block_table", share_block_table)
    check_tensors(op, ("key_share", "value_share"), (key_share, value_share))
    check_optional_tensors(op, ("share_block_table",), (table,))
    if is_on_ascend():
        raise RuntimeError(f"{op}: device_target must be CPU, got Ascend")
    carrier = _packed_carrier(
        op,
        key_share.dtype,
        key_share.shape,
        value_share.shape,
        None if table is None else table.shape[0],
        kv_head_num,
        kv_share_len,
    )
    return primitive_of(op)(carrier, key_share, value_share, table, kv_head_num, kv_share_len)


@ops.constexpr
def _packed_carrier(op, dtype, key_shape, value_shape, num_blocks, kv_head_num, kv_share_len):
    """The empty tensor (0, packed_bytes): see ops/aot/infer.h. At least one byte: MindSpore does
    not run an operator whose output is empty, and its error would not be told."""
    num_bytes = packed_share_bytes(
        _DTYPE_NUMBERS.get(str(dtype), 0),
        key_shape,
        value_shape,
        num_blocks,
        _check_constant(op, "kv_head_num", kv_head_num, 32),
        _check_constant(op, "kv_share_len", kv_share_len, 64),
    )
    return empty_tensor(0, max(num_bytes, 1))


def _check_constant(op, argument, value, bits):
    """A Python int: the primitive takes nothing else, and what a graph computes is not known."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{op}: {argument} must be an int, got {value!r}")
    return check_int(op, argument, value, bits)
