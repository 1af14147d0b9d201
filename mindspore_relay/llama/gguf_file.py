# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Read a GGUF file without trusting a single length in it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little endian.

``gguf.GGUFReader`` believes every count that the file states: an array whose length was altered
makes it loop until memory ends. Here each count is compared with the bytes that are left before it
is used, so that a truncated or altered file is a ``ValueError`` that says what is wrong and where.
The names and sizes of the tensor types and their dequantisation come from the ``gguf`` package.
"""

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

GGUF_MAGIC = b"GGUF"
READABLE_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT_BYTES = 32

# What the format calls value types, as struct/NumPy codes. 8 is a string, 9 an array.
_SCALAR_CODES = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING = 8
_ARRAY = 9

# ggml itself knows no tensor of more than 4 dimensions.
_MAX_DIMS = 4


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor as it lies in the file.

    Attributes:
        name: name in the file, such as ``blk.0.attn_q.weight``.
        shape: row-major, so ``(rows, columns)``: the reverse of the order in the file.
        type_name: ggml's name of the type, such as ``Q4_1``.
        data: uint8, (bytes of the tensor,), a view of the mapped file.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    data: np.ndarray

    def dequantize(self) -> np.ndarray:
        """The tensor's values: float32, ``shape``.

        Raises:
            ValueError: a value is NaN or infinite, which no trained weight is.
        """
        import gguf

        qtype = gguf.GGMLQuantizationType[self.type_name]
        row_bytes = self.data.size // max(1, int(np.prod(self.shape[:-1], dtype=np.int64)))
        if qtype == gguf.GGMLQuantizationType.F32:
            values = self.data.view(np.float32)
        elif qtype == gguf.GGMLQuantizationType.F16:
            values = self.data.view(np.float16).astype(np.float32)
        else:
            # An altered scale overflows here; the check below reports it with the tensor's name.
            with np.errstate(all="ignore"):
                values = gguf.dequantize(self.data.reshape(-1, row_bytes), qtype)
        values = values.reshape(self.shape)
        if not np.isfinite(values).all():
            raise ValueError(
                f"tensor {self.name!r} ({self.type_name}) holds NaN or infinite values"
            )
        return values


@dataclass(frozen=True)
class GGUFFile:
    """Key-value pairs and tensors of one file; the mapping lives as long as a tensor does."""

    path: str
    metadata: dict[str, Any]
    tensors: dict[str, GGUFTensor]


class _Cursor:
    """A position in the mapped bytes; every read is checked against the end of the file."""

    def __init__(self, buffer):
        self._buffer = buffer
        self._size = len(buffer)
        self.position = 0

    def take(self, num_bytes: int, what: str) -> int:
        """Advance over num_bytes; returns where they begin."""
        begin = self.position
        if num_bytes > self._size - begin:
            raise ValueError(
                f"{what} at byte {begin} needs {num_bytes} bytes, but the file ends after "
                f"{self._size - begin}: truncated or altered"
            )
        self.position = begin + num_bytes
        return begin

    def scalar(self, code: str, what: str):
        begin = self.take(struct.calcsize("<" + code), what)
        return struct.unpack_from("<" + code, self._buffer, begin)[0]

    def string(self, what: str) -> str:
        num_bytes = self.scalar("Q", f"length of {what}")
        begin = self.take(num_bytes, what)
        try:
            return str(self._buffer[begin : begin + num_bytes], "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{what} at byte {begin} is not UTF-8: {error.reason}") from None

    def value(self, what: str) -> Any:
        """A typed metadata value: Python scalar, str, or list of either."""
        value_type = self.scalar("I", f"type of {what}")
        if value_type == _ARRAY:
            return self._array(what)
        if value_type == _STRING:
            return self.string(what)
        if value_type not in _SCALAR_CODES:
            raise ValueError(f"{what} has unknown value type {value_type}")
        return self.scalar(_SCALAR_CODES[value_type], what)

    def _array(self, what: str) -> list:
        item_type = self.scalar("I", f"item type of {what}")
        count = self.scalar("Q", f"length of {what}")
        if item_type == _STRING:
            # Each string is at least its 8-byte length, which bounds the loop by the file's size.
            if count > (self._size - self.position) // 8:
                raise ValueError(f"{what} claims {count} strings, more than the file can hold")
            return [self.string(f"item {i} of {what}") for i in range(count)]
        if item_type not in _SCALAR_CODES:
            raise ValueError(f"{what} is an array of unsupported item type {item_type}")
        dtype = np.dtype("<" + _SCALAR_CODES[item_type])
        begin = self.take(count * dtype.itemsize, what)
        return np.frombuffer(self._buffer, dtype, count, begin).tolist()


def _supported_types() -> dict[int, tuple[str, int, int]]:
    """ggml type number -> (name, elements per block, bytes per block)."""
    import gguf

    names = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
    types = (gguf.GGMLQuantizationType[name] for name in names)
    return {int(t): (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in types}


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for i in range(count):
        key = cursor.string(f"name of metadata entry {i}")
        if key in metadata:
            raise ValueError(f"metadata key {key!r} appears twice")
        metadata[key] = cursor.value(f"metadata {key!r}")
    return metadata


def _read_tensor_info(
    cursor: _Cursor, index: int, types
) -> tuple[str, tuple[int, ...], str, int, int]:
    """(name, row-major shape, type name, number of bytes, offset in the data section)."""
    name = cursor.string(f"name of tensor {index}")
    num_dims = cursor.scalar("I", f"rank of tensor {name!r}")
    if not 1 <= num_dims <= _MAX_DIMS:
        raise ValueError(f"tensor {name!r} has {num_dims} dimensions, expected 1 to {_MAX_DIMS}")
    dims = [cursor.scalar("Q", f"shape of tensor {name!r}") for _ in range(num_dims)]
    type_id = cursor.scalar("I", f"type of tensor {name!r}")
    offset = cursor.scalar("Q", f"offset of tensor {name!r}")
    if type_id not in types:
        raise ValueError(
            f"tensor {name!r} has type {type_id}, supported are "
            + ", ".join(f"{type_name} ({number})" for number, (type_name, _, _) in types.items())
        )
    type_name, block_elements, block_bytes = types[type_id]
    num_elements = 1
    for dim in dims:
        num_elements *= dim
    if num_elements == 0 or dims[0] % block_elements:
        raise ValueError(
            f"tensor {name!r} has shape {tuple(reversed(dims))}; its last dimension must be a "
            f"positive multiple of {block_elements} for {type_name}"
        )
    num_bytes = num_elements // block_elements * block_bytes
    return name, tuple(reversed(dims)), type_name, num_bytes, offset


def _read_tensors(cursor: _Cursor, buffer, count: int, alignment: int) -> dict[str, GGUFTensor]:
    types = _supported_types()
    infos = [_read_tensor_info(cursor, i, types) for i in range(count)]
    data_begin = -(-cursor.position // alignment) * alignment
    tensors: dict[str, GGUFTensor] = {}
    end_of_last, last_name = 0, None
    for name, shape, type_name, num_bytes, offset in sorted(infos, key=lambda info: info[4]):
        if name in tensors:
            raise ValueError(f"tensor {name!r} appears twice")
        if offset % alignment:
            raise ValueError(
                f"tensor {name!r} begins at offset {offset}, not a multiple of {alignment}"
            )
        if offset < end_of_last:
            raise ValueError(f"tensors {last_name!r} and {name!r} overlap at offset {offset}")
        end_of_last, last_name = offset + num_bytes, name
        missing = data_begin + end_of_last - len(buffer)
        if missing > 0:
            raise ValueError(f"tensor {name!r}: {missing} bytes are missing at the end of the file")
        data = np.frombuffer(buffer, np.uint8, num_bytes, data_begin + offset)
        tensors[name] = GGUFTensor(name, shape, type_name, data)
    return tensors


def _parse(path: str, buffer) -> GGUFFile:
    cursor = _Cursor(buffer)
    magic = bytes(buffer[: len(GGUF_MAGIC)])
    if magic != GGUF_MAGIC:
        raise ValueError(f"not a GGUF file: it begins with {magic!r} instead of {GGUF_MAGIC!r}")
    cursor.take(len(GGUF_MAGIC), "magic")
    version = cursor.scalar("I", "version")
    if version not in READABLE_VERSIONS:
        hint = " (a big-endian file)" if version & 0xFFFF == 0 else ""
        raise ValueError(f"GGUF version {version}{hint} is not one of {READABLE_VERSIONS}")
    num_tensors = cursor.scalar("Q", "number of tensors")
    num_entries = cursor.scalar("Q", "number of metadata entries")
    metadata = _read_metadata(cursor, num_entries)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT_BYTES)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment is {alignment!r}, expected a power of two")
    return GGUFFile(path, metadata, _read_tensors(cursor, buffer, num_tensors, alignment))


def read_gguf(path: str | os.PathLike) -> GGUFFile:
    """Map a GGUF file and check everything in it that can be checked without knowing the model.

    Args:
        path: file to read; it must not change while the result is in use.

    Returns:
        GGUFFile with all metadata as Python values and all tensors still quantised.

    Raises:
        ValueError: the file is truncated, altered, of another version or holds a tensor type that
            is not supported. The message begins with the path.
        OSError: the file cannot be opened.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError(f"{path}: the file is empty")
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _parse(path, memoryview(buffer))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
