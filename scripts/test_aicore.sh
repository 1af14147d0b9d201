#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Tests of the AICore kernels on any Linux host: the plans, the emulation itself, and both kernels
# under the emulation. The last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "$0")/_common.sh"

usage() {
  cat <<'USAGE'
usage: scripts/test_aicore.sh [--table FILE.json]

  --table  also counts the traffic of ten problems and writes FILE.json and, beside it, FILE.md
USAGE
}

table=""
while [ $# -gt 0 ]; do
  case "$1" in
    --table) table="${2:-}" && shift ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die "unknown argument $1" ;;
  esac
  shift || die "the last option needs a value"
done
[[ -z "$table" || "$table" == *.json ]] || die "--table must name a .json file, got '$table'"
table="${table:+$(realpath -m "$table")}"

ensure_tools libgtest-dev
ensure_venv
install_package test

BUILD="$ROOT/build/aicore"
REPORTS="$BUILD/reports"
export MINDSPORE_RELAY_AICORE_BUILD="$BUILD"
cd "$ROOT"

say "building the kernels and the emulation"
cmake -S tests/aicore -B "$BUILD" -G Ninja >/dev/null
cmake --build "$BUILD" -j "$(nproc)"
rm -rf "$REPORTS"
mkdir -p "$REPORTS"

say "plans and emulation"
failed=0
ctest --test-dir "$BUILD" --output-on-failure --no-tests=error -j "$(nproc)" \
  --output-junit "$REPORTS/ctest.xml" || failed=1

say "kernels under the emulation"
pytest tests/aicore -q -p no:cacheprovider --junitxml "$REPORTS/pytest.xml" || failed=1

if [ -n "$table" ]; then
  say "table of traffic"
  PYTHONPATH=tests python tests/aicore/traffic_table.py \
    --json "$table" --markdown "${table%.json}.md"
fi

# A skipped test did not pass.
python - "$REPORTS" "$failed" <<'END'
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

reports, failed_somewhere = Path(sys.argv[1]), int(sys.argv[2])
total = failed = 0
for report in ("ctest.xml", "pytest.xml"):
    for case in ElementTree.parse(reports / report).iter("testcase"):
        total += 1
        failed += any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
failed = max(failed, failed_somewhere)
print(f"{total - failed} passed, {failed} failed")
sys.exit(1 if failed or not total else 0)
END
