"""Networks and layers of networks on the device `cpu`, beside ONNX Runtime; layers beside NumPy too.

    python benchmarks/networks.py [--threads 1 2] [--layers gemm-1024 …] [--networks resnet50 …] [--halves resnet18 …]
                                  [--packaged magika …] [--rounds 15] [--busy 2] [--json FILE]

Each layer is a graph of one operator, with weights as constants, on one set of arrays.  Networks are ONNX models, see
models.py: both libraries get the same one, and their outputs are compared before anything is timed.  beside.py tells
how times are taken and what a line says.  NumPy, which has its BLAS, computes products only.  ONNX Runtime takes part
in layers if it and onnx are installed; networks need them.

Halves are networks and layers in float16.  The column float32 has the same in float32 on the device `cpu`: its ratio is
the time of float16 over that of float32.  ONNX Runtime gets the float16 model, most of which it casts to float32 on
processors without arithmetic in float16.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import beside
import numpy as np
from beside import Call, Case

import dmlgraph as dg

Array = np.ndarray
AGREEMENT = {"float32": 1e-4, "float16": 2e-2}  # of networks' outputs, as a part of the greatest number, by data type


@dataclasses.dataclass(frozen=True)
class Layer:
    """A product x {batch…, M, K} · w {K, N}, or a convolution of x {N, C, H, W} with w {outputs, C / groups, taps…}.

    `relu`: with a bias and ReLU.  `constant`: whether w is known when the graph is compiled.  `backward`: the
    transposed convolution, with w {C, outputs / groups, taps…}.  `quantized`: x is uint8, w int8 with a scale for each
    channel, and the result uint8.  Like trained weights, w is normal, and the greatest magnitude of a channel is 127.
    `reduced`: it is 64, so the weights have 7 bits, as ONNX Runtime's quantization makes them with `reduce_range` for
    processors without VNNI.  `half`: all is float16.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    relu: bool = True
    constant: bool = True
    backward: bool = False
    quantized: bool = False
    reduced: bool = False
    half: bool = False

    @property
    def dtype(self) -> str:
        """Of the output."""
        return "uint8" if self.quantized else "float16" if self.half else "float32"

    @property
    def is_product(self) -> bool:
        return len(self.w) == 2

    @property
    def outputs(self) -> tuple[int, ...]:
        if self.is_product:
            return (*self.x[:-1], self.w[1])
        sides = zip(self.x[2:], self.w[2:], strict=True)
        if self.backward:
            spatial = ((side - 1) * self.stride + taps - 2 * self.padding for side, taps in sides)
            return (self.x[0], self.w[1] * self.groups, *spatial)
        return (self.x[0], self.w[0], *((side + 2 * self.padding - taps) // self.stride + 1 for side, taps in sides))

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        if self.backward:
            return 2 * math.prod(self.x) * math.prod(self.w[1:])
        terms = self.w[0] if self.is_product else math.prod(self.w[1:])
        return 2 * math.prod(self.outputs) * terms


def _image(channels: int, side: int, outputs: int, taps: int, stride: int = 1, groups: int = 1) -> Layer:
    """A convolution whose padding keeps the sizes, up to the stride."""
    return Layer((1, channels, side, side), (outputs, channels // groups, taps, taps), stride, taps // 2, groups)


LAYERS: dict[str, Layer] = {
    "gemm-64": Layer((64, 64), (64, 64), relu=False, constant=False),
    "gemm-1024": Layer((1024, 1024), (1024, 1024), relu=False, constant=False),
    "classifier-1000": Layer((1, 2048), (2048, 1000), relu=False),
    "classifier-4096": Layer((1, 4096), (4096, 4096)),
    "transformer-projection": Layer((128, 768), (768, 768), relu=False),
    "transformer-up": Layer((128, 768), (768, 3072)),
    "transformer-down": Layer((128, 3072), (3072, 768), relu=False),
    "stem-11x11": Layer((1, 3, 227, 227), (96, 3, 11, 11), 4),
    "stem-9x9": _image(3, 224, 32, 9),
    "stem-7x7": _image(3, 224, 64, 7, 2),
    "stem-3x3": _image(3, 224, 32, 3, 2),
    "resnet-56-3x3": _image(64, 56, 64, 3),
    "resnet-28-3x3": _image(128, 28, 128, 3),
    "resnet-14-3x3": _image(256, 14, 256, 3),
    "resnet-7-3x3": _image(512, 7, 512, 3),
    "resnet-56-3x3-stride": _image(128, 56, 128, 3, 2),
    "resnet-56-1x1-down": _image(256, 56, 64, 1),
    "resnet-56-1x1-up": _image(64, 56, 256, 1),
    "resnet-14-1x1-down": _image(1024, 14, 256, 1),
    "resnet-56-1x1-stride": _image(256, 56, 512, 1, 2),
    "resnet-7-1x1-down": _image(2048, 7, 512, 1),
    "resnext-28-groups": _image(256, 28, 256, 3, groups=32),
    "densenet-28": _image(128, 28, 32, 3),
    "squeezenet-squeeze": _image(128, 55, 16, 1),
    "squeezenet-expand": _image(16, 55, 64, 3),
    "mobilenet-112-depthwise": _image(32, 112, 32, 3, groups=32),
    "mobilenet-112-depthwise-stride": _image(96, 112, 96, 3, 2, groups=96),
    "mobilenet-14-depthwise": _image(384, 14, 384, 3, groups=384),
    "mobilenet-28-depthwise-5x5": _image(240, 28, 240, 5, groups=240),
    "mobilenet-14-1x1": _image(384, 14, 96, 1),
    "mobilenet-7-depthwise-5x5": _image(960, 7, 960, 5, groups=960),
    "mobilenet-squeeze-excite": _image(960, 1, 240, 1),
    "convnext-28-depthwise-7x7": _image(192, 28, 192, 7, groups=192),
    "unet-up-2x2": Layer((1, 256, 32, 32), (256, 128, 2, 2), 2, backward=True),
    "gan-up-4x4": Layer((1, 256, 16, 16), (256, 128, 4, 4), 2, 1, backward=True),
    "gan-first-4x4": Layer((1, 512, 1, 1), (512, 512, 4, 4), backward=True),
    "segmentation-up-16x16": Layer((1, 21, 28, 28), (21, 21, 16, 16), 8, 4, relu=False, backward=True),
    "backward-3x3": Layer((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, backward=True),
    "backward-depthwise-4x4": Layer((1, 64, 28, 28), (64, 1, 4, 4), 2, 1, 64, backward=True),
    "unet-128": _image(64, 128, 64, 3),
    "unet-32": _image(512, 32, 256, 3),
}


# Those that int8 networks have too.
QUANTIZED = (
    "gemm-1024", "classifier-1000", "transformer-projection", "stem-7x7", "resnet-56-3x3", "resnet-14-3x3",
    "resnet-56-1x1-up", "resnet-14-1x1-down", "mobilenet-14-depthwise", "mobilenet-14-1x1",
)  # fmt: skip
LAYERS |= {f"int8-{name}": dataclasses.replace(LAYERS[name], quantized=True, relu=False) for name in QUANTIZED}
LAYERS |= {f"int7-{name}": dataclasses.replace(LAYERS[f"int8-{name}"], reduced=True) for name in QUANTIZED}

# Networks of models.py, and layers, that are measured in float16 too.
HALF_NETWORKS = ("mobilenet_v2", "resnet18", "unet", "transformer")
HALF_LAYERS = (
    "gemm-1024", "classifier-4096", "transformer-projection", "stem-7x7", "resnet-56-3x3", "resnet-14-3x3",
    "resnet-56-1x1-up", "resnet-14-1x1-down", "mobilenet-112-depthwise", "mobilenet-112-depthwise-stride",
    "mobilenet-14-depthwise", "mobilenet-14-1x1", "mobilenet-7-depthwise-5x5", "unet-up-2x2",
)  # fmt: skip


def arrays_of(layer: Layer) -> dict[str, Array]:
    """The arrays by name; of quantized layers also scales and zero points, in the order of ONNX's operators."""
    random = np.random.default_rng(0)
    if layer.quantized:
        channels = layer.outputs[-1 if layer.is_product else 1]
        one = np.full(1, 128, np.uint8)
        normal = random.standard_normal(layer.w)
        largest = np.abs(normal).max(axis=0 if layer.is_product else (1, 2, 3), keepdims=True)
        return {
            "x": random.integers(0, 256, layer.x).astype(np.uint8),
            "x_scale": np.full(1, 0.1, np.float32),
            "x_zero": one,
            "w": np.rint(normal / largest * (64 if layer.reduced else 127)).astype(np.int8),
            "w_scale": random.uniform(0.01, 0.02, channels).astype(np.float32),
            "w_zero": np.zeros(channels, np.int8),
            "y_scale": np.full(1, 3, np.float32),
            "y_zero": one,
        }
    bias = layer.outputs[-1 if layer.is_product else 1]
    shapes = {"x": layer.x, "w": layer.w} | ({"b": (bias,)} if layer.relu else {})
    return {name: random.standard_normal(sizes, np.float32).astype(layer.dtype) for name, sizes in shapes.items()}


def device_call(layer: Layer, arrays: Mapping[str, Array], threads: int) -> Call:
    g = dg.Graph("layer")
    given = ("x",) if layer.constant else ("x", "w")
    values = {
        name: g.input(name, sizes=each.shape, dtype=str(each.dtype)) if name in given else g.constant(name, each)
        for name, each in arrays.items()
    }
    if layer.quantized:
        return quantized_call(g, layer, arrays, given, values, threads)
    activation = {"fused_activation": "activation_relu"} if layer.relu else {}
    if layer.is_product:
        g.output("y", dg.gemm(values["x"], values["w"], values.get("b"), **activation))
    else:
        fields = {"strides": (layer.stride,) * 2, "group_count": layer.groups}
        padding = dict.fromkeys(("start_padding", "end_padding"), (layer.padding,) * 2)
        direction = {"direction": "backward"} if layer.backward else {}
        g.output("y", dg.convolution(*values.values(), **fields, **padding, **direction, **activation))
    executable = g.compile("cpu", threads=threads)
    return executable.bind({name: arrays[name] for name in given}, {"y": np.empty(layer.outputs, layer.dtype)})


def quantized_call(
    g: dg.Graph,
    layer: Layer,
    arrays: Mapping[str, Array],
    given: tuple[str, ...],
    values: Mapping[str, dg.Value],
    threads: int,
) -> Call:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = values.values()
    if layer.is_product:
        g.output("y", dg.quantized_linear_matrix_multiply(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero))
    else:
        fields = {"strides": (layer.stride,) * 2, "group_count": layer.groups}
        padding = dict.fromkeys(("start_padding", "end_padding"), (layer.padding,) * 2)
        scales = {"output_scale": y_scale, "output_zero_point": y_zero}
        y = dg.quantized_linear_convolution(x, x_scale, x_zero, w, w_scale, w_zero, **scales, **fields, **padding)
        g.output("y", y)
    executable = g.compile("cpu", threads=threads)
    return executable.bind({name: arrays[name] for name in given}, {"y": np.empty(layer.outputs, layer.dtype)})


def onnxruntime_call(layer: Layer, arrays: Mapping[str, Array], threads: int) -> Call | None:
    if not all(importlib.util.find_spec(each) for each in ("onnx", "onnxruntime")):
        return None
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    def onnx_type(array: Array) -> int:
        return helper.np_dtype_to_tensor_dtype(array.dtype)

    scalars = ("x_scale", "x_zero", "y_scale", "y_zero")
    arrays = {name: each.reshape(()) if name in scalars else each for name, each in arrays.items()}

    given = ("x",) if layer.constant else ("x", "w")
    last = "sums" if layer.relu else "y"
    if layer.quantized and layer.is_product:
        nodes = [helper.make_node("QLinearMatMul", list(arrays), [last])]
    elif layer.is_product:
        nodes = [helper.make_node("Gemm", list(arrays), [last])]
    else:
        pads = [layer.padding] * 4
        name = "QLinearConv" if layer.quantized else "ConvTranspose" if layer.backward else "Conv"
        fields = {"strides": [layer.stride] * 2, "pads": pads, "group": layer.groups}
        nodes = [helper.make_node(name, list(arrays), [last], **fields)]
    if layer.relu:
        nodes.append(helper.make_node("Relu", ["sums"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, onnx_type(arrays[name]), arrays[name].shape) for name in given],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(layer.dtype)), layer.outputs)],
        [numpy_helper.from_array(each, name) for name, each in arrays.items() if name not in given],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {name: arrays[name] for name in given}
    return lambda: session.run(["y"], feed)


def numpy_call(layer: Layer, arrays: Mapping[str, Array], _: int) -> Call | None:
    if not layer.is_product or layer.quantized or layer.half:
        return None
    out = np.empty(layer.outputs, np.float32)
    return lambda: np.matmul(arrays["x"], arrays["w"], out=out)


def single_call(layer: Layer, arrays: Mapping[str, Array], threads: int) -> Call | None:
    """The device's in float32, of a layer of float16."""
    if not layer.half:
        return None
    single = {name: each.astype(np.float32) for name, each in arrays.items()}
    return device_call(dataclasses.replace(layer, half=False), single, threads)


LIBRARIES = {"cpu": device_call, "float32": single_call, "onnxruntime": onnxruntime_call, "numpy": numpy_call}


def layer_case(layer: Layer, threads: int) -> Case:
    arrays = arrays_of(layer)
    calls = {library: make(layer, arrays, threads) for library, make in LIBRARIES.items()}
    return Case({library: call for library, call in calls.items() if call is not None}, layer.operations)


def network_case(make: Any, threads: int) -> Case:
    """The calls of a network of models.py."""
    return Case(dict(zip(("cpu", "onnxruntime"), network_calls(make(), threads), strict=True)))


def half_case(make: Any, threads: int) -> Case:
    """The calls of a network in float16, beside the device's in float32."""
    from models import half

    network = make()
    own, other = network_calls(half(network), threads)
    return Case({"cpu": own, "float32": network_calls(network, threads)[0], "onnxruntime": other})


def network_calls(network: Any, threads: int) -> tuple[Call, Call]:
    """Those of the device and of ONNX Runtime.

    Raises:
        AssertionError: the outputs of the two libraries differ by more than AGREEMENT.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    with tempfile.TemporaryDirectory() as folder:
        path = network.file(pathlib.Path(folder))
        graph = dg.load(path, dims=network.dims, values=network.values)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    executable = graph.compile("cpu", threads=threads)
    outputs = executable.run(network.inputs)
    feed = network.inputs | {name: np.array(each) for name, each in network.values.items()}
    names = [each.name for each in session.get_outputs()]
    for name, wanted in zip(names, session.run(names, feed), strict=True):
        difference = np.abs(outputs[name] - wanted).max() / np.abs(wanted).max()
        if not difference <= AGREEMENT[str(wanted.dtype)]:
            raise AssertionError(f"output '{name}' differs by {difference:.1e}")
    return executable.bind(network.inputs, outputs), lambda: session.run(names, feed)


def groups() -> dict[str, dict[str, beside.Make]]:
    """The layers, those in float16 too; and the networks, if onnx is installed."""
    halves = {name: dataclasses.replace(LAYERS[name], half=True) for name in HALF_LAYERS}
    made = {"layers": {name: functools.partial(layer_case, layer) for name, layer in LAYERS.items()}}
    made["halves"] = {name: functools.partial(layer_case, layer) for name, layer in halves.items()}
    if importlib.util.find_spec("onnx"):
        from models import NETWORKS, PACKAGED

        for group, networks in (("networks", NETWORKS), ("packaged", PACKAGED)):
            made[group] = {name: functools.partial(network_case, each) for name, each in networks.items()}
        made["halves"] |= {name: functools.partial(half_case, NETWORKS[name]) for name in HALF_NETWORKS}
    return made


if __name__ == "__main__":
    beside.main((__doc__ or "").splitlines()[0], groups(), tuple(LIBRARIES)[1:], 15)
