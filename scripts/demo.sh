#!/usr/bin/env bash
# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs everything into .venv and lets a small language model answer 32 prompts that share one
# system prompt, once with RelayAttention and once without; writes the comparison to demo.png.
# Arguments are those of python -m mindspore_relay.generate and win over these two.
set -euo pipefail
source "$(dirname "$0")/_common.sh"

ensure_tools
ensure_venv
install_package demo
install_model

# -P: the installed package, not the source folder, when started from the latter.
exec python -P -m mindspore_relay.generate --attention compare --plot demo.png "$@"
