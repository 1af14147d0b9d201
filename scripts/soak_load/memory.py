# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Resident memory of this process over time."""

import gc
import re
import time
from pathlib import Path

from soak_load import SoakError

# A run shorter than this has seen too little for a word about growth: compiling and the first use
# of each shape take memory that stays.
MIN_SECONDS = 60
SAMPLE_SECONDS = 2
MAX_WARM_UP_SECONDS = 150
WARM_UP_SHARE = 0.25
MAX_GROWTH = 0.01


def resident_bytes():
    """RSS of this process, and the anonymous part of it, in bytes.

    The system takes pages of files back when others need memory; they would hide a leak in RSS. The
    anonymous part, heaps and stacks, stays where there is no swap.
    """
    status = Path("/proc/self/status").read_text()
    return tuple(
        1024 * int(re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[1])
        for name in ("VmRSS", "RssAnon")
    )


class MemoryWatch:
    """Samples RSS during a run of a known length.

    Args:
        seconds: length of the run. Its first quarter, 150 s at most, is the warm-up.

    Attributes:
        last: the last sample, as resident_bytes gives it.
        warm_up_peaks, later_peaks: highest RSS, and highest anonymous part, of the two parts.
    """

    def __init__(self, seconds):
        self._begin = time.monotonic()
        self._seconds = seconds
        self._warm_up_seconds = min(MAX_WARM_UP_SECONDS, WARM_UP_SHARE * seconds)
        self._next_sample = self._begin
        self.last = self.warm_up_peaks = self.later_peaks = (0, 0)

    @property
    def growths(self):
        """Of RSS and of its anonymous part after the warm-up, as shares of the RSS in it."""
        if not self.warm_up_peaks[0] or not self.later_peaks[0]:
            return 0.0, 0.0
        pairs = zip(self.later_peaks, self.warm_up_peaks, strict=True)
        return tuple((later - before) / self.warm_up_peaks[0] for later, before in pairs)

    def sample(self):
        """Takes a sample if one is due."""
        now = time.monotonic()
        if now < self._next_sample:
            return
        gc.collect()  # cycles that wait for the collector are no leak
        self.last = resident_bytes()
        if now - self._begin < self._warm_up_seconds:
            self.warm_up_peaks = tuple(map(max, self.warm_up_peaks, self.last))
        else:
            self.later_peaks = tuple(map(max, self.later_peaks, self.last))
        self._next_sample = time.monotonic() + SAMPLE_SECONDS

    def check(self):
        """Raises SoakError if a run of a minute or more grew by over 1 % after the warm-up."""
        if self._seconds < MIN_SECONDS:
            return
        names = ("RSS", "the anonymous part of RSS")
        peaks = zip(names, self.growths, self.warm_up_peaks, self.later_peaks, strict=True)
        for name, growth, before, later in peaks:
            if growth > MAX_GROWTH:
                raise SoakError(
                    f"memory: {name} grew from {before / 1e6:.1f} to {later / 1e6:.1f} MB after "
                    f"the warm-up, by {growth:.2%} of the RSS; allowed is {MAX_GROWTH:.0%}"
                )

    def __str__(self):
        rss, anonymous = self.last
        growths = "{:+.2%} and {:+.2%}".format(*self.growths)
        return (
            f"RSS {rss / 1e6:.1f} MB, {anonymous / 1e6:.1f} MB of it anonymous ({growths} of the "
            f"RSS over the warm-up)"
        )
