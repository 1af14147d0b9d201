# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Choice of the next token from the logits: greedy, or temperature and top-p."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen.

    Attributes:
        temperature: 0 is greedy; otherwise the logits are divided by it.
        top_p: sample from the fewest tokens whose probabilities sum to at least this, in (0, 1].
        seed: with the request's index it fixes the request's random numbers, whatever else is in
            the batch.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if not (np.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be a number of at least 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")


class Sampler:
    """Chooses the tokens of one request."""

    def __init__(self, options: SamplingOptions, request_index: int):
        self._options = options
        self._random = np.random.default_rng([options.seed, request_index])

    def __call__(self, logits: np.ndarray) -> int:
        """Next token id from logits (vocab_size,), float32."""
        if self._options.temperature == 0:
            return int(logits.argmax())
        scaled = logits.astype(np.float64) / self._options.temperature
        weights = np.exp(scaled - scaled.max())
        candidates = np.argsort(-weights, kind="stable")
        cumulative = np.cumsum(weights[candidates])
        # The first place where the sum reaches top_p is the last token that takes part.
        last = int(np.searchsorted(cumulative, self._options.top_p * cumulative[-1]))
        draw = self._random.random() * cumulative[last]
        # The product may round up to the whole sum, which lies behind the last token.
        chosen = min(int(np.searchsorted(cumulative, draw, side="right")), last)
        return int(candidates[chosen])
