# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention for prompts that share a prefix, as MindSpore custom operators.

Importing this package does nothing but this file: no MindSpore, no device, no library, no output.
Each public name is loaded from its module when it is first used.
"""

import importlib

__version__ = "0.1.0"

# Public name -> module that defines it.
_MODULE_OF = {
    "MaskType": "masks",
    "OutOfBlocksError": "paged_cache",
    "PagedKVCache": "paged_cache",
    "PrefixEncoderAttention": "layers",
    "RelayAttention": "layers",
    "alibi_slopes": "masks",
    "find_shared_groups": "shared_groups",
    "get_num_threads": "_library",
    "last_relay_path": "operators",
    "make_alibi_mask": "masks",
    "make_alibi_mask_128": "masks",
    "merge_attention_states": "operators",
    "pack_share": "packed_share",
    "prefix_encoder": "operators",
    "relay_attention": "operators",
    "reshape_and_cache": "operators",
    "set_num_threads": "_library",
    "stop_threads": "_library",
}

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name):
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value  # next time without this function
    return value


def __dir__():
    return sorted({*globals(), *_MODULE_OF})
