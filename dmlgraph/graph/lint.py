"""Warnings: what is legal in a graph but probably a mistake.

Each rule is a function from a graph to warnings; `RULES` lists them.  A warning is a `Problem` with a code of
`WARNINGS`: it is reported unless the graph allows it, and never raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.codes import ERRORS, WARNINGS
from dmlgraph.base.errors import GraphError, Location, Problem, listing, suggestion
from dmlgraph.base.report import OncePerPlace
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode
from dmlgraph.operators.fill import FillValueSequence

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

SEARCHED = 4096  # the most elements searched for the first inexact one, after those that are certainly exact


def warnings(graph: Graph) -> list[Problem]:
    """The warnings that the graph does not allow, in the order of its file, else of its nodes."""
    problems = (problem for rule in RULES for problem in rule(graph))
    once = OncePerPlace()
    located = (graph.located(problem) for problem in problems if problem.code not in graph.allow)
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
    """Dims that no size uses."""
    for dim in graph.unused_dims():
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
    place = graph.location(node)
    return None if place is None or place.used_by is None else place


def of_the_file(graph: Graph) -> Iterator[Problem]:
    """What was found when its file was read."""
    yield from graph.remarks


_UNUSED: dict[type[Node], tuple[str, str]] = {
    OperatorNode: ("unused-node", "no output depends on it"),
    InputNode: ("unused-input", "the input is never read"),
    ConstantNode: ("unused-constant", "the constant is never read"),
}


def sequences(graph: Graph) -> Iterator[Problem]:
    """Sequences that leave the range of their data type, or stop being exact."""
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and isinstance(node.operator, FillValueSequence):
            rule = _float_sequence if node.operator.output.dtype.is_float else _integer_sequence
            problem = rule(node.operator)
            if problem is not None:
                yield problem.at(node=node.name)


RULES: tuple[Callable[[Graph], Iterator[Problem]], ...] = (of_the_file, unused_dims, unused_nodes, sequences)


def _integer_sequence(fill: FillValueSequence) -> Problem | None:
    """The problem where start + i * delta leaves the type's range.

    A delta in the upper half of an unsigned type's range may be meant as negative: both readings are tried.
    """
    dtype, last = fill.output.dtype, fill.output.element_count - 1
    low, high = dtype.range
    start, given = int(fill.value_start.value), int(fill.value_delta.value)
    deltas = [given, given - (1 << dtype.bits)] if given > high // 2 and not dtype.is_signed else [given]
    if any(low <= start + last * delta <= high for delta in deltas):
        return None
    delta = min(deltas, key=abs)
    first = ((high - start) // delta if delta > 0 else (start - low) // -delta) + 1
    value = start + first * delta
    wrapped = (value - low) % (1 << dtype.bits) + low
    return Problem(
        f"the sequence leaves the range of {dtype}: element {first} is {wrapped}, not {value}",
        code="sequence-range",
        field="value_delta",
        allowed=f"{low} to {high}",
        hint="a wider integer type holds it",
    )


def _float_sequence(fill: FillValueSequence) -> Problem | None:
    """The problem where a sequence becomes infinite, or a sequence of whole numbers stops being exact."""
    start, delta = fill.value_start, fill.value_delta
    last = fill.output.element_count - 1
    if not (np.isfinite(start.value) and np.isfinite(delta.value)):
        return None
    if not np.isfinite(_element(start, delta, last)):
        first = _first(lambda index: not np.isfinite(_element(start, delta, index)), last)
        return Problem(
            f"the sequence leaves the range of {start.dtype}: element {first} is {_element(start, delta, first)}",
            code="sequence-range",
            field="value_delta",
            allowed=f"at most {np.finfo(start.dtype.numpy).max}",
            hint="float32 reaches farther" if start.dtype is DataType.FLOAT16 else None,
        )
    inexact = _first_inexact(start, delta, last)
    if inexact is None:
        return None
    exact = int(start.value) + inexact * int(delta.value)
    bits = _precision(start.dtype)
    return Problem(
        f"the sequence stops being exact: element {inexact} is {int(_element(start, delta, inexact))}, not {exact}",
        code="sequence-inexact",
        field="value_delta",
        hint=f"{start.dtype} holds every whole number up to 2^{bits}; count in an integer type and cast later",
    )


def _element(start: Scalar, delta: Scalar, index: int) -> Any:
    """One element as DirectML computes it, in the data type: see `FillValueSequence`."""
    with np.errstate(all="ignore"):
        return start.value + start.dtype.numpy.type(index) * delta.value


def _first(is_so: Callable[[int], bool], last: int) -> int:
    """The first index that satisfies a monotonic predicate, which holds at the last index."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_so(middle) else (middle + 1, high)
    return low


def _first_inexact(start: Scalar, delta: Scalar, last: int) -> int | None:
    """The first element that is not exactly start + i * delta; None: all are exact, or the terms have fractions.

    An index, a product and a sum of whole numbers are certainly exact while each, without its factors of two, has no
    more bits than the significand: up to `certain`.  Elements after that are compared.
    """
    if not (float(start.value).is_integer() and float(delta.value).is_integer()) or not delta.value:
        return None
    first, step, limit = int(start.value), int(delta.value), 2 ** _precision(start.dtype)
    farthest = limit * math.gcd(_twos(first), _twos(step)) if first else limit * _twos(step)
    toward = first if step > 0 else -first
    certain = min(limit, limit * _twos(step) // abs(step), (farthest - toward) // abs(step))
    if abs(first) > farthest:
        certain = 0
    for index in range(max(certain, 0) + 1, min(last, max(certain, 0) + SEARCHED) + 1):
        if int(_element(start, delta, index)) != first + index * step:
            return index
    return None


def _precision(dtype: DataType) -> int:
    """The bits of a float type's significand: whole numbers are exact up to 2 to this power."""
    return int(np.finfo(dtype.numpy).nmant) + 1


def _twos(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number


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
