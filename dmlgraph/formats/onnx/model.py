"""Reads model files into `onnx_ir`, with its passes; external data must be in the model's folder.

Equal nodes become one.  onnx-ir's own pass takes attributes for equal that Python does: 0.0 and -0.0, 1 and 1.0.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import pathlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from dmlgraph.base.errors import ModelError, shorten
from dmlgraph.files.mapped_arrays import LEAST
from dmlgraph.files.untrusted import open_file, reason
from dmlgraph.formats.onnx.message import Numbers, elements, settle
from dmlgraph.formats.onnx.table import OLDEST
from dmlgraph.formats.onnx.weights import Places, without_weights

SAYS_OPSET = 3  # the version of the file format from which models say their opsets
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()


def read(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file, in execution order, without equal and unused nodes.

    Raises:
        ModelError: it cannot be read, is damaged, or has data outside its folder.
    """
    path = pathlib.Path(path)
    places = Places(path.resolve())
    try:
        data = _message(path, places)
    except OSError as error:
        raise ModelError(f"cannot read the file: {reason(error)}", code="unreadable") from None
    return parse(data, path.parent, places)


def _message(path: pathlib.Path, places: Places) -> bytes:
    """The model's message, without the weights where it is large."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size < LEAST:
            return file.read()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            try:
                return without_weights(data, places)
            except ValueError:
                return bytes(data)  # it is damaged: the parser says how


def parse(data: bytes, folder: pathlib.Path | None, places: Places | None = None) -> ir.Model:
    """The model in bytes; `folder` holds its external data, `places` are those of weights that were taken from it.

    Raises:
        ModelError: it is damaged, or has data outside its folder.
    """
    if not data:
        raise ModelError("the file is empty", code="empty-file")
    try:
        message = onnx.ModelProto.FromString(data)
    except MemoryError:
        raise
    except Exception as error:  # protobuf raises many kinds of errors for a damaged model
        raise _damaged(error) from None
    settle(message, Numbers(folder, places))
    try:
        with _quiet():
            model = ir.from_proto(message)
    except MemoryError:
        raise
    except Exception as error:  # so does onnx-ir
        raise _damaged(error) from None
    return prepare(model)


def prepare(model: ir.Model) -> ir.Model:
    """Checks the model's opset, and puts its nodes in order, without equal and unused ones.

    Of onnx-ir's passes these pay: of 865 nodes as PyTorch writes them for attention, 280 are equal to others or unused.
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
    try:
        passes = ir.passes.Sequential(
            common.TopologicalSortPass(),
            common.RemoveUnusedNodesPass(),
            EqualNodesPass(),
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


MOST_ELEMENTS = 10  # of tensors that are compared; weights are rarely equal
_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
_KIND = ir.AttributeType
_FLOATS, _OTHERS = (_KIND.FLOAT, _KIND.FLOATS), (_KIND.INT, _KIND.INTS, _KIND.STRING, _KIND.STRINGS)


class EqualNodesPass(ir.passes.InPlacePass):
    """Removes nodes that compute what one before them does, those of the main graph that are no outputs of it."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph, first, modified = model.graph, dict[Any, ir.Node](), False
        for node in graph:
            form = _form(node)
            if form is None:
                continue
            same = first.setdefault(form, node)
            if same is not node and not any(each.is_graph_output() for each in node.outputs):
                ir.convenience.replace_all_uses_with(node.outputs, same.outputs)
                graph.remove(node, safe=True)
                modified = True
        return ir.passes.PassResult(model, modified)


def _form(node: ir.Node) -> tuple[object, ...] | None:
    """What equal nodes have in common; None for one that equals no other."""
    if node.op_type in _RANDOM:
        return None
    attributes = []
    for name, attribute in sorted(node.attributes.items()):
        value = _exact(attribute)
        if value is None:
            return None
        attributes.append((name, attribute.type, value))
    outputs = tuple(bool(each.name) for each in node.outputs)
    return node.op_identifier(), tuple(map(id, node.inputs)), outputs, tuple(attributes)


def _exact(attribute: ir.Attr) -> object:
    """An attribute's value, so that equal ones have equal bits; None where it is not compared."""
    value = attribute.value
    if attribute.type in _FLOATS:
        floats: Sequence[float] = [value] if attribute.type is _KIND.FLOAT else value
        return struct.pack(f"{len(floats)}d", *floats)
    if attribute.type in _OTHERS:
        return tuple(value) if isinstance(value, Sequence) else value
    if attribute.type is _KIND.TENSOR and value.size <= MOST_ELEMENTS:
        array = elements(value)
        return array.shape, str(array.dtype), array.tobytes()
    return None
