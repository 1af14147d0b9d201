# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The operator package's CMake (aicore/CMakeLists.txt) against stand-ins for the CANN toolkit.

tests/aicore/fake_toolkit has the CMake package ASC of newer toolkits and records the calls of its
functions; tests/aicore/fake_toolkit_older has the operator project of older ones. Both compile the
host side for real; there is no device compiler.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = {"relay_attention": "RelayAttention", "prefix_encoder": "PrefixEncoder"}
# What the toolkit must have, and what is said when it has not.
TOOLS = ("tools/opbuild/op_build", "compiler/ccec_compiler/bin/bisheng")
PROJECT = "tools/op_project_templates/ascendc/customize"


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


@pytest.fixture
def older_toolkit(tmp_path):
    """A complete stand-in of the older layout."""
    folder = tmp_path / "older_toolkit"
    shutil.copytree(ROOT / "tests/aicore/fake_toolkit_older", folder)
    shutil.copytree(ROOT / "tests/aicore/fake_toolkit/include", folder / "include")
    (folder / TOOLS[1]).parent.mkdir(parents=True)
    (folder / TOOLS[1]).touch(0o755)
    # As in the toolkit: scripts are links out of the project, and nothing is writable.
    link = folder / PROJECT / "cmake/util/compile_kernel.py"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("../../../common/util/compile_kernel.py")
    for path in (folder / PROJECT).rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o444)
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


def build_and_install(build, prefix):
    for command in (
        ["--build", build, "--parallel", "2"],
        ["--install", build, "--prefix", prefix],
    ):
        result = subprocess.run(["cmake", *command], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stdout + result.stderr


def test_builds_and_installs_into_a_vendors_tree(toolkit, tmp_path):
    build, prefix = tmp_path / "build", tmp_path / "dist"
    assert configure(toolkit, build).returncode == 0
    build_and_install(build, prefix)
    assert (build / "kernels_built").exists(), "the kernels are not part of the build"
    installed = {path.name for path in (prefix / "packages/vendors/mindspore_relay").rglob("*.so")}
    assert installed == {"libcust_optiling.so", "libcust_opapi.so", "libcust_op_proto.so"}


@pytest.mark.parametrize("part", ["include/register/op_def_registry.h", *TOOLS])
def test_missing_part_is_named(toolkit, tmp_path, part):
    (toolkit / part).unlink()
    result = configure(toolkit, tmp_path / "build")
    assert result.returncode != 0
    assert f"lacks {part}" in " ".join(result.stderr.split())


def test_missing_cmake_is_named(toolkit, tmp_path):
    shutil.rmtree(toolkit / "compiler/tikcpp")
    result = configure(toolkit, tmp_path / "build")
    assert result.returncode != 0
    said = " ".join(result.stderr.split())
    assert "neither the CMake package ASC with npu_op_package" in said
    assert f"nor the operator project {PROJECT}" in said


def test_older_toolkit_builds_and_installs_into_a_vendors_tree(older_toolkit, tmp_path):
    build, prefix = tmp_path / "build", tmp_path / "dist"
    result = configure(older_toolkit, build)
    assert result.returncode == 0, result.stderr
    build_and_install(build, prefix)
    assert dict(
        line.split("=") for line in (build / "package/settings.txt").read_text().splitlines()
    ) == {
        "vendor_name": "mindspore_relay",
        "ASCEND_CANN_PACKAGE_PATH": str(older_toolkit),
        "ASCEND_PYTHON_EXECUTABLE": "python3",
        "ASCEND_COMPUTE_UNIT": "ascend910b",
        "ENABLE_SOURCE_PACKAGE": "False",
        "ENABLE_BINARY_PACKAGE": "True",
        "ENABLE_TEST": "False",
        "ENABLE_CROSS_COMPILE": "False",
        "ASCEND_PACK_SHARED_LIBRARY": "False",
    }
    options = (build / "package/autogen/custom_compile_options.ini").read_text().splitlines()
    assert options == [f"{op_type} --cce-auto-sync=off" for op_type in OPERATORS.values()]

    vendor = prefix / "packages/vendors/mindspore_relay"
    assert {path.name for path in vendor.rglob("*.so")} == {
        "libcust_opmaster_rt2.0.so",
        "libcust_opsproto_rt2.0.so",
        "libcust_opapi.so",
    }
    for operator in OPERATORS:
        assert (vendor / f"op_api/include/aclnn_{operator}.h").is_file()
        kernel = vendor / f"op_impl/ai_core/tbe/kernel/ascend910b/{operator}/{operator}.o"
        assert kernel.read_text() == f"{ROOT}/aicore/{operator}/op_kernel/{operator}.cpp"


def test_older_project_gets_exactly_the_sources(older_toolkit, tmp_path):
    build = tmp_path / "build"
    project = build / "project"
    # Left of a build of other sources that was interrupted.
    for left in (project / "op_host/former_def.cpp", build / "package/op_kernel/Former/kernel.o"):
        left.parent.mkdir(parents=True)
        left.touch()
    result = configure(older_toolkit, build)
    assert result.returncode == 0, result.stderr
    assert not (build / "package/op_kernel").exists()
    assert not (project / "framework").exists()
    sources = {
        source.relative_to(project).as_posix(): source.read_text()
        for source in project.rglob("*.cpp")
    }
    expected = {}
    for operator in OPERATORS:
        for part in ("def", "proto", "tiling", "tiling_core"):
            expected[f"op_host/{operator}_{part}.cpp"] = f"{operator}/op_host/{operator}_{part}.cpp"
        expected[f"op_kernel/{operator}.cpp"] = f"{operator}/op_kernel/{operator}.cpp"
    assert sources == {
        name: f'#include "{ROOT}/aicore/{source}"\n' for name, source in expected.items()
    }
    for file in ("func", "intf"):
        settings = (project / f"cmake/{file}.cmake").read_text()
        assert "-std=c++17" in settings and "-std=c++11" not in settings
    assert not (project / "cmake/util/compile_kernel.py").is_symlink()


def test_newer_cmake_is_preferred(toolkit, older_toolkit, tmp_path):
    shutil.copytree(older_toolkit / PROJECT, toolkit / PROJECT)
    build = tmp_path / "build"
    assert configure(toolkit, build).returncode == 0
    assert calls_of(build) and not (build / "project").exists()


@pytest.mark.parametrize("part", ["cmake/func.cmake", "op_kernel/CMakeLists.txt"])
def test_incomplete_older_project_is_named(older_toolkit, tmp_path, part):
    (older_toolkit / PROJECT / part).unlink()
    result = configure(older_toolkit, tmp_path / "build")
    assert result.returncode != 0
    assert f"{PROJECT} lacks {part}" in " ".join(result.stderr.split())


def test_older_generator_that_is_missing_is_named(older_toolkit, tmp_path):
    (older_toolkit / "toolkit/tools/opbuild/op_build").unlink()
    result = configure(older_toolkit, tmp_path / "build")
    assert result.returncode != 0
    assert "lacks tools/opbuild/op_build" in " ".join(result.stderr.split())


@pytest.mark.parametrize("home, said", [("", "is not set"), ("/nowhere", "is not a folder")])
def test_wrong_toolkit_folder(tmp_path, monkeypatch, home, said):
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    result = configure(home, tmp_path / "build")
    assert result.returncode != 0
    assert said in " ".join(result.stderr.split())
