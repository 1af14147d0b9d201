# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Finds libmindspore_relay.so, loads it once, and wraps its general functions.

The library is plain C and knows nothing of MindSpore. ops.Custom opens it again by its path and
closes it when a compiled net is collected; the handle kept here keeps its threads alive.
"""

import ctypes
import functools
import os
import sys
from pathlib import Path

LIBRARY_NAME = "libmindspore_relay.so"
PACKAGE_DIR = Path(__file__).resolve().parent


def include_dir():
    """Folder for the compiler's -I: it holds mindspore_relay/*.h."""
    return PACKAGE_DIR / "include"


def cmake_dir():
    """Folder for CMake's mindspore_relay_DIR: it holds mindspore_relay-config.cmake."""
    return PACKAGE_DIR / "lib" / "cmake" / "mindspore_relay"


def library_path():
    """Absolute path of the shared library.

    The environment variable MINDSPORE_RELAY_LIBRARY names another file, for those who work on the
    library itself.

    Returns:
        pathlib.Path of an existing file.

    Raises:
        ImportError: the file is missing, or sys.path holds two copies of the package.
    """
    override = os.environ.get("MINDSPORE_RELAY_LIBRARY")
    if override:
        path = Path(override).resolve()
        if not path.is_file():
            raise ImportError(f"mindspore_relay: MINDSPORE_RELAY_LIBRARY={override} is not a file")
        return path
    path = PACKAGE_DIR / "lib" / LIBRARY_NAME
    others = [other for other in _copies_on_path() if other != PACKAGE_DIR]
    if not path.is_file():
        hint = (
            f"run from outside {PACKAGE_DIR.parent} to use the copy in {others[0]}, or "
            if others
            else ""
        )
        raise ImportError(
            f"mindspore_relay: {path} is missing; {hint}install the package with: "
            f"pip install {PACKAGE_DIR.parent}"
        )
    if others:
        raise ImportError(
            f"mindspore_relay: two copies on sys.path, {PACKAGE_DIR} (imported) and {others[0]}; "
            "remove one"
        )
    return path


def _copies_on_path():
    """Package folders on sys.path that have a library of their own, in the order of sys.path."""
    folders = ((Path(entry or os.curdir) / PACKAGE_DIR.name).resolve() for entry in sys.path)
    return list(dict.fromkeys(f for f in folders if (f / "lib" / LIBRARY_NAME).is_file()))


@functools.cache
def library():
    """The loaded library, a ctypes.CDLL that lives as long as the process.

    Raises:
        ImportError: see library_path; also when the file cannot be loaded or has another version.
    """
    from mindspore_relay import __version__

    path = library_path()
    try:
        cdll = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"mindspore_relay: cannot load {path}: {error}") from error
    for name in ("MsRelayVersion", "MsRelayIsaName", "MsRelayIsaList", "MsRelayLastError"):
        getattr(cdll, name).restype = ctypes.c_char_p
        getattr(cdll, name).argtypes = []
    cdll.MsRelayGetNumThreads.restype = ctypes.c_int32
    cdll.MsRelayGetNumThreads.argtypes = []
    cdll.MsRelaySetNumThreads.restype = ctypes.c_int32
    cdll.MsRelaySetNumThreads.argtypes = [ctypes.c_int32]
    cdll.MsRelayStopThreads.restype = ctypes.c_int32
    cdll.MsRelayStopThreads.argtypes = []
    cdll.MsRelaySetIsa.restype = ctypes.c_int32
    cdll.MsRelaySetIsa.argtypes = [ctypes.c_char_p]
    version = cdll.MsRelayVersion().decode()
    if version != __version__:
        raise ImportError(
            f"mindspore_relay: {path} has version {version}, the Python files have {__version__}; "
            "install the package again"
        )
    return cdll


def _check(status):
    """Raises what a failed call of this thread said."""
    if status:
        raise ValueError(library().MsRelayLastError().decode())


def isa_name():
    """Instruction set in use: portable, avx2, avx512, amx or neon.

    It is the best one that this machine can run, or the one that MINDSPORE_RELAY_ISA names.

    Raises:
        ValueError: MINDSPORE_RELAY_ISA names one that is unknown or cannot run here.
    """
    name = library().MsRelayIsaName().decode()
    if not name:
        wanted = os.environ.get("MINDSPORE_RELAY_ISA")
        raise ValueError(
            f"mindspore_relay: MINDSPORE_RELAY_ISA={wanted} is unknown or cannot run here; "
            f"available: {', '.join(available_isas())}"
        )
    return name


def available_isas():
    """Names of the instruction sets that can run here, best first."""
    return library().MsRelayIsaList().decode().split(",")


def set_isa(name):
    """Chooses the instruction set of all later calls of this process.

    Raises:
        ValueError: the name is unknown or this machine cannot run it.
    """
    _check(library().MsRelaySetIsa(name.encode()))


def get_num_threads():
    """Number of threads that share one operator's work, the caller's included."""
    return library().MsRelayGetNumThreads()


def set_num_threads(num_threads):
    """Sets the number of threads that share one operator's work. Results do not depend on it.

    At the start it is MINDSPORE_RELAY_NUM_THREADS, or the number of processors that this process
    may use.

    Args:
        num_threads: int, 1 to 1024, the caller's thread included.

    Raises:
        ValueError: num_threads is out of range.
    """
    _check(library().MsRelaySetNumThreads(num_threads))


def stop_threads():
    """Ends the library's threads, which otherwise sleep while nothing is to be done.

    Waits for an operator that they work on. The next operator starts threads again, so nothing but
    its first microseconds changes. For programs that want to be alone in their process for a
    moment, before os.fork() say; a fork is safe without it.

    Raises:
        ValueError: called by a signal's handler within an operator that the threads work on.
    """
    _check(library().MsRelayStopThreads())
