"""Graph → a graph file; loading it gives the same graph."""

from __future__ import annotations

import contextlib
import io
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from dmlgraph.base.errors import GraphError
from dmlgraph.base.file_names import FileNames
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph, not_saved
from dmlgraph.files.mark import MARK, check_ours, signed
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats import safetensors
from dmlgraph.formats.arrays import INLINE_ELEMENTS, to_stored
from dmlgraph.formats.text_tree.tree import resolve
from dmlgraph.formats.yaml.declarations import FORMAT_VERSION
from dmlgraph.graph.dims import is_computed
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode, StateNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.common.subscripts import joined
from dmlgraph.operators.declaration.fields import Kind, Role, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.outputs import OutputSpec

if TYPE_CHECKING:
    from dmlgraph.formats.yaml.contents import Content

# The levels of a section that are not in one line.
_BLOCKS = {"inputs": 1, "states": 1, "constants": 1, "nodes": 1, "workarounds": 1, "tests": 2}


def save(graph: Graph, path: str | os.PathLike[str], *, weights: str | None = None, force: bool = False) -> None:
    """Writes the graph to a YAML file, and its large constants to .npy files beside it.

    Args:
        graph: not fused.
        path: the YAML file.
        weights: the name of one safetensors file for the large constants, in place of the .npy files.
        force: overwrite a file that somebody has changed, or that dmlgraph has not written: see `dmlgraph.files.mark`.

    Raises:
        DmlGraphError: the file is there, and is not as dmlgraph wrote it.
        OSError: a file cannot be written.
    """
    path = pathlib.Path(path)
    if not force:
        check_ours(path)
    with enough_memory("write", graph):
        text, stored = _document(graph, path.stem, weights)
    with NewFiles() as new:
        if weights is not None and stored.tensors:
            with new.open(path.parent / weights) as stream:
                safetensors.write(stream, stored.tensors)
        for name, array in stored.files.items():
            with new.open(path.parent / name) as stream:
                np.save(stream, array)
        with new.open(path) as stream:
            stream.write(signed(f"# {MARK}\n{text}".encode()))


def dumps(graph: Graph) -> str:
    """The graph as YAML text.

    Raises:
        GraphError: a constant is too large to be written as numbers, or the graph is fused.
    """
    with enough_memory("write", graph):
        text, stored = _document(graph, "graph", None)
    if stored.files:
        raise GraphError(
            "has constants that need separate files: save it to a file", code="no-folder", got=sorted(stored.files)
        )
    return text


def parts(graph: Graph) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """The graph as text, and the arrays of the files it names: of every constant, however small.

    Raises:
        GraphError: the graph is fused.
    """
    with enough_memory("write", graph):
        text, stored = _document(graph, "graph", None, inline=0)
    return text, stored.files


def _document(graph: Graph, stem: str, weights: str | None, *, inline: int = INLINE_ELEMENTS) -> tuple[str, _Stored]:
    """The text, and the arrays of the files it names; constants of up to `inline` elements are in the text."""
    if isinstance(graph, IrGraph):
        raise not_saved("a graph file")
    stored, next_values = _Stored(stem, weights, inline), graph.next_values
    sections: dict[str, dict[str, Any]] = {"inputs": {}, "states": {}, "constants": {}, "nodes": {}}
    for node in graph.nodes:
        if isinstance(node, InputNode):
            sections["inputs"][node.name] = _input(node)
        elif isinstance(node, StateNode):
            sections["states"][node.name] = _state(node, next_values.get(node.name), stored)
        elif isinstance(node, ConstantNode):
            fields = {"dtype": str(node.desc.dtype), "sizes": list(node.desc.sizes)}
            content = stored.content(node.name, node.data, node.desc.dtype)
            sections["constants"][node.name] = fields | content if "data" in content else content | fields
        else:
            sections["nodes"][node.name] = _operator(graph, node)
    top: dict[str, Any] = {"dmlgraph": FORMAT_VERSION, "name": graph.name}
    if graph.target is not None:
        top["target"] = str(graph.target)
    if graph.origin.fused:
        top["fused"] = True
    if graph.allow:
        top["allow"] = list(graph.allow)
    if graph.dims:
        top["dims"] = graph.dims
    fixed = {dim: why for dim, why in graph.origin.fixed.items() if dim in graph.dims}
    if fixed:
        top["fixed"] = fixed
    top |= {name: section for name, section in sections.items() if section}
    top["outputs"] = {name: value.reference for name, value in graph.outputs.items()}
    if all(name == reference for name, reference in top["outputs"].items()):
        top["outputs"] = list(top["outputs"])
    if graph.origin.training is not None:
        top["training"] = graph.origin.training.plain()
    if graph.origin.workarounds:
        top["workarounds"] = [each.plain() for each in graph.origin.workarounds]
    if graph.origin.tests:
        renamed = _test_files(graph, stem, stored)
        top["tests"] = {test.name: test.plain(renamed) for test in graph.origin.tests.values()}
    return _emit(top), stored


READABLE = 8  # elements that are in the text of a document which has one file for all constants


class _Stored:
    """Where the arrays of a document are: in its text, or in files.

    Args:
        stem: the beginning of files' names.
        weights: the name of one file for all constants; None: each has its own.
        inline: the most elements that are in the text.

    Attributes:
        files: the arrays by file.
        tensors: the arrays in the one file, by the tensor's name.
    """

    def __init__(self, stem: str, weights: str | None, inline: int) -> None:
        self.files: dict[str, np.ndarray[Any, Any]] = {}
        self.tensors: dict[str, np.ndarray[Any, Any]] = {}
        self.names = FileNames()
        # Where there is a file for all, the text has only what people may want to read: not a line for each bias.
        self._stem, self._weights = stem, weights
        self._inline = inline if weights is None else min(inline, READABLE)

    def content(self, name: str, array: np.ndarray[Any, Any], dtype: DataType) -> dict[str, Any]:
        """The array as fields of a document."""
        if array.size <= self._inline:
            return {"data": [Scalar.of(each, dtype).plain for each in array.ravel()]}
        if self._weights is not None:
            self.tensors[name] = to_stored(array, dtype)
            return {"file": self._weights, "tensor": name}
        file = f"{self.names.take(f'{self._stem}.{name}')}.npy"
        self.files[file] = to_stored(array, dtype)
        return {"file": file}


def _test_files(graph: Graph, stem: str, stored: _Stored) -> dict[Content, str]:
    """New names for the files of the graph's tests, whose arrays become stored ones.

    A file that cannot be read keeps its name: a graph can be saved whatever its tests lack.
    """
    renamed: dict[Content, str] = {}
    for test in graph.origin.tests.values():
        for section, name, content in test.contents:
            if content.file is not None:
                with contextlib.suppress(GraphError):
                    array = content.stored()
                    renamed[content] = f"{stored.names.take(f'{stem}.tests.{test.name}.{section}.{name}')}.npy"
                    stored.files[renamed[content]] = array
    return renamed


def _input(node: InputNode) -> dict[str, Any]:
    desc = node.declared
    fields = {"dtype": str(node.desc.dtype), "sizes": _plain(desc["sizes"])}
    if desc["strides"] is not None:
        fields["strides"] = _plain(desc["strides"])
    return fields | ({"owned": True} if desc["owned"] else {})


def _state(node: StateNode, after: Value | None, stored: _Stored) -> dict[str, Any]:
    fields: dict[str, Any] = {"dtype": str(node.desc.dtype), "sizes": _plain(node.declared["sizes"])}
    if isinstance(node.initial, Scalar):
        fields["initial"] = {"value": node.initial.plain}
    elif node.initial is not None:
        fields["initial"] = stored.content(node.name, node.initial.array, node.desc.dtype)
    if node.grows is not None:
        fields["grows"] = node.grows
    if after is not None:
        fields["next" if node.grows is None else "append"] = after.reference
    return fields


def _operator(graph: Graph, node: OperatorNode) -> dict[str, Any]:
    operator = node.operator
    sources = {port: graph.reference(source, from_port) for source, from_port, port in graph.producers(node.name)}
    fields: dict[str, Any] = {"op": operator.name}
    for field, reference in operator.by_field(Role.INPUT, sources).items():
        if reference is not None:
            fields[field] = list(reference) if isinstance(reference, tuple) else reference
    fields |= _attributes(type(operator), operator.attributes, node.attributes)
    return fields | {field: _output(asked) for field, asked in node.outputs.items() if asked is not None}


def _attributes(operator: type[Operator], attributes: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that were given and differ from the default; expressions are written as given."""
    fields = {}
    for name, value in attributes.items():
        member = operator.fields[name]
        if name not in given or value == member.default:
            continue
        computed = is_computed(given[name], member.kind.form.computed)
        whole = joined(value) if member.kind is Kind.INDEX else value
        fields[name] = _plain(given[name]) if computed else _plain(whole)
    return fields


def _output(asked: Any) -> Any:
    if isinstance(asked, (TensorDesc, OutputSpec)):
        spec = OutputSpec.of(asked)
        if spec.wanted is False:
            return False
        asked = {key: getattr(spec, key) for key in OutputSpec.MEMBERS}
    if isinstance(asked, Mapping):
        fields = {key: value for key, value in asked.items() if value is not None}
        if "dtype" in fields:
            fields["dtype"] = str(DataType.parse(fields["dtype"]))
        return {key: _plain(value) for key, value in fields.items()}
    return [_output(each) for each in asked] if isinstance(asked, (list, tuple)) else _plain(asked)


def _plain(value: Any) -> Any:
    """A field's value for YAML."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Scalar):
        return value.plain
    if isinstance(value, ScaleBias):
        return {"scale": _plain(value.scale), "bias": _plain(value.bias)}
    if isinstance(value, FusedActivation):
        attributes = _attributes(value.operator, value.attributes, value.attributes)
        return {"op": value.name} | attributes if attributes else value.name
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and math.isfinite(value):
        return float(str(np.float32(value)))  # the shortest decimal of this float32
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _emit(top: Mapping[str, Any]) -> str:
    """Sections as blocks, one declaration per line."""
    stream = io.StringIO()
    yaml.emit(_events(top), stream, Dumper=yaml.SafeDumper, width=math.inf, allow_unicode=True)
    return stream.getvalue()


def _events(top: Mapping[str, Any]) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _value_events(top, depth=0)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _value_events(value: Any, depth: int, section: str = "") -> Iterator[yaml.Event]:
    if isinstance(value, Mapping):
        block = depth <= _BLOCKS.get(section, 0) and value
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not block)
        for key, item in value.items():
            yield _scalar_event(key)
            yield from _value_events(item, depth + 1, section or key)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        in_line = depth > _BLOCKS.get(section, 0) or not value
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=in_line)
        for item in value:
            yield from _value_events(item, depth + 1, section)
        yield yaml.SequenceEndEvent()
    else:
        yield _scalar_event(value)


def _scalar_event(value: Any) -> yaml.ScalarEvent:
    if isinstance(value, str):
        text, quoted = value, resolve(value) != value
    elif isinstance(value, bool) or value is None:
        text, quoted = {True: "true", False: "false", None: "null"}[value], False
    elif isinstance(value, float) and not math.isfinite(value):
        text, quoted = ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf", False
    else:
        text, quoted = repr(value), False
    return yaml.ScalarEvent(None, None, (not quoted, True), text, style='"' if quoted else None)
