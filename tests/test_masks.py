# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Mask types, ALiBi masks and slopes, and what the checks of a mask's content say."""

import doctest

import cases
import numpy as np
import pytest

from mindspore_relay import capi, masks
from mindspore_relay.bfloat16 import from_float, to_float
from mindspore_relay.masks import (
    ALIBI_MASK_TYPES,
    MaskType,
    alibi_slopes,
    check_alibi_mask,
    check_slopes,
    first_wrong_entry,
    make_alibi_mask,
    make_alibi_mask_128,
)

DISTANCE, SQRT, LEFT_ALIGN = ALIBI_MASK_TYPES


def test_values_are_those_of_the_documents():
    assert {t.name: t.value for t in MaskType} == {
        "UNDEFINED": 0,
        "NORM": 1,
        "ALIBI_COMPRESS": 3,
        "ALIBI_COMPRESS_SQRT": 4,
        "ALIBI_COMPRESS_LEFT_ALIGN": 5,
        "CAUSAL": 9,
    }


# ---- slopes --------------------------------------------------------------------------------------


def test_slopes_of_a_power_of_two():
    np.testing.assert_array_equal(alibi_slopes(8), [2.0**-i for i in range(1, 9)])
    np.testing.assert_array_equal(alibi_slopes(1), [2.0**-8])


@pytest.mark.parametrize("head_num, power", [(12, 8), (40, 32), (66, 64), (3, 2)])
def test_slopes_of_other_numbers_interleave(head_num, power):
    """The slopes of the power of two below, then the odd ones of the power of two above."""
    exponents = [8 * (i + 1) / power for i in range(power)]
    exponents += [8 * (2 * i + 1) / (2 * power) for i in range(head_num - power)]
    expected = [2.0**-e for e in exponents]
    np.testing.assert_allclose(alibi_slopes(head_num), expected, rtol=1e-7)


def test_slopes_have_the_sign_of_the_mask_type():
    magnitude = alibi_slopes(12)
    assert magnitude.dtype == np.float32
    np.testing.assert_array_equal(alibi_slopes(12, LEFT_ALIGN), magnitude)
    np.testing.assert_array_equal(alibi_slopes(12, DISTANCE), -magnitude)
    np.testing.assert_array_equal(alibi_slopes(12, SQRT), -magnitude)


def test_slopes_refuse_what_has_none():
    with pytest.raises(ValueError, match="alibi_slopes: head_num must be at least 1, got 0"):
        alibi_slopes(0)
    with pytest.raises(ValueError, match="alibi_slopes: mask_type must be one of .*CAUSAL"):
        alibi_slopes(8, MaskType.CAUSAL)


# ---- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize(
    "mask_type, below, above",
    [
        (DISTANCE, lambda r, c: r - c, np.inf),
        (SQRT, lambda r, c: (r - c) ** 0.5, np.inf),
        (LEFT_ALIGN, lambda r, c: c, -np.inf),
    ],
)
def test_compressed_mask(mask_type, below, above, dtype):
    mask, slopes = make_alibi_mask(mask_type, 5, dtype)
    values = to_float(mask)
    tolerance = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    assert values.shape == (256, 256)
    for r, c in [(0, 0), (1, 0), (2, 0), (255, 0), (255, 254), (255, 255), (100, 37)]:
        assert values[r, c] == pytest.approx(below(r, c), rel=tolerance, abs=0)
    for r, c in [(0, 1), (0, 255), (254, 255), (37, 100)]:
        assert values[r, c] == above
    np.testing.assert_array_equal(slopes, alibi_slopes(5, mask_type))
    check_alibi_mask(mask, mask_type)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_mask_of_128_columns(dtype):
    mask = to_float(make_alibi_mask_128(8, 300, dtype))
    assert mask.shape == (8, 300, 128)
    assert mask[0, 10, 4] == -0.5 * 6  # slope of head 0 is -1/2
    assert mask[7, 299, 43] == -(2.0**-8) * 256
    assert mask[3, 127, 127] == 0
    assert (mask[:, 0, 1:] == -np.inf).all()
    assert np.isfinite(mask[:, 127:]).all()


def test_mask_of_128_columns_takes_slopes():
    mask = make_alibi_mask_128(2, 4, "float32", slopes=[-1.0, 0.0])
    np.testing.assert_array_equal(mask[:, 3, :4], [[-3, -2, -1, 0], [0, 0, 0, 0]])
    with pytest.raises(ValueError, match=r"make_alibi_mask_128: slopes of ALIBI_COMPRESS .*\[1\]"):
        make_alibi_mask_128(2, 4, "float32", slopes=[-1.0, 0.5])


# ---- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("given", ALIBI_MASK_TYPES)
@pytest.mark.parametrize("named", ALIBI_MASK_TYPES)
def test_numbering_trap(given, named, dtype):
    """A mask under another type's number is refused, and the message says whose mask it is."""
    mask, _ = make_alibi_mask(given, 1, dtype)
    if given == named:
        check_alibi_mask(mask, named)
        return
    message = (
        rf"mask_type is {named.name} \({named.value}\) but .* fits {given.name} \({given.value}\)"
    )
    with pytest.raises(ValueError, match=message):
        check_alibi_mask(mask, int(named))


def test_number_six_of_the_other_numbering():
    mask, _ = make_alibi_mask(LEFT_ALIGN, 1)
    with pytest.raises(ValueError, match=r"got 6; .* its 6 is MaskType.ALIBI_COMPRESS_LEFT_ALIGN"):
        check_alibi_mask(mask, 6)


@pytest.mark.parametrize("mask_type", ALIBI_MASK_TYPES)
@pytest.mark.parametrize("entry", [(0, 0), (255, 0), (255, 255), (0, 255), (100, 37)])
def test_first_wrong_entry_is_named(mask_type, entry):
    mask, _ = make_alibi_mask(mask_type, 1)
    wrong = mask.copy()
    wrong[entry] = 0.25  # no mask type has it anywhere
    wrong[entry[0] + 1 :, 200] = 0.25  # wrong too, but later
    assert first_wrong_entry(wrong, mask_type) == entry
    with pytest.raises(ValueError, match=rf"mask\[{entry[0]}\]\[{entry[1]}\] .* got 0.25"):
        check_alibi_mask(wrong, mask_type)


@pytest.mark.parametrize("mask_type", ALIBI_MASK_TYPES)
@pytest.mark.parametrize("value", [np.nan, 65504.0, -10000.0])
def test_only_infinity_is_right_above_the_diagonal(mask_type, value):
    mask, _ = make_alibi_mask(mask_type, 1)
    mask[3, 4] = value
    assert first_wrong_entry(mask, mask_type) == (3, 4)


def test_square_roots_may_be_rounded_another_way():
    """One unit in the last place off is a rounding, more is not."""
    mask, _ = make_alibi_mask(SQRT, 1, "float16")
    bits = mask.view(np.uint16)
    for difference, expected in [(1, None), (-1, None), (3, (200, 7))]:
        changed = bits.copy()
        changed[200, 7] = int(bits[200, 7]) + difference
        assert first_wrong_entry(changed.view(np.float16), SQRT) == expected


def is_taken_by_the_library(mask, dtype):
    """Whether the C++ check of prefix_encoder takes a square-root mask."""
    query, cache = from_float(np.zeros((1, 1, 8)), dtype), from_float(np.zeros((1, 1, 1, 8)), dtype)
    table, slopes = np.zeros((1, 1), np.int32), np.zeros(1, np.float32)
    args = (query, cache, cache, table, mask, [1], [1], slopes)
    try:
        capi.prefix_encoder(*args, mask_type=SQRT, head_num=1)
    except ValueError as error:
        assert "mask must have the content" in str(error) and "[255][" in str(error)
        return False
    return True


@pytest.mark.parametrize(
    "dtype, last_allowed_at_two", [("float32", 2), ("float16", 1), ("bfloat16", 1)]
)
def test_square_roots_are_taken_as_the_library_takes_them(dtype, last_allowed_at_two):
    """Roots at the begin, in the middle and at the end of a binade, some units away from right."""
    mask, _ = make_alibi_mask(SQRT, 1, dtype)
    bits = mask.view(np.uint32 if dtype == "float32" else np.uint16)
    for distance in (1, 2, 3, 4, 5, 15, 16, 17, 63, 200, 255):
        for difference in range(-5, 6):
            changed = bits.copy()
            changed[255, 255 - distance] += difference
            changed = changed.view(mask.dtype)
            is_right = first_wrong_entry(changed, SQRT) is None
            assert is_right == is_taken_by_the_library(changed, dtype), (distance, difference)
            if distance == 4 and difference >= 0:
                assert is_right == (difference <= last_allowed_at_two)


@pytest.mark.parametrize("shape", [(256, 255), (255, 256), (512, 512), (513, 513), (4, 256, 256)])
def test_wrong_shape(shape):
    message = r"mask of ALIBI_COMPRESS must have shape \(256, 256\), got \(" + str(shape[0])
    with pytest.raises(ValueError, match=message):
        check_alibi_mask(np.zeros(shape, np.float16), DISTANCE)


@pytest.mark.parametrize(
    "mask_type, good, bad",
    [(DISTANCE, -0.5, 0.5), (SQRT, -0.5, 1e-30), (LEFT_ALIGN, 0.5, -0.5), (DISTANCE, 0.0, np.nan)],
)
def test_sign_of_slopes(mask_type, good, bad):
    check_slopes([0.0, good], mask_type, 2)
    with pytest.raises(ValueError, match=rf"slopes of {mask_type.name} .*got slopes\[1\]={bad}"):
        check_slopes([0.0, bad], mask_type, 2)


def test_number_of_slopes():
    with pytest.raises(ValueError, match=r"shape \(head_num,\) = \(3,\), got \(2,\)"):
        check_slopes([0.0, 0.0], DISTANCE, 3)


def test_examples():
    result = doctest.testmod(masks)
    assert result.attempted > 0 and result.failed == 0
