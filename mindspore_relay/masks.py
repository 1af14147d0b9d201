# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Mask types, the ALiBi masks and slopes that belong to them, and checks of a mask's content.

NumPy only. A mask of dtype bfloat16 is a uint16 array of bit patterns (`mindspore_relay.bfloat16`).
"""

from enum import IntEnum

import numpy as np

from mindspore_relay.bfloat16 import dtype_name, from_float, to_float


class MaskType(IntEnum):
    """Mask types, with the values of the operator documents.

    Use the names, not the numbers: another public header numbers the three compressed ALiBi masks
    one higher (4, 5, 6). A mask whose content belongs to another type is therefore an error
    (`check_alibi_mask`), not a different bias.

    UNDEFINED: no mask; the only type of relay_attention.
    NORM: named by the documents; no operator of this package takes it.
    ALIBI_COMPRESS: bias slope * (p - j) for query position p and key position j.
    ALIBI_COMPRESS_SQRT: bias slope * sqrt(p - j).
    ALIBI_COMPRESS_LEFT_ALIGN: bias slope * j.
    CAUSAL: no bias, no mask tensor.
    """

    UNDEFINED = 0
    NORM = 1
    ALIBI_COMPRESS = 3
    ALIBI_COMPRESS_SQRT = 4
    ALIBI_COMPRESS_LEFT_ALIGN = 5
    CAUSAL = 9


ALIBI_MASK_TYPES = (
    MaskType.ALIBI_COMPRESS,
    MaskType.ALIBI_COMPRESS_SQRT,
    MaskType.ALIBI_COMPRESS_LEFT_ALIGN,
)

# Rows and columns of a compressed mask, and columns of a mask with one bias per head. Both fixed by
# the documents.
COMPRESSED_MASK_SIZE = 256
MASK_128_COLUMNS = 128


def alibi_slopes(head_num, mask_type=MaskType.ALIBI_COMPRESS_LEFT_ALIGN):
    """ALiBi slopes of `head_num` heads (Press, Smith, Lewis: Train Short, Test Long, section 3).

    For a power of two n, slope h is 2 ** (-8 * (h + 1) / n). For other numbers: the slopes of the
    power of two below, then every second slope, from the first, of the power of two above.

    Args:
        head_num: number of query heads of the whole model. Under tensor parallelism take the rows
            of this array that belong to the rank's heads.
        mask_type: gives the sign: positive for ALIBI_COMPRESS_LEFT_ALIGN, negative for
            ALIBI_COMPRESS and ALIBI_COMPRESS_SQRT.

    Returns:
        (head_num,), float32.

    Example:
        >>> alibi_slopes(4)
        array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
        >>> alibi_slopes(3, MaskType.ALIBI_COMPRESS)
        array([-0.0625    , -0.00390625, -0.25      ], dtype=float32)
    """
    _check_alibi_type("alibi_slopes", mask_type)
    if head_num < 1:
        raise ValueError(f"alibi_slopes: head_num must be at least 1, got {head_num}")
    power = 2 ** (int(head_num).bit_length() - 1)
    slopes = _geometric_slopes(power)
    if power < head_num:
        slopes = np.concatenate([slopes, _geometric_slopes(2 * power)[0::2][: head_num - power]])
    sign = 1.0 if mask_type == MaskType.ALIBI_COMPRESS_LEFT_ALIGN else -1.0
    return (sign * slopes).astype(np.float32)


def make_alibi_mask(mask_type, head_num, dtype="float16"):
    """The compressed mask of a mask type, and the slopes that go with it.

    Args:
        mask_type: ALIBI_COMPRESS, ALIBI_COMPRESS_SQRT or ALIBI_COMPRESS_LEFT_ALIGN.
        head_num: number of query heads.
        dtype: 'float16', 'bfloat16' (uint16 bit patterns) or 'float32'.

    Returns:
        mask (256, 256) of dtype, slopes (head_num,) float32.

    Example:
        >>> mask, slopes = make_alibi_mask(MaskType.ALIBI_COMPRESS, head_num=12)
        >>> mask.shape, mask.dtype, slopes.shape
        ((256, 256), dtype('float16'), (12,))
        >>> mask[2, :4]  # distances, and what is behind the diagonal
        array([ 2.,  1.,  0., inf], dtype=float16)
    """
    _check_alibi_type("make_alibi_mask", mask_type)
    return from_float(_compressed_mask(mask_type), dtype), alibi_slopes(head_num, mask_type)


def make_alibi_mask_128(head_num, num_rows, dtype="float16", slopes=None):
    """The 3-D mask of ALIBI_COMPRESS: one finished bias per head, 128 columns, no slopes.

    Entry [h][r][c] is the bias of head h for a key in column c of its 128-key piece and a query
    that sits r positions after the first key of that piece: slopes[h] * (r - c), rounded to dtype;
    -inf above the diagonal.

    Args:
        head_num: number of query heads.
        num_rows: at least the longest kv_seq_len that the mask is used with.
        dtype: 'float16', 'bfloat16' (uint16 bit patterns) or 'float32'.
        slopes: (head_num,), all <= 0; `alibi_slopes(head_num, MaskType.ALIBI_COMPRESS)` if None.

    Returns:
        (head_num, num_rows, 128) of dtype.
    """
    if slopes is None:
        slopes = alibi_slopes(head_num, MaskType.ALIBI_COMPRESS)
    slopes = check_slopes(slopes, MaskType.ALIBI_COMPRESS, head_num, op="make_alibi_mask_128")
    distance = np.arange(num_rows)[:, None] - np.arange(MASK_128_COLUMNS)
    bias = slopes.astype(np.float64)[:, None, None] * distance
    return from_float(np.where(distance >= 0, bias, -np.inf), dtype)


def check_alibi_mask(mask, mask_type, op="prefix_encoder"):
    """Checks that a compressed mask has the form that `mask_type` fixes.

    Args:
        mask: (256, 256), float16, float32 or uint16 (bfloat16 bit patterns).
        mask_type: ALIBI_COMPRESS, ALIBI_COMPRESS_SQRT or ALIBI_COMPRESS_LEFT_ALIGN.
        op: name of the operator, for the messages.

    Raises:
        ValueError: wrong shape; content of another mask type (named in the message); content of no
            mask type (the message names the first wrong entry).
    """
    _check_alibi_type(op, mask_type)
    mask_type = MaskType(mask_type)
    shape = np.shape(mask)
    if shape != (COMPRESSED_MASK_SIZE, COMPRESSED_MASK_SIZE):
        raise ValueError(
            f"{op}: mask of {mask_type.name} must have shape "
            f"({COMPRESSED_MASK_SIZE}, {COMPRESSED_MASK_SIZE}), got {shape}"
        )
    wrong = first_wrong_entry(mask, mask_type)
    if wrong is None:
        return
    row, column = wrong
    for other in ALIBI_MASK_TYPES:
        if other != mask_type and first_wrong_entry(mask, other) is None:
            raise ValueError(
                f"{op}: mask_type is {mask_type.name} ({mask_type.value}) but the content of mask "
                f"fits "
                f"{other.name} ({other.value}); another public header numbers these masks one "
                f"higher, so pass MaskType.{other.name}"
            )
    expected = _compressed_mask(mask_type)[row, column]
    got = to_float(mask)[row, column]
    raise ValueError(
        f"{op}: mask[{row}][{column}] of {mask_type.name} must be {expected:.6g}, got {got:.6g}; "
        f"make_alibi_mask makes the mask of a mask_type"
    )


def first_wrong_entry(mask, mask_type):
    """(row, column) of the first entry of a (256, 256) mask that is not `mask_type`'s, or None.

    Distances and columns are whole numbers up to 255, exact in every dtype. Square roots are
    rounded, and by more than one way: they may be away from the root (rounded to float32, or to
    float64 for such a mask) by the relative difference below: one unit in the last place of a
    16-bit dtype, two of the others, at a power of two. The CPU operators' C++ check allows the
    same.
    """
    name = dtype_name(mask)
    compared = np.float64 if name == "float64" else np.float32
    values = to_float(mask, compared)
    expected = _compressed_mask(mask_type).astype(compared)
    is_right = values == expected
    if mask_type == MaskType.ALIBI_COMPRESS_SQRT:
        epsilon = {
            "float16": 2.0**-10,
            "bfloat16": 2.0**-7,
            "float32": 2.0**-22,
            "float64": 2.0**-51,
        }[name]
        finite = np.isfinite(expected)
        difference = np.abs(values[finite] - expected[finite])
        is_right[finite] = difference <= compared(epsilon) * expected[finite]
    wrong = np.argwhere(~is_right)
    return (int(wrong[0][0]), int(wrong[0][1])) if len(wrong) else None


def check_slopes(slopes, mask_type, head_num, op="prefix_encoder"):
    """Checks slopes: shape (head_num,), finite, and the sign that `mask_type` needs.

    A slope of the wrong sign would turn the masked corner of the mask into +inf, and make far keys
    weigh most.

    Returns:
        The slopes as float32.
    """
    slopes = np.asarray(slopes, dtype=np.float32)
    if slopes.shape != (head_num,):
        raise ValueError(
            f"{op}: slopes must have shape (head_num,) = ({head_num},), got {slopes.shape}"
        )
    is_left_align = mask_type == MaskType.ALIBI_COMPRESS_LEFT_ALIGN
    is_wrong = ~np.isfinite(slopes) | ((slopes < 0) if is_left_align else (slopes > 0))
    for head in np.flatnonzero(is_wrong):
        raise ValueError(
            f"{op}: slopes of {MaskType(mask_type).name} must be finite and "
            f"{'>= 0' if is_left_align else '<= 0'}, got slopes[{head}]={slopes[head]:g}"
        )
    return slopes


def _geometric_slopes(head_num):
    return 2.0 ** (-8.0 * np.arange(1, head_num + 1) / head_num)


def _compressed_mask(mask_type):
    """The exact mask, (256, 256) float64."""
    rows, columns = np.mgrid[0:COMPRESSED_MASK_SIZE, 0:COMPRESSED_MASK_SIZE]
    distance = rows - columns
    if mask_type == MaskType.ALIBI_COMPRESS:
        return np.where(distance >= 0, distance, np.inf)
    if mask_type == MaskType.ALIBI_COMPRESS_SQRT:
        return np.where(distance >= 0, np.sqrt(np.maximum(distance, 0)), np.inf)
    return np.where(distance >= 0, columns, -np.inf)


def _check_alibi_type(op, mask_type):
    if mask_type in ALIBI_MASK_TYPES:
        return
    names = ", ".join(f"{t.name} ({t.value})" for t in ALIBI_MASK_TYPES)
    hint = (
        "; another public header numbers these masks one higher: "
        "its 6 is MaskType.ALIBI_COMPRESS_LEFT_ALIGN"
        if mask_type == MaskType.ALIBI_COMPRESS_LEFT_ALIGN + 1
        else ""
    )
    raise ValueError(f"{op}: mask_type must be one of {names}, got {mask_type!r}{hint}")
