# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by all tests: the library, the instruction sets, and fresh Python processes."""

import os
import subprocess
import sys

import mindspore as ms
import pytest

from mindspore_relay import _library

# Programs under test set the device themselves. MindSpore refuses that once an operator has run, in
# whichever test, unless the same device was set before.
ms.set_device("CPU")


@pytest.fixture(scope="session")
def library():
    """The loaded shared library, a ctypes.CDLL."""
    return _library.library()


# Those that cannot run here are skipped once each, with the reason, by
# test_each_can_be_forced of test_package.py, and not again by every test.
@pytest.fixture(params=_library.available_isas())
def isa(request):
    """Runs the test once per instruction set of this machine; the one in use before is restored."""
    before = _library.isa_name()
    _library.set_isa(request.param)
    yield request.param
    _library.set_isa(before)


@pytest.fixture
def num_threads():
    """Function that sets the number of threads; the number before is restored."""
    before = _library.get_num_threads()
    yield _library.set_num_threads
    _library.set_num_threads(before)


@pytest.fixture
def run_python(tmp_path):
    """Runs Python in a process of its own, away from the source folder.

    Call it with the arguments after "python" and, as env, with environment variables to add; None
    as a value takes one away. Returns the subprocess.CompletedProcess, whatever its return code.
    """

    def run(*arguments, env=None, timeout=120):
        environment = {**os.environ, **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            timeout=timeout,
            capture_output=True,
            text=True,
        )

    return run
