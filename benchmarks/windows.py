"""Pooling, local response normalization and resampling on the device `cpu`, beside ONNX Runtime.

    python benchmarks/windows.py [--threads 1 2] [--layers max-3x3-stride …] [--rounds 60]

beside.py tells how times are taken and what a line says.  It needs onnx and onnxruntime.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import beside
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import dmlgraph as dg


@dataclasses.dataclass(frozen=True)
class Layer:
    """A function of a tensor {N, C, H, W}, and the node of ONNX with its attributes that does the same."""

    sizes: tuple[int, ...]
    function: Callable[[dg.Value], dg.Value]
    node: str
    attributes: dict[str, Any]
    scales: tuple[float, ...] = ()


def _pool(kind: str, sizes: tuple[int, ...], taps: int, stride: int, padding: int) -> Layer:
    fields = {"window_size": taps, "strides": stride, "start_padding": padding, "end_padding": padding}
    function = {
        "MaxPool": lambda x: dg.max_pooling(x, **fields),
        "AveragePool": lambda x: dg.average_pooling(x, **fields, include_padding=False),
    }[kind]
    attributes = {"kernel_shape": [taps] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
    return Layer((1, *sizes), function, kind, attributes)


def _resize(mode: str, onnx_attributes: dict[str, Any]) -> Layer:
    scales = (1.0, 1.0, 2.0, 2.0)
    sizes = (1, 64, 56, 56)
    return Layer(
        sizes, lambda x: dg.resample(x, scales=scales, interpolation_mode=mode), "Resize", onnx_attributes, scales
    )


_RESPONSE = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
LAYERS: dict[str, Layer] = {
    "max-3x3-stride": _pool("MaxPool", (64, 112, 112), 3, 2, 1),
    "max-2x2-stride": _pool("MaxPool", (64, 224, 224), 2, 2, 0),
    "max-3x3": _pool("MaxPool", (256, 28, 28), 3, 1, 1),
    "average-3x3": _pool("AveragePool", (192, 35, 35), 3, 1, 1),
    "average-global": Layer((1, 2048, 7, 7), lambda x: dg.average_pooling(x, window_size=7), "GlobalAveragePool", {}),
    "local-response": Layer(
        (1, 96, 55, 55),
        lambda x: dg.local_response_normalization(x, cross_channel=True, local_size=5, **_RESPONSE),
        "LRN",
        {"size": 5, **_RESPONSE},
    ),
    "resize-linear": _resize("linear", {"mode": "linear"}),
    "resize-nearest": _resize("nearest_neighbor", {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}),
}


def device_call(layer: Layer, x: np.ndarray, threads: int) -> tuple[beside.Call, np.ndarray]:
    """The call, and the array that it writes."""
    g = dg.Graph("layer")
    g.output("y", layer.function(g.input("x", sizes=layer.sizes, dtype="float32")))
    executable = g.compile("cpu", threads=threads)
    y = executable.run({"x": x})["y"]
    return executable.bind({"x": x}, {"y": y}), y


def onnxruntime_call(layer: Layer, x: np.ndarray, threads: int) -> Callable[[], list[np.ndarray]]:
    scales = [numpy_helper.from_array(np.array(layer.scales, np.float32), "scales")] if layer.scales else []
    inputs = ["x", "", "scales"] if layer.scales else ["x"]
    graph = helper.make_graph(
        [helper.make_node(layer.node, inputs, ["y"], **layer.attributes)],
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, layer.sizes)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        scales,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["y"], {"x": x})


def case(layer: Layer, threads: int) -> beside.Case:
    x = np.random.default_rng(0).standard_normal(layer.sizes, np.float32)
    own, y = device_call(layer, x, threads)
    other = onnxruntime_call(layer, x, threads)
    np.testing.assert_allclose(y, other()[0], rtol=1e-4, atol=1e-5)
    return beside.Case({"cpu": own, "onnxruntime": other})


if __name__ == "__main__":
    CASES = {name: functools.partial(case, layer) for name, layer in LAYERS.items()}
    beside.main((__doc__ or "").splitlines()[0], {"layers": CASES}, ("onnxruntime",), 60)
