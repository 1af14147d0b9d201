# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The tests of this folder build the kernels and the emulation: they run only when the folder is
named (scripts/test_aicore.sh), not with all tests."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))


def pytest_ignore_collect(collection_path, config):
    """Skips this folder unless an argument of pytest lies in it."""
    start = config.invocation_params.dir
    paths = [Path(start, str(argument).split("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(FOLDER) for path in paths) else True
