"""GEMM: activation(alpha · A · B + beta · C); A and B are first transposed if requested."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import (
    FLOATS,
    INF,
    NAN,
    add_node,
    array,
    assert_same,
    build,
    case,
    each_dtype,
    operator_class,
    refused,
    run,
)
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators.declaration.fused import FusedActivation

A = [[1, 2, 3], [4, 5, 6]]
B = [[1, 0, 2, -1], [0, 1, 1, 3], [2, -2, 0, 1]]
AB = [[7, -4, 4, 8], [16, -7, 13, 17]]
C = [[1, 1, 1, 1], [2, 2, 2, 2]]
A_TRANSPOSED = [[1, 4], [2, 5], [3, 6]]
B_TRANSPOSED = [[1, 0, 2], [0, 1, -2], [2, 1, 0], [-1, 3, 1]]
SIGNS = [[1, -1]]
COLUMN = [[2], [0]]


class TestGemm(OperatorTests):
    operator = "gemm"
    ulp: ClassVar = {"directml:software": 16, "cpu": 8}  # summed in float32; activations of the shader
    levels = "1.0: 4D F32 F16 | 4.0: 2-4D F32 F16"
    sample = case("with C", [A, B, C], [[8, -3, 5, 9], [18, -5, 15, 19]])
    cases = (
        *each_dtype(FLOATS, "product", [A, B, None], AB),
        *each_dtype(FLOATS, "product and sum", [A, B, C], [[8, -3, 5, 9], [18, -5, 15, 19]]),
        *each_dtype(FLOATS, "A transposed", [A_TRANSPOSED, B, None], AB, trans_a="transpose"),
        *each_dtype(FLOATS, "B transposed", [A, B_TRANSPOSED, None], AB, trans_b="transpose"),
        *each_dtype(
            FLOATS,
            "both transposed",
            [A_TRANSPOSED, B_TRANSPOSED, C],
            [[8, -3, 5, 9], [18, -5, 15, 19]],
            trans_a="transpose",
            trans_b="transpose",
        ),
        case("alpha scales the product", [A, B, C], [[4.5, -1, 3, 5], [10, -1.5, 8.5, 10.5]], alpha=0.5),
        case("beta scales C", [A, B, C], [[5, -6, 2, 6], [12, -11, 9, 13]], beta=-2),
        case("without C beta does not matter", [A, B, None], AB, beta=100),
        case("alpha zero", [A, B, C], C, alpha=0),
        case("C of one row is repeated", [A, B, [[1, 2, 3, 4]]], [[8, -2, 7, 12], [17, -5, 16, 21]]),
        case("C of one dimension is a row", [A, B, [1, 2, 3, 4]], [[8, -2, 7, 12], [17, -5, 16, 21]]),
        case("C of one column is repeated", [A, B, [[10], [20]]], [[17, 6, 14, 18], [36, 13, 33, 37]]),
        case("batches one by one", [[[[1]], [[2]], [[3]]], [[[5]], [[6]], [[7]]], None], [[[5]], [[12]], [[21]]]),
        case("batches broadcast", [[[[1]], [[2]]], [[3]], None], [[[3]], [[6]]]),
        case(
            "both dimensions of batches broadcast",
            [[[[[1]]], [[[2]]]], [[[3]], [[5]]], None],
            [[[[3]], [[5]]], [[[6]], [[10]]]],
        ),
        *each_dtype(
            FLOATS, "special values", [[[INF, 1], [NAN, 1], [INF, -INF]], [[1], [1]], None], [[INF], [NAN], [NAN]]
        ),
        case("float16 sums are wider", [[[60000, 60000]], [[1], [-1]], None], [[0]], "float16"),
        case("float16 overflows at the end only", [[[60000, 60000]], [[1], [1]], None], [[INF]], "float16"),
        case(
            "float16 is scaled before it is rounded",
            [[[60000, 60000]], [[1], [1]], None],
            [[60000]],
            "float16",
            alpha=0.5,
        ),
        # Fused activations, on ±2.
        case("relu", [COLUMN, SIGNS, None], [[2, 0], [0, 0]], fused_activation="activation_relu", beta=0),
        case("relu by mapping", [COLUMN, SIGNS, None], [[2, 0], [0, 0]], fused_activation={"op": "activation_relu"}),
        *(
            case(
                "tanh",
                [COLUMN, SIGNS, None],
                [exact.round_all(map(exact.tanh, map(Fraction, row)), dtype) for row in ([2, -2], [0, 0])],
                dtype,
                fused_activation="activation_tanh",
            )
            for dtype in FLOATS
        ),
        *(
            case(
                "sigmoid",
                [COLUMN, SIGNS, None],
                [exact.round_all(map(exact.sigmoid, map(Fraction, row)), dtype) for row in ([2, -2], [0, 0])],
                dtype,
                fused_activation="activation_sigmoid",
            )
            for dtype in FLOATS
        ),
        case(
            "clip", [A, B, None], [[5, -3, 4, 5], [5, -3, 5, 5]], fused_activation={"op": "clip", "min": -3, "max": 5}
        ),
        case(
            "softmax of the rows",
            [COLUMN, [[1, 1]], None],
            [[0.5, 0.5], [0.5, 0.5]],
            fused_activation={"op": "activation_softmax1", "axes": [1]},
        ),
        case(
            "the activation comes after C",
            [COLUMN, SIGNS, [[-5, 5], [-1, 1]]],
            [[0, 3], [0, 1]],
            fused_activation="activation_relu",
        ),
        case(
            "the activation sees more than a float16",
            [[[60000, 60000]], [[1], [1]], None],
            [[65504]],
            "float16",
            fused_activation={"op": "clip", "min": 0, "max": 65504},
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, "gemm", [x, x, x])

    def test_defaults(self) -> None:
        graph, _ = build("gemm", [array(A, "float32"), array(B, "float32")])
        gemm = operator_of(graph.node("node"))
        assert (str(gemm.trans_a), str(gemm.trans_b), gemm.alpha, gemm.beta) == ("none", "none", 1.0, 1.0)
        assert gemm.c is None
        assert gemm.fused_activation is None
        assert gemm.input_descs[2] is None  # C keeps its binding index

    def test_matmul_operator(self, device: DeviceName) -> None:
        graph = dg.Graph("test")
        a, b = (graph.constant(name, values, dtype="float32") for name, values in (("a", A), ("b", B)))
        graph.output("y", a @ b)
        assert_same(graph.compile(device=device, fuse=False).run()["y"], array(AB, "float32"))

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_long_sums_stay_accurate(self, dtype: str, device: DeviceName) -> None:
        tenth = exact.rounded(Fraction(1, 10), dtype)
        got = run("gemm", [np.full([1, 1000], tenth, dtype), np.full([1000, 1], tenth, dtype)], device=device)
        expected = exact.rounded(1000 * Fraction(tenth) ** 2, dtype)
        assert_same(got, array([[expected]], dtype), ulp=self.ulp.get(device, 1))

    # Errors.

    def test_inner_sizes_agree(self) -> None:
        error = refused("gemm", [array(A, "float32"), array(A, "float32")])
        expect(error, "sizes", node="node", field="b.sizes", got="float32 [2,3]")
        assert (error.allowed or "").startswith("3 rows")
        assert run("gemm", [array(A, "float32"), array(A, "float32")], trans_b="transpose").shape == (2, 2)

    def test_a_matrix_has_two_dimensions(self) -> None:
        vector, matrix = array([1, 2, 3], "float32"), array(A, "float32")
        assert refused("gemm", [vector, matrix]).field == "a"
        assert refused("gemm", [matrix, vector]).field == "b"
        desc = dg.TensorDesc(dtype="float32", sizes=[3])
        with raises(dg.OperatorError, "rank", got="1") as caught:
            operator_class("gemm")(a=desc, b=desc)
        assert caught.value.field == "a"

    def test_c_has_the_outputs_sizes(self) -> None:
        error = refused("gemm", [array(A, "float32"), array(B, "float32"), array([[1, 2, 3]], "float32")])
        assert (error.field, error.allowed) == ("c.sizes", "[2, 4]")

    def test_batches_agree(self) -> None:
        inputs = [np.zeros([2, 1, 1], "float32"), np.zeros([3, 1, 1], "float32")]
        expect(refused("gemm", inputs), "sizes", node="node", got="[2] and [3]")
        descs = [dg.TensorDesc(dtype="float32", sizes=each.shape) for each in inputs]
        with pytest.raises(dg.OperatorError) as caught:
            operator_class("gemm")(a=descs[0], b=descs[1])
        assert caught.value.field == "b.sizes"

    def test_data_types_agree(self) -> None:
        error = refused("gemm", [array(A, "float32"), array(B, "float16")])
        assert (error.field, error.got, error.allowed) == ("b", "float16 [3,4]", "float32 [2,3]")

    def test_a_transform_is_one_of_two(self) -> None:
        error = refused("gemm", self.sample.inputs, trans_a="transposed")
        assert (error.field, error.allowed, error.hint) == ("trans_a", "none, transpose", "did you mean 'transpose'?")

    # Fused activations.

    @pytest.mark.parametrize(
        ("activation", "since"),
        [
            ("activation_relu", "1.0"),
            ("activation_sigmoid", "1.0"),
            ("activation_tanh", "1.0"),
            ({"op": "clip", "min": 0, "max": 1}, "6.0"),
            ({"op": "activation_softmax1", "axes": [3]}, "6.1"),
        ],
    )
    def test_activations_fuse_from_their_level(self, activation: Any, since: str) -> None:
        x = np.zeros([1, 1, 2, 2], "float32")
        for level in dg.FeatureLevel:
            if level >= dg.FeatureLevel.parse(since):
                build("gemm", [x, x], target=str(level), fused_activation=activation)
            else:
                error = refused("gemm", [x, x], target=str(level), fused_activation=activation)
                assert error.field == "fused_activation"
                assert error.got == (activation if isinstance(activation, str) else activation["op"])
                assert f"at feature level {level}; legal from {since}" in str(error)

    @pytest.mark.parametrize("activation", ["identity", "exp", "negate"])
    def test_other_operators_do_not_fuse(self, activation: str) -> None:
        error = refused("gemm", self.sample.inputs, fused_activation=activation)
        assert (error.field, error.got) == ("fused_activation", activation)
        fusable = {"activation_relu", "activation_sigmoid", "activation_softmax1", "activation_tanh", "clip"}
        assert fusable <= set((error.allowed or "").split(", "))
        assert activation not in (error.allowed or "").split(", ")

    def test_an_unknown_activation_is_refused(self) -> None:
        error = refused("gemm", self.sample.inputs, fused_activation="activation_relo")
        assert (error.field, error.got, error.hint) == (
            "fused_activation",
            "activation_relo",
            "did you mean 'activation_relu'?",
        )

    @pytest.mark.parametrize("activation", [3, {"min": 1}, ["activation_relu"]])
    def test_an_activation_is_a_name_or_a_mapping(self, activation: Any) -> None:
        assert refused("gemm", self.sample.inputs, fused_activation=activation).field == "fused_activation"

    @pytest.mark.parametrize(
        ("activation", "code", "field", "got"),
        [
            ({"op": "clip", "min": 0}, "missing", "fused_activation.max", None),
            ({"op": "activation_relu", "alpha": 1}, "unknown-field", "fused_activation.alpha", None),
            ({"op": "activation_softmax1", "axes": [2]}, "range", "fused_activation.axes.0", 2),
            ({"op": "activation_softmax1", "axes": [1, -1]}, "duplicate", "fused_activation.axes.1", -1),
        ],
    )
    def test_an_activations_attributes_are_checked(self, activation: Any, code: str, field: str, got: object) -> None:
        error = refused("gemm", self.sample.inputs, fused_activation=activation)
        assert (error.field or "").startswith("fused_activation")
        expect(error, code, node="node", field=field, got=got)

    @pytest.mark.parametrize("fused", [True, False])
    def test_an_activation_may_be_an_operator(self, fused: bool, device: DeviceName) -> None:
        cls = operator_class("activation_relu")
        x = dg.TensorDesc(dtype="float32", sizes=[1])
        relu = FusedActivation.of(cls, {}) if fused else cls(input=x)
        got = run("gemm", [array(COLUMN, "float32"), array(SIGNS, "float32")], device=device, fused_activation=relu)
        assert_same(got, array([[2, 0], [0, 0]], "float32"), ulp=1)  # the sign of zero depends on the device

    def test_a_fused_clip_has_no_scale_and_bias(self) -> None:
        activation = {"op": "clip", "min": -2, "max": 3, "scale_bias": {"scale": 2, "bias": 1}}
        error = refused("gemm", [array(COLUMN, "float32"), array(SIGNS, "float32")], fused_activation=activation)
        expect(error, "activation", node="node", field="fused_activation.scale_bias")


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans())
def test_products_of_integers_are_exact(
    data: st.DataObject, rows: int, inner: int, columns: int, trans_a: bool, trans_b: bool
) -> None:
    numbers = st.integers(-100, 100)
    a = [[data.draw(numbers) for _ in range(inner)] for _ in range(rows)]
    b = [[data.draw(numbers) for _ in range(columns)] for _ in range(inner)]
    product = [[sum(a[i][k] * b[k][j] for k in range(inner)) for j in range(columns)] for i in range(rows)]
    left, right = (
        array([list(column) for column in zip(*matrix, strict=True)] if transposed else matrix, "float32")
        for matrix, transposed in ((a, trans_a), (b, trans_b))
    )
    got = run(
        "gemm",
        [left, right],
        trans_a="transpose" if trans_a else "none",
        trans_b="transpose" if trans_b else "none",
    )
    np.testing.assert_array_equal(got, product)
