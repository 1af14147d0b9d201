#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the C interface with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer:
# tests/cpp/fuzz. What it finds stops it and lies in build/fuzz/found.
set -euo pipefail
source "$(dirname "$0")/_common.sh"

usage() {
  cat <<'USAGE'
usage: scripts/fuzz.sh [SECONDS]
       scripts/fuzz.sh FILE...

  SECONDS  how long; default 300. It goes on from the inputs of earlier runs in build/fuzz/corpus.
  FILE     runs these inputs, each once: one of build/fuzz/found shows its failure again
USAGE
}

case "${1:-300}" in
  -h | --help) usage && exit ;;
  *[!0-9]*)
    for file in "$@"; do [ -f "$file" ] || { usage >&2 && die "$file is not a file"; }; done
    run=("$@")
    ;;
  *)
    [ $# -le 1 ] || { usage >&2 && die "one number of seconds, got $*"; }
    # A call that takes so long hangs: the largest problem that is run takes less than a second.
    run=(-max_total_time="${1:-300}" -timeout=30 -rss_limit_mb=4096 -max_len=512
      -print_final_stats=1 -artifact_prefix="$ROOT/build/fuzz/found/"
      "$ROOT/build/fuzz/corpus")
    ;;
esac

ensure_tools clang libclang-rt-14-dev
ensure_venv
BUILD="$ROOT/build/fuzz"
mkdir -p "$BUILD/found" "$BUILD/corpus"

say "building the fuzzer"
cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 -DMINDSPORE_RELAY_BUILD_FUZZER=ON \
  -DMINDSPORE_RELAY_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
cmake --build "$BUILD" -j "$(nproc)" --target fuzz_c_interface

say "fuzzing"
export ASAN_OPTIONS="abort_on_error=1:allocator_may_return_null=1" UBSAN_OPTIONS="print_stacktrace=1"
exec "$BUILD/tests/cpp/fuzz/fuzz_c_interface" "${run[@]}"
