"""Two runs differ, and every node computed what it should: the first that changes, or that is read too early."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.doctor.one_node import behind, chains, too_early
from dmlgraph.doctor.runs import Runs, Suspect, is_same
from dmlgraph.doctor.together import Vanished, healing, together
from dmlgraph.doctor.values import operators
from dmlgraph.doctor.whole import Whole

Array = np.ndarray[Any, Any]


def changing(
    runs: Runs, whole: Whole, first: Mapping[str, Array], second: Mapping[str, Array]
) -> Suspect | Vanished | None:
    """The node that changes, or the nodes between which something does; None if nothing more can be said.

    Args:
        runs: of the graph, with the values of two runs.
        whole: of it.
        first, second: the outputs of two runs, which differ.
    """
    nodes = [node for node in operators(runs.ir) if not is_same(*_twice(runs, node))]
    if nodes:
        return _changing(runs, nodes[0])
    if whole.explains(first) and whole.explains(second):
        return _read_too_early(runs, whole, first, second)
    found = together(runs, whole)
    if isinstance(found, Vanished):
        return found
    single = dataclasses.replace(found, names=found.names[-1:])
    return behind(runs, single, found.names[:-1], found.got)


def _twice(runs: Runs, node: IrNode) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The outputs of a node in two runs."""
    return runs.outputs(node), runs.outputs(node, runs.again)


def _changing(runs: Runs, node: IrNode) -> Suspect:
    """The first node whose results change, or the one that it reads too early."""
    expected, got = _twice(runs, node)
    suspect = Suspect((node.name,), node.name, got, expected, is_stable=False)
    for chain in chains(runs, node):
        if not runs.may(6):
            break
        if _is_changing(runs, [*chain, node.name]):
            first, *others = chain
            with contextlib.suppress(DmlGraphError):
                if not _is_changing(runs, [*others, node.name], copied=[first]):
                    names, why = (*chain, node.name), too_early(node.name, first)
                    return dataclasses.replace(suspect, names=names, blamed=first, why=why)
            break
    return suspect


def _is_changing(runs: Runs, names: list[str], copied: list[str] | None = None) -> bool:
    """Whether a run on other inputs changes what the last of some nodes computes then."""
    before, after = runs.after_others(names, copied=copied or [], before=1)
    return not is_same(before, after)


def _read_too_early(
    runs: Runs, whole: Whole, first: Mapping[str, Array], second: Mapping[str, Array]
) -> Suspect | None:
    """They differ by no more than rounding, but one may have the very bits, and the other one is wrong then."""
    if whole.is_exact(first) == whole.is_exact(second):
        return None
    wrong, right = (first, second) if whole.is_exact(second) else (second, first)
    inner = healing(runs, whole.is_exact).node
    output = next(name for name, value in right.items() if not is_same([value], [wrong[name]]))
    names = (inner, runs.ir.outputs[output].node)
    why = f"the results change, but not while '{inner}' is an output: something reads it before it is there"
    return Suspect(names, inner, (wrong[output],), (right[output],), why=why)
