# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE tokenizer and ChatML template of a GGUF file."""

import re
from typing import Any

# Token types of the GGUF format that text never produces.
_CONTROL = 3
_UNKNOWN = 2
_UNUSED = 5

_CHATML_BEGIN = "<|im_start|>"
_CHATML_END = "<|im_end|>"

# The template states its default system prompt between these, inside a Jinja string literal.
_DEFAULT_SYSTEM = re.compile(r"<\|im_start\|>system\n(?P<text>[^{}]*?)<\|im_end\|>")


class Tokenizer:
    """Text to token ids and back.

    Special tokens never come out of text: a prompt that contains "<|im_end|>" is spelled out in
    ordinary tokens, so that a user cannot end their turn and speak as another role. Only
    `chat_prefix` and `chat_user` place them.

    Args:
        metadata: the `tokenizer.*` entries of a GGUF file.

    Attributes:
        eos_token_ids: ids that end a generated text.
        bos_token_id: id that begins every sequence, or None.
        default_system_prompt: system prompt of the chat template, or None when it has none.

    Raises:
        ValueError: another kind of tokenizer, or inconsistent tables.
    """

    def __init__(self, metadata: dict[str, Any]):
        kind = metadata.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise ValueError(
                f"tokenizer.ggml.model is {kind!r}, only byte-level BPE ('gpt2') is supported"
            )
        tokens = _string_list(metadata, "tokenizer.ggml.tokens")
        merges = _string_list(metadata, "tokenizer.ggml.merges")
        types = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
        if not isinstance(types, list) or len(types) != len(tokens):
            raise ValueError("tokenizer.ggml.token_type does not have one entry per token")
        self._ids = {token: i for i, token in enumerate(tokens)}
        if len(self._ids) != len(tokens):
            raise ValueError("tokenizer.ggml.tokens has duplicates")
        self._silent = {i for i, kind in enumerate(types) if kind in (_CONTROL, _UNKNOWN, _UNUSED)}
        self._bpe = _build_bpe(self._ids, merges, metadata.get("tokenizer.ggml.pre", "default"))
        self._template = metadata.get("tokenizer.chat_template")
        self.vocab_size = len(tokens)
        self.eos_token_ids = self._eos_token_ids(metadata)
        self.bos_token_id = None
        if metadata.get("tokenizer.ggml.add_bos_token", False):
            self.bos_token_id = self._token_id(metadata, "tokenizer.ggml.bos_token_id")
        match = _DEFAULT_SYSTEM.search(self._template) if self.has_chat_template else None
        self.default_system_prompt = match["text"] if match else None

    def _token_id(self, metadata, key) -> int:
        token_id = metadata.get(key)
        if not isinstance(token_id, int) or not 0 <= token_id < self.vocab_size:
            raise ValueError(f"{key} is {token_id!r}, expected an id below {self.vocab_size}")
        return token_id

    def _eos_token_ids(self, metadata) -> frozenset[int]:
        ids = {self._token_id(metadata, "tokenizer.ggml.eos_token_id")}
        if "tokenizer.ggml.eot_token_id" in metadata:
            ids.add(self._token_id(metadata, "tokenizer.ggml.eot_token_id"))
        return frozenset(ids)

    @property
    def has_chat_template(self) -> bool:
        """Whether the file's chat template is ChatML, the one that is understood here."""
        return (
            isinstance(self._template, str)
            and _CHATML_BEGIN in self._template
            and _CHATML_BEGIN in self._ids
            and _CHATML_END in self._ids
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, without special tokens; no ids for an empty text."""
        return self._bpe.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: list[int]) -> str:
        """Text of token ids; special tokens are left out, broken UTF-8 becomes U+FFFD."""
        return self._bpe.decode([i for i in token_ids if i not in self._silent])

    def _turn(self, role: str, content: str) -> list[int]:
        begin, end = self._ids[_CHATML_BEGIN], self._ids[_CHATML_END]
        return [begin, *self.encode(f"{role}\n{content}"), end, *self.encode("\n")]

    def chat_prefix(self, system_prompt: str) -> list[int]:
        """Ids of the system turn: what the requests of a group share."""
        self._check_chat()
        return self._turn("system", system_prompt)

    def chat_user(self, prompt: str) -> list[int]:
        """Ids of the user turn and of the beginning of the answer, to follow `chat_prefix`."""
        self._check_chat()
        return [*self._turn("user", prompt), self._ids[_CHATML_BEGIN], *self.encode("assistant\n")]

    def _check_chat(self):
        if not self.has_chat_template:
            raise ValueError("the model file has no ChatML template: use raw prompts (--raw)")


def _string_list(metadata, key) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is missing or not a list of strings")
    return value


def _pre_tokenizer(name: str):
    """What cuts text into the pieces inside which merges apply."""
    from tokenizers import pre_tokenizers

    # The pattern of ByteLevel with use_regex is the one of GPT-2.
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, byte_level])
    if name in ("default", "gpt-2"):
        return byte_level
    raise ValueError(
        f"tokenizer.ggml.pre is {name!r}, supported are 'smollm', 'gpt-2' and 'default'"
    )


def _build_bpe(ids: dict[str, int], merges: list[str], pre: str):
    from tokenizers import Tokenizer as BpeTokenizer
    from tokenizers import decoders, models

    pairs = []
    for i, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            raise ValueError(
                f"tokenizer.ggml.merges[{i}] {merge!r} names a token that does not exist"
            )
        pairs.append((left, right))
    bpe = BpeTokenizer(models.BPE(vocab=ids, merges=pairs))
    bpe.pre_tokenizer = _pre_tokenizer(pre)
    bpe.decoder = decoders.ByteLevel()
    return bpe
