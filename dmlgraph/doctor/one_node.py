"""The search for one node: the first whose results are not those of what it read, and the one that is to blame."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.doctor.runs import Runs, Suspect, is_same
from dmlgraph.doctor.values import given, operators, written
from dmlgraph.measure.exposing import batches, values_of

Array = np.ndarray[Any, Any]


def first_wrong(runs: Runs, *, again: bool) -> Suspect | None:
    """The first node, in execution order, whose results are not those of what it read on the device.

    Args:
        runs: of the graph; they know all values afterwards, if no node is wrong.
        again: whether to run each batch of values a second time, for `changing`.
    """
    runs.values = given(runs.ir, runs.given)
    waiting = operators(runs.ir)
    for batch in batches(values_of(runs.ir)):
        found, *others = runs.exposing(batch, 2 if again else 1)
        runs.values |= found
        runs.again |= dict(*others)
        while waiting and all(source in runs.values for source in written(waiting[0])):
            node = waiting.pop(0)
            got, expected = runs.outputs(node), runs.expected(node)
            if runs.wrong(node, got, expected):
                return Suspect((node.name,), node.name, got, expected)
    return None


def confirmed(runs: Runs, suspect: Suspect) -> Suspect:
    """The suspect as it is alone; if it is right then, with the node that it reads too early."""
    name = suspect.names[-1]
    node = runs.ir[name]
    first, second = runs.part([name], runs=2)
    stable = is_same(first, second)
    if not stable or any(runs.wrong(node, got, suspect.expected) for got in (first, second)):
        return dataclasses.replace(suspect, is_stable=stable)
    for chain in chains(runs, node):
        if not runs.may(3):
            break
        (got,) = runs.after_others([*chain, name])
        if runs.wrong(node, got, suspect.expected):
            return behind(runs, suspect, chain, got)
    return dataclasses.replace(suspect, why="it is right when it runs alone")


def behind(runs: Runs, suspect: Suspect, chain: Sequence[str], got: tuple[Array, ...]) -> Suspect:
    """Whose fault it is that a node is wrong behind another one: its own if it also is behind a copy."""
    name, (first, *others) = suspect.names[-1], chain
    names, why = (*chain, name), f"it is right when it reads an input of the graph, and wrong behind '{first}'"
    with contextlib.suppress(DmlGraphError):
        (copied,) = runs.part([*others, name], copied=[first])
        if not runs.wrong(runs.ir[name], copied, suspect.expected):
            why = too_early(name, first)
            return dataclasses.replace(suspect, names=names, blamed=first, got=got, why=why)
    return dataclasses.replace(suspect, names=names, got=got, why=why)


def chains(runs: Runs, node: IrNode) -> Iterator[list[str]]:
    """What a node reads: each node that computes it, then those behind nodes that only move elements.

    A device may let a node write where such a node would put its elements.
    """
    near = runs.producers(node)
    yield from ([each.name] for each in near)
    for each in near:
        if each.computation.only_moves:
            yield from ([before.name, each.name] for before in runs.producers(each))


def too_early(reader: str, writer: str) -> str:
    return f"'{reader}' reads what '{writer}' writes before it is there, or when it is gone; both are right alone"
