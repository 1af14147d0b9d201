# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Choice of the next token."""

import numpy as np
import pytest

from mindspore_relay.llama.sampling import Sampler, SamplingOptions

# Probabilities 0.5, 0.25, 0.125, 0.125 in mixed order.
LOGITS = np.log(np.array([0.125, 0.5, 0.125, 0.25], np.float32))
NUM_DRAWS = 4000


def draw_shares(options, logits=LOGITS):
    sampler = Sampler(options, request_index=0)
    draws = [sampler(logits) for _ in range(NUM_DRAWS)]
    return np.bincount(draws, minlength=len(logits)) / NUM_DRAWS


def test_greedy_takes_the_first_of_the_largest():
    sampler = Sampler(SamplingOptions(), 0)
    assert sampler(LOGITS) == 1
    assert sampler(np.array([1, 3, 3, 2], np.float32)) == 1


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1.0, 1.0, [0.125, 0.5, 0.125, 0.25]),
        (1.0, 0.75, [0, 2 / 3, 0, 1 / 3]),  # exactly reached by two
        (1.0, 0.5, [0, 1, 0, 0]),
        (1.0, 0.01, [0, 1, 0, 0]),  # never fewer than one
        (0.5, 1.0, [1 / 22, 16 / 22, 1 / 22, 4 / 22]),  # squared probabilities
        (1e-4, 1.0, [0, 1, 0, 0]),
    ],
)
def test_distribution(temperature, top_p, expected):
    shares = draw_shares(SamplingOptions(temperature, top_p, seed=1))
    expected = np.array(expected)
    # Five standard deviations; exactly 0 where a token must not appear.
    tolerance = 5 * np.sqrt(expected * (1 - expected) / NUM_DRAWS)
    assert (np.abs(shares - expected) <= tolerance).all(), shares


def test_large_logits_do_not_overflow():
    shares = draw_shares(SamplingOptions(1.0), np.array([1e4, 1e4 - 1e3, -1e4], np.float32))
    assert shares.tolist() == [1, 0, 0]


def test_requests_and_seeds_have_their_own_numbers():
    def draws(seed, index):
        sampler = Sampler(SamplingOptions(1.0, seed=seed), index)
        return [sampler(LOGITS) for _ in range(50)]

    assert draws(0, 0) == draws(0, 0)
    assert draws(0, 0) != draws(0, 1)
    assert draws(0, 1) != draws(1, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature must be"),
        ({"temperature": float("nan")}, "temperature must be"),
        ({"temperature": float("inf")}, "temperature must be"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.1}, "top_p must be above 0"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SamplingOptions(**options)
