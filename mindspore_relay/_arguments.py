# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Turns the arguments of the public functions into inputs of the primitives.

All of this runs in Python at each PyNative call, and is compiled with a graph. Functions marked
with constexpr get constants only: a graph holds their results. Only the Python types of arguments
are judged here; everything else is the library's business (ops/attention).
"""

import functools

import numpy as np
from mindspore import Tensor, ops

# Names of MsRelayPath, in its order.
PATH_NAMES = ("auto", "relay", "plain")


def check_tensors(op, arguments, tensors):
    """TypeError unless each of `tensors`, with the names `arguments`, is a Tensor."""
    for i in range(len(tensors)):
        if not isinstance(tensors[i], Tensor):
            raise TypeError(f"{op}: {arguments[i]} must be a Tensor, got {type_name(tensors[i])}")


def check_optional_tensors(op, arguments, tensors):
    """TypeError unless each of `tensors` is a Tensor or None."""
    for i in range(len(tensors)):
        if tensors[i] is not None and not isinstance(tensors[i], Tensor):
            raise TypeError(
                f"{op}: {arguments[i]} must be a Tensor or None, got {type_name(tensors[i])}"
            )


def as_list(op, argument, tensors):
    """The tensors of a list argument, to be unpacked: () for None, (tensor,) for one tensor."""
    if tensors is None:
        return ()
    if isinstance(tensors, Tensor):
        return (tensors,)
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{op}: {argument} must be a Tensor, a list of Tensors or None, "
            f"got {type_name(tensors)}"
        )
    if not is_in_graph():
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{op}: {argument} must hold Tensors only, got {type_name(tensor)}")
    # As it is: MindSpore takes seconds to compile tuple(tensors), or a loop over 128 of them.
    return tensors


def first_of(tensors, others, query):
    """The first tensor of a list; of `others` if it is empty; query if both are."""
    if len(tensors) > 0:
        return tensors[0]
    if len(others) > 0:
        return others[0]
    return query


def are_all_tensors(query, key, value):
    return isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)


def stacked_bits(key, value, key_share, value_share):
    """Which of the four came as one tensor and not as a list: StackedBit of relay_attention.cc."""
    bits = 0
    if isinstance(key, Tensor):
        bits += 1
    if isinstance(value, Tensor):
        bits += 2
    if isinstance(key_share, Tensor):
        bits += 4
    if isinstance(value_share, Tensor):
        bits += 8
    return bits


def as_int32(op, argument, values):
    """A tensor or None as it is; a list or NumPy array of ints as an int32 tensor."""
    if values is None or isinstance(values, Tensor):
        return values
    return _int32_tensor(op, argument, values)


@ops.constexpr
def _int32_tensor(op, argument, values):
    return Tensor(int32_array(op, argument, values))


def int32_array(op, argument, values):
    """A list or NumPy array of ints as an int32 array with one axis."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int32)  # NumPy makes an empty list float64
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            f"{op}: {argument} must be a Tensor, or a list or array of ints, got {values!r}"
        )
    limits = np.iinfo(np.int32)
    for value in array[(array < limits.min) | (array > limits.max)]:
        raise ValueError(f"{op}: {argument} must fit in 32 bits, got {value}")
    return array.astype(np.int32)


@ops.constexpr
def type_name(value):
    return type(value).__name__


@ops.constexpr
def path_number(op, path):
    if path not in PATH_NAMES:
        raise ValueError(f"{op}: path must be one of {', '.join(PATH_NAMES)}, got {path!r}")
    return PATH_NAMES.index(path)


@ops.constexpr
def mask_number(op, mask_type):
    """The int of a MaskType, or of an int that the library will judge."""
    if not isinstance(mask_type, int):
        raise TypeError(f"{op}: mask_type must be a MaskType, got {mask_type!r}")
    return int(mask_type)


@ops.constexpr
def shape_carrier(op, head_num, are_tensors, *num_tensors):
    """The empty tensor (0, head_num, *num_tensors), whose dimensions tell the library's shape
    inference what the shapes of the inputs cannot: see ops/aot/infer.h.

    are_tensors: whether the inputs whose shapes are looked at are Tensors. In a graph this is the
    only check that comes before the inference.
    """
    if not are_tensors:
        raise TypeError(f"{op}: query, key and value must be Tensors, or hold Tensors only")
    if not isinstance(head_num, int):
        raise TypeError(f"{op}: head_num must be an int, got {type(head_num).__name__}")
    # No tensor has a negative dimension; the library's checks will name such a head_num.
    return empty_tensor(0, max(head_num, 0), *num_tensors)


@functools.lru_cache(maxsize=256)
def empty_tensor(*shape):
    return Tensor(np.zeros(shape, np.int8))


@functools.partial(ops.constexpr, get_instance=False)
def _return_true():
    return True


class _IsInGraph(_return_true):
    """Callable: the constant True while a graph is compiled, False when Python calls it."""

    def __call__(self):
        return False


is_in_graph = _IsInGraph()
