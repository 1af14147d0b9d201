#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the library and its C++ tests for aarch64 and runs the tests under qemu: what the NEON
# kernels compute, not how fast. Needs no such machine.
set -euo pipefail
source "$(dirname "$0")/_common.sh"

ensure_tools g++-aarch64-linux-gnu qemu-user libgtest-dev
ensure_venv
BUILD="$ROOT/build/aarch64"
cmake -S "$ROOT" -B "$BUILD" -G Ninja -DMINDSPORE_RELAY_BUILD_TESTS=ON \
  -DCMAKE_TOOLCHAIN_FILE="$ROOT/cmake/aarch64-linux-gnu.cmake"
cmake --build "$BUILD" -j "$(nproc)"
ctest --test-dir "$BUILD" --no-tests=error --output-on-failure -j "$(nproc)"
