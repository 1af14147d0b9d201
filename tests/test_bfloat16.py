# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""bfloat16 in NumPy: rounding and bit patterns."""

import numpy as np

from mindspore_relay.bfloat16 import bfloat16_bits, to_float


def test_bfloat16_rounds_to_nearest_even():
    """1 + 2**-8 is halfway between 1 and 1 + 2**-7: to even, down; 1 + 3 * 2**-8: to even, up."""
    values = [1.0, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 3.4e38]
    expected = [1.0, 1.0, 1 + 2.0**-7, 1 + 2.0**-6, -1.0, np.inf]
    np.testing.assert_array_equal(to_float(bfloat16_bits(values)), expected)


def test_bfloat16_keeps_special_values():
    """A NaN whose bits would round up to infinity, or wrap around to 0, stays a NaN."""
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001], np.uint32).view(np.float32)
    assert np.isnan(to_float(bfloat16_bits(nans))).all()
    specials = np.array([np.inf, -np.inf, 0.0, -0.0, 2.0**-133])
    found = to_float(bfloat16_bits(specials))
    np.testing.assert_array_equal(found, specials)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(specials))


def test_bfloat16_keeps_every_value_it_has():
    bits = np.arange(2**16, dtype=np.uint16)
    values = to_float(bits)
    np.testing.assert_array_equal(bfloat16_bits(values)[~np.isnan(values)], bits[~np.isnan(values)])
