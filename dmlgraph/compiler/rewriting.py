"""Rewriting: makes the operators and constants that a rule asks for, and puts them in the place of a node.

change = apply(ir, node, Rewrite.of(New(Add, {"a": x, "b": x}), "a sum is cheaper"))
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Origin, Source
from dmlgraph.compiler.ir_structure import Reading
from dmlgraph.compiler.rule import Constant, Declined, New, Rewrite, Tensor, Viewed
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import ConstantNode, Node, OperatorNode
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What a rewrite did, by names: the nodes that replaced others, the removed ones, and the ones to look at again."""

    standing: tuple[str, ...]
    gone: tuple[str, ...]
    touched: tuple[str, ...]


def apply(ir: IrGraph, node: IrNode, rewrite: Rewrite) -> Change:
    """Replaces a node's outputs by what a rule asks for.

    Raises:
        Declined: the rewrite is not legal here, or the target does not absorb it; the graph has not changed.
    """
    new = _NewNodes(ir, node)
    moves: list[tuple[Source, Operand]] = []
    for port, tensor in rewrite.values.items():
        old = node.output_desc(port)
        instead = new.operand(tensor, old)
        if (instead.desc.dtype, instead.desc.sizes) != (old.dtype, old.sizes):
            raise Declined(f"gives {instead.desc} in place of {old}")
        moves.append((Source(node.name, port), instead))
    new.ask_target()
    moved = {source for source, _ in moves}
    for port in range(node.output_count):
        if Source(node.name, port) not in moved and ir.use_count(Source(node.name, port)):
            raise Declined(f"its output {port} is also read")
    readings = [reading for source, instead in moves for reading in _readings(ir, node, source, instead)]
    removed = ir.replace(node, new.nodes, moves, readings)
    came = [content.name for content, _ in new.nodes]
    standing = came or [instead.source.node for _, instead in moves]
    _move_origins(ir, removed, standing, frozenset(came))
    gone = tuple(each.name for each in removed)
    return Change(tuple(standing), gone, (*came, *(user.name for user, _, _ in readings)))


def _move_origins(ir: IrGraph, removed: list[IrNode], standing: list[str], came: frozenset[str]) -> None:
    """Adds the origins of removed nodes to those of the nodes that replace them; `came` are the new ones of these."""
    moved = [each.origin for each in removed]
    for node in (ir[name] for name in dict.fromkeys(standing)):
        node.origin = Origin.merged(*moved) if node.name in came else Origin.merged(node.origin, *moved)


class _NewNodes:
    """The nodes that a rewrite of a node needs, before they are in the graph."""

    def __init__(self, ir: IrGraph, node: IrNode) -> None:
        self.nodes: list[tuple[Node, list[Source | None]]] = []
        self._ir, self._node = ir, node
        # The outermost node is named first: it takes the name of the node it replaces.
        self._names = itertools.chain([node.name], ir.free_names(node.name))

    def operand(self, tensor: Tensor, like: TensorDesc | None = None) -> Operand:
        """An operand for what a rule asks for, with the strides of `like`, if it has some."""
        if isinstance(tensor, Operand):
            return tensor
        if isinstance(tensor, Viewed):
            source, desc = self.operand(tensor.new)
            return Operand(source, desc.like(sizes=tensor.sizes))
        name = next(self._names)
        if isinstance(tensor, Constant):
            data = np.array(tensor.data, order="C")
            data.flags.writeable = False
            desc = TensorDesc(dtype=data.dtype, sizes=data.shape)
            self.nodes.append((ConstantNode(name, desc, ConstantData(data)), []))
            return Operand(Source(name, 0), _broadcast(desc, tensor.sizes) if tensor.sizes else desc)
        operands = {
            field: [self.operand(each) for each in given] if isinstance(given, list) else given and self.operand(given)
            for field, given in tensor.tensors.items()
        }
        operator = self._operator(tensor, operands, like)
        node = OperatorNode(name, operator, operator.attributes, {})
        self.nodes.append((node, _in_binding_order(operator, operands)))
        output = operator.output_descs[tensor.port]
        if output is None:
            raise LookupError(f"a rule asks for output {tensor.port} of {operator.name}, which is absent")
        return Operand(Source(name, tensor.port), output)

    def _operator(self, new: New, operands: Mapping[str, Any], like: TensorDesc | None) -> Operator:
        operator = new.operator
        descs = {
            field: tuple(each.desc for each in given) if isinstance(given, list) else given and given.desc
            for field, given in operands.items()
        }
        outputs = dict(new.outputs)
        if like is not None and like.strides is not None and operator.output_fields:
            asked = outputs.setdefault(operator.output_fields[0], {})
            if isinstance(asked, Mapping):
                outputs[operator.output_fields[0]] = {**asked, "strides": like.strides}
        try:
            result = operator(**operator.adapt(descs, new.attributes), **new.attributes, **outputs)
        except DmlGraphError as error:
            raise Declined(f"{operator.name} would be wrong: {error.problems[0]}") from None
        problems = result.level_problems(self._ir.level)
        if problems:
            raise Declined(f"{operator.name}: {problems[0]}")
        return result

    def ask_target(self) -> None:
        """Raises Declined where the target does not absorb the node's operator into a new one."""
        for content, _ in self.nodes:
            if isinstance(content, OperatorNode):
                why = self._ir.target.absorption_refusal(content.operator, self._node.operator)
                if why is not None:
                    raise Declined(why)


def _readings(ir: IrGraph, node: IrNode, old: Source, new: Operand) -> Iterator[Reading]:
    """How each reader of a replaced value reads the replacement.

    Raises:
        Declined: a reader, or a graph output, cannot read it.
    """
    produced = node.output_desc(old.port)
    for user, port in ir.users(old):
        reading = user.computation.input_descs[port]
        assert reading is not None
        operand = ir.around(Operand(old, reading), produced, new)
        if operand is None:
            raise Declined(f"'{user.name}' reads it through other strides")
        why = ir.layout_refusal(user, port, operand.desc)
        if why is not None:
            raise Declined(f"'{user.name}': {why}")
        yield user, port, operand
    if ir.is_output(old):
        if new.desc.effective_strides != produced.effective_strides:
            raise Declined("it is an output of the graph with another layout")
        is_old = new.source.node in ir and new.source.node != node.name  # a new node may take the name
        is_computed = is_old and ir[new.source.node].operator is not None
        if is_old and not is_computed and new.desc != ir.produced(new):
            raise Declined("it is an output of the graph, and would be an input or a constant read in another way")
        if is_old and ir.produced(new).total_bytes != produced.total_bytes:
            raise Declined("it is an output of the graph, and would be a part of a larger buffer")


def _broadcast(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """A description broadcast to other sizes through zero strides; packed where that is the same."""
    if desc.element_count == math.prod(sizes):
        return desc.like(sizes=sizes)
    return desc.broadcast_to(sizes)


def _in_binding_order(operator: Operator, operands: Mapping[str, Any]) -> list[Source | None]:
    sources: list[Source | None] = []
    for binding in operator.bindings(Role.INPUT):
        given = operands.get(binding.field)
        operand = given if binding.place is None or given is None else given[binding.place]
        sources.append(operand and operand.source)
    return sources
