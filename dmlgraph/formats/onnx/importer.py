"""`onnx_ir` model → Graph: imports node by node, folds what is known, and reports all nodes that cannot be imported."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

import dmlgraph as dg
from dmlgraph.base.errors import ModelError, OperatorError, Problem, listing, suggestion
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.files.mapped_arrays import taken_out
from dmlgraph.formats.onnx import folding, table
from dmlgraph.formats.onnx.arguments import Arguments, not_given
from dmlgraph.formats.onnx.checking import check, signature
from dmlgraph.formats.onnx.definitions import default_attributes, definition, output_types
from dmlgraph.formats.onnx.empty import empty_results, reads_empty
from dmlgraph.formats.onnx.names import Names, as_label, as_text, printable
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.noting import Notes
from dmlgraph.formats.onnx.numbers import elements
from dmlgraph.formats.onnx.old_opsets import RENEWED, renewed
from dmlgraph.formats.onnx.refusals import DATA, AlreadyNotedError, ByDefinition, Refusal
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, TensorList, resolve_conversions, stored
from dmlgraph.graph.value import Value

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
UNDETERMINED, UNKNOWN_VALUE = "undetermined", "unknown-value"  # codes of what the caller must give
MOST_NESTED = 64  # functions and subgraphs inside one another
MOST_NODES = 100_000  # to which functions and the steps of loops expand, as templates do …
MOST_OF_ONE = 100  # … and for each node of the main graph: what ONNX's own definitions expand to
Env = MutableMapping[ir.Value, Tensor | None]  # None: an optional input that is left out
Attributes = Mapping[str, ir.Attr]


class Importer:
    """Imports one model.

    A node whose inputs could not be imported is passed over, so that each problem is reported once.

    Args:
        model: prepared by `dmlgraph.formats.onnx.model`.
        dims, values, target, convert: as in `dmlgraph.formats.onnx.load`.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        dims: Mapping[str, int],
        values: Mapping[str, Any],
        target: str | FeatureLevel | None,
        convert: Mapping[str, str] | None,
    ) -> None:
        self.model = model
        self.notes = Notes()
        with self.notes.noting("convert"):
            self.convert = resolve_conversions(convert)
        self._settle()
        self.arguments = Arguments(model.graph, dims, values, self._converted)
        self.graph = dg.Graph(printable(model.graph.name or "") or "model", target=target)
        self.graph.origin.is_model = True
        self.names = Names(map(as_label, model.graph.initializers), map(_label, model.graph))
        self.depth = 0
        self.most_nodes = MOST_NODES + MOST_OF_ONE * len(model.graph)
        self.expanded = 0  # nodes of functions and subgraphs, and uses of these

    def read(self) -> dg.Graph:
        """The graph.

        Raises:
            ModelError: everything that cannot be imported.
        """
        env = self._inputs()
        missing = list(self.notes.problems)
        if missing and {each.code for each in missing} != {UNDETERMINED}:
            self._settle()
        if missing:  # what else must be given is looked for with stand-ins, and nothing else
            self.notes = Notes()
        self._initializers(self.model.graph, env)
        try:
            self.run_nodes(self.model.graph, env, self.model.opset_imports, {})
        except _TooManyNodesError as error:
            self.notes.problems = [error.problem]
            self._settle()
        if missing:
            self.notes.problems = [*missing, *(each for each in self.notes.problems if each.code == UNKNOWN_VALUE)]
            self._settle()
        self._outputs(env)
        self._settle()
        return self.graph

    def _settle(self) -> None:
        problems = self.notes.problems
        if problems:
            raise ModelError(problems)

    # What comes in and goes out.

    def _inputs(self) -> Env:
        """The model's inputs as inputs of the graph, or with their given values."""
        env: Env = {}
        problems = self.notes.problems
        problems += self.arguments.unknown()
        told: set[str] = set()
        for each in self.arguments.inputs:
            with self.notes.noting(as_text(each.name) or "input"):
                tensor, missing = self.arguments.tensor(each)
                if tensor.known is None:
                    name = self.names.take(printable(each.name) or "input")
                    tensor.made = self.graph.input(name, sizes=tensor.sizes, dtype=stored(tensor.dtype))
                env[each] = tensor
                new = [dim for dim in missing if dim not in told]
                told.update(new)
                if new:
                    raise not_given(new)
        return env

    def _initializers(self, graph: ir.Graph, env: Env) -> None:
        for name, value in graph.initializers.items():
            if value not in env and value.const_value is not None and (value.uses() or value.is_graph_output()):
                with self.notes.noting(name, value):
                    if name in self.arguments.values:
                        env[value], _ = self.arguments.tensor(value)
                    else:
                        env[value] = self.constant(value.const_value, name)

    def constant(self, tensor: ir.TensorProtocol, name: str = "") -> Tensor:
        """The tensor of an initializer or an attribute.

        Raises:
            Refusal: it is damaged, or of a type that is not read.
        """
        try:
            array = elements(tensor)
        except MemoryError:
            raise
        except Exception as error:  # of onnx-ir and NumPy, for damaged tensors
            lines = str(error).splitlines() or [type(error).__name__]
            raise Refusal(f"the tensor is damaged: {lines[0]}", code="model") from None
        if array.dtype in self.convert:
            array = array.astype(self.convert[array.dtype])
        return Tensor.of(taken_out(array), name=as_label(name))

    def _converted(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return self.convert.get(dtype, dtype)

    def _outputs(self, env: Env) -> None:
        taken = FreeNames()
        for value in self.model.graph.outputs:
            if value in self.notes.broken:
                continue
            name = printable(value.name) or "output"
            with self.notes.noting(name):
                tensor = env.get(value)
                if tensor is None:
                    raise Refusal("no node computes the output", code="unknown-node")
                calls = Calls(self.graph, self.names, name)
                if isinstance(tensor, TensorList):
                    for index, each in enumerate(tensor.items):
                        self.graph.output(taken.take(f"{name}.{index}"), calls.value(each))
                else:
                    self.graph.output(taken.take(name), calls.value(tensor))

    # Nodes.

    def run_nodes(
        self, body: Iterable[ir.Node], env: Env, opsets: Mapping[str, int], attributes: Attributes, prefix: str = ""
    ) -> None:
        """Imports nodes in order; adds their outputs to `env`.

        Args:
            body: the nodes.
            env: the tensors that exist.
            opsets: versions by domain.
            attributes: of the call of the function whose body this is.
            prefix: put in front of labels.
        """
        for node in body:
            label = prefix + _label(node)
            if self.depth:
                self.count(label)
            opset = opsets.get(node.domain, 1 if node.domain else 0)
            said = f"{node.op_type}, opset {opset}: "
            with self.notes.noting(label, *node.outputs, said=said):
                if not isinstance(node.op_type, str) or not isinstance(node.domain, str):
                    raise Refusal("the name of the operator is not UTF-8 text", code="model")
                if any(each in self.notes.broken for each in node.inputs):
                    self._check_known(node, opset)
                    self.notes.broken.update(node.outputs)
                    continue
                self._run_node(node, label, env, opset, attributes)

    def count(self, label: str) -> None:
        """Counts a node that functions and subgraphs expand to; `label` is that of the node.

        Raises:
            _TooManyNodesError: there are too many.
        """
        self.expanded += 1
        if self.expanded > self.most_nodes:
            raise _TooManyNodesError(label, self.most_nodes)

    def _check_known(self, node: ir.Node, opset: int) -> None:
        """Refuses a node behind a refused one that cannot be imported whatever its inputs are."""
        if node.domain == "" and node.op_type == "Constant":
            return
        if not self._has_function(node) and table.find(node.domain, node.op_type, opset) is None:
            if definition(node.domain, node.op_type, opset):
                return
            raise _no_counterpart(node.domain, node.op_type)

    def _has_function(self, node: ir.Node) -> bool:
        return node.op_identifier() in self.model.functions

    def _run_node(self, node: ir.Node, label: str, env: Env, opset: int, attributes: Attributes) -> None:
        given = _resolved(node.attributes, attributes)
        inputs = [self._read(each, env) for each in node.inputs]
        if self._has_function(node):
            function = self.model.functions[node.op_identifier()]
            results: Sequence[Tensor | None] = self.call(function, inputs, given, label)
        else:
            results = self._apply(node, label, env, opset, inputs, given)
        for value, tensor in zip(node.outputs, results, strict=False):
            if tensor is not None:
                tensor.name = tensor.name or label
                env[value] = tensor

    @staticmethod
    def _read(value: ir.Value | None, env: Env) -> Tensor | None:
        if value is None:
            return None
        if value not in env:
            raise Refusal("no node computes an input", code="unknown-node", got=value.name)
        return env[value]

    def _apply(
        self,
        node: ir.Node,
        label: str,
        env: Env,
        opset: int,
        inputs: Sequence[Tensor | None],
        given: Attributes,
    ) -> Sequence[Tensor | None]:
        """The outputs of an operator's node: computed on the host, by its rule, or by its definition."""
        if opset < table.OLDEST:
            raise Refusal("the model imports no opset of ONNX's operators", code="opset")
        domain = node.domain
        rules = signature(domain, node.op_type, opset)
        if rules is not None:
            check(rules, inputs, len(node.outputs), given, self.convert.values())
        if domain == "" and node.op_type == "Constant":
            return [self._constant_node(given)]
        row = table.find(domain, node.op_type, opset)
        if domain == "" and opset < RENEWED:
            dml = Calls(self.graph, self.names, label)
            old = Node(node.op_type, "", opset, inputs, [], given, dml, self._subgraph, self._converted)
            inputs, given = renewed(old)
            opset = RENEWED
        folded = self._folded(node, domain, opset, inputs, given)
        if folded is not None:
            return folded
        if reads_empty(inputs):
            empty = empty_results(_proto(node, domain, inputs, given), domain, opset, inputs)
            if empty is not None:
                return [None if each is None else Tensor.of(each, depends=_depends(inputs)) for each in empty]
        try:
            return self._by_rule(row, node, domain, label, env, opset, inputs, given)
        except (Refusal, OperatorError):  # what DirectML lacks may be computed of constants
            if not folding.is_folded(domain, node.op_type):
                raise
            for each in inputs:
                if each is not None:
                    folding.numbers(each)
            folded = self._folded(node, domain, opset, inputs, given)
            if folded is None:
                raise
            return folded

    def _folded(
        self, node: ir.Node, domain: str, opset: int, inputs: Sequence[Tensor | None], given: Attributes
    ) -> list[Tensor] | None:
        """The outputs of a node whose inputs are known, computed on the host; None for others."""
        arrays = [None if each is None else each.known for each in inputs]
        if any(each is not None and each.known is None for each in inputs):
            return None
        if not folding.can_fold(domain, node.op_type, arrays):
            return None
        results = folding.evaluate(_proto(node, domain, inputs, given), opset, arrays)
        return [Tensor.of(self._cast(each), depends=_depends(inputs)) for each in results]

    def _by_rule(
        self,
        row: table.Row | None,
        node: ir.Node,
        domain: str,
        label: str,
        env: Env,
        opset: int,
        inputs: Sequence[Tensor | None],
        given: Attributes,
    ) -> Sequence[Tensor | None]:
        """The outputs of a node by the rule of its operator, or by ONNX's definition."""
        if row is None:
            return self._by_definition(_proto(node, domain, inputs, given), opset, inputs, given, label)
        dml = Calls(self.graph, self.names, label, row.how)

        def run(graph: ir.Graph, tensors: Sequence[Tensor] = ()) -> list[Tensor]:
            return self._subgraph(graph, env, tensors, label)

        outputs = [bool(each.uses() or each.is_graph_output()) for each in node.outputs]
        seen = Node(node.op_type, domain, opset, inputs, outputs, given, dml, run, self._converted)
        try:
            result = row.rule(seen)
        except ByDefinition:
            return self._by_definition(_proto(node, domain, inputs, given), opset, inputs, given, label)
        except OperatorError as error:
            if not _is_too_new(error) or definition(domain, node.op_type, opset) is None:
                raise
            return self._by_definition(_proto(node, domain, inputs, given), opset, inputs, given, label)
        types = output_types(domain, node.op_type, opset, inputs, len(outputs))
        depends = _depends(inputs)
        return [self._tensor(each, dtype, dml, depends) for each, dtype in zip(_listed(result), types, strict=False)]

    def _tensor(
        self,
        result: Tensor | Value | Array | None,
        dtype: np.dtype[Any] | None,
        dml: Calls,
        depends: frozenset[str],
    ) -> Tensor | None:
        """A result of a rule as a tensor of the type that ONNX says."""
        if result is None:
            return None
        if isinstance(result, Value):
            result = Tensor(result.dtype.numpy, result.sizes, made=result)
        elif not isinstance(result, Tensor):
            result = Tensor.of(result)
        dtype = result.dtype if dtype is None else self._converted(dtype)
        if result.made is not None and result.known is None:
            wanted = stored(dtype)
            result = Tensor(dtype, result.shape, made=dml.converted(result.made, wanted), name=result.name)
        result.depends |= depends if result.known is None else depends - {DATA}  # of data only the sizes
        return result

    def _cast(self, array: Array) -> Array:
        return array.astype(self.convert[array.dtype]) if array.dtype in self.convert else array

    def _constant_node(self, given: Attributes) -> Tensor:
        for key, attribute in given.items():
            if attribute.type is ir.AttributeType.TENSOR:
                return self.constant(attribute.value)
            if key.startswith("value_") and "string" not in key:
                dtype = np.float32 if "float" in key else np.int64
                return Tensor.of(np.asarray(attribute.value, dtype))
        raise Refusal("the constant has no numbers", got=listing(given) or None)

    # Functions and subgraphs.

    def _by_definition(
        self, proto: onnx.NodeProto, opset: int, inputs: Sequence[Tensor | None], given: Attributes, label: str
    ) -> Sequence[Tensor | None]:
        """The outputs of an operator that ONNX defines by others."""
        proto.attribute.extend(ir.serde.serialize_attribute(each) for each in given.values() if each.type in _GRAPHS)
        found = definition(proto.domain, proto.op_type, opset, proto, inputs)
        if found is None:
            raise _no_counterpart(proto.domain, proto.op_type)
        return self.call(found, inputs, default_attributes(proto.domain, proto.op_type, opset) | dict(given), label)

    def call(
        self, function: ir.Function, inputs: Sequence[Tensor | None], given: Attributes, label: str
    ) -> list[Tensor | None]:
        """The outputs of a function."""
        env: Env = dict.fromkeys(function.inputs)
        env.update(zip(function.inputs, inputs, strict=False))
        attributes = {key: each for key, each in function.attributes.items() if each.value is not None} | dict(given)
        with _Deeper(self, label):
            before = len(self.notes.problems)
            opsets = self.model.opset_imports | function.opset_imports
            self.run_nodes(function, env, opsets, attributes, f"{label}/")
            if len(self.notes.problems) > before:
                raise AlreadyNotedError
        return [env.get(each) for each in function.outputs]

    def _subgraph(self, graph: ir.Graph, env: Env, tensors: Sequence[Tensor], label: str) -> list[Tensor]:
        """The outputs of a subgraph, which sees the tensors outside."""
        env = ChainMap(dict(zip(graph.inputs, tensors, strict=False)), env)
        with _Deeper(self, label):
            before = len(self.notes.problems)
            self._initializers(graph, env)
            self.run_nodes(graph, env, self.model.opset_imports, {}, f"{label}/")
            if len(self.notes.problems) > before or any(each in self.notes.broken for each in graph.outputs):
                raise AlreadyNotedError
        outputs = [env.get(each) for each in graph.outputs]
        if any(each is None for each in outputs):
            raise Refusal("no node computes an output of the subgraph", code="unknown-node")
        return [each for each in outputs if each is not None]


class _TooManyNodesError(Exception):
    """Functions and loops expand to too many nodes: importing on is useless."""

    def __init__(self, label: str, most: int) -> None:
        super().__init__(label)
        message = "the functions, conditions and loops of the model expand to too many nodes"
        self.problem = Problem(message, code="too-large", node=label, allowed=f"at most {most:,}")


class _Deeper:
    """Counts functions and subgraphs inside one another, so that a function that calls itself ends."""

    def __init__(self, importer: Importer, label: str) -> None:
        self.importer, self.label = importer, label

    def __enter__(self) -> None:
        self.importer.count(self.label)
        self.importer.depth += 1
        if self.importer.depth > MOST_NESTED:
            self.importer.depth -= 1
            raise Refusal("functions or subgraphs are nested too deeply", code="range", allowed=f"{MOST_NESTED} levels")

    def __exit__(self, *_: object) -> None:
        self.importer.depth -= 1


def _is_too_new(error: OperatorError) -> bool:
    """Whether the graph's level lacks DirectML's operator; then its parts may be there."""
    return all(each.code == "level" and each.field is None for each in error.problems)


def _no_counterpart(domain: str, operator: str) -> Refusal:
    known = [row for row in table.all_rows() if row.domain == domain and row.operator == operator]
    if known:
        ranges = ", ".join(f"{row.since} to {row.until or 'the newest'}" for row in known)
        return Refusal("the operator is not read in this opset", code="opset", allowed=f"opsets {ranges}")
    near = suggestion(operator, {row.operator for row in table.all_rows()}) if domain else None
    return Refusal(
        f"there is no counterpart of {f'{domain}.' if domain else ''}{operator}",
        hint=near or "'dmlgraph onnx operators' lists those that are read",
    )


def _resolved(own: Mapping[str, ir.Attr], call: Attributes) -> dict[str, ir.Attr]:
    """A node's attributes, those that refer to the attributes of a call in place of them."""
    found = {}
    for key, attribute in own.items():
        if attribute.is_ref():
            referred = call.get(attribute.ref_attr_name or "")
            if referred is not None:
                found[key] = ir.Attr(key, referred.type, referred.value)
        else:
            found[key] = attribute
    return found


def _proto(node: ir.Node, domain: str, inputs: Sequence[Tensor | None], given: Attributes) -> onnx.NodeProto:
    """The node for ONNX's own functions; subgraphs are left out."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=domain, name=node.name or "")
    proto.input.extend("" if each is None else f"x{index}" for index, each in enumerate(inputs))
    proto.output.extend(f"y{index}" if each.name else "" for index, each in enumerate(node.outputs))
    proto.attribute.extend(ir.serde.serialize_attribute(each) for each in given.values() if each.type not in _GRAPHS)
    return proto


def _depends(inputs: Sequence[Tensor | None]) -> frozenset[str]:
    """The model's inputs from which a node's outputs are computed."""
    return frozenset[str]().union(*(each.depends for each in inputs if each is not None))


def _listed(result: Result) -> Sequence[Tensor | Value | Array | None]:
    return result if isinstance(result, (list, tuple)) else [result]  # type: ignore[list-item]


def _label(node: ir.Node) -> str:
    """The label of a node; without a name, the name of its first output."""
    names = (node.name, *(each.name for each in node.outputs))
    return next((found for name in names if (found := as_label(name or ""))), node.op_type.lower())
