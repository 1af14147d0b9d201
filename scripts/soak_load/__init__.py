# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of scripts/soak.py: two loads, the model that they are checked against, memory."""


class SoakError(AssertionError):
    """Something is wrong: a value, the cache's books, or memory that grows."""
