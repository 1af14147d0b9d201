# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""A long call ends soon after Ctrl-C, or when the function of MsRelayOperationSetInterrupt says so;
what is not interrupted has the right bits."""

import signal
import threading
import time

import capi_harness
import pytest
from cases import PrefixCase, RelayCase, build
from modes import OperatorNet, assert_same_bits, mode, run_pynative, tensors_of

from mindspore_relay import _library, capi
from mindspore_relay._c_interface import INTERRUPTED, INVALID_ARGUMENT, InterruptFunction, functions
from mindspore_relay.bfloat16 import to_numpy

# Sends Ctrl-C to itself in the middle of a prefill of 262,144 keys, which takes seconds at best.
CTRL_C = """
import os, signal, sys, threading, time
import numpy as np
from mindspore_relay import MaskType, capi

num_keys, head_num, head_size = 262144, 8, 128
cache = np.zeros((num_keys // 256, 256, 2, head_size), np.float16)
cache[0] = np.random.default_rng(0).standard_normal(cache[0].shape)
query = np.ones((2048, head_num * head_size), np.float16)
tables = np.arange(len(cache), dtype=np.int32)[None]

def prefill(num_rows, num_keys):
    return capi.prefix_encoder(query[:num_rows], cache, cache, tables, None, [num_rows], [num_keys],
                               None, mask_type=MaskType.CAUSAL, head_num=head_num, kv_head_num=2)

def interrupt():
    time.sleep(0.3)
    print("sent", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

expected = prefill(20, 200)
for _ in range(3):
    threading.Thread(target=interrupt).start()
    try:
        prefill(len(query), num_keys)
        sys.exit("not interrupted")
    except KeyboardInterrupt:
        print("ended", time.monotonic(), flush=True)
    assert (prefill(20, 200) == expected).all()
"""


@pytest.mark.parametrize("isa_name", sorted({_library.available_isas()[0], "portable"}))
@pytest.mark.parametrize("num_threads", [1, 3])
def test_ctrl_c_ends_a_long_prefill_within_a_second(run_python, isa_name, num_threads):
    env = {"MINDSPORE_RELAY_ISA": isa_name, "MINDSPORE_RELAY_NUM_THREADS": str(num_threads)}
    result = run_python("-c", CTRL_C, env=env, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    times = [float(line.split()[1]) for line in result.stdout.splitlines()]
    assert len(times) == 6
    assert max(ended - sent for sent, ended in zip(times[::2], times[1::2], strict=True)) < 1.0


# A second or more of work for one thread of the portable kernels, half of one for two fast ones.
LONG = PrefixCase(
    "long", (1200,), (5400,), head_num=8, kv_head_num=2, head_size=128, block_size=256
)


@pytest.fixture
def slow(num_threads):
    """The slowest kernels and one thread: a call of LONG lasts long enough to be met."""
    before = _library.isa_name()
    _library.set_isa("portable")
    num_threads(1)
    yield
    _library.set_isa(before)


@pytest.fixture
def handle_alarm():
    """Function that sets a handler, and sends the signal that calls it after some seconds."""
    before = signal.getsignal(signal.SIGALRM)

    def handle(seconds, handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield handle
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def run_capi(problem):
    return getattr(capi, problem.operator)(*problem.args, **problem.kwargs, return_lse=True)


def test_a_handler_that_returns_lets_the_call_go_on(slow, handle_alarm):
    """It may use the operators itself, and runs long before the call is over."""
    problem = build(LONG, "float32")
    small = build(RelayCase("small", (5, 33), (0, 0), (35,)), "float32")
    expected, expected_small = run_capi(problem), run_capi(small)
    calls = []

    def handler(signum, frame):
        begin = time.monotonic()
        calls.append((begin, run_capi(small)))

    handle_alarm(0.05, handler)
    results = run_capi(problem)
    end = time.monotonic()
    ((begin, results_small),) = calls
    assert end - begin > 0.1, "the handler ran only after the call"
    assert_same_bits(results, expected, "call")
    assert_same_bits(results_small, expected_small, "call of the handler")


class Stop(Exception):
    pass


@pytest.mark.parametrize("operator", ["relay_attention", "prefix_encoder"])
def test_what_a_handler_raises_comes_out_of_the_call(slow, handle_alarm, operator):
    lens = {"head_num": 8, "kv_head_num": 2, "head_size": 128}
    relay = RelayCase("long", (5,) * 256, (0,) * 256, (5000,), **lens)
    problem = build(LONG if operator == "prefix_encoder" else relay, "float32")

    def handler(signum, frame):
        raise Stop

    begin = time.monotonic()
    expected = run_capi(problem)
    seconds = time.monotonic() - begin
    for _ in range(2):
        handle_alarm(0.01, handler)
        begin = time.monotonic()
        with pytest.raises(Stop):
            run_capi(problem)
        assert time.monotonic() - begin < 0.75 * seconds, "it ended no earlier"
    assert_same_bits(run_capi(problem), expected, "afterwards")


def test_a_signal_does_not_end_a_call_of_another_thread(slow, handle_alarm):
    problem = build(LONG, "float32")
    expected = run_capi(problem)
    results, is_over = [], threading.Event()

    def work():
        results.append(run_capi(problem))
        is_over.set()

    thread = threading.Thread(target=work)

    def handler(signum, frame):
        raise Stop

    thread.start()
    handle_alarm(0.05, handler)
    with pytest.raises(Stop):
        is_over.wait()
    is_over.wait()
    thread.join()
    assert_same_bits(results[0], expected, "call of the other thread")


@pytest.mark.parametrize("mode_name", ["pynative", "graph"])
def test_mindspore_works_on_after_a_signal(slow, handle_alarm, mode_name):
    """MindSpore waits for an operator without asking Python: a signal is handled when it is done,
    or before it begins. Nothing is left of it for the next call.

    The graph is compiled before: an exception out of a handler may be lost inside the compiler.
    """
    problem = build(LONG, "float32")
    args, kwargs = tensors_of(problem)
    net = OperatorNet(problem.operator, **kwargs, return_lse=True)

    def call():
        if mode_name == "pynative":
            return run_pynative(problem)
        with mode("graph"):
            return tuple(map(to_numpy, net.run(*args)))

    def handler(signum, frame):
        raise Stop

    expected = call()
    for seconds in (0.01, 0.3):
        handle_alarm(seconds, handler)
        with pytest.raises(Stop):
            call()
            time.sleep(60)  # interrupted if the call was over before
        assert_same_bits(call(), expected, "afterwards")


@pytest.mark.parametrize("threads", [1, 4])
def test_function_of_the_c_interface(slow, num_threads, threads):
    """It is asked on the thread that runs the operation, until it says so; the plan stays."""
    num_threads(threads)
    problem = build(LONG, "float32")
    expected = capi_harness.run(problem)
    asked, stopped = [], []

    def ask(argument):
        asked.append(threading.get_ident())
        stopped.append(functions().MsRelayStopThreads())
        return len(asked) == 2

    ask = InterruptFunction(ask)
    with capi_harness.Operation() as operation:
        handle = operation._operation
        assert functions().MsRelayOperationSetInterrupt(handle, ask, None) == 0
        with pytest.raises(ValueError, match="prefix_encoder: interrupted; the outputs are not"):
            operation.run(problem)
        assert asked == [threading.get_ident()] * 2
        # An error where it would wait for itself.
        assert stopped == [0 if threads == 1 else INVALID_ARGUMENT] * 2
        assert functions().MsRelayOperationSetInterrupt(handle, InterruptFunction(), None) == 0
        assert_same_bits(operation.run(problem), expected, "the same operation")
    assert len(asked) == 2


def test_status_of_the_c_interface(slow, monkeypatch):
    """MS_RELAY_INTERRUPTED, whose number callers have compiled in."""
    statuses = []
    check = capi_harness.check
    monkeypatch.setattr(capi_harness, "check", lambda s: (statuses.append(s), check(s)))
    ask = InterruptFunction(lambda argument: 1)
    with capi_harness.Operation() as operation:
        assert functions().MsRelayOperationSetInterrupt(operation._operation, ask, None) == 0
        with pytest.raises(ValueError):
            operation.run(build(LONG, "float32"))
    assert statuses[-1] == INTERRUPTED == 5
