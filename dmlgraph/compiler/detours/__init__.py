"""Detours: other nodes that compute what one node computes, for a device that computes it wrong.

    other, kept = take(graph, {"norm": "decomposed", "conv_1": "apart"})

A detour is for a node of a graph before fusion.  Passes leave the nodes of detours alone (`kept`): they would undo most
of them.  Views are not among these nodes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping

from dmlgraph.base.errors import DmlGraphError, GraphError, listing, suggestion
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler.detours import compositions, copies, versions
from dmlgraph.compiler.detours.site import Made, NoDetourError, Site
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import is_computed
from dmlgraph.graph.scopes import Scope
from dmlgraph.graph.value import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Detour:
    """A kind of detour.

    Attributes:
        meaning: what it does, in a sentence.
        make: makes the nodes, and returns the value in place of the node's first output, where the others come from
            the same node, or the values in place of all outputs; None: the node stays as it is, and is only kept from
            fusion.
    """

    meaning: str
    make: Callable[[Site], Made] | None


DETOURS: Mapping[str, Detour] = {
    "apart": Detour("The node is not fused with others.", None),
    "activation_apart": Detour("The fused activation is a node of its own.", compositions.activation_apart),
    "other_version": Detour("An earlier or later version of the operator computes it.", versions.other_version),
    "inputs_copied": Detour("The node reads packed copies of its inputs.", copies.inputs_copied),
    "output_copied": Detour("What reads the node reads copies of its outputs.", copies.output_copied),
    "aligned": Detour("The node reads copies whose rows begin at multiples of 16 elements.", copies.aligned),
    "channels_last": Detour("The node reads copies with the channels innermost.", copies.channels_last),
    "float32": Detour("The node is computed in float32, between casts from and to float16.", copies.float32),
    "decomposed": Detour("Simpler operators compute it.", compositions.decomposed),
}


def take(graph: Graph, detours: Mapping[str, str], level: FeatureLevel | None = None) -> tuple[Graph, frozenset[str]]:
    """A copy of a graph with detours, and the names of the nodes that passes must leave alone.

    Args:
        graph: with its dims resolved; not fused.
        detours: by the name of a node, one of `DETOURS`.
        level: that of the device; by default that of the graph.

    Raises:
        GraphError: a name is not that of an operator or of a detour, or the node cannot take it; the message says why.
    """
    other, kept = copy.copy(graph), set[str]()
    for name, kind in detours.items():
        kept.update(_take(other, name, kind, min(graph.level, level or graph.level)))
    return other, frozenset(kept)


def _check(kind: object) -> None:
    """Raises GraphError if this is not the name of a detour."""
    if kind not in DETOURS:
        raise GraphError(
            "is not a detour",
            code="unknown-name",
            got=kind,
            allowed=listing(DETOURS),
            hint=suggestion(str(kind), DETOURS),
        )


def _take(graph: Graph, name: str, kind: str, level: FeatureLevel) -> list[str]:
    """Takes a detour; returns the nodes that belong to it."""
    _check(kind)
    node = graph.node(name)
    if not is_computed(node):
        raise GraphError("is not an operator that a device computes", code="unknown-node", node=name)
    make = DETOURS[kind].make
    if make is None:
        return [name]
    live, known = graph.live_nodes(), {each.name for each in graph.nodes}
    try:
        with Scope(graph, name):
            made = make(Site(graph, node, level))
        values = [made] if isinstance(made, Value) else list(made)
        if any(value is not None and value.desc != graph.desc(name, port) for port, value in enumerate(values)):
            raise NoDetourError("its output has another layout")
    except (NoDetourError, DmlGraphError) as error:
        why = str(error) if isinstance(error, NoDetourError) else error.problems[0].message
        raise GraphError(f"cannot be '{kind}': {why}", code="conflict", node=name) from None
    if isinstance(made, Value):
        graph.take_over(name, made, len(known))
        known.remove(name)
    else:
        graph.stand_in(name, values)
    graph.remove_dead(live)
    return [each.name for each in graph.nodes if each.name not in known and is_computed(each)]
