"""Sketch: a random graph under construction, and the sources and single operators it can get."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import yaml

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.operators import REGISTRY, Operator, ScaleBias
from dmlgraph.operators.catalog.examples import example, example_fields, is_plain
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import same_dtype_fields

Array = np.ndarray[Any, Any]
Value = dg.Value
T = TypeVar("T")

FLOATS = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT16, DataType.FLOAT64)
TYPES = tuple(dtype for dtype in DataType if dtype.bits > 4)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -4.0, 3.0, 6.0, 0.1, -0.7, 1.5, 1 / 3, 0.125, 100.0)
SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 65504.0, -65504.0, 1e-7, 1e30, -1e30, 1e-30, 3e38)
INTEGERS = (0, 1, 2, 3, 7, 127, 128, 255, -1, -2, -128)
ACTIVATIONS = ("relu", "sigmoid", "tanh", "leaky_relu", "elu", "softplus", "softsign", "hard_sigmoid", "identity")
NORMALS = 0.8  # of numbers that are drawn without special ones
MAX_ELEMENTS = 4096  # the most elements of a value

PLAIN = tuple(filter(is_plain, REGISTRY.values()))  # of tensors with the same type and sizes


class Choices(Protocol):
    """The source of a sketch's decisions."""

    def integer(self, low: int, high: int) -> int: ...


@dataclasses.dataclass
class Dice:
    """Decisions derived from a seed."""

    random: random.Random

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


@dataclasses.dataclass(frozen=True)
class Sample:
    """A graph and its input data.

    Attributes:
        tame: no input and no number of the graph is infinite, NaN or extreme.
    """

    graph: dg.Graph
    inputs: dict[str, Array]
    tame: bool

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # how hypothesis shows it
        printer.text("..." if cycle else repr(self))

    def __repr__(self) -> str:
        lines = [f"  {node!r}" for node in self.graph.nodes]
        return "\n".join([f"Sample(tame={self.tame}, outputs={list(self.graph.outputs)})", *lines])


class Sketch:
    """A graph under construction: the values so far, and data for its inputs."""

    def __init__(self, choices: Choices, level: str | None) -> None:
        self.choices = choices
        self.graph = dg.Graph("random", target=level)
        self.data: dict[str, Array] = {}
        self.values: list[Value] = []
        self.tame = self.chance(2, 3)
        rank = self.pick((4, 4, 4, 4, 5, 2, 3, 1) if self.level >= FeatureLevel.V4_0 else (4, 5))
        self.sizes = tuple(self.integer(1, 3) for _ in range(rank))
        self.outputs = (1, 8)  # the share of values with readers that are also outputs of the graph

    @property
    def level(self) -> FeatureLevel:
        return self.graph.level

    # Decisions.

    def integer(self, low: int, high: int) -> int:
        return self.choices.integer(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.choices.integer(0, len(options) - 1)]

    def chance(self, count: int, of: int) -> bool:
        return self.choices.integer(1, of) <= count

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.integer(0, 1 << 16))

    # Values.

    def keep(self, *values: Value | None) -> None:
        """Values that later steps may read; too large ones are only outputs."""
        self.values += [value for value in values if value is not None and np.prod(value.sizes) <= MAX_ELEMENTS]

    def fitting(self, dtype: DataType, sizes: Sequence[int] | None = None) -> Value:
        """A value of a data type and sizes: an existing one if there is one, or a new source."""
        found = [
            value for value in self.values if value.dtype is dtype and (sizes is None or value.sizes == tuple(sizes))
        ]
        if found and self.chance(4, 5):
            return found[-1 - self.integer(0, min(len(found), 4) - 1)]  # preferably the latest
        return self.source(dtype, self.sizes if sizes is None else sizes)

    def float_value(self) -> Value:
        """A value of some float type."""
        return self.fitting(self.pick(FLOATS))

    def operand(self, dtype: DataType, sizes: Sequence[int]) -> Value:
        """Something that broadcasts to these sizes."""
        kind = self.integer(0, 5)
        if kind <= 2:
            return self.fitting(dtype, sizes)
        if kind == 3:
            return self.uniform(dtype, sizes)
        smaller = [self.pick((1, size)) for size in sizes]
        return self.source(dtype, smaller[self.integer(0, len(smaller) - 1) :])

    def source(self, dtype: DataType, sizes: Sequence[int]) -> Value:
        """An input, a constant, a fill or a sequence."""
        kind = self.integer(0, 9)
        if kind <= 5:
            return self.input(dtype, sizes)
        if kind == 6:
            return self.constant(self.array(dtype, sizes))
        if kind == 7 and dtype is not DataType.FLOAT64 and self.level >= FeatureLevel.V5_0:
            start, delta = self.number(dtype), self.number(dtype)
            return self.graph.fill_value_sequence(sizes=sizes, dtype=dtype, value_start=start, value_delta=delta)
        return self.uniform(dtype, sizes)

    def input(self, dtype: DataType, sizes: Sequence[int], data: Array | None = None) -> Value:
        """An input; every third has strides."""
        strides = None
        if self.chance(1, 3):
            order = sorted(range(len(sizes)), key=lambda _: self.integer(0, 7))
            strides, step = [0] * len(sizes), 1
            for axis in order:
                strides[axis], step = step, step * (sizes[axis] + self.integer(0, 1))
        name = f"x{len(self.data)}"
        owned = data is None and self.chance(1, 9)
        value = self.graph.input(name, sizes=sizes, dtype=dtype, strides=strides, owned=owned)
        self.data[name] = self.array(dtype, sizes) if data is None else data
        return value

    def constant(self, array: Array) -> Value:
        return self.graph.constant(f"k{sum(1 for _ in self.graph.nodes)}", array)

    def uniform(self, dtype: DataType, sizes: Sequence[int], number: float | None = None) -> Value:
        """A number in any form: a fill or a constant, of one element or of full size."""
        number = self.number(dtype) if number is None else number
        sizes = self.pick((tuple(sizes), (1,) * len(sizes)))
        if self.chance(1, 3):
            return self.constant(np.full(sizes, _wrapped(number, dtype)))
        with contextlib.suppress(dg.DmlGraphError):  # the level has no such fill
            return self.graph.fill_value_constant(sizes=sizes, dtype=dtype, value=_wrapped(number, dtype).item())
        return self.constant(np.full(sizes, _wrapped(number, dtype)))

    # Numbers.

    def number(self, dtype: DataType) -> float:
        """A number of a data type."""
        if not dtype.is_float:
            return _wrapped(self.pick(INTEGERS), dtype).item()
        special = not self.tame and self.chance(1, 4)
        with np.errstate(over="ignore"):
            return float(dtype.numpy.type(self.pick(SPECIAL if special else NUMBERS)))

    def array(self, dtype: DataType, sizes: Sequence[int]) -> Array:
        """Data: small numbers, including halves and thirds; special ones unless the graph is tame."""
        rng = self.random()
        if not dtype.is_float:
            low, high = (0, 4) if self.tame and self.chance(1, 2) else dtype.range
            return rng.integers(low, high, sizes, dtype.numpy, endpoint=True)
        halves = rng.integers(-3, 4, sizes) / 2 * rng.choice([-1.0, 1.0], sizes)  # including zeros of both signs
        data = np.where(rng.random(sizes) < 0.3, halves, rng.normal(0, 2, sizes))
        if not self.tame:
            data = np.where(rng.random(sizes) < NORMALS, data, rng.choice(SPECIAL, sizes))
        with np.errstate(over="ignore"):
            return np.asarray(data.astype(dtype.numpy))

    # Operators.

    def plain(self, operator: type[Operator]) -> None:
        """An operator of plain tensors on existing values, with random attributes."""
        tensors: dict[str, Value] = {}
        sizes: Sequence[int] = self.sizes
        for field in operator.input_fields:
            if not operator.fields[field].required and self.chance(1, 2):
                continue
            member = operator.fields[field]
            alike = [each for each in same_dtype_fields(operator, field) if each in tensors]
            row = operator.support().rows(member.name, self.level)
            if row is None:
                return  # the level does not have the operator
            possible = [each for each in (*TYPES, *FLOATS) if row.takes(each)]
            dtype = tensors[alike[0]].dtype if alike else self.pick(possible)
            if not tensors:
                tensors[field] = self.fitting(dtype)
                sizes = tensors[field].sizes
            else:
                tensors[field] = self.operand(dtype, sizes) if operator.broadcasts else self.fitting(dtype, sizes)
        first = next(iter(tensors.values()))
        attributes = {
            field: self.attribute(operator, field, first.dtype)
            for field in operator.attribute_fields
            if operator.fields[field].required or self.chance(1, 2)
        }
        outputs: dict[str, Any] = {}
        if operator.output_keywords == ("dtype",):
            outputs = {"output": {"dtype": self.pick(TYPES)}}
        elif self.chance(1, 12):
            outputs = {operator.output_fields[0]: {"strides": transposed_strides(sizes)}}
        given = {field: value for field, value in attributes.items() if value is not None}
        self.keep(*self.graph.add(operator, tensors, given, outputs))

    def attribute(self, operator: type[Operator], field: str, dtype: DataType) -> Any:
        kind = operator.fields[field].kind
        if kind is Kind.FLOAT:
            return self.number(DataType.FLOAT32)
        if kind is Kind.SCALAR:
            return self.number(dtype)
        if kind is Kind.ENUM:
            return self.pick(list(operator.enumeration(field)))
        if kind is Kind.SCALE_BIAS:
            return ScaleBias(scale=self.number(DataType.FLOAT32), bias=self.number(DataType.FLOAT32))
        if kind is Kind.OPERATOR:
            return f"activation_{self.pick(ACTIVATIONS)}"
        text = example_fields(operator).get(field)  # axes and the like
        return None if text is None else yaml.safe_load(text)

    def example(self, operator: type[Operator]) -> None:
        """An operator's example, fed with existing values where they fit; in float16 every third time."""
        text = example(operator)
        graph = _example(text.replace("float32", "float16") if self.chance(1, 3) else text)
        if graph is None:
            return
        values: dict[str, tuple[Value | None, ...]] = {}
        for node in graph.nodes:
            if isinstance(node, InputNode):
                values[node.name] = (self._example_input(node),)
            elif isinstance(node, ConstantNode):
                values[node.name] = (self.constant(node.data),)
            elif isinstance(node, OperatorNode):
                values[node.name] = self.repeat(graph, node, values)
                self.keep(*values[node.name])

    def _example_input(self, node: InputNode) -> Value:
        desc = node.desc
        if desc.dtype.is_float:
            found = self.fitting(desc.dtype, desc.sizes)
            # A uniform value has sizes of 1: indices would be out of range.
            return found if found.sizes == desc.sizes else self.input(desc.dtype, desc.sizes)
        # Indices: small numbers are always in range. A length of 0 has no defined result.
        is_length, count = node.name == "sequence_lengths", np.arange(desc.element_count)
        numbers = 1 + count % 2 if is_length else count % 3
        data = numbers.reshape(desc.sizes).astype(desc.dtype.numpy)
        return self.input(desc.dtype, desc.sizes, data)

    def repeat(
        self, graph: dg.Graph, node: OperatorNode, values: Mapping[str, Sequence[Value | None]] | None = None
    ) -> tuple[Value | None, ...]:
        """A copy of another graph's node in this one: on the same values, or on those given by node."""
        bound = {}
        for source, from_port, port in graph.producers(node.name):
            bound[port] = values[source][from_port] if values else self._value_of(source, from_port)
        tensors: dict[str, Any] = {}
        port = 0
        for field in node.operator.input_fields:
            current = getattr(node.operator, field)
            count = len(current) if isinstance(current, tuple) else 1
            given = [bound.get(index) for index in range(port, port + count)]
            tensors[field] = given if isinstance(current, tuple) else given[0]
            port += count
        return self.graph.add(type(node.operator), tensors, node.attributes, node.outputs)

    def _value_of(self, name: str, port: int) -> Value:
        return Value(self.graph, name, port)

    def finish(self) -> Sample:
        """The graph: unread values are outputs, and so are some intermediate values."""
        read = {(source, port) for node in self.graph.nodes for source, port, _ in self.graph.producers(node.name)}
        operators = {node.name for node in self.graph.nodes if isinstance(node, OperatorNode)}
        values = {(value.node, value.port): value for value in self.values if value.node in operators}
        if not values:
            value = dg.identity(self.input(DataType.FLOAT32, (1, 1, 2, 3)))  # legal at every level
            values = {(value.node, 0): value}
        for index, (key, value) in enumerate(values.items()):
            if key not in read or self.chance(*self.outputs):
                self.graph.output(f"y{index}", value)
        if not self.graph.outputs:  # the reader of the last value was not kept
            self.graph.output("y", value)
        return Sample(self.graph, self.data, self.tame)


@functools.cache
def _example(text: str) -> dg.Graph | None:
    """The graph of an example; None if the operator does not have the data type."""
    with contextlib.suppress(dg.DmlGraphError):
        return dg.loads(text)
    return None


def _wrapped(number: float, dtype: DataType) -> Any:
    """A number as an element of a data type; integers modulo 2^N."""
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return dtype.numpy.type(number)
    return np.array(int(number) & ((1 << dtype.bits) - 1), f"u{dtype.bits // 8}").view(dtype.numpy)[()]


def transposed_strides(sizes: Sequence[int]) -> list[int]:
    """The strides of packed elements in the opposite order of dimensions."""
    strides, step = [], 1
    for size in sizes:
        strides.append(step)
        step *= size
    return strides
