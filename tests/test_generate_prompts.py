# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Prompt files and the token ids that are made of them."""

import json

import pytest
from tiny_llama import TinyLlama

from mindspore_relay.generate.model_file import find_model_file
from mindspore_relay.generate.prompts import (
    DEFAULT_PROMPTS,
    DEFAULT_SYSTEM_PROMPT,
    Prompt,
    make_requests,
    read_prompts,
    read_text,
)
from mindspore_relay.llama.gguf_file import read_gguf
from mindspore_relay.llama.tokenizer import Tokenizer


@pytest.fixture
def read(tmp_path):
    """Function: content and name of a file -> its prompts, with the system prompt "sys"."""

    def write_and_read(content, name="prompts.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_prompts(path, "sys")

    return write_and_read


def test_lines(read):
    prompts = read("\n  first \r\n\n{not json}\nthird\u2028still third\n")
    texts = ["first", "{not json}", "third\u2028still third"]
    assert prompts == [Prompt(text, "sys") for text in texts]


def test_byte_order_mark(read):
    assert read("\ufefffirst\n") == [Prompt("first", "sys")]


@pytest.mark.parametrize("name", ["prompts.jsonl", "prompts.txt"])
def test_json_lines(read, name):
    rows = [
        {"prompt": " spaces stay\n"},
        {"prompt": "a", "system_prompt": "other"},
        {"prompt": "b", "system_prompt": None},
        {"prompt": "c", "system_prompt": ""},
        {"prompt": "ü 🚲"},
    ]
    content = "\n\n".join(map(json.dumps, rows))
    assert read(content, name) == [
        Prompt(" spaces stay\n", "sys"),
        Prompt("a", "other"),
        Prompt("b", ""),
        Prompt("c", ""),
        Prompt("ü 🚲", "sys"),
    ]


def test_text_file_with_some_json(read):
    """Only a file in which every line is a prompt object is JSON lines."""
    assert read('{"prompt": "a"}\nb\n') == [Prompt('{"prompt": "a"}', "sys"), Prompt("b", "sys")]


BAD_JSONL = {
    "broken": ('{"prompt": "a"}\n{"prompt": ', "line 2: not JSON"),
    "plain text": ("\n\nhello", "line 3: not JSON"),
    "list": ('["a"]', "expected an object with a prompt, got list"),
    "number": ("7", "expected an object with a prompt, got int"),
    "no prompt": ('{"system_prompt": "a"}', "prompt must be a text that is not empty, got None"),
    "prompt is a number": ('{"prompt": 5}', "not empty, got 5"),
    "empty prompt": ('{"prompt": " "}', "not empty, got ' '"),
    "misspelt key": ('{"prompt": "a", "system": "b"}', "unknown key 'system', known are prompt"),
    "system prompt": ('{"prompt": "a", "system_prompt": 1}', "a text or null, got 1"),
    "half a surrogate pair": ('{"prompt": "\\ud800"}', "half of a surrogate pair"),
    "nested": ('{"prompt": ' + "[" * 100_000, "not JSON"),
}


@pytest.mark.parametrize(("content", "message"), BAD_JSONL.values(), ids=BAD_JSONL.keys())
def test_bad_json_lines(read, content, message):
    with pytest.raises(ValueError, match=message) as error:
        read(content, "prompts.jsonl")
    assert "prompts.jsonl, line " in str(error.value)


def test_bad_files(read, tmp_path):
    with pytest.raises(ValueError, match="holds no prompts"):
        read("\n \n")
    with pytest.raises(ValueError, match="not UTF-8: .* at byte 3"):
        read(b"abc\xff")
    with pytest.raises(FileNotFoundError):
        read_prompts(tmp_path / "none", "")


def test_built_in_texts():
    """A system prompt long enough to be worth sharing, and a full batch of prompts."""
    tokenizer = Tokenizer(read_gguf(find_model_file()).metadata)
    system_prompt = read_text(DEFAULT_SYSTEM_PROMPT).strip()
    assert len(tokenizer.encode(system_prompt)) >= 1500
    prompts = read_prompts(DEFAULT_PROMPTS, system_prompt)
    assert len({prompt.text for prompt in prompts}) == len(prompts) == 32


@pytest.fixture
def tokenizer():
    return Tokenizer(TinyLlama().metadata())


def whole(request):
    return [*request.prefix_ids, *request.prompt_ids]


def test_chat_requests(tokenizer):
    """The prefix is the system turn. The template's system prompt is each prompt's own."""
    prompts = [Prompt("the in", "sys"), Prompt("in"), Prompt("the", "sys")]
    requests = make_requests(prompts, tokenizer, is_raw=False)
    assert [request.index for request in requests] == [0, 1, 2]
    assert requests[0].prefix_ids == requests[2].prefix_ids == (*tokenizer.chat_prefix("sys"),)
    assert requests[0].prompt_ids == (*tokenizer.chat_user("the in"),)
    assert requests[1].prefix_ids == ()
    default = tokenizer.chat_prefix("Be brief.")
    assert whole(requests[1]) == [*default, *tokenizer.chat_user("in")]


def test_raw_requests(tokenizer):
    requests = make_requests([Prompt("the", "in "), Prompt("in")], tokenizer, is_raw=True)
    assert requests[0].prefix_ids == (*tokenizer.encode("in "),)
    assert requests[0].prompt_ids == (*tokenizer.encode("the"),)
    assert whole(requests[1]) == tokenizer.encode("in")


@pytest.mark.parametrize("is_raw", [True, False])
def test_beginning_token_stands_once_at_the_front(is_raw):
    metadata = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 0}
    tokenizer = Tokenizer(TinyLlama().metadata() | metadata)
    for request in make_requests([Prompt("the", "in"), Prompt("in")], tokenizer, is_raw=is_raw):
        assert whole(request)[0] == 0
        assert whole(request).count(0) == 1


def test_chat_needs_a_template():
    tokenizer = Tokenizer(TinyLlama().metadata() | {"tokenizer.chat_template": None})
    with pytest.raises(ValueError, match="--raw"):
        make_requests([Prompt("the")], tokenizer, is_raw=False)
