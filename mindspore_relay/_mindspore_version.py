# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Versions of MindSpore that the package is tested with, and a word about others.

Another version is no error: most work. The word goes to the logger "mindspore_relay", once per
process, when the module with the operators is imported; without a logging setup Python prints it to
stderr as one line.
"""

import logging
import re

from mindspore_relay import __version__

# What scripts/test_versions.sh runs, oldest first.
TESTED_VERSIONS = ("2.7.2", "2.8.0", "2.9.0", "2.10.0")


def untested_reason(version):
    """One sentence when a version is older than the oldest or newer than the newest; else None."""
    oldest, newest = TESTED_VERSIONS[0], TESTED_VERSIONS[-1]
    number = _number(version)
    if number is None:
        how = f"is none of the versions {oldest} to {newest} that it is tested with"
    elif number < _number(oldest):
        how = f"is older than {oldest}, the oldest version that it is tested with"
    elif number > _number(newest):
        how = f"is newer than {newest}, the newest version that it is tested with"
    else:
        return None
    return f"mindspore_relay {__version__}: MindSpore {version} {how}"


def warn_if_untested(version):
    """Logs the reason, if there is one."""
    reason = untested_reason(version)
    if reason:
        logging.getLogger("mindspore_relay").warning("%s", reason)


def _number(version):
    """(major, minor, patch) without what may follow; None when it does not begin so."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", str(version))
    return match and tuple(int(part or 0) for part in match.groups())
