# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# The sanitizers' part of check.sh, which sources it: builds with them, and what runs there.
# shellcheck shell=bash

# A finding ends the process. Leaks are looked for in the C++ programs only: Python frees nothing at
# its end. detect_stack_use_after_return stays off: GCC 12 then misaligns vectors of 64 bytes on the
# stack (its bug 110027), and every AVX-512 kernel would fail.
export ASAN_OPTIONS="abort_on_error=1:strict_string_checks=1"
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1"

# check_sanitizers SANITIZERS: "address", "undefined", both with a comma, or "thread".
check_sanitizers() {
  local build="$ROOT/build/sanitize-${1//,/-}" runtime every tests
  case "$1" in
    address*) runtime=libasan.so every=8 tests=. ;;
    undefined) runtime=libubsan.so every=8 tests=. ;;
    # Ten times as slow as the others, and all that it can see is how threads share the work.
    thread) runtime=libtsan.so every=40 tests="many_threads|exit_while_running|test_threads" ;;
  esac

  say "building with -fsanitize=$1"
  cmake -S "$ROOT" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 \
    -DMINDSPORE_RELAY_BUILD_TESTS=ON -DMINDSPORE_RELAY_SANITIZE="$1" >/dev/null
  # shellcheck disable=SC2046 # several targets, or none for all
  cmake --build "$build" -j "$(nproc)" $([ "$tests" = . ] ||
    printf -- '--target %s ' mindspore_relay_ops many_threads exit_while_running test_threads)

  say "C++ tests, -fsanitize=$1"
  # Not the tests that measure errors over millions of values: they touch no other memory.
  GTEST_FILTER="-*Accurate*:*RelativeError*" \
    ctest --test-dir "$build" --no-tests=error --output-on-failure -j "$(nproc)" -R "$tests"

  # Every so many-th case on all instruction sets. The sanitizer's runtime must be there before
  # Python allocates anything.
  say "cases through the C interface, -fsanitize=$1"
  LD_PRELOAD="$(gcc -print-file-name="$runtime")" ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" \
    MINDSPORE_RELAY_LIBRARY="$build/lib/libmindspore_relay.so" PYTHONPATH="$ROOT" \
    PYTHONMALLOC=malloc python "$ROOT/tests/run_cases.py" --every "$every" >"$build/cases.log" ||
    die "tests/run_cases.py failed, see above, at: $(tail -n 1 "$build/cases.log")"
  tail -n 1 "$build/cases.log"
}
