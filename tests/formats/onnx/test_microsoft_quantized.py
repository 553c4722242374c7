"""Quantized operators of com.microsoft, against ONNX Runtime's CPU: integers differ by a step at most, and few do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Array, Case, Chance, Makers

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

making = Makers()
BIAS = np.linspace(-3, 3, 6, dtype=np.float32)


def scale(chance: Chance, least: float = 0.01, most: float = 0.05) -> Array:
    return chance.positive(least=least, most=most)


def zero(chance: Chance, dtype: Any) -> Array:
    return np.array(chance.size(-20, 20) + (128 if dtype is np.uint8 else 0), dtype)


def pair(chance: Chance, dtype: Any) -> list[Array]:
    return [scale(chance), zero(chance, dtype)]


def kind(chance: Chance) -> Any:
    return chance.one(np.uint8, np.int8)


# Element-wise.


def _binary(operator: str, chance: Chance) -> Case:
    dtype = kind(chance)
    left, right = chance.one(((3, 40), (40,)), ((2, 3, 40), (3, 40)), ((1, 40), (3, 1)), ((3, 40), ()))
    inputs = [chance.whole(dtype, *left), *pair(chance, dtype), chance.whole(dtype, *right), *pair(chance, dtype)]
    known = chance.one((), (1, 2, 4, 5, 6, 7))
    return Case(operator, [*inputs, *pair(chance, dtype)], known=known, steps=1)


@making(16)
def _add(chance: Chance) -> Case:
    return _binary("QLinearAdd", chance)


@making(16)
def _mul(chance: Chance) -> Case:
    return _binary("QLinearMul", chance)


@making(8)
def _sigmoid(chance: Chance) -> Case:
    dtype = kind(chance)
    result = [np.array(1 / 256, np.float32), np.array(0 if dtype is np.uint8 else -128, dtype)]
    return Case("QLinearSigmoid", [chance.whole(dtype, 3, 90), *pair(chance, dtype), *result], steps=1)


@making(8)
def _leaky_relu(chance: Chance) -> Case:
    dtype = kind(chance)
    inputs = [chance.whole(dtype, 3, 90), *pair(chance, dtype), *pair(chance, dtype)]
    return Case("QLinearLeakyRelu", inputs, chance.one({}, {"alpha": 0.3}), steps=1)


@making(16)
def _softmax(chance: Chance) -> Case:
    dtype, opset = kind(chance), chance.one(11, 13)
    result = [np.array(1 / 256, np.float32), np.array(0 if dtype is np.uint8 else -128, dtype)]
    inputs = [chance.whole(dtype, 4, 5, 6), *pair(chance, dtype), *result]
    return Case("QLinearSoftmax", inputs, {"opset": opset, **chance.one({}, {"axis": chance.size(-3, 2)})}, steps=1)


@making(12)
def _where(chance: Chance) -> Case:
    dtype = kind(chance)
    sides = chance.one(((4, 30), (30,)), ((1, 30), (4, 1)), ((4, 30), (4, 30)))
    inputs = [chance.below(2, 4, 30, dtype=bool)]
    for sizes in sides:
        inputs += [chance.whole(dtype, *sizes), *pair(chance, dtype)]
    return Case("QLinearWhere", [*inputs, *pair(chance, dtype)], steps=1)


@making(12)
def _concat(chance: Chance) -> Case:
    dtype, axis = kind(chance), chance.one(0, 1, -1)
    result = pair(chance, dtype)
    inputs: list[Any] = [*result]
    for _ in range(chance.size(1, 3)):
        sizes = [4, 20]
        sizes[axis] = chance.size(1, 9)
        inputs += [chance.whole(dtype, *sizes), *chance.one(result, pair(chance, dtype))]
    known = [index for index in range(len(inputs)) if index < 2 or index % 3 != 2]
    return Case("QLinearConcat", inputs, {"axis": axis}, known=tuple(known), steps=1)


# Averages.


@making(24, old=False)  # as average_pooling1
def _average_pool(chance: Chance) -> Case:
    dtype, last = kind(chance), chance.flag()
    sizes = (2, 6, 7, 3) if last else (2, 3, 6, 7)
    inputs = [chance.whole(dtype, *sizes), *pair(chance, dtype), *pair(chance, dtype)]
    ceil = chance.flag()
    fields = {"kernel_shape": [2, 3], "strides": [chance.size(1, 2), 2], "channels_last": last, "ceil_mode": ceil}
    padded = chance.one({}, {"pads": [1, 1, 0, 1]}, {"auto_pad": "SAME_UPPER"})
    fields |= padded | ({"count_include_pad": 1} if not ceil and "pads" in padded else {})
    return Case("QLinearAveragePool", inputs, fields, steps=1)


@making(12)
def _global_average_pool(chance: Chance) -> Case:
    dtype, last = kind(chance), chance.flag()
    sizes = (4, 3, 5, 8) if last else (4, 8, 3, 5)
    inputs = [chance.whole(dtype, *sizes), *pair(chance, dtype), scale(chance, 0.002, 0.01), zero(chance, dtype)]
    return Case("QLinearGlobalAveragePool", inputs, {"channels_last": last}, steps=1)


@pytest.mark.parametrize("fields", [{}, {"axes": [1]}, {"axes": [-1, 0], "keepdims": 0}])
@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_the_mean_which_onnx_runtime_lacks(device: DeviceName, fields: dict[str, Any]) -> None:
    x = Chance(1).whole(np.uint8, 4, 5, 6)
    values = [np.array(each, np.float32) for each in (0.02, 0.01)]
    axes = tuple(fields.get("axes", range(3)))
    mean = ((x.astype(np.float64) - 100) * 0.02).mean(axis=axes, keepdims=bool(fields.get("keepdims", 1)))
    expected = np.clip(np.round(mean / 0.01) + 90, 0, 255).astype(np.uint8)
    inputs = [x, values[0], np.array(100, np.uint8), values[1], np.array(90, np.uint8)]
    Case("QLinearReduceMean", inputs, fields, steps=1).check([expected], device)


# Products.


@making(20)
def _conv(chance: Chance) -> Case:
    dtype, last, group, many = kind(chance), chance.flag(), chance.one(1, 2), chance.flag()
    filters = np.int8 if dtype is np.int8 else kind(chance)
    x = chance.whole(dtype, *((2, 6, 5, 4) if last else (2, 4, 6, 5)))
    weight_scale = chance.positive(6) if many else scale(chance)
    weight_zero = np.zeros(6, filters) if many else np.array(0 if filters is np.int8 else 120, filters)
    inputs = [x, *pair(chance, dtype), chance.weights(filters, 6, 4 // group, 3, 2), weight_scale, weight_zero]
    inputs += [np.array(0.9, np.float32), zero(chance, dtype), chance.maybe(chance.below(2000, 6) - 1000)]
    fields = {"channels_last": last, "group": group, "pads": [1, 0, 1, 1], "strides": [1, chance.size(1, 2)]}
    return Case("QLinearConv", inputs, fields, known=(3, 4, 5), steps=1)


@making(24)
def _gemm(chance: Chance) -> Case:
    dtype, many, to_steps = kind(chance), chance.flag(), chance.flag()
    weights = np.int8 if dtype is np.int8 else kind(chance)
    turn_a, turn_b = chance.flag(), chance.flag()
    a = chance.whole(dtype, *((8, 5) if turn_a else (5, 8)))
    b = chance.weights(weights, *((6, 8) if turn_b else (8, 6)))
    b_pair = [chance.positive(6), chance.whole(weights, 6)] if many else pair(chance, weights)
    c = chance.one(None, *(chance.below(9999, *sizes) - 5000 for sizes in ((6,), (5, 1), (5, 6), (1,))))
    inputs = [a, *pair(chance, dtype), b, *b_pair, c]
    inputs += [np.array(3.0, np.float32), zero(chance, dtype)] if to_steps else []
    fields = {"transA": turn_a, "transB": turn_b, **chance.one({}, {"alpha": 0.7})}
    return Case("QGemm", inputs, fields, steps=1)


def _b(chance: Chance, dtype: Any, batch: tuple[int, ...] = ()) -> tuple[Array, Array, Array | None]:
    """A right factor with its scale and zero point, for each column or for all."""
    b = chance.weights(dtype, *batch, 8, 6)
    if chance.flag():
        return b, chance.positive(6), chance.maybe(chance.whole(dtype, 6))
    return b, scale(chance), chance.maybe(zero(chance, dtype))


@making(20)
def _matmul_integer_to_float(chance: Chance) -> Case:
    dtype = kind(chance)
    a = chance.whole(dtype, *chance.one((5, 8), (2, 5, 8), (2, 3, 5, 8)))
    b, b_scale, b_zero = _b(chance, np.int8 if dtype is np.int8 else kind(chance))
    inputs = [a, b, scale(chance), b_scale, chance.maybe(zero(chance, dtype)), b_zero, chance.maybe(chance.floats(6))]
    return Case("MatMulIntegerToFloat", inputs)


def test_a_bias_is_not_scaled() -> None:
    """ONNX Runtime multiplies it by the scales of the columns where b has batches; the definition does not."""
    chance = Chance(2)
    a, b, scales, bias = chance.whole(np.int8, 2, 5, 8), chance.whole(np.int8, 2, 8, 6), chance.positive(6), BIAS
    expected = (a.astype(np.float64) @ b.astype(np.float64) * scales * 0.5 + bias).astype(np.float32)
    case = Case("MatMulIntegerToFloat", [a, b, np.array(0.5, np.float32), scales, None, None, bias])
    case.check([expected], "reference", "cpu")


@making(20)
def _dynamic_quantize_matmul(chance: Chance) -> Case:
    b, b_scale, b_zero = _b(chance, kind(chance))
    a = chance.floats(*chance.one((5, 8), (2, 5, 8)))
    # The quantized a may differ by a step where x / scale lies between two.
    return Case("DynamicQuantizeMatMul", [a, b, b_scale, b_zero, chance.maybe(chance.floats(6))], bound=2e-3)


@making(12)
def _quantize_linear(chance: Chance) -> Case:
    dtype = kind(chance)
    if chance.flag():
        return Case("QuantizeLinear", [chance.floats(4, 30), *pair(chance, dtype)], steps=1)
    axis = chance.size(-2, 1)
    count = (4, 30)[axis]
    inputs = [chance.floats(4, 30), chance.positive(count), chance.whole(dtype, count)]
    return Case("QuantizeLinear", inputs, {"axis": axis}, steps=1)


@making(16)
def _dequantize_linear(chance: Chance) -> Case:
    dtype = chance.one(np.uint8, np.int8, np.uint16, np.int16)
    if chance.flag():
        point = chance.maybe(chance.whole(dtype))
        return Case("DequantizeLinear", [chance.whole(dtype, 4, 30), scale(chance), point])
    axis = chance.size(-2, 1)
    count = (4, 30)[axis]
    inputs = [chance.whole(dtype, 4, 30), chance.positive(count), chance.whole(dtype, count)]
    return Case("DequantizeLinear", inputs, {"axis": axis})


@making(4)
def _dequantize_linear_of_sums(chance: Chance) -> Case:
    return Case("DequantizeLinear", [chance.below(10**6, 4, 30), scale(chance)])


@pytest.mark.parametrize("name", list(making))
@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives(name: str) -> None:
    making.check(name)


def _lstm_of(seed: int, directions: int, per_column: bool, signed: bool) -> tuple[Case, Case]:
    """A quantized LSTM, and an LSTM of the numbers that its weights stand for."""
    generator = np.random.default_rng(seed)
    steps, batch, width, hidden = 5, 2, 7, 6
    kind = np.int8 if signed else np.uint8
    columns = (directions, 4 * hidden) if per_column else (directions,)
    weights: list[tuple[Array, Array, Array]] = []
    numbers: list[Array] = []
    for rows in (width, hidden):
        whole = generator.integers(np.iinfo(kind).min, np.iinfo(kind).max, (directions, rows, 4 * hidden)).astype(
            kind
        )
        scale = generator.uniform(0.004, 0.008, columns).astype(np.float32)
        zero = generator.integers(-5, 5, columns).astype(kind) if signed else np.full(columns, 128, kind)
        zero *= not per_column  # ONNX Runtime takes no others
        shape = (directions, 1, -1)
        real = (whole.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)
        weights.append((whole, scale, zero))
        numbers.append(np.ascontiguousarray(real.transpose(0, 2, 1)))
    x = generator.normal(0, 1, (steps, batch, width)).astype(np.float32)
    bias = generator.normal(0, 0.1, (directions, 8 * hidden)).astype(np.float32)
    lengths = np.array([5, 3], np.int32)
    start = generator.normal(0, 0.5, (directions, batch, hidden)).astype(np.float32)
    rest = [bias, lengths, start, start]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    inputs = [x, weights[0][0], weights[1][0], *rest, None, *weights[0][1:], *weights[1][1:]]
    outputs = (True, True, True)
    quantized = Case("DynamicQuantizeLSTM", inputs, attributes, outputs, known=(1, 2, 8, 9, 10, 11), bound=0.05)
    return quantized, Case("LSTM", [x, *numbers, *rest], attributes, outputs, domain="")


@pytest.mark.parametrize("device", ["cpu", "reference", "directml:software"])
@pytest.mark.parametrize(
    ("directions", "per_column", "signed"), [(1, False, False), (2, False, True), (1, True, True), (2, True, True)]
)
@pytest.mark.usefixtures("directml_path")
def test_a_quantized_lstm_keeps_its_inputs_as_floats(
    directions: int, per_column: bool, signed: bool, device: DeviceName
) -> None:
    quantized, exact = _lstm_of(1, directions, per_column, signed)
    quantized.check(quantized.expected(), device)  # ONNX Runtime rounds the inputs to 8 bits
    for result, wanted in zip(quantized.run(device), exact.expected(), strict=True):
        np.testing.assert_allclose(result.reshape(wanted.shape), wanted, 1e-4, 1e-5)


# Refusals.

X, ONE, POINT = np.zeros((4, 6), np.uint8), np.array(1, np.float32), np.array(3, np.uint8)
TWO = np.ones(2, np.float32)
REFUSED = {
    "two scales": ("input 1", Case("QLinearSigmoid", [X, TWO, POINT, ONE, POINT])),
    "two scales of the result": ("input 3", Case("QLinearLeakyRelu", [X, ONE, POINT, TWO, POINT])),
    "a tensor without a scale": (None, Case("QLinearConcat", [ONE, POINT, X, ONE], {"axis": 0})),
    "no axis": ("axis", Case("QLinearConcat", [ONE, POINT, X, ONE, POINT])),
    "an axis beyond the last": ("axis", Case("QLinearConcat", [ONE, POINT, X, ONE, POINT], {"axis": 2})),
    "columns": (None, Case("MatMulIntegerToFloat", [X, X.T.copy(), ONE, np.ones(5, np.float32)])),
    "a zero point for each column of a": (
        None,
        Case("MatMulIntegerToFloat", [X, X.T.copy(), ONE, ONE, np.zeros(6, np.uint8)]),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused(name: str) -> None:
    field, case = REFUSED[name]
    with pytest.raises(dg.ModelError) as caught:
        case.graph()
    assert [problem.field for problem in caught.value.problems] == [field]
