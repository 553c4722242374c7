"""Graph → a model for DxDispatch; loading it gives the same graph."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import BindingError, GraphError, check_known
from dmlgraph.base.file_names import FileNames
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar, array_of
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.views import remove_views
from dmlgraph.devices.directml.target import target
from dmlgraph.files.mark import MARK, check_ours, signed
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats.arrays import INLINE_ELEMENTS
from dmlgraph.formats.dxdispatch.binding import same_addresses
from dmlgraph.formats.dxdispatch.buffers import sequence
from dmlgraph.formats.dxdispatch.descs import members, plain_number, tensor
from dmlgraph.formats.dxdispatch.names import operator_type
from dmlgraph.formats.dxdispatch.text import layout
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.graph.states import refuse_states
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]
NOTE = "note"  # the key of the mark, which the runner ignores


def save(
    graph: Graph, path: str | os.PathLike[str], *, inputs: Mapping[str, Any] | None = None, force: bool = False
) -> None:
    """Writes the graph as a DxDispatch model; large arrays go into .npy files beside it.

    Every operator on which an output depends becomes a dispatchable and a dispatch command, every value a buffer; the
    model prints the outputs.

    Args:
        graph: with at least one output.
        path: the JSON file.
        inputs: the content of inputs' buffers, by name; zeros by default.
        force: overwrite a file that somebody has changed, or that dmlgraph has not written: see `dmlgraph.files.mark`.

    Raises:
        DmlGraphError: the file is there, and is not as dmlgraph wrote it.
        GraphError: the graph has no outputs.
        BindingError: an array does not fit its input.
        OSError: a file cannot be written.
    """
    path = pathlib.Path(path)
    if not force:
        check_ours(path)
    files: dict[str, Array] = {}
    with enough_memory("write", graph):
        text = layout({NOTE: MARK} | _Writer(graph, inputs or {}, path.stem, files).model())
    with NewFiles() as new:
        for name, array in files.items():
            with new.open(path.parent / name) as stream:
                np.save(stream, array)
        with new.open(path) as stream:
            stream.write(signed(text.encode()))


def dumps(graph: Graph, *, inputs: Mapping[str, Any] | None = None) -> str:
    """The graph as a model's JSON text that contains all arrays; as `save`."""
    with enough_memory("write", graph):
        return layout(_Writer(graph, inputs or {}, "", None).model())


class _Writer:
    """Builds the three sections; `files` collects large arrays by file name; None: all are written as numbers."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Any], stem: str, files: dict[str, Array] | None) -> None:
        if not graph.outputs:
            raise GraphError(f"the graph '{graph.name}' has no outputs", code="no-outputs", hint="name at least one")
        refuse_states(graph, "a DxDispatch model")
        # Views are no operators of DirectML, and a buffer that is printed must be in the output's order.
        self.graph = IrGraph.of(graph, target(graph.level))
        remove_views(self.graph, shares_outputs=False)
        self.inputs, self.stem, self.files = inputs, stem, files
        self.resources: dict[str, Any] = {}
        self.dispatchables: dict[str, Any] = {}
        self.commands: list[Any] = []
        self._free_resources, self._free_dispatchables = FreeNames(), FreeNames()
        self._file_names = FileNames()
        self.buffers: dict[tuple[str, int], str] = {}  # the resource of each value
        self.outputs: dict[tuple[str, int], str] = {}  # operator outputs that are graph outputs → their first name
        for name, value in self.graph.outputs.items():
            if isinstance(self.graph.node(value.node), OperatorNode):
                self.outputs.setdefault(value, name)

    def model(self) -> dict[str, Any]:
        self._check_inputs()
        # The names of inputs, constants and outputs have priority over those of other values.
        nodes = self.graph.nodes
        for node in nodes:
            if isinstance(node, InputNode):
                self._add_buffer(node.name, node.name, 0, node.desc, self.inputs.get(node.name))
            elif isinstance(node, ConstantNode):
                self._add_buffer(node.name, node.name, 0, node.desc, node.data)
        for (name, port), output in self.outputs.items():
            self._add_buffer(output, name, port, self.graph.desc(name, port))
        for node in nodes:
            if isinstance(node, OperatorNode):
                self._dispatch(node)
        for name, value in self.graph.outputs.items():
            self.commands.append(self._shown(name, value))
        return {"resources": self.resources, "dispatchables": self.dispatchables, "commands": self.commands}

    def _operator(self, name: str) -> Operator:
        node = self.graph.node(name)
        assert isinstance(node, OperatorNode)
        return node.operator

    def _check_inputs(self) -> None:
        names = [node.name for node in self.graph.inputs]
        check_known(self.inputs, names, "input")

    # Resources.

    def _add_buffer(self, base: str, node: str, port: int, desc: TensorDesc, data: Any = None) -> str:
        """Adds a resource for a value; without data it is filled with zeros, which marks an input."""
        name = self._free_resources.take(base)
        self.buffers[node, port] = name
        if data is None:
            zeros = {"valueCount": _stored(desc, None).size, "value": 0}
            self.resources[name] = {"initialValuesDataType": _stored_type(desc.dtype).name, "initialValues": zeros}
        else:
            values = _stored(desc, _fitting(name, desc, data))
            self.resources[name] = {
                "initialValuesDataType": DataType.parse(values.dtype).name,
                "initialValues": self._initial(name, values),
            }
        return name

    def _initial(self, name: str, values: Array) -> Any:
        """The shortest initialiser of some values; a file name for many values."""
        dtype = DataType.parse(values.dtype)
        if values.size > INLINE_ELEMENTS:
            generated = _generator(values, dtype)
            if generated is not None:
                return generated
            if self.files is not None:
                file = f"{self._file_names.take(f'{self.stem}.{name}')}.npy"
                self.files[file] = values
                return {"sourcePath": file}
        return [plain_number(Scalar.of(each, dtype)) for each in values]

    # Dispatchables and commands.

    def _dispatch(self, node: OperatorNode) -> None:
        operator = node.operator
        for port, desc in enumerate(operator.output_descs):
            if desc is not None and (node.name, port) not in self.buffers:
                self._add_buffer(self.graph.reference(node.name, port), node.name, port, desc)
        sources = {}
        for source, from_port, port in self.graph.producers(node.name):
            sources[port] = self.buffers[source, from_port]
            content, read = self.graph.node(source), operator.input_descs[port]
            if not isinstance(content, OperatorNode) and read is not None and not same_addresses(content.desc, read):
                self.resources[sources[port]]["tensor"] = tensor(content.desc)
        targets = {port: self.buffers.get((node.name, port)) for port in range(len(operator.output_descs))}
        self._add_dispatch(node.name, operator, sources, targets)

    def _add_dispatch(
        self, name: str, operator: Operator, sources: Mapping[int, str], targets: Mapping[int, str | None]
    ) -> None:
        bound = {
            **_by_member(operator, Role.INPUT, sources),
            **_by_member(operator, Role.OUTPUT, targets),
        }
        owned = {
            name
            for name in bound
            if any(desc.owned for desc in _tensors(operator, name))  # bound once, by the dispatchable
        }
        with Report(node=name):
            desc = members(operator)
        name = self._free_dispatchables.take(name)
        self.dispatchables[name] = {"type": operator_type(type(operator)), "desc": desc}
        if owned:
            self.dispatchables[name]["bindings"] = {key: bound[key] for key in bound if key in owned}
        bindings = {key: each for key, each in bound.items() if key not in owned}
        self.commands.append({"type": "dispatch", "dispatchable": name, "bindings": bindings})

    def _shown(self, name: str, value: Source) -> dict[str, Any]:
        """The command that prints an output.

        Adds `output`, which the runner ignores, where the resource has another name, or no operator writes it, so that
        it would not be recognised as an output.  In the latter case it also declares the resource's tensor.
        """
        resource = self.buffers[value]
        if value not in self.outputs:
            self.resources[resource]["tensor"] = tensor(self.graph.desc(*value))
        plain = self.outputs.get(value) == name == resource
        return {"type": "print", "resource": resource} | ({} if plain else {"output": name})


def _by_member(operator: Operator, role: Role, resources: Mapping[int, str | None]) -> dict[str, Any]:
    """Resources by port → resources by the member name of the tensor in the runner."""
    members = operator.fields
    bound = operator.by_field(role, resources)
    return {
        members[field].name: list(each) if isinstance(each, tuple) else each
        for field, each in bound.items()
        if each is not None
    }


def _tensors(operator: Operator, name: str) -> Iterator[TensorDesc]:
    """The tensors at a member of the struct."""
    member = next(member for member in operator.members if member.name == name)
    value = getattr(operator, member.field or "")
    yield from value if isinstance(value, tuple) else (value,)


def _fitting(name: str, desc: TensorDesc, data: Any) -> Array:
    """An input's array in the input's type.

    Raises:
        BindingError: another shape, or numbers that the type cannot hold.
    """
    with Report(BindingError, field=name):
        array = array_of(data, desc.dtype)
    if array.shape != desc.sizes:
        raise BindingError(
            "has another shape", code="sizes", field=name, got=list(array.shape), allowed=str(list(desc.sizes))
        )
    return array


def _stored_type(dtype: DataType) -> DataType:
    """The type in which a buffer's content is written; 4-bit numbers, which the runner lacks, are packed in bytes."""
    return DataType.UINT8 if dtype.bits == 4 else dtype


def _stored(desc: TensorDesc, data: Array | None) -> Array:
    """The content of a tensor's buffer as a list of numbers.

    Floats that include a NaN with other bits than the usual one are written as integers of their bits.
    """
    size = (desc.span * desc.dtype.bits + 7) // 8
    if data is None:
        return np.zeros(size * 8 // _stored_type(desc.dtype).bits, _stored_type(desc.dtype).numpy)
    values: Array = desc.pack(data)[:size].view(_stored_type(desc.dtype).numpy)
    bits = values.view(f"u{values.itemsize}")
    if desc.dtype.is_float and (bits[np.isnan(values)] != _usual_nan(desc.dtype)).any():
        return bits
    return values


def _usual_nan(dtype: DataType) -> int:
    return Scalar.of(float("nan"), dtype).bits


def _generator(values: Array, dtype: DataType) -> dict[str, Any] | None:
    """The constant or sequence that makes exactly these values, or None."""
    first = Scalar.of(values[0], dtype)
    with np.errstate(all="ignore"):
        delta = Scalar.of(values[1] - values[0], dtype)
    bits = values.view(f"u{values.itemsize}")
    if first.bits and (bits == first.bits).all():
        return {"valueCount": values.size, "value": plain_number(first)}
    if sequence(first, delta, values.size).tobytes() == values.tobytes():
        return {"valueCount": values.size, "valueStart": plain_number(first), "valueDelta": plain_number(delta)}
    return None
