"""Caches in fewer bits: what a decoder knows of a text as float16, or as int8 with a scale for each row."""

from __future__ import annotations

import copy
from typing import Any, Literal, get_args

import dmlgraph as dg
from dmlgraph.base.errors import GraphError
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import StateNode
from dmlgraph.graph.value import Value

CacheType = Literal["float16", "int8"]
_STEPS = 127
_LEAST = 2.0**-120  # of a scale: so that rows of zeros stay zeros


def checked(given: object) -> CacheType | None:
    """The data type of caches; None: that of the decoder.

    Raises:
        GraphError: it is another one.
    """
    for kind in get_args(CacheType):
        if given == kind:
            return kind  # type: ignore[no-any-return]
    if given is not None:
        allowed = " or ".join(get_args(CacheType))
        raise GraphError("is not a data type of caches", code="dtype", field="cache", got=given, allowed=allowed)
    return None


def narrowed(graph: Graph, kind: CacheType) -> Graph:
    """The graph with growing states of fewer bits in the place of those of float32.

    A run also sees its own new rows as the cache will hold them, so that its results do not depend on how many rows it
    reads at once.
    """
    graph = copy.copy(graph)
    form = _FORMS[kind]
    for node in graph.states:
        rows = graph.next_values.get(node.name)
        if node.grows is None or node.desc.dtype is not DataType.FLOAT32 or rows is None:
            continue
        axis = node.desc.rank - (2 if node.grows == node.desc.rank - 1 else 1)
        parts = form.pack(rows, axis)
        held = [_state(graph, node, suffix, part, axis) for suffix, part in parts.items()]
        for state, part in zip(held, parts.values(), strict=True):
            graph.append(state, part)  # before anything is replaced: nodes that nobody reads are removed
        seen, past = form.unpack(*parts.values()), form.unpack(*held)
        graph.replace(rows, seen)
        graph.replace(Value(graph, node.name, 0), past)
        graph.replace(Value(graph, node.name, 1), held[0].length)
        graph.remove(node.name)
    return graph


def _state(graph: Graph, node: StateNode, suffix: str, part: Value, axis: int) -> Value:
    """A growing state for a part of the rows; along `axis` it is as large as the part."""
    sizes = list(node.declared["sizes"])
    if part.sizes[axis] == 1:
        sizes[axis] = 1
    return graph.state(f"{node.name}.{suffix}", sizes=sizes, dtype=part.dtype, grows=node.grows)


class _Float16:
    @staticmethod
    def pack(rows: Value, _: int) -> dict[str, Value]:
        return {"float16": dg.cast(rows, dtype="float16")}

    @staticmethod
    def unpack(numbers: Value) -> Value:
        return dg.cast(numbers, dtype="float32")


class _Int8:
    """Multiples of a 127th of the largest number of each row."""

    @staticmethod
    def pack(rows: Value, axis: int) -> dict[str, Value]:
        least = rows.graph.fill_value_constant(sizes=[1], dtype="float32", value=_LEAST)
        scale = dg.max(dg.reduce(dg.abs(rows), function="max", axes=[axis]) * (1 / _STEPS), least)
        return {"int8": dg.cast(dg.round(rows / scale), dtype="int8"), "scale": scale}

    @staticmethod
    def unpack(steps: Value, scale: Value) -> Value:
        return dg.cast(steps, dtype="float32") * scale


_FORMS: dict[CacheType, Any] = {"float16": _Float16, "int8": _Int8}
