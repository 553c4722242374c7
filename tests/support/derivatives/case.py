"""A function of inputs whose derivative is tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import dmlgraph as dg

Array = np.ndarray[Any, Any]


@dataclasses.dataclass
class Case:
    """A function of inputs, and where it is differentiated.

    Attributes:
        build: from the inputs in order to one output, or several; of those that are not floats nothing depends.
        given: by input: an array, or sizes of random numbers between `low` and `high`.
    """

    name: str
    build: Callable[..., Any]
    given: Sequence[Array | Sequence[int]]
    low: float = -2.0
    high: float = 2.0

    @property
    def inputs(self) -> dict[str, Array]:
        """Arrays to run it with."""
        return self._drawn(np.random.default_rng(len(self.name)), lambda array: array)

    def points(self, count: int) -> Iterator[dict[str, Array]]:
        """As many others at random: floats that are given come in another order."""
        random = np.random.default_rng(len(self.name) + 1)
        for _ in range(count):
            yield self._drawn(random, lambda array: random.permuted(array) if array.dtype.kind == "f" else array)

    def _drawn(self, random: np.random.Generator, change: Callable[[Array], Array]) -> dict[str, Array]:
        return {
            f"x{index}": change(each) if isinstance(each, np.ndarray) else random.uniform(self.low, self.high, each)
            for index, each in enumerate(self.given)
        }

    def graph(self) -> tuple[dg.Graph, dg.Value]:
        """The graph, and a loss that all float outputs change."""
        g = dg.Graph("case")
        values = [g.input(name, sizes=array.shape, dtype=single(array).dtype) for name, array in self.inputs.items()]
        made = self.build(*values)
        outputs = made if isinstance(made, (tuple, list)) else [made]
        random = np.random.default_rng(5)
        parts = []
        for index, each in enumerate(outputs):
            if each is not None and each.dtype.is_float:
                weights = g.constant(f"weights{index}", random.uniform(0.5, 1.5, each.sizes).astype(np.float32))
                parts.append(dg.reduce(each * weights, function="sum").reshape(1))
        loss = parts[0]
        for part in parts[1:]:
            loss = loss + part
        return g, loss


def away(sizes: Sequence[int], *, seed: int = 0, scale: float = 1.0) -> Array:
    """Numbers of both signs that are not near one another, nor near zero, in random order."""
    count = int(np.prod(sizes))
    numbers = (np.arange(count) + 0.5 - count // 2) * (4 / count) * scale
    return np.random.default_rng(seed).permutation(numbers).reshape(sizes)


def single(array: Array) -> Array:
    """What devices take of an array."""
    return array.astype(np.float32) if array.dtype.kind == "f" else array
