# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Packs the groups of a relay_attention problem, in whatever form they are."""

from mindspore_relay import capi


def with_packed_groups(problem):
    """The Problem (case_inputs.py) with its groups packed for the instruction set in use."""
    return problem._replace(kwargs={**problem.kwargs, "packed_share": pack_groups(problem)})


def pack_groups(problem):
    """`packed_share` of a Problem (case_inputs.py): one array for each group; None without any."""
    key, value, key_share, value_share = problem.args[1:5]
    kv_share_len = problem.args[9]
    tables = problem.kwargs.get("share_block_tables")
    if kv_share_len is None or len(kv_share_len) == 0:
        return None
    kv_head_num = problem.kwargs.get("kv_head_num") or problem.kwargs["head_num"]
    packed = []
    for group, num_keys in enumerate(kv_share_len):
        if tables is None:
            prefix, table = (key_share[group], value_share[group]), None
        else:
            prefix = (key, value) if key_share is None else (key_share, value_share)
            table = tables[group]
        packed.append(
            capi.pack_share(
                *prefix, int(num_keys), kv_head_num=kv_head_num, share_block_table=table
            )
        )
    return packed
