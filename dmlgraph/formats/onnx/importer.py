"""`onnx_ir` model → Graph: imports node by node, folds what is known, and reports all nodes that cannot be imported."""

from __future__ import annotations

import contextlib
import functools
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

import dmlgraph as dg
from dmlgraph.base.errors import ModelError, OperatorError, Problem, listing, suggestion
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.files.mapped_arrays import Place, place_of, taken_out
from dmlgraph.formats.onnx import folding, table
from dmlgraph.formats.onnx.arguments import Arguments, not_given
from dmlgraph.formats.onnx.caches import AUTO, PADDED
from dmlgraph.formats.onnx.checking import check, signature
from dmlgraph.formats.onnx.decoder import Decoder
from dmlgraph.formats.onnx.definitions import default_attributes, definition, empty_results, output_types
from dmlgraph.formats.onnx.lengths import Lengths
from dmlgraph.formats.onnx.message import elements
from dmlgraph.formats.onnx.names import Names, as_label, as_text, printable
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.old_opsets import RENEWED, renew
from dmlgraph.formats.onnx.refusals import DATA, AlreadyNotedError, ByDefinition, Notes, Refusal
from dmlgraph.formats.onnx.states import Pairs
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, TensorList, resolve_conversions, stored
from dmlgraph.formats.onnx.trainable import Trainable
from dmlgraph.graph.nodes import LENGTH
from dmlgraph.graph.value import Value

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
        dims, values, target, convert, states, trainable: as in `dmlgraph.formats.onnx.load`.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        dims: Mapping[str, int],
        values: Mapping[str, Any],
        target: str | FeatureLevel | None,
        convert: Mapping[str, str] | None,
        states: Mapping[str, str] | str | None = None,
        trainable: Sequence[str] | None = None,
    ) -> None:
        self.model = model
        self.notes = Notes()
        with self.notes.noting("convert"):
            self.convert = resolve_conversions(convert)
        self.trainable = Trainable(model.graph, trainable, self.notes)
        self._settle()
        self.pairs, self.lengths = Pairs(model, states, values), Lengths()
        computed = self.pairs.by_past.values() if states in (AUTO, PADDED) else ()
        self.decoder = Decoder(model.graph, computed, values, is_padded=states == PADDED)
        sizes = self.decoder.resolved(dims)
        # No method of its own: a cycle would keep the graph and its weights until all objects are searched for such.
        self._converted = functools.partial(_converted, self.convert)
        self.arguments = Arguments(model.graph, sizes, values, self._converted, self.pairs.by_past)
        self.graph = dg.Graph(printable(model.graph.name or "") or "model", target=target)
        self.graph.origin.is_model = True
        weights = (name for name, each in model.graph.initializers.items() if each not in self.pairs.by_past)
        self.names = Names(map(as_label, weights), map(_label, model.graph))
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
        made = ((each.name, tensor.made) for each, tensor in env.items() if tensor is not None)
        found = {name: value.reference for name, value in made if name is not None and value is not None}
        self.graph.origin.tensors = {name: reference for name, reference in found.items() if name != reference}
        if self.decoder.is_active:  # a branch of a merged decoder does not read all inputs
            states = (each.state for each in self.pairs.by_past.values() if each.state is not None)
            self.graph.remove_unread(0, [*self.graph.outputs.values(), *self.graph.next_values.values(), *states])
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
            if each in self.pairs.by_length or each in self.decoder.computed:
                continue
            with self.notes.noting(as_text(each.name) or "input"):
                tensor, missing = self.arguments.tensor(each)
                env[each] = tensor
                self._add_input(each, tensor)
                new = [dim for dim in missing if dim not in told]
                told.update(new)
                if new:
                    raise not_given(new)
        for length, pair in self.pairs.by_length.items():
            if pair.state is not None:
                env[length] = Tensor(LENGTH.dtype.numpy, LENGTH.sizes, made=pair.state.length)
        with self.notes.noting("states", *self.decoder.computed):
            env.update(self.decoder.inputs(env, self._converted, self._calls, self.names))
        others = [each for value, each in env.items() if each is not None and value not in self.pairs.by_past]
        tokens = None if self.decoder.tokens is None else env.get(self.decoder.tokens)
        self.lengths.begin(tokens, others, is_padded=self.decoder.padding is not None)
        return env

    def _add_input(self, value: ir.Value, tensor: Tensor) -> None:
        """Adds an input or a state to the graph; a known input is neither."""
        pair = self.pairs.by_past.get(value)
        if pair is None and tensor.known is not None:
            return
        name = self.names.take(printable(value.name) or "input")
        if pair is None:
            tensor.made = self.graph.input(name, sizes=tensor.sizes, dtype=stored(tensor.dtype))
        else:
            initial = None if value.const_value is None else self.constant(value.const_value)
            pair.declare(self.graph, name, tensor, initial)
            if pair.grows is not None:
                assert pair.state is not None
                self.lengths.add(tensor, pair.grows, pair.state.length)

    def _initializers(self, graph: ir.Graph, env: Env) -> None:
        for name, value in graph.initializers.items():
            if value not in env and value.const_value is not None and (value.uses() or value.is_graph_output()):
                with self.notes.noting(name, value):
                    given = name in self.arguments.values
                    weight = self.arguments.tensor(value)[0] if given else self.constant(value.const_value, name)
                    if value in self.trainable.weights:
                        calls = Calls(self.graph, self.names, as_label(name))
                        weight = self.trainable.state(calls, self.names, self.graph, weight)
                    env[value] = weight

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
        return Tensor.of(taken_out(array, _place(tensor, array)), name=as_label(name))

    def _calls(self, name: str) -> Calls:
        return Calls(self.graph, self.names, name)

    def _outputs(self, env: Env) -> None:
        taken = FreeNames()
        for value in self.model.graph.outputs:
            if value in self.notes.broken:
                continue
            name = printable(value.name) or "output"
            with self.notes.noting(name):
                tensor, pair = env.get(value), self.pairs.by_present.get(value)
                if tensor is None:
                    raise Refusal("no node computes the output", code="unknown-node")
                calls = self._calls(name)
                if pair is not None:
                    pair.change(calls, tensor, is_masked=self.decoder.is_masked)
                elif isinstance(tensor, TensorList):
                    if not tensor.items:
                        raise Refusal("a graph cannot have a sequence without tensors as an output", code="count")
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

    @contextlib.contextmanager
    def _deeper(self, label: str) -> Iterator[None]:
        """Around the nodes of a function or subgraph: they are counted, so that a function that calls itself ends.

        Raises:
            AlreadyNotedError: some of them cannot be imported.
        """
        self.count(label)
        if self.depth == MOST_NESTED:
            raise Refusal("functions or subgraphs are nested too deeply", code="range", allowed=f"{MOST_NESTED} levels")
        self.depth += 1
        before = len(self.notes.problems)
        try:
            yield
        finally:
            self.depth -= 1
        if len(self.notes.problems) > before:
            raise AlreadyNotedError

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

    def _run_node(self, source: ir.Node, label: str, env: Env, opset: int, attributes: Attributes) -> None:
        given = _resolved(source.attributes, attributes)
        inputs = [self._read(each, env) for each in source.inputs]
        appending = self.pairs.only_appends(source)
        if appending is not None:
            env[appending.present] = appending.unmade(inputs)
            return
        if self._has_function(source):
            function = self.model.functions[source.op_identifier()]
            results: Sequence[Tensor | None] = self.call(function, inputs, given, label)
        else:
            row = table.find(source.domain, source.op_type, opset)
            node = Node(
                self.graph,
                self.names,
                label,
                row.how if row else "",
                source=source,
                opset=opset,
                inputs=inputs,
                attributes=given,
                run=functools.partial(self._subgraph, env, label),
                dtype_of=self._converted,
                appends=self.pairs.appended_by(source),
                padded_rows=self.decoder.padding,
            )
            self.lengths.prepare(node)
            self.decoder.cover(node)
            results = self._apply(node, row)
            self.lengths.follow(node, results)
        for value, tensor in zip(source.outputs, results, strict=False):
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

    def _apply(self, node: Node, row: table.Row | None) -> Sequence[Tensor | None]:
        """The outputs of an operator's node: computed on the host, by its rule, or by its definition."""
        if node.opset < table.OLDEST:
            raise Refusal("the model imports no opset of ONNX's operators", code="opset")
        rules = signature(node.domain, node.operator, node.opset)
        if rules is not None:
            check(rules, node, self.convert.values())
        if node.domain == "" and node.operator == "Constant":
            return [self._constant_node(node.attributes)]
        if node.domain == "" and node.opset < RENEWED:
            renew(node)
        folded = self._folded(node)
        if folded is not None:
            return folded
        if any(0 in each.shape for each in node.given):
            empty = empty_results(node)
            if empty is not None:
                return [None if each is None else Tensor.of(each, depends=node.depends) for each in empty]
        try:
            return self._by_rule(node, row)
        except (Refusal, OperatorError):  # what DirectML lacks may be computed of constants
            if not folding.is_folded(node.domain, node.operator):
                raise
            for each in node.given:
                folding.numbers(each)
            folded = self._folded(node)
            if folded is None:
                raise
            return folded

    def _folded(self, node: Node) -> list[Tensor] | None:
        """The outputs of a node whose inputs are known, computed on the host; None for others."""
        arrays = [None if each is None else each.known for each in node.inputs]
        if any(each.known is None for each in node.given) or not folding.can_fold(node.domain, node.operator, arrays):
            return None
        results = folding.evaluate(node.proto(), node.opset, arrays)
        return [Tensor.of(each.astype(node.dtype_of(each.dtype), copy=False), depends=node.depends) for each in results]

    def _by_rule(self, node: Node, row: table.Row | None) -> Sequence[Tensor | None]:
        """The outputs of a node by the rule of its operator, or by ONNX's definition."""
        if row is None:
            return self._by_definition(node)
        self.names.keep(node.label)
        try:
            result = row.rule(node)
        except ByDefinition:
            return self._by_definition(node)
        except OperatorError as error:
            if not _is_too_new(error) or definition(node.domain, node.operator, node.opset) is None:
                raise
            return self._by_definition(node)
        types = output_types(node)
        return [_tensor(node, each, dtype) for each, dtype in zip(_listed(result), types, strict=False)]

    def _constant_node(self, given: Attributes) -> Tensor:
        for key, attribute in given.items():
            if attribute.type is ir.AttributeType.TENSOR:
                return self.constant(attribute.value)
            if key.startswith("value_") and "string" not in key:
                dtype = np.float32 if "float" in key else np.int64
                return Tensor.of(np.asarray(attribute.value, dtype))
        raise Refusal("the constant has no numbers", got=listing(given) or None)

    # Functions and subgraphs.

    def _by_definition(self, node: Node) -> Sequence[Tensor | None]:
        """The outputs of an operator that ONNX defines by others."""
        proto, operator = node.proto(with_graphs=True), (node.domain, node.operator)
        found = definition(*operator, node.opset, proto, node.inputs)
        if found is None:
            raise _no_counterpart(*operator)
        given = default_attributes(*operator, node.opset) | dict(node.attributes)
        return self.call(found, node.inputs, given, node.label)

    def call(
        self, function: ir.Function, inputs: Sequence[Tensor | None], given: Attributes, label: str
    ) -> list[Tensor | None]:
        """The outputs of a function."""
        env: Env = dict.fromkeys(function.inputs)
        env.update(zip(function.inputs, inputs, strict=False))
        attributes = {key: each for key, each in function.attributes.items() if each.value is not None} | dict(given)
        with self._deeper(label):
            opsets = self.model.opset_imports | function.opset_imports
            self.run_nodes(function, env, opsets, attributes, f"{label}/")
        return [env.get(each) for each in function.outputs]

    def _subgraph(self, env: Env, label: str, graph: ir.Graph, tensors: Sequence[Tensor] = ()) -> list[Tensor]:
        """The outputs of a subgraph, which sees the tensors outside."""
        env = ChainMap(dict(zip(graph.inputs, tensors, strict=False)), env)
        with self._deeper(label):
            self._initializers(graph, env)
            self.run_nodes(graph, env, self.model.opset_imports, {}, f"{label}/")
        if any(each in self.notes.broken for each in graph.outputs):
            raise AlreadyNotedError
        outputs = [env.get(each) for each in graph.outputs]
        if any(each is None for each in outputs):
            raise Refusal("no node computes an output of the subgraph", code="unknown-node")
        return [each for each in outputs if each is not None]


def _converted(convert: Mapping[np.dtype[Any], np.dtype[Any]], dtype: np.dtype[Any]) -> np.dtype[Any]:
    return convert.get(dtype, dtype)


class _TooManyNodesError(Exception):
    """Functions and loops expand to too many nodes: importing on is useless."""

    def __init__(self, label: str, most: int) -> None:
        super().__init__(label)
        message = "the functions, conditions and loops of the model expand to too many nodes"
        self.problem = Problem(message, code="too-large", node=label, allowed=f"at most {most:,}")


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


def _tensor(node: Node, result: Tensor | Value | Array | None, dtype: np.dtype[Any] | None) -> Tensor | None:
    """A result of a rule as a tensor of the type that ONNX says."""
    if result is None:
        return None
    if isinstance(result, Value):
        result = Tensor(result.dtype.numpy, result.sizes, made=result)
    elif not isinstance(result, Tensor):
        result = Tensor.of(result)
    dtype = result.dtype if dtype is None else node.dtype_of(dtype)
    if result.made is not None and result.known is None:
        made = node.converted(result.made, stored(dtype))
        result = Tensor(dtype, result.shape, made=made, name=result.name, appended=result.appended)
    result.depends |= node.depends if result.known is None else node.depends - {DATA}  # of data only the sizes
    return result


def _place(tensor: ir.TensorProtocol, array: Array) -> Place | None:
    """Where a tensor's bytes are, so that imports of one file, for several sizes of its dims, have one copy of them."""
    if not isinstance(tensor, ir.ExternalTensor):
        return None
    return place_of(tensor.path, tensor.offset or 0, array.nbytes)


def _listed(result: Result) -> Sequence[Tensor | Value | Array | None]:
    return result if isinstance(result, (list, tuple)) else [result]  # type: ignore[list-item]


def _label(node: ir.Node) -> str:
    """The label of a node; without a name, the name of its first output."""
    names = (node.name, *(each.name for each in node.outputs))
    return next((found for name in names if (found := as_label(name or ""))), node.op_type.lower())
