"""Loads and saves what holds a graph: a graph file, or an ONNX model."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from dmlgraph.base.errors import DmlGraphError, DocumentError, Location, Problem
from dmlgraph.base.file_names import FileNames
from dmlgraph.base.report import Report
from dmlgraph.files.kinds import kind_of, other_kind

if TYPE_CHECKING:
    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.graph.graph import Graph


def load(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    target: str | FeatureLevel | None = None,
    convert: Mapping[str, str] | None = None,
    states: Mapping[str, str] | Literal["auto", "padded"] | None = None,
    trainable: Sequence[str] | None = None,
    keep_dims: bool = False,
    training: str | os.PathLike[str] | None = None,
) -> Graph:
    """The graph in a YAML file or of an ONNX model; the file's content says which it is.

    Args:
        path: the file; the files it names are in its folder.
        dims: for a graph file, values that replace those of its dims; for a model, the sizes of its symbolic dims.
        values: for a model: inputs that are known now, by name.
        target: for a model: the feature level of the graph.
        convert: for a model: types to convert, such as `{"double": "float32", "bfloat16": "float32"}`.
        states: for a model: inputs and outputs that become states, such as `{"past_key_values.*": "present.*"}`, or
            "auto": the caches of a decoder; "padded": also with an input of each sequence's padding.
        trainable: names of weights that become states, which training may change, such as `["*.weight"]`; `*` stands
            for any text.  Of a graph file, they are constants: see `Graph.make_trainable`.
        keep_dims: for a model: whether `dims` stay dims of the graph, wherever sizes follow them, as `dmlgraph import`
            has it; those that nothing can follow are fixed.  The model is imported a few times for that.
        training: a YAML file whose section `training` says how the graph is trained, in the place of the graph file's.
            Of a model, its parameters become states, and `dims` stay dims.

    Raises:
        DocumentError: every problem of a graph file, each with its line and column.
        ModelError: every problem of a model.
    """
    section = None
    if training is not None:
        from dmlgraph.formats.yaml.training import read_file

        section = read_file(pathlib.Path(training))
    if holds_model(path):
        from dmlgraph.formats import onnx

        if section is not None and section.training.parameters:
            trainable = [*(trainable or ()), *section.training.parameters]
        graph = onnx.load(
            path,
            dims=dims,
            values=values,
            target=target,
            convert=convert,
            states=states,
            trainable=trainable,
            keep_dims=keep_dims or section is not None,
        )
    else:
        given = {"values": values, "target": target, "convert": convert, "states": states}
        _check_for_models(path, given | {"keep_dims": keep_dims or None})
        graph = _load_file(path, dims, trainable)
    if section is not None:
        section.put_on(graph)
    return graph


def _check_for_models(path: str | os.PathLike[str], given: Mapping[str, Any]) -> None:
    """Refuses arguments that a graph file has no use for."""
    place = Location(os.fspath(path), 1, 1)
    problems = [
        Problem("is for ONNX models; a graph file says this itself", code="unknown-field", field=key, location=place)
        for key, value in given.items()
        if value is not None
    ]
    if problems:
        raise DocumentError(problems)


def _load_file(path: str | os.PathLike[str], dims: Mapping[str, int] | None, trainable: Sequence[str] | None) -> Graph:
    """The graph in a YAML file."""
    from dmlgraph.formats import yaml as document
    from dmlgraph.graph.trainable import make_trainable

    graph = document.load(path, dims=dims)
    if trainable is not None:
        place = Location(os.fspath(path), 1, 1)
        with Report(DocumentError, place=lambda problem: graph.origin.located(problem).at(location=place)):
            make_trainable(graph, trainable, "trainable")
    return graph


def holds_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds an ONNX model rather than a graph file; the name decides where the content does not.

    Raises:
        DocumentError: it holds something else, which is named.
    """
    from dmlgraph.files.untrusted import open_file
    from dmlgraph.formats.onnx import is_model
    from dmlgraph.formats.yaml.discover import is_graph_file

    try:
        with open_file(path) as file:
            kind = kind_of(file)
    except OSError:
        return is_model(path)  # whoever reads it reports why it cannot be read
    if kind is None:
        return is_model(path) and not is_graph_file(pathlib.Path(path))
    if not kind.is_model:
        raise other_kind(kind, os.fspath(path), "a graph file or an ONNX model")
    return True


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether something else than a file is there, such as /dev/stdout."""
    return pathlib.Path(path).exists() and not pathlib.Path(path).is_file() and not pathlib.Path(path).is_dir()


def save(
    graph: Graph | IrGraph, path: str | os.PathLike[str], *, force: bool = False, keep_dims: bool = False
) -> dict[str, str]:
    """Writes a graph to a YAML file, as an ONNX model, or as a model for DxDispatch; the suffix says which.

    Args:
        graph: one that is fused cannot go to ONNX; a graph file says that it is fused, and is not fused again.
        path: the file, `.yaml`, `.yml`, `.onnx` or `.json`; large constants go into one file beside it, of a graph file
            a safetensors file of its name.
        force: overwrite a file that somebody has changed since dmlgraph wrote it, or that it has not written.
        keep_dims: for an ONNX model: whether the graph's dims are dims of the model, wherever sizes follow them, rather
            than their sizes.  A graph file always has them.

    Returns:
        With `keep_dims`, the dims that became sizes nevertheless, each with what keeps it.

    Raises:
        DmlGraphError: the suffix is another one, `keep_dims` is not for it, or the file is there and is not as dmlgraph
            wrote it.
        GraphError: the graph is fused, and goes to ONNX or has strides that a graph file cannot express.
        ModelError: every node that ONNX cannot express.
        OSError: a file cannot be written.
    """
    suffix = pathlib.PurePath(path).suffix.lower()
    readable = cast("Graph", graph)  # a fused one is read with the same methods
    if keep_dims and suffix != ".onnx":
        message, hint = "is for ONNX models", "a graph file always has the dims of its graph"
        raise DmlGraphError(message, code="unknown-field", field="keep_dims", got=os.fspath(path), hint=hint)
    if suffix == ".onnx":
        from dmlgraph.formats import onnx

        return onnx.save(readable, path, force=force, keep_dims=keep_dims)
    if suffix == ".json":
        from dmlgraph.formats.dxdispatch import writer

        writer.save(readable, path, force=force)
    elif suffix in (".yaml", ".yml") or is_special(path):
        from dmlgraph.compiler.as_graph import as_graph
        from dmlgraph.compiler.ir import IrGraph
        from dmlgraph.formats import yaml as document

        if isinstance(graph, IrGraph):
            graph = as_graph(graph)
        weights = f"{FileNames().take(pathlib.PurePath(path).stem)}.safetensors"
        document.save(graph, path, weights=weights, force=force)
    else:
        allowed = ".yaml or .yml for a graph file, .onnx, or .json for DxDispatch"
        message = "the suffix does not say what to write"
        raise DmlGraphError(message, code="file-name", field="path", got=os.fspath(path), allowed=allowed)
    return {}
