#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source "$(dirname "$0")/_common.sh"

usage() {
  cat <<'USAGE'
usage: scripts/build.sh [--device cpu|ascend|all] [--debug] [--clean] [--jobs N]

Builds into dist/. Twice the same sources give the same bytes.
  --device  cpu (default): the Python wheel with the CPU library; ascend: the custom operator package
            for CANN; all: both, or only the wheel where CANN is missing
  --debug   with debug information and assertions, without optimization
  --clean   deletes build/ and dist/ first
  --jobs    compile jobs (default: number of processors)
USAGE
}

device=cpu build_type=Release clean=false jobs="$(nproc)"
while [ $# -gt 0 ]; do
  case "$1" in
    --device) device="${2:-}" && shift ;;
    --jobs) jobs="${2:-}" && shift ;;
    --debug) build_type=Debug ;;
    --clean) clean=true ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die "unknown argument $1" ;;
  esac
  shift || die "the last option needs a value"
done
[[ "$device" =~ ^(cpu|ascend|all)$ ]] || die "--device must be cpu, ascend or all, got '$device'"
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || die "--jobs must be a positive number, got '$jobs'"

if $clean; then rm -rf "$ROOT/build" "$ROOT/dist"; fi

build_wheel() {
  ensure_tools
  ensure_venv
  say "building the wheel ($build_type)"
  rm -rf "$ROOT"/build/lib* "$ROOT"/build/bdist*
  SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 315532800)}" \
    CMAKE_ARGS="-DCMAKE_BUILD_TYPE=$build_type ${CMAKE_ARGS:-}" CMAKE_BUILD_PARALLEL_LEVEL="$jobs" \
    pip wheel -q --no-build-isolation --no-deps -w "$ROOT/dist" "$ROOT"
  ls -l "$ROOT"/dist/*.whl
}

# What the CANN toolkit lacks for building operators, in one sentence; nothing when it is complete.
missing_of_cann() {
  local home="${ASCEND_HOME_PATH:-}"
  if [ -z "$home" ]; then
    echo "ASCEND_HOME_PATH is not set: install CANN 8 or newer and source its set_env.sh"
  elif [ ! -d "$home" ]; then
    echo "ASCEND_HOME_PATH=$home is not a folder"
  elif [ ! -x "$home/compiler/ccec_compiler/bin/bisheng" ]; then
    echo "the device compiler bisheng is missing under $home"
  elif [ ! -f "$home/include/register/op_def_registry.h" ]; then
    echo "the header register/op_def_registry.h is missing under $home/include"
  elif [ ! -x "$home/tools/opbuild/op_build" ] &&
    [ ! -x "$home/toolkit/tools/opbuild/op_build" ]; then
    echo "the operator generator tools/opbuild/op_build is missing under $home"
  fi
}

build_ascend() {
  ensure_tools make
  ensure_venv
  # The toolkit's compilers are Python programs: they get the host's python3, which has what they
  # import, and not the one of .venv.
  local PATH="${PATH//"$VENV/bin:"/}" cmake="$VENV/bin/cmake"
  say "building the operator package for CANN ($build_type)"
  "$cmake" -S "$ROOT/aicore" -B "$ROOT/build/ascend" -DCMAKE_BUILD_TYPE="$build_type" \
    -DASCEND_HOME_PATH="$ASCEND_HOME_PATH"
  CMAKE_BUILD_PARALLEL_LEVEL="$jobs" "$cmake" --build "$ROOT/build/ascend"
  "$cmake" --install "$ROOT/build/ascend" --prefix "$ROOT/dist/ascend"
}

lacking="$(missing_of_cann)"
case "$device" in
  cpu) build_wheel ;;
  ascend)
    [ -z "$lacking" ] || die "cannot build for Ascend: $lacking"
    build_ascend
    ;;
  all)
    build_wheel
    if [ -z "$lacking" ]; then build_ascend; else say "only the CPU wheel was built: $lacking"; fi
    ;;
esac
