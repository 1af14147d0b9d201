# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Stand-in for the device compiler: writes what it would compile where an object would be."""

import sys
from pathlib import Path

source, tiling_library, output, make = sys.argv[1:]
assert Path(tiling_library).is_file(), tiling_library
assert Path(make).name in ("make", "gmake"), make
_, included, _ = Path(source).read_text().split('"')
assert Path(included).is_file(), included
Path(output).mkdir(parents=True, exist_ok=True)
(Path(output) / f"{Path(source).stem}.o").write_text(included)
