"""Choosing tokens in NumPy, in float64, from the definitions: what the nodes are compared with."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from support.text_model import philox

Array = np.ndarray[Any, Any]


def probabilities(
    logits: Sequence[float] | Array,
    seen: Collection[int] = (),
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
) -> Array:
    """The probability of each token."""
    scores = [float(each) for each in logits]
    for token in set(seen):
        if repetition_penalty is not None:
            scores[token] *= 1 / repetition_penalty if scores[token] > 0 else repetition_penalty
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))[:top_k]
    shares = {token: math.exp((scores[token] - scores[order[0]]) / temperature) for token in order}
    if top_p is not None:
        kept, total, reached = {}, sum(shares.values()), 0.0
        for token in order:
            if reached < top_p:
                kept[token] = shares[token]
            reached += shares[token] / total
        shares = kept
    if min_p is not None:
        shares = {token: share for token, share in shares.items() if share >= min_p * max(shares.values())}
    found = np.zeros(len(scores))
    for token, share in shares.items():
        found[token] = share / sum(shares.values())
    return found


def chosen(logits: Sequence[float] | Array, place: int, seed: int, *, candidates: int | None = None, **how: Any) -> int:
    """A token by chance: the greatest of its logarithms and Gumbel noise.

    Args:
        place: how many times one was chosen before.
        candidates: the number of likeliest tokens that get random numbers, the likeliest first; None: all, in order.
    """
    shares = probabilities(logits, **how)
    if candidates is None:
        tokens = list(range(len(shares)))
    else:
        tokens = sorted(range(len(shares)), key=lambda token: (-float(logits[token]), token))[:candidates]
    blocks = -(-len(tokens) // 4)
    key = seed & 0xFFFFFFFF, seed >> 32
    words = [word for count in range(blocks) for word in philox(place * blocks + count, key)]
    best, found = -math.inf, -1
    for token, word in zip(tokens, words, strict=False):
        noise = -math.log(-math.log((word // 512 + 0.5) / 2**23))
        if shares[token] > 0 and math.log(shares[token]) + noise > best:
            best, found = math.log(shares[token]) + noise, token
    return found
