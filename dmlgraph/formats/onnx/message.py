"""A model's message is checked before onnx-ir reads it, and put in one form.

onnx-ir takes the last of things that are there twice, and leaves out what it does not know.  Here names have one
meaning each, the domain of ONNX's own operators is "", and sparse tensors have all their numbers.

ONNX stores the numbers of a tensor in `raw_data`, in one of six typed fields, in another file, or as those that are not
0.  Afterwards they are in `raw_data`, bit by bit as they were, or external with an offset and a length.
"""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import AttributeProto, TensorProto

from dmlgraph.base.errors import GraphError, ModelError, listing
from dmlgraph.base.report import Report
from dmlgraph.files.folders import find_file
from dmlgraph.formats.onnx.names import as_text
from dmlgraph.formats.onnx.weights import Places

Array = np.ndarray[Any, Any]
MOST_DENSE = 1 << 26  # elements of all sparse tensors of a model together
_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_KNOWN = frozenset(map(int, ir.DataType)) & frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_WIDTHS = {"float_data": 4, "double_data": 8}  # bytes of the numbers of fields that protobuf writes as they are


class Numbers:
    """Settles the tensors of a model.

    Args:
        folder: holds the files of external data; None if the model is not a file.
        places: of weights in the model's own file.
    """

    def __init__(self, folder: pathlib.Path | None, places: Places | None) -> None:
        self.folder, self.places = folder, places
        self._dense = 0

    def settle(self, tensor: TensorProto) -> None:
        """Checks a tensor, and puts its numbers in one form.

        Raises:
            GraphError: it has another number of bytes than its shape needs, or its file is not there.
        """
        count, size = _extent(tensor)
        if tensor.data_location == TensorProto.EXTERNAL:
            self._settle_external(tensor, size)
            return
        given = [field for field in _TYPED if getattr(tensor, field)]
        if tensor.HasField("raw_data"):
            place = None if self.places is None else self.places.read(tensor.raw_data)
            _check(len(tensor.raw_data) if place is None else place[1], size, "byte")
            if given and tensor.raw_data:
                raise _damaged("it has numbers in two fields", listing(["raw_data", *given]))
            if place is not None and self.places is not None:
                tensor.ClearField("raw_data")
                _make_external(tensor, self.places.path, *place)
            return
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        if any(each != field for each in given):
            raise _damaged("its numbers are in the field of another type", listing(given), field)
        if size is None:
            _check(len(tensor.string_data), count, "text")
        elif ir.DataType(tensor.data_type).bitwidth != 6:  # which no operator takes, and which is packed otherwise
            tensor.raw_data = _as_bytes(tensor, field, count)
            tensor.ClearField(field)

    def _settle_external(self, tensor: TensorProto, size: int | None) -> None:
        if size is None:
            raise _damaged("texts cannot be in another file")
        said = {as_text(each.key): as_text(each.value) for each in tensor.external_data}
        offset, length = (_whole(said, key) for key in ("offset", "length"))
        if not said.get("location"):
            raise _damaged("it is in another file, but does not name it")
        path = find_file(said["location"], self.folder, suffix="")
        if length:  # 0 means that it is not given
            _check(length, size, "byte")
        there = path.stat().st_size
        if offset + size > there:
            raise GraphError(
                "the file is too short for the tensor",
                code="model",
                field="file",
                got=there,
                allowed=f"at least {offset + size} bytes",
            )
        del tensor.external_data[:]
        _make_external(tensor, os.fspath(path.resolve()), offset, size)

    def dense(self, sparse: onnx.SparseTensorProto) -> TensorProto:
        """A sparse tensor with all its numbers.

        Raises:
            GraphError: it is damaged, too large, or of a type that is not read.
        """
        values, indices, shape = sparse.values, sparse.indices, list(sparse.dims)
        for each in (values, indices):
            self.settle(each)
        if values.data_type == TensorProto.STRING or ir.DataType(values.data_type).bitwidth % 8:
            got = ir.DataType(values.data_type).name.lower()
            raise GraphError("sparse tensors of this type are not read", code="unsupported", got=got)
        if any(size < 0 for size in shape):
            raise _damaged("it has a negative size", shape)
        self._dense += math.prod(shape)
        if self._dense > MOST_DENSE:
            raise GraphError(
                "the sparse tensors are too large with all their numbers",
                code="too-large",
                got=shape,
                allowed=f"{MOST_DENSE} elements in a model",
            )
        array = np.zeros(shape, ir.DataType(values.data_type).numpy())
        array.reshape(-1)[_places(indices, len(values.dims) and values.dims[0], shape)] = _known(values)
        return TensorProto(name=values.name, data_type=values.data_type, dims=shape, raw_data=array.tobytes())


def elements(tensor: ir.TensorProtocol) -> Array:
    """The numbers of a settled tensor.

    Raises:
        ValueError, OSError, …: its file cannot be read.
    """
    array = tensor.numpy()
    return array.view(np.uint8) != 0 if array.dtype == np.bool_ else array  # any byte but 0 is true


def _known(tensor: TensorProto) -> Array:
    return elements(ir.serde.deserialize_tensor(tensor))


def _places(indices: TensorProto, count: int, shape: list[int]) -> Array:
    """The places of a sparse tensor's numbers in row-major order, from its indices, [count] or [count, rank]."""
    if indices.data_type != TensorProto.INT64 or list(indices.dims) not in ([count], [count, len(shape)]):
        raise _damaged("its indices have another type or shape than its values need", list(indices.dims))
    array = _known(indices)
    limits = np.array(shape if array.ndim == 2 else [math.prod(shape)])
    if (array < 0).any() or (array >= limits).any():
        raise _damaged("an index lies outside of its shape", shape)
    flat: Array = array if array.ndim == 1 else array @ _steps(shape)
    if len(np.unique(flat)) != count:
        raise _damaged("an index occurs twice")
    return flat


def _steps(shape: list[int]) -> Array:
    """The strides of an array in elements, row-major."""
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)


def _extent(tensor: TensorProto) -> tuple[int, int | None]:
    """The number of elements, and of bytes; None for texts."""
    if any(size < 0 for size in tensor.dims):
        raise _damaged("it has a negative size", list(tensor.dims))
    if tensor.data_type not in _KNOWN:
        raise _damaged("it has no data type that ONNX knows", tensor.data_type)
    if tensor.HasField("segment"):
        raise GraphError("tensors in segments are not read", code="unsupported")
    count = math.prod(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        return count, None
    return count, -(-count * ir.DataType(tensor.data_type).bitwidth // 8)


def _as_bytes(tensor: TensorProto, field: str, count: int) -> bytes:
    """The numbers of a typed field as `raw_data` has them."""
    given, bits = getattr(tensor, field), ir.DataType(tensor.data_type).bitwidth
    if field in _WIDTHS:
        width = _WIDTHS[field]
        _check(len(given), count * bits // 8 // width, "number")  # a complex number is two
        alone = TensorProto()
        getattr(alone, field).MergeFrom(given)
        written = bytes(alone.SerializeToString())  # as numbers of Python some NaNs would change
        return written[len(written) - width * len(given) :]
    _check(len(given), count if bits >= 8 else -(-count * bits // 8), "number")  # narrower ones are packed
    array: Array = np.array(given, np.uint64 if field == "uint64_data" else np.int64)
    if tensor.data_type == TensorProto.BOOL:
        array = array != 0
    width = max(bits, 8) // 8
    if width < 8 and count:
        unsigned = field == "uint64_data" or tensor.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        low, high = int(array.min()), int(array.max())
        if low < (0 if unsigned else -(1 << 8 * width - 1)) or high >= 1 << 8 * width:
            raise _damaged("it has numbers beyond its type", [low, high])
    return array.astype(f"<u{width}").tobytes()


def _check(got: int, wanted: int | None, what: str) -> None:
    if got != wanted:
        message = f"it has another number of {what}s than its shape needs"
        raise _damaged(message, got, "no bytes, as it holds texts" if wanted is None else wanted)


def _whole(said: dict[str, str], key: str) -> int:
    """A number of external data; 0 if it is not given."""
    text = said.get(key, "0")
    if not (text.isascii() and text.isdecimal()):
        raise _damaged(f"the {key} of its data is not a number of bytes", text, "0 or more")
    if len(text) > 19:
        raise _damaged(f"the {key} of its data is beyond any file", f"{text[:19]}…")
    return int(text)


def _make_external(tensor: TensorProto, path: str, offset: int, length: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", path), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def _damaged(message: str, got: object = None, allowed: object = None) -> GraphError:
    return GraphError(
        f"the tensor is damaged: {message}", code="model", got=got, allowed=None if allowed is None else str(allowed)
    )


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
