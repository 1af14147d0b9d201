# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of scripts/bench_attention.py.

    problems   what is measured          floors   how fast it could be
    machine    rates and description     oracle   float64 result
    kv_pool    keys and values that no cache holds
    worker     one process per library (impl_*.py); workers: the other end of its pipe
    report     tables                    plots    pictures

The processes keep the libraries apart: threads of one that spin while idle would slow the others.
"""
