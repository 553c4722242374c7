"""Graphs as ONNX models.

    dg.save(g, "model.onnx")

Every operator becomes operators of ONNX's opset 21; the table of them is in `dmlgraph.formats.onnx.table`.
"""

from __future__ import annotations

import os
import pathlib

import numpy as np
import onnx

from dmlgraph.base.errors import GraphError, ModelError
from dmlgraph.base.memory import enough_memory
from dmlgraph.compiler.ir import IrGraph, not_saved
from dmlgraph.files.mark import MARK, check_ours, signed
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats.onnx.export.dims import keeping
from dmlgraph.formats.onnx.export.emitter import Array
from dmlgraph.formats.onnx.export.writer import Writer, Written
from dmlgraph.graph.graph import Graph

EXTERNAL_BYTES = 1 << 20  # constants of more bytes are in a file beside the model
ALIGNMENT = 4096  # of their places in it, so that it can be mapped into memory


def save(
    graph: Graph, path: str | os.PathLike[str], *, force: bool = False, keep_dims: bool = False
) -> dict[str, str]:
    """Writes the graph as an ONNX model; constants above 1 MB go into a file beside it, `model.onnx.data`.

    Args:
        graph: not fused.
        path: the model.
        force: overwrite a file that somebody has changed, or that dmlgraph has not written: see `dmlgraph.files.mark`.
        keep_dims: whether its dims are dims of the model, wherever sizes follow them, rather than their sizes.

    Returns:
        The dims that became sizes although they were to stay, each with what keeps it.

    Raises:
        DmlGraphError: the file is there, and is not as dmlgraph wrote it.
        GraphError: the graph is fused, or has no outputs.
        ModelError: every node that cannot be exported.
        OSError: a file cannot be written.
    """
    path = pathlib.Path(path)
    if not force:
        check_ours(path)
    with enough_memory("write", graph):
        written, fixed = keeping(graph, _written) if keep_dims else (_written(graph), {})
        _check(written)
        data_name = f"{path.name}.data"
        large = {name: each for name, each in written.constants.items() if each.nbytes > EXTERNAL_BYTES}
        offset = 0
        for name, array in written.constants.items():
            if name not in large:
                written.model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
                continue
            tensor = _external(name, array, data_name, offset)
            written.model.graph.initializer.append(tensor)
            offset = -(-(offset + array.nbytes) // ALIGNMENT) * ALIGNMENT
    written.model.metadata_props.add(key="note", value=MARK)
    with NewFiles() as new:
        if large:
            with new.open(path.parent / data_name) as stream:
                for array in large.values():
                    stream.write(bytes(-stream.tell() % ALIGNMENT))
                    stream.write(np.ascontiguousarray(array).data)
        with new.open(path) as stream:
            stream.write(signed(written.model.SerializeToString()))
    return fixed


def to_model(graph: Graph) -> onnx.ModelProto:
    """The graph as a model in memory, with all its constants.

    Raises:
        GraphError, ModelError: as in `save`.
    """
    written = _written(graph)
    _check(written)
    for name, array in written.constants.items():
        written.model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return written.model


def _written(graph: Graph) -> Written:
    if isinstance(graph, IrGraph):
        raise not_saved("ONNX")
    if not graph.outputs:
        raise GraphError(f"the graph '{graph.name}' has no outputs", code="no-outputs", hint="name at least one")
    return Writer(graph).write()


def _check(written: Written) -> None:
    """Runs ONNX's checker and its inference of shapes; large constants are inputs there, so that none is copied."""
    model = onnx.ModelProto()
    model.CopyFrom(written.model)
    for name, array in written.constants.items():
        if array.nbytes > EXTERNAL_BYTES:
            if all(each.name != name for each in model.graph.input):  # what a state holds at first
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
        else:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ModelError(f"ONNX's checker refuses the model: {error}", code="model") from None


def _external(name: str, array: Array, file: str, offset: int) -> onnx.TensorProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": file, "offset": offset, "length": array.nbytes}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor
