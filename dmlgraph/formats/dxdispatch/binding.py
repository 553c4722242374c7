"""Dispatches on buffers → nodes and edges: tracks the content of buffers, and how operators read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from dmlgraph.base.errors import DmlGraphError, GraphError, plural
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.dxdispatch.buffers import Buffer
from dmlgraph.formats.dxdispatch.descs import OperatorDesc
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import paths_of
from dmlgraph.graph.value import Value

_NO_VIEWS = "the buffer holds another tensor than the operator reads: such views are not imported"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A resource at a byte offset, bound to a tensor; `path` is the binding's place in the command."""

    resource: str
    offset: int
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """A tensor that an operator reads: of an existing value, or of the buffer's initial content."""

    source: Source
    desc: TensorDesc  # as the operator reads it
    value: Value | None
    declared: TensorDesc | None  # the tensor that the model declares for the buffer

    @property
    def plans(self) -> tuple[TensorDesc, ...]:
        """Candidates for the value's description: as declared, without broadcast dimensions, as the operator reads
        it."""
        if self.value is not None:
            return (self.value.desc,) * 3
        return self.declared or self._narrow, self._narrow, self.desc

    @property
    def _narrow(self) -> TensorDesc:
        """The description without its zero strides: broadcast dimensions get size 1, to be broadcast again.

        Packed strides are left out.
        """
        if self.desc.strides is None:
            return self.desc
        pairs = zip(self.desc.sizes, self.desc.strides, strict=True)
        sizes = tuple(1 if stride == 0 else size for size, stride in pairs)
        narrow = self.desc.like(sizes=sizes, strides=self.desc.strides, owned=self.desc.owned)
        packed = self.desc.like(sizes=sizes, owned=self.desc.owned)
        return packed if same_addresses(narrow, packed) else narrow


class Binder:
    """Builds the graph, one dispatch at a time.

    Args:
        graph: nodes are added to it.
        buffers: the resources by name.
        are_inputs: the resources that are inputs if they are read before an operator writes them; others are constants.
        names: resource → name of its input or constant.
    """

    def __init__(
        self, graph: Graph, buffers: Mapping[str, Buffer], are_inputs: set[str], names: Mapping[str, str]
    ) -> None:
        self.graph, self.buffers, self.are_inputs = graph, buffers, are_inputs
        self.written: dict[str, Value] = {}  # the content of each buffer that an operator has written
        self._inputs: dict[str, Value] = {}
        self._constants: dict[tuple[str, int, TensorDesc], Value] = {}  # by resource, offset and description
        self._read: set[tuple[str, int]] = set()
        self._free = FreeNames()
        self._names = {resource: self._free.take(name) for resource, name in names.items()}

    def initial(self, resource: str) -> Value:
        """The value of a resource that no operator writes: an input or a constant.

        Raises:
            GraphError: the model does not declare its tensor.
        """
        tensor = self.buffers[resource].tensor
        if resource in self._inputs:
            return self._inputs[resource]
        if tensor is None:
            raise GraphError(
                "is not an output: no operator writes it", code="unknown-output", field="resource", got=resource
            )
        source = Source(resource, 0, "resource")
        return self._value(_Reading(source, tensor, None, tensor), tensor)

    def unread(self) -> Iterator[tuple[str, Value]]:
        """The resources whose final value no operator reads, with these values."""
        return ((name, value) for name, value in self.written.items() if (value.node, value.port) not in self._read)

    def dispatch(
        self,
        desc: OperatorDesc,
        inputs: Mapping[str, list[Source]],
        outputs: Mapping[str, list[Source]],
        name: str,
    ) -> None:
        """Adds the node of one dispatch, named `name` or with a suffix.

        Raises:
            GraphError: a graph cannot express a binding; fields are paths in the command.
            DmlGraphError: the operator is not legal; fields are the operator's.
        """
        readings = {
            field: [self._reading(*each) for each in zip(sources, _listed(desc.inputs[field]), strict=True)]
            for field, sources in inputs.items()
        }
        targets = [
            (source, each)
            for field, sources in outputs.items()
            for source, each in (zip(sources, _listed(desc.outputs[field]), strict=True) if sources else [(None, None)])
        ]
        for source, each in targets:
            if source is not None and each is not None:
                self._check_target(source, each, [other for other, _ in targets if other is not None])
        tensors = self._tensors(desc, readings)
        arrays = desc.operator.output_arrays
        paths = paths_of({field: len(_listed(desc.outputs[field])) if arrays[field] else None for field in arrays})
        name = self._free.take(name, {"", *paths})  # keeps references to its outputs unique
        values = self.graph.add(desc.operator, tensors, desc.attributes, self._asked(desc, tensors), name)
        self._read |= {
            (value.node, value.port) for each in tensors.values() for value in _listed(each) if value is not None
        }
        for value, (source, _) in zip(values, targets, strict=True):
            if source is not None and value is not None:
                self.written[source.resource] = value

    def _reading(self, source: Source, desc: TensorDesc) -> _Reading:
        self._check_size(source, desc)
        value = self.written.get(source.resource, self._inputs.get(source.resource))
        if value is not None and source.offset:
            raise GraphError("reads from the middle of a buffer", code="unsupported", field=source.path, hint=_NO_VIEWS)
        declared = None if source.offset else self.buffers[source.resource].tensor
        return _Reading(source, desc, value, declared)

    def _check_target(self, source: Source, desc: TensorDesc, targets: list[Source]) -> None:
        self._check_size(source, desc)
        if source.offset:
            raise GraphError(
                "writes into the middle of a buffer",
                code="unsupported",
                field=source.path,
                hint="give it a separate buffer",
            )
        if sum(other.resource == source.resource for other in targets) > 1:
            raise GraphError(
                "two outputs write to the same buffer", code="unsupported", field=source.path, got=source.resource
            )

    def _check_size(self, source: Source, desc: TensorDesc) -> None:
        size = self.buffers[source.resource].size
        if size is not None and source.offset + desc.total_bytes > size:
            raise GraphError(
                f"the buffer '{source.resource}' is too small for the tensor",
                code="sizes",
                field=source.path,
                got=plural(size, "byte"),
                allowed=f"{plural(source.offset + desc.total_bytes, 'byte')} or more",
            )

    def _tensors(self, desc: OperatorDesc, readings: Mapping[str, list[_Reading]]) -> dict[str, Any]:
        """The operator's input values by field.

        Initial content gets the first of its candidate descriptions that the operator broadcasts to its own.
        """
        for attempt in range(3):
            planned = {field: [each.plans[attempt] for each in of_field] for field, of_field in readings.items()}
            shaped = {field: _like(desc.inputs[field], each) for field, each in planned.items()}
            try:
                adapted = desc.operator.adapt(shaped, desc.attributes)
            except DmlGraphError:
                if attempt < 2:
                    continue
                raise
            unlike = [
                (each, found)
                for field, of_field in readings.items()
                for each, found in zip(of_field, _listed(adapted[field]), strict=True)
                if not self._reads_as(each, found)
            ]
            if not unlike:
                return {
                    field: _like(
                        desc.inputs[field],
                        [self._value(each, plan) for each, plan in zip(of_field, planned[field], strict=True)],
                    )
                    for field, of_field in readings.items()
                }
        reading, found = unlike[0]
        raise GraphError(
            _NO_VIEWS,
            code="unsupported",
            field=reading.source.path,
            got=str(reading.desc),
            allowed=str(found),
        )

    def _reads_as(self, reading: _Reading, found: TensorDesc) -> bool:
        """Whether the graph's node would read the same elements as the desc, in the same shape."""
        if reading.value is None and reading.source.resource not in self.are_inputs:
            return (found.dtype, found.sizes) == (reading.desc.dtype, reading.desc.sizes)
        return same_addresses(found, reading.desc)

    def _value(self, reading: _Reading, plan: TensorDesc) -> Value:
        """The value that is read; creates a node for initial content when it is first read this way."""
        if reading.value is not None:
            return reading.value
        source = reading.source
        if source.resource in self.are_inputs:
            return self._input(source, plan)
        key = (source.resource, source.offset, plan.like(strides=plan.strides))
        if key not in self._constants:
            name = self._names[source.resource]
            if any(resource == source.resource for resource, _, _ in self._constants):
                name = self._free.take(name)  # the same bytes as another tensor
            content = self.buffers[source.resource].content(source.offset, source.offset + plan.total_bytes)
            self._constants[key] = self.graph.constant(name, plan.unpack(content))
        return self._constants[key]

    def _input(self, source: Source, desc: TensorDesc) -> Value:
        if source.offset:
            raise GraphError(
                "reads from the middle of an input", code="unsupported", field=source.path, hint="make it a constant"
            )
        made = self._inputs.get(source.resource)  # for another tensor of the same dispatch
        if made is None:
            name = self._names[source.resource]
            made = self.graph.input(name, sizes=desc.sizes, dtype=desc.dtype, strides=desc.strides, owned=desc.owned)
            self._inputs[source.resource] = made
        elif not same_addresses(made.desc, desc):
            raise GraphError(_NO_VIEWS, code="unsupported", field=source.path, got=str(desc), allowed=str(made.desc))
        return made

    def _asked(self, desc: OperatorDesc, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The requests for outputs: none where the outputs follow from the inputs."""
        inputs = {field: _like(desc.inputs[field], [v.desc for v in _listed(each)]) for field, each in tensors.items()}
        wanted = [each for field in desc.outputs for each in (_listed(desc.outputs[field]) or [None])]
        with_outputs = {
            field: False if each is None and desc.operator.fields[field].optional else each
            for field, each in desc.outputs.items()
        }
        try:
            inferred = desc.operator(**desc.operator.adapt(inputs, desc.attributes), **desc.attributes).output_descs
        except DmlGraphError:
            return with_outputs
        same = len(inferred) == len(wanted) and all(
            found is want or (found is not None and want is not None and same_addresses(found, want))
            for found, want in zip(inferred, wanted, strict=True)
        )
        return {} if same else with_outputs


def _listed(value: Any) -> list[Any]:
    """A field's tensors as a list."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _like(original: Any, items: list[Any]) -> Any:
    """The items in the form of the field: None, a single one, or a tuple."""
    return None if original is None else tuple(items) if isinstance(original, (list, tuple)) else items[0]


def same_addresses(one: TensorDesc, other: TensorDesc) -> bool:
    """Whether two descriptions have the same type, shape and element addresses."""
    if (one.dtype, one.sizes) != (other.dtype, other.sizes):
        return False
    strides = zip(one.sizes, one.effective_strides, other.effective_strides, strict=True)
    return all(size == 1 or first == second for size, first, second in strides)
