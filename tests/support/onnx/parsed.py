"""Models in ONNX's text form, on a device and on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from support.onnx.onnx_runtime import session

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]


def model_of(graph: str, opset: int = 21, microsoft: bool = False) -> onnx.ModelProto:
    """A model of a graph such as `g (float[2] x) => (float[2] y) {y = Relu(x)}`."""
    also = ', "com.microsoft": 1' if microsoft else ""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}{also}]> {graph}')


def imported(model: onnx.ModelProto, *, target: str | None = None, values: Mapping[str, Any] | None = None) -> dg.Graph:
    """The graph of a model."""
    prepared = prepare(ir.from_proto(model))
    return Importer(prepared, dims={}, values=values or {}, target=target, convert={}).read()


def run(model: onnx.ModelProto, feeds: Mapping[str, Array], device: DeviceName) -> dict[str, Array]:
    """The outputs of a model on a device; inputs that the graph does not have are left out."""
    graph = imported(model, target="6.2" if "directml" in device else None)
    given = {each.name: feeds[each.name].reshape(each.desc.sizes) for each in graph.inputs}
    return graph.compile(device=device).run(given)


def assert_agrees(
    model: onnx.ModelProto, feeds: Mapping[str, Array], device: DeviceName, *, relative: float = 0, absolute: float = 0
) -> None:
    """Asserts that a device gives the types, shapes and numbers of ONNX Runtime."""
    expected = session(model.SerializeToString(), optimized=False)(feeds)
    got = run(model, feeds, device)
    assert list(got) == list(expected)
    for name, wanted in expected.items():
        array = got[name]
        assert str(array.dtype) == ("uint8" if wanted.dtype == bool else str(wanted.dtype))
        assert array.shape == (wanted.shape or (1,))
        np.testing.assert_allclose(array.reshape(wanted.shape), wanted, relative, absolute)
