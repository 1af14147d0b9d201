# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""A Llama of a few kilobytes with random weights, as a GGUF file, and its float64 forward pass.

The forward pass is written from the definition of the architecture and knows nothing of the
package: no cache, no blocks, no batches, interleaved RoPE on the rows as the file has them.
"""

from dataclasses import dataclass

import gguf
import numpy as np

from mindspore_relay.bfloat16 import from_float, to_float

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
)
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EOS = 2


def byte_alphabet() -> list[str]:
    """The 256 printable characters that stand for the bytes in byte-level BPE, by byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


@dataclass(frozen=True)
class TinyLlama:
    """Sizes of the model and type of its matrices."""

    num_layers: int = 2
    hidden_size: int = 64
    intermediate_size: int = 96
    head_num: int = 6
    kv_head_num: int = 2
    head_size: int = 16
    max_positions: int = 256
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    quantization: str = "F32"
    is_tied: bool = True
    seed: int = 0

    @property
    def merges(self) -> list[str]:
        return ["t h", "th e", "Ġ the", "i n"]

    @property
    def tokens(self) -> list[str]:
        merged = [merge.replace(" ", "") for merge in self.merges]
        return [*SPECIAL_TOKENS, *byte_alphabet(), *merged]

    def metadata(self) -> dict:
        """Key -> value; ints are uint32 in the file, floats float32."""
        types = [3] * len(SPECIAL_TOKENS) + [1] * (len(self.tokens) - len(SPECIAL_TOKENS))
        return {
            "llama.block_count": self.num_layers,
            "llama.context_length": self.max_positions,
            "llama.embedding_length": self.hidden_size,
            "llama.feed_forward_length": self.intermediate_size,
            "llama.attention.head_count": self.head_num,
            "llama.attention.head_count_kv": self.kv_head_num,
            "llama.attention.key_length": self.head_size,
            "llama.attention.layer_norm_rms_epsilon": self.rms_norm_eps,
            "llama.rope.freq_base": self.rope_theta,
            "llama.rope.dimension_count": self.head_size,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": self.merges,
            "tokenizer.ggml.eos_token_id": EOS,
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": CHATML,
        }

    def tensors(self) -> dict[str, np.ndarray]:
        """Name -> float32 matrix (outputs, inputs), before quantisation."""
        random = np.random.default_rng(self.seed)

        def matrix(rows, columns):
            return random.standard_normal((rows, columns), np.float32) * columns**-0.5

        def norm():
            return 1 + 0.1 * random.standard_normal(self.hidden_size, np.float32)

        q_rows, kv_rows = self.head_num * self.head_size, self.kv_head_num * self.head_size
        hidden, inter = self.hidden_size, self.intermediate_size
        tensors = {
            "token_embd.weight": matrix(len(self.tokens), hidden),
            "output_norm.weight": norm(),
        }
        if not self.is_tied:
            tensors["output.weight"] = matrix(len(self.tokens), hidden)
        for layer in range(self.num_layers):
            shapes = {
                "attn_q": (q_rows, hidden),
                "attn_k": (kv_rows, hidden),
                "attn_v": (kv_rows, hidden),
                "attn_output": (hidden, q_rows),
                "ffn_gate": (inter, hidden),
                "ffn_up": (inter, hidden),
                "ffn_down": (hidden, inter),
            }
            for name, shape in shapes.items():
                tensors[f"blk.{layer}.{name}.weight"] = matrix(*shape)
            for name in ("attn_norm", "ffn_norm"):
                tensors[f"blk.{layer}.{name}.weight"] = norm()
        return tensors

    def write(self, path, *, metadata=None, tensors=None, architecture="llama") -> None:
        """Write the file.

        Args:
            path: of the file.
            metadata: replaces entries; a value of None leaves the entry out.
            tensors: likewise.
            architecture: value of general.architecture.
        """
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in {**self.metadata(), **(metadata or {})}.items():
            _add_metadata(writer, key, value)
        for name, values in {**self.tensors(), **(tensors or {})}.items():
            if values is not None:
                _add_tensor(writer, name, values, self.quantization)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def forward(self, token_ids, *, compute=np.float64, cache_dtype=None) -> np.ndarray:
        """Logits after each token, with the weights as the file holds them.

        Args:
            token_ids: one sequence.
            compute: type of all arithmetic. float64 is the truth; float32 what a plain program
            gets. cache_dtype: query, key, value and attention's output are rounded to it, if given.

        Returns:
            (len(token_ids), vocab_size), of type `compute`.
        """
        weights = {
            name: self._stored(name, values).astype(compute)
            for name, values in self.tensors().items()
        }

        def rounded(values):
            return values if cache_dtype is None else round_to(values, cache_dtype).astype(compute)

        x = weights["token_embd.weight"][np.asarray(token_ids)]
        for layer in range(self.num_layers):
            part = {n: weights[f"blk.{layer}.{n}.weight"] for n in _LAYER_PARTS}
            attention = self._attention(self._norm(x, part["attn_norm"]), part, rounded)
            x = x + attention @ part["attn_output"].T
            y = self._norm(x, part["ffn_norm"])
            gate = y @ part["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ part["ffn_up"].T)) @ part["ffn_down"].T
        output = weights.get("output.weight", weights["token_embd.weight"])
        logits = self._norm(x, weights["output_norm.weight"]) @ output.T
        assert logits.dtype == compute
        return logits

    def greedy(self, token_ids, num_tokens: int) -> list[int]:
        """Likeliest continuation, up to and without the token that ends a text."""
        token_ids = list(token_ids)
        num_prompt = len(token_ids)
        while len(token_ids) < num_prompt + num_tokens:
            token_id = int(self.forward(token_ids)[-1].argmax())
            if token_id == EOS:
                break
            token_ids.append(token_id)
        return token_ids[num_prompt:]

    def _stored(self, name, values):
        if values.ndim == 1 or self.quantization == "F32":
            return values.astype(np.float64)
        qtype = gguf.GGMLQuantizationType[self.quantization]
        return gguf.dequantize(gguf.quantize(values, qtype), qtype).astype(np.float64)

    def _norm(self, x, weight):
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(self.rms_norm_eps))
        return x / scale * weight

    def _rotate(self, x):
        """x (tokens, heads, head_size): elements 2i and 2i + 1 are turned as a complex number."""
        frequencies = self.rope_theta ** (-np.arange(0, self.head_size, 2) / self.head_size)
        angles = np.arange(len(x))[:, None, None] * frequencies
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(x.dtype)

    def _attention(self, x, part, rounded):
        tokens = len(x)
        query = (x @ part["attn_q"].T).reshape(tokens, self.head_num, self.head_size)
        key = (x @ part["attn_k"].T).reshape(tokens, self.kv_head_num, self.head_size)
        value = (x @ part["attn_v"].T).reshape(tokens, self.kv_head_num, self.head_size)
        query, key, value = rounded(self._rotate(query)), rounded(self._rotate(key)), rounded(value)
        outputs = []
        for head in range(self.head_num):
            kv_head = head // (self.head_num // self.kv_head_num)
            scores = query[:, head] @ key[:, kv_head].T * x.dtype.type(self.head_size**-0.5)
            scores[np.triu_indices(tokens, 1)] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            outputs.append(weights / weights.sum(axis=1, keepdims=True) @ value[:, kv_head])
        return rounded(np.concatenate(outputs, axis=1))


def round_to(values, dtype: str) -> np.ndarray:
    """float64 values rounded to 'float16', 'bfloat16' or 'float32'."""
    return to_float(from_float(values, dtype)).astype(np.float64)


_LAYER_PARTS = (
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "attn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_norm",
)


def _add_metadata(writer, key, value):
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _add_tensor(writer, name, values, quantization):
    if values.ndim == 1 or quantization == "F32":
        writer.add_tensor(name, values)
        return
    qtype = gguf.GGMLQuantizationType[quantization]
    writer.add_tensor(name, gguf.quantize(values, qtype), raw_dtype=qtype)
