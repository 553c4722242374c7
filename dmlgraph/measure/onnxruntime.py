"""Compares what a graph makes of an ONNX model with what ONNX Runtime computes: every output, and every inner value.

    found = compare_with_onnxruntime("model.onnx", choose("cpu"), dims={"batch": 2})
    found.equal, found.outputs["y"], found.first

Needs the packages `onnx` and `onnxruntime`.  The inner values are made outputs of the model, which both read then.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError, ModelError
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph
from dmlgraph.formats import onnx as models
from dmlgraph.graph.graph import Graph
from dmlgraph.measure.inputs import complete
from dmlgraph.measure.ulp import Comparison, Tolerance, compare

Array = np.ndarray[Any, Any]
NAME = "onnxruntime"
_TYPES = {"tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64}  # else float32


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """A model as both compute it.

    Attributes:
        graph: what the model is here.
        outputs: the comparison of each output.
        inner: the same of the inner values that both have, in the order of the model; of none if nothing differs.
        random: the inputs that were filled with random numbers.
    """

    graph: Graph
    outputs: Mapping[str, Comparison]
    inner: Mapping[str, Comparison]
    random: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether all outputs are equal, within the tolerance."""
        return all(each.equal for each in self.outputs.values())

    @property
    def first(self) -> tuple[str, Comparison] | None:
        """The first inner value that differs; None where none does."""
        return next(((name, each) for name, each in self.inner.items() if not each.equal), None)


def compare_with_onnxruntime(
    path: str | os.PathLike[str],
    device: Choice,
    inputs: Mapping[str, Array] | None = None,
    tolerance: Tolerance | int = 0,
    *,
    fuse: bool = True,
    **options: Any,
) -> Compared:
    """Runs a model here and in ONNX Runtime, on its processor and without its optimizations, and compares.

    Args:
        path: the model.
        device: where it runs here.
        inputs: arrays for some inputs; the others are filled with random numbers, the same every time.
        tolerance: what counts as equal; a number means units in the last place.
        fuse: whether nodes are fused.
        **options: as for `dg.load`: `dims`, `values`, `target`, `convert`.  What would be a state is an input and an
            output.

    Raises:
        ModelError: `states` are given, a package is missing, ONNX Runtime refuses the model, or an output has other
            sizes there.
        DmlGraphError: as when importing, compiling and running the graph.
    """
    _need()
    if options.get("states"):
        hint = "leave it out: caches are inputs and outputs then, which are compared as the others are"
        raise ModelError("a model is compared in one run, without states", code="states", field="states", hint=hint)
    graph = models.load(path, **options)
    given, random = complete(graph, inputs or {})
    values = {name: np.asarray(each) for name, each in (options.get("values") or {}).items()}
    dims = options.get("dims") or {}
    outputs = _compared(graph, path, {**given, **values}, dims, device, tolerance, fuse)
    inner: Mapping[str, Comparison] = {}
    if not all(each.equal for each in outputs.values()):
        with tempfile.TemporaryDirectory() as folder:
            exposed = exposing(path, pathlib.Path(folder))
            everything = models.load(exposed, **options)
            found = _compared(everything, exposed, {**given, **values}, dims, device, tolerance, fuse)
            inner = {name: each for name, each in found.items() if name not in outputs}
    return Compared(graph, outputs, inner, random)


def _need() -> None:
    models.need()
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        hint = "pip install onnxruntime"
        raise ModelError("the comparison needs the package 'onnxruntime'", code="extra", hint=hint) from None


def exposing(path: str | os.PathLike[str], folder: pathlib.Path) -> pathlib.Path:
    """The model with every inner value as an output, in the order of its nodes: a file in a folder."""
    import onnx

    model = onnx.load(os.fspath(path))
    known = {each.name for each in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    made = folder / pathlib.Path(path).name
    onnx.save_model(model, made, save_as_external_data=True, location="weights")
    return made


def _compared(
    graph: Graph,
    path: str | os.PathLike[str],
    inputs: Mapping[str, Array],
    dims: Mapping[str, int],
    device: Choice,
    tolerance: Tolerance | int,
    fuse: bool,
) -> dict[str, Comparison]:
    """The comparison of every output that is a tensor in both, in the model's order."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        asked = {each.name: _as_asked(inputs.get(each.name), each, dims) for each in session.get_inputs()}
        given = {name: array for name, array in asked.items() if array is not None}
        names = [each.name for each in session.get_outputs()]
        theirs = dict(zip(names, session.run(names, given), strict=True))
    except DmlGraphError:
        raise
    except Exception as error:  # of ONNX Runtime, which has classes of its own
        raise ModelError(f"ONNX Runtime refuses the model: {error}", code="model") from None
    with compile_graph(graph, device, fuse=fuse) as executable:
        names_here = {node.name for node in graph.inputs}
        ours = executable.run({name: array for name, array in inputs.items() if name in names_here})
    both = [name for name in names if name in ours and isinstance(theirs[name], np.ndarray)]
    for name in both:
        if theirs[name].size != ours[name].size:
            sizes = ours[name].shape, theirs[name].shape
            raise ModelError(f"the output '{name}' has the sizes {sizes[0]} here and {sizes[1]} there", code="model")
    return {name: compare(ours[name], _as_here(theirs[name], ours[name]), tolerance) for name in both}


def _as_asked(array: Array | None, asked: Any, dims: Mapping[str, int]) -> Array | None:
    """An input as ONNX Runtime wants it: truth values, tensors without dimensions, and those without elements."""
    if array is None:  # a graph has no inputs without elements
        sizes = [size if isinstance(size, int) else dims.get(size, 1) for size in asked.shape]
        return np.zeros(sizes, _TYPES.get(asked.type, np.float32)) if 0 in sizes else None
    if asked.type == "tensor(bool)":
        array = array.astype(np.bool_)
    return array.reshape(()) if not asked.shape and array.size == 1 else array


def _as_here(theirs: Array, ours: Array) -> Array:
    """A result of ONNX Runtime in the data type and the sizes that it has here."""
    return np.ascontiguousarray(theirs).astype(ours.dtype, copy=False).reshape(ours.shape)
