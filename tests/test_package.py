# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The installed package: what importing does, what the library shows, what breaks it and how."""

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import mindspore_relay
from mindspore_relay import __main__, _library

ROOT = Path(__file__).resolve().parent.parent
ENTRY_POINTS = [
    "RelayAttention",
    "PrefixEncoder",
    "ReshapeAndCache",
    "PackShare",
    "MergeAttentionStates",
]


def test_importing_has_no_side_effects(run_python):
    result = run_python(
        "-c",
        "import sys, mindspore_relay; dir(mindspore_relay); print(mindspore_relay.__version__);"
        "print([name for name in ('mindspore', 'numpy', 'ctypes') if name in sys.modules])",
    )
    assert result.stderr == ""
    assert result.stdout.splitlines() == [mindspore_relay.__version__, "[]"]


@pytest.mark.parametrize("name", mindspore_relay.__all__)
def test_public_names_load(name):
    assert getattr(mindspore_relay, name) is not None
    assert name in dir(mindspore_relay)


@pytest.mark.parametrize(
    "name", [name for name in mindspore_relay.__all__ if name != "__version__"]
)
def test_public_names_have_docstrings(name):
    assert getattr(mindspore_relay, name).__doc__


def test_no_module_hides_a_public_name():
    """Importing a submodule binds its name in the package: a function of that name would go."""
    modules = {path.stem for path in _library.PACKAGE_DIR.iterdir()}
    assert not modules & set(mindspore_relay.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'relay_atention'"):
        _ = mindspore_relay.relay_atention


def test_one_version_everywhere(library):
    assert importlib.metadata.version("mindspore_relay") == mindspore_relay.__version__
    assert library.MsRelayVersion().decode() == mindspore_relay.__version__
    header = (_library.include_dir() / "mindspore_relay" / "mindspore_relay.h").read_text()
    parts = [
        re.search(rf"MS_RELAY_VERSION_{part} (\d+)", header)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    assert ".".join(parts) == mindspore_relay.__version__


def test_library_is_loaded_once():
    assert _library.library() is _library.library()


def test_only_the_interface_is_exported():
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", _library.library_path()],
        capture_output=True,
        text=True,
        check=True,
    )
    # "address T name@@version"; the versions themselves are of type A.
    types_and_names = [line.split()[-2:] for line in symbols.stdout.splitlines()]
    exported = {tuple(name.split("@@")) for kind, name in types_and_names if kind != "A"}
    header = (_library.include_dir() / "mindspore_relay" / "mindspore_relay.h").read_text()
    declared = re.findall(
        r"^MS_RELAY_API .*?(MsRelay\w+)\(", header, flags=re.MULTILINE | re.DOTALL
    )
    assert len(declared) >= 10
    of_mindspore = {
        name + suffix for name in ENTRY_POINTS for suffix in ("", "InferShape", "InferType")
    }
    of_python = {"RelayAttentionLastPaths"}
    assert exported == {(name, "MINDSPORE_RELAY_0.1") for name in declared} | {
        (name, "MINDSPORE_RELAY_PRIVATE") for name in of_mindspore | of_python
    }


def softness(path):
    """What a shared library lacks of the hardening that ours has: names, empty for ours."""
    tool = partial(subprocess.run, capture_output=True, text=True, check=True)
    dynamic = tool(["readelf", "-W", "-d", "-l", path]).stdout
    undefined = tool(["nm", "-D", "--undefined-only", path]).stdout
    facts = {
        "bind now": "BIND_NOW" in dynamic,
        "relro": "GNU_RELRO" in dynamic,
        "stack not executable": re.search(r"GNU_STACK.* RW ", dynamic) is not None,
        "no text relocations": "TEXTREL" not in dynamic,
        "no run path": "RPATH" not in dynamic and "RUNPATH" not in dynamic,
        "stack protector": "__stack_chk_fail" in undefined,
        "checked string functions": re.search(r"\b__v?snprintf_chk\b", undefined) is not None,
        # MindSpore may unload it while its threads run.
        "never unloaded": "NODELETE" in dynamic,
    }
    return [name for name, is_there in facts.items() if not is_there]


def test_library_is_hardened():
    path = _library.library_path()
    assert softness(path) == []
    dynamic = subprocess.run(
        ["readelf", "-W", "-d", path], capture_output=True, text=True, check=True
    ).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
    assert needed and not {
        name for name in needed if "mindspore" in name or "python" in name or "gomp" in name
    }


def test_a_soft_library_is_told(tmp_path):
    """Each of the facts above can be wrong."""
    (tmp_path / "soft.c").write_text(
        "#include <stdio.h>\nvoid f(char *p, const char *q) { char t[64]; "
        'snprintf(t, 64, "%s", q); snprintf(p, 3, "%s", t); }\n'
    )
    flags = "-shared -fPIC -O1 -fno-stack-protector -U_FORTIFY_SOURCE -Wl,-rpath,/nowhere"
    flags += " -Wl,-z,lazy,-z,norelro,-z,execstack"
    subprocess.run(
        ["gcc", *flags.split(), "soft.c", "-o", "soft.so"], cwd=tmp_path, check=True, timeout=60
    )
    told = softness(tmp_path / "soft.so")
    assert len(told) == 7 and "no text relocations" not in told  # gcc cannot be asked for these


def test_same_sources_give_the_same_wheel(tmp_path):
    """In another folder, with files of another age. The portable kernels only, to save time."""
    names = ("CMakeLists.txt", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
    digests = []
    for folder, age in (("first", 1_000_000_000), ("another/second", 1_500_000_000)):
        source = tmp_path / folder
        for name in ("cmake", "ops", "mindspore_relay"):
            # What an editable install put into the package is no source.
            built = ("lib", "include") if name == "mindspore_relay" else ()
            ignored = shutil.ignore_patterns("__pycache__", *built)
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        for name in (*names, "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, source / name)
        for path in source.rglob("*"):
            os.utime(path, (age, age))
        environment = {
            **os.environ,
            "SOURCE_DATE_EPOCH": "1700000000",
            "CMAKE_ARGS": "-DMINDSPORE_RELAY_PORTABLE_ONLY=ON",
        }
        command = "-m pip wheel -q --no-build-isolation --no-deps -w dist ."
        result = subprocess.run(
            [sys.executable, *command.split()],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert result.returncode == 0, result.stderr
        (wheel,) = (source / "dist").iterdir()
        digests.append((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert digests[0] == digests[1]


class TestReport:
    def test_report_names_everything(self, run_python):
        result = run_python("-m", "mindspore_relay")
        assert (result.returncode, result.stderr) == (0, "")
        lines = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
        assert lines["mindspore_relay"] == mindspore_relay.__version__
        assert lines["mindspore"] == importlib.metadata.version("mindspore")
        assert lines["numpy"] == importlib.metadata.version("numpy")
        assert lines["library"] == str(_library.library_path())
        assert lines["instruction set"].split()[0] in _library.available_isas()
        assert int(lines["threads"]) >= 1
        assert lines["CANN"]

    def test_cann_folder_is_reported(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        assert __main__.main([]) == 0
        assert f"found in {tmp_path}" in capsys.readouterr().out

    def test_does_not_import_mindspore(self, run_python):
        result = run_python("-X", "importtime", "-m", "mindspore_relay")
        assert result.returncode == 0
        imported = re.findall(r"\|\s*(\S+)$", result.stderr, flags=re.MULTILINE)
        assert "mindspore_relay" in imported and "mindspore" not in imported

    def test_plain_compiler_options_work(self, run_python, tmp_path):
        result = run_python("-m", "mindspore_relay", "--cflags", "--libs")
        assert result.returncode == 0
        (tmp_path / "main.c").write_text(
            "#include <stdio.h>\n"
            "#include <mindspore_relay/mindspore_relay.h>\n"
            "int main(void) { puts(MsRelayVersion()); return 0; }\n"
        )
        subprocess.run(
            ["gcc", "-std=c99", "main.c", *result.stdout.split(), "-o", "main"],
            cwd=tmp_path,
            check=True,
        )
        output = subprocess.run(
            [tmp_path / "main"], capture_output=True, text=True, check=True
        ).stdout
        assert output.strip() == mindspore_relay.__version__

    @pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
    def test_cmake_package_works(self, run_python, tmp_path):
        result = run_python("-m", "mindspore_relay", "--cmake-dir")
        assert result.returncode == 0
        (tmp_path / "main.cc").write_text(
            "#include <cstdio>\n"
            "#include <mindspore_relay/mindspore_relay.h>\n"
            "int main() { std::puts(MsRelayVersion()); }\n"
        )
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18...4.0)\n"
            "project(user LANGUAGES CXX)\n"
            f"find_package(mindspore_relay {mindspore_relay.__version__} REQUIRED)\n"
            "add_executable(user main.cc)\n"
            "target_link_libraries(user PRIVATE mindspore_relay::mindspore_relay)\n"
        )
        build = tmp_path / "build"
        configure = [
            "cmake",
            "-S",
            tmp_path,
            "-B",
            build,
            f"-Dmindspore_relay_DIR={result.stdout.strip()}",
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", build], check=True)
        output = subprocess.run([build / "user"], capture_output=True, text=True, check=True).stdout
        assert output.strip() == mindspore_relay.__version__


class TestBrokenInstallation:
    """A copy of the package, broken in one way: one sentence says what to do."""

    @pytest.fixture
    def copy(self, tmp_path):
        ignore = shutil.ignore_patterns("__pycache__", "data")
        return shutil.copytree(
            _library.PACKAGE_DIR, tmp_path / "site" / "mindspore_relay", ignore=ignore
        )

    @staticmethod
    def load(run_python, copy, *more_path, **env):
        """Loads the library with the copy, and nothing installed, on the path."""
        path = os.pathsep.join(map(str, [copy.parent, *more_path]))
        code = "import mindspore_relay._library as l; print(l.library()._name)"
        return run_python("-S", "-c", code, env={"PYTHONPATH": path, **env})

    @staticmethod
    def message(result):
        assert result.returncode == 1
        return result.stderr.strip().splitlines()[-1]

    def test_copy_works_unbroken(self, run_python, copy):
        result = self.load(run_python, copy)
        assert result.stdout.strip() == str(copy / "lib" / _library.LIBRARY_NAME), result.stderr

    def test_library_missing(self, run_python, copy):
        (copy / "lib" / _library.LIBRARY_NAME).unlink()
        message = self.message(self.load(run_python, copy))
        assert message.startswith("ImportError: mindspore_relay: ")
        assert "libmindspore_relay.so is missing; install the package with: pip install" in message

    def test_source_folder_before_installed_package(self, run_python, copy):
        (copy / "lib" / _library.LIBRARY_NAME).unlink()
        message = self.message(self.load(run_python, copy, _library.PACKAGE_DIR.parent))
        assert (
            f"run from outside {copy.parent} to use the copy in {_library.PACKAGE_DIR}" in message
        )

    def test_two_copies(self, run_python, copy):
        message = self.message(self.load(run_python, copy, _library.PACKAGE_DIR.parent))
        assert "two copies on sys.path" in message
        assert str(copy) in message and str(_library.PACKAGE_DIR) in message

    def test_same_copy_twice_on_the_path_is_fine(self, run_python, copy):
        assert self.load(run_python, copy, copy.parent, copy.parent / ".").returncode == 0

    def test_other_version(self, run_python, copy):
        init = copy / "__init__.py"
        init.write_text(init.read_text().replace(mindspore_relay.__version__, "9.8.7"))
        message = self.message(self.load(run_python, copy))
        assert f"has version {mindspore_relay.__version__}, the Python files have 9.8.7" in message

    def test_not_a_library(self, run_python, copy):
        (copy / "lib" / _library.LIBRARY_NAME).write_text("no ELF file")
        assert "mindspore_relay: cannot load" in self.message(self.load(run_python, copy))

    def test_override(self, run_python, copy):
        library = str(_library.library_path())
        result = self.load(run_python, copy, MINDSPORE_RELAY_LIBRARY=library)
        assert result.stdout.strip() == library
        message = self.message(self.load(run_python, copy, MINDSPORE_RELAY_LIBRARY="/nowhere.so"))
        assert "MINDSPORE_RELAY_LIBRARY=/nowhere.so is not a file" in message


class TestInstructionSetAndThreads:
    def test_portable_is_always_there_and_last(self):
        assert _library.available_isas()[-1] == "portable"

    def test_the_best_is_chosen(self, run_python):
        code = "import mindspore_relay._library as l; print(l.isa_name())"
        result = run_python("-c", code, env={"MINDSPORE_RELAY_ISA": None})
        assert result.stdout.strip() == _library.available_isas()[0]

    @pytest.mark.parametrize("name", ["portable", "avx2", "avx512", "amx", "neon"])
    def test_each_can_be_forced(self, name, run_python):
        available = _library.available_isas()
        if name not in available:
            pytest.skip(f"{name} is tested nowhere: this machine and build have {available}")
        code = "import mindspore_relay._library as l; print(l.isa_name())"
        assert run_python("-c", code, env={"MINDSPORE_RELAY_ISA": name}).stdout.strip() == name

    def test_choosing_one_takes_effect(self, isa):
        assert _library.isa_name() == isa

    def test_unknown_one_is_an_error_and_changes_nothing(self):
        before = _library.isa_name()
        with pytest.raises(ValueError, match="sse9"):
            _library.set_isa("sse9")
        assert _library.isa_name() == before

    def test_unknown_one_in_the_environment_is_an_error(self, run_python):
        result = run_python("-m", "mindspore_relay", env={"MINDSPORE_RELAY_ISA": "sse9"})
        assert result.returncode == 1
        assert "sse9" in result.stderr and "Traceback" not in result.stderr

    def test_number_of_threads(self, num_threads):
        for wanted in (1, 3, 1024):
            num_threads(wanted)
            assert mindspore_relay.get_num_threads() == wanted
        for wrong in (0, -1, 1025):
            with pytest.raises(ValueError, match=str(wrong)):
                num_threads(wrong)
        assert mindspore_relay.get_num_threads() == 1024

    def test_number_of_threads_in_the_environment(self, run_python):
        code = "import mindspore_relay; print(mindspore_relay.get_num_threads())"
        result = run_python("-c", code, env={"MINDSPORE_RELAY_NUM_THREADS": "3"})
        assert result.stdout.strip() == "3"
        result = run_python("-c", code, env={"MINDSPORE_RELAY_NUM_THREADS": None})
        assert int(result.stdout) == len(os.sched_getaffinity(0))
