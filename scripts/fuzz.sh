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
       scripts/fuzz.sh --save

  SECONDS  how long; default 300. It goes on from the inputs of tests/cpp/fuzz/corpus.tar.gz and of
           earlier runs in build/fuzz/corpus.
  FILE     runs these inputs, each once: one of build/fuzz/found shows its failure again
  --save   writes tests/cpp/fuzz/corpus.tar.gz anew: of all inputs so far, those that are needed to
           reach what all of them reach
USAGE
}

BUILD="$ROOT/build/fuzz"
SAVED="$ROOT/tests/cpp/fuzz/corpus.tar.gz"
case "${1:-300}" in
  -h | --help) usage && exit ;;
  --save) run=(-merge=1 "$BUILD/minimal" "$BUILD/corpus") ;;
  *[!0-9]*)
    for file in "$@"; do [ -f "$file" ] || { usage >&2 && die "$file is not a file"; }; done
    run=("$@")
    ;;
  *)
    [ $# -le 1 ] || { usage >&2 && die "one number of seconds, got $*"; }
    # A call that takes so long hangs: the largest problem that is run takes less than a second.
    run=(-max_total_time="${1:-300}" -timeout=30 -rss_limit_mb=4096 -max_len=512
      -print_final_stats=1 -artifact_prefix="$BUILD/found/" "$BUILD/corpus")
    ;;
esac

ensure_tools clang libclang-rt-14-dev
ensure_venv
mkdir -p "$BUILD/found" "$BUILD/corpus"
[ ! -f "$SAVED" ] || tar -xzf "$SAVED" -C "$BUILD/corpus"

say "building the fuzzer"
cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 -DMINDSPORE_RELAY_BUILD_FUZZER=ON \
  -DMINDSPORE_RELAY_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
cmake --build "$BUILD" -j "$(nproc)" --target fuzz_c_interface

say "fuzzing"
export ASAN_OPTIONS="abort_on_error=1:allocator_may_return_null=1" UBSAN_OPTIONS="print_stacktrace=1"
fuzzer="$BUILD/tests/cpp/fuzz/fuzz_c_interface"
[ "${1:-}" = --save ] || exec "$fuzzer" "${run[@]}"

rm -rf "$BUILD/minimal"
mkdir "$BUILD/minimal"
"$fuzzer" "${run[@]}"
# The same inputs make the same file.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$BUILD/minimal" -cf - . |
  gzip -n9 >"$SAVED"
say "$(find "$BUILD/minimal" -type f | wc -l) inputs in $SAVED, $(stat -c %s "$SAVED") bytes"
