"""Checks a model's message before onnx-ir reads it, and puts it in one form.

onnx-ir takes the last of things that are there twice, and leaves out what it does not know.  Here names have one
meaning each, the domain of ONNX's own operators is "", sparse tensors have all their numbers, and the numbers of
tensors are in one of two forms; see `dmlgraph.formats.onnx.numbers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from onnx import AttributeProto

from dmlgraph.base.errors import GraphError, ModelError
from dmlgraph.base.report import Report
from dmlgraph.formats.onnx.names import as_text
from dmlgraph.formats.onnx.numbers import Numbers

_ALIAS = "ai.onnx"  # the other name of the domain ""
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def settle(model: onnx.ModelProto, numbers: Numbers) -> None:
    """Checks a model and changes it in place.

    Raises:
        ModelError: everything that is wrong.
    """
    with Report(ModelError) as report:
        _Settler(numbers, report).model(model)


class _Settler:
    """Goes through a model.

    Attributes:
        report: gets what is wrong.
    """

    def __init__(self, numbers: Numbers, report: Report) -> None:
        self.numbers = numbers
        self.report = report

    def model(self, model: onnx.ModelProto) -> None:
        self._opsets(model.opset_import)
        self._graph(model.graph)
        self._define({}, (each.name for each in model.graph.output), "an output of the model")
        seen: set[tuple[object, ...]] = set()
        for function in model.functions:
            _unalias(function)
            called = function.domain, function.name, function.overload
            if called in seen:
                message, name = "two functions have this name", as_text(function.name)
                self.report.problem(message, code="duplicate", node=name)
            seen.add(called)
            self._opsets(function.opset_import)
            definitions: dict[object, str] = {}
            self._define(definitions, function.input, "an input")
            self._nodes(function.node, definitions)

    def _opsets(self, imports: Iterable[onnx.OperatorSetIdProto]) -> None:
        versions: dict[object, int] = {}
        for each in imports:
            _unalias(each)
            if versions.setdefault(each.domain, each.version) != each.version:
                message = f"the model imports two opsets of the domain '{as_text(each.domain)}'"
                self.report.problem(message, code="duplicate", got=[versions[each.domain], each.version])

    def _graph(self, graph: onnx.GraphProto) -> None:
        definitions: dict[object, str] = {}
        self._define(definitions, (each.name for each in graph.input), "an input")
        weights: dict[object, str] = {}
        for tensor in graph.initializer:
            with self.report.at(node=as_text(tensor.name)):
                self.numbers.settle(tensor)
            self._define(weights, [tensor.name], "a weight")
        for sparse in graph.sparse_initializer:
            with self.report.at(node=as_text(sparse.values.name)):
                graph.initializer.append(self.numbers.dense(sparse))
            self._define(weights, [sparse.values.name], "a weight")
        graph.ClearField("sparse_initializer")
        self._nodes(graph.node, definitions | weights)  # a weight may be the default of an input

    def _nodes(self, nodes: Iterable[onnx.NodeProto], definitions: dict[object, str]) -> None:
        for node in nodes:
            _unalias(node)
            self._define(definitions, node.output, "an output of a node")
            if node.attribute:
                self._attributes(node)

    def _define(self, definitions: dict[object, str], names: Iterable[Any], what: str) -> None:
        """Notes what names are; a name is given once.  "" stands for something that is left out."""
        for name in names:
            if name in definitions:
                before = definitions[name]
                meanings = f"{before} and {what}" if before != what else f"{what} twice"
                self.report.problem(f"the name is that of {meanings}", code="duplicate", node=as_text(name))
            elif name:
                definitions[name] = what

    def _attributes(self, node: onnx.NodeProto) -> None:
        label = next((as_text(each) for each in (node.name, *node.output) if each), as_text(node.op_type))
        seen = set()
        for attribute in node.attribute:
            with self.report.at(node=label):
                if attribute.name in seen:
                    field = as_text(attribute.name)
                    raise GraphError("the attribute is given twice", code="duplicate", field=field)
                seen.add(attribute.name)
                for tensor in _tensors(attribute):
                    self.numbers.settle(tensor)
                if attribute.type == AttributeProto.SPARSE_TENSOR:
                    self._densify(node, attribute)
                elif attribute.type == AttributeProto.SPARSE_TENSORS:
                    field = as_text(attribute.name)
                    raise GraphError("lists of sparse tensors are not read", code="unsupported", field=field)
            if attribute.type in _GRAPHS:
                for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                    self._graph(graph)

    def _densify(self, node: onnx.NodeProto, attribute: AttributeProto) -> None:
        attribute.t.CopyFrom(self.numbers.dense(attribute.sparse_tensor))
        attribute.ClearField("sparse_tensor")
        attribute.type = AttributeProto.TENSOR
        if node.op_type == "Constant" and attribute.name == "sparse_value":
            attribute.name = "value"


def _tensors(attribute: AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
        yield attribute.t
    elif attribute.type == AttributeProto.TENSORS:
        yield from attribute.tensors


def _unalias(named: onnx.FunctionProto | onnx.NodeProto | onnx.OperatorSetIdProto) -> None:
    """Gives ONNX's own operators their domain, ""."""
    if named.domain == _ALIAS:
        named.domain = ""
