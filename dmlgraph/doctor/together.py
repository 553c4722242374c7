"""Nodes that are wrong together: each is right as long as the value that it reads is an output.

A device runs nodes as one, lets one write into memory of another, or gives memory to several values in turn.  All of it
ends for a value that is an output: a bisection over the values that are outputs finds where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.doctor.judge import RUNS
from dmlgraph.doctor.runs import Runs, Suspect
from dmlgraph.doctor.values import arguments, changed, evaluate, operators, outputs_of, written
from dmlgraph.doctor.whole import Whole
from dmlgraph.measure.exposing import values_of

Array = np.ndarray[Any, Any]
IsRight = Callable[[Mapping[str, Array]], bool]  # of the outputs of the graph


@dataclasses.dataclass(frozen=True, slots=True)
class Vanished:
    """A fault that is gone whenever one of some values is an output, and where these nodes run as a part.

    Attributes:
        names: of the nodes in the fused graph, in execution order; the outputs of the graph are right as soon as one
            of the first one is an output of its own.  Empty if the same run was right once, and wrong once.
        reader: of what the last one computes; None: the graph's outputs alone are.
    """

    names: tuple[str, ...]
    reader: str | None


def together(runs: Runs, whole: Whole) -> Suspect | Vanished:
    """The nodes that are wrong when the device runs them as one, or between which a fault is."""
    first = healing(runs, whole.explains)
    if first in runs.ir.outputs.values():  # that it is an output changes nothing
        return Vanished((), None)
    inner = runs.ir[first.node]
    for reader in runs.readers(inner):
        if runs.may(2) and (suspect := _as_part(runs, (inner.name, reader.name))) is not None:
            return suspect
    last = runs.ir[_last_healing(runs, first, whole.explains).node]
    order = [node.name for node in operators(runs.ir)]
    names = tuple(order[order.index(inner.name) : order.index(last.name) + 1])
    end = next((each.name for each in runs.readers(last)), None)
    if end is not None and len(names) > 1 and (suspect := _as_part(runs, (*names, end))) is not None:
        return suspect
    return Vanished(names, end)


def healing(runs: Runs, is_right: IsRight) -> Source:
    """The first value that heals the outputs when it and those before it are outputs, too.

    They are right with all values as outputs, and wrong with none: a bisection finds it.
    """
    values = _computed(runs)
    wrong, right = 0, len(values)
    while right - wrong > 1:
        middle = (wrong + right) // 2
        wrong, right = (wrong, middle) if _heal(runs, values[:middle], is_right) else (middle, right)
    return values[right - 1]


def _last_healing(runs: Runs, first: Source, is_right: IsRight) -> Source:
    """The last value that heals the outputs when it and those behind it are outputs, too; it is most often near."""
    values = _computed(runs)
    right, wrong, step = values.index(first), len(values), 1
    while wrong - right > 1:
        middle = min(right + step, (right + wrong) // 2)
        if _heal(runs, values[middle:], is_right):
            right, step = middle, 2 * step
        else:
            wrong = middle
    return values[right]


def _computed(runs: Runs) -> list[Source]:
    """The values that nodes compute of others, in execution order."""
    return [source for source, _ in values_of(runs.ir) if runs.ir[source.node].computation.input_fields]


def _heal(runs: Runs, values: Sequence[Source], is_right: IsRight) -> bool:
    """Whether the outputs of the graph are right when these values are outputs, too."""
    (found,) = runs.exposing(list(dict.fromkeys([*values, *runs.ir.outputs.values()])))
    return is_right(outputs_of(runs.ir, runs.values | found))


def _as_part(runs: Runs, names: tuple[str, ...]) -> Suspect | None:
    """Some nodes, if they are wrong as a graph of their own."""
    (got,) = runs.after_others(names)
    reader = runs.ir[names[-1]]
    expected = runs.outputs(reader)
    near = [expected, *(_otherwise(runs, names, seed) for seed in range(RUNS))]
    through = [runs.ir[name].computation for name in names[1:]]
    if all(runs.judge.is_near(a, list(b), through) for a, *b in zip(got, *near, strict=True)):
        return None
    why = "each is right alone: the device runs them as one, or in memory that they share"
    return Suspect(names, reader.name, got, expected, why=why)


def _otherwise(runs: Runs, names: Sequence[str], seed: int) -> tuple[Array, ...]:
    """The outputs of the last of some nodes where those before it are a little off."""
    rng = np.random.default_rng(seed)
    values, moved = dict(runs.values), set[str]()
    for name in names[:-1]:
        node = runs.ir[name]
        results = _results(runs, node, values, moved)
        bounds = runs.judge.bounds(node.computation)
        for source, value in zip(written(node), results, strict=True):
            values[source] = changed(value, *bounds, rng)
        moved.add(name)
    return tuple(evaluate(runs.ir[names[-1]], arguments(runs.ir, runs.ir[names[-1]], values)))


def _results(runs: Runs, node: IrNode, values: dict[Source, Array], moved: set[str]) -> Sequence[Array]:
    """What a node computes of values; what it computed on the device, where it reads none that moved."""
    if any(source is not None and source.node in moved for source in node.sources):
        return evaluate(node, arguments(runs.ir, node, values))
    return runs.outputs(node, values)
