"""A model of DxDispatch → Graph, with every error at its line and column."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Collection, Iterator
from typing import Any

from dmlgraph.base.errors import OperatorError, Problem, listing, suggestion
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.report import DocumentReport, Part, Report
from dmlgraph.formats.dxdispatch.binding import Binder, Source
from dmlgraph.formats.dxdispatch.buffers import Buffer, read_buffer
from dmlgraph.formats.dxdispatch.descs import OperatorDesc, read_operator
from dmlgraph.formats.dxdispatch.names import member_path
from dmlgraph.formats.dxdispatch.text import parse
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.operator import Operator

SECTIONS = ("resources", "dispatchables", "commands")
_OTHER_DISPATCHABLES = {
    "hlsl": "a compute shader in HLSL",
    "onnx": "an ONNX model",
    "dmlserializedgraph": "a serialised DirectML graph",
    "dml_graph_desc": "a graph of other dispatchables",
}
_UNKNOWN_TENSOR = "is not a tensor of the operator"
_COMMANDS = ("dispatch", "print", "writeFile")
_SILENT_COMMANDS = ("printinittemporary", "printexectemporary")  # they print memory that only the runner has


def load(
    path: str | os.PathLike[str],
    *,
    inputs: Collection[str] = (),
    constants: Collection[str] = (),
    folder: str | os.PathLike[str] | None = None,
) -> Graph:
    """The graph of a DxDispatch model.

    The dispatched operators become nodes, the buffers between them edges, in the order of the commands.  A buffer that
    is read before any operator writes it becomes an input if it is deferred or filled with the constant 0, else a
    constant.  Buffers that are printed or written to a file become outputs; without any, those that are written and not
    read.  Execution flags and compile options of the runner are ignored.

    Args:
        path: the model's JSON file.
        inputs: more buffers that become inputs, whatever their content.
        constants: buffers that become constants even if they hold only zeros.
        folder: the only folder for files of initial values; by default the model's.

    Raises:
        DocumentError: every problem found, each with its line and column.
    """
    path = pathlib.Path(path)
    home = path.parent if folder is None else pathlib.Path(folder)
    with enough_memory(f"read '{path}'"):
        return _read(read_text(path), os.fspath(path), _name(path.stem) or "graph", home, inputs, constants)


def loads(
    text: str,
    *,
    inputs: Collection[str] = (),
    constants: Collection[str] = (),
    folder: str | os.PathLike[str] | None = None,
    name: str = "graph",
) -> Graph:
    """The graph of a model's JSON text; as `load`, but without a `folder` it cannot use files."""
    with enough_memory("read the model"):
        return _read(text, "<text>", name, None if folder is None else pathlib.Path(folder), inputs, constants)


def _read(
    text: str,
    file: str,
    name: str,
    folder: pathlib.Path | None,
    inputs: Collection[str],
    constants: Collection[str],
) -> Graph:
    graph = Graph(name)
    with DocumentReport() as report:
        _Reader(parse(text, file), graph, folder, report).read(inputs, constants)
    return graph


def _name(text: str) -> str:
    """The text as a name in a graph: printable, without spaces at its ends; maybe empty."""
    return "".join(each if each.isprintable() else "_" for each in text).strip()


@dataclasses.dataclass(frozen=True, slots=True)
class _Dispatch:
    """One dispatch command: the operator, and the resource of each of its tensors."""

    name: str
    tree: Tree  # of the command
    desc: OperatorDesc
    inputs: dict[str, list[Source]]  # by field, one source for each tensor
    outputs: dict[str, list[Source]]

    @property
    def reads(self) -> dict[str, None]:
        """The resources it reads, in order."""
        return dict.fromkeys(source.resource for sources in self.inputs.values() for source in sources)

    @property
    def writes(self) -> set[str]:
        """The resources it writes."""
        return {source.resource for sources in self.outputs.values() for source in sources}


@dataclasses.dataclass(frozen=True, slots=True)
class _Show:
    """A command that prints a resource or writes it to a file, and the name of the output.

    `is_output`: a member of ours in the model marks it; then it may also be an input, a constant, or the same value as
    another output.
    """

    tree: Tree
    resource: str
    name: str
    is_output: bool

    @property
    def reads(self) -> dict[str, None]:
        """The resource, if it must have a value."""
        return {self.resource: None} if self.is_output else {}

    @property
    def writes(self) -> set[str]:
        return set()


class _Reader:
    """Reads the sections one by one and notes problems; skips silently what depends on broken parts."""

    def __init__(self, tree: Tree, graph: Graph, folder: pathlib.Path | None, report: Report) -> None:
        self.tree, self.graph, self.folder, self.report = tree, graph, folder, report
        self.buffers: dict[str, Buffer | None] = {}  # None: broken
        self.descs: dict[str, OperatorDesc | None] = {}

    def read(self, inputs: Collection[str], constants: Collection[str]) -> None:
        if not isinstance(self.tree.value, dict):
            self.report.problem(
                "a model is an object", self.tree, "syntax", got=self.tree.plain, allowed=listing(SECTIONS)
            )
            return
        for name, tree in self._section("resources"):
            self.buffers[name] = None
            with self._noting(tree, name):
                self.buffers[name] = read_buffer(tree, self.folder)
        for name, tree in self._section("dispatchables"):
            self.descs[name] = None
            if _other(tree) is None:
                with self._noting(tree, name):
                    self.descs[name] = read_operator(tree)
        commands = list(self._commands())
        self._check_roles(inputs, constants)
        if not self.report.problems:
            self._build(commands, inputs, constants)

    # The graph.

    def _build(self, commands: list[_Dispatch | _Show], inputs: Collection[str], constants: Collection[str]) -> None:
        """Adds the nodes of the dispatches, and the outputs, in order."""
        if not any(isinstance(command, _Dispatch) or command.is_output for command in commands):
            self.report.problem("no operator is dispatched", self.tree, "no-outputs", "commands")
            return
        buffers = {name: buffer for name, buffer in self.buffers.items() if buffer is not None}
        are_inputs = {name for name, each in buffers.items() if each.is_blank} - set(constants) | set(inputs)
        names = {name: _name(name) or "buffer" for name in _read_first(commands)}
        binder = Binder(self.graph, buffers, are_inputs, names)
        outputs: list[tuple[str, Value]] = []
        broken: set[str] = set()  # resources that broken dispatches would have written
        for command in commands:
            if not broken.isdisjoint(command.reads):
                broken |= command.writes
            elif isinstance(command, _Dispatch):
                broken |= command.writes
                with self._noting(command.tree, command.name):
                    try:
                        binder.dispatch(command.desc, command.inputs, command.outputs, _name(command.name) or "node")
                        broken -= command.writes
                    except OperatorError as error:  # others are of a binding or of the graph: in the command
                        self._note_members(error, command)
            else:
                with self._noting(command.tree):
                    outputs += self._shown(command, binder, [value for _, value in outputs])
        if self.report.problems:
            return
        free = FreeNames()
        for name, value in outputs or binder.unread():
            self.graph.output(free.take(_name(name) or "output"), value)
        if not self.graph.outputs:
            self.report.problem(
                "every result is read by another dispatch", self.tree, "no-outputs", hint="print the one that you want"
            )

    @staticmethod
    def _shown(command: _Show, binder: Binder, shown: Collection[Value]) -> Iterator[tuple[str, Value]]:
        """The output for a shown resource, if any: each value once, except that every marked output counts."""
        value = binder.written.get(command.resource)
        if command.is_output:
            yield command.name, binder.initial(command.resource) if value is None else value
        elif value is not None and not any((value.node, value.port) == (each.node, each.port) for each in shown):
            yield command.name, value  # a resource that no operator has written is not an output

    def _check_roles(self, inputs: Collection[str], constants: Collection[str]) -> None:
        for option, names in (("inputs", inputs), ("constants", constants)):
            for name in names:
                if name not in self.buffers:
                    hint = suggestion(name, self.buffers)
                    self.report.problem(
                        "there is no resource of this name", self.tree, "unknown-resource", option, got=name, hint=hint
                    )
                elif name in inputs and name in constants:
                    self.report.problem(
                        "cannot be both an input and a constant", self.tree, "duplicate", option, got=name
                    )

    # Commands.

    def _commands(self) -> Iterator[_Dispatch | _Show]:
        """The dispatches and shown resources, in order."""
        tree = self.tree.value.get("commands")
        if tree is None or not isinstance(tree.value, list):
            self.report.problem("must be a list of commands", tree or self.tree, "kind", "commands")
            return
        for command in tree.value:
            with self._noting(command):
                result = self._command(command)
                if result is not None:
                    yield result

    def _command(self, tree: Tree) -> _Dispatch | _Show | None:
        if not isinstance(tree.value, dict) or not isinstance(tree.plain.get("type"), str):
            raise OperatorError(
                "must be an object with a type", code="kind", got=tree.plain, allowed=listing(_COMMANDS)
            )
        kind: str = tree.value["type"].value
        if kind.lower() in _SILENT_COMMANDS:
            return None
        if kind.lower() == "dispatch":
            return self._dispatch(tree)
        if kind.lower() in ("print", "writefile"):
            name = self._known(tree.plain.get("resource"), self.buffers, "resource")
            output = tree.plain.get("output")  # ours: the runner ignores it
            is_output = isinstance(output, str)
            return _Show(tree, name, output if is_output else name, is_output)
        raise OperatorError(
            "is not a command",
            code="unknown-name",
            field="type",
            got=kind,
            allowed=listing(_COMMANDS),
            hint=suggestion(kind, _COMMANDS),
        )

    def _dispatch(self, tree: Tree) -> _Dispatch | None:
        name = self._known(tree.plain.get("dispatchable"), self.descs, "dispatchable")
        dispatchable = self.tree.value["dispatchables"].value[name]
        other = _other(dispatchable)
        if other is not None:
            message = f"'{name}' is {other}: only operators of DirectML become nodes"
            raise OperatorError(message, code="unsupported", field="dispatchable")
        bindings = tree.value.get("bindings")
        if bindings is None or not isinstance(bindings.value, dict):
            raise OperatorError("must be an object", code="kind", field="bindings", hint='such as {"InputTensor": "x"}')
        desc = self.descs[name]
        if desc is None:
            return None
        initial = dispatchable.value.get("bindings")  # of tensors that DirectML owns
        bound = {
            **({} if initial is None or not isinstance(initial.value, dict) else initial.value),
            **bindings.value,
        }
        self._check_bind_points(bound, desc.operator)
        tensors = {**desc.inputs, **desc.outputs}
        sources = {field: list(self._sources(desc.operator, field, tensors[field], bound)) for field in tensors}
        return _Dispatch(
            name,
            tree,
            desc,
            {field: sources[field] for field in desc.inputs},
            {field: sources[field] for field in desc.outputs},
        )

    def _check_bind_points(self, bound: dict[str, Tree], operator: type[Operator]) -> None:
        known = [member.name for member in operator.members if member.role is not None]
        unknown = [
            Problem(
                _UNKNOWN_TENSOR,
                None,
                f"bindings.{key}",
                None,
                listing(known),
                suggestion(key, known),
                code="unknown-field",
            )
            for key in bound
            if key not in known
        ]
        if unknown:
            raise OperatorError(unknown)

    def _sources(self, operator: type[Operator], field: str, descs: Any, bound: dict[str, Tree]) -> Iterator[Source]:
        """The bindings of the tensor or tensors of a field."""
        member = operator.fields[field]
        count = 0 if descs is None else len(descs) if isinstance(descs, (list, tuple)) else 1
        tree = bound.get(member.name)
        trees = [] if tree is None else tree.value if isinstance(tree.value, list) else [tree]
        if len(trees) != count:
            message = "must be bound to one buffer for each tensor" if trees else "no buffer is bound here"
            raise OperatorError(
                message, code="count", field=f"bindings.{member.name}", got=len(trees) or None, allowed=str(count)
            )
        for index, each in enumerate(trees):
            path = f"bindings.{member.name}" + (f".{index}" if isinstance(tree and tree.value, list) else "")
            yield self._source(each, path)

    def _source(self, tree: Tree, path: str) -> Source:
        """A resource at an element offset: its name, or `{"name": …, "elementOffset": …}`."""
        binding = tree.plain if isinstance(tree.value, dict) else {"name": tree.plain}
        name = self._known(binding.get("name"), self.buffers, path)
        buffer = self.buffers[name]
        dtype = buffer.dtype if buffer is not None else None
        offset = binding.get("elementOffset", 0)
        size = binding.get("elementSizeInBytes", 0) or (dtype.bits // 8 if dtype else 1)
        for key, value in (("elementOffset", offset), ("elementSizeInBytes", size)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise OperatorError("must be a whole number", code="kind", field=f"{path}.{key}", got=value)
        return Source(name, offset * size, path)

    def _known(self, name: Any, known: Collection[str], field: str) -> str:
        if not isinstance(name, str) or name not in known:
            hint = suggestion(name, known) if isinstance(name, str) else None
            raise OperatorError("nothing has this name", code="unknown-resource", field=field, got=name, hint=hint)
        return name

    # Problems and their places.

    def _section(self, section: str) -> Iterator[tuple[str, Tree]]:
        tree = self.tree.value.get(section)
        if tree is None or not isinstance(tree.value, dict):
            self.report.problem("must be an object", tree or self.tree, "kind", section, got=tree and tree.plain)
        else:
            yield from tree.value.items()

    def _noting(self, tree: Tree, node: str | None = None) -> Part:
        """Notes the problems of an error raised inside, with their places, and continues."""

        def place(problem: Problem) -> Problem:
            found = tree.find(problem.field, key=problem.code == "unknown-field")
            return dataclasses.replace(problem, node=node, location=found.location)

        return self.report.at(place=place)

    def _note_members(self, error: OperatorError, command: _Dispatch) -> None:
        """Notes the problems of an operator, with the members in the dispatchable as their fields."""

        def named(problem: Problem) -> Problem:
            field = problem.field and f"{command.desc.prefix}{member_path(command.desc.operator, problem.field)}"
            return dataclasses.replace(problem, field=field)

        with self._noting(self.tree.value["dispatchables"].value[command.name], command.name):
            raise error.with_problems(map(named, error.problems))


def _other(tree: Tree) -> str | None:
    """A phrase for a dispatchable that is not an operator; None for an operator."""
    kind = tree.plain.get("type") if isinstance(tree.value, dict) else None
    return _OTHER_DISPATCHABLES.get(kind.lower()) if isinstance(kind, str) else None


def _read_first(commands: list[_Dispatch | _Show]) -> list[str]:
    """The resources that are read before any operator has written them."""
    written: set[str] = set()
    first: dict[str, None] = {}
    for command in commands:
        first |= dict.fromkeys(name for name in command.reads if name not in written)
        written |= command.writes
    return list(first)
