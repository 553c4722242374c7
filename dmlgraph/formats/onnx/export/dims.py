"""Dims of a graph that stay dims of its model: what follows them is found by writing it with several sizes.

Where these models differ in whole numbers of a constant, nodes compute the numbers from the sizes of the inputs; one
new size of a Reshape is -1.  A dim that something else follows, such as an attribute, becomes its size, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.expressions import Expression
from dmlgraph.base.fitting import Sample, fitted, followed, probes
from dmlgraph.base.free_names import FreeNames
from dmlgraph.formats.onnx.export.emitter import Array
from dmlgraph.formats.onnx.export.writer import Written
from dmlgraph.graph.graph import Graph

_OTHER_THAN_1 = 4  # where 1 has a meaning of its own, such as for what is broadcast
_OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "//": "Div"}  # of the expressions that are fitted; none is negative
_SHAPE = 1  # the input of Reshape


def keeping(graph: Graph, write: Callable[[Graph], Written]) -> tuple[Written, dict[str, str]]:
    """The model of a graph with its dims, and the dims that became sizes, each with what keeps it.

    Args:
        graph: with the sizes that such dims get.
        write: makes the model of a graph.

    Raises:
        ModelError: as `write`, for the graph as it is.
    """
    fixed: dict[str, str] = {}
    while free := {dim: size for dim, size in graph.dims.items() if dim not in fixed}:
        try:
            return _Merge(graph, write, free).result(), fixed
        except _FixedError as error:
            fixed |= dict.fromkeys(error.dims, error.why)
    return write(graph), fixed


class _FixedError(Exception):
    """Dims that cannot stay: their names, and what keeps them."""

    def __init__(self, dims: Sequence[str], why: str) -> None:
        super().__init__(why)
        self.dims, self.why = dims, why


class _Merge:
    """Makes one model of those with several sizes.

    Args:
        graph: the graph.
        write: makes the model of a graph.
        dims: the sizes of the dims that stay.
    """

    def __init__(self, graph: Graph, write: Callable[[Graph], Written], dims: Sample) -> None:
        self._samples = probes({dim: _OTHER_THAN_1 if size == 1 else size for dim, size in dims.items()})
        self._written = [self._at(graph, write, sample) for sample in self._samples]
        first = self._written[0]
        self._model, self._constants = first.model, dict(first.constants)
        infos = [*self._model.graph.input, *self._model.graph.output]
        outputs = [name for node in self._model.graph.node for name in node.output]
        self._names = FreeNames([*self._constants, *(each.name for each in infos), *outputs])
        self._labels = FreeNames(node.name for node in self._model.graph.node)
        self._nodes: list[onnx.NodeProto] = []
        self._sizes: dict[str, str] = {}  # of dims, by their names: values {1}
        self._shapes: dict[tuple[int | Expression, ...], str] = {}  # computed constants

    def _at(self, graph: Graph, write: Callable[[Graph], Written], sample: Sample) -> Written:
        try:
            return write(graph.with_dims(sample))
        except DmlGraphError as error:
            if sample is self._samples[0]:
                raise _FixedError(list(sample), f"what is legal: with other sizes, {error.problems[0]}") from None
            dims = [dim for dim, size in sample.items() if size != self._samples[0][dim]]
            raise _FixedError(dims, f"what is legal: with another size, {error.problems[0]}") from None

    def result(self) -> Written:
        """The model."""
        several = [each.model.graph for each in self._written]
        for infos in ([each.input for each in several], [each.output for each in several]):
            for info in zip(*infos, strict=True):
                self._declare(info)
        self._same([[node.op_type for node in each.node] for each in several], "the operators of the model")
        for nodes in zip(*(each.node for each in several), strict=True):
            self._same([_apart_from_inputs(node) for node in nodes], f"the node '{nodes[0].name}'")
            made = onnx.NodeProto()
            made.CopyFrom(nodes[0])
            for place, names in enumerate(zip(*(node.input for node in nodes), strict=True)):
                made.input[place] = self._input(nodes[0], place, names)
            self._nodes.append(made)
        used = {name for node in self._nodes for name in node.input} | {each.name for each in self._model.graph.input}
        del self._model.graph.node[:]
        self._model.graph.node.extend(self._nodes)
        return Written(self._model, {name: array for name, array in self._constants.items() if name in used})

    def _same(self, values: Sequence[object], what: str) -> None:
        """Refuses dims that something else than a whole number follows."""
        if any(each != values[0] for each in values):
            raise _FixedError(followed(self._samples, values) or list(self._samples[0]), what)

    def _declare(self, infos: Sequence[onnx.ValueInfoProto]) -> None:
        """Names the sizes of an input or output that follow the dims."""
        shapes = [each.type.tensor_type.shape.dim for each in infos]
        name = infos[0].name
        if name in self._constants:  # what a state holds at first
            self._same([_content(each.constants[name]) for each in self._written], f"what the state '{name}' holds")
        for sizes in zip(*shapes, strict=True):
            size = self._fitted([each.dim_value for each in sizes], f"the sizes of '{name}'")
            if isinstance(size, Expression):
                sizes[0].dim_param = size.text

    def _fitted(self, numbers: Sequence[int], what: str) -> int | Expression:
        found = fitted(self._samples, numbers)
        if found is None:
            raise _FixedError(followed(self._samples, numbers) or list(self._samples[0]), what)
        return found

    def _input(self, node: onnx.NodeProto, place: int, names: Sequence[str]) -> str:
        """The value that a node reads: the same one, or what follows the dims as its constants do."""
        pairs = list(zip(self._written, names, strict=True))
        constants = [each.constants.get(name) for each, name in pairs]
        arrays = [each for each in constants if each is not None]
        what = f"a constant of the node '{node.name}'"
        if len(arrays) < len(constants):
            self._same(names, what)
            return names[0]
        if all(_content(each) == _content(arrays[0]) for each in arrays):
            return names[0]
        self._same([(each.dtype.str, each.shape) if _is_small(each) else _content(each) for each in arrays], what)
        numbers = [self._fitted(each, what) for each in zip(*(each.ravel().tolist() for each in arrays), strict=True)]
        open_ = [index for index, each in enumerate(numbers) if isinstance(each, Expression)]
        if node.op_type == "Reshape" and place == _SHAPE and len(open_) == 1:
            return self._constant([-1 if index in open_ else each for index, each in enumerate(numbers)], names[0])
        made = self._computed(numbers, names[0])
        if arrays[0].dtype != np.int64:
            kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
            made = self._add("Cast", [made], names[0], to=kind)
        return made if arrays[0].ndim else self._add("Squeeze", [made], names[0])

    def _computed(self, numbers: Sequence[int | Expression], label: str) -> str:
        """A value with these numbers, int64 {count}."""
        key = tuple(numbers)
        if key not in self._shapes:
            parts = [
                self._constant([each], label) if isinstance(each, int) else self._number(each, label)
                for each in numbers
            ]
            self._shapes[key] = parts[0] if len(parts) == 1 else self._add("Concat", parts, label, axis=0)
        return self._shapes[key]

    def _number(self, expression: Expression, label: str) -> str:
        def leaf(step: object) -> str:
            return self._size(step) if isinstance(step, str) else self._constant([step], label)

        return expression.folded(leaf, lambda sign, parts: self._add(_OPERATORS[sign], parts, label))

    def _size(self, dim: str) -> str:
        """The size of a dim, from an input that has it."""
        if dim not in self._sizes:
            places = (
                (info.name, axis)
                for info in self._model.graph.input
                for axis, size in enumerate(info.type.tensor_type.shape.dim)
                if size.dim_param == dim
            )
            name, axis = next(places, (None, 0))
            if name is None:
                raise _FixedError([dim], "sizes that the model computes, although no input has it")
            self._sizes[dim] = self._add("Shape", [name], dim, start=axis, end=axis + 1)
        return self._sizes[dim]

    def _constant(self, numbers: Sequence[object], label: str) -> str:
        array = np.array(numbers, np.int64)
        for name, each in self._constants.items():
            if each.dtype == array.dtype and each.shape == array.shape and (each == array).all():
                return name
        name = self._names.take(label)
        self._constants[name] = array
        return name

    def _add(self, operator: str, inputs: Sequence[str], label: str, **attributes: Any) -> str:
        made = self._names.take(f"{label}/{operator}")
        self._nodes.append(onnx.helper.make_node(operator, inputs, [made], self._labels.take(made), **attributes))
        return made


def _is_small(array: Array) -> bool:
    """Whether its numbers may follow dims: sizes, places and counts."""
    return array.dtype in (np.int32, np.int64) and array.ndim <= 1


def _content(array: Array) -> tuple[str, tuple[int, ...], object]:
    return array.dtype.str, array.shape, array.ctypes.data if array.nbytes > 1 << 20 else array.tobytes()


def _apart_from_inputs(node: onnx.NodeProto) -> bytes:
    other = onnx.NodeProto()
    other.CopyFrom(node)
    count = len(other.input)
    del other.input[:]
    return bytes(other.SerializeToString(deterministic=True)) + bytes([count])
