"""Small random networks, quantized by ONNX Runtime's own tools."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
OPSET = 21
SAMPLES = 4  # inputs that calibrate the ranges


@dataclasses.dataclass
class Network:
    """A float network: nodes, weights and the shape of its input `x`; its output is `y`."""

    shape: tuple[int, ...]
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = dataclasses.field(default_factory=list)
    weights: dict[str, Array] = dataclasses.field(default_factory=dict)
    last: str = "x"

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node that reads `inputs`, and the last value where none is named."""
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs) or [self.last], [name], name, **attributes))
        self.last = name
        return name

    def weight(self, *shape: int) -> str:
        """Normal numbers, so that sums of them with normal inputs are normal."""
        name = f"w{len(self.weights)}"
        scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 4)
        self.weights[name] = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        return name

    def model(self) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        given, made = (
            helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", self.shape), ("y", None))
        )
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "network", [given], [made], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def pictures(rng: np.random.Generator) -> Network:
    """Convolutions with RELU, a residual sum, poolings, a joint, and a GEMM."""
    channels = int(rng.integers(2, 6))
    net = Network((2, 3, 12, 12), rng)
    net.add("Conv", "x", net.weight(channels, 3, 3, 3), net.weight(channels), pads=[1, 1, 1, 1])
    first = net.add("Relu")
    net.add("Conv", first, net.weight(channels, 1, 3, 3), pads=[1, 1, 1, 1], group=channels)
    net.add("Add", net.last, first)
    net.add("Relu")
    pooled = net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    wide = net.add("Conv", pooled, net.weight(channels, channels, 1, 1), net.weight(channels))
    net.add("Concat", pooled, wide, axis=1)
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.last, net.weight(7, channels * 2), net.weight(7), transB=1)
    return net


def attention(rng: np.random.Generator) -> Network:
    """A head of attention: products with weights, of two tensors, sums, a softmax, movements."""
    tokens, width = int(rng.integers(3, 8)), 8
    net = Network((2, tokens, width), rng)

    def projected(x: str) -> str:
        return net.add("Add", net.add("MatMul", x, net.weight(width, width)), net.weight(width))

    query, key, value = (projected("x") for _ in range(3))
    scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
    net.add("Softmax", scores, axis=-1)
    mixed = projected(net.add("MatMul", net.last, value))
    net.add("Add", mixed, "x")
    net.add("Relu")
    net.add("MatMul", net.last, net.weight(width, 5))
    return net


NETWORKS: dict[str, Callable[[np.random.Generator], Network]] = {"pictures": pictures, "attention": attention}


def quantized(network: Network, how: str, folder: pathlib.Path, **options: Any) -> tuple[onnx.ModelProto, Array]:
    """The network quantized in a way, and an input for it.

    Args:
        network: floats.
        how: "QDQ", "QOperator" or "dynamic".
        folder: for the files that the tools need.
        options: of the tools.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat

    samples = [network.rng.standard_normal(network.shape).astype(np.float32) for _ in range(SAMPLES)]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[dict[str, Array]] = iter([{"x": each} for each in samples])

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    source, target = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(network.model(), source)
    logging.getLogger().setLevel(logging.ERROR)  # the tools advise to prepare the model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "dynamic":
            quantization.quantize_dynamic(source, target, **options)
        else:
            quantization.quantize_static(source, target, Reader(), quant_format=QuantFormat[how], **options)
    return onnx.load(target), samples[0]
