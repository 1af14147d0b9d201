# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files: what a good one holds, and that no bad one does more than raise ValueError."""

import struct

import gguf
import numpy as np
import pytest
from tiny_llama import TinyLlama

from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.tokenizer import Tokenizer
from mindspore_relay.llama.weights import read_config, read_weights

# Types that the gguf package can write, so that a file of each can be made here.
WRITABLE_TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def load(path):
    """Everything that is read from a model file before MindSpore starts."""
    file = read_gguf(path)
    config = read_config(file)
    Tokenizer(file.metadata)
    read_weights(file, config)


@pytest.fixture(scope="module")
def tiny_bytes(tmp_path_factory):
    """A good file of 18 KB: 5.4 KB of metadata and table of tensors, then their data."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    TinyLlama(num_layers=1, hidden_size=32, intermediate_size=32, quantization="Q4_1").write(path)
    load(path)
    return path.read_bytes()


@pytest.fixture
def load_bytes(tmp_path):
    """Function that loads a model from bytes."""
    path = tmp_path / "model.gguf"

    def load_from(data):
        path.write_bytes(data)
        load(path)

    return load_from


@pytest.mark.parametrize("quantization", WRITABLE_TYPES)
def test_tensors_come_back(tmp_path, quantization):
    model = TinyLlama(quantization=quantization)
    model.write(tmp_path / "tiny.gguf")
    file = read_gguf(tmp_path / "tiny.gguf")
    written = model.tensors()
    assert set(file.tensors) == set(written)
    for name, values in written.items():
        tensor = file.tensors[name]
        assert tensor.shape == values.shape
        np.testing.assert_array_equal(tensor.dequantize(), model._stored(name, values))


def test_k_quants_use_the_gguf_package(tmp_path):
    """gguf cannot write these types: random bytes, small so that 16-bit scales are finite."""
    path = tmp_path / "k.gguf"
    random = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "llama")
    raw = {}
    for name in ("Q4_K", "Q5_K", "Q6_K"):
        qtype = gguf.GGMLQuantizationType[name]
        block_bytes = gguf.GGML_QUANT_SIZES[qtype][1]
        raw[name] = random.integers(0, 0x40, (3, 2 * block_bytes), dtype=np.uint8)
        writer.add_tensor(name, raw[name], raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, tensor in read_gguf(path).tensors.items():
        assert tensor.shape == (3, 512)
        expected = gguf.dequantize(raw[name], gguf.GGMLQuantizationType[name])
        np.testing.assert_array_equal(tensor.dequantize(), expected)


def test_metadata_types(tmp_path):
    path = tmp_path / "types.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_int64("i64", -(1 << 40))
    writer.add_float64("f64", 0.1)
    writer.add_bool("flag", True)
    writer.add_string("text", "naïve")
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("texts", ["a", "", "ü"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = read_gguf(path).metadata
    assert metadata["u8"] == 200
    assert metadata["i8"] == -100
    assert metadata["i64"] == -(1 << 40)
    assert metadata["f64"] == 0.1
    assert metadata["flag"] is True
    assert metadata["text"] == "naïve"
    assert metadata["numbers"] == [1, -2, 3]
    assert metadata["texts"] == ["a", "", "ü"]


def test_every_truncation_is_an_error(tiny_bytes, load_bytes):
    """Every length near the beginning, then steps through tokens, tensor table and data."""
    for length in (*range(0, 400), *range(400, len(tiny_bytes), 97), len(tiny_bytes) - 1):
        with pytest.raises(ValueError, match="model.gguf"):
            load_bytes(tiny_bytes[:length])


@pytest.mark.parametrize("seed", range(8))
def test_altered_bytes_load_or_raise_value_error(tiny_bytes, load_bytes, seed):
    """Random bytes, lengths and counts replaced, mostly in the part before the tensors' data."""
    random = np.random.default_rng(seed)
    num_errors = 0
    for _ in range(100):
        data = bytearray(tiny_bytes)
        for _ in range(random.integers(1, 4)):
            end = len(data) if random.random() < 0.2 else 6_000
            position = int(random.integers(0, end))
            if random.random() < 0.5:
                data[position] = random.integers(256)
            else:
                huge = [0xFF, 1 << 16, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]
                value = struct.pack("<Q", huge[random.integers(len(huge))])
                data[position : position + 8] = value[: len(data) - position]
        try:
            load_bytes(bytes(data))
        except ValueError:
            num_errors += 1
    # Most such files are beyond repair; were this zero, the bytes would not have been read.
    assert num_errors > 10


def header(num_tensors=0, num_entries=0, *, magic=b"GGUF", version=3):
    return magic + struct.pack("<IQQ", version, num_tensors, num_entries)


def text(value):
    return struct.pack("<Q", len(value)) + value


def tensor_info(name=b"t", dims=(32,), type_id=0, offset=0):
    sizes = struct.pack(f"<{len(dims)}Q", *dims)
    return text(name) + struct.pack("<I", len(dims)) + sizes + struct.pack("<IQ", type_id, offset)


def padded(data, num_data_bytes=0):
    return data + bytes(-len(data) % 32) + bytes(num_data_bytes)


BAD_FILES = {
    "empty": (b"", "empty"),
    "magic": (header(magic=b"GGML"), "not a GGUF file"),
    "version 1": (header(version=1), "version 1 is not"),
    "big endian": (header(version=3 << 24), "big-endian"),
    "more entries than bytes": (header(num_entries=1 << 60), "truncated or altered"),
    "long string": (header(num_entries=1) + struct.pack("<Q", 1 << 62) + b"key", "truncated"),
    "not UTF-8": (header(num_entries=1) + text(b"\xff\xfe") + bytes(8), "not UTF-8"),
    "value type": (header(num_entries=1) + text(b"key") + struct.pack("<I", 99), "unknown value"),
    "array of arrays": (
        header(num_entries=1) + text(b"key") + struct.pack("<IIQ", 9, 9, 1),
        "unsupported item type 9",
    ),
    "long array": (
        header(num_entries=1) + text(b"key") + struct.pack("<IIQ", 9, 4, 1 << 61),
        "truncated",
    ),
    "many strings": (
        header(num_entries=1) + text(b"key") + struct.pack("<IIQ", 9, 8, 1 << 50),
        "more than the file",
    ),
    "key twice": (
        header(num_entries=2) + 2 * (text(b"key") + struct.pack("<II", 4, 7)),
        "'key' appears twice",
    ),
    "alignment": (
        header(num_entries=1) + text(b"general.alignment") + struct.pack("<II", 4, 24),
        "power of two",
    ),
    "five dimensions": (header(1) + tensor_info(dims=(1,) * 5), "5 dimensions"),
    "tensor type": (padded(header(1) + tensor_info(type_id=16), 128), "type 16, supported are"),
    "zero size": (padded(header(1) + tensor_info(dims=(32, 0)), 128), "positive multiple"),
    "part of a quantised block": (
        padded(header(1) + tensor_info(dims=(33,), type_id=3), 128),
        "multiple of 32 for Q4_1",
    ),
    "product of sizes": (
        padded(header(1) + tensor_info(dims=(1 << 62, 1 << 62)), 128),
        "missing at the end",
    ),
    "odd offset": (padded(header(1) + tensor_info(offset=4), 256), "not a multiple of 32"),
    "tensor twice": (
        padded(header(2) + tensor_info() + tensor_info(offset=128), 256),
        "'t' appears twice",
    ),
    "overlap": (
        padded(header(2) + tensor_info(b"a") + tensor_info(b"b", offset=64), 256),
        "'a' and 'b' overlap",
    ),
    "data missing": (padded(header(1) + tensor_info(), 127), "1 bytes are missing"),
}


@pytest.mark.parametrize(("data", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_file_is_named(tmp_path, data, message):
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as error:
        read_gguf(path)
    assert str(error.value).startswith(str(path))


def test_good_minimal_file(tmp_path):
    """The table above differs from this by one fault each."""
    path = tmp_path / "good.gguf"
    path.write_bytes(padded(header(1) + tensor_info(), 128))
    np.testing.assert_array_equal(read_gguf(path).tensors["t"].dequantize(), np.zeros(32))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_gguf(tmp_path / "none.gguf")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("quantization", ["F32", "F16", "Q8_0"])
def test_weights_that_are_not_numbers(tmp_path, value, quantization):
    model = TinyLlama(quantization=quantization)
    tensors = model.tensors()
    tensors["blk.1.ffn_up.weight"][3, 5] = value
    with np.errstate(all="ignore"):
        model.write(tmp_path / "nan.gguf", tensors=tensors)
    with pytest.raises(ValueError, match=r"blk\.1\.ffn_up\.weight.*NaN or infinite"):
        load(tmp_path / "nan.gguf")
