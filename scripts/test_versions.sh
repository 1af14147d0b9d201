#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the Python tests that involve MindSpore with several versions of it.
set -euo pipefail
source "$(dirname "$0")/_common.sh"

# All that mindspore_relay/_mindspore_version.py takes for tested.
VERSIONS=(2.7.2 2.8.0 2.9.0 2.10.0)

# Operators, layers, caches and the text engine. What the library computes with each instruction set
# has nothing to do with MindSpore: those tests are left out by their names.
TESTS=(
  test_bfloat16 test_cache_ops test_composed_ops test_errors test_layers test_llama_engine
  test_llama_scheduler test_masks test_merge test_mindspore_version test_modes test_paged_cache
  test_paged_cache_faults test_paged_cache_tensors test_prefix_encoder test_relay_attention
  test_ascend_custom
)
NOT_OF_MINDSPORE="not amx and not avx512 and not avx2 and not portable and not neon"

usage() {
  cat <<USAGE
usage: scripts/test_versions.sh [--keep] [--folder FOLDER] [VERSION...]

Each version of MindSpore (${VERSIONS[*]} unless some are named) gets a virtual environment of
its own, of about 1.5 GB, with the wheel built here; it is deleted after its tests.
  --keep    keeps the environments
  --folder  where they are made (default: build/versions)
USAGE
}

keep=false folder="$ROOT/build/versions" versions=()
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=true ;;
    --folder) folder="${2:-}" && shift ;;
    -h | --help) usage && exit ;;
    [0-9]*) versions+=("$1") ;;
    *) usage >&2 && die "unknown argument $1" ;;
  esac
  shift || die "the last option needs a value"
done
[ -n "$folder" ] || die "--folder must not be empty"
[ ${#versions[@]} -gt 0 ] || versions=("${VERSIONS[@]}")

ensure_tools
ensure_venv
mkdir -p "$folder"
rm -rf "$ROOT"/build/lib* "$ROOT"/build/bdist* "$folder/wheel"
say "building the wheel"
pip wheel -q --no-build-isolation --no-deps -w "$folder/wheel" "$ROOT"

requirements="$(requirements_of dependencies,test,demo)"
paths=("${TESTS[@]/#/$ROOT/tests/}")
failed=()
for version in "${versions[@]}"; do
  say "MindSpore $version"
  venv="$folder/$version"
  rm -rf "$venv"
  "$PYTHON" -m venv "$venv"
  "$venv/bin/pip" install -q -r /dev/stdin <<<"$requirements
mindspore==$version"
  "$venv/bin/pip" install -q --no-deps "$folder"/wheel/*.whl
  (cd "$ROOT" && PATH="$venv/bin:$PATH" pytest -q -k "$NOT_OF_MINDSPORE" "${paths[@]/%/.py}") ||
    failed+=("$version")
  $keep || rm -rf "$venv"
done
[ ${#failed[@]} -eq 0 ] || die "tests failed with MindSpore ${failed[*]}"
say "all tests passed with MindSpore ${versions[*]}"
