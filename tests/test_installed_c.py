# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""C and C++ programs outside the repository, built against the installed package and run.

The programs are those of tests/cpp/callers and the examples of docs/c_and_pytorch.md. Each prints
"ok", or what the document says. They are built by the compiler alone, with the options that
`python -m mindspore_relay` prints, and by CMake's find_package.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CALLERS = ROOT / "tests" / "cpp" / "callers"
DOCUMENT = ROOT / "docs" / "c_and_pytorch.md"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def code_blocks(language):
    """Code blocks of a language in the document, each with the text block that follows it."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return [
        (code, next((text for name, text in blocks[i:] if name == "text"), None))
        for i, (block_language, code) in enumerate(blocks)
        if block_language == language
    ]


def _programs():
    """Name -> (file name, source, output)."""
    programs = {
        path.stem: (path.name, path.read_text(encoding="utf-8"), "ok\n")
        for path in sorted(CALLERS.iterdir())
    }
    ((c_source, c_output),) = code_blocks("c")
    ((cpp_source, cpp_output),) = code_blocks("cpp")
    programs["document_c"] = ("program.c", c_source, c_output)
    programs["document_cpp"] = ("program.cc", cpp_source, cpp_output)
    return programs


PROGRAMS = _programs()
# count_allocations brings its own malloc, as valgrind does; many_threads takes minutes there, and
# exit_while_running ends with its threads, and what they hold, alive.
NOT_UNDER_VALGRIND = ("count_allocations", "many_threads", "exit_while_running")
UNDER_VALGRIND = [name for name in PROGRAMS if name not in NOT_UNDER_VALGRIND]


@pytest.fixture
def source(tmp_path):
    """Function that writes a program's source outside the repository and returns its path."""

    def write(name):
        file_name, text, _ = PROGRAMS[name]
        path = tmp_path / file_name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def compiled(source, run_python, tmp_path):
    """Function that compiles a program with the options that the package prints."""

    def build(name):
        path = source(name)
        options = run_python("-m", "mindspore_relay", "--cflags", "--libs")
        assert options.returncode == 0, options.stderr
        compiler = _tool("cc") if path.suffix == ".c" else _tool("c++")
        program = tmp_path / name
        command = [compiler, "-g", *WARNINGS, path, *options.stdout.split()]
        _run([*command, "-lm", "-pthread", "-o", program])
        return program

    return build


def _tool(name):
    """Path of a build tool, which may lie beside the interpreter (cmake and ninja from PyPI)."""
    path = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    assert path, f"{name} not found; scripts/test.sh installs it"
    return path


def _run(command, **kwargs):
    command = [str(word) for word in command]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_compiler(compiled, name):
    assert _run([compiled(name)]) == PROGRAMS[name][2]


@pytest.mark.parametrize("name", UNDER_VALGRIND)
def test_under_valgrind(compiled, name):
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind is not installed; scripts/test.sh installs it")
    # Worker threads live until the process ends: what is still reachable then is no leak.
    options = ["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]
    assert _run([valgrind, "-q", *options, compiled(name)]) == PROGRAMS[name][2]


@pytest.mark.parametrize("name", ["document_c", "document_cpp", "atb_prefix_encoder"])
def test_by_cmake(source, run_python, tmp_path, name):
    """With the CMakeLists.txt of the document."""
    path = source(name)
    ((cmake_lists, _),) = code_blocks("cmake")
    assert "program.c)" in cmake_lists
    (tmp_path / "CMakeLists.txt").write_text(cmake_lists.replace("program.c)", f"{path.name})"))
    cmake_dir = run_python("-m", "mindspore_relay", "--cmake-dir").stdout.strip()
    build = tmp_path / "build"
    configure = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    configure += [f"-Dmindspore_relay_DIR={cmake_dir}", "-DCMAKE_BUILD_TYPE=Debug"]
    _run([_tool("cmake"), "-S", tmp_path, "-B", build, *configure])
    _run([_tool("cmake"), "--build", build])
    assert _run([build / "program"]) == PROGRAMS[name][2]


def test_cost_of_a_call(run_python, tmp_path):
    """Both phases for one request, one head and 16 keys: below 5 us, as scripts/bench_capi.py says.

    The best of three tries of its best loop: other programs take time from a single loop.
    """
    isa, *options = run_python(
        "-c",
        "from mindspore_relay import _library; from mindspore_relay.__main__ import main;"
        "print(_library.isa_name()); main(['--cflags', '--libs'])",
    ).stdout.split()
    if isa == "portable":
        pytest.skip("the portable kernels are not measured against a time")
    program = tmp_path / "bench_capi"
    source = ROOT / "scripts" / "bench_capi.cc"
    _run([_tool("c++"), "-std=c++17", "-O2", *WARNINGS, source, *options, "-o", program])
    best = {}
    for _ in range(3):
        for line in _run([program]).splitlines():
            operator, dtype, microseconds = line.split()
            if operator.startswith("plan64_"):  # phase 1 of large batches
                continue
            best[operator, dtype] = min(best.get((operator, dtype), 1e9), float(microseconds))
        if max(best.values()) < 5:
            break
    assert len(best) == 6
    assert max(best.values()) < 5, best


# A header of CANN, and the stand-in that must not meet it.
REAL_HEADERS = [
    ("INC_EXTERNAL_ACL_ACL_BASE_H_", "acl.hpp"),
    ("INC_EXTERNAL_ACL_ACL_RT_H_", "acl.hpp"),
    ("INC_EXTERNAL_ATB_TYPES_H", "atb.hpp"),
    ("INC_EXTERNAL_ATB_OPERATION_H", "atb.hpp"),
    ("INC_EXTERNAL_ATB_INFEROPPARAM_H", "atb.hpp"),
    ("ATB_ACL_H", "atb.hpp"),
]


def _compile_only(run_python, tmp_path, text):
    path = tmp_path / "include.cc"
    path.write_text(text, encoding="utf-8")
    flags = run_python("-m", "mindspore_relay", "--cflags").stdout.split()
    command = [_tool("c++"), *WARNINGS, *flags, "-fsyntax-only", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("guard", "stand_in"), REAL_HEADERS)
def test_compat_refuses_real_headers(run_python, tmp_path, guard, stand_in):
    text = f"#define {guard}\n#include <mindspore_relay/compat/{stand_in}>\n"
    result = _compile_only(run_python, tmp_path, text)
    assert result.returncode != 0 and "stands in for" in result.stderr


@pytest.mark.parametrize(
    "real",
    [
        "typedef enum { ACL_FLOAT = 0 } aclDataType;",
        "typedef struct aclTensor aclTensor; aclTensor *aclCreateTensor(const int64_t *, uint64_t, "
        "aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *);"
        'extern "C" int aclrtFree(void *);',
    ],
)
def test_real_headers_refuse_compat(run_python, tmp_path, real):
    """What CANN's headers define cannot follow: they define the same names."""
    text = "#include <mindspore_relay/compat/atb.hpp>\n"
    assert _compile_only(run_python, tmp_path, text).returncode == 0
    assert _compile_only(run_python, tmp_path, text + real).returncode != 0


def test_headers_are_plain_and_self_contained(run_python, tmp_path):
    """The C header alone, as C99 and as C++11, twice, without a warning."""
    flags = run_python("-m", "mindspore_relay", "--cflags").stdout.split()
    for compiler, standard, suffix in (("cc", "c99", "c"), ("c++", "c++11", "cc")):
        path = tmp_path / f"include.{suffix}"
        path.write_text("#include <mindspore_relay/mindspore_relay.h>\n" * 2)
        options = [f"-std={standard}", "-pedantic", *WARNINGS, *flags]
        _run([_tool(compiler), *options, "-fsyntax-only", path])


def test_exported_symbols(run_python):
    """The library shows the functions of the header, with the version in which they came, and the
    entry points of ops.Custom; nothing else."""
    script = "from mindspore_relay._library import *; print(library_path(), include_dir())"
    library, include = run_python("-c", script).stdout.split()
    header = (Path(include) / "mindspore_relay" / "mindspore_relay.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"MS_RELAY_API [\w *]*?\b(MsRelay\w+)\(", header))
    assert len(declared) >= 20
    symbols = _run([_tool("nm"), "-D", "--defined-only", "--with-symbol-versions", library])
    shown = {}
    for line in symbols.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the names of the versions themselves
            name, _, version = name.partition("@@")
            shown.setdefault(version, set()).add(name)
    assert shown.pop("MINDSPORE_RELAY_0.1") == declared
    private = shown.pop("MINDSPORE_RELAY_PRIVATE")
    operators = (
        *("RelayAttention", "PrefixEncoder", "ReshapeAndCache"),
        *("PackShare", "MergeAttentionStates"),
    )
    assert all(name.startswith(operators) for name in private)
    assert shown == {}
