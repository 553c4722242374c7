"""Nodes: how an operator runs on `cpu`, as the native planner takes it.

A node reads and writes whole tensors.  What it does is one of a few dataclasses; an operator may become several nodes,
its parts, see dmlgraph.devices.cpu.parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from dmlgraph._native import CpuGraph, cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.executable import Array
from dmlgraph.graph.scopes import is_again

Descs = tuple[TensorDesc | None, ...]  # None: the tensor is absent
Evaluation = Callable[[list[Array | None], list[Array | None]], None]


class Instruction(NamedTuple):
    """One kernel over a block.

    Attributes:
        opcode: the kernel's name, see native/cpu/kernels/opcodes.h.
        operands: k ≥ 0 is the node's input port k; ~j < 0 is the result of the node's instruction j.
        operand_type: the type of the operands, except where the opcode says otherwise.
        result_type: the type of the result.
        immediates: int or float, as the opcode expects them.
    """

    opcode: str
    operands: tuple[int, ...]
    operand_type: DataType
    result_type: DataType
    immediates: tuple[float, ...] = ()


class AffineMap(NamedTuple):
    """How the dimensions of one tensor are steps along those of another.

    The element at coordinate c is the other tensor's at origin[a] + Σ step[d] · c[d] over the dimensions d with
    axis[d] = a.  A dimension with axis −1 repeats.
    """

    axis: tuple[int, ...]
    step: tuple[int, ...]
    origin: tuple[int, ...]


class Piece(NamedTuple):
    """A box of elements that is copied from an input port, or, with the port −1, filled with the node's element."""

    port: int
    sizes: tuple[int, ...]
    source: AffineMap | None
    target: AffineMap


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A node of the plan.

    Attributes:
        name: of the graph's node.
        sources: by input the number of a value, or −1 where it is absent.
        action: what it does.
    """

    name: str
    sources: tuple[int, ...]
    inputs: Descs
    outputs: Descs
    action: Action

    def add_to(self, graph: CpuGraph) -> None:
        self.action.add_to(graph, self)
        if is_again(self.name):
            graph.delay()


@dataclasses.dataclass(frozen=True, slots=True)
class Fill:
    """The output repeats one element, which has these bytes."""

    element: bytes

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.fill(node.name, node.sources, node.inputs, node.outputs, self.element)


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """The output's buffer has these bytes."""

    data: bytes

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.constant(node.name, node.sources, node.inputs, node.outputs, self.data)


@dataclasses.dataclass(frozen=True, slots=True)
class ElementWise:
    """The output is the last instruction's result; without instructions it is the first input."""

    instructions: tuple[Instruction, ...]

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.element_wise(node.name, node.sources, node.inputs, node.outputs, self.instructions)


COPY = ElementWise(())


@dataclasses.dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction of native/cpu/kernels/reduce.h along axes, whose sizes in the output are 1."""

    function: str
    axes: tuple[int, ...]

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.reduce(node.name, node.sources, node.inputs, node.outputs, self.function, self.axes)


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Each output is a part of the first input through its map; it is copied only if a reader needs it packed."""

    maps: tuple[AffineMap, ...]

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.view(node.name, node.sources, node.inputs, node.outputs, self.maps)


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """The output consists of pieces; `element` has the bytes of one element for those of no input."""

    element: bytes | None
    pieces: tuple[Piece, ...]

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.move(node.name, node.sources, node.inputs, node.outputs, self.element, self.pieces)


@dataclasses.dataclass(frozen=True, slots=True)
class Native:
    """A native step, and the instructions that follow it: on sums before they are stored, or its activations."""

    step: cpu_steps.Step
    followers: tuple[Instruction, ...] = ()

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.native(node.name, node.sources, node.inputs, node.outputs, self.step, self.followers)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluate:
    """A function of the inputs' and the outputs' arrays, which writes into the latter; None where one is absent."""

    function: Evaluation

    def add_to(self, graph: CpuGraph, node: Node) -> None:
        graph.evaluate(node.name, node.sources, node.inputs, node.outputs, self.function)


Action = Fill | Constant | ElementWise | Reduce | View | Move | Native | Evaluate


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A node of an operator.  Source k ≥ 0 is the operator's input port k; source ~j is the result of part j."""

    action: Action
    sources: tuple[int, ...]
    inputs: Descs
    output: TensorDesc


Lowered = Action | tuple[Part, ...]  # the outputs of the last parts are the operator's
