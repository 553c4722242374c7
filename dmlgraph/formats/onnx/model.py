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

from dmlgraph.base.errors import ModelError, shorten
from dmlgraph.files.mapped_arrays import LEAST
from dmlgraph.files.untrusted import open_file, reason
from dmlgraph.formats.onnx.message import settle
from dmlgraph.formats.onnx.numbers import Numbers
from dmlgraph.formats.onnx.sharing import EqualNodesPass
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
