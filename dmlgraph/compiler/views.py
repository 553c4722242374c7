"""Views become strides: the first pass, which always runs, since DirectML has no views.

    t = transpose(x)       y reads x with the sizes of t, and with strides
    y = relu(t)

A reader that does not take such strides reads a copy instead, one for all readers of a view; so does a reader of a
reshape that no strides can express, except for an operator that can compute in sizes before the reshape.  Constants are
copied here, and not in the graph.  An output of the graph that is a view of every element of a buffer is that buffer,
and whoever takes it reads it through strides; another one is a copy.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.copies import packing, window
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Operand, Origin, Source
from dmlgraph.compiler.record import Entry
from dmlgraph.compiler.resizing import permuted, relaid, resizable, resized
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import ConstantNode, Node, OperatorNode
from dmlgraph.operators.common.strided import is_packed, reads_each_once, through
from dmlgraph.operators.declaration.bindings import Binding
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.view import Subscript, Transpose, View, with_strides

COPY = "copy"  # what the record says of each, where it has rules' names for rewrites


def remove_views(ir: IrGraph, *, shares_outputs: bool = True) -> tuple[Entry, ...]:
    """Puts strides and copies in the place of a graph's views; returns the record of the copies.

    Args:
        ir: to which no pass was applied yet.
        shares_outputs: whether an output may be a view of a buffer, or must be packed.

    Raises:
        GraphError: DirectML has no operator for a copy at this level.
    """
    if not any(isinstance(node.operator, View) for node in ir):
        return ()
    return _Resolution(ir, shares_outputs).run()


class _Unexpressed(NamedTuple):
    """The value of a view that no strides express with its sizes.

    Attributes:
        operand: how it is read with other sizes: its elements in their order.
        source: what is viewed.
        view: the view.
    """

    operand: Operand
    source: Source
    view: View


class _Resolution:
    """The state of one pass: how the values of views are read."""

    def __init__(self, ir: IrGraph, shares_outputs: bool) -> None:
        self.ir, self.shares_outputs = ir, shares_outputs
        self.level = ir.target.copy_level or ir.level
        self.nodes: list[tuple[Node, list[Source | None]]] = []
        self.by_name: dict[str, Node] = {}
        self.seen: dict[Source, Operand] = {}  # the value of a view → how to read it
        self.unexpressed: dict[Source, _Unexpressed] = {}  # the value of a view that no strides express
        self.views: dict[Source, tuple[str, ...]] = {}  # the value of a view → that view, and those before it
        self.copies: dict[Operand, Source] = {}
        self.record: list[Entry] = []
        self.origins: dict[str, tuple[str, ...]] = {}
        self.free_names = FreeNames(ir.names)

    def run(self) -> tuple[Entry, ...]:
        for node in self.ir.nodes:
            if not isinstance(node, OperatorNode):
                self._append(node, [])
            elif isinstance(node.operator, View):
                self._see(node.name, node.operator)
            else:
                self._read(node)
        outputs: dict[str, Source] = {}
        layouts: dict[str, TensorDesc] = {}
        for name, source in self.ir.outputs.items():
            operand = self._seen(source)
            if operand is None:
                outputs[name] = source
            elif self.shares_outputs and self._is_whole(operand):
                outputs[name], layouts[name] = operand.source, operand.desc
            else:
                outputs[name] = self._copy(source, f"the output '{name}' needs a packed buffer")
                layouts[name] = operand.desc.like()
        self.ir.assemble(self.nodes, outputs, layouts)
        for name, views in self.origins.items():
            if name in self.ir:
                self.ir[name].origin = Origin(views)
        return tuple(self.record)

    def _append(self, node: Node, sources: list[Source | None]) -> None:
        self.nodes.append((node, sources))
        self.by_name[node.name] = node

    def _see(self, name: str, view: View) -> None:
        (source,) = self.ir.sources(name)
        assert source is not None
        value = Source(name, 0)
        self.views[value] = (*self.views.get(source, ()), name)
        if isinstance(view, Subscript) and view.over((operand := self._operand(source)).desc) is None:
            self.seen[value] = self._window(source, view, name)
            return
        opened = self.unexpressed.get(source)
        found = self._viewed(view, opened.operand) if opened else None
        if found is None:
            operand = self._operand(source)
            found = operand, view.over(operand.desc)
        operand, desc = found
        if desc is not None:
            self.seen[value] = Operand(operand.source, desc)
            return
        self.unexpressed[value] = _Unexpressed(operand, source, view)
        if isinstance(self.by_name[operand.source.node], ConstantNode):
            self._seen(value)

    def _viewed(self, view: View, operand: Operand) -> tuple[Operand, TensorDesc | None] | None:
        """A view of what no strides express: its elements in order, and its description, if it has one."""
        if view.keeps_order:
            return operand, relaid(operand.desc, view.output.sizes)
        moved = permuted(operand.desc, view.input.sizes, view.permutation) if isinstance(view, Transpose) else None
        return None if moved is None else (Operand(operand.source, moved), relaid(moved, view.output.sizes))

    def _operand(self, source: Source) -> Operand:
        """How a value is read where nothing else is wanted."""
        found = self._seen(source)
        return Operand(source, self.ir.desc(*source)) if found is None else found

    def _seen(self, value: Source) -> Operand | None:
        """How the value of a view is read, from a copy where no strides express it; None if it is no view's."""
        chain = [value]
        while chain[-1] in self.unexpressed:
            chain.append(self.unexpressed[chain[-1]].source)
        for each in reversed(chain[:-1]):
            _, source, view = self.unexpressed.pop(each)
            operand = self._operand(source)
            desc = view.over(operand.desc)
            if desc is None:
                why = f"'{each[0]}': no strides read it with these sizes"
                operand = Operand(self._copy(source, why), view.input.like())
                desc = view.over(operand.desc)
            assert desc is not None
            self.seen[each] = Operand(operand.source, desc)
        return self.seen.get(value)

    def _read(self, node: OperatorNode) -> None:
        """A node that is no view, which reads what is viewed."""
        sources = list(self.ir.sources(node.name))
        operator = node.operator
        if any(source in self.unexpressed for source in sources) and self._resize(node, sources):
            return
        for port, source in enumerate(sources):
            operand = None if source is None else self._seen(source)
            if source is None or operand is None:
                continue
            binding = operator.bindings(Role.INPUT)[port]
            reading = self._reading(operator, port, binding, operand)
            if isinstance(reading, Operand):
                sources[port] = reading.source
                operator = operator.with_inputs({port: reading.desc})
            else:
                sources[port] = self._copy(source, f"'{node.name}', {binding.path}: {reading}")
        if operator is not node.operator:
            node = dataclasses.replace(node, operator=operator)
        self._append(node, sources)

    def _resize(self, node: OperatorNode, sources: list[Source | None]) -> bool:
        """Lets a node compute in sizes before a reshape, and makes its output the view; False where it cannot."""
        if not resizable(node.operator):
            return False
        operands: list[Operand | None] = []
        for port, source in enumerate(sources):
            if source is None:
                operands.append(None)
                continue
            binding = node.operator.bindings(Role.INPUT)[port]
            desc = binding.desc
            assert desc is not None
            if source not in self.unexpressed:
                operand = self.seen.get(source)
                reading = None if operand is None else self._reading(node.operator, port, binding, operand)
                if isinstance(reading, str):
                    return False
                operands.append(reading or Operand(source, desc))
            elif is_packed(desc) and desc.sizes == self.ir.desc(*source).sizes:
                operands.append(self.unexpressed[source].operand)
            else:
                return False
        operator = resized(node.operator, [operand and operand.desc for operand in operands])
        if operator is None or operator.level_problems(self.level):
            return False
        for binding in operator.bindings(Role.INPUT):
            if binding.desc is not None and self._refusal(operator, binding.port, binding.path, binding.desc):
                return False
        self._append(dataclasses.replace(node, operator=operator), [operand and operand.source for operand in operands])
        self.seen[Source(node.name, 0)] = Operand(Source(node.name, 0), node.operator.first_output.like())
        return True

    def _reading(self, operator: Operator, port: int, binding: Binding, operand: Operand) -> Operand | str:
        """How an operator reads the value of a view; else why it cannot."""
        desc, seen = binding.desc, operand.desc
        assert desc is not None
        strides = through(desc.sizes, desc.effective_strides, seen.sizes, seen.effective_strides)
        if strides is None:
            return "it reads it through strides of its own"
        packed = TensorDesc(dtype=desc.dtype, sizes=desc.sizes, owned=seen.owned)
        found = with_strides(packed, strides)
        return self._refusal(operator, port, binding.path, found) or Operand(operand.source, found)

    def _refusal(self, operator: Operator, port: int, path: str, desc: TensorDesc) -> str | None:
        if desc.owned and not operator.takes_owned:
            return "it cannot be owned by DirectML"
        if desc.strides is None:
            return None
        problem = next(operator.with_inputs({port: desc}).constraints(), None)
        return self.ir.target.layout_refusal(operator, path, desc) if problem is None else str(problem)

    def _is_whole(self, operand: Operand) -> bool:
        """Whether a value is a packed buffer of an operator, with other sizes or in another order."""
        node, desc = self.by_name[operand.source.node], operand.desc
        if not isinstance(node, OperatorNode):
            return False
        written = node.operator.output_descs[operand.source.port]
        assert written is not None
        is_whole = reads_each_once(desc.sizes, desc.effective_strides, written.element_count)
        return written.strides is None and is_whole

    # Copies.

    def _copy(self, source: Source, why: str) -> Source:
        """The packed copy of a view's value, or of another value."""
        operand = self._operand(source)
        made = self.copies.get(operand)
        if made is None:
            root = self.by_name[operand.source.node]
            base = self._base(source)
            if isinstance(root, ConstantNode):
                made = self._constant(f"{base}_copy", _viewed(root, operand.desc))
            else:
                name = self.free_names.take(f"{base}_copy")
                is_plain = self.ir.target.copies_all and operand.desc.strides is None
                copy = Identity(input=operand.desc) if is_plain else packing(operand.desc, self.level)
                made = self._insert(name, copy, operand.source)
                self._note(name, source, why)
            self.copies[operand] = made
        return made

    def _constant(self, base: str, viewed: Array) -> Source:
        """A constant with packed data."""
        name, data = self.free_names.take(base), np.array(viewed, order="C")
        data.flags.writeable = False
        self._append(ConstantNode(name, TensorDesc(dtype=data.dtype, sizes=data.shape), ConstantData(data)), [])
        return Source(name, 0)

    def _window(self, source: Source, view: Subscript, name: str) -> Operand:
        """A slice that no strides can express: how the copy is read."""
        operand, taken = self._operand(source), view.taken
        root = self.by_name[operand.source.node]
        base, packed = f"{name}_slice", view.output.like()
        if isinstance(root, ConstantNode):
            (data,) = view.evaluate(_viewed(root, operand.desc))
            return Operand(self._constant(base, data), packed)
        copy = self.free_names.take(base)
        operator = window(operand.desc, taken.starts, taken.steps, taken.counts, self.level)
        why = self._refusal(operator, 0, "input", operator.input_descs[0] or operand.desc)
        if why is not None:
            operand = Operand(self._copy(source, f"'{name}': {why}"), view.input.like())
            operator = window(operand.desc, taken.starts, taken.steps, taken.counts, self.level)
        made = self._insert(copy, operator, operand.source)
        self._note(copy, Source(name, 0), "a slice that does not begin at the first element, or goes back")
        return Operand(made, packed)

    def _insert(self, name: str, operator: Operator, source: Source) -> Source:
        self._append(OperatorNode(name, operator, operator.attributes, {}), [source])
        return Source(name, 0)

    def _base(self, source: Source) -> str:
        return self.views[source][-1] if source in self.views else source[0]

    def _note(self, copy: str, source: Source, why: str) -> None:
        views = self.views.get(source, (source[0],))
        self.origins[copy] = views
        self.record.append(Entry(COPY, views[-1], why, (views[-1],), (copy,)))


def _viewed(root: ConstantNode, desc: TensorDesc) -> Array:
    """A constant's elements as a description reads them."""
    return desc.unpack(root.desc.pack(root.data))
