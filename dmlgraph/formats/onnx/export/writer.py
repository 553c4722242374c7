"""Makes a model of a graph: walks its nodes, names their values, and gathers what cannot be exported."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from dmlgraph.base.errors import ModelError, Problem
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.onnx.export.emitter import OPSET, Array, DType, Emitter, Given, Result, Symbol
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.state_names import LENGTH, NEXT, PROPERTY
from dmlgraph.formats.onnx.table import REFUSED, written
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import LENGTH as LENGTH_DESC
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode, StateNode
from dmlgraph.operators.fill import FillValueConstant

IR_VERSION = 10  # that of opset 21
Port = tuple[str, int]  # a node of the graph and the number of its output
MANY = 4096  # elements of a fill whose numbers the rules may look at, and of a constant that is reshaped


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """A model: everything but the numbers of its constants, and those."""

    model: onnx.ModelProto
    constants: Mapping[str, Array]


class Writer:
    """The state of one export."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._problems: list[Problem] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, Array] = {}
        self._weights: dict[str, Array] = {}  # those of the constants that are nodes of the graph
        self._defaults: dict[str, Array] = {}  # of inputs: what states hold at first
        self._shared: dict[tuple[str, tuple[int, ...], bytes, str], Symbol] = {}
        self._bases: dict[str, str] = {}  # by the name of a constant: the name without a number
        self._given: dict[Port, Given] = {}
        self.truths: dict[str, Symbol] = {}  # by the name of numbers 1 and 0: the bools they are made of
        self.reshaped: dict[str, Symbol] = {}  # by the name of a result of Reshape: what it reshapes
        self._labels = FreeNames(node.name for node in graph.nodes)
        self._inputs = {node.name: node.desc for node in graph.inputs}
        self._outputs = {name: value.desc for name, value in graph.outputs.items()}
        self._names = FreeNames([*self._inputs, *self._outputs])
        self._states = {node.name: self._names.take(node.name, ("", LENGTH, NEXT)) for node in graph.states}
        self.node: Emitter  # of the node that is written
        self._wanted: dict[Port, str] = {}  # what an output of the graph is called

    def write(self) -> Written:
        """The model.

        Raises:
            ModelError: every node that cannot be exported.
        """
        graph, live = self._graph, self._graph.live_nodes()
        self._take_output_names()
        for node in graph.nodes:
            if isinstance(node, InputNode):
                self._given[node.name, 0] = self._named(node.name, node.desc)
            elif isinstance(node, StateNode):
                self._read_state(node)
            elif node.name in live and isinstance(node, ConstantNode):
                name = self._names.take(node.name)
                self._constants[name] = self._weights[name] = node.data
                self._given[node.name, 0] = self._named(name, node.desc, node.data)
            elif node.name in live and isinstance(node, OperatorNode):
                self._write_node(node)
        if self._problems:
            problems = [graph.origin.located(each) for each in self._problems]
            raise ModelError(problems)
        self._write_outputs()
        for state in graph.states:
            self._write_next(state)
        return Written(self._model(), self._constants | self._defaults)

    def _named(self, name: str, desc: TensorDesc, known: Array | None = None) -> Given:
        return Given(Symbol(name, desc.dtype.numpy, self), desc.sizes, known)

    def _read_state(self, node: StateNode) -> None:
        """A state is an input, with what it holds at first as its default; its length is another, if it is read."""
        name = self._states[node.name]
        self._inputs[name] = node.desc
        self._given[node.name, 0] = self._named(name, node.desc)
        if node.name not in self._graph.next_values:
            message = "a model has no state that nothing changes"
            self._problems.append(
                Problem(message, code="states", node=node.name, hint="make it an input or a constant")
            )
        if node.initial is not None:
            value = node.initial.array if isinstance(node.initial, ConstantData) else node.initial.value
            self._defaults[name] = np.broadcast_to(np.asarray(value, node.desc.dtype.numpy), node.desc.sizes)
        if node.grows is not None:
            length = name + LENGTH
            self._inputs[length] = LENGTH_DESC
            self._given[node.name, 1] = self._named(length, LENGTH_DESC)

    def _write_next(self, node: StateNode) -> None:
        """An output for the next value of a state; of a growing one, its rows and the new ones."""
        value = self._graph.next_values[node.name]
        tensor = self._given[value.node, value.port].tensor
        name = self._states[node.name] + NEXT
        sizes = list(node.desc.sizes)
        if node.grows is None:
            self.add(name, "Identity", [tensor], [tensor.dtype], {}, [name])
        else:
            sizes[node.grows] += value.sizes[node.grows]
            parts = self._given[node.name, 0].tensor, tensor
            self.add(name, "Concat", parts, [tensor.dtype], {"axis": node.grows}, [name])
        self._nodes[-1].name = self._labels.take(name)
        self._outputs[name] = TensorDesc(dtype=node.desc.dtype, sizes=tuple(sizes))

    def _take_output_names(self) -> None:
        for name, value in self._graph.outputs.items():
            port = value.node, value.port
            if name in self._inputs and port != (name, 0):
                message = "a model cannot have an input and another output of this name"
                self._problems.append(Problem(message, code="duplicate", field=f"outputs.{name}"))
            self._wanted.setdefault(port, name)

    def _write_node(self, node: OperatorNode) -> None:
        operator, start = node.operator, len(self._nodes)
        given = {}
        for source, from_port, port in self._graph.producers(node.name):
            if (source, from_port) not in self._given:  # refused
                return
            given[port] = self._given[source, from_port]
        try:
            result = self._export(Emitter(self, node.name, operator, given))
        except Refusal as refusal:
            del self._nodes[start:]
            message = f"{operator.name}: {refusal.problem.message}"
            self._problems.append(dataclasses.replace(refusal.problem, node=node.name, message=message))
            return
        self._finish(node, [result] if isinstance(result, Symbol) else list(result), start)

    @staticmethod
    def _export(node: Emitter) -> Result:
        name = node.operator.name
        row = written().get(name)
        if row is None:
            raise Refusal(REFUSED.get(name, "ONNX has no equivalent"))
        return row.rule(node)

    def _finish(self, node: OperatorNode, results: list[Symbol], start: int) -> None:
        """Names the results as the graph does, and the node of the first of them like the node."""
        present = [(port, desc) for port, desc in enumerate(node.operator.output_descs) if desc is not None]
        for (port, desc), result in zip(present, results, strict=True):
            assert result.dtype == desc.dtype.numpy, f"{node.name}: {result.dtype} is not {desc.dtype}"
            constant = self._constants.get(result.name)
            if constant is not None and (node.name, port) not in self._wanted:  # such as a reshaped one
                self._given[node.name, port] = Given(result, desc.sizes, constant)
                continue
            name = self._wanted.get((node.name, port)) or self._names.take(self._graph.reference(node.name, port))
            if not self._rename(result.name, name, start):
                self.add(node.name, "Identity", [result], [result.dtype], {}, [name])
            if result.name in self.truths:
                self.truths[name] = self.truths[result.name]
            known = None
            if isinstance(node.operator, FillValueConstant) and desc.element_count <= MANY:
                (known,) = node.operator.evaluate()
            self._given[node.name, port] = self._named(name, desc, known)
        first = self._given[node.name, present[0][0]].tensor.name
        self._remove_unread(start, {self._given[node.name, port].tensor.name for port, _ in present})
        for each in self._nodes[start:]:
            each.name = node.name if first in each.output else self._labels.take(node.name)

    def _remove_unread(self, start: int, results: set[str]) -> None:
        """Removes those of the last nodes on which no result depends."""
        kept: list[onnx.NodeProto] = []
        for each in reversed(self._nodes[start:]):
            if not results.isdisjoint(each.output):
                kept.append(each)
                results |= set(each.input)
        self._nodes[start:] = reversed(kept)

    def _rename(self, old: str, new: str, start: int) -> bool:
        """Renames a value that one of the last nodes writes; False if none does, or it is named already."""
        writers = [each for each in self._nodes[start:] if old in each.output]
        if not writers:
            return False
        for each in self._nodes[start:]:
            for names in (each.input, each.output):
                for place, name in enumerate(names):
                    if name == old:
                        names[place] = new
        return True

    def add(
        self,
        label: str,
        operator: str,
        inputs: Sequence[Symbol | None],
        dtypes: Sequence[DType | None],
        attributes: Mapping[str, Any],
        names: Sequence[str] | None = None,
    ) -> list[Symbol]:
        """Adds a node to the model; returns its outputs, without those that are left out."""
        given = [each.name if each is not None else "" for each in inputs]
        while given and not given[-1]:
            given.pop()
        outputs = names or [self._names.take(f"{label}/{operator}") if each is not None else "" for each in dtypes]
        node = onnx.helper.make_node(operator, given, outputs, **{k: v for k, v in attributes.items() if v is not None})
        self._nodes.append(node)
        return [Symbol(name, dtype, self) for name, dtype in zip(outputs, dtypes, strict=True) if dtype is not None]

    def constant(self, array: Array, label: str) -> Symbol:
        """The tensor with these numbers; a constant of the graph that is reshaped back is itself, by its name."""
        label = self._bases.get(label, label)
        own = self._weights.get(label)
        key = str(array.dtype), array.shape, array.tobytes(), "" if own is None else label
        if own is not None and key[:3] == (str(own.dtype), own.shape, own.tobytes()):
            return Symbol(label, array.dtype, self)
        if key not in self._shared:
            name = self._names.take(label)
            self._bases[name] = label
            self._constants[name] = array
            self._shared[key] = Symbol(name, array.dtype, self)
        return self._shared[key]

    def small(self, tensor: Symbol) -> Array | None:
        """The numbers of a constant, if they are few."""
        array = self._constants.get(tensor.name)
        return None if array is None or array.size > MANY else array

    def _write_outputs(self) -> None:
        """Identities for outputs whose value has another name, such as that of an input."""
        for name, value in self._graph.outputs.items():
            tensor = self._given[value.node, value.port].tensor
            if tensor.name != name:
                self.add(self._labels.take(name), "Identity", [tensor], [tensor.dtype], {}, [name])
                self._nodes[-1].name = self._labels.take(name)

    def _model(self) -> onnx.ModelProto:
        used = {name for node in self._nodes for name in node.input}
        self._constants = {name: array for name, array in self._constants.items() if name in used}
        lengths = {name + LENGTH for name in self._states.values()}
        made = onnx.helper.make_graph(
            self._nodes,
            self._graph.name,
            [_info(name, desc) for name, desc in self._inputs.items() if name in used or name not in lengths],
            [_info(name, desc) for name, desc in self._outputs.items()],
        )
        model = onnx.helper.make_model(
            made,
            producer_name="dmlgraph",
            producer_version=importlib.metadata.version("dmlgraph"),
            ir_version=IR_VERSION,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        )
        if self._states:
            pairs = {name: name + NEXT for name in self._states.values()}
            onnx.helper.set_model_props(model, {PROPERTY: json.dumps(pairs)})
        return model


def _info(name: str, desc: TensorDesc) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(desc.dtype.numpy)
    return onnx.helper.make_tensor_value_info(name, kind, list(desc.sizes))
