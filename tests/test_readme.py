# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The README's example runs as it stands, and its links and paths exist."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def plain_attention(query, key, value, head_num, scale):
    """One request by the textbook: query (head_num * D,), key and value (keys, kv_head_num, D)."""
    query = query.reshape(head_num, -1)
    key, value = (np.repeat(x, head_num // x.shape[1], axis=1) for x in (key, value))
    score = np.einsum("hd,khd->hk", query, key) * scale
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.einsum("hk,khd->hd", weight / weight.sum(axis=1, keepdims=True), value).ravel()


def test_example():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    query, output = (names[name].asnumpy().astype(np.float64) for name in ("query", "output"))
    lists = ("key", "value", "key_share", "value_share")
    own_key, own_value, (key_share,), (value_share,) = (
        [tensor.asnumpy().astype(np.float64) for tensor in names[name]] for name in lists
    )
    for request, group in enumerate((0, 0, -1)):
        key, value = own_key[request], own_value[request]
        if group == 0:
            key, value = np.concatenate([key_share, key]), np.concatenate([value_share, value])
        expected = plain_attention(query[request], key, value, head_num=8, scale=64**-0.5)
        # Values up to about 4 are rounded once to float16: half a unit of 2 ** -9.
        np.testing.assert_allclose(output[request], expected, rtol=0, atol=2**-9)


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "THIRD_PARTY.md"]
)
def test_links_and_paths_exist(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", text)
    paths = re.findall(r"`((?:ops|aicore|tests|scripts|docs|mindspore_relay)/[\w./]*)`", text)
    assert links + paths
    assert [path for path in links + paths if not (ROOT / path).exists()] == []
