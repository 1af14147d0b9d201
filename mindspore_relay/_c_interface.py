# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The types and functions of mindspore_relay.h for ctypes, and arrays described in them.

An array is read and written where it lies: a NumPy array by its address and strides, any other
array through the DLPack protocol. Nothing here imports MindSpore or PyTorch.
"""

import ctypes
import functools

import numpy as np

from mindspore_relay import _library

MAX_RANK = 6

# MsRelayStatus
OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, INTERNAL, INTERRUPTED = range(6)
# MsRelayDType
FLOAT32, FLOAT16, BFLOAT16, INT32, UINT32, UINT8 = range(1, 7)

DTYPE_NAMES = {
    FLOAT32: "float32",
    FLOAT16: "float16",
    BFLOAT16: "bfloat16",
    INT32: "int32",
    UINT32: "uint32",
    UINT8: "uint8",
}
# uint16 is the package's NumPy storage of bfloat16, see bfloat16.py.
_DTYPE_OF_NUMPY = {
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.float16): FLOAT16,
    np.dtype(np.uint16): BFLOAT16,
    np.dtype(np.int32): INT32,
    np.dtype(np.uint32): UINT32,
    np.dtype(np.uint8): UINT8,
}


class MsRelayTensor(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    )


class MsRelayTensorList(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("is_stacked", ctypes.c_int32),
        ("num_tensors", ctypes.c_int64),
        ("tensors", ctypes.POINTER(MsRelayTensor)),
    )


class MsRelayOptions(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("path", ctypes.c_int32),
        ("lse", ctypes.POINTER(MsRelayTensor)),
        ("block_tables", ctypes.POINTER(MsRelayTensor)),
        ("share_block_tables", ctypes.POINTER(MsRelayTensor)),
        ("packed_share", ctypes.POINTER(MsRelayTensorList)),
    )


# Of MsRelayOperationSetInterrupt.
InterruptFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@functools.cache
def functions():
    """The library, a ctypes.CDLL, with the argument types of the functions that capi.py calls.

    Raises:
        ImportError: the library is missing or of another version, see _library.library.
    """
    # An object of our own for the same library: argument types belong to the object, and other
    # callers describe the structs with types of their own.
    library = ctypes.CDLL(_library.library()._name)
    handle = ctypes.c_void_p
    tensor = ctypes.POINTER(MsRelayTensor)
    tensors = ctypes.POINTER(MsRelayTensorList)
    head_params = [ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_float]
    plan_outputs = [tensor, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(handle), handle]
    run_arguments = [handle, ctypes.c_uint64, handle, handle]
    argument_types = {
        "MsRelayCreateContext": [ctypes.POINTER(handle)],
        "MsRelayDestroyContext": [handle],
        "MsRelayContextSetNumThreads": [handle, ctypes.c_int32],
        "MsRelayContextLastError": [handle, ctypes.c_char_p, ctypes.c_uint64],
        "MsRelayCreateOperation": [ctypes.POINTER(handle), handle],
        "MsRelayDestroyOperation": [handle],
        "MsRelayOperationSetOptions": [handle, ctypes.POINTER(MsRelayOptions)],
        "MsRelayOperationSetInterrupt": [handle, InterruptFunction, handle],
        "MsRelayOperationGetPath": [handle, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32)],
        "MsRelayPrefixEncoderGetWorkspaceSize": [tensor] * 8 + head_params + plan_outputs,
        "MsRelayPrefixEncoder": run_arguments,
        "MsRelayAttentionGetWorkspaceSize": (
            [tensor] + [tensors] * 4 + [tensor] * 5 + head_params + plan_outputs
        ),
        "MsRelayAttention": run_arguments,
        "MsRelayReshapeAndCache": [tensor] * 5 + [handle],
        "MsRelayPackShareGetSize": (
            [ctypes.c_int32] * 4 + [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64), handle]
        ),
        "MsRelayPackShare": [tensor] * 3 + [ctypes.c_int32, ctypes.c_int64, tensor, handle],
        "MsRelayMergeAttentionStates": [tensor] * 6 + [handle],
    }
    for name, types in argument_types.items():
        getattr(library, name).argtypes = types
        getattr(library, name).restype = None if "Destroy" in name else ctypes.c_int
    library.MsRelayContextLastError.restype = ctypes.c_uint64
    return library


_EXCEPTIONS = {
    INVALID_ARGUMENT: ValueError,
    UNSUPPORTED: NotImplementedError,
    OUT_OF_MEMORY: MemoryError,
    INTERNAL: RuntimeError,
}


def check(status):
    """Raises what the call that answered `status`, in this thread, said.

    Raises:
        ValueError: an argument breaks a rule. NotImplementedError: it is legal, but not offered.
        MemoryError, RuntimeError: out of memory; a defect of the library.
    """
    if status != OK:
        text = _library.library().MsRelayLastError().decode(errors="replace")
        raise _EXCEPTIONS.get(status, RuntimeError)(text)


# ---- arrays --------------------------------------------------------------------------------------


def describe(op, argument, array, is_output=False):
    """Description of an array, which is not copied.

    Args:
        op, argument: names for messages.
        array: NumPy array (uint16: bfloat16 bit patterns), or an object with `__dlpack__` whose
            memory the CPU reads; float16, bfloat16, float32, int32, uint32 or uint8. Or an
            MsRelayTensor, which is returned.
        is_output: whether the array will be written.

    Returns:
        MsRelayTensor. Its attribute `owner` keeps the memory alive.

    Raises:
        TypeError: no array, or of another dtype. ValueError: it cannot be described or written.
        BufferError: the producer refuses (a PyTorch tensor that requires grad, for example).
    """
    if isinstance(array, np.ndarray):
        return _describe_numpy(op, argument, array, is_output)
    if isinstance(array, MsRelayTensor):
        return array
    if hasattr(array, "__dlpack__"):
        return _describe_dlpack(op, argument, array)
    raise TypeError(
        f"{op}: {argument} must be a NumPy array or speak DLPack, got {type(array).__name__}"
    )


def make_tensor(op, argument, dtype, address, shape, strides, owner):
    """MsRelayTensor of an array's parts; strides count elements."""
    rank = len(shape)
    if rank > MAX_RANK:
        raise ValueError(f"{op}: {argument} must have at most {MAX_RANK} dimensions, got {rank}")
    tensor = MsRelayTensor(ctypes.sizeof(MsRelayTensor), dtype, rank, 0, address)
    tensor.shape[:rank] = shape
    tensor.strides[:rank] = strides
    tensor.owner = owner
    return tensor


def _describe_numpy(op, argument, array, is_output):
    dtype = _DTYPE_OF_NUMPY.get(array.dtype)
    if dtype is None:
        if array.dtype.name != "bfloat16":  # the extension type of other packages
            raise dtype_error(op, argument, array.dtype)
        dtype = BFLOAT16
    if is_output and not array.flags.writeable:
        raise ValueError(f"{op}: {argument} must be writeable")
    itemsize = array.itemsize
    strides = array.strides
    if any(stride % itemsize for stride in strides) and array.size:
        raise ValueError(
            f"{op}: strides of {argument} must be multiples of its elements of {itemsize} bytes, "
            f"got {strides}"
        )
    strides = [stride // itemsize for stride in strides]
    address = array.__array_interface__["data"][0]
    return make_tensor(op, argument, dtype, address, array.shape, strides, array)


def dtype_error(op, argument, dtype):
    """The exception for an array whose dtype no argument has."""
    return TypeError(
        f"{op}: {argument} must have dtype float16, bfloat16 (in NumPy uint16), float32, int32, "
        f"uint32 or uint8, got {dtype}"
    )


# ---- DLPack: https://dmlc.github.io/dlpack/latest/c_api.html -------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # elements; NULL: contiguous
        ("byte_offset", ctypes.c_uint64),
    )


# DLDeviceType whose memory the CPU reads: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_DEVICES = (1, 3, 11)
# (DLDataTypeCode, bits): codes 0 int, 1 uint, 2 float, 4 bfloat.
_DTYPE_OF_DLPACK = {
    (2, 32): FLOAT32,
    (2, 16): FLOAT16,
    (4, 16): BFLOAT16,
    (0, 32): INT32,
    (1, 32): UINT32,
    (1, 8): UINT8,
}
_CODE_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.POINTER(_DLTensor)


def _describe_dlpack(op, argument, array):
    # Ask for the device first: exporting memory of another device may wait for that device.
    device_type = int(array.__dlpack_device__()[0])
    if device_type not in _HOST_DEVICES:
        raise ValueError(
            f"{op}: {argument} must be in host memory, got DLPack device {device_type}"
        )
    try:
        # A capsule that nobody takes over frees itself: it is the owner of the memory.
        capsule = array.__dlpack__()
    except BufferError as error:
        raise BufferError(f"{op}: {argument} cannot be read through DLPack: {error}") from error
    # The managed tensor that the capsule holds begins with the DLTensor.
    source = _capsule_pointer(capsule, b"dltensor").contents
    dtype = _DTYPE_OF_DLPACK.get((source.type_code, source.type_bits))
    if dtype is None or source.type_lanes != 1:
        name = f"{_CODE_NAMES.get(source.type_code, 'code ')}{source.type_bits}"
        raise dtype_error(op, argument, name)
    shape = source.shape[: source.ndim]
    strides = source.strides[: source.ndim] if source.strides else _contiguous_strides(shape)
    address = (source.data or 0) + source.byte_offset
    return make_tensor(op, argument, dtype, address, shape, strides, (array, capsule))


def _contiguous_strides(shape):
    strides = [1]
    for dim in reversed(shape[1:]):
        strides.append(strides[-1] * dim)
    return strides[::-1][: len(shape)]
