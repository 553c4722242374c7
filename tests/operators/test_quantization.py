"""Quantization and back, compared with the formulas in exact numbers; QUANTIZE and DEQUANTIZE also with ONNX's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import (
    FLOATS,
    INF,
    NAN,
    Array,
    Case,
    add_node,
    array,
    assert_same,
    build,
    case,
    refused,
    run,
    run_all,
)
from support.operators.literal import number, places, some
from support.operators.onnx_model import evaluate
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

BYTES = ("int8", "uint8")
EIGHTHS = (np.arange(48) * 37 % 101 - 50).reshape(2, 3, 2, 4) / 8
SCALES = np.array([0.25, 0.5, 2], "float32").reshape(3, 1, 1)
ZERO_POINTS = np.array([3, 0, 100]).reshape(3, 1, 1)


def rank_of(parameter: Array, rank: int) -> Array:
    return parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape)


def steps_at(zero_point: Array | None, rank: int, at: tuple[int, ...]) -> int:
    """The zero point there; 0 if it is left out."""
    return 0 if zero_point is None else int(number(rank_of(zero_point, rank), at))


def quantized(x: Array, scale: Array, zero_point: Array | None, dtype: str) -> Array:
    """clamp(round(x / scale) + zero_point) of a float32 quotient, element by element."""
    low, high = exact.limits(dtype)
    scale = rank_of(scale, x.ndim)
    result = np.zeros(x.shape, dtype)
    for at in places(x.shape):
        quotient = exact.rounded(Fraction(number(x, at)) / Fraction(number(scale, at)), "float32")
        steps = round(Fraction(quotient)) + steps_at(zero_point, x.ndim, at)
        result[at] = min(max(steps, low), high)
    return result


def dequantized(x: Array, scale: Array, zero_point: Array | None) -> Array:
    """(x − zero_point) · scale, element by element, for numbers that float32 holds exactly."""
    result = np.zeros(x.shape, scale.dtype)
    by_rank = rank_of(scale, x.ndim)
    for at in places(x.shape):
        steps = int(number(x, at)) - steps_at(zero_point, x.ndim, at)
        result[at] = exact.rounded(steps * Fraction(number(by_rank, at)), str(scale.dtype))
    return result


def single(value: float, dtype: str) -> Array:
    return np.array([value], dtype)


# The element-wise pair.


def quantize_case(why: str, x: Any, scale: Any, zero_point: Any, of: str, to: str, **fields: Any) -> Case:
    scaled = "float32" if of == "int32" else of
    x, scale = np.asarray(x, of), np.asarray(scale, scaled)
    zero_point = None if zero_point is None else np.asarray(zero_point, to)
    asked = {} if zero_point is not None else {"dtype": to}
    gives = quantized(x, scale, zero_point, to)
    return case(f"{why} to {to}", [x, scale, zero_point], gives, of, **fields, **asked)


class LinearTests(OperatorTests):
    @pytest.mark.parametrize(("level", "legal"), [("6.1", False), ("6.2", True)])
    def test_the_zero_point_may_be_left_out_from_6_2(self, level: str, legal: bool) -> None:
        inputs = [self.sample.inputs[0], self.sample.inputs[1], None]
        if legal:
            build(self.operator, inputs, target=level, **self.asked_dtype)
        else:
            error = refused(self.operator, inputs, target=level, **self.asked_dtype)
            assert error.field == "zero_point"
            assert "may be left out from 6.2" in str(error)

    asked_dtype: ClassVar[dict[str, Any]] = {}

    def test_parameters_are_read_with_zero_strides(self) -> None:
        graph, _ = build(self.operator, self.sample.inputs)
        x, scale, zero_point = operator_of(graph.node("node")).input_descs
        assert scale.sizes == zero_point.sizes == x.sizes
        assert scale.strides == zero_point.strides == (0, 1, 0, 0)


HALVES = [[-1000, -2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, 126.5, 127.5, 255.5, 1000]]


class TestQuantizeLinear(LinearTests):
    operator = "quantize_linear"
    levels = "1.0: 4D F32 | 2.1: 4D F32 I32 | 3.0: 1-8D F32 I32 | 6.0: 1-8D F32 F16 I32"
    asked_dtype: ClassVar = {"dtype": "uint8"}
    sample = quantize_case("by channel", EIGHTHS, SCALES, ZERO_POINTS, "float32", "uint8")
    cases = (
        *(
            quantize_case(f"by channel {of}", EIGHTHS, SCALES, ZERO_POINTS, of, to)
            for of in (*FLOATS, "int32")
            for to in BYTES
        ),
        *(
            quantize_case(why, HALVES, [1], zero, of, to)
            for of in FLOATS
            for to in BYTES
            for why, zero in (("halves and bounds", [0]), ("a zero point", [5]), ("no zero point", None))
        ),
        *(quantize_case("element by element", EIGHTHS, abs(EIGHTHS) + 1, EIGHTHS + 9, "float32", to) for to in BYTES),
        quantize_case("the quotient is a float32", [[0.25, 0.35, 0.45, 0.55, 0.65]], [0.1], [0], "float32", "uint8"),
        case("which makes 3.49999995 a half", [[0.35], single(0.1, "float32"), single(0, "uint8")],
             array([4], "uint8")),
        case("a negative scale", [[1, -1], single(-1, "float32"), single(9, "uint8")], array([8, 10], "uint8")),
        *(
            case(f"what is not a number gives the least {to}",
                 [[INF, -INF, NAN, 3e38], single(1, "float32"), single(3, to)], array([high, low, low, high], to))
            for to in BYTES
            for low, high in [exact.limits(to)]
        ),
    )  # fmt: skip

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        floating = dtype in ("float16", "float32", "float64")
        scale = graph.input("scale", sizes=[1] * rank, dtype=dtype if floating else "float32")
        zero_point = graph.input("zero_point", sizes=[1] * rank, dtype="uint8")
        add_node(graph, self.operator, [x, scale, zero_point])

    @pytest.mark.parametrize(("level", "legal"), [("1.0", False), ("2.1", True)])
    def test_int8_is_legal_from_2_1(self, level: str, legal: bool) -> None:
        x = np.zeros([1, 1, 1, 1], "float32")
        inputs = [x, x, x.astype("int8")]
        if legal:
            build(self.operator, inputs, target=level)
        else:
            fields = [each.field for each in refused(self.operator, inputs, target=level).problems]
            assert fields == ["zero_point.dtype"]

    @pytest.mark.parametrize(("of", "scaled"), [("float32", "float16"), ("float16", "float32"), ("int32", "float16")])
    def test_the_scale_has_the_inputs_type(self, of: str, scaled: str) -> None:
        error = refused(self.operator, [single(1, of), single(1, scaled), single(0, "uint8")])
        assert (error.field, error.got) == ("scale.dtype", scaled)
        assert error.allowed == ("float32" if of == "int32" else of)

    def test_without_a_zero_point_the_outputs_type_must_be_given(self) -> None:
        error = refused(self.operator, [single(1, "float32"), single(1, "float32"), None])
        assert error.field == "output.dtype"

    def test_the_zero_point_says_the_outputs_type(self) -> None:
        error = refused(self.operator, [single(1, "float32"), single(1, "float32"), single(1, "int8")], dtype="uint8")
        assert (error.field, error.got, error.allowed) == ("output.dtype", "uint8", "int8")

    def test_it_is_the_quantize_linear_of_onnx(self, device: DeviceName) -> None:
        x, scale, zero_point = (
            some([3, 20], low=-9, high=9),
            some([3], low=0.1, high=0.3),
            np.array([9, 0, 200], "uint8"),
        )
        (expected,) = evaluate("QuantizeLinear", [x, scale, zero_point], axis=0)
        got = run(self.operator, [x, scale.reshape(3, 1), zero_point.reshape(3, 1)], device=device)
        np.testing.assert_array_equal(got, expected)


def dequantize_case(why: str, x: Any, scale: Any, zero_point: Any, of: str, to: str) -> Case:
    x, scale = np.asarray(x, of), np.asarray(scale, to)
    zero_point = None if zero_point is None else np.asarray(zero_point, of)
    return case(f"{why} to {to}", [x, scale, zero_point], dequantized(x, scale, zero_point), of)


class TestDequantizeLinear(LinearTests):
    operator = "dequantize_linear"
    levels = "1.0: 4D U8 | 2.1: 4D I32 I16 I8 U32 U16 U8 | 3.0: 1-8D I32 I16 I8 U32 U16 U8"
    sample = dequantize_case("by channel", EIGHTHS * 8 + 60, SCALES, ZERO_POINTS, "uint8", "float32")
    cases = (
        *(
            dequantize_case(f"{why} of {of}", [[0, 1, 2, 3, 100, 127]], [0.25], zero_point, of, to)
            for of in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
            for to in FLOATS
            for why, zero_point in (("a zero point", [5]), ("no zero point", None))
        ),
        *(
            dequantize_case("bounds", [exact.limits(of)], [0.5], [exact.limits(of)[at]], of, "float32")
            for of in ("int8", "uint8", "int16", "uint16")
            for at in (0, 1)
        ),
        dequantize_case("by channel", EIGHTHS * 8 + 60, SCALES, ZERO_POINTS, "uint8", "float32"),
        case("large integers are rounded first", [np.array([2**24 + 1, -(2**31)], "int32"), single(1, "float32"),
             single(1, "int32")], array([2**24 - 1, -(2**31)], "float32")),
        case("float16 overflows", [np.array([40000, 60000], "uint16"), single(2, "float16"), None],
             array([INF, INF], "float16")),
    )  # fmt: skip

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype="float32")
        add_node(graph, self.operator, [x, scale, x])

    @pytest.mark.parametrize(("level", "legal"), [("5.2", False), ("6.0", True)])
    def test_float16_is_legal_from_6_0(self, level: str, legal: bool) -> None:
        inputs = [single(1, "uint8"), single(1, "float16"), single(1, "uint8")]
        if legal:
            build(self.operator, inputs, target=level)
        else:
            fields = [each.field for each in refused(self.operator, inputs, target=level).problems]
            assert fields == ["scale.dtype"]

    def test_the_zero_point_has_the_inputs_type(self) -> None:
        error = refused(self.operator, [single(1, "uint8"), single(1, "float32"), single(1, "int8")])
        expect(error, "dtype", node="node", field="zero_point", got="int8 [1]")


# Quantized addition.

A = (np.arange(24) * 37 % 256).reshape(2, 3, 4)
B = (np.arange(24) * 91 % 256).reshape(2, 3, 4)


def added(inputs: Sequence[Any], dtype: str) -> Array:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = inputs
    low, high = exact.limits(dtype)

    def one(parameter: Any) -> Fraction:
        return Fraction(0) if parameter is None else Fraction(float(parameter.reshape(-1)[0]))

    result = np.zeros(a.shape, dtype)
    for at in places(a.shape):
        terms = (int(a[at]) - one(a_zero)) * one(a_scale) + (int(number(b, at)) - one(b_zero)) * one(b_scale)
        result[at] = min(max(round(terms / one(scale)) + one(zero), low), high)
    return result


def add_case(
    why: str, a: str, b: str, to: str, zeros: Sequence[int | None] = (None, None, None), b_values: Array = B
) -> Case:
    first, second = A.astype("uint8").astype(a), b_values.astype("uint8").astype(b)
    points = [None if zero is None else single(zero, of) for zero, of in zip(zeros, (a, b, to), strict=True)]
    scales = [single(value, "float32") for value in (0.5, 0.25, 2)]
    inputs = [first, scales[0], points[0], second, scales[1], points[1], scales[2], points[2]]
    return case(f"{why}, {b} to {to}", inputs, added(inputs, to), a, **({} if zeros[2] is not None else {"dtype": to}))


class TestQuantizedLinearAdd(OperatorTests):
    operator = "quantized_linear_add"
    levels = "4.0: 1-8D I8 U8"
    sample = add_case("zero points", "uint8", "int8", "uint8", (128, -3, 7))
    cases = (
        *(add_case("zero points", a, b, to, (100, 3, 7)) for a in BYTES for b in BYTES for to in BYTES),
        *(add_case("no zero points", a, b, to) for a in BYTES for b in BYTES for to in BYTES),
        add_case("b broadcast", "uint8", "int8", "int8", (1, 2, 3), B[:1, :1]),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype="float32")
        add_node(graph, self.operator, [x, scale, x, x, scale, x, scale, x])

    def test_halves_round_to_even(self, device: DeviceName) -> None:
        one = single(1, "float32")
        a, b = array([[1, 3, 5, 7]], "uint8"), single(0, "uint8").reshape(1, 1)
        got = run(self.operator, [a, one, None, b, one, None, single(2, "float32"), None], device=device)
        np.testing.assert_array_equal(got, [[0, 2, 2, 4]])

    def test_the_output_has_the_type_of_a_unless_told(self) -> None:
        inputs = [*self.sample.inputs[:7], None]
        graph, _ = build(self.operator, inputs)
        assert str(operator_of(graph.node("node")).output.dtype) == "uint8"

    @pytest.mark.parametrize("index", [1, 2, 4, 5, 6, 7])
    def test_parameters_are_one_number(self, index: int) -> None:
        inputs = list(self.sample.inputs)
        inputs[index] = np.ones([1, 1, 4], inputs[index].dtype)
        problems = refused(self.operator, inputs).problems
        assert [(each.message, each.got) for each in problems] == [("must be one number", [1, 1, 4])]

    def test_sizes_that_do_not_broadcast_are_refused(self) -> None:
        inputs = list(self.sample.inputs)
        inputs[3] = inputs[3][:, :2]
        expect(refused(self.operator, inputs), "sizes", node="node", got="[2, 3, 4] and [2, 2, 4]")


# Quantization to the input's own range.


def dynamically(x: Array, dtype: str) -> tuple[Array, Array, Array]:
    """Output, scale and zero point from the formulas; the scale is a float32 product."""
    low, high = exact.limits(dtype)
    numbers = [Fraction(float(each)) for each in x.reshape(-1)]
    least, greatest = min(Fraction(0), *numbers), max(Fraction(0), *numbers)
    width = Fraction(exact.rounded(greatest - least, "float32"))
    scale = Fraction(exact.rounded(width * Fraction(exact.rounded(Fraction(1, 255), "float32")), "float32"))
    origin = Fraction(exact.rounded(Fraction(exact.rounded(-least / scale, "float32")), "float32"))
    zero_point = min(max(round(origin) + low, low), high)
    steps = [round(Fraction(exact.rounded(each / scale, "float32"))) + zero_point for each in numbers]
    output = np.array([min(max(each, low), high) for each in steps], dtype).reshape(x.shape)
    shape = (1,) * x.ndim
    return output, np.full(shape, float(scale), "float32"), np.full(shape, zero_point, dtype)


def dynamic_case(why: str, of: str, to: str, low: float, high: float, sizes: Sequence[int] = (2, 3, 4)) -> Case:
    x = some(sizes, of, low, high)
    return case(f"{why} to {to}", [x], dynamically(x, to), of, dtype=to)


class TestDynamicQuantizeLinear(OperatorTests):
    operator = "dynamic_quantize_linear"
    levels = "4.0: 1-8D F32 F16"
    asked: ClassVar = ("output", "output_scale", "output_zero_point")
    sample = dynamic_case("both signs", "float32", "uint8", -3, 2)
    cases = (
        *(
            dynamic_case(why, of, to, low, high)
            for of in FLOATS
            for to in BYTES
            for why, low, high in (("both signs", -3, 2), ("0 is in the range", 1, 5), ("below 0", -4, -1))
        ),
        dynamic_case("one dimension", "float32", "uint8", -1, 1, [7]),
        *(
            case(f"zeros to {to}", [[0, 0]], (array([low, low], to), array([0], "float32"), array([low], to)), dtype=to)
            for to in BYTES
            for low, _ in [exact.limits(to)]
        ),
        case("halves round to even", [[-1.5, 253.5, 0.5, 2.5]],
             (array([0, 255, 2, 4], "uint8"), array([1], "float32"), array([2], "uint8")), dtype="uint8"),
    )  # fmt: skip

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, self.operator, [graph.input("x", sizes=[1] * rank, dtype=dtype)], dtype="int8")

    def test_the_outputs_type_must_be_given(self) -> None:
        error = refused(self.operator, self.sample.inputs)
        assert (error.field, error.allowed) == ("output.dtype", "int8 or uint8")

    def test_the_zero_point_may_say_it(self) -> None:
        graph, _ = build(self.operator, self.sample.inputs, output_zero_point={"dtype": "int8"})
        assert str(operator_of(graph.node("node")).output.dtype) == "int8"

    def test_it_is_the_dynamic_quantize_linear_of_onnx(self) -> None:
        x = some([40], low=-2, high=3)
        output, scale, zero_point = run_all(self.operator, [x], dtype="uint8")
        expected = evaluate("DynamicQuantizeLinear", [x], outputs=3)
        np.testing.assert_array_equal(output, expected[0])
        np.testing.assert_allclose(scale.reshape(()), expected[1], rtol=1e-6)
        assert zero_point.reshape(()) == expected[2]


# Quantization by blocks.

NIBBLES = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}
ROWS = np.array([[-3, -1.25, 0.5, 1, 2, 100], [7, 0.25, -0.25, -1000, 12, 1.5]])
ROW_LISTS = ROWS.tolist()
BLOCK_SCALES = np.array([[0.5, 2], [1, 0.25]])
BLOCK_ZEROS = np.array([[3, 1], [0, 7]])
HALF = array([[0.5]], "float32")


def typed(values: Any, dtype: str) -> Array:
    return np.asarray(values).astype(getattr(ml_dtypes, dtype) if dtype.endswith("4") else dtype)


def at_block(parameter: Any, row: int, column: int, sizes: tuple[int, int]) -> Fraction:
    """The number for an element: rows and columns are cut into as many blocks as the parameter has numbers."""
    rows, columns = parameter.shape
    return Fraction(float(parameter[row * rows // sizes[0], column * columns // sizes[1]]))


def by_blocks(x: Array, scale: Any, zero_point: Any, to: str) -> Array:
    low, high = NIBBLES[to]
    result = np.zeros(x.shape, int)
    for row, column in np.ndindex(*x.shape):
        step = Fraction(1) if scale is None else at_block(scale, row, column, x.shape)
        origin = Fraction(0) if zero_point is None else at_block(zero_point, row, column, x.shape)
        result[row, column] = min(max(round(Fraction(float(x[row, column])) / step) + origin, low), high)
    return typed(result, to)


def from_blocks(x: Array, scale: Any, zero_point: Any, to: str) -> Array:
    result = np.zeros(x.shape, to)
    for row, column in np.ndindex(*x.shape):
        step = Fraction(1) if scale is None else at_block(scale, row, column, x.shape)
        origin = Fraction(0) if zero_point is None else at_block(zero_point, row, column, x.shape)
        result[row, column] = float((int(x[row, column]) - origin) * step)
    return result


class BlockTests(OperatorTests):
    """The checks of QUANTIZE and DEQUANTIZE."""

    @pytest.mark.parametrize(("kind", "count"), [("none", 1), ("scale", 0), ("scale", 2), ("scale_zero_point", 1)])
    def test_the_type_says_how_many_parameters_there_are(self, kind: str, count: int) -> None:
        x, parameters = self.sample.inputs
        inputs = [x, parameters[:count]]
        error = next(
            each
            for each in refused(
                self.operator, inputs, quantization_type=kind, dtype=str(self.sample.gives[0].dtype)
            ).problems
            if each.field == "quantizations"
        )
        assert (error.got, error.allowed) == (count, str(("none", "scale", "scale_zero_point").index(kind)))

    def test_blocks_divide_the_input(self) -> None:
        x, parameters = self.sample.inputs
        inputs = [x, [typed(np.ones([2, 4]), str(each.dtype)) for each in parameters]]
        problems = refused(self.operator, inputs, **self.sample.fields).problems
        assert [(each.field, each.got, each.allowed) for each in problems] == [
            (f"quantizations.{index}.sizes.1", 4, "divisors of 6") for index in (0, 1)
        ]

    def test_missing_dimensions_are_of_size_1(self) -> None:
        x, parameters = self.sample.inputs
        few, whole = (
            run(self.operator, [x, [each[:1].reshape(shape) for each in parameters]], **self.sample.fields)
            for shape in ((2,), (1, 2))
        )
        assert_same(few, whole)

    def test_packed_nibbles_come_back(self) -> None:
        """An odd number of 4-bit elements: [1, 2, 3, 4, 5] is 21 43 05 in memory."""
        desc = dg.TensorDesc(dtype="uint4", sizes=[5])
        assert bytes(desc.pack(typed([1, 2, 3, 4, 5], "uint4"))) == bytes.fromhex("21430500")


class TestQuantize(BlockTests):
    operator = "quantize"
    levels = "6.3: 1-8D F32 F16"
    sample = case(
        "blocks",
        [ROW_LISTS, [BLOCK_SCALES.astype("float32"), typed(BLOCK_ZEROS, "uint4")]],
        by_blocks(ROWS, BLOCK_SCALES, BLOCK_ZEROS, "uint4"),
        quantization_type="scale_zero_point",
    )
    cases = (
        *(
            case(f"blocks to {to}", [ROW_LISTS, [BLOCK_SCALES.astype(of), typed(BLOCK_ZEROS, to)]],
                 by_blocks(ROWS, BLOCK_SCALES, BLOCK_ZEROS, to), of, quantization_type="scale_zero_point")
            for of in FLOATS
            for to in NIBBLES
        ),
        *(
            case(f"a scale to {to}", [ROW_LISTS, [BLOCK_SCALES.astype(of)]],
                 by_blocks(ROWS, BLOCK_SCALES, None, to), of,
                 quantization_type="scale", dtype=to)
            for of in FLOATS
            for to in NIBBLES
        ),
        case("one scale", [ROW_LISTS, [HALF]], by_blocks(ROWS, HALF, None, "int8"),
             quantization_type="scale", dtype="int8"),
        case("a scale for each element", [ROW_LISTS, [abs(ROWS).astype("float32")]],
             by_blocks(ROWS, abs(ROWS), None, "int4"), quantization_type="scale", dtype="int4"),
        case("halves round to even", [[[0.5, 1.5, 2.5, -0.5]], []], typed([[0, 2, 2, 0]], "int4"),
             quantization_type="none", dtype="int4"),
    )  # fmt: skip

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, [scale]], quantization_type="scale", dtype="uint8")

    def test_the_scale_has_the_inputs_type(self) -> None:
        inputs = [ROWS.astype("float32"), [BLOCK_SCALES.astype("float16")]]
        error = refused(self.operator, inputs, quantization_type="scale", dtype="int8")
        assert (error.field, error.got, error.allowed) == ("quantizations.0.dtype", "float16", "float32")

    def test_without_a_zero_point_the_outputs_type_must_be_given(self) -> None:
        inputs = [ROWS.astype("float32"), [BLOCK_SCALES.astype("float32")]]
        assert refused(self.operator, inputs, quantization_type="scale").field == "output.dtype"

    def test_it_is_the_quantize_linear_of_onnx_with_blocks(self) -> None:
        x, scale = some([2, 6], low=-9, high=9), BLOCK_SCALES.astype("float32")
        zero_point = BLOCK_ZEROS.astype("uint8")
        (expected,) = evaluate("QuantizeLinear", [x, scale, zero_point], axis=1, block_size=3)
        got = run(self.operator, [x, [scale, zero_point]], quantization_type="scale_zero_point")
        np.testing.assert_array_equal(got, expected)


CODES = np.array([[0, 1, 2, 3, 4, 5], [6, 7, 7, 0, 1, 2]])


class TestDequantize(BlockTests):
    operator = "dequantize"
    levels = "6.3: 1-8D I8 I4 U8 U4"
    sample = case(
        "blocks",
        [typed(CODES, "uint4"), [BLOCK_SCALES.astype("float32"), typed(BLOCK_ZEROS, "uint4")]],
        from_blocks(CODES, BLOCK_SCALES, BLOCK_ZEROS, "float32"),
        quantization_type="scale_zero_point",
    )
    cases = (
        *(
            case(f"blocks of {of} to {to}", [typed(CODES, of), [BLOCK_SCALES.astype(to), typed(BLOCK_ZEROS, of)]],
                 from_blocks(CODES, BLOCK_SCALES, BLOCK_ZEROS, to), quantization_type="scale_zero_point")
            for of in NIBBLES
            for to in FLOATS
        ),
        *(
            case(f"a scale of {of}", [typed(CODES, of), [BLOCK_SCALES.astype("float32")]],
                 from_blocks(CODES, BLOCK_SCALES, None, "float32"), quantization_type="scale")
            for of in NIBBLES
        ),
        case("bounds of int4", [typed([[-8, 7]], "int4"), [array([[0.5]], "float32")]], [[-4, 3.5]],
             quantization_type="scale"),
        case("no scale", [typed([[-8, 7]], "int4"), []], [[-8, 7]], quantization_type="none", dtype="float32"),
    )  # fmt: skip

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype="float32")
        add_node(graph, self.operator, [x, [scale, x]], quantization_type="scale_zero_point")

    def test_the_zero_point_has_the_inputs_type(self) -> None:
        inputs = [typed(CODES, "uint4"), [BLOCK_SCALES.astype("float32"), typed(BLOCK_ZEROS, "uint8")]]
        error = refused(self.operator, inputs, quantization_type="scale_zero_point")
        assert (error.field, error.got, error.allowed) == ("quantizations.1.dtype", "uint8", "uint4")

    def test_without_a_scale_the_outputs_type_must_be_given(self) -> None:
        assert refused(self.operator, [typed(CODES, "uint4"), []], quantization_type="none").field == "output.dtype"

    def test_it_is_the_dequantize_linear_of_onnx_with_blocks(self) -> None:
        x, scale, zero_point = CODES.astype("uint8"), BLOCK_SCALES.astype("float32"), BLOCK_ZEROS.astype("uint8")
        (expected,) = evaluate("DequantizeLinear", [x, scale, zero_point], axis=1, block_size=3)
        got = run(self.operator, [x, [scale, zero_point]], quantization_type="scale_zero_point")
        np.testing.assert_array_equal(got, expected)
