# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""A MindSpore that nobody tested gives one line, not a crash; all name the same versions."""

import re
from pathlib import Path

import pytest
import tomllib

import mindspore_relay
from mindspore_relay._mindspore_version import TESTED_VERSIONS, untested_reason

ROOT = Path(__file__).resolve().parent.parent

# Takes another version for MindSpore's own, and uses operators from two threads.
PROGRAM = """
import threading
import mindspore as ms
ms.__version__ = {version!r}
import numpy as np
import mindspore_relay
ms.set_device("CPU")
def merge():
    part, lse = ms.Tensor(np.ones((2, 3, 8), np.float32)), ms.Tensor(np.zeros((2, 3), np.float32))
    out, _ = mindspore_relay.merge_attention_states(part, lse, part, lse)
    assert (out.asnumpy() == 1).all()
for _ in range(2):
    thread = threading.Thread(target=merge)
    thread.start()
    thread.join()
mindspore_relay.relay_attention, mindspore_relay.RelayAttention
print("done")
"""


@pytest.mark.parametrize(
    "version, reason",
    [
        ("2.7.1", "is older than 2.7.2, the oldest version that it is tested with"),
        ("2.11.0", "is newer than 2.10.0, the newest version that it is tested with"),
        ("unknown", "is none of the versions 2.7.2 to 2.10.0 that it is tested with"),
    ],
)
def test_an_untested_version_gives_one_line(version, reason, run_python):
    result = run_python("-c", PROGRAM.format(version=version))
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if "mindspore_relay" in line]
    assert lines == [f"mindspore_relay {mindspore_relay.__version__}: MindSpore {version} {reason}"]
    assert result.stdout.splitlines()[-1] == "done"


def test_a_tested_version_gives_no_line(run_python):
    result = run_python("-c", PROGRAM.format(version=TESTED_VERSIONS[1]))
    assert result.returncode == 0, result.stderr
    assert "mindspore_relay" not in result.stderr


@pytest.mark.parametrize("version", [*TESTED_VERSIONS, "2.8.1", "2.10.0rc1", "2.9"])
def test_versions_between_are_taken_as_they_are(version):
    assert untested_reason(version) is None


@pytest.mark.parametrize("version", ["1.9.0", "2.7", "2.7.1.post1", "2.10.1", "3.0.0", "", None])
def test_versions_outside(version):
    assert str(version) in untested_reason(version)


def test_everybody_names_the_same_versions():
    with open(ROOT / "pyproject.toml", "rb") as file:
        dependencies = tomllib.load(file)["project"]["dependencies"]
    assert f"mindspore>={TESTED_VERSIONS[0]}" in dependencies
    script = (ROOT / "scripts" / "test_versions.sh").read_text()
    assert re.search(r"^VERSIONS=\((.*)\)$", script, re.MULTILINE)[1].split() == list(
        TESTED_VERSIONS
    )
    table = re.findall(r"^\| (\d+\.\d+\.\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert table == list(TESTED_VERSIONS)
