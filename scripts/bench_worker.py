# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Started by bench_attention.py, once per library; see bench/worker.py."""

import sys

from bench.worker import serve

serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
