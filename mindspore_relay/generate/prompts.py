# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Prompt files, and what becomes of them: requests in token ids."""

import json
from dataclasses import dataclass
from pathlib import Path

from mindspore_relay.llama.scheduler import Request
from mindspore_relay.llama.tokenizer import Tokenizer

DATA_DIR = Path(__file__).resolve().parent.parent / "data"
DEFAULT_SYSTEM_PROMPT = DATA_DIR / "support_handbook.txt"
DEFAULT_PROMPTS = DATA_DIR / "user_prompts.txt"

_KEYS = {"prompt", "system_prompt"}


@dataclass(frozen=True)
class Prompt:
    """One user prompt; system_prompt is empty for none."""

    text: str
    system_prompt: str = ""


def read_text(path: Path) -> str:
    """Content of a UTF-8 file, with or without a byte-order mark.

    Raises:
        ValueError: not UTF-8. OSError: cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


def read_prompts(path: Path, system_prompt: str) -> list[Prompt]:
    """Prompts of a file: one per line, or JSON lines. Empty lines are skipped.

    A file whose name ends in .jsonl holds JSON lines; any other does if each line is an object with
    "prompt".

    Args:
        path: the file.
        system_prompt: for prompts that name none.

    Raises:
        ValueError: names the file, the line and what is wrong with it. OSError: cannot be read.
    """
    # Not splitlines(): that also cuts at characters that may stand inside a prompt, such as U+2028.
    numbered = enumerate(read_text(path).split("\n"), start=1)
    lines = [(number, line.strip()) for number, line in numbered if line.strip()]
    if not lines:
        raise ValueError(f"{path} holds no prompts")
    if path.suffix == ".jsonl" or all(_is_prompt_object(line) for _, line in lines):
        return [_parse_json_line(f"{path}, line {n}", line, system_prompt) for n, line in lines]
    return [Prompt(line, system_prompt) for _, line in lines]


def _load_json(line: str):
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _is_prompt_object(line: str) -> bool:
    try:
        value = _load_json(line)
    except ValueError:
        return False
    return isinstance(value, dict) and "prompt" in value


def _parse_json_line(where: str, line: str, system_prompt: str) -> Prompt:
    try:
        value = _load_json(line)
    except ValueError as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object with a prompt, got {type(value).__name__}")
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise ValueError(
            f"{where}: unknown key {unknown[0]!r}, known are {', '.join(sorted(_KEYS))}"
        )
    prompt = value.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{where}: prompt must be a text that is not empty, got {prompt!r}")
    own_system_prompt = value.get("system_prompt", system_prompt)
    if own_system_prompt is not None and not isinstance(own_system_prompt, str):
        raise ValueError(
            f"{where}: system_prompt must be a text or null, got {own_system_prompt!r}"
        )
    for text in (prompt, own_system_prompt or ""):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{where}: a text holds half of a surrogate pair")
    return Prompt(prompt, own_system_prompt or "")


def make_requests(prompts: list[Prompt], tokenizer: Tokenizer, *, is_raw: bool) -> list[Request]:
    """Token ids of each prompt; prompts with the same system prompt get the same prefix.

    With the chat template, a prompt without a system prompt gets the template's default one, as
    part of its own tokens. Raw, the system prompt is text that stands before the prompt.

    Raises:
        ValueError: the model file has no chat template and is_raw is False.
    """
    begin = () if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,)
    requests = []
    for index, prompt in enumerate(prompts):
        prefix_ids, own_begin = (), begin
        if prompt.system_prompt:
            encode = tokenizer.encode if is_raw else tokenizer.chat_prefix
            prefix_ids, own_begin = (*begin, *encode(prompt.system_prompt)), ()
        elif not is_raw and tokenizer.default_system_prompt is not None:
            own_begin = (*begin, *tokenizer.chat_prefix(tokenizer.default_system_prompt))
        encode = tokenizer.encode if is_raw else tokenizer.chat_user
        requests.append(Request(index, prefix_ids, (*own_begin, *encode(prompt.text))))
    return requests
