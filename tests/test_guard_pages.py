# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""No operator touches a byte outside of its tensors and its workspace.

The cases run between pages without access rights in a process of their own (run_cases.py). That
such a page ends the process is shown for each argument of both operators: its description is moved
by one element, so that one of its elements lies in that page.
"""

import signal
from pathlib import Path

import pytest
from cases import CASES, DTYPES

TESTS = Path(__file__).resolve().parent

# A problem in which one argument reaches one element too far: argv is operator, side, argument.
FAULT = """
import ctypes, sys
import numpy as np
sys.path.insert(0, {tests!r})
import capi_harness
from cases import PrefixCase, RelayCase, build
from mindspore_relay.masks import MaskType

operator, guard, name = sys.argv[1:]
towards = 1 if guard == "after" else -1


class Faulty(capi_harness.Operation):
    def describe(self, argument, array):
        description = super().describe(argument, array)
        if argument == name and description:
            description.contents.data += towards * array.itemsize
        return description

    def address_of(self, workspace):
        # Back by half of it, on by nearly all: not every thread needs all of its part.
        size = len(workspace.bytes)
        shift = -(size // 128 * 64) if towards < 0 else size // 64 * 64 - 64
        return workspace.address + shift * (name == "workspace")


sizes = dict(head_num=2, kv_head_num=1, head_size=16)
if operator == "prefix_encoder":
    problem = build(PrefixCase("fault", (5,), (16,), MaskType.ALIBI_COMPRESS, **sizes), "float32")
    query, key, value, tables, *rest = problem.args
    problem = problem._replace(args=(query, key[:1], value[:1], 0 * tables[:, :1], *rest))
else:
    problem = build(RelayCase(operator, (16,), (0,), (16,), form=operator, **sizes), "float32")
    args, tables = list(problem.args), {{}}
    if operator == "paged":  # one block, all of it used by the request and by the group
        tables = {{n: 0 * problem.kwargs[n][:, :1] for n in ("block_tables", "share_block_tables")}}
        args[1:3] = [cache[:1] for cache in args[1:3]]
    elif operator == "list":  # no rows behind the last token
        args[1:5] = [[array[:16] for array in arrays] for arrays in args[1:5]]
    else:
        args[1:5] = [array[:, :16].copy() for array in args[1:5]]
    problem = problem._replace(args=tuple(args), kwargs={{**problem.kwargs, **tables}})
print("start", flush=True)
with Faulty(guard) as operation:
    operation.run(problem, path="auto" if operator == "prefix_encoder" else "relay")
print("end", flush=True)
"""

COMMON = ["none", "query", "key", "value", "kv_seq_len", "attn_out", "lse", "workspace"]
ARGUMENTS = {
    "list": [*COMMON, "key_share", "value_share", "seq_len", "kv_share_map", "kv_share_len"],
    "stacked": [*COMMON, "key_share", "value_share"],
    "paged": [*COMMON, "block_tables", "share_block_tables"],
    "prefix_encoder": [*COMMON, "block_tables", "mask", "seq_len", "slopes"],
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_access_outside(dtype, run_python):
    """All cases, every instruction set, both sides; reshape_and_cache and merge too."""
    result = run_python("-X", "faulthandler", TESTS / "run_cases.py", "--dtype", dtype, timeout=600)
    lines = result.stdout.splitlines()
    assert result.returncode == 0, f"{lines[-1:]}\n{result.stderr}"
    assert lines[-1].startswith(f"ok: {len(CASES)} cases")


@pytest.mark.parametrize("guard", ["after", "before"])
@pytest.mark.parametrize(
    ("operator", "argument"),
    [(operator, argument) for operator, names in ARGUMENTS.items() for argument in names],
)
def test_one_element_outside_ends_the_process(operator, argument, guard, run_python):
    result = run_python("-c", FAULT.format(tests=str(TESTS)), operator, guard, argument)
    if argument == "none":  # nothing is wrong with the problem itself
        assert (result.returncode, result.stdout) == (0, "start\nend\n"), result.stderr
    elif (argument, guard) == ("mask", "after"):  # its content is refused before its end is read
        assert (result.returncode, result.stdout) == (1, "start\n"), result.stderr
        assert "mask must have the content of mask_type" in result.stderr
    else:
        assert (result.returncode, result.stdout) == (-signal.SIGSEGV, "start\n"), result.stderr


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_one_byte_outside_ends_the_process(offset, run_python):
    """The page itself: the byte before the first, and the one behind the last."""
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "import ctypes, capi_harness\n"
        f"guard = {'before' if offset < 0 else 'after'!r}\n"
        "memory = capi_harness.GuardedBytes(4097, guard)\n"
        f"byte = memory.address + {0 if offset < 0 else 4096} + {offset}\n"
        "print(ctypes.string_at(byte, 1) and 'read')"
    )
    result = run_python("-c", code)
    expected = (-signal.SIGSEGV, "") if offset else (0, "read\n")
    assert (result.returncode, result.stdout) == expected, result.stderr
