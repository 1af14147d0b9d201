# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""The library's threads, and processes that fork or end while operators run."""

import signal
import threading

import pytest
from capi_harness import run
from cases import RelayCase, build
from modes import assert_same_bits

import mindspore_relay

# Enough work for several threads.
WIDE = RelayCase("wide", (5,) * 32, 0 * 32, (2000,), head_size=64)


# ---- the pool ------------------------------------------------------------------------------------


# In a process with nothing else: threads are counted. A thread that was joined is counted until the
# kernel is done with it.
STOP = """
import re, time
import numpy as np
from mindspore_relay import capi, set_num_threads, stop_threads

query = np.random.default_rng(0).standard_normal((32, 4 * 64)).astype(np.float32)
key = np.random.default_rng(1).standard_normal((32, 1000, 2, 64)).astype(np.float32)

def attend():
    return capi.relay_attention(query, key, key, None, None, None, None, [1000] * 32, None, None,
                                head_num=4, kv_head_num=2)

def assert_num_threads_becomes(number):
    for _ in range(60000):
        with open("/proc/self/status") as file:
            count = int(re.search(r"Threads:\\s*(\\d+)", file.read()).group(1))
        if count == number:
            return
        time.sleep(0.001)
    raise SystemExit(f"{count} threads, not {number}")

assert_num_threads_becomes(1)
set_num_threads(5)
expected = attend()
for _ in range(3):
    assert_num_threads_becomes(5)
    stop_threads()
    assert_num_threads_becomes(1)
    assert (attend() == expected).all()
stop_threads()
stop_threads()  # none there: nothing happens
set_num_threads(2)
assert (attend() == expected).all()
assert_num_threads_becomes(2)
print("ok")
"""


def test_stop_threads_ends_them_and_the_next_operator_starts_them_again(run_python):
    result = run_python("-c", STOP, env={"OPENBLAS_NUM_THREADS": "1"}, timeout=600)
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stderr


def test_threads_may_be_stopped_while_operators_run(num_threads):
    """Eight threads run operators, one stops the pool all the time: right bits, and no deadlock."""
    num_threads(4)
    problem = build(WIDE, "float32")
    expected = run(problem)
    failures, num_left = [], [8]

    def work():
        try:
            for _ in range(25):
                assert_same_bits(run(problem), expected, "while threads are stopped")
        except BaseException as error:
            failures.append(error)
        finally:
            num_left[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    num_stopped = 0
    while num_left[0]:
        mindspore_relay.stop_threads()
        num_stopped += 1
    for thread in threads:
        thread.join()
    assert failures == [] and num_stopped > 10


# ---- fork ----------------------------------------------------------------------------------------

# Forks again and again, with the pool's threads asleep or at work, and while other threads plan and
# run; each child computes and compares. A child that hangs is killed by its own alarm.
FORK = """
import os, signal, sys, threading
import numpy as np
from mindspore_relay import capi, set_num_threads, stop_threads

set_num_threads(4)
query = np.random.default_rng(0).standard_normal((32, 4 * 64)).astype(np.float32)
key = np.random.default_rng(1).standard_normal((1, 2000, 2, 64)).astype(np.float32)
own = np.zeros((32, 0, 2, 64), np.float32)

def attend():
    return capi.relay_attention(query, own, own, key, key, None, None, [2000] * 32, [0] * 32,
                                [2000], head_num=4, kv_head_num=2)

def child():
    signal.alarm(60)
    for _ in range(3):
        if not (attend() == expected).all():
            os._exit(2)
    stop_threads()
    if not (attend() == expected).all():
        os._exit(3)
    os._exit(0)

def fork(num_children):
    for _ in range(num_children):
        pid = os.fork()
        if pid == 0:
            child()
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        assert (attend() == expected).all()

expected = attend()
fork(5)
is_over = threading.Event()

def work():
    while not is_over.is_set():
        assert (attend() == expected).all()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
fork(20)
is_over.set()
for thread in threads:
    thread.join()
print("ok")
"""


def test_fork_after_use(run_python):
    result = run_python("-c", FORK, timeout=600)
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stderr


# Forks after the operators have run in both modes.
FORK_MINDSPORE = """
import os, signal
import mindspore as ms, numpy as np
from mindspore_relay import relay_attention

class Net(ms.nn.Cell):
    def construct(self, query, key):
        return relay_attention(query, key, key, None, None, None, None, [500, 100], None, None,
                               head_num=2, kv_head_num=2)

query = ms.Tensor(np.random.default_rng(0).standard_normal((2, 32)), ms.float16)
key = ms.Tensor(np.random.default_rng(1).standard_normal((2, 500, 32)), ms.float16)
net = Net()

def attend(mode, is_synchronous):
    ms.set_context(mode=mode, pynative_synchronize=is_synchronous)
    return net(query, key).asnumpy().tobytes()

def answer_of_child(*settings):
    \"\"\"0: the right bits, 1: others, 2: the error; a negative number: it hung.\"\"\"
    pid = os.fork()
    if pid == 0:
        signal.alarm(200)
        try:
            os._exit(0 if attend(*settings) == expected else 1)
        except RuntimeError as error:
            is_clear = "asynchronous PyNative mode does not work in a fork" in str(error)
            os._exit(2 if is_clear else 3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

expected = attend(ms.PYNATIVE_MODE, False)
assert attend(ms.GRAPH_MODE, False) == expected
for settings, answer in (
    ((ms.PYNATIVE_MODE, True), 0), ((ms.GRAPH_MODE, False), 0), ((ms.PYNATIVE_MODE, False), 2),
):
    print(answer_of_child(*settings), answer)
    assert attend(*settings) == expected
"""


def test_fork_after_use_with_mindspore(run_python, tmp_path):
    """It works, or an error says why not: never a hang."""
    program = tmp_path / "program.py"  # MindSpore compiles only what it can read in a file
    program.write_text(FORK_MINDSPORE)
    result = run_python(program, timeout=900)
    assert result.returncode == 0, result.stderr
    answers = [line.split() for line in result.stdout.splitlines()]
    assert len(answers) == 3 and all(got == wanted for got, wanted in answers), result.stdout


# ---- exit ----------------------------------------------------------------------------------------

# Ends while daemon threads are in the library, some of them on its pool.
EXIT = """
import sys, threading
import numpy as np
from mindspore_relay import capi, set_num_threads

set_num_threads(4)
query = np.ones((64, 32), np.float32)
key = np.ones((64, 1000, 32), np.float32)
has_run = threading.Semaphore(0)

def work():
    for i in range(10**9):
        capi.relay_attention(query, key, key, None, None, None, None, [1000] * 64, None, None,
                             head_num=2, kv_head_num=2)
        if i == 2:
            has_run.release()

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
for _ in range(4):
    has_run.acquire()
{ending}
"""


@pytest.mark.parametrize(
    ("ending", "returncode"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3),
        # Python ends itself by the signal; a shell would call that 130.
        ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
def test_exit_during_work(run_python, ending, returncode):
    """The process ends with its own code, and nobody complains."""
    for _ in range(5):
        result = run_python("-c", EXIT.format(ending=ending), timeout=600)
        assert result.returncode == returncode, result.stderr
        assert "KeyboardInterrupt" in result.stderr or result.stderr == ""
