"""Operators between dequantization and quantization work on the integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.plans import kinds
from support.passes.fusing import applied, assert_same_bits, fused, operator, operators, refusal, results

import dmlgraph as dg
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices.names import DeviceName
from dmlgraph.passes import fuse

RANDOM = np.random.default_rng(5)
X = RANDOM.integers(0, 256, (1, 4, 9, 9)).astype(np.uint8)
WEIGHTS = RANDOM.integers(-128, 128, (6, 4, 3, 3)).astype(np.int8)
BIAS = RANDOM.integers(-5000, 5000, (1, 6, 1, 1)).astype(np.int32)
X_SCALE, W_SCALE, Y_SCALE = 0.021, 0.0013, 0.047
PRODUCTS = ("quantized_convolution", "quantized_product")


class Model:
    """A graph with parameters as constants."""

    def __init__(self) -> None:
        self.graph = dg.Graph("test")
        self.inputs: dict[str, Any] = {}

    def input(self, array: Any) -> dg.Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return self.graph.input(name, sizes=array.shape, dtype=array.dtype)

    def number(self, value: Any, dtype: Any = np.float32) -> dg.Value:
        count = sum(1 for _ in self.graph.nodes)
        return self.graph.constant(f"k{count}", np.asarray(value, dtype).reshape(np.shape(value) or (1,)))

    def dequantized(self, x: dg.Value, scale: Any, zero: int | None = None) -> dg.Value:
        point = None if zero is None else self.number(zero, x.dtype.numpy)
        return dg.dequantize_linear(x, self.number(scale), point)

    def output(self, x: dg.Value, scale: Any, zero: int, dtype: Any = np.uint8) -> None:
        self.graph.output("y", dg.quantize_linear(x, self.number(scale), self.number(zero, dtype)))


def convolution(
    *,
    bias_scale: float | None = None,
    bias: Any = None,
    w_scale: Any = W_SCALE,
    zero: int = 128,
    between: Any = None,
    **fields: Any,
) -> Model:
    model = Model()
    x = model.dequantized(model.input(X), X_SCALE, 120)
    w = model.dequantized(model.graph.constant("w", WEIGHTS), w_scale, 0)
    b = None
    if bias_scale is not None:
        b = model.dequantized(model.graph.constant("b", BIAS), np.float32(bias_scale), None)
    if bias is not None:
        b = model.graph.constant("b", np.asarray(bias, np.float32).reshape(1, -1, 1, 1))
    y = dg.convolution(x, w, b, **fields)
    model.output(between(y) if between else y, Y_SCALE, zero)
    return model


def expected_convolution(x: Any, scale: Any, bias: Any = 0) -> Any:
    """The quantized convolution without padding, in float64: windows written out."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 120, (3, 3), (2, 3))
    sums = np.einsum("ncyxhw,ochw->noyx", windows, WEIGHTS.astype(np.int64)) + bias
    return sums * (np.float64(np.float32(X_SCALE)) * scale / np.float64(np.float32(Y_SCALE)))


def assert_near_steps(got: Any, numbers: Any, zero: int) -> None:
    """The integers of some numbers; a number in the middle may be rounded either way."""
    low, high = (np.clip(np.rint(numbers + off) + zero, 0, 255) for off in (-1e-3, 1e-3))
    assert ((got >= low) & (got <= high)).all()


@pytest.mark.parametrize("w_scale", [W_SCALE, np.linspace(1e-3, 2e-3, 6).reshape(6, 1, 1, 1)], ids=["one", "channels"])
def test_a_convolution_computes_with_the_integers(w_scale: Any) -> None:
    model = convolution(w_scale=w_scale)
    assert operators(fused(model.graph)) == ["quantized_linear_convolution"]
    got = model.graph.compile("reference").run(model.inputs)["y"]
    scale = np.float64(np.asarray(w_scale, np.float32)).reshape(1, -1, 1, 1)
    assert_near_steps(got, expected_convolution(X, scale), 128)


def test_a_dequantized_bias_goes_into_the_convolution() -> None:
    model = convolution(bias_scale=float(np.float32(X_SCALE) * np.float32(W_SCALE)))
    found = operator(fused(model.graph))
    assert found.name == "quantized_linear_convolution"
    assert found.bias.dtype == dg.DataType.INT32
    got = model.graph.compile("reference").run(model.inputs)["y"]
    assert_near_steps(got, expected_convolution(X, np.float64(np.float32(W_SCALE)), BIAS), 128)


@pytest.mark.parametrize("w_scale", [W_SCALE, np.linspace(1e-3, 2e-3, 6).reshape(6, 1, 1, 1)], ids=["one", "channels"])
def test_a_bias_of_floats_becomes_integers(w_scale: Any) -> None:
    bias = RANDOM.normal(0, 0.1, 6).astype(np.float32)
    model = convolution(bias=bias, w_scale=w_scale)
    found = operator(fused(model.graph))
    assert found.name == "quantized_linear_convolution"
    assert (found.bias.dtype, found.bias.sizes) == (dg.DataType.INT32, (1, 6, 1, 1))
    scale = np.float64(np.asarray(w_scale, np.float32)).reshape(1, -1, 1, 1)
    steps = np.rint(bias.reshape(1, 6, 1, 1) / (np.float64(np.float32(X_SCALE)) * scale))
    for device in ("reference", "cpu"):
        got = model.graph.compile(device).run(model.inputs)["y"]
        assert_near_steps(got, expected_convolution(X, scale, steps), 128)
        unfused = model.graph.compile(device, fuse=False).run(model.inputs)["y"]
        assert np.abs(got.astype(int) - unfused).max() <= 1


def test_a_product_takes_a_bias_of_floats() -> None:
    model = Model()
    a = model.dequantized(model.input(RANDOM.integers(0, 256, (5, 7)).astype(np.uint8)), X_SCALE, 3)
    b = model.dequantized(model.graph.constant("b", RANDOM.integers(-128, 128, (7, 4)).astype(np.int8)), W_SCALE, 0)
    c = dg.broadcast_to(model.graph.constant("c", np.array([[0.5, -0.25, 0, 1]], np.float32)), sizes=[5, 4])
    model.output(dg.gemm(a, b, c), 0.01, 128)
    assert operators(fused(model.graph)) == ["quantized_linear_convolution"]
    for got, wanted in results(model.graph, model.inputs):
        assert np.abs(got.astype(int) - wanted).max() <= 1


def test_a_relu_is_where_the_range_begins() -> None:
    model = convolution(zero=0, between=dg.activation_relu, start_padding=[1, 1])
    assert applied(fused(model.graph))[:2] == ["quantize_clipped", "quantized_convolution"]
    for got, wanted in results(model.graph, model.inputs):
        assert np.abs(got.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", -128)])
@pytest.mark.usefixtures("directml_path")
def test_the_range_of_the_integers_clips(dtype: str, zero: int, device: DeviceName) -> None:
    x = np.array([np.inf, -np.inf, -1, 0, -0.0, 0.05, 5, 1e30, np.nan], np.float32)
    for clip, of_nan in ((dg.activation_relu, zero), (lambda value: dg.clip(value, min=0, max=100), zero + 255)):
        model = Model()
        model.output(clip(model.input(x)), 0.1, zero, dtype)
        assert operators(fused(model.graph)) == ["quantize_linear"]
        ((got, unfused),) = results(model.graph, model.inputs, device=device)
        np.testing.assert_array_equal(got[:-1], unfused[:-1])
        assert (got[-1], unfused[-1]) == (zero, of_nan)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: convolution(bias_scale=0.5), "the scale of its bias is not the product"),
        (lambda: convolution(bias=[0, 0, np.inf, 0, 0, 0]), "infinite, NaN, or so large"),
        (lambda: convolution(bias=[0, 0, np.nan, 0, 0, 0]), "infinite, NaN, or so large"),
        (lambda: convolution(bias=[0, 0, 1e9, 0, 0, 0]), "infinite, NaN, or so large"),
        (lambda: convolution(bias=np.full(6, X_SCALE * 2.5), w_scale=1), "not a multiple of the product"),
        (lambda: convolution(w_scale=1e-30), "is extreme"),
        (lambda: convolution(w_scale=np.full((6, 4, 1, 1), 0.1)), "numbers along other axes"),
        (lambda: convolution(mode="convolution"), "more than a forward cross-correlation"),
        (lambda: convolution(fused_activation={"op": "activation_relu"}), "more than a forward cross-correlation"),
    ],
    ids=["bias", "infinite bias", "NaN bias", "large bias", "coarse bias", "extreme", "axes", "flipped", "activation"],
)
def test_a_convolution_stays(build: Callable[[], Model], why: str) -> None:
    assert why in refusal(fused(build().graph, "quantized_convolution"), "quantized_convolution")


def test_a_scale_that_comes_at_run_time_stays() -> None:
    model = Model()
    x = dg.dequantize_linear(model.input(X), model.input(np.ones(1, np.float32)))
    w = model.dequantized(model.graph.constant("w", WEIGHTS), 0.1)
    model.output(dg.convolution(x, w), 0.5, 0)
    assert "is not a constant" in refusal(fused(model.graph), "quantized_convolution")


def test_sums_that_may_leave_32_bits_stay() -> None:
    model = Model()
    a = model.dequantized(model.input(np.zeros((1, 40000), np.uint8)), 0.1)
    b = model.dequantized(model.input(np.zeros((40000, 1), np.uint8)), 0.1)
    model.output(dg.gemm(a, b), 0.5, 0)
    assert "may leave int32" in refusal(fused(model.graph), "quantized_product")


def product(*, c: bool = False, trans_b: bool = False, rank: int = 2, axis_scales: bool = False) -> Model:
    rng = np.random.default_rng(1)
    model = Model()
    ones = (1,) * (rank - 2)
    a = model.dequantized(model.input(rng.integers(0, 256, (*ones, 5, 7)).astype(np.uint8)), X_SCALE, 3)
    weights = rng.integers(-128, 128, (*ones, 4, 7) if trans_b else (*ones, 7, 4)).astype(np.int8)
    scale = np.linspace(1e-3, 2e-3, 4) if axis_scales else np.array([W_SCALE])
    shape = (*ones, -1, 1) if trans_b else (*ones, 1, -1)
    b = model.dequantized(model.graph.constant("b", weights), scale.reshape(shape), 0)
    bias = None
    if c:
        steps = model.graph.constant("c", rng.integers(-999, 999, (4,)).astype(np.int32))
        unit = np.float32(X_SCALE) * scale.astype(np.float32)
        bias = dg.broadcast_to(model.dequantized(steps, unit), sizes=[*ones, 5, 4])
    model.output(dg.gemm(a, b, bias, trans_b="transpose" if trans_b else "none"), 0.01, 128)
    return model


@pytest.mark.parametrize("device", ["reference", "directml:software"])
@pytest.mark.parametrize("axis_scales", [False, True], ids=["one", "columns"])
@pytest.mark.parametrize("trans_b", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize(("c", "rank"), [(False, 2), (False, 4), (True, 2), (True, 4)])
@pytest.mark.usefixtures("directml_path")
def test_a_product_computes_with_the_integers(
    c: bool, rank: int, trans_b: bool, axis_scales: bool, device: DeviceName
) -> None:
    model = product(c=c, rank=rank, trans_b=trans_b, axis_scales=axis_scales)
    kind = "quantized_linear_convolution" if c else "quantized_linear_matrix_multiply"
    assert operators(fused(model.graph)) == [kind]
    for got, wanted in results(model.graph, model.inputs, device=device):
        assert np.abs(got.astype(int) - wanted).max() <= 1
        assert len(np.unique(wanted)) > 9


@pytest.mark.parametrize("device", ["reference", "directml:software"])
@pytest.mark.parametrize("trans_b", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("columns", [False, True], ids=["one", "columns"])
@pytest.mark.usefixtures("directml_path")
def test_a_product_that_stays_float_dequantizes_itself(columns: bool, trans_b: bool, device: DeviceName) -> None:
    rng = np.random.default_rng(2)
    model = Model()
    scale = rng.uniform(0.01, 0.1, (4, 1) if trans_b else (1, 4)) if columns else W_SCALE
    a = model.dequantized(model.input(rng.integers(0, 256, (5, 9)).astype(np.uint8)), X_SCALE, 100)
    b = model.dequantized(model.input(rng.integers(0, 256, (4, 9) if trans_b else (9, 4)).astype(np.uint8)), scale, 130)
    model.graph.output("y", dg.gemm(a, b, trans_b="transpose" if trans_b else "none"))
    assert operators(fused(model.graph)) == ["matrix_multiply_integer_to_float"]
    assert_same_bits(model.graph, model.inputs, device=device)
    record = model.graph.compile("cpu").fusion
    assert not [entry for entry in record if entry.applied and entry.rule == "integers_to_float"]


def moved(move: Callable[[dg.Value], Any], scale: float = X_SCALE) -> Model:
    model = Model()
    x = model.dequantized(model.input(X), X_SCALE, 120)
    moved = dg.quantize_linear(move(x), model.number(scale), model.number(120, np.uint8))
    model.graph.output("y", dg.bit_not(moved))  # it reads other strides, which an output of the graph does not
    return model


def pooled(x: dg.Value) -> Any:
    return dg.max_pooling2(x, window_size=[2, 2], strides=[2, 2])


@pytest.mark.parametrize(
    ("move", "left"),
    [
        (lambda x: dg.transpose(x, permutation=[0, 2, 3, 1]), []),
        (lambda x: dg.reshape(x, sizes=[4, 81]), []),
        (pooled, ["max_pooling2"]),
        (lambda x: dg.join([x, x], axis=1), ["join"]),
        (lambda x: dg.split(x, axis=1, outputs=[1, 3])[1], ["split"]),
        (lambda x: dg.slice(x, offsets=[0, 1, 1, 1], sizes=[1, 2, 3, 3], strides=[1, 1, 2, 2]), ["slice"]),
        (lambda x: dg.tile(x, repeats=[2, 1, 1, 1]), ["tile"]),
    ],
    ids=["transpose", "reshape", "pooling", "join", "split", "slice", "tile"],
)
def test_the_integers_are_moved_themselves(move: Callable[[dg.Value], Any], left: list[str]) -> None:
    model = moved(move)
    rules = ("quantize_again", "quantized_movement")
    remaining = operators(fused(model.graph, *rules))
    assert "quantize_linear" not in remaining
    assert set(left) <= set(remaining)
    assert_same_bits(model.graph, model.inputs, *rules)


def test_another_scale_stays() -> None:
    assert "not the same constants" in refusal(fused(moved(pooled, 0.5).graph), "quantized_movement")


def test_every_integer_comes_back() -> None:
    model = Model()
    whole = np.arange(256, dtype=np.uint8)
    x = model.dequantized(model.input(whole), 0.1, 7)
    model.output(x, 0.1, 7)
    assert_same_bits(model.graph, model.inputs)
    np.testing.assert_array_equal(model.graph.compile("reference").run(model.inputs)["y"], whole)


def test_cpu_computes_products_with_integers() -> None:
    for model in (convolution(), product()):
        executable = model.graph.compile("cpu")
        assert [entry for entry in executable.fusion if entry.applied and entry.rule in PRODUCTS]
        assert "python" not in kinds(executable)


def test_cpu_keeps_means_of_floats_which_are_faster() -> None:
    model = Model()
    x = dg.average_pooling(model.dequantized(model.input(X), X_SCALE, 120), window_size=[2, 2])
    model.output(x, X_SCALE, 120)
    assert "quantized_linear_average_pooling" in operators(fuse(model.graph))
    executable = model.graph.compile("cpu")
    made = [node.operator.name for node in executable.graph.nodes if isinstance(node, OperatorDescNode)]
    assert "average_pooling" in made
    assert "quantized_linear_average_pooling" not in made
    assert "python" not in kinds(executable)


def test_a_level_without_the_operator_keeps_floats() -> None:
    model = convolution()
    result = fuse(model.graph, level=dg.FeatureLevel.V2_0)
    assert "quantized_linear_convolution" not in operators(result)


def test_an_input_that_lies_as_the_output_is_not_the_output() -> None:
    """The input's memory is in the order of the output, but the input has other sizes."""
    model = Model()
    x = model.graph.input("q", sizes=[1, 2, 4, 4], dtype="uint8", strides=[40, 1, 8, 2])
    turned = dg.transpose(model.dequantized(x, 0.5, 3), permutation=[0, 2, 3, 1])
    model.output(turned, 0.5, 3)
    q = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    for device in ("reference", "cpu"):
        for fuses in (True, False):
            (result,) = model.graph.compile(device, fuse=fuses).run({"q": q}).values()
            np.testing.assert_array_equal(result, q.transpose(0, 2, 3, 1), f"{device}, fuse={fuses}")
