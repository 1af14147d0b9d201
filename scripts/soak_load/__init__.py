# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of scripts/soak.py: two loads, the model that they are checked against, memory."""

import sys
from pathlib import Path

# What is close enough, and the tiny model, are said once, for tests and soak.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))


class SoakError(AssertionError):
    """Something is wrong: a value, the cache's books, or memory that grows."""
