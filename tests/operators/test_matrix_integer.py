"""Matrix products of integers, compared with the sums in Python's integers and fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, Array, Case, add_node, array, build, case, operator_class, refused, run
from support.operators.literal import places, some
from support.operators.onnx_model import evaluate
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

BYTES = ("int8", "uint8")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def codes(sizes: Sequence[int], dtype: str, factor: int = 37) -> Array:
    """Integers of an 8-bit type's whole range; small ones of a wider type."""
    values = np.arange(int(np.prod(sizes))) * factor % 256
    return values.astype("uint8").astype(dtype if dtype in BYTES else "uint8").astype(dtype).reshape(sizes)


def parameter(array_: Any, places_: int, index: int) -> Fraction:
    """The number for a row or column: 0 for an absent parameter, else its only number or the one at the index."""
    if array_ is None:
        return Fraction(0)
    flat = array_.reshape(-1)
    assert len(flat) in (1, places_)
    return Fraction(float(flat[index if len(flat) > 1 else 0]))


def products(a: Array, a_zero: Any, b: Array, b_zero: Any, a_scale: Any = None, b_scale: Any = None) -> Any:
    """The function of an output index: Σ (a − a_zero) · a_scale · (b − b_zero) · b_scale."""
    rows, columns = a.shape[-2], b.shape[-1]

    def element(at: tuple[int, ...]) -> Fraction:
        *batch, row, column = at
        total = Fraction(0)
        for k in range(a.shape[-1]):
            left = int(a[(*batch, row, k)]) - parameter(a_zero, rows, row)
            right = int(b[(*batch, k, column)]) - parameter(b_zero, columns, column)
            total += left * right
        for scale, count, index in ((a_scale, rows, row), (b_scale, columns, column)):
            total *= 1 if scale is None else parameter(scale, count, index)
        return total

    return element


def output_sizes(a: Array, b: Array) -> tuple[int, ...]:
    return (*a.shape[:-1], b.shape[-1])


class ProductTests(OperatorTests):
    """The checks of all three: shapes and parameters."""

    def at(self, field: str) -> int:
        return operator_class(self.operator).input_fields.index(field)

    @property
    def parameters(self) -> list[str]:
        fields = operator_class(self.operator).input_fields
        return [field for field in fields if field not in ("a", "b", "bias")]

    def test_inner_sizes_agree(self) -> None:
        inputs = list(self.sample.inputs)
        inputs[self.at("b")] = inputs[self.at("b")][..., :2, :]
        error = refused(self.operator, inputs, **self.sample.fields)
        expect(error, "sizes", node="node", field="b.sizes")

    def test_a_matrix_has_two_dimensions(self) -> None:
        inputs = list(self.sample.inputs)
        inputs[0] = inputs[0].reshape(-1)
        assert refused(self.operator, inputs, **self.sample.fields).field == "a"
        cls = operator_class(self.operator)
        required = [field for field in cls.input_fields if cls.fields[field].required]
        with raises(dg.OperatorError, "rank", got="1") as caught:
            cls(**dict.fromkeys(required, dg.TensorDesc(dtype="uint8", sizes=[3])))
        assert caught.value.field == "a"

    def test_batches_broadcast_by_zero_strides(self, device: DeviceName) -> None:
        inputs = list(self.sample.inputs)
        inputs[0] = np.stack([inputs[0], inputs[0]])
        graph, feeds = build(self.operator, inputs, **self.sample.fields)
        assert operator_of(graph.node("node")).b.strides[:1] == (0,)
        (got,) = graph.compile(device=device, fuse=False).run(feeds).values()
        for each in got:
            self.assert_close(each, self.sample.gives[0], device)

    def test_batches_that_differ_are_refused(self) -> None:
        inputs = list(self.sample.inputs)
        inputs[0], inputs[self.at("b")] = np.stack([inputs[0]] * 2), np.stack([inputs[self.at("b")]] * 3)
        expect(refused(self.operator, inputs, **self.sample.fields), "sizes", node="node", got="[2] and [3]")

    def test_parameters_are_one_number_or_one_a_row_or_column(self) -> None:
        for field in self.parameters:
            inputs = list(self.sample.inputs)
            inputs[self.at(field)] = np.ones([5], inputs[self.at(field)].dtype)
            problems = refused(self.operator, inputs, **self.sample.fields).problems
            vector, got = ([1, 4], [1, 5]) if field.startswith("b_") else ([2, 1], [5, 1])
            assert [(each.field, each.got, each.allowed) for each in problems] == [
                (f"{field}.sizes", got, f"[1, 1] or {vector}")
            ]

    def test_vectors_are_rows_of_a_and_columns_of_b(self, device: DeviceName) -> None:
        """The same as tensors of two dimensions."""
        flat = [
            each.reshape(-1) if field in self.parameters and each is not None else each
            for field, each in zip(operator_class(self.operator).input_fields, self.sample.inputs, strict=True)
        ]
        got = run(self.operator, flat, device=device, **self.sample.fields)
        self.assert_close(got, self.sample.gives[0], device)


def integer_case(why: str, a: Array, a_zero: Any, b: Array, b_zero: Any) -> Case:
    element = products(a, a_zero, b, b_zero)
    gives = np.array([int(element(at)) for at in places(output_sizes(a, b))], "int32").reshape(output_sizes(a, b))
    return case(f"{why} of {b.dtype}", [a, a_zero, b, b_zero], gives, str(a.dtype))


ROW_ZEROS, COLUMN_ZEROS = np.array([[3], [100]]), np.array([[1, 0, 50, 127]])


class TestMatrixMultiplyInteger(ProductTests):
    operator = "matrix_multiply_integer"
    levels = "2.1: 4D I8 U8 | 4.0: 2-4D I8 U8"
    sample = integer_case("rows and columns", codes([2, 3], "uint8"), ROW_ZEROS.astype("uint8"),
                          codes([3, 4], "int8", 91), COLUMN_ZEROS.astype("int8"))  # fmt: skip
    cases = tuple(
        integer_case(
            why, codes(left, a), a_zero and a_zero[0].astype(a), codes(right, b, 91), b_zero and b_zero[0].astype(b)
        )
        for a in BYTES
        for b in BYTES
        for why, left, right, a_zero, b_zero in (
            ("no zero points", [2, 3], [3, 4], None, None),
            ("one zero point each", [2, 3], [3, 4], [np.array([7])], [np.array([11])]),
            ("rows and columns", [2, 3], [3, 4], [ROW_ZEROS], [COLUMN_ZEROS]),
            ("rows only", [2, 3], [3, 4], [ROW_ZEROS], None),
            ("batches", [2, 3, 2, 3], [2, 3, 3, 4], [ROW_ZEROS], [COLUMN_ZEROS]),
        )
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x, x, x])

    def test_zero_points_have_the_matrices_types(self) -> None:
        inputs = [self.sample.inputs[0], array([1], "int8"), *self.sample.inputs[2:]]
        error = refused(self.operator, inputs)
        expect(error, "dtype", node="node", field="a_zero_point", got="int8 [1,1]")

    def test_it_is_the_mat_mul_integer_of_onnx(self, device: DeviceName) -> None:
        a, b = codes([5, 8], "uint8"), codes([8, 6], "uint8", 91)
        zeros = [array([130], "uint8"), array([9], "uint8")]
        (expected,) = evaluate("MatMulInteger", [a, b, *(each[0] for each in zeros)])
        got = run(self.operator, [a, zeros[0], b, zeros[1]], device=device)
        np.testing.assert_array_equal(got, expected)


def linear_case(why: str, a: Array, b: Array, to: str, parameters: Sequence[Any]) -> Case:
    """parameters: scale and zero point of a, b and the output."""
    a_scale, a_zero, b_scale, b_zero, scale, zero = parameters
    a_zero, b_zero, zero = (
        None if each is None else np.asarray(each).astype(of)
        for each, of in ((a_zero, a.dtype), (b_zero, b.dtype), (zero, to))
    )
    scales = [np.asarray(each, "float32") for each in (a_scale, b_scale, scale)]
    element = products(a, a_zero, b, b_zero, *scales[:2])
    low, high = exact.limits(to)
    sizes = output_sizes(a, b)
    gives = np.zeros(sizes, to)
    for at in places(sizes):
        steps = round(element(at) / parameter(scales[2], a.shape[-2], at[-2])) + parameter(zero, a.shape[-2], at[-2])
        gives[at] = min(max(steps, low), high)
    inputs = [a, scales[0], a_zero, b, scales[1], b_zero, scales[2], zero]
    return case(f"{why}, {b.dtype} to {to}", inputs, gives, str(a.dtype), **({} if zero is not None else {"dtype": to}))


SINGLE = ([0.5], [7], [0.25], [11], [64], [5])
VECTORS = ([[0.5], [0.25]], ROW_ZEROS, [[1, 0.5, 0.25, 2]], COLUMN_ZEROS, [[64], [32]], [[3], [100]])
ONE_ZERO = ([[0.5], [0.25]], [7], [[1, 0.5, 0.25, 2]], [11], [[64], [32]], [5])
BARE = ([0.5], None, [0.25], None, [64], None)


class TestQuantizedLinearMatrixMultiply(ProductTests):
    operator = "quantized_linear_matrix_multiply"
    levels = "2.1: 4D I8 U8 | 4.0: 2-4D I8 U8"
    sample = linear_case("rows and columns", codes([2, 3], "uint8"), codes([3, 4], "int8", 91), "uint8", VECTORS)
    cases = (
        *(
            linear_case(why, codes([2, 3], a), codes([3, 4], b, 91), to, parameters)
            for a in BYTES
            for b in BYTES
            for to in BYTES
            for why, parameters in (("one of each", SINGLE), ("rows and columns", VECTORS), ("no zero points", BARE))
        ),
        linear_case("one zero point", codes([2, 3], "uint8"), codes([3, 4], "int8", 91), "uint8", ONE_ZERO),
        linear_case("batches", codes([2, 3, 2, 3], "uint8"), codes([2, 3, 3, 4], "uint8", 91), "uint8", VECTORS),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype="float32")
        add_node(graph, self.operator, [x, scale, x, x, scale, x, scale, x])

    def test_halves_round_to_even_in_directmls_order_of_products(self, device: DeviceName) -> None:
        """0.1 · 0.1 / 0.02 is not 0.5 in float32: 0.1 · (0.1 / 0.02) is."""
        a, one = array([[1], [3], [5], [7]], "int8"), array([[1]], "int8")
        tenth, fiftieth = array([0.1], "float32"), array([0.02], "float32")
        got = run(self.operator, [a, tenth, None, one, tenth, None, fiftieth, None], device=device)
        np.testing.assert_array_equal(got, [[0], [2], [2], [4]])

    def test_the_output_has_the_type_of_a_unless_told(self) -> None:
        inputs = [*self.sample.inputs[:7], None]
        graph, _ = build(self.operator, inputs)
        assert str(operator_of(graph.node("node")).output.dtype) == "uint8"

    def test_it_is_the_qlinear_mat_mul_of_onnx(self, device: DeviceName) -> None:
        a, b = codes([5, 8], "uint8"), codes([8, 6], "uint8", 91)
        scales = [array([value], "float32") for value in (0.013, 0.021, 0.9)]
        zeros = [array([value], "uint8") for value in (130, 9, 100)]
        mixed = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
        (expected,) = evaluate("QLinearMatMul", [each if each.ndim > 1 else each[0] for each in mixed])
        np.testing.assert_array_equal(run(self.operator, mixed, device=device), expected)


def float_case(why: str, a: Array, b: Array, to: str, parameters: Sequence[Any], bias: Any = None) -> Case:
    a_scale, a_zero, b_scale, b_zero = parameters
    a_zero, b_zero = (None if each is None else np.asarray(each).astype(a.dtype) for each in (a_zero, b_zero))
    a_scale, b_scale = (np.asarray(each, to) for each in (a_scale, b_scale))
    element = products(a, a_zero, b, b_zero, a_scale, b_scale)
    sizes = output_sizes(a, b)
    bias = None if bias is None else np.asarray(bias, to)
    whole = None if bias is None else np.broadcast_to(bias, sizes)
    values = [element(at) + (0 if whole is None else Fraction(float(whole[at]))) for at in places(sizes)]
    gives = np.array([exact.rounded(each, to) for each in values], to).reshape(sizes)
    return case(f"{why} to {to}", [a, a_scale, a_zero, b, b_scale, b_zero, bias], gives, str(a.dtype))


F_SINGLE = ([1 / 16], [7], [1 / 32], [11])
F_VECTORS = ([[1 / 16], [1 / 64]], ROW_ZEROS, [[1 / 4, 1 / 8, 1 / 32, 1 / 2]], COLUMN_ZEROS)
F_BARE = ([1 / 16], None, [1 / 32], None)


class TestMatrixMultiplyIntegerToFloat(ProductTests):
    operator = "matrix_multiply_integer_to_float"
    levels = "6.2: 2-4D I32 I16 I8 U32 U16 U8"
    ulp: ClassVar = {"directml:software": 1}
    sample = float_case("rows and columns", codes([2, 3], "uint8"), codes([3, 4], "uint8", 91), "float32", F_VECTORS,
                        some([2, 4]))  # fmt: skip
    cases = (
        *(
            float_case(f"{why} of {of}", codes([2, 3], of), codes([3, 4], of, 91), to, parameters, bias)
            for of in INTEGERS
            for to in FLOATS
            for why, parameters, bias in (
                ("one of each", F_SINGLE, None),
                ("rows and columns", F_VECTORS, [[1, 2, 3, 4], [5, 6, 7, 8]]),
                ("no zero points", F_BARE, None),
            )
        ),
        float_case("batches", codes([2, 3, 2, 3], "int8"), codes([2, 3, 3, 4], "int8", 91), "float32", F_VECTORS),
        float_case(
            "a bias for each column", codes([2, 3], "int8"), codes([3, 4], "int8"), "float32", F_BARE, [1, 2, 3, 4]
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1] * rank, dtype="float32")
        add_node(graph, self.operator, [x, scale, x, x, scale, x, scale])

    @pytest.mark.parametrize(("to", "gives"), [("float16", 0), ("float32", 1)])
    def test_the_factors_are_rounded_before_the_product(self, to: str, gives: int, device: DeviceName) -> None:
        """2049 · 1 − 2048 · 1; 2049 is not a float16."""
        a, b, one = array([[2049, 2048]], "int16"), array([[1], [-1]], "int16"), array([1], to)
        assert run(self.operator, [a, one, None, b, one, None, None], device=device)[0, 0] == gives

    def test_large_integers_are_rounded_first(self, device: DeviceName) -> None:
        one = array([1], "float32")
        inputs = [array([[2**24 + 1]], "int32"), one, array([1], "int32"), array([[1]], "int32"), one, None, None]
        assert run(self.operator, inputs, device=device)[0, 0] == 2**24 - 1

    def test_the_bias_has_the_outputs_sizes(self) -> None:
        inputs = [*self.sample.inputs[:6], some([3])]
        error = refused(self.operator, inputs)
        assert (error.field, error.allowed) == ("bias.sizes", "[2, 4]")

    @pytest.mark.parametrize("field", ["b_scale", "bias"])
    def test_floats_are_of_one_type(self, field: str) -> None:
        inputs = list(self.sample.inputs)
        inputs[self.at(field)] = inputs[self.at(field)].astype("float16")
        expect(refused(self.operator, inputs), "dtype", node="node", field=field)
