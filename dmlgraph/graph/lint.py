"""Warnings: what is legal in a graph but probably a mistake.

Each rule is a function from a graph to warnings; `RULES` lists them.  A warning is a `Problem` with a code of
`WARNINGS`: it is reported unless the graph allows it, and never raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dmlgraph.base.codes import ERRORS, WARNINGS
from dmlgraph.base.errors import GraphError, Location, Problem, listing, suggestion
from dmlgraph.base.report import OncePerPlace
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, StateNode

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph


def warnings(graph: Graph) -> list[Problem]:
    """The warnings that the graph does not allow, in the order of its file, else of its nodes."""
    problems = (problem for rule in RULES for problem in rule(graph))
    once = OncePerPlace()
    located = (graph.origin.located(problem) for problem in problems if problem.code not in graph.allow)
    found = list(map(once.counted, [problem for problem in located if once.is_first(problem)]))
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    return sorted(found, key=lambda each: (_line(each.location), order.get(each.node or "", -1)))


def allowed(codes: object) -> tuple[str, ...]:
    """Codes of warnings to allow, checked, each once.

    Raises:
        GraphError: not a list, or not codes of warnings.
    """
    if isinstance(codes, (str, Mapping)) or not isinstance(codes, Iterable):
        hint = 'such as ["unused-input"]'
        raise GraphError("must be a list of codes", code="kind", field="allow", got=codes, hint=hint)
    given = list(codes)
    problems = [
        Problem(
            "is not the code of a warning",
            code="unknown-code",
            field=f"allow.{index}",
            got=code,
            allowed=listing(WARNINGS),
            hint="an error cannot be allowed" if code in list(ERRORS) else suggestion(str(code), WARNINGS),
        )
        for index, code in enumerate(given)
        if code not in list(WARNINGS)
    ]
    if problems:
        raise GraphError(problems)
    return tuple(dict.fromkeys(given))


def unused_dims(graph: Graph) -> Iterator[Problem]:
    """Dims that no size uses, except those that are fixed, which say what does."""
    for dim in (each for each in graph.checker.dims.unused() if each not in graph.origin.fixed):
        hint = "remove it, or write its name in place of a size"
        yield Problem("nothing uses this dim", code="unused-dim", field=f"dims.{dim}", hint=hint)


def unused_nodes(graph: Graph) -> Iterator[Problem]:
    """Nodes on which no output depends; one warning for each unread node, which names the nodes that only it uses."""
    live = graph.live_nodes()
    dead = [node for node in graph.nodes if node.name not in live]
    if dead:  # a node of a template is of use if that of another copy is
        needed = {_in_template(graph, name) for name in live}
        dead = [node for node in dead if (place := _in_template(graph, node.name)) is None or place not in needed]
    read = {source for node in dead for source, _, _ in graph.producers(node.name)}
    reported: set[str] = set()
    for node in dead:
        if node.name in read:
            continue
        only = _upstream(graph, node.name, live | reported)
        reported |= only
        hint = f"only it reads: {listing(sorted(only), at_most=8)}" if only else None
        code, message = _UNUSED[type(node)]
        yield Problem(message, code=code, node=node.name, hint=hint)


def _in_template(graph: Graph, node: str) -> Location | None:
    """The place of a node in a template; None where it is in none."""
    place = graph.origin.location(node)
    return None if place is None or place.used_by is None else place


def of_the_file(graph: Graph) -> Iterator[Problem]:
    """What was found when its file was read."""
    yield from graph.origin.remarks


_UNUSED: dict[type[Node], tuple[str, str]] = {
    OperatorNode: ("unused-node", "no output depends on it"),
    InputNode: ("unused-input", "the input is never read"),
    StateNode: ("unused-state", "the state is never read"),
    ConstantNode: ("unused-constant", "the constant is never read"),
}


def unchanged_states(graph: Graph) -> Iterator[Problem]:
    """States that keep what they hold; graphs that share states with another may have them."""
    changed = graph.next_values
    for state in graph.states:
        if state.name not in changed:
            hint = "give it a next value, or make it a constant" if state.grows is None else "append rows to it"
            yield Problem("nothing changes the state", code="unchanged-state", node=state.name, hint=hint)


def doubts(graph: Graph) -> Iterator[Problem]:
    """What operators find doubtful about themselves."""
    for node in graph.nodes:
        if not isinstance(node, OperatorNode):
            continue
        ranks = [None if each is None else graph.desc(*each).rank for each in graph.sources(node.name)]
        problem = node.operator.doubts(ranks)
        if problem is not None:
            yield problem.at(node=node.name)


RULES: tuple[Callable[[Graph], Iterator[Problem]], ...] = (
    *(of_the_file, unused_dims, unused_nodes, unchanged_states, doubts),
)


def _upstream(graph: Graph, name: str, known: set[str]) -> set[str]:
    """The names of all nodes that a node depends on, without those in `known` and their sources."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        sources = {source for source, _, _ in graph.producers(waiting.pop())} - found - known
        found |= sources
        waiting.extend(sources)
    return found


def _line(place: Location | None) -> tuple[str, int, int]:
    return (place.file, place.line, place.column) if place else ("", 0, 0)
