"""Reads model files into `onnx_ir`, with its passes; external data must be in the model's folder."""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import pathlib
from collections.abc import Iterator

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from dmlgraph.errors import Gathered, GraphError, ModelError, Within, shorten
from dmlgraph.folders import find_file
from dmlgraph.mapped import LEAST
from dmlgraph.onnx.table import OLDEST
from dmlgraph.onnx.weights import without_weights
from dmlgraph.plain_files import open_file, reason

SAYS_OPSET = 3  # the version of the file format from which models say their opsets
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()


def read(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file, in execution order, without equal and unused nodes.

    Raises:
        ModelError: it cannot be read, is damaged, or has data outside its folder.
    """
    path = pathlib.Path(path)
    whole = path.resolve()
    try:
        data = _message(path, whole)
    except OSError as error:
        raise ModelError(f"cannot read the file: {reason(error)}", code="unreadable") from None
    return parse(data, path.parent, whole)


def _message(path: pathlib.Path, whole: pathlib.Path) -> bytes:
    """The model's message, without the weights where it is large."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size < LEAST:
            return file.read()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            try:
                return without_weights(data, whole)
            except ValueError:
                return bytes(data)  # it is damaged: the parser says how


def parse(data: bytes, folder: pathlib.Path | None, whole: pathlib.Path | None = None) -> ir.Model:
    """The model in bytes; `folder` holds its external data, `whole` is the file from which weights were taken.

    Raises:
        ModelError: it is damaged, or has data outside its folder.
    """
    if not data:
        raise ModelError("the file is empty", code="empty-file")
    try:
        with _quiet():
            model = ir.from_proto(onnx.ModelProto.FromString(data))
    except MemoryError:
        raise
    except Exception as error:  # protobuf and onnx-ir raise many kinds of errors for a damaged model
        raise _damaged(error) from None
    return prepare(model, folder, whole)


def prepare(model: ir.Model, folder: pathlib.Path | None, whole: pathlib.Path | None = None) -> ir.Model:
    """Checks the model's external data and opset, and applies onnx-ir's passes.

    Of its passes these pay: of 865 nodes as PyTorch writes them for attention, 280 are equal to others or unused.
    Removing Identity, lifting and merging constants, inlining and shape inference leave the graph as it is: the
    importer does this itself, and keeps the names of weights and calls.
    """
    if not model.opset_imports and (model.ir_version or 0) < SAYS_OPSET:
        model.opset_imports[""] = OLDEST
    opset = model.opset_imports.get("", NEWEST_OPSET)
    if not OLDEST <= opset <= NEWEST_OPSET:
        raise ModelError(
            "this opset is not read",
            code="opset",
            got=opset,
            allowed=f"{OLDEST} to {NEWEST_OPSET}",
            hint="onnx.version_converter.convert_version(model, target) converts a model" if opset > 0 else None,
        )
    _confine(model, folder, whole)
    try:
        passes = ir.passes.Sequential(
            common.TopologicalSortPass(),
            common.RemoveUnusedNodesPass(),
            common.CommonSubexpressionEliminationPass(),
        )
        return passes(model).model
    except MemoryError:
        raise
    except Exception as error:  # of onnx-ir, for a damaged model: cycles above all
        raise _damaged(error.__cause__ or error) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without onnx-ir's warnings of what is then refused with a message of ours."""
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _damaged(error: BaseException) -> ModelError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ModelError(f"is not an ONNX model, or is damaged: {shorten(lines[0])}", code="model")


def _confine(model: ir.Model, folder: pathlib.Path | None, whole: pathlib.Path | None) -> None:
    """Makes the paths of external data absolute; weights of the model's own file may have any name.

    Raises:
        ModelError: data lies outside the folder, or its file is missing or too short.
    """
    found = Gathered()
    for name, tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            with found, Within(name, kind=ModelError):
                if whole is not None and os.fspath(tensor.location) == os.fspath(whole):
                    if tensor.length != tensor.nbytes:
                        message = "the tensor is damaged: it has another number of bytes than its shape needs"
                        raise GraphError(message, code="model", got=tensor.length, allowed=f"{tensor.nbytes}")
                    continue
                path = find_file(os.fspath(tensor.location), folder)
                end = (tensor.offset or 0) + max(tensor.nbytes, tensor.length or 0)
                if (tensor.offset or 0) < 0 or end > path.stat().st_size or (tensor.length or 0) < 0:
                    raise GraphError(
                        "the file is too short for the tensor",
                        code="model",
                        field="file",
                        got=path.stat().st_size,
                        allowed=f"at least {end} bytes",
                    )
                tensor.base_dir = os.fspath((folder or path.parent).resolve())
    found.settle(ModelError)


def _tensors(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """The tensors of initializers and attributes, with a name for each."""
    graphs = [model.graph, *model.graph.subgraphs()]
    for graph in graphs:
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.name or "", value.const_value
    bodies: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for body in bodies:
        for node in body.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.TENSOR and attribute.value is not None:
                    yield node.name or "", attribute.value
                elif attribute.type is ir.AttributeType.TENSORS:
                    yield from ((node.name or "", each) for each in attribute.value or ())
