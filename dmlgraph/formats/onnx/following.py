"""Dims of a model that stay dims of the graph: what follows them is found by importing with several sizes.

    graph = following(convert, {"batch": 1, "tokens": 16})

Where imports differ in whole numbers, an expression over the dims stands for these; the graph with the dims of each
import is compared with what was imported.  A dim that something else follows, such as a constant, is fixed, with the
reason.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.expressions import Expression
from dmlgraph.base.fitting import Sample, fitted, followed, probes
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.editing import redeclared
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, StateNode

Convert = Callable[[Mapping[str, int]], Graph]
_DIGITS = re.compile(r"(\d+)")
_OTHER_THAN_1 = 4  # where 1 has a meaning of its own, such as for what is broadcast


def following(convert: Convert, dims: Mapping[str, int]) -> Graph:
    """The graph of a model with the dims that it is imported with.

    Args:
        convert: imports it with such sizes.
        dims: the sizes by names, or by places such as `x[0]`.

    Raises:
        ModelError: it cannot be imported with these sizes.
    """
    graph = convert(dims)
    names = {_name(key): key for key, size in dims.items() if size > 0}
    if len(names) < sum(size > 0 for size in dims.values()):
        return graph
    sizes = {name: int(dims[key]) for name, key in names.items()}

    def converted(sample: Sample) -> Graph:
        return convert({**dims, **{names[name]: size for name, size in sample.items()}})

    made = _Search(graph, converted, sizes).result()
    if any(sizes[dim] == 1 for dim in made.origin.fixed):
        other = _with_other_than_1(graph, converted, sizes)
        if other is not None and len(other.origin.fixed) < len(made.origin.fixed):
            return other
    return made


def _name(key: str) -> str:
    """The dim for a name or place in a model: a word, which expressions can name."""
    name = re.sub(r"\W+", "_", key).strip("_")
    return f"dim_{name}" if not name or name[0].isdecimal() else name


def _with_other_than_1(graph: Graph, converted: Convert, sizes: Sample) -> Graph | None:
    """The graph that follows from sizes other than 1, if it is also one with these sizes."""
    others = {dim: _OTHER_THAN_1 if size == 1 else size for dim, size in sizes.items()}
    try:
        made = _Search(converted(others), converted, others).result()
        made = made.with_dims({dim: sizes[dim] for dim in sizes if dim not in made.origin.fixed})
    except DmlGraphError:
        return None
    if any(made.dims[dim] != size for dim, size in sizes.items()) or made.output_descs != graph.output_descs:
        return None
    return made


class _FixedError(Exception):
    """Dims that cannot follow: their names, and what keeps them."""

    def __init__(self, dims: Sequence[str], why: str) -> None:
        super().__init__(why)
        self.dims, self.why = dims, why


class _Search:
    """Looks for the dims that a graph can follow.

    Args:
        graph: with the sizes.
        converted: imports the model with other sizes.
        sizes: of all dims.
    """

    def __init__(self, graph: Graph, converted: Convert, sizes: Sample) -> None:
        self.graph, self.converted, self.sizes = graph, converted, sizes
        self.imported: dict[tuple[tuple[str, int], ...], Graph] = {}
        self.fixed: dict[str, str] = {}

    def result(self) -> Graph:
        """The graph with its dims; those that cannot follow are fixed."""
        nodes: dict[str, Node] = {}
        for dim, sample in zip(self.sizes, probes(self.sizes)[1:], strict=False):
            self._trying(functools.partial(self._import, sample, [dim]))
        while len(self.fixed) < len(self.sizes):
            free = {dim: size for dim, size in self.sizes.items() if dim not in self.fixed}
            if self._trying(functools.partial(self._follow, free, nodes)):
                break
        made = redeclared(self.graph, self.sizes, nodes if len(self.fixed) < len(self.sizes) else {})
        made.origin.fixed = dict(self.fixed)
        return made

    def _trying(self, work: Callable[[], object]) -> bool:
        """Does something; notes the dims that are found to be fixed."""
        try:
            work()
        except _FixedError as error:
            self.fixed |= dict.fromkeys(error.dims, error.why)
            return False
        return True

    def _import(self, sample: Sample, dims: Sequence[str]) -> Graph:
        """The model with other sizes of some dims, which has the same nodes."""
        whole = {**self.sizes, **sample}
        key = tuple(whole.items())
        if key not in self.imported:
            try:
                other = self.converted(whole)
            except DmlGraphError as error:
                said = ", ".join(f"{dim}={whole[dim]}" for dim in dims)
                raise _FixedError(dims, f"what the model computes: with {said}, {error.problems[0]}") from None
            different = _difference(self.graph, other)
            if different is not None:
                raise _FixedError(dims, different)
            self.imported[key] = other
        return self.imported[key]

    def _follow(self, free: Sample, nodes: dict[str, Node]) -> None:
        """Adds the nodes that follow some dims."""
        samples = probes(free)
        others = [self._import(sample, list(free)) for sample in samples[1:]]
        graphs = [self.graph, *others]
        for each in zip(*(graph.nodes for graph in graphs), strict=True):
            made = _common_node(each, samples)
            if made is not each[0]:
                nodes[made.name] = made
        try:
            whole = redeclared(self.graph, self.sizes, nodes)
            for sample, graph in zip(samples, graphs, strict=True):
                _compare(whole.with_dims(sample), graph, list(free))
        except DmlGraphError as error:
            problem = error.problems[0]
            raise _FixedError(list(free), f"node '{problem.node}', which {problem.message}") from None


def _difference(one: Graph, other: Graph) -> str | None:
    """Where two graphs differ in more than numbers; None where they do not."""
    if len(one.nodes) != len(other.nodes):
        return f"the number of nodes: {len(one.nodes)} or {len(other.nodes)}"
    for a, b in zip(one.nodes, other.nodes, strict=True):
        alike = a.name == b.name and type(a) is type(b) and one.sources(a.name) == other.sources(b.name)
        if isinstance(a, OperatorNode) and isinstance(b, OperatorNode):
            alike = alike and type(a.operator) is type(b.operator)
        if not alike:
            return f"the node '{a.name}', which is another one with another size"
        if isinstance(a, ConstantNode) and isinstance(b, ConstantNode) and not _is_same(a.data, b.data):
            return f"the constant '{a.name}'"
        if isinstance(a, StateNode) and isinstance(b, StateNode) and not _is_same(_held(a), _held(b)):
            return f"what the state '{a.name}' holds at first"
    ends = [
        {name: (value.node, value.port) for name, value in (*graph.outputs.items(), *graph.next_values.items())}
        for graph in (one, other)
    ]
    return None if ends[0] == ends[1] else "what the outputs are"


def _held(state: StateNode) -> Any:
    return getattr(state.initial, "array", state.initial)


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        alike = (a.dtype, a.shape) == (b.dtype, b.shape)
        return alike and (a.ctypes.data == b.ctypes.data or a.tobytes() == b.tobytes())
    return type(a) is type(b) and bool(a == b)


def _common_node(nodes: Sequence[Node], samples: Sequence[Sample]) -> Node:
    """The node that follows the dims as these do; the first one where they do not differ."""
    first, changes = nodes[0], {}
    for field in ("attributes", "outputs") if isinstance(first, OperatorNode) else ("declared",):
        if isinstance(first, (InputNode, StateNode, OperatorNode)):
            values = [getattr(node, field) for node in nodes]
            made = _common(values, samples, first.name)
            if made is not values[0]:
                changes[field] = made
    return dataclasses.replace(first, **changes) if changes else first


def _common(values: Sequence[Any], samples: Sequence[Sample], node: str) -> Any:
    """What gives these values for the samples: the same structure, with expressions in place of numbers that differ."""
    first = values[0]
    if all(_is_same(first, each) for each in values[1:]):
        return first
    if all(isinstance(each, TensorDesc) for each in values):
        values = [{"dtype": each.dtype, "sizes": each.sizes, "strides": each.strides} for each in values]
        first = values[0]
    if all(isinstance(each, Mapping) and each.keys() == first.keys() for each in values):
        return {key: _common([each[key] for each in values], samples, f"{node}.{key}") for key in first}
    if all(isinstance(each, (list, tuple)) and len(each) == len(first) for each in values):
        return tuple(_common(each, samples, node) for each in zip(*values, strict=True))
    found: Any = None
    if all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in values):
        found = fitted(samples, [int(each) for each in values])
    elif all(isinstance(each, str) for each in values):
        found = _text([_DIGITS.split(each) for each in values], samples)
    if found is None:
        raise _FixedError(followed(samples, values) or list(samples[0]), f"the field '{node}'")
    return found


def _text(parts: Sequence[Sequence[str]], samples: Sequence[Sample]) -> str | None:
    """A text, such as a subscript, whose numbers follow the dims."""
    if any(len(each) != len(parts[0]) for each in parts):
        return None
    made = []
    for pieces in zip(*parts, strict=True):
        found: Expression | int | str | None = pieces[0]
        if any(each != pieces[0] for each in pieces):
            found = fitted(samples, [int(each) for each in pieces]) if all(map(str.isdecimal, pieces)) else None
        if found is None:
            return None
        made.append(found.text if isinstance(found, Expression) else str(found))
    return "".join(made)


def _compare(made: Graph, imported: Graph, dims: Sequence[str]) -> None:
    """Refuses dims with which a node has other outputs than in what was imported."""
    for node in imported.nodes:
        if list(_descs(made.node(node.name))) != list(_descs(node)):
            raise _FixedError(dims, f"node '{node.name}'")


def _descs(node: Node) -> Iterator[TensorDesc | None]:
    yield from node.operator.output_descs if isinstance(node, OperatorNode) else [node.desc]
