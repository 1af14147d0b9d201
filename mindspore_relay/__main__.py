# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""python -m mindspore_relay: report of the environment, and paths for compilers."""

import argparse
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from mindspore_relay import __version__, _library

# Where CANN's set_env.sh says that it is, and where its installer puts it.
CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
CANN_DEFAULT_DIR = "/usr/local/Ascend/ascend-toolkit/latest"


def _version_of(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cann_line():
    """Folder of CANN, or where it was looked for. Asking MindSpore would start the device."""
    candidates = [os.environ[name] for name in CANN_VARIABLES if os.environ.get(name)]
    for folder in [*candidates, CANN_DEFAULT_DIR]:
        if Path(folder).is_dir():
            return f"found in {folder}"
    return f"not found ({', '.join(CANN_VARIABLES)} unset or not a folder, no {CANN_DEFAULT_DIR})"


def _report():
    """Pairs of label and text, in the order in which they are printed.

    Raises:
        ImportError, ValueError: the library cannot be used, with a sentence that says why.
    """
    yield "mindspore_relay", __version__
    yield "python", f"{platform.python_version()}, {platform.machine()}"
    for distribution in ("mindspore", "numpy"):
        yield distribution, _version_of(distribution)
    yield "CANN", _cann_line()
    yield "library", str(_library.library_path())
    yield (
        "instruction set",
        f"{_library.isa_name()} (can run here: {', '.join(_library.available_isas())})",
    )
    yield "threads", str(_library.get_num_threads())


def main(arguments=None):
    """Prints what was asked for. Returns the exit code: 1 when the library cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_relay",
        description="Without options: versions, library, instruction set, threads.",
    )
    parser.add_argument(
        "--cflags", action="store_true", help="options for compiling against the C interface"
    )
    parser.add_argument("--libs", action="store_true", help="options for linking with the library")
    parser.add_argument(
        "--cmake-dir", action="store_true", help="folder for CMake's mindspore_relay_DIR"
    )
    options = parser.parse_args(arguments)
    try:
        if options.cmake_dir:
            print(_library.cmake_dir())
        elif options.cflags or options.libs:
            print(" ".join(_compiler_options(options)))
        else:
            for label, text in _report():
                print(f"{label:16} {text}")
    except (ImportError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _compiler_options(options):
    if options.cflags:
        yield f"-I{_library.include_dir()}"
    if options.libs:
        folder = _library.library_path().parent
        yield from (f"-L{folder}", "-lmindspore_relay", f"-Wl,-rpath,{folder}")


if __name__ == "__main__":
    sys.exit(main())
