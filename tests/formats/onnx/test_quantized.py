"""Quantized models on the devices, next to ONNX Runtime.

ONNX Runtime with optimizations turned off computes each operator by its definition: dequantization, floats,
quantization.  Where a number lies in the middle between two steps, roundings of floats decide; one step may be the
other.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.onnx.onnx_runtime import session
from support.onnx.quantized_models import NETWORKS, quantized
from support.problems import raises

import dmlgraph as dg
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
DEVICES: list[DeviceName] = ["reference", "cpu", "directml:software"]
FEWEST_EQUAL = 0.95  # of a network's outputs; the others are one step off
FLOATS: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}  # of networks that are quantized while they run

pytestmark = pytest.mark.usefixtures("directml_path")


def on_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Array], *, optimized: bool = False) -> Array:
    run = session(model.SerializeToString(), optimized=optimized)
    return np.asarray(next(iter(run(inputs).values())))


def on_device(model: onnx.ModelProto, inputs: dict[str, Array], device: DeviceName, folder: pathlib.Path) -> Array:
    return compiled(model, device, folder).run(inputs)["y"]


def compiled(model: onnx.ModelProto, device: DeviceName, folder: pathlib.Path) -> Any:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return dg.load(path, target=choose(device).device.level).compile(device=device)


def operators(executable: Any) -> set[str]:
    return {node.operator.name for node in executable.graph.nodes if isinstance(node, OperatorDescNode)}


def output_scale(model: onnx.ModelProto) -> float:
    """The scale of the DequantizeLinear that gives the output."""
    (last,) = (node for node in model.graph.node if model.graph.output[0].name in node.output)
    assert last.op_type == "DequantizeLinear"
    (scale,) = (each for each in model.graph.initializer if each.name == last.input[1])
    return float(numpy_helper.to_array(scale))


# Networks.

TYPES = {"uint8": ("QUInt8", True), "int8": ("QInt8", False)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_quantized_and_dequantized_tensors(
    network: str, dtype: str, seed: int, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    kind, per_channel = TYPES[dtype]
    types = {"activation_type": _type(kind), "weight_type": _type("QInt8"), "per_channel": per_channel}
    model, x = quantized(NETWORKS[network](np.random.default_rng(seed)), "QDQ", tmp_path, **types)
    wanted = on_onnxruntime(model, {"x": x})
    steps = np.rint(np.abs(on_device(model, {"x": x}, device, tmp_path) - wanted) / output_scale(model))
    assert steps.max() <= 1
    assert (steps == 0).mean() >= FEWEST_EQUAL
    assert len(np.unique(wanted)) > 9


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_quantized_operators(network: str, seed: int, device: DeviceName, tmp_path: pathlib.Path) -> None:
    types = {"activation_type": _type("QUInt8"), "weight_type": _type("QInt8"), "reduce_range": True}
    standard = {"op_types_to_quantize": ["Conv", "MatMul"]}  # others become operators of com.microsoft
    model, x = quantized(NETWORKS[network](np.random.default_rng(seed)), "QOperator", tmp_path, **types, **standard)
    assert {"QLinearConv", "QLinearMatMul"} & {node.op_type for node in model.graph.node}
    wanted = on_onnxruntime(model, {"x": x})
    step = np.ptp(wanted) / 255
    np.testing.assert_allclose(on_device(model, {"x": x}, device, tmp_path), wanted, rtol=0, atol=1.01 * step)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channels"])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_that_are_quantized_while_they_run(
    network: str, per_channel: bool, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    model, x = quantized(
        NETWORKS[network](np.random.default_rng(3)), "dynamic", tmp_path, per_channel=per_channel, reduce_range=True
    )
    assert "DynamicQuantizeLinear" in {node.op_type for node in model.graph.node}
    got, wanted = on_device(model, {"x": x}, device, tmp_path), on_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(got, wanted, **FLOATS)


def _type(name: str) -> Any:
    from onnxruntime.quantization import QuantType

    return QuantType[name]


def test_directml_computes_networks_with_integers(tmp_path: pathlib.Path) -> None:
    types = {"activation_type": _type("QUInt8"), "weight_type": _type("QInt8"), "per_channel": True}
    model, _ = quantized(NETWORKS["attention"](np.random.default_rng(0)), "QDQ", tmp_path, **types)
    found = operators(compiled(model, "directml:software", tmp_path))
    assert {"quantized_linear_matrix_multiply", "quantized_linear_add"} <= found
    assert not {"gemm", "add"} & found
    model, _ = quantized(NETWORKS["pictures"](np.random.default_rng(0)), "QDQ", tmp_path, **types)
    found = operators(compiled(model, "directml:software", tmp_path))
    assert {"quantized_linear_convolution", "quantized_linear_add", "max_pooling2"} <= found
    assert not {"convolution", "gemm", "add", "activation_relu"} & found


# Single operators between dequantization and quantization.


def single(
    nodes: list[onnx.NodeProto], x: Array, numbers: dict[str, Any], dtype: int | None = None
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of nodes with an input `x`, an output `y` and constants."""
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in numbers.items()]
    made = helper.make_tensor_value_info("y", dtype or onnx.TensorProto.UINT8, None)
    graph = helper.make_graph(nodes, "single", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": x}


def between(
    rng: np.random.Generator, shape: tuple[int, ...], operator: onnx.NodeProto, weights: dict[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """DequantizeLinear of x and the weights, an operator from their names with `_` to `z`, and QuantizeLinear."""
    x = rng.integers(0, 256, shape).astype(np.uint8)
    x_scale = np.float32(rng.uniform(0.01, 0.05))
    numbers: dict[str, Any] = {"x_scale": x_scale, "x_zero": np.uint8(rng.integers(90, 160)), **weights}
    nodes = [helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["x_"])]
    w_scale = np.float32(rng.uniform(0.002, 0.01))
    for name, array in weights.items():
        is_bias = array.dtype == np.int32
        numbers[f"{name}_scale"] = np.float32(x_scale * w_scale) if is_bias else w_scale
        numbers[f"{name}_zero"] = array.dtype.type(0 if array.dtype != np.uint8 else 128)
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_"]))
    numbers |= {"y_scale": np.float32(rng.uniform(0.02, 0.05)), "y_zero": np.uint8(rng.integers(90, 160))}
    nodes += [operator, helper.make_node("QuantizeLinear", ["z", "y_scale", "y_zero"], ["y"])]
    return single(nodes, x, numbers)


def weights_of(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-63, 64, shape).astype(np.int8)  # 7 bits: ONNX Runtime's kernels may saturate 16-bit sums


def conv(rng: np.random.Generator) -> Any:
    weights = {"w": weights_of(rng, 6, 4, 3, 3), "b": rng.integers(-9999, 9999, 6).astype(np.int32)}
    node = helper.make_node("Conv", ["x_", "w_", "b_"], ["z"], pads=[1, 0, 1, 2], strides=[1, 2])
    return between(rng, (2, 4, 17, 15), node, weights)


def grouped(rng: np.random.Generator) -> Any:
    node = helper.make_node("Conv", ["x_", "w_"], ["z"], group=4, dilations=[2, 1])
    return between(rng, (2, 4, 17, 15), node, {"w": weights_of(rng, 8, 1, 3, 3)})


def matmul(rng: np.random.Generator) -> Any:
    node = helper.make_node("MatMul", ["x_", "w_"], ["z"])
    return between(rng, (3, 12, 33), node, {"w": weights_of(rng, 33, 20)})


def gemm(rng: np.random.Generator) -> Any:
    weights = {"w": weights_of(rng, 20, 33), "b": rng.integers(-9999, 9999, 20).astype(np.int32)}
    return between(rng, (12, 33), helper.make_node("Gemm", ["x_", "w_", "b_"], ["z"], transB=1), weights)


def add(rng: np.random.Generator) -> Any:
    node = helper.make_node("Add", ["x_", "w_"], ["z"])
    return between(rng, (9, 8, 7), node, {"w": rng.integers(0, 256, (8, 7)).astype(np.uint8)})


def mean(rng: np.random.Generator) -> Any:
    return between(rng, (2, 3, 12, 12), helper.make_node("AveragePool", ["x_"], ["z"], kernel_shape=[3, 3]), {})


CASES: dict[Callable[..., Any], str] = {
    conv: "quantized_linear_convolution",
    grouped: "quantized_linear_convolution",
    matmul: "quantized_linear_matrix_multiply",
    gemm: "quantized_linear_convolution",
    add: "quantized_linear_add",
    mean: "quantized_linear_average_pooling",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimized", [False, True], ids=["definition", "optimized"])
@pytest.mark.parametrize("case", CASES, ids=lambda each: each.__name__)
def test_an_operator_between_dequantization_and_quantization(
    case: Callable[..., Any], optimized: bool, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    differs, count = 0, 0
    for seed in range(3):
        model, inputs = case(np.random.default_rng(seed))
        executable = compiled(model, device, tmp_path)
        if device != "cpu" or case in (matmul, gemm):
            assert operators(executable) == {CASES[case]}
        wanted = on_onnxruntime(model, inputs, optimized=optimized).astype(int)
        off = np.abs(executable.run(inputs)["y"].astype(int) - wanted)
        assert off.max() <= 1
        differs, count = differs + int(np.count_nonzero(off)), count + off.size
    assert differs <= 0.01 * count


# Scales for blocks, and 16 bits.


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(4, 6), (5, 7)], ids=["whole", "part"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=["uint8", "int8"])
def test_scales_for_blocks(
    dtype: Any, axis: int, shape: tuple[int, int], device: DeviceName, tmp_path: pathlib.Path
) -> None:
    rng = np.random.default_rng(abs(axis))
    blocks = [-(-size // 2) if each == axis % 2 else size for each, size in enumerate(shape)]
    numbers = {"s": rng.uniform(0.01, 0.2, blocks).astype(np.float32), "z": rng.integers(0, 100, blocks).astype(dtype)}
    given: dict[str, Any] = {"axis": axis, "block_size": 2}
    steps = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **given)]
    info = np.iinfo(dtype)
    model, inputs = single(
        steps, rng.integers(info.min, info.max, shape).astype(dtype), numbers, onnx.TensorProto.FLOAT
    )
    wanted = on_onnxruntime(model, inputs)
    np.testing.assert_allclose(on_device(model, inputs, device, tmp_path), wanted, 1e-6)
    steps = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **given)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model, inputs = single(steps, rng.normal(0, 9, shape).astype(np.float32), numbers, kind)
    np.testing.assert_array_equal(on_device(model, inputs, device, tmp_path), on_onnxruntime(model, inputs))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [onnx.TensorProto.UINT4, onnx.TensorProto.INT4], ids=["uint4", "int4"])
def test_zero_points_of_4_bits_for_blocks_of_which_the_last_is_not_whole(
    kind: int, axis: int, tmp_path: pathlib.Path
) -> None:
    low, blocks = (-8 if kind == onnx.TensorProto.INT4 else 0), [(3, 7), (5, 4)][axis]
    rng = np.random.default_rng(axis)
    weights = [
        helper.make_tensor(name, kind, sizes, rng.integers(low, low + 16, sizes).ravel())
        for name, sizes in (("w", (5, 7)), ("z", blocks))
    ]
    weights.append(onnx.numpy_helper.from_array(rng.uniform(0.1, 2, blocks).astype(np.float32), "s"))
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis, block_size=2),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [5, 7]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inputs = {"x": np.ones((5, 7), np.float32)}
    for device in ("reference", "cpu"):
        np.testing.assert_array_equal(on_device(model, inputs, device, tmp_path), on_onnxruntime(model, inputs))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.uint16, np.int16], ids=["uint16", "int16"])
def test_quantization_to_16_bits(dtype: Any, device: DeviceName, tmp_path: pathlib.Path) -> None:
    x = np.concatenate([np.random.default_rng(0).normal(0, 3000, 500), [1e9, -1e9, 0.5, 1.5, 0, -0.5]])
    numbers = {"s": np.float32(0.125), "z": dtype(1000)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model, inputs = single(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], x.astype(np.float32), numbers, kind
    )
    np.testing.assert_array_equal(on_device(model, inputs, device, tmp_path), on_onnxruntime(model, inputs))


def test_blocks_of_another_shape_are_refused(tmp_path: pathlib.Path) -> None:
    numbers = {"s": np.ones((4, 2), np.float32)}
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2)
    model, _ = single([node], np.zeros((4, 6), np.uint8), numbers, onnx.TensorProto.FLOAT)
    with raises(dg.ModelError, "sizes", node="y", got=[4, 2]):
        compiled(model, "reference", tmp_path)
