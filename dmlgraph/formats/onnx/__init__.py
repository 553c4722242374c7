"""ONNX models: imports them as graphs, and exports graphs.  Needs the extra `onnx`: `pip install "dmlgraph[onnx]"`.

    graph = dg.load("model.onnx", dims={"batch": 1}, values={"sr": 16000})
    dg.save(graph, "again.onnx")

Its other modules import the packages `onnx` and `onnx_ir`; nothing outside does.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dmlgraph.base.errors import Location, ModelError
from dmlgraph.base.report import Report

if TYPE_CHECKING:
    import onnx_ir as ir

    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.graph.graph import Graph


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a path names an ONNX model, by its suffix; `formats.load_save.holds_model` looks at the content."""
    return pathlib.PurePath(path).suffix.lower() == ".onnx"


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
) -> Graph:
    """The graph of an ONNX model.

    Args:
        path: the file; its external data is in its folder.
        dims: the sizes of the model's symbolic dims, by name or by place: `x[0]` is the first dim of input `x`.
        values: inputs that are known now, by name; they are no inputs of the graph.
        target: the feature level of the graph.
        convert: types to convert, such as `{"double": "float32", "bfloat16": "float32"}`.
        states: inputs and outputs that become states, such as `{"past_key_values.*": "present.*"}`; `*` stands for any
            text, which is the same in both.  "auto": the caches of a decoder, found by what computes them; the inputs
            that follow from their length are computed.  "padded": also an input `padding`.  None: those that dmlgraph
            wrote into the model.
        trainable: names of weights that become states, such as `["*.weight"]`.
        keep_dims: whether `dims` stay dims of the graph, wherever sizes follow them: see
            `dmlgraph.formats.onnx.following`.  The model is imported a few times for that.

    Raises:
        ModelError: the file is not a model, or the nodes that cannot be imported, all of them.
    """
    model = read(path)
    return convert_model(
        model,
        path,
        dims=dims,
        values=values,
        target=target,
        convert=convert,
        states=states,
        trainable=trainable,
        keep_dims=keep_dims,
    )


def read(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file, as `onnx_ir` has it: read and put in order by onnx and onnx-ir.

    Raises:
        DocumentError: the file holds something else, which is named.
        ModelError: it is not a model, or is damaged.
    """
    from dmlgraph.base.memory import enough_memory
    from dmlgraph.formats.load_save import holds_model
    from dmlgraph.formats.yaml.discover import is_graph_file

    need()
    if not holds_model(path) and is_graph_file(pathlib.Path(path)):
        hint = "dmlgraph run, show and others take it as it is; what reads ONNX takes the model that it was made of"
        raise ModelError("is a graph file, not an ONNX model", code="file-kind", location=_place(path), hint=hint)
    from dmlgraph.formats.onnx import model

    with _at(path), enough_memory(f"read '{path}'"):
        return model.read(path)


def convert_model(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    target: str | FeatureLevel | None = None,
    convert: Mapping[str, str] | None = None,
    states: Mapping[str, str] | Literal["auto", "padded"] | None = None,
    trainable: Sequence[str] | None = None,
    keep_dims: bool = False,
) -> Graph:
    """The graph of a model that is read; `path` is its file, the rest as in `load`.

    Raises:
        ModelError: the nodes that cannot be imported, all of them.
    """
    from dmlgraph.base.memory import enough_memory
    from dmlgraph.formats.onnx.following import following
    from dmlgraph.formats.onnx.importer import Importer

    def converted(dims: Mapping[str, int]) -> Graph:
        return Importer(
            model, dims=dims, values=values or {}, target=target, convert=convert, states=states, trainable=trainable
        ).read()

    with _at(path), enough_memory(f"read '{path}'"):
        return following(converted, dims) if keep_dims and dims else converted({} if dims is None else dims)


def _at(path: str | os.PathLike[str]) -> Report:
    return Report(place=lambda problem: problem.at(location=_place(path)))


def _place(path: str | os.PathLike[str]) -> Location:
    return Location(os.fspath(path), 1, 1)


def save(
    graph: Graph, path: str | os.PathLike[str], *, force: bool = False, keep_dims: bool = False
) -> dict[str, str]:
    """Writes a graph as an ONNX model; its constants above 1 MB go into a file beside it.

    Args:
        graph, path: what is written, and where.
        force: overwrite a file that somebody has changed, too.
        keep_dims: whether its dims are dims of the model, wherever sizes follow them, rather than their sizes.

    Returns:
        The dims that became sizes although they were to stay, each with what keeps it.

    Raises:
        DmlGraphError: the file is there, and is not as dmlgraph wrote it.
        GraphError: the graph is fused, or has no outputs.
        ModelError: every node that cannot be exported.
        OSError: a file cannot be written.
    """
    need()
    from dmlgraph.formats.onnx import export

    return export.save(graph, path, force=force, keep_dims=keep_dims)


def need() -> None:
    """Raises ModelError where the packages of the extra are missing."""
    try:
        import onnx  # noqa: F401
        import onnx_ir  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"ONNX models need the package '{error.name}'",
            code="extra",
            hint='pip install "dmlgraph[onnx]"',
        ) from None
