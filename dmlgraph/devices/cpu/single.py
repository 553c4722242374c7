"""What the functions that run in place of `evaluate` share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from dmlgraph.operators.declaration.operator import Array, Operator

Evaluate = Callable[..., tuple[Array, ...]]  # (operator, arrays…): the contract of Operator.evaluate


class UnfitError(Exception):
    """The method used here does not fit this case: the reference computes it."""


def or_reference(function: Evaluate) -> Evaluate:
    """The function, replaced by the operator's `evaluate` when it raises UnfitError."""

    @functools.wraps(function)
    def run(operator: Operator, *inputs: Array | None) -> tuple[Array, ...]:
        try:
            with np.errstate(all="ignore"):
                return function(operator, *inputs)
        except UnfitError:
            return operator.evaluate(*inputs)

    return run


def single(x: Array) -> Array:
    """x in float32; x itself if it is float32 already."""
    return x.astype(np.float32, copy=False)
