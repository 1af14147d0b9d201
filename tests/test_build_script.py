# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/build.sh says in one sentence what is wrong or missing, before it builds anything."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "build.sh"

# What building operators needs of CANN, in the order in which build.sh looks for it.
CANN_FILES = [
    "compiler/ccec_compiler/bin/bisheng",
    "include/register/op_def_registry.h",
    "tools/opbuild/op_build",
]


def build(*arguments, ascend_home_path=None):
    environment = {"PATH": "/usr/bin:/bin"}
    if ascend_home_path is not None:
        environment["ASCEND_HOME_PATH"] = str(ascend_home_path)
    return subprocess.run(
        ["bash", SCRIPT, *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


def refusal(result):
    """The one line on stderr of a build that did not begin."""
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_help_names_every_option():
    result = build("--help")
    assert result.returncode == 0
    for option in ("--device cpu|ascend|all", "--debug", "--clean", "--jobs N"):
        assert option in result.stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--device", "gpu"], "--device must be cpu, ascend or all, got 'gpu'"),
        (["--device"], "the last option needs a value"),
        (["--jobs", "0"], "--jobs must be a positive number, got '0'"),
        (["--jobs", "many"], "--jobs must be a positive number, got 'many'"),
    ],
)
def test_wrong_option(arguments, said):
    assert said in refusal(build(*arguments))


def test_unknown_option_shows_the_usage():
    result = build("--fast")
    assert result.returncode == 1
    assert "unknown argument --fast" in result.stderr and "usage: " in result.stderr


def test_ascend_without_cann():
    assert "ASCEND_HOME_PATH is not set" in refusal(build("--device", "ascend"))


def test_ascend_with_a_wrong_folder(tmp_path):
    result = build("--device", "ascend", ascend_home_path=tmp_path / "gone")
    assert f"ASCEND_HOME_PATH={tmp_path / 'gone'} is not a folder" in refusal(result)


@pytest.mark.parametrize("num_present", range(len(CANN_FILES)))
def test_ascend_with_an_incomplete_toolkit(tmp_path, num_present):
    for name in CANN_FILES[:num_present]:
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.touch(mode=0o755)
    line = refusal(build("--device", "ascend", ascend_home_path=tmp_path))
    assert Path(CANN_FILES[num_present]).name in line and str(tmp_path) in line
