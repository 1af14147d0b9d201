#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs all tests: C++ by ctest, then Python by pytest, against the installed wheel. Arguments go to
# pytest. On a machine with nothing but Python 3.11 and apt it installs what it needs, into .venv.
# MINDSPORE_RELAY_EXTRAS=torch,torch-example installs PyTorch and what its example needs too; without
# them the tests that need them are skipped.
set -euo pipefail
source "$(dirname "$0")/_common.sh"

ensure_tools libgtest-dev valgrind
ensure_venv
export CMAKE_ARGS="-DMINDSPORE_RELAY_BUILD_TESTS=ON ${CMAKE_ARGS:-}"
install_package "demo,test${MINDSPORE_RELAY_EXTRAS:+,$MINDSPORE_RELAY_EXTRAS}"
install_model

say "C++ tests"
cmake --build "$ROOT/build/cmake" -j "$(nproc)"
ctest --test-dir "$ROOT/build/cmake" --no-tests=error --output-on-failure -j "$(nproc)"

say "Python tests"
cd "$ROOT"
# The command, not python -m pytest: that one would put the source folder before the installed wheel.
exec pytest "$@"
