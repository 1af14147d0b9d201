# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""What MindSpore's modes must not change: shapes known late, graphs compiled once, threads, order
of imports. That each case gives the same bits in both modes stands in the operators' own files."""

import concurrent.futures
import gc
import threading

import mindspore as ms
import numpy as np
import pytest
from cases import PrefixCase, RelayCase, build
from mindspore import Parameter, Tensor, mutable, nn
from modes import OperatorNet, assert_same_bits, mode, run_graph, run_pynative, tensors_of
from numerics import assert_attention_close, expect

from mindspore_relay import MaskType, prefix_encoder, relay_attention, reshape_and_cache
from mindspore_relay.bfloat16 import to_numpy

# ---- shapes that are known late ------------------------------------------------------------------


def _dims_unknown(tensor):
    return Tensor(shape=[None] * tensor.ndim, dtype=tensor.dtype)


def _first_dim_unknown(tensor):
    return Tensor(shape=[None, *tensor.shape[1:]], dtype=tensor.dtype)


def _rank_unknown(tensor):
    return Tensor(shape=None, dtype=tensor.dtype)


each_kind_of_shape = pytest.mark.parametrize(
    "unknown", [_first_dim_unknown, _dims_unknown, _rank_unknown]
)


def _run_growing(problems, unknown):
    """Runs problems of growing shapes through one graph; the results, and the times compiled."""
    with mode("graph"):
        args, kwargs = tensors_of(problems[0])
        net = OperatorNet(problems[0].operator, **kwargs, return_lse=True)
        net.set_inputs(None, None, *(None if arg is None else unknown(arg) for arg in args))
        results = []
        for problem in problems:
            results.append(tuple(map(to_numpy, net.run(*tensors_of(problem)[0]))))
        return results, len(net.compile_cache)


@each_kind_of_shape
@pytest.mark.parametrize("is_query_flat", [True, False])
def test_relay_attention_compiles_once_for_shapes_known_late(is_query_flat, unknown):
    layout = {"form": "stacked", "is_query_flat": is_query_flat, "value_head_size": 24}
    cases = [
        RelayCase("late", (5, 33), (0, 1), (7, 20), **layout),
        RelayCase("late", (5, 33, 0, 40, 9), (0, 1, -1, 2, 2), (7, 20, 33), **layout),
    ]
    problems = [build(case, "float16") for case in cases]
    if unknown is _first_dim_unknown:  # the number of rows is then fixed
        problems = [_with_rows(problem, 50) for problem in problems]
    results, num_compiled = _run_growing(problems, unknown)
    assert num_compiled == 1
    for problem, result in zip(problems, results, strict=True):
        assert_same_bits(result, run_pynative(problem), unknown.__name__)


def _with_rows(problem, num_rows):
    """The stacked problem with num_rows rows in each of its four stacks."""
    query, *stacks, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len = problem.args
    widths = [[(0, 0), (0, num_rows - stack.shape[1]), (0, 0), (0, 0)] for stack in stacks]
    stacks = [np.pad(stack, width) for stack, width in zip(stacks, widths, strict=True)]
    args = (query, *stacks, mask, seq_len, kv_seq_len, kv_share_map, kv_share_len)
    return problem._replace(args=args)


@each_kind_of_shape
@pytest.mark.parametrize("is_query_flat", [True, False])
def test_prefix_encoder_compiles_once_for_shapes_known_late(is_query_flat, unknown):
    layout = {"is_query_flat": is_query_flat, "value_head_size": 24, "block_size": 32}
    if unknown is _first_dim_unknown:  # the width of the tables is then fixed
        lengths = [((5, 2), (64, 40)), ((40, 7, 0, 3), (64, 20, 9, 33))]
    else:
        lengths = [((5, 2), (64, 40)), ((40, 7, 0, 3), (90, 200, 9, 33))]
    problems = [build(PrefixCase("late", *lens, **layout), "bfloat16") for lens in lengths]
    results, num_compiled = _run_growing(problems, unknown)
    assert num_compiled == 1
    for problem, result in zip(problems, results, strict=True):
        assert_same_bits(result, run_pynative(problem), unknown.__name__)


# ---- graphs are compiled once --------------------------------------------------------------------


def test_lists_are_compiled_once():
    """New values, and new lengths, in lists of the same shapes."""
    case = RelayCase("lists", (30, 31, 32), (0, 0, -1), (40,))
    problems = [build(case, "float16", seed) for seed in range(3)]
    for seed, problem in enumerate(problems):
        problem.args[7][:] -= seed  # kv_seq_len
    with mode("graph"):
        args, kwargs = tensors_of(problems[0])
        net = OperatorNet("relay_attention", **kwargs, return_lse=True)
        for problem in problems:
            args, _ = tensors_of(problem)
            results = tuple(map(to_numpy, net.run(*args)))
            assert_same_bits(results, run_pynative(problem), "list")
        assert len(net.compile_cache) == 1


class _DecodeStep(nn.Cell):
    """What a layer of a model does in a decode step: writes a token per request, then attends."""

    def __init__(self, key_cache, value_cache, **attributes):
        super().__init__()
        self.key_cache = Parameter(key_cache, name="key_cache", requires_grad=False)
        self.value_cache = Parameter(value_cache, name="value_cache", requires_grad=False)
        self.head_num = attributes["head_num"]
        self.kv_head_num = attributes["kv_head_num"]
        self.qk_scale = attributes["qk_scale"]

    def construct(self, query, key, value, slots, lengths, share_map, share_len, tables, share):
        reshape_and_cache(key, value, self.key_cache, self.value_cache, slots)
        return relay_attention(
            *(query, self.key_cache, self.value_cache, None, None, None, None),
            *(lengths, share_map, share_len),
            head_num=self.head_num,
            kv_head_num=self.kv_head_num,
            qk_scale=self.qk_scale,
            return_lse=True,
            block_tables=tables,
            share_block_tables=share,
        )


def test_decode_loop_over_fixed_caches_is_compiled_once_and_right_at_each_step():
    """Requests grow by a token per step, through the end of a block; one of them joins a group."""
    case = RelayCase("loop", (14, 3, 0), (0, -1, 0), (35,), form="paged", block_size=16)
    problem = build(case, "float16")
    query, key_cache, value_cache, *_, kv_seq_len, kv_share_map, kv_share_len = problem.args
    # Tables with room for the blocks to come: each request's last entry is a free block.
    used = {
        int(b)
        for name in ("block_tables", "share_block_tables")
        for b in problem.kwargs[name].ravel()
    }
    free = sorted(set(range(len(key_cache))) - used)
    tables = problem.kwargs["block_tables"].copy()
    for row, num_blocks in zip(tables, (1, 1, 0), strict=True):
        row[num_blocks] = free.pop()
    own = np.array([14, 3, 0])
    random = np.random.default_rng(0)
    with mode("graph"):
        net = _DecodeStep(Tensor(key_cache), Tensor(value_cache), **problem.kwargs)
        for step in range(4):
            key, value = random.standard_normal((2, 3, 2, 16)).astype(np.float32)
            slots = (tables[range(3), own // 16] * 16 + own % 16).astype(np.int32)
            own, kv_seq_len = own + 1, kv_seq_len + 1
            if step == 2:  # request 1 joins the group: its keys are now the group's and its own
                kv_share_map = np.array([0, 0, 0], np.int32)
                kv_seq_len = own + 35
            kv_seq_len = kv_seq_len.astype(np.int32)
            arrays = (query, key, value, slots, kv_seq_len, kv_share_map, kv_share_len)
            share = problem.kwargs["share_block_tables"]
            out, lse = map(to_numpy, net(*map(Tensor, (*arrays, tables, share))))

            for cache, token in ((key_cache, key), (value_cache, value)):
                cache.reshape(-1, 2, 16)[slots] = token
            lengths = (np.ones(3, np.int32), kv_seq_len, kv_share_map, kv_share_len)
            args = (query, key_cache, value_cache, None, None, None, *lengths)
            kwargs = {**problem.kwargs, "block_tables": tables}
            expected = expect(problem._replace(args=args, kwargs=kwargs))
            assert_attention_close(out, expected, f"step {step}", lse)
        assert len(net.compile_cache) == 1


def test_operators_of_one_graph_keep_their_own_attributes():
    """The same tensors with two scales and two head numbers, in one graph."""
    problem = build(RelayCase("two", (5, 33), form="stacked", head_num=4, kv_head_num=2), "float32")
    query, key, value, *_, kv_seq_len, kv_share_map, _ = problem.args
    settings = [(4, 2, 0.25), (4, 2, 0.5), (2, 1, 0.25)]

    class Net(nn.Cell):
        def construct(self, query, key, value, kv_seq_len, kv_share_map):
            results = []
            for head_num, kv_head_num, qk_scale in settings:
                result = relay_attention(
                    *(query, key, value, None, None, None, None, kv_seq_len, kv_share_map, None),
                    head_num=head_num,
                    kv_head_num=kv_head_num,
                    qk_scale=qk_scale,
                    return_lse=True,
                )
                results.append(result)
            return tuple(results)

    flat = [stack.reshape(*stack.shape[:2], -1) for stack in (key, value)]
    with mode("graph"):
        arrays = (query, *flat, kv_seq_len, kv_share_map)
        results = Net()(*map(Tensor, arrays))
    for result, (head_num, kv_head_num, qk_scale) in zip(results, settings, strict=True):
        kwargs = {"head_num": head_num, "kv_head_num": kv_head_num, "qk_scale": qk_scale}
        args = (query, *flat, *problem.args[3:])
        expected = run_pynative(problem._replace(args=args, kwargs=kwargs))
        assert_same_bits(tuple(map(to_numpy, result)), expected, f"{head_num}, {qk_scale}")


# ---- other ways to call --------------------------------------------------------------------------


def test_function_of_jit():
    problem = build(PrefixCase("jit", (5, 1), (5, 40)), "float16")
    args, kwargs = tensors_of(problem)
    head_num, kv_head_num, qk_scale = (
        kwargs[name] for name in ("head_num", "kv_head_num", "qk_scale")
    )

    @ms.jit
    def attend(query, key, value, block_tables, seq_len, kv_seq_len):
        return prefix_encoder(
            *(query, key, value, block_tables, None, seq_len, kv_seq_len, None),
            mask_type=MaskType.CAUSAL,
            head_num=head_num,
            kv_head_num=kv_head_num,
            qk_scale=qk_scale,
            return_lse=True,
        )

    with mode("pynative"):
        results = attend(*args[:4], *args[5:7])
        assert_same_bits(tuple(map(to_numpy, results)), run_pynative(problem), "jit")


def test_16_python_threads_in_pynative_mode():
    """MindSpore's own ops.Custom mixes up the arguments of threads; see _custom_ops.py."""
    problems = [
        *(build(RelayCase("threads", (5, 33), (0, 0), (300,)), d) for d in ("float16", "float32")),
        *(build(PrefixCase("threads", (50, 1), (90, 40)), d) for d in ("float16", "float32")),
    ]
    expected = [run_pynative(problem) for problem in problems]
    operators = {"relay_attention": relay_attention, "prefix_encoder": prefix_encoder}

    def call(i):
        i %= len(problems)
        args, kwargs = tensors_of(problems[i])
        results = operators[problems[i].operator](*args, **kwargs, return_lse=True)
        return i, tuple(to_numpy(result).copy() for result in results)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for i, results in pool.map(call, range(400)):
            assert_same_bits(results, expected[i], f"problem {i}")


def test_16_python_threads_with_graphs_of_their_own():
    """Each has a net, compiled by its first call. Calls take turns: in MindSpore 2.10 nets that run
    at once in several threads wait for each other for ever, also nets of a matmul alone."""
    problems = [
        build(RelayCase("threads", (5, 33), (0, 0), (300,)), "float16"),
        build(PrefixCase("threads", (50, 1), (90, 40)), "float32"),
    ]
    expected = [run_pynative(problem) for problem in problems]
    turn = threading.Lock()

    def work(thread):
        problem = problems[thread % 2]
        args, kwargs = tensors_of(problem)
        net = OperatorNet(problem.operator, **kwargs, return_lse=True)
        for _ in range(5):
            with turn:
                results = tuple(to_numpy(result).copy() for result in net.run(*args))
            assert_same_bits(results, expected[thread % 2], f"thread {thread}")

    with mode("graph"), concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


def test_library_survives_the_graphs_that_opened_it(num_threads):
    """MindSpore closes the library when a compiled graph is collected; its threads live on."""
    num_threads(4)
    problem = build(RelayCase("unload", (5,) * 16, (0,) * 16, (2000,)), "float16")
    expected = run_pynative(problem)
    for _ in range(3):
        assert_same_bits(run_graph(problem), expected, "graph")
        gc.collect()
        assert_same_bits(run_pynative(problem), expected, "after the graph")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_subnormal_numbers_count_in_both_modes(dtype):
    """MindSpore's graph threads treat them as zero; the operators do not."""
    problem = build(RelayCase("subnormal", (5, 40), (0, -1), (20,)), dtype)
    smallest = np.finfo(dtype).smallest_subnormal
    for arrays in (problem.args[2], problem.args[4]):
        for value in arrays:
            value[...] = np.where(np.isfinite(value), 3 * smallest, np.nan)
    output, _ = run_pynative(problem)
    # A value is rounded when it is weighted, and when all are summed up.
    assert (output >= 2 * smallest).all() and (output <= 4 * smallest).all()
    assert_same_bits(run_graph(problem)[0], output, "graph")


# ---- imports and devices -------------------------------------------------------------------------

_IMPORT = "import mindspore as ms"
_PROGRAM = """
import numpy as np
{imports}
class Net(ms.nn.Cell):
    def construct(self, query, key):
        return relay_attention(query, key, key, None, None, None, None, [2, 1], None, None,
                               head_num=2, kv_head_num=2)
ms.set_context(mode=ms.{mode})
query = ms.Tensor(np.ones((2, 32)), ms.float16)
key = ms.Tensor(np.ones((2, 3, 32)), ms.float16)
assert (Net()(query, key).asnumpy() == 1).all()
print("right")
"""


@pytest.mark.parametrize(
    ("first_mode", "imports"),
    [
        ("GRAPH_MODE", ["from mindspore_relay import *", _IMPORT, "ms.set_device('CPU')"]),
        ("GRAPH_MODE", [_IMPORT, "ms.set_device('CPU')", "from mindspore_relay import *"]),
        ("PYNATIVE_MODE", [_IMPORT, "from mindspore_relay import *"]),
    ],
    ids=["imported before the device is set", "imported after it", "device not set"],
)
def test_first_use_in_a_process(run_python, tmp_path, first_mode, imports):
    program = tmp_path / "program.py"  # MindSpore compiles only what it can read in a file
    program.write_text(_PROGRAM.format(imports="\n".join(imports), mode=first_mode))
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "right\n"


def test_other_device_targets_are_named(monkeypatch):
    """Asked for at the first call, so MindSpore need not have the device."""
    from mindspore_relay import _custom_ops

    monkeypatch.setattr(_custom_ops.context, "get_context", lambda name: "GPU")
    monkeypatch.delitem(_custom_ops._thread_state.primitives, "relay_attention", raising=False)
    monkeypatch.setattr(_custom_ops._thread_state, "target", None)
    args, kwargs = tensors_of(build(RelayCase("device", (5,)), "float16"))
    with (
        mode("pynative"),
        pytest.raises(RuntimeError, match="device_target must be CPU or Ascend, got GPU"),
    ):
        relay_attention(*args, **kwargs)


def test_tuples_and_mutable_lists_are_the_same():
    problem = build(RelayCase("tuples", (5, 33), (0, 0), (35,)), "float16")
    args, kwargs = tensors_of(problem)
    as_tuples = [tuple(arg) if isinstance(arg, list) else arg for arg in args]
    with mode("graph"):
        net = OperatorNet("relay_attention", **kwargs, return_lse=True)
        wrapped = [mutable(arg) if isinstance(arg, tuple) else arg for arg in as_tuples]
        results = tuple(map(to_numpy, net(None, None, *wrapped)))
    assert_same_bits(results, run_pynative(problem), "graph")
    with mode("pynative"):
        results = relay_attention(*as_tuples, **kwargs, return_lse=True)
    assert_same_bits(tuple(map(to_numpy, results)), run_pynative(problem), "PyNative")
