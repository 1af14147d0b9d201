# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""bfloat16 in NumPy, which has no such type.

One convention for the whole package: **a NumPy array of dtype uint16 holds bfloat16 bit patterns.**
No operator takes an integer array where it takes floats, so the meaning is never in doubt.
`to_tensor` and `to_numpy` carry the convention over to MindSpore, where such a tensor has dtype
bfloat16. This module imports MindSpore only inside them.
"""

import functools

import numpy as np

DTYPES = ("float16", "bfloat16", "float32")


def bfloat16_bits(values):
    """Rounds to bfloat16: to nearest, ties to even; NaN stays NaN, overflow becomes infinity.

    Args:
        values: array of any shape, float16, float32 or float64. float64 is rounded to float32
            first.

    Returns:
        uint16 array of the same shape: the bit patterns.
    """
    float32 = np.asarray(values).astype(np.float32)
    bits = float32.view(np.uint32)
    # A bfloat16 is the upper half of a float32. Adding 0x7fff, and one more where the kept part is
    # odd, carries into the upper half exactly when the lower half is above a half, or is a half and
    # the kept part is odd.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    # The addition could carry a NaN into infinity or past the sign bit: keep its upper half and set
    # the quiet bit.
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(np.isnan(float32), quiet_nan, rounded).astype(np.uint16)


def bfloat16_values(bits):
    """The float32 values of bfloat16 bit patterns (exact). `bits`: uint16 array of any shape."""
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def dtype_name(array):
    """'float16', 'bfloat16' (uint16), 'float32' or 'float64' of an array; TypeError for others."""
    name = np.asarray(array).dtype.name
    if name in ("bfloat16", "uint16"):  # 'bfloat16': the extension type of MindSpore's asnumpy()
        return "bfloat16"
    if name in ("float16", "float32", "float64"):
        return name
    raise TypeError(
        f"dtype must be float16, float32, float64 or uint16 (bfloat16 bit patterns), got {name}"
    )


def from_float(values, dtype):
    """Rounds float values to `dtype`: 'float16', 'bfloat16' or 'float32'.

    Returns the storage array: for bfloat16 uint16 bit patterns, else the NumPy type of that name.
    """
    if dtype == "bfloat16":
        return bfloat16_bits(values)
    if dtype in DTYPES:
        # Past the largest float16 the rounded value is infinity, as in the operators.
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(dtype)
    raise TypeError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")


def to_float(array, dtype=np.float64):
    """The values of a storage array (see `from_float`) in float64 or another NumPy float type."""
    array = np.asarray(array)
    if dtype_name(array) == "bfloat16":
        array = bfloat16_values(array.view(np.uint16))
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return array.astype(dtype)


def to_tensor(array):
    """MindSpore tensor of a NumPy array, whose memory it shares if the array is contiguous; uint16
    becomes bfloat16."""
    from mindspore import Tensor

    array = np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        # Not Tensor.view(bfloat16): MindSpore copies a view at every call of an operator, a whole
        # cache each time, and 2.7.2 has no such view.
        array = array.view(_mindspore_bfloat16())
    return Tensor.from_numpy(array)


@functools.cache
def _mindspore_bfloat16():
    """MindSpore's NumPy extension type for bfloat16, which it does not give a name."""
    from mindspore import Tensor
    from mindspore import dtype as mstype

    return Tensor([0.0], mstype.bfloat16).asnumpy().dtype


def to_numpy(tensor):
    """NumPy array of a MindSpore tensor, whose memory it may share; bfloat16 becomes uint16."""
    array = tensor.asnumpy()
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
