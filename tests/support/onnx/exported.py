"""Graphs as ONNX models, run where others run them: on ONNX Runtime's CPU, else on ONNX's reference."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from support.layout_instances import _classes, numbers
from support.operators.harness import build

import dmlgraph as dg
from dmlgraph.formats.onnx.export import to_model
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example

Array = np.ndarray[Any, Any]
Sample = tuple[str, Callable[[], tuple[dg.Graph, dict[str, Array]]]]

# Of differences, as a part of the greatest result.
BOUNDS = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-6}
PROVIDERS = ["CPUExecutionProvider"]
NARROW = {onnx.TensorProto.INT4: onnx.TensorProto.INT8, onnx.TensorProto.UINT4: onnx.TensorProto.UINT8}


class NoKernelError(Exception):
    """ONNX Runtime's CPU has no kernel for an operator with these types."""


def samples() -> Iterator[Sample]:
    """Every row of the tables of the operators, and every operator's example: a name, and what makes it."""
    for cls in _classes():
        for case in (cls.sample, *cls.cases):
            yield f"{cls.operator}: {case.why}", functools.partial(build, cls.operator, case.inputs, **case.fields)
    for operator in REGISTRY.values():
        yield f"{operator.name}: example", functools.partial(_example, example(operator))


def _example(text: str) -> tuple[dg.Graph, dict[str, Array]]:
    """An example with numbers for its inputs; outputs that share the name of another input are renamed."""
    before, mark, last = text.rpartition("outputs:")
    graph = dg.loads(before + mark + re.sub(r"(\w+): y\.", r"new_\1: y.", last))
    rng = np.random.default_rng(3)
    return graph, {node.name: numbers(node.desc.dtype, node.desc.sizes, rng) for node in graph.inputs}


def on_runtime(model: onnx.ModelProto | str, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs on ONNX Runtime.

    Raises:
        NoKernelError: it lacks one.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = model if isinstance(model, str) else model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(given, options, providers=PROVIDERS)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        raise NoKernelError(str(error)) from None
    return [
        np.asarray(each) for each in session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})
    ]


def outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[list[Array], str | None]:
    """The outputs on ONNX Runtime or, without a kernel there, on ONNX's reference; and what it says is missing."""
    wide = _without_narrow(model)
    names = zip((each.name for each in model.graph.input), (each.name for each in wide.graph.input), strict=True)
    feeds = {new: _widened(feeds[old]) for old, new in names}
    try:
        return on_runtime(wide, feeds), None
    except NoKernelError as error:
        return [np.asarray(each) for each in ReferenceEvaluator(wide).run(None, feeds)], str(error)


def _widened(array: Array) -> Array:
    return array.astype(array.dtype.name.removesuffix("4") + "8") if "int4" in array.dtype.name else array


def _without_narrow(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs and outputs of 8 bits for those of 4, which ONNX Runtime's Python does not take."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph, before = wide.graph, []
    for place, info in enumerate([*graph.input, *graph.output]):
        kind = info.type.tensor_type.elem_type
        if kind in NARROW:
            name = f"{info.name}/wide"
            if place < len(graph.input):
                before.append(onnx.helper.make_node("Cast", [name], [info.name], to=kind))
            else:
                graph.node.append(onnx.helper.make_node("Cast", [info.name], [name], to=NARROW[kind]))
            info.name, info.type.tensor_type.elem_type = name, NARROW[kind]
    for node in reversed(before):
        graph.node.insert(0, node)
    return wide


def differences(got: list[Array], wanted: Mapping[str, Array], bound: float = 1, steps: int = 0) -> str | None:
    """How results differ by more than `bound` times the bounds, integers by more than `steps`; None if they do not."""
    assert len(got) == len(wanted)
    for array, expected in zip(map(_widened, got), map(_widened, wanted.values()), strict=True):
        if (array.dtype, array.shape) != (expected.dtype, expected.shape):
            return f"{array.dtype} {array.shape}, not {expected.dtype} {expected.shape}"
        one, other = array.astype(np.float64), expected.astype(np.float64)
        allowed = bound * BOUNDS[str(expected.dtype)] if expected.dtype.kind == "f" else 0
        with np.errstate(all="ignore"):
            scale = np.abs(other[np.isfinite(other)]).max(initial=0)
            close = (np.abs(one - other) <= max(allowed * scale, steps if expected.dtype.kind != "f" else 0)) | (
                one == other
            )
        wrong = ~(close | (np.isnan(one) & np.isnan(other)))
        if wrong.any():
            return f"{array[wrong][:4]}, not {expected[wrong][:4]}"
    return None


def verdict(
    graph: dg.Graph, feeds: Mapping[str, Array], bound: float = 1, steps: int = 0
) -> tuple[str | None, str | None]:
    """Why an exported graph does not compute the same, and which kernel ONNX Runtime lacks; None where all is well."""
    try:
        model = to_model(graph)
    except dg.ModelError as error:
        if any(problem.code == "model" for problem in error.problems):
            raise  # a mistake of the export
        return f"refused: {error}", None
    wanted = graph.compile("reference", fuse=False).run(feeds)
    try:
        got, missing = outputs(model, feeds)
    except Exception as error:  # of any kind, of two packages
        return f"cannot run: {str(error)[:300]}", None
    return differences(got, wanted, bound, steps), missing
