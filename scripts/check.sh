#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Everything that is checked without running the project, or the project under sanitizers; CI calls
# both. Formatters and linters are those of .pre-commit-config.yaml.
set -euo pipefail
source "$(dirname "$0")/_common.sh"
source "$(dirname "$0")/_sanitizers.sh"

usage() {
  cat <<'USAGE'
usage: scripts/check.sh [--fix]
       scripts/check.sh [--asan] [--ubsan] [--tsan]

  --fix    keeps what the formatters change and does not fail for it
  --asan   builds the library and its C++ tests with AddressSanitizer and runs them and a part of
           tests/cases.py through the C interface, on all instruction sets of this machine
  --ubsan  the same with UndefinedBehaviorSanitizer; both together are one build
  --tsan   the same with ThreadSanitizer
USAGE
}

fix=false sanitizers=() threads=false
for argument in "$@"; do
  case "$argument" in
    --fix) fix=true ;;
    --asan) sanitizers+=(address) ;;
    --ubsan) sanitizers+=(undefined) ;;
    --tsan) threads=true ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die "unknown argument $argument" ;;
  esac
done

if [ ${#sanitizers[@]} -gt 0 ] || $threads; then
  ! $fix || die "--fix does not go with sanitizers"
  ensure_tools libgtest-dev
  ensure_venv
  run_once requirements-numpy pip install -q "numpy>=1.26,<2"
  if [ ${#sanitizers[@]} -gt 0 ]; then
    check_sanitizers "$(IFS=, && printf '%s' "${sanitizers[*]}")"
  fi
  if $threads; then check_sanitizers thread; fi
  exit
fi

ensure_tools
ensure_venv
run_once requirements-check install_requirements check
cd "$ROOT"

say "formatters and linters"
if ! pre-commit run --all-files; then
  $fix || die "see above; scripts/check.sh --fix keeps what the formatters changed"
  # What a formatter changed is clean the second time; what a linter reports stays red.
  pre-commit run --all-files
fi

say "headers: each one compiles alone"
# The public ones as C99 too. Headers of one instruction set need its flags; the ISA files cover them.
find ops/include -name '*.h' -print0 |
  xargs -0 -n1 gcc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c
find ops \( -name '*.h' -o -name '*.hpp' \) -print0 |
  xargs -0 -n1 g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -Iops -Iops/include \
    -x c++

say "size: functions over 60 lines and files over 400 (a warning, not a failure)"
git ls-files '*.cc' '*.cpp' '*.h' '*.hpp' '*.py' >"$VENV/.source_files"
lizard -f "$VENV/.source_files" -T nloc=60 -C 1000 -a 1000 -w -i -1
git ls-files '*.cc' '*.cpp' '*.h' '*.hpp' '*.py' '*.sh' | xargs wc -l | awk '$2 != "total" && $1 > 400'
