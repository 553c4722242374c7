"""The nodes of a graph: inputs, states, constants and operators."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeGuard, TypeVar, dataclass_transform

import numpy as np

from dmlgraph.base.errors import nearest, plural
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.sized import Sized
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.operators.declaration.operator import Operator

T = TypeVar("T")


def _refuse(node: Any, name: str, *_: object) -> NoReturn:
    field = "field" if name in {each.name for each in dataclasses.fields(node)} else name
    raise AttributeError(f"a node never changes: g.set('{node.name}', {field}=…) changes the graph")


@dataclass_transform(frozen_default=True)
def _node(kind: type[T]) -> type[T]:
    """A frozen dataclass that says how its fields are changed."""
    made = dataclasses.dataclass(frozen=True, slots=True)(kind)
    made.__setattr__ = made.__delattr__ = _refuse  # type: ignore[method-assign]
    return made


@_node
class InputNode:
    """A tensor given at every run; `declared` is its description with dims as names."""

    name: str
    desc: TensorDesc
    declared: Mapping[str, Any]


LENGTH = TensorDesc(dtype=DataType.UINT32, sizes=(1,))  # of a growing state: how many rows it had before the run


@_node
class StateNode:
    """A tensor that lives on the device from run to run, as it was before the run.

    A growing state has its length as its second output.

    Attributes:
        desc: of all of it; of a growing state, of its capacity.
        declared: the same with dims as names.
        initial: what it holds at first: an array, or one number for all elements; None: zeros.
        grows: the axis along which rows are appended; None for a state that is updated whole.
    """

    name: str
    desc: TensorDesc
    declared: Mapping[str, Any]
    initial: ConstantData | Scalar | None = None
    grows: int | None = None

    @classmethod
    def of(cls, source: InputNode | ConstantNode, initial: ConstantData | Scalar | None) -> StateNode:
        """The state in the place of a source: of its name and description."""
        desc = source.desc
        known = source.declared if isinstance(source, InputNode) else {"dtype": desc.dtype, "sizes": desc.sizes}
        return cls(source.name, desc, {field: known[field] for field in ("dtype", "sizes")}, initial)

    @property
    def output_descs(self) -> tuple[TensorDesc, ...]:
        return (self.desc,) if self.grows is None else (self.desc, LENGTH)


@_node
class ConstantNode:
    """A tensor known in advance."""

    name: str
    desc: TensorDesc
    elements: ConstantData

    @property
    def data(self) -> np.ndarray[Any, Any]:
        return self.elements.array


@_node
class OperatorNode:
    """An operator with all fields; `attributes` and `outputs` are as given, with dims as names."""

    name: str
    operator: Operator
    attributes: Mapping[str, Any]
    outputs: Mapping[str, Any]


Node = InputNode | StateNode | ConstantNode | OperatorNode


def is_view(node: object) -> TypeGuard[OperatorNode]:
    """Whether a node is a view, which only changes how elements are read."""
    return isinstance(node, OperatorNode) and node.operator.is_view


def is_computed(node: object) -> TypeGuard[OperatorNode]:
    """Whether a device computes a node: an operator that is not a view."""
    return isinstance(node, OperatorNode) and not node.operator.is_view


def output_paths(node: Node) -> list[str]:
    """What a reference appends to a node's name for each of its outputs, in binding order.

    The only present output has an empty path; outputs that are left out also have paths.
    """
    paths = full_output_paths(node)
    if not isinstance(node, OperatorNode) or any(node.operator.output_arrays.values()):
        return paths
    present = [port for port, desc in enumerate(node.operator.output_descs) if desc is not None]
    return ["" if present == [port] else path for port, path in enumerate(paths)]


def full_output_paths(node: Node) -> list[str]:
    """As `output_paths`, but no empty paths for an operator that may have several outputs."""
    if isinstance(node, StateNode):
        return [""] if node.grows is None else ["", ".length"]
    if not isinstance(node, OperatorNode):
        return [""]
    fields = {field: getattr(node.operator, field) for field in node.operator.output_fields}
    return paths_of({field: len(value) if isinstance(value, tuple) else None for field, value in fields.items()})


def paths_of(outputs: Mapping[str, int | None]) -> list[str]:
    """The paths of output fields: each with its number of members if it is an array, else None."""
    if list(outputs.values()) == [None]:
        return [""]
    paths: list[str] = []
    for field, count in outputs.items():
        paths += [f".{field}"] if count is None else [f".{field}.{index}" for index in range(count)]
    return paths


def may_have_output(operator: type[Operator], path: str) -> bool:
    """Whether nodes of an operator may have an output of this path; which optional outputs exist is not known yet."""
    if not path:
        return not any(operator.output_arrays.values())
    if operator.output_arrays == {operator.output_fields[0]: False}:
        return False
    field, dot, index = path.removeprefix(".").partition(".")
    if field not in operator.output_fields or bool(dot) is not operator.output_arrays[field]:
        return False
    return not dot or (index.isdecimal() and index.isascii() and (index == "0" or index[0] != "0"))


def readings(reference: str) -> Iterator[tuple[str, str]]:
    """What a reference may mean, the longest name first: (the name of a node, the path of its output).

    Names may contain dots; a path has at most two parts.
    """
    name, path = reference, ""
    yield name, path
    for _ in range(2):
        name, dot, last = name.rpartition(".")
        if not dot:
            return
        path = f".{last}{path}"
        yield name, path


_ARITHMETIC = re.compile(r"\w\s*[*+]\s*\w|\w\s[-/@]\s\w")


def reference_hint(reference: str, names: Iterable[str]) -> str | None:
    """A hint for an unknown reference: what was probably meant."""
    for name, path in readings(reference):
        near = nearest(name, names)
        if near is not None:
            return f"did you mean '{near}{path}'?"
    if _ARITHMETIC.search(reference):
        return "arithmetic is a node of its own, such as {op: multiply, a: x, b: y}"
    return None


def kept(value: Any) -> Any:
    """A copy of the caller's value that later changes to its lists and arrays do not affect."""
    if isinstance(value, Sized):
        return value.expression
    if isinstance(value, Mapping):
        return {key: kept(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(kept(each) for each in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def operator_count(nodes: Iterable[Node]) -> int:
    """How many nodes are operators: what a device runs, before fusion."""
    return sum(isinstance(node, OperatorNode) for node in nodes)


def counted(nodes: Iterable[Node]) -> str:
    """The nodes by kind: `142 operators, 160 constants, 6 inputs`."""
    kinds = {OperatorNode: "operator", ConstantNode: "constant", InputNode: "input", StateNode: "state"}
    counts = collections.Counter(type(node) for node in nodes)
    return ", ".join(plural(counts[kind], noun) for kind, noun in kinds.items() if counts[kind]) or "no nodes"
