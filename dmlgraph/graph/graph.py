"""Graph: operators, inputs and constants, and the edges between them.

    g = Graph("ramp_times_x")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    ramp = g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=3, value_delta=2)
    g.output("y", dg.activation_relu(x * ramp))

Every node is checked when it is added, at the graph's target feature level.  Sizes may be computed from dims; the
graph is built with their values, and `with_dims` builds it again with others.  A value can only be used after it
exists, so a graph has no cycles, and the order in which nodes were added is an execution order.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
import numpy as np

from dmlgraph.base.errors import (
    GraphError,
    Location,
    OperatorError,
    Problem,
    listing,
    plural,
    shorten,
    suggestion,
)
from dmlgraph.base.expressions import Expression, Size
from dmlgraph.base.levels import NEWEST, FeatureLevel
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import array_of
from dmlgraph.base.tensor import MASKED, UNMASK, DataType, DataTypeLike, TensorDesc, is_masked
from dmlgraph.files.mapped_arrays import never_changes
from dmlgraph.graph import operands
from dmlgraph.graph.constant_data import Elements
from dmlgraph.graph.dims import Dims
from dmlgraph.graph.network import Network, Output, Outputs
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, readings, reference_hint
from dmlgraph.graph.operator_cache import Checked, CheckedOperators, key_of
from dmlgraph.graph.scopes import SEPARATOR, Scope, check_scope
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration import calls
from dmlgraph.operators.declaration.completion import counts
from dmlgraph.operators.declaration.fields import Kind, Role
from dmlgraph.operators.declaration.number_types import hint_on_numbers
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.signatures import signature
from dmlgraph.operators.diagonal import DiagonalMatrix, DiagonalMatrix1
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence

if TYPE_CHECKING:
    from dmlgraph.compiler.lowering import GraphDesc
    from dmlgraph.devices.device import DeviceName
    from dmlgraph.devices.executable import Executable
    from dmlgraph.formats.yaml.tests import GraphTest

NO_NODE = "there is no node of this name"
_STAND_IN = TensorDesc(dtype=DataType.FLOAT32, sizes=(1,))


class Placed(Protocol):
    """Something with a place in a file."""

    @property
    def location(self) -> Location: ...


def _source(operator: type[Operator]) -> Callable[..., Value]:
    """A method of Graph that adds a source; it has the operator's signature, with keyword arguments only."""

    def method(self: Graph, *tensors: Any, name: str | None = None, **fields: Any) -> Value:
        given = calls.take_tensors(operator, tensors, fields)
        (value,) = calls.add(self, operator, given, fields, name)
        assert value is not None
        return value

    plain = signature(operator)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = plain.replace(parameters=[receiver, *plain.parameters.values()])  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = operator.function_name()
    method.__doc__ = operator.__doc__
    return method


class Graph:
    """A DirectML graph that is being built.

    Args:
        name: the graph's name in messages and in DirectML.
        target: the feature level at which every node must be legal, such as "5.0"; by default the newest known.
        dims: values of names that can be used as sizes.
        allow: codes of warnings that are not reported, such as "unused-input".
    """

    def __init__(
        self,
        name: str = "graph",
        *,
        target: str | FeatureLevel | None = None,
        dims: Mapping[str, int] | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise GraphError("is not a name", code="name", field="name", got=name, allowed="printable text")
        self.name = name
        self.target = None if target is None else FeatureLevel.parse(target)
        self._dims = Dims(dims)
        self.allow = self._allowed(allow) if allow != () else ()
        self._network = Network()
        self._checked = CheckedOperators()
        self._outputs: dict[str, Output] = {}  # by name
        self._next: dict[str, int] = {}
        self.scopes: tuple[Scope, ...] = ()  # entered and not left, the outermost first
        self.is_imported = False  # from an ONNX model, whose nodes depend on the target
        self.remarks: tuple[Problem, ...] = ()  # warnings of the file it was read from, which are not of its nodes
        self.fixed: dict[str, str] = {}  # by dim: what cannot follow it
        self._places: dict[str | None, tuple[Placed | None, Mapping[str, Placed]]] = {}  # node → its and its fields'
        self.tests: Mapping[str, GraphTest] = {}  # beside the graph in its file, by name

    # Scopes.

    def scope(self, name: str) -> Scope:
        """Puts `name/` before the names of what is made inside: inputs, constants, nodes and outputs.

            with g.scope("encoder"):
                h = dg.activation_relu(x, name="h")  # encoder/h

        Names that are given and names that are derived from operators get it; scopes inside one another add up.  A
        scope may be entered again.

        Raises:
            GraphError: it is not a name.
        """
        check_scope(name)
        return Scope(self, name)

    def in_scope(self, name: str) -> str:
        """A name with the scopes that are entered before it."""
        return "".join(f"{scope.name}{SEPARATOR}" for scope in self.scopes) + name if self.scopes else name

    # Sources.

    def input(
        self,
        name: str,
        *,
        sizes: Sequence[Size],
        dtype: DataTypeLike,
        strides: Sequence[Size] | None = None,
        owned: bool = False,
    ) -> Value:
        """A tensor given at every run; `owned`: the device takes it once, at the first run."""
        declared = {"dtype": dtype, "sizes": _kept(sizes), "strides": _kept(strides), "owned": owned}
        with Report(node=self._named(name)):
            desc = self.describe(**declared)
            return self._add_source(InputNode(self._take(name), desc, declared))

    def constant(self, name: str, data: Any, *, dtype: DataTypeLike | None = None) -> Value:
        """A tensor known in advance: an array, or numbers with a `dtype`; copies the data, unless it lies in `bytes`.

        With a `dtype`, numbers are converted by the rules of `dmlgraph.base.scalar`: floats are rounded, and a number
        that the type cannot hold is an error.
        """
        with Report(node=self._named(name)):
            if is_masked(data):
                raise OperatorError(MASKED, code="masked", hint=UNMASK)
            given = _numbers(data) if dtype is None else array_of(data, DataType.parse(dtype))
            lies_ready = isinstance(given, np.ndarray) and given.flags.c_contiguous and given.flags.aligned
            shared = lies_ready and given.dtype.isnative and never_changes(given)
            array = given.view(np.ndarray) if shared else np.array(given, order="C")
            desc = TensorDesc(dtype=array.dtype, sizes=array.shape)
            array = array.view(desc.dtype.numpy)  # equal types may be marked otherwise, such as "<f4"
            array.flags.writeable = False
            return self._add_source(ConstantNode(self._take(name), desc, Elements(array)))

    fill_value_constant = _source(FillValueConstant)
    fill_value_sequence = _source(FillValueSequence)
    diagonal_matrix = _source(DiagonalMatrix)
    diagonal_matrix1 = _source(DiagonalMatrix1)

    # Operators and outputs.

    def add(
        self,
        operator: type[Operator],
        tensors: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        name: str | None = None,
    ) -> tuple[Value | None, ...]:
        """Adds a node and returns its outputs in binding order, None for outputs that are left out.

        The functions of `dmlgraph` are a more convenient way to call this.

        Args:
            operator: its class.
            tensors: input field → Value, number, sequence of these, or None.
            attributes: the other fields, validated here; numbers in them may be expressions over dims.
            outputs: output field → requests (`{"dtype": …, "sizes": …, "strides": …}`).
            name: the node's name; by default derived from the operator's.

        Raises:
            DmlGraphError: the node is wrong; its problems have the node and field.
        """
        count = len(self._network)
        name = self._free(operator.name) if name is None else self._take(name)
        try:
            return self._add_operator(name, operator, tensors, attributes, outputs)
        except Exception:
            # A refused node leaves no trace: neither the fills made of its numbers nor its name.
            fills = list(self._network)[count:]
            self._network.remove_nodes_from(fills)
            for each in (*fills, name):
                self._release(each)
            raise

    def _add_operator(
        self,
        name: str,
        operator: type[Operator],
        tensors: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> tuple[Value | None, ...]:
        with Report(node=name, place=hint_on_numbers(tensors)) as report:
            values = operands.values(self, operator, tensors, outputs)
            given = {field: _describe(value) for field, value in values.items()}
            fields: dict[str, Any] = {}
            if attributes or outputs:
                attributes, outputs = _kept(attributes), _kept(outputs)
                fields = self._dims.resolve_fields(operator, attributes, outputs, report)
            key = None if report.problems else key_of(operator, self.level, given, fields)
            checked = self._checked.find(key)
            if checked is None:
                made = self._check(operator, given, fields, report)
                node = OperatorNode(name, made, attributes, outputs)
                checked = Checked(made, self._checked.shared(Outputs.of(node)))
                self._checked.keep(key, checked)
            else:
                node = OperatorNode(name, checked.operator, attributes, outputs)
        written = checked.outputs
        self._check_meaning(name, written)
        sources: list[Output | None] = []
        for value in values.values():
            if isinstance(value, list):
                sources += [(each.node, each.port) for each in value]
            else:
                sources.append(None if value is None else (value.node, value.port))
        self._network.insert(node, written, sources)
        return tuple(
            None if desc is None else Value.known(self, name, port, desc) for port, desc in enumerate(written.descs)
        )

    def _check(
        self, operator: type[Operator], given: dict[str, Any], fields: dict[str, Any], report: Report
    ) -> Operator:
        """The checked operator with inputs of these descriptions and these fields; `report` gets every problem, and may
        have known ones of the fields.
        """
        fields = fields | counts(operator, given, fields)
        descs = given
        with report.at():
            descs = operator.adapt(given, {field: fields.get(field) for field in operator.attribute_fields})
        if report.problems:  # other problems, which do not depend on tensors and dims
            report.add(*operator.field_problems(**descs, **fields))
            report.stop()
        checked = operator(**descs, **fields)
        report.add(*checked.level_problems(self.level))
        return checked

    def check_fields(
        self,
        operator: type[Operator],
        inputs: Iterable[str],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> None:
        """Checks the fields of a node whose inputs are unknown; `inputs` names the given ones.

        Raises:
            OperatorError: a field is wrong for any inputs.
        """
        with Report(OperatorError) as report:
            fields = self._dims.resolve_fields(operator, attributes, outputs, report)
            tensors = operator.fields
            for field in inputs:
                fields[field] = (_STAND_IN,) if tensors[field].kind is Kind.TENSORS else _STAND_IN
            report.add(*operator.field_problems(**fields))

    def output(self, name: str, value: Value) -> None:
        """Makes a value an output of the graph."""
        if not isinstance(value, Value):
            raise GraphError(
                operands.NOT_A_VALUE,
                code="not-a-value",
                field=f"outputs.{name}",
                got=value,
                hint=operands.one_of(value),
            )
        operands.own(self, value)
        _check_name(name)
        name = self.in_scope(name)
        if name in self._outputs:
            raise GraphError("there is already an output of this name", code="duplicate", field=f"outputs.{name}")
        self._outputs[name] = value.node, value.port

    def dim(self, name: str) -> Expression:
        """A dim as a number to compute with: `sizes=[g.dim("heads") * g.dim("depth")]`.

        Arithmetic on it gives expressions that follow the dim's size; text such as "1 / sqrt(depth)" is the same.
        """
        return self._dims.dim(name)

    def whole(self, size: Size, field: str) -> int:
        """The whole number that a size is: a number, a dim or an expression over dims.

        Raises:
            GraphError: it is not a whole number.
        """
        with Report(GraphError) as report:
            number: int = self._dims.resolve(size, field, report)
        return number

    # Queries.

    @property
    def dims(self) -> dict[str, int]:
        """The sizes of the dims, by name."""
        return self._dims.values

    @property
    def level(self) -> FeatureLevel:
        """The level at which nodes are checked."""
        return NEWEST if self.target is None else self.target

    @property
    def nodes(self) -> list[Node]:
        """All nodes in execution order."""
        return self._network.all_nodes()

    @property
    def inputs(self) -> list[InputNode]:
        return [node for node in self.nodes if isinstance(node, InputNode)]

    @property
    def outputs(self) -> dict[str, Value]:
        return {name: Value(self, node, port) for name, (node, port) in self._outputs.items()}

    @property
    def output_descs(self) -> dict[str, TensorDesc]:
        """The descriptions of the outputs, by name."""
        return {name: value.desc for name, value in self.outputs.items()}

    def node(self, name: str) -> Node:
        """The node of this name; raises GraphError if there is none."""
        if name not in self._network:
            raise GraphError(NO_NODE, code="unknown-node", node=name, hint=suggestion(name, self._network.nodes))
        return self._network.node_of(name)

    def desc(self, name: str, port: int) -> TensorDesc:
        """The description of an output of a node.

        Raises:
            GraphError: the node or the output does not exist, or the output is left out.
        """
        self.node(name)
        outputs = self._network.outputs_of(name)
        descs = outputs.descs
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < len(descs):
            allowed = f"0 to {len(descs) - 1}" if len(descs) > 1 else "0"
            raise GraphError(
                "there is no output of this number", code="unknown-output", node=name, got=port, allowed=allowed
            )
        desc = descs[port]
        if desc is None:
            path = outputs.paths[port]
            raise GraphError(
                "this optional output is left out",
                code="left-out",
                got=name + path,
                hint=f"ask for it: {path.lstrip('.')}: true",
            )
        return desc

    def producers(self, name: str) -> list[tuple[str, int, int]]:
        """The sources of a node: (node, its output port, the input port here), by input port."""
        return self._network.producers(name)

    def sources(self, name: str) -> tuple[Output | None, ...]:
        """What a node reads, by input port; None where an optional tensor is left out."""
        return self._network.sources_of(name)

    def writes(self, value: Value) -> bool:
        """Whether a node of the graph writes a value of this graph."""
        return self._network.writes(value.node, value.port, value.desc)

    def is_truth(self, name: str) -> bool:
        """Whether a node's output is 0 or 1 everywhere, as those of comparisons are, also through views."""
        node = self.node(name)
        while isinstance(node, OperatorNode) and node.operator.is_view:
            node = self.node(self.producers(node.name)[0][0])
        return isinstance(node, OperatorNode) and node.operator.is_truth

    def live_nodes(self) -> set[str]:
        """The names of the nodes on which an output depends."""
        return self._network.upstream(node for node, _ in self._outputs.values())

    def upstream(self, name: str) -> set[str]:
        """The names of a node and of all nodes on which it depends."""
        self.node(name)
        return self._network.upstream([name])

    def reference(self, name: str, port: int) -> str:
        """The reference to an output of a node in a graph file."""
        self.node(name)
        return name + self._network.outputs_of(name).paths[port]

    def value(self, reference: str) -> Value:
        """The value of a reference in a graph file: `node`, `node.output_index`, `node.outputs.1`.

        Names may contain dots.  A reference has one meaning: `_check_meaning` refuses ambiguous names.

        Raises:
            GraphError: the node does not exist, or has several outputs and the reference names none or an unknown one.
        """
        known: tuple[str, str] | None = None
        for name, path in readings(reference):
            outputs = self._network.find(name)
            if outputs is not None:
                port = outputs.ports.get(path)
                if port is not None:
                    desc = outputs.descs[port]
                    return Value(self, name, port) if desc is None else Value.known(self, name, port, desc)
                known = known or (name, path)
        if known is None:
            raise GraphError(
                NO_NODE, code="unknown-node", node=reference, hint=reference_hint(reference, self._network.nodes)
            )
        name, path = known
        paths = self._network.outputs_of(name).paths
        has = "one output" if len(paths) == 1 else "no such output" if path else "several outputs"
        few = len(paths) <= 8
        allowed = listing(name + each for each in paths) if few else f"{name}{paths[0]} to {name}{paths[-1]}"
        raise GraphError(f"'{shorten(name)}' has {has}", code="unknown-output", got=reference, allowed=allowed)

    def unused_dims(self) -> list[str]:
        """The dims that no size has used."""
        return self._dims.unused()

    def place(self, node: str | None, placed: Placed | None, fields: Mapping[str, Placed]) -> None:
        """Remembers the places in a file of a node and its fields, or (without a node) of fields of the graph."""
        self._places[node] = placed, fields

    def located(self, problem: Problem) -> Problem:
        """The problem with its place in the graph's file: its field's, else its node's."""
        return problem.at(location=self.location(problem.node, problem.field))

    def location(self, node: str | None, field: str | None = None) -> Location | None:
        """The place of a field in the graph's file, else of its node; None where that is unknown."""
        named, fields = self._places.get(node, (None, {}))
        path = field or ""
        placed = fields.get(path) or fields.get(path.partition(".")[0]) or named
        if placed is None:
            return None
        used_by = named.location.used_by if named is not None else None
        return placed.location if used_by is None else dataclasses.replace(placed.location, used_by=used_by)

    # Other forms.

    def with_dims(self, dims: Mapping[str, int]) -> Graph:
        """The same graph with other values for some of its dims.

        Raises:
            GraphError: a dim is unknown, or decides how many nodes the graph has.
            DmlGraphError: the graph is not legal with these sizes.
        """
        for dim, size in self._dims.changed(dims).items():
            if dim in self.fixed and size != self.dims[dim]:
                raise GraphError(
                    f"cannot have another value now: it is in {self.fixed[dim]}",
                    code="fixed-dim",
                    field=f"dims.{dim}",
                    got=size,
                    hint=f"load the file with it: dmlgraph.load(path, dims={{'{dim}': {size}}})",
                )
        other = Graph(self.name, target=self.target, dims=self._dims.changed(dims), allow=self.allow)
        values: dict[str, tuple[Value | None, ...]] = {}
        for node in self.nodes:
            if isinstance(node, InputNode):
                values[node.name] = (other.input(node.name, **node.declared),)
            elif isinstance(node, ConstantNode):
                values[node.name] = (other._add_source(ConstantNode(other._take(node.name), node.desc, node.elements)),)
            else:
                bound = {port: values[source][from_port] for source, from_port, port in self.producers(node.name)}
                tensors = node.operator.by_field(Role.INPUT, bound)
                values[node.name] = other.add(type(node.operator), tensors, node.attributes, node.outputs, node.name)
        for name, (source, from_port) in self._outputs.items():
            value = values[source][from_port]
            assert value is not None
            other.output(name, value)
        other._dims.used |= self._dims.used  # sizes of constants do not keep the names
        other._places |= self._places
        other.remarks, other.fixed, other.tests = self.remarks, dict(self.fixed), self.tests
        other.is_imported = self.is_imported
        return other

    def __copy__(self) -> Graph:
        """An independent graph with the same nodes, which never change."""
        other = Graph.__new__(type(self))
        other.__dict__.update(
            {
                key: value.copy() if isinstance(value, (dict, nx.Graph, Dims)) else value
                for key, value in vars(self).items()
            }
        )
        other.scopes = ()  # they are entered in this graph only
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        memo[id(self)] = other = self.__copy__()
        return other

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {plural(len(self._network), 'node')}, outputs {listing(self._outputs) or 'none'}>"

    # Entry points to higher layers.  Only here does a graph depend on them, through imports at call time.

    def __reduce__(self) -> tuple[Any, ...]:
        """The canonical document: other processes, and other versions of dmlgraph, know nothing else of a graph."""
        from dmlgraph.formats.yaml.portable import parts, restore

        return restore, (*parts(self), dict(self.fixed))

    def warnings(self) -> list[Problem]:
        """Probable mistakes that are legal, such as a node on which no output depends; see `dmlgraph.graph.lint`."""
        from dmlgraph.graph.lint import warnings

        return warnings(self)

    @staticmethod
    def _allowed(codes: Iterable[str]) -> tuple[str, ...]:
        """The codes, checked to be codes of warnings; see `dmlgraph.graph.lint`."""
        from dmlgraph.graph.lint import allowed

        return allowed(codes)

    def lower(self, *, fuse: bool | Iterable[str] = True) -> GraphDesc:
        """The graph in the form that DirectML gets; see `dmlgraph.compiler.lowering`.  `fuse` is as in `compile`."""
        from dmlgraph.devices.compile import lower_graph

        return lower_graph(self, fuse=fuse)[1]

    def compile(
        self,
        device: DeviceName = "auto",
        *,
        fuse: bool | Iterable[str] = True,
        dims: Mapping[str, int] | None = None,
        threads: int | None = None,
        debug: bool = False,
    ) -> Executable:
        """Compiles the graph for a device: "auto", "cpu", "reference", "directml", "directml:1", "directml:software".

        Args:
            device: where to run; `auto` chooses a hardware DirectML adapter if there is one, else `cpu`.
            fuse: whether to fuse nodes first (`dmlgraph.compiler.passes`): True: all rules that are on by default;
                False: no rules; else the rules of these names.
            dims: other values for the graph's dims.
            threads: the number of threads for a run on `cpu`; by default DMLGRAPH_THREADS, or one per processor.
            debug: require the device's own checks and messages.  Those of Direct3D 12 can only be switched on before
                the process first uses it: by the first compilation, or by DMLGRAPH_DEBUG=1.
        """
        from dmlgraph.devices import choose
        from dmlgraph.devices.compile import compile_graph

        graph = self if dims is None else self.with_dims(dims)
        return compile_graph(graph, choose(device, threads=threads, debug=debug), fuse=fuse, debug=debug)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the graph as a YAML graph file or, for a name that ends in `.onnx`, as an ONNX model.

        Large constants go into files beside it.
        """
        from dmlgraph.formats.load_save import save

        save(self, path)

    def _repr_svg_(self) -> str:
        """The picture that Jupyter shows; large graphs are folded.  See `dmlgraph.picture`."""
        from dmlgraph import picture

        return picture.notebook(self)

    # Implementation.

    def describe(self, **fields: Any) -> TensorDesc:
        """A tensor description whose sizes and strides may be expressions over dims.

        Raises:
            GraphError, TensorError: every problem of the fields.
        """
        with Report() as report:
            for key in ("sizes", "strides"):
                if key in fields:
                    fields[key] = self._dims.resolve(fields[key], key, report)
            return TensorDesc(**fields)

    def _add_source(self, node: InputNode | ConstantNode) -> Value:
        outputs = self._checked.shared(Outputs.of(node))
        self._check_meaning(node.name, outputs)
        self._network.insert(node, outputs, ())
        return Value(self, node.name, 0)

    def _check_meaning(self, name: str, outputs: Outputs) -> None:
        """Names may contain dots, but no reference may mean both a node and an output of another."""
        hint = "rename one of the two"
        for other, path in readings(name) if "." in name else ():
            if other in self._network and path in self._network.outputs_of(other).ports:
                clash = f"is also the reference to output '{path[1:]}' of '{shorten(other)}'"
                raise GraphError(clash, code="duplicate", node=name, hint=hint)
        for path in outputs.named:
            if name + path in self._network:
                clash = (
                    f"the reference to its output '{path[1:]}' is also the name of the node '{shorten(name + path)}'"
                )
                raise GraphError(clash, code="duplicate", node=name, hint=hint)

    def _named(self, name: object) -> str | None:
        """What an error calls the node of a given name."""
        return self.in_scope(name) if isinstance(name, str) else None

    def _take(self, name: str) -> str:
        _check_name(name)
        name = self.in_scope(name)
        if name in self._network:
            raise GraphError(
                "there is already a node of this name", code="duplicate", node=name, hint="names are unique in a graph"
            )
        return name

    def _free(self, base: str) -> str:
        """`base`, `base_1`, `base_2`, … in the entered scopes: the first that is free, found in constant time."""
        base = self.in_scope(base)
        for index in itertools.count(self._next.get(base, 0)):
            name = f"{base}_{index}" if index else base
            if name not in self._network:
                self._next[base] = index + 1
                return name
        raise AssertionError("unreachable")

    def _release(self, name: str) -> None:
        """Lets `_free` give a name again that no node has kept: `base` or `base_1`."""
        base, _, digits = name.rpartition("_")
        for begin, index in ((name, 0), (base, int(digits) if digits.isdecimal() else math.inf)):
            if self._next.get(begin, 0) > index:
                self._next[begin] = int(index)


def _kept(value: Any) -> Any:
    """A copy of the caller's value that later changes to its lists and arrays do not affect."""
    if isinstance(value, Mapping):
        return {key: _kept(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_kept(each) for each in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _numbers(data: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(data)
    except ValueError:  # NumPy's message does not say what to do
        raise OperatorError(
            "is not an array", code="kind", allowed="an array, or numbers in lists of equal lengths"
        ) from None


def _describe(value: Any) -> TensorDesc | tuple[TensorDesc, ...] | None:
    if isinstance(value, list):
        return tuple(each.desc for each in value)
    return None if value is None else value.desc


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
        raise GraphError("is not a name", code="name", got=name, allowed="printable text without spaces at its ends")
