"""The outputs of a whole graph: are they those of the values between its nodes, and near what the reference makes?"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.doctor.judge import RUNS
from dmlgraph.doctor.measures import Measures
from dmlgraph.doctor.runs import Runs, is_same
from dmlgraph.doctor.values import Values, on_host, operators, outputs_of, written

Array = np.ndarray[Any, Any]

# The normalised error of an output, in units of the data type's precision, from which on it is one that people notice.
# So is one of an element, as a fraction of it or of the root mean square of all.
NOTICED = {"float16": 32, "float32": 1024, "float64": 1024}


class Whole:
    """What the outputs of a graph are compared with, once all values between its nodes are known.

    Args:
        runs: of the graph.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    # The values between the nodes.

    @functools.cached_property
    def _exact(self) -> dict[str, Array]:
        """The outputs by the nodes' results on the device."""
        return outputs_of(self._runs.ir, self._runs.values)

    @functools.cached_property
    def _near(self) -> list[dict[str, Array]]:
        """The outputs by the nodes' results on the device, and by the reference with every node a little off."""
        ir, runs = self._runs.ir, self._runs
        made = [on_host(ir, runs.given, runs.judge, seed) for seed in range(RUNS)]
        return [self._exact, *(outputs_of(ir, each) for each in made)]

    def is_exact(self, results: Mapping[str, Array]) -> bool:
        """Whether the outputs are, to the bit, those that the values between the nodes led to."""
        return is_same([results[name] for name in self._exact], list(self._exact.values()))

    def explains(self, results: Mapping[str, Array]) -> bool:
        """Whether the outputs are those that the values between the nodes led to, or as near as rounding may be."""
        exact, judge = self._exact, self._runs.judge
        if all(judge.is_near(results[name], [value]) for name, value in exact.items()):
            return True
        return all(judge.is_near(results[name], [each[name] for each in self._near]) for name in exact)

    def stands_out(self, results: Mapping[str, Array]) -> bool:
        """Whether an element is so far from what the values between the nodes led to that people notice this one.

        The normalised error of an output hides one wrong element of a million.
        """
        return any(_has_outlier(results[name], value) for name, value in self._exact.items())

    # The reference.

    @functools.cached_property
    def _right(self) -> Values:
        return on_host(self._runs.ir, self._runs.given)

    @functools.cached_property
    def _outputs(self) -> dict[str, Array]:
        return outputs_of(self._runs.ir, self._right)

    def measured(self, results: Mapping[str, Array]) -> dict[str, Measures]:
        """The outputs against those that the reference makes of the inputs."""
        return {name: Measures.of(results[name], value) for name, value in self._outputs.items()}

    def is_near(self, measured: Mapping[str, Measures]) -> bool:
        """Whether the outputs, as `measured`, are so near to the reference's that nobody asks why."""
        return all(_is_small(each, self._outputs[name]) for name, each in measured.items())

    def growth(self) -> str:
        """Where small differences grow most, in a sentence."""
        most, where = 1.0, ""
        for node in operators(self._runs.ir):
            before = max((self._error(source) for source in node.sources if source is not None), default=0.0)
            after = max(map(self._error, written(node)))
            if 0 < before < np.inf and after / before > most:
                most, where = after / before, node.name
        times = "to something where nothing should be" if np.isinf(most) else f"{most:.3g} times"
        return f"small differences grow most in '{where}': {times}" if where else ""

    def _error(self, source: Any) -> float:
        value = self._right[source]
        if value.dtype.kind != "f":
            return 0.0
        return Measures.of(self._runs.values[source], value).normalised


def _noticed(array: Array) -> float:
    return float(NOTICED[array.dtype.name] * np.finfo(array.dtype).eps)


def _is_small(measures: Measures, expected: Array) -> bool:
    """Whether a difference is one that rounding makes in a graph of ordinary depth."""
    if expected.dtype.kind != "f":
        return not measures.differing
    return not measures.not_finite and measures.normalised <= _noticed(expected)


def _has_outlier(got: Array, expected: Array) -> bool:
    """Whether an element is wrong, whatever the others are."""
    if expected.dtype.kind != "f":
        return not is_same([got], [expected])
    a, b = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    usual = float(np.sqrt(np.mean(b[finite] ** 2))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        is_near = np.abs(a - b) <= _noticed(expected) * np.fmax(np.abs(b), usual)
    return bool((finite & ~is_near).any())
