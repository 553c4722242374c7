"""`onnx_ir` model → Graph: imports node by node, folds what is known, and reports all nodes that cannot be imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

import dmlgraph as dg
from dmlgraph.errors import DmlGraphError, ModelError, OperatorError, Problem, listing, shorten, suggestion
from dmlgraph.free_names import FreeNames
from dmlgraph.levels import FeatureLevel
from dmlgraph.onnx import folding, table
from dmlgraph.onnx.definitions import default_attributes, definition, output_types
from dmlgraph.onnx.node import Node, Result
from dmlgraph.onnx.refusals import AlreadyNotedError, ByDefinition, Refusal, give_values
from dmlgraph.onnx.tensors import Array, Calls, Tensor, parse_dtype, resolve_conversions, stored, type_name
from dmlgraph.value import Value

# What rules raise for nodes that are damaged in ways that they do not look for: a shape without the axis, an attribute
# of another type, sizes that do not add up.
_DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, ir.serde.SerdeError)
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
MOST_NESTED = 64  # functions and subgraphs inside one another
Env = dict[ir.Value, Tensor | None]  # None: an optional input that is left out
Attributes = Mapping[str, ir.Attr]


class Importer:
    """Imports one model.

    A node whose inputs could not be imported is passed over, so that each problem is reported once.

    Args:
        model: prepared by `dmlgraph.onnx.model`.
        dims, values, target, convert: as in `dmlgraph.onnx.load`.
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
        self.model, self.dims, self.values = model, dict(dims), dict(values)
        self.problems: list[Problem] = []
        with self._noting("convert"):
            self.convert = resolve_conversions(convert)
        self._settle()
        self.graph = dg.Graph(_name(model.graph.name or "") or "model", target=target)
        self.names = FreeNames()
        self.broken: set[ir.Value] = set()
        self.depth = 0

    def read(self) -> dg.Graph:
        """The graph.

        Raises:
            ModelError: everything that cannot be imported.
        """
        env = self._inputs()
        self._settle()
        self._initializers(self.model.graph, env)
        self.run_nodes(self.model.graph, env, self.model.opset_imports, {})
        self._outputs(env)
        self._settle()
        return self.graph

    def _settle(self) -> None:
        problems = self.problems
        if problems:
            raise ModelError(problems)

    # What comes in and goes out.

    def _inputs(self) -> Env:
        """The model's inputs as inputs of the graph, or with their given values."""
        env: Env = {}
        inputs = [each for each in self.model.graph.inputs if each.name not in self.model.graph.initializers]
        names = {each.name or "": each for each in self.model.graph.inputs}
        for name in self.values:
            if name not in names:
                self.problems.append(
                    Problem(
                        "is not an input of the model",
                        field=f"values.{name}",
                        allowed=listing(names),
                        hint=suggestion(name, names),
                        code="unknown-array",
                    )
                )
        unused = set(self.dims)
        for each in inputs:
            with self._noting(each.name or "input"):
                env[each] = self._input(each, unused)
        for dim in unused:
            known = {_dim_names(each, axis)[-1] for each in inputs for axis in _open_axes(each)}
            self.problems.append(
                Problem(
                    "no input of the model has this dim",
                    field=f"dims.{dim}",
                    allowed=listing(sorted(known)) or "nothing: all sizes are numbers",
                    code="unknown-dim",
                )
            )
        return env

    def _input(self, value: ir.Value, unused: set[str]) -> Tensor:
        name = value.name or ""
        if not isinstance(value.type, ir.TensorType) or value.dtype is None:
            kind = "no type" if value.type is None else type(value.type).__name__.removesuffix("Type").lower()
            raise Refusal("only tensors can be inputs", got=kind)
        if value.shape is None:
            raise Refusal("the model does not say how many dimensions the input has", code="undetermined")
        dtype = self._converted(parse_dtype(value.dtype.name.lower()))
        if name in self.values:
            unused.difference_update(*(_dim_names(value, axis) for axis in _open_axes(value)))
            return Tensor.of(_given(self.values[name], dtype), name=name)
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        missing = []
        for axis in _open_axes(value):
            names = _dim_names(value, axis)
            unused.difference_update(names)
            shape[axis] = next((self.dims[each] for each in names if each in self.dims), 0)
            if not any(each in self.dims for each in names) and names[-1] not in missing:
                missing.append(names[-1])
        if missing:
            hint = f"dims={{{', '.join(f'{dim!r}: 1' for dim in missing)}}}, --dim {missing[0]}=1"
            raise Refusal("the sizes of dims are not given", code="undetermined", got=listing(missing), hint=hint)
        tensor = Tensor(dtype, tuple(shape), depends=frozenset([name]), name=name)
        if 0 in shape:
            hint = give_values([name])
            raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=shape, hint=hint)
        made = self.graph.input(self.names.take(_name(name) or "input"), sizes=tensor.sizes, dtype=stored(dtype))
        tensor.made = made
        return tensor

    def _initializers(self, graph: ir.Graph, env: Env) -> None:
        for name, value in graph.initializers.items():
            if value not in env and value.const_value is not None and (value.uses() or value.is_graph_output()):
                with self._noting(name, value):
                    if name in self.values:
                        env[value] = self._input(value, set())
                    else:
                        env[value] = self.constant(value.const_value, name)

    def constant(self, tensor: ir.TensorProtocol, name: str = "") -> Tensor:
        """The tensor of an initializer or an attribute.

        Raises:
            Refusal: it is damaged, or of a type that is not read.
        """
        try:
            array = tensor.numpy()
        except MemoryError:
            raise
        except Exception as error:  # of onnx-ir and NumPy, for damaged tensors
            lines = str(error).splitlines() or [type(error).__name__]
            raise Refusal(f"the tensor is damaged: {lines[0]}", code="model") from None
        if array.dtype in self.convert:
            array = array.astype(self.convert[array.dtype])
        return Tensor.of(array, name=_name(name))

    def _converted(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return self.convert.get(dtype, dtype)

    def _outputs(self, env: Env) -> None:
        taken = FreeNames()
        for value in self.model.graph.outputs:
            if value in self.broken:
                continue
            name = _name(value.name or "") or "output"
            with self._noting(name):
                tensor = env.get(value)
                if tensor is None:
                    raise Refusal("no node computes the output", code="unknown-node")
                made = Calls(self.graph, self.names, name).value(tensor)
                self.graph.output(taken.take(name), made)

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
            label = prefix + (_name(node.name or "") or _label(node))
            opset = opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)
            with self._noting(label, *node.outputs, said=f"{node.op_type}, opset {opset}: "):
                if any(each in self.broken for each in node.inputs):
                    self._check_known(node, opset)
                    self.broken.update(node.outputs)
                    continue
                self._run_node(node, label, env, opset, attributes)

    def _check_known(self, node: ir.Node, opset: int) -> None:
        """Refuses a node behind a refused one that cannot be imported whatever its inputs are."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain == "" and node.op_type == "Constant":
            return
        if not self._has_function(node) and table.find(domain, node.op_type, opset) is None:
            if definition(domain, node.op_type, opset):
                return
            raise _no_counterpart(domain, node.op_type)

    def _has_function(self, node: ir.Node) -> bool:
        return node.op_identifier() in self.model.functions

    def _run_node(self, node: ir.Node, label: str, env: Env, opset: int, attributes: Attributes) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        given = _resolved(node.attributes, attributes)
        inputs = [self._read(each, env) for each in node.inputs]
        if self._has_function(node):
            function = self.model.functions[node.op_identifier()]
            results: Sequence[Tensor | None] = self.call(function, inputs, given, label)
        else:
            results = self._apply(node, domain, label, env, opset, inputs, given)
        for value, tensor in zip(node.outputs, results, strict=False):
            if tensor is not None:
                tensor.name = tensor.name or _name(value.name or "")
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
        domain: str,
        label: str,
        env: Env,
        opset: int,
        inputs: Sequence[Tensor | None],
        given: Attributes,
    ) -> Sequence[Tensor | None]:
        """The outputs of an operator's node: computed on the host, by its rule, or by its definition."""
        if domain == "" and node.op_type == "Constant":
            return [self._constant_node(given)]
        proto = _proto(node, domain, given)
        depends = frozenset[str]().union(*(each.depends for each in inputs if each is not None))
        arrays = [None if each is None else each.known for each in inputs]
        known = all(each is None or each.known is not None for each in inputs)
        if known and folding.can_fold(proto, arrays):
            return [Tensor.of(self._cast(each), depends=depends) for each in folding.evaluate(proto, opset, arrays)]
        row = table.find(domain, node.op_type, opset)
        dml = Calls(self.graph, self.names, label)
        if row is None:
            return self._by_definition(proto, opset, inputs, given, label)

        def run(graph: ir.Graph, tensors: Sequence[Tensor] = ()) -> list[Tensor]:
            return self._subgraph(graph, env, tensors, label)

        outputs = [bool(each.uses() or each.is_graph_output()) for each in node.outputs]
        seen = Node(node.op_type, domain, opset, inputs, outputs, given, dml, run, self._converted)
        try:
            result = row.rule(seen)
        except ByDefinition:
            return self._by_definition(proto, opset, inputs, given, label)
        except OperatorError as error:
            if not _is_too_new(error) or definition(domain, node.op_type, opset) is None:
                raise
            return self._by_definition(proto, opset, inputs, given, label)
        types = output_types(domain, node.op_type, opset, inputs, len(outputs))
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
        result.depends |= depends
        return result

    def _cast(self, array: Array) -> Array:
        return array.astype(self.convert[array.dtype]) if array.dtype in self.convert else array

    def _constant_node(self, given: Attributes) -> Tensor:
        for key, attribute in given.items():
            if isinstance(attribute.value, ir.TensorProtocol):
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
        proto.attribute.extend(ir.to_proto(each) for each in given.values() if each.type in _GRAPHS)
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
        with _Deeper(self):
            before = len(self.problems)
            opsets = self.model.opset_imports | function.opset_imports
            self.run_nodes(function, env, opsets, attributes, f"{label}/")
            if len(self.problems) > before:
                raise AlreadyNotedError
        return [env.get(each) for each in function.outputs]

    def _subgraph(self, graph: ir.Graph, env: Env, tensors: Sequence[Tensor], label: str) -> list[Tensor]:
        """The outputs of a subgraph, which sees the tensors outside."""
        env = dict(env)
        env.update(zip(graph.inputs, tensors, strict=False))
        with _Deeper(self):
            before = len(self.problems)
            self._initializers(graph, env)
            self.run_nodes(graph, env, self.model.opset_imports, {}, f"{label}/")
            if len(self.problems) > before or any(each in self.broken for each in graph.outputs):
                raise AlreadyNotedError
        outputs = [env.get(each) for each in graph.outputs]
        if any(each is None for each in outputs):
            raise Refusal("no node computes an output of the subgraph", code="unknown-node")
        return [each for each in outputs if each is not None]

    def _noting(self, label: str, *outputs: ir.Value, said: str = "") -> _Noting:
        return _Noting(self, label, outputs, said)


class _Deeper:
    """Counts functions and subgraphs inside one another, so that a function that calls itself ends."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    def __enter__(self) -> None:
        self.importer.depth += 1
        if self.importer.depth > MOST_NESTED:
            self.importer.depth -= 1
            raise Refusal("functions or subgraphs are nested too deeply", code="range", allowed=f"{MOST_NESTED} levels")

    def __exit__(self, *_: object) -> None:
        self.importer.depth -= 1


class _Noting:
    """Notes what refuses a node inside, and marks the node's outputs as broken."""

    def __init__(self, importer: Importer, label: str, outputs: Sequence[ir.Value], said: str) -> None:
        self.importer, self.label, self.outputs, self.said = importer, label, outputs, said

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, AlreadyNotedError):
            pass
        elif isinstance(error, Refusal):
            self._note(error.problem)
        elif isinstance(error, DmlGraphError):
            for problem in error.problems:
                self._note(problem)
        elif isinstance(error, _DAMAGED):
            what = str(error) or type(error).__name__
            self._note(Problem(f"the node does not fit its inputs or attributes: {shorten(what)}", code="model"))
        else:
            return False
        self.importer.broken.update(self.outputs)
        return True

    def _note(self, problem: Problem) -> None:
        if problem.code in ("dtype", "level") and str(problem.got) == "float64":
            problem = dataclasses.replace(problem, hint="convert={'double': 'float32'} converts it")
        message = f"{self.said}{problem.message}"
        self.importer.problems.append(dataclasses.replace(problem, node=self.label, message=message))


def _open_axes(value: ir.Value) -> list[int]:
    """The axes of an input whose sizes the model leaves open: those with a name, without a number, or below 0."""
    return [axis for axis, size in enumerate(value.shape or ()) if not isinstance(size, int) or size < 0]


def _dim_names(value: ir.Value, axis: int) -> list[str]:
    """The names that `dims` may give an open axis, the first that is given counts: the place, and the model's name."""
    size = (value.shape or ())[axis]
    name = size.value if isinstance(size, ir.SymbolicDim) else None
    return [f"{value.name}[{axis}]", *([str(name)] if name not in (None, "", "?") else [])]


def _given(value: Any, dtype: np.dtype[Any]) -> Array:
    """A given value as an array of the input's type.

    Raises:
        Refusal: the type cannot hold it.
    """
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            same = array.astype(dtype)
        if np.array_equal(same, array, equal_nan=array.dtype.kind == "f") or same.dtype.kind == "f":
            return same
    raise Refusal("the type of the input cannot hold the values", code="does-not-fit", got=type_name(dtype))


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


def _proto(node: ir.Node, domain: str, given: Attributes) -> onnx.NodeProto:
    """The node for ONNX's own functions; subgraphs are left out."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=domain, name=node.name or "")
    proto.input.extend("" if each is None else f"x{index}" for index, each in enumerate(node.inputs))
    proto.output.extend(f"y{index}" if each.name else "" for index, each in enumerate(node.outputs))
    proto.attribute.extend(ir.to_proto(each) for each in given.values() if each.type not in _GRAPHS)
    return proto


def _listed(result: Result) -> Sequence[Tensor | Value | Array | None]:
    return result if isinstance(result, (list, tuple)) else [result]  # type: ignore[list-item]


def _label(node: ir.Node) -> str:
    """The label of a node without a name: the name of its first output."""
    return next((name for each in node.outputs if (name := _name(each.name or ""))), node.op_type.lower())


def _name(text: str | bytes) -> str:
    """The text as a name in a graph: printable, without spaces at its ends; maybe empty."""
    if isinstance(text, bytes):  # protobuf's, for text that is not UTF-8
        text = text.decode(errors="replace")
    return "".join(each if each.isprintable() else "_" for each in text).strip()
