"""Graphs whose operators read values in other sizes and strides than they were written in, on the real DirectML.

The graphs are lowered ones, so that any layout can be tried: a reader's desc is the producer's after a few views, which
reshape, permute, cut, repeat, or add and remove dimensions of 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from campaigns.campaign import Campaign
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc, packed_strides
from dmlgraph.compiler.desc import (
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.devices import choose
from dmlgraph.devices.directml.layouts import refusal
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.declaration.fields import Role

LEVEL = FeatureLevel.V6_2
DTYPES = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT8)
MAX_ELEMENTS = 1024
SIZES = (1, 2, 3, 4, 8, 16)
UNARY = ("negate", "abs", "sign", "identity", "activation_relu", "activation_identity", "clip")
BINARY = ("add", "subtract", "max", "min")


class Value(NamedTuple):
    """Output `port` of a node, or graph input `port` where `node` is None."""

    node: int | None
    port: int


class Sketch:
    """A lowered graph under construction."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.dtype = self.dice.choice(DTYPES)
        self.inputs: list[GraphInput] = []
        self.nodes: list[OperatorDescNode] = []
        self.edges: list[InputEdge | IntermediateEdge] = []
        self.values: list[tuple[Value, TensorDesc]] = []
        self.read: set[Value] = set()
        for _ in range(self.dice.randint(1, 2)):
            self.given()
        while len(self.nodes) < self.dice.randint(2, 7):
            self.step()

    def given(self) -> None:
        sizes = [self.dice.choice(SIZES) for _ in range(self.dice.randint(1, 4))]
        while math.prod(sizes) > MAX_ELEMENTS // 4:
            sizes[sizes.index(max(sizes))] = 1
        desc = TensorDesc(dtype=self.dtype, sizes=sizes)
        if self.dice.random() < 0.2:
            desc = self.permuted(desc)
        self.values.append((Value(None, len(self.inputs)), desc))
        self.inputs.append(GraphInput(f"x{len(self.inputs)}", desc))

    def permuted(self, desc: TensorDesc) -> TensorDesc:
        """The same sizes written with the dimensions in another order."""
        order = self.dice.sample(range(desc.rank), desc.rank)
        strides, step = [0] * desc.rank, 1
        for axis in order:
            strides[axis], step = step, step * desc.sizes[axis]
        return desc.like(strides=strides)

    # Views.

    def view(self, desc: TensorDesc) -> TensorDesc:
        """A desc that reads the same buffer otherwise."""
        sizes, strides = list(desc.sizes), list(desc.effective_strides)
        for _ in range(self.dice.choice((0, 0, 1, 1, 2, 3))):
            kind = self.dice.randint(0, 6)
            if kind <= 1 and tuple(strides) == packed_strides(sizes):
                sizes = self.factors(math.prod(sizes))
                strides = list(packed_strides(sizes))
            elif kind <= 3:
                order = self.dice.sample(range(len(sizes)), len(sizes))
                sizes, strides = [sizes[axis] for axis in order], [strides[axis] for axis in order]
            elif kind == 4:
                axis = self.dice.randrange(len(sizes))
                step = self.dice.choice((1, 1, 2))
                sizes[axis] = self.dice.randint(1, -(-sizes[axis] // step))
                strides[axis] *= step
            elif kind == 5 and len(sizes) < 6:
                axis = self.dice.randint(0, len(sizes))
                sizes.insert(axis, self.dice.choice((1, 1, 2, 3)))
                strides.insert(axis, 0)
            elif 1 in sizes and len(sizes) > 1:
                axis = sizes.index(1)
                del sizes[axis], strides[axis]
        if math.prod(sizes) > MAX_ELEMENTS:
            return desc
        is_packed = tuple(strides) == packed_strides(sizes)
        return desc.like(sizes=sizes, strides=None if is_packed else strides)

    def factors(self, count: int) -> list[int]:
        """Sizes with this many elements."""
        sizes = []
        for _ in range(self.dice.randint(0, 3)):
            sizes.append(self.dice.choice([size for size in range(1, count + 1) if count % size == 0]))
            count //= sizes[-1]
        sizes.append(count)
        self.dice.shuffle(sizes)
        return sizes

    # Operators.

    def pick(self) -> tuple[Value, TensorDesc]:
        value, desc = self.dice.choice(self.values[-3:] if self.dice.random() < 0.7 else self.values)
        return value, self.view(desc)

    def step(self) -> None:
        (value, desc), (other, second) = self.pick(), self.pick()
        made = self.dice.choice(_STEPS)(self, desc, second)
        if made is None:
            return
        name, fields, count = made
        operator = _operator(name, fields)
        if operator is None or operator.level_problems(LEVEL):
            return
        if any(
            each.desc is not None and refusal(operator, each.path, each.desc) for each in operator.bindings(Role.INPUT)
        ):
            return
        if self.dice.random() < 0.1:
            operator = (
                operator.replace(output=self.permuted(operator.first_output))
                if ("output" in operator.output_fields)
                else operator
            )
        index = len(self.nodes)
        self.nodes.append(OperatorDescNode(f"n{index}", operator))
        for port, source in enumerate((value, other)[:count]):
            self.read.add(source)
            self.edges.append(
                InputEdge(source.port, index, port)
                if source.node is None
                else IntermediateEdge(source.node, source.port, index, port)
            )
        for port, each in enumerate(operator.output_descs):
            if each is not None:
                self.values.append((Value(index, port), each))

    def finish(self) -> GraphDesc:
        ends = [
            (value, desc)
            for value, desc in self.values
            if value.node is not None and (value not in self.read or self.dice.random() < 0.15)
        ]
        used = sorted({edge.input for edge in self.edges if isinstance(edge, InputEdge)})
        slots = {slot: index for index, slot in enumerate(used)}
        return GraphDesc(
            name="layouts",
            level=LEVEL,
            inputs=tuple(self.inputs[slot] for slot in used),
            outputs=tuple(GraphOutput(f"y{index}", self.kept(desc)) for index, (_, desc) in enumerate(ends)),
            nodes=tuple(self.nodes),
            input_edges=tuple(
                InputEdge(slots[edge.input], edge.to_node, edge.to_port)
                for edge in self.edges
                if isinstance(edge, InputEdge)
            ),
            output_edges=tuple(
                OutputEdge(value.node, value.port, index)
                for index, (value, _) in enumerate(ends)
                if value.node is not None
            ),
            intermediate_edges=tuple(edge for edge in self.edges if isinstance(edge, IntermediateEdge)),
        )

    def kept(self, desc: TensorDesc) -> TensorDesc:
        """A graph output of the same bytes with, sometimes, other sizes or another order of dimensions."""
        if self.dice.random() < 0.7:
            return desc
        if desc.strides is None:
            desc = desc.like(sizes=self.factors(desc.element_count))
        order = self.dice.sample(range(desc.rank), desc.rank)
        strides = desc.effective_strides
        return desc.like(sizes=[desc.sizes[axis] for axis in order], strides=[strides[axis] for axis in order])


def _operator(name: str, fields: dict[str, object]) -> Operator | None:
    try:
        return {each.name: each for each in REGISTRY.values()}[name](**fields)
    except DmlGraphError:
        return None


Step = Callable[[Sketch, TensorDesc, TensorDesc], tuple[str, dict[str, object], int] | None]


def _unary(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int]:
    name = sketch.dice.choice(UNARY)
    return name, {"input": x, **({"min": -2, "max": 3} if name == "clip" else {})}, 1


def _binary(sketch: Sketch, x: TensorDesc, y: TensorDesc) -> tuple[str, dict[str, object], int] | None:
    if y.sizes != x.sizes:
        packed = tuple(y.effective_strides) == y.packed_strides
        if packed and y.element_count == x.element_count:
            y = y.like(sizes=x.sizes)
        else:
            fitted = _broadcast(y, x.sizes)
            if fitted is None:
                return None
            y = fitted
    return sketch.dice.choice(BINARY), {"a": x, "b": y}, 2


def _broadcast(desc: TensorDesc, sizes: Sequence[int]) -> TensorDesc | None:
    try:
        return desc.broadcast_to(tuple(sizes))
    except DmlGraphError:
        return None


def _window(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int]:
    axis = sketch.dice.randrange(x.rank)
    size = sketch.dice.randint(1, x.sizes[axis])
    offset = sketch.dice.randint(0, x.sizes[axis] - size)
    sizes = [size if each == axis else whole for each, whole in enumerate(x.sizes)]
    offsets = [offset if each == axis else 0 for each in range(x.rank)]
    return "slice", {"input": x, "offsets": offsets, "sizes": sizes, "strides": [1] * x.rank}, 1


def _split(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int] | None:
    axis = sketch.dice.randrange(x.rank)
    if x.sizes[axis] < 2:
        return None
    first = sketch.dice.randint(1, x.sizes[axis] - 1)
    return "split", {"input": x, "axis": axis, "outputs": [first, x.sizes[axis] - first]}, 1


def _join(sketch: Sketch, x: TensorDesc, y: TensorDesc) -> tuple[str, dict[str, object], int] | None:
    axis = sketch.dice.randrange(x.rank)
    if x.element_count + y.element_count > MAX_ELEMENTS:
        return None
    return "join", {"inputs": [x, y], "axis": axis}, 2


def _gemm(sketch: Sketch, x: TensorDesc, y: TensorDesc) -> tuple[str, dict[str, object], int] | None:
    trans = {"trans_a": sketch.dice.choice(("none", "transpose")), "trans_b": sketch.dice.choice(("none", "transpose"))}
    return ("gemm", {"a": x, "b": y, **trans}, 2) if sketch.dtype is DataType.FLOAT32 else None


def _reduce(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int]:
    function = sketch.dice.choice(("max", "min", "argmax" if sketch.dtype is DataType.FLOAT32 else "max"))
    return "reduce", {"input": x, "function": function, "axes": [sketch.dice.randrange(x.rank)]}, 1


def _tile(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int]:
    repeats = [1] * x.rank
    if x.element_count * 2 <= MAX_ELEMENTS:
        repeats[sketch.dice.randrange(x.rank)] = sketch.dice.choice((1, 2))
    return "tile", {"input": x, "repeats": repeats}, 1


def _scan(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int] | None:
    fields = {"input": x, "axis": sketch.dice.randrange(x.rank), "axis_direction": "increasing"}
    return ("cumulative_summation", fields | {"has_exclusive_sum": False}, 1) if x.element_count < 64 else None


def _reversed(sketch: Sketch, x: TensorDesc, _: TensorDesc) -> tuple[str, dict[str, object], int]:
    fields = {
        "input_window_offsets": [0] * x.rank,
        "input_window_sizes": list(x.sizes),
        "input_window_strides": [sketch.dice.choice((1, -1)) for _ in x.sizes],
    }
    return "slice1", {"input": x, **fields}, 1


_STEPS: tuple[Step, ...] = (
    *(_unary, _unary, _unary, _binary, _binary, _window, _window, _split, _join, _join),
    *(_gemm, _reduce, _tile, _scan, _reversed),
)


def one_case(seed: int) -> str | None:
    sketch = Sketch(seed)
    graph = sketch.finish()
    rng = np.random.default_rng(seed)
    inputs = {
        each.name: (rng.integers(1, 4, each.desc.sizes) * rng.choice([-1, 1], each.desc.sizes)).astype(
            each.desc.dtype.numpy
        )
        for each in graph.inputs
    }
    with np.errstate(all="ignore"):
        expected = choose("reference").device.compile(graph, reason="asked for").run(inputs)
    if any(not (np.abs(each.astype("f8")) < 1000).all() for each in expected.values()):
        return None  # float16 would round
    with choose("directml:software").device.compile(graph, reason="asked for") as executable:
        got = executable.run(inputs)
    wrong = [name for name in expected if not np.array_equal(got[name], expected[name])]
    return f"{', '.join(wrong)} of\n{graph}" if wrong else None


CAMPAIGN = Campaign("layouts", "values read in other layouts on directml:software: as the reference", one_case)
