# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operator package's CMake (aicore/CMakeLists.txt) against a stand-in for the CANN toolkit.

The stand-in (tests/aicore/fake_toolkit) records the calls of the toolkit's CMake functions and
compiles the host side for real; there is no device compiler.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = {"relay_attention": "RelayAttention", "prefix_encoder": "PrefixEncoder"}
# What the toolkit must have, and what is said when it has not.
TOOLS = ("tools/opbuild/op_build", "compiler/ccec_compiler/bin/bisheng")


@pytest.fixture
def toolkit(tmp_path):
    """A complete stand-in; tests take parts away."""
    folder = tmp_path / "toolkit"
    shutil.copytree(ROOT / "tests/aicore/fake_toolkit", folder)
    for tool in TOOLS:
        (folder / tool).parent.mkdir(parents=True, exist_ok=True)
        (folder / tool).write_text("#!/bin/sh\n")
        (folder / tool).chmod(0o755)
    return folder


def configure(toolkit, build):
    command = ["cmake", "-S", ROOT / "aicore", "-B", build, f"-DASCEND_HOME_PATH={toolkit}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def calls_of(build):
    """Recorded calls: list of (function, list of arguments)."""
    lines = (build / "calls.txt").read_text().splitlines()
    return [(name, arguments) for name, *arguments in map(str.split, lines)]


def test_configures_the_right_package(toolkit, tmp_path):
    build = tmp_path / "build"
    result = configure(toolkit, build)
    assert result.returncode == 0, result.stderr
    calls = calls_of(build)
    (package,) = [arguments for name, arguments in calls if name == "npu_op_package"]
    assert package[:3] == ["mindspore_relay", "TYPE", "RUN"]
    options = dict(zip(package[4::2], package[5::2], strict=True))
    assert options["ENABLE_BINARY_PACKAGE"] == "True"
    assert options["ENABLE_CPACK"] == "False"
    (added,) = [arguments for name, arguments in calls if name == "npu_op_package_add"]
    assert set(added[2:]) == {"cust_optiling", "cust_opapi", "cust_op_proto", "ascendc_kernels"}


def test_host_libraries_have_all_sources(toolkit, tmp_path):
    build = tmp_path / "build"
    assert configure(toolkit, build).returncode == 0
    calls = calls_of(build)
    expected = {
        str(ROOT / "aicore" / operator / "op_host" / f"{operator}_{part}.cpp")
        for operator in OPERATORS
        for part in ("def", "proto", "tiling", "tiling_core")
    }
    (generated,) = [arguments for name, arguments in calls if name == "npu_op_code_gen"]
    assert expected <= set(generated)
    libraries = {
        arguments[0]: arguments[1:] for name, arguments in calls if name == "npu_op_library"
    }
    assert libraries["cust_optiling"][0] == "TILING" and expected <= set(libraries["cust_optiling"])
    assert libraries["cust_op_proto"][0] == "GRAPH" and expected <= set(libraries["cust_op_proto"])
    autogen = build / "autogen"
    assert libraries["cust_opapi"] == [
        "ACLNN",
        *(str(autogen / f"aclnn_{operator}.cpp") for operator in sorted(OPERATORS)),
    ]
    assert str(autogen / "op_proto.cc") in libraries["cust_op_proto"]


def test_kernels_are_found_and_synchronise_themselves(toolkit, tmp_path):
    build = tmp_path / "build"
    assert configure(toolkit, build).returncode == 0
    calls = calls_of(build)
    sources = [arguments for name, arguments in calls if name == "npu_op_kernel_sources"]
    assert [arguments[2] for arguments in sources] == list(OPERATORS.values())
    for arguments in sources:
        folder, file = arguments[arguments.index("KERNEL_DIR") + 1], arguments[-1]
        assert (ROOT / "aicore" / folder / file).is_file()
    (library,) = [arguments for name, arguments in calls if name == "npu_op_kernel_library"]
    assert library == [
        "ascendc_kernels",
        "SRC_BASE",
        str(ROOT / "aicore"),
        "TILING_LIBRARY",
        "cust_optiling",
    ]
    options = {
        arguments[1]: arguments for name, arguments in calls if name == "npu_op_kernel_options"
    }
    for operator, op_type in OPERATORS.items():
        assert f"-I{ROOT}/aicore/{operator}/op_kernel" in options[op_type]
        assert "--cce-auto-sync=off" in options[op_type]


def test_builds_and_installs_into_a_vendors_tree(toolkit, tmp_path):
    build, prefix = tmp_path / "build", tmp_path / "dist"
    assert configure(toolkit, build).returncode == 0
    for command in (
        ["--build", build, "--parallel", "2"],
        ["--install", build, "--prefix", prefix],
    ):
        result = subprocess.run(["cmake", *command], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stdout + result.stderr
    assert (build / "kernels_built").exists(), "the kernels are not part of the build"
    installed = {path.name for path in (prefix / "packages/vendors/mindspore_relay").rglob("*.so")}
    assert installed == {"libcust_optiling.so", "libcust_opapi.so", "libcust_op_proto.so"}


@pytest.mark.parametrize("part", ["include/register/op_def_registry.h", *TOOLS])
def test_missing_part_is_named(toolkit, tmp_path, part):
    (toolkit / part).unlink()
    result = configure(toolkit, tmp_path / "build")
    assert result.returncode != 0
    assert f"lacks {part}" in " ".join(result.stderr.split())


def test_missing_cmake_package_is_named(toolkit, tmp_path):
    shutil.rmtree(toolkit / "compiler/tikcpp")
    result = configure(toolkit, tmp_path / "build")
    assert result.returncode != 0
    assert "has no CMake package ASC with npu_op_package" in " ".join(result.stderr.split())


@pytest.mark.parametrize("home, said", [("", "is not set"), ("/nowhere", "is not a folder")])
def test_wrong_toolkit_folder(tmp_path, monkeypatch, home, said):
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    result = configure(home, tmp_path / "build")
    assert result.returncode != 0
    assert said in " ".join(result.stderr.split())
