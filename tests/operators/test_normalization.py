"""The normalizations, compared with their formulas, and MEAN_VARIANCE_NORMALIZATION2 compared with ONNX's."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import OperatorTests, UnaryTests
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
    operator_class,
    refused,
    run,
)
from support.operators.literal import Index, along, filled, mean, number, root, some, step
from support.operators.onnx_model import evaluate
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

X = some([2, 3, 2, 4])
SCALE, BIAS, MEAN = (some([1, 3, 1, 1], seed=seed) for seed in (1, 2, 3))
VARIANCE = some([1, 3, 1, 1], low=0.1, high=3, seed=4)
RELU = "activation_relu"


def retyped(values: Sequence[Any], of: str) -> list[Any]:
    return [None if each is None else each.astype(of) for each in values]


def relu(value: Decimal) -> Decimal:
    return max(value, Decimal(0))


class FusionTests(OperatorTests):
    """The checks of operators with scale, bias and a fused activation."""

    ulp: ClassVar = {"directml:software": 4}
    ulp_floor: ClassVar = {"directml:software": 2.0}  # differences of numbers of that size are rounded
    parameters: ClassVar[tuple[str, ...]] = ("scale", "bias")

    def test_a_parameter_has_size_1_or_the_inputs(self) -> None:
        cls = operator_class(self.operator)
        for field in self.parameters:
            inputs = list(self.sample.inputs)
            inputs[cls.input_fields.index(field)] = some([1, 2, 1, 1])
            error = next(
                each for each in refused(self.operator, inputs, **self.sample.fields).problems if each.got == 2
            )
            assert (error.field, error.allowed) == (f"{field}.sizes.1", "1 or 3")

    def test_a_parameter_of_one_dimension_is_one_of_channels(self, device: DeviceName) -> None:
        cls = operator_class(self.operator)
        inputs = [
            each.reshape(3) if name in self.parameters else each
            for name, each in zip(cls.input_fields, self.sample.inputs, strict=True)
        ]
        graph, feeds = build(self.operator, inputs, **self.sample.fields)
        assert operator_of(graph.node("node")).input_descs[1].sizes == (1, 3, 1, 1)
        got = next(iter(graph.compile(device=device, fuse=False).run(feeds).values()))
        self.assert_close(got, self.sample.gives[0], device)

    def test_data_types_agree(self) -> None:
        inputs = [self.sample.inputs[0].astype("float16"), *self.sample.inputs[1:]]
        expect(refused(self.operator, inputs, **self.sample.fields), "dtype", node="node", got="float32 [1,3,1,1]")

    def test_activations_that_are_not_fused_are_refused(self) -> None:
        fields = {**self.sample.fields, "fused_activation": "exp"}
        error = refused(self.operator, self.sample.inputs, **fields)
        assert (error.field, error.got) == ("fused_activation", "exp")
        assert "activation_tanh" in (error.allowed or "").split(", ")


# Batch normalization.


def batch_normalized(x: Array, mean_: Array, variance: Array, scale: Array, bias: Array, *, epsilon: float) -> Any:
    def element(at: Index) -> Decimal:
        deviation = root(number(variance, at) + step(epsilon))
        return number(scale, at) * (number(x, at) - number(mean_, at)) / deviation + number(bias, at)

    return element


def batch_case(why: str, tensors: Sequence[Any], of: str = "float32", epsilon: float = 0.1, **fields: Any) -> Case:
    tensors = retyped(tensors, of)
    element = batch_normalized(*tensors, epsilon=epsilon)
    shaped = element if not fields else lambda at: relu(element(at))
    gives = filled(tensors[0].shape, shaped, of)
    return case(why, tensors, gives, of, epsilon=epsilon, spatial=True, **fields)


class TestBatchNormalization(FusionTests):
    operator = "batch_normalization"
    levels = "1.0: 4D F32 F16 | 3.1: 1-8D F32 F16"
    parameters: ClassVar = ("mean", "variance", "scale", "bias")
    sample = batch_case("by channel", [X, MEAN, VARIANCE, SCALE, BIAS])
    cases = (
        *(batch_case("by channel", [X, MEAN, VARIANCE, SCALE, BIAS], of) for of in FLOATS),
        *(batch_case("relu", [X, MEAN, VARIANCE, SCALE, BIAS], of, fused_activation=RELU) for of in FLOATS),
        batch_case("one number each", [X, *(some([1] * 4, low=0.1, seed=seed) for seed in range(4))]),
        batch_case("element by element", [X, *(some(X.shape, low=0.1, seed=seed) for seed in range(4))]),
        batch_case("different sizes", [X, some([2, 1, 1, 4]), some([1, 1, 2, 1], low=0.1), SCALE, some([1, 1, 1, 4])]),
        batch_case("another epsilon", [X, MEAN, VARIANCE, SCALE, BIAS], epsilon=2.5),
        batch_case("one dimension", [some([5]), *(some([1], low=0.1, seed=seed) for seed in range(4))]),
        batch_case("five dimensions", [some([2, 3, 2, 1, 2]), *[some([1, 3, 1, 1, 1], low=0.1)] * 4]),
    )

    @pytest.mark.parametrize(("level", "legal"), [("1.0", False), ("3.1", False), ("4.0", True)])
    def test_spatial_matters_below_4(self, level: str, legal: bool) -> None:
        inputs = [X, MEAN, VARIANCE, SCALE, BIAS]
        build(self.operator, inputs, target=level, spatial=True, epsilon=0.1)
        if legal:
            build(self.operator, inputs, target=level, spatial=False, epsilon=0.1)
        else:
            error = refused(self.operator, inputs, target=level, spatial=False, epsilon=0.1)
            assert (error.field, error.got, error.allowed) == ("mean.sizes.2", 1, "2")
            assert "1 is legal from 4.0" in str(error)
            whole = [X, some([1, 3, 2, 4]), some([1, 3, 2, 4]), SCALE, BIAS]
            build(self.operator, whole, target=level, spatial=False, epsilon=0.1)

    def test_spatial_changes_nothing_from_4(self, device: DeviceName) -> None:
        inputs = [X, MEAN, VARIANCE, SCALE, BIAS]
        got, other = (
            run(self.operator, inputs, device=device, spatial=spatial, epsilon=0.1) for spatial in (True, False)
        )
        assert_same(got, other)


def trained(x: Array, scale: Array, bias: Array, fused_add: Array | None, *, epsilon: float) -> list[Any]:
    """The functions of an index: the output, the mean and the variance."""
    axes = [axis for axis, size in enumerate(scale.shape) if size == 1]

    def average(at: Index) -> Decimal:
        return mean(number(x, place) for place in along(at, x.shape, axes))

    def variance(at: Index) -> Decimal:
        centre = average(at)
        return mean((number(x, place) - centre) ** 2 for place in along(at, x.shape, axes))

    def output(at: Index) -> Decimal:
        normalized = (number(x, at) - average(at)) / root(variance(at) + step(epsilon))
        return number(scale, at) * normalized + number(bias, at) + (0 if fused_add is None else number(fused_add, at))

    return [output, average, variance]


def training_case(why: str, tensors: Sequence[Any], of: str = "float32", **fields: Any) -> Case:
    tensors = retyped(tensors, of)
    output, average, variance = trained(*tensors, epsilon=0.25)
    x, scale = tensors[:2]
    gives = (
        filled(x.shape, (lambda at: relu(output(at))) if fields else output, of),
        *(filled(scale.shape, each, of) for each in (average, variance)),
    )
    return case(why, tensors, gives, of, epsilon=0.25, **fields)


class TestBatchNormalizationTraining(FusionTests):
    operator = "batch_normalization_training"
    levels = "4.1: 1-8D F32 F16"
    asked: ClassVar = ("output", "output_mean", "output_variance")
    sample = training_case("by channel", [X, SCALE, BIAS, None])
    cases = (
        *(training_case("by channel", [X, SCALE, BIAS, None], of) for of in FLOATS),
        *(training_case("with what is added", [X, SCALE, BIAS, some(X.shape, seed=7)], of) for of in FLOATS),
        training_case("relu after it", [X, SCALE, BIAS, some(X.shape, seed=7)], fused_activation=RELU),
        training_case("of everything", [X, some([1] * 4), some([1] * 4, seed=1), None]),
        training_case("of the batch", [X, some([1, 3, 2, 4]), some([1, 3, 2, 4], seed=1), None]),
        training_case("one dimension", [some([7]), some([1]), some([1], seed=1), None]),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x, x], epsilon=1)

    def test_scale_and_bias_have_the_same_sizes(self) -> None:
        error = refused(self.operator, [X, SCALE, some([1] * 4), None], epsilon=1)
        expect(error, "sizes", node="node", field="bias", got="float32 [1,1,1,1]")


# Mean-variance normalization.


def mean_variance(
    tensors: Sequence[Any], axes: Sequence[int], epsilon: float, use_mean: bool = True, use_variance: bool = True
) -> Any:
    x, scale, bias = tensors

    def element(at: Index) -> Decimal:
        group = along(at, x.shape, axes)
        centre = mean(number(x, place) for place in group) if use_mean else Decimal(0)
        value = number(x, at) - centre
        if use_variance:
            value /= root(mean((number(x, place) - centre) ** 2 for place in group) + step(epsilon))
        value *= 1 if scale is None else number(scale, at)
        return value + (0 if bias is None else number(bias, at))

    return element


class MeanVarianceTests(FusionTests):
    """The checks of mean-variance normalizations; `plain` are ordinary values of the fields."""

    plain: ClassVar[dict[str, Any]]

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x, x], **self.plain | ({"axes": [0]} if "axes" in self.plain else {}))

    @pytest.mark.parametrize("given", [0, 1])
    def test_scale_and_bias_go_together_below_5_2(self, given: int) -> None:
        parameters: list[Any] = [None, None]
        parameters[given] = SCALE
        introduced = operator_class(self.operator).support().introduced
        for level in dg.FeatureLevel:
            if level < introduced:
                continue
            if level >= dg.FeatureLevel.V5_2:
                build(self.operator, [X, *parameters], target=level, **self.plain)
            else:
                error = refused(self.operator, [X, *parameters], target=level, **self.plain)
                assert error.field == ("bias", "scale")[given]
                assert "legal alone from 5.2" in str(error)


def mvn_case(why: str, tensors: Sequence[Any], of: str = "float32", **fields: Any) -> Case:
    fields = {"cross_channel": False, "normalize_variance": True, "epsilon": 0.25} | fields
    tensors = retyped(tensors, of)
    axes = (1, 2, 3) if fields["cross_channel"] else (2, 3)
    element = mean_variance(tensors, axes, fields["epsilon"], use_variance=fields["normalize_variance"])
    shaped = (lambda at: relu(element(at))) if "fused_activation" in fields else element
    return case(why, tensors, filled(tensors[0].shape, shaped, of), of, **fields)


class TestMeanVarianceNormalization(MeanVarianceTests):
    operator = "mean_variance_normalization"
    levels = "1.0: 4D F32 F16"
    plain: ClassVar = {"cross_channel": False, "normalize_variance": True, "epsilon": 1}
    sample = mvn_case("scale and bias", [X, SCALE, BIAS])
    cases = (
        *(mvn_case("scale and bias", [X, SCALE, BIAS], of) for of in FLOATS),
        *(mvn_case("neither", [X, None, None], of) for of in FLOATS),
        *(mvn_case("across channels", [X, SCALE, BIAS], of, cross_channel=True) for of in FLOATS),
        *(mvn_case("the mean only", [X, SCALE, BIAS], of, normalize_variance=False) for of in FLOATS),
        mvn_case("both", [X, SCALE, BIAS], cross_channel=True, normalize_variance=False),
        mvn_case("scale only", [X, SCALE, None]),
        mvn_case("bias only", [X, None, BIAS]),
        mvn_case("relu", [X, SCALE, BIAS], fused_activation=RELU),
        mvn_case("another epsilon", [X, None, None], epsilon=3),
        mvn_case("parameters along a row", [X, some([1, 1, 1, 4]), some([2, 1, 2, 1])]),
    )


def mvn1_case(why: str, tensors: Sequence[Any], axes: Sequence[int], of: str = "float32", **fields: Any) -> Case:
    fields = {"normalize_variance": True, "epsilon": 0.25} | fields
    tensors = retyped(tensors, of)
    element = mean_variance(tensors, axes, fields["epsilon"], use_variance=fields["normalize_variance"])
    shaped = (lambda at: relu(element(at))) if "fused_activation" in fields else element
    return case(why, tensors, filled(tensors[0].shape, shaped, of), of, axes=list(axes), **fields)


class AxesTests(MeanVarianceTests):
    @pytest.mark.parametrize(("axes", "field"), [([4], "axes.0"), ([1, 1], "axes.1"), ([1, -3], "axes.1")])
    def test_axes_are_the_inputs(self, axes: list[int], field: str) -> None:
        assert refused(self.operator, [X, None, None], **self.plain | {"axes": axes}).field == field


class TestMeanVarianceNormalization1(AxesTests):
    operator = "mean_variance_normalization1"
    levels = "2.1: 4D F32 F16 | 3.1: 1-8D F32 F16"
    plain: ClassVar = {"axes": [2, 3], "normalize_variance": True, "epsilon": 1}
    sample = mvn1_case("scale and bias", [X, SCALE, BIAS], [2, 3])
    cases = (
        *(mvn1_case("scale and bias", [X, SCALE, BIAS], [2, 3], of) for of in FLOATS),
        *(mvn1_case("neither", [X, None, None], [3], of) for of in FLOATS),
        *(mvn1_case(f"axes {axes}", [X, SCALE, BIAS], axes) for axes in ([0], [1], [0, 2], [3, 1], [0, 1, 2, 3])),
        mvn1_case("the mean only", [X, SCALE, BIAS], [1, 3], normalize_variance=False),
        mvn1_case("scale only", [X, SCALE, None], [3]),
        mvn1_case("bias only", [X, None, BIAS], [3]),
        mvn1_case("relu", [X, SCALE, BIAS], [3], fused_activation=RELU),
        mvn1_case("one dimension", [some([6]), None, None], [0]),
        mvn1_case("six dimensions", [some([2, 1, 3, 1, 2, 2]), None, None], [2, 5]),
    )

    def test_parameters_have_the_channels_below_4(self) -> None:
        row = some([1, 1, 1, 4])
        for level in ("2.1", "3.1"):
            error = refused(self.operator, [X, row, row], target=level, **self.plain)
            assert (error.field, error.got, error.allowed) == ("scale.sizes.1", 1, "3")
            assert "1 is legal from 4.0" in str(error)
            build(self.operator, [X, SCALE, BIAS], target=level, **self.plain)
        build(self.operator, [X, row, row], target="4.0", **self.plain)

    def test_it_is_the_layer_normalization_of_onnx(self, device: DeviceName) -> None:
        scale, bias = some([4], seed=1), some([4], seed=2)
        (expected,) = evaluate("LayerNormalization", [X, scale, bias], axis=-1, epsilon=1e-3)
        parameters = [each.reshape(1, 1, 1, 4) for each in (scale, bias)]
        fields = {"axes": [3], "normalize_variance": True, "epsilon": 1e-3}
        got = run(self.operator, [X, *parameters], device=device, **fields)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def mvn2_case(why: str, tensors: Sequence[Any], axes: Sequence[int], of: str = "float32", **fields: Any) -> Case:
    fields = {"use_mean": True, "use_variance": True, "epsilon": 0.25} | fields
    tensors = retyped(tensors, of)
    element = mean_variance(tensors, axes, fields["epsilon"], fields["use_mean"], fields["use_variance"])
    return case(why, tensors, filled(tensors[0].shape, element, of), of, axes=list(axes), **fields)


class TestMeanVarianceNormalization2(AxesTests):
    operator = "mean_variance_normalization2"
    levels = "6.3: 1-8D F32 F16"
    plain: ClassVar = {"axes": [2, 3], "use_mean": True, "use_variance": True, "epsilon": 1}
    sample = mvn2_case("scale and bias", [X, SCALE, BIAS], [2, 3])
    cases = (
        *(
            mvn2_case(f"mean {use_mean}, variance {use_variance}", [X, SCALE, BIAS], [1, 3], of,
                      use_mean=use_mean, use_variance=use_variance)
            for of in FLOATS
            for use_mean in (True, False)
            for use_variance in (True, False)
        ),
        mvn2_case("scale only", [X, SCALE, None], [3]),
        mvn2_case("bias only", [X, None, BIAS], [3]),
        mvn2_case("one dimension", [some([6]), None, None], [0], use_mean=False),
    )  # fmt: skip

    def test_without_the_mean_it_is_the_rms_normalization_of_onnx(self) -> None:
        scale = some([4], seed=1)
        (expected,) = evaluate("RMSNormalization", [X, scale], axis=-1, epsilon=1e-3)
        fields: dict[str, Any] = {"axes": [3], "use_mean": False, "use_variance": True, "epsilon": 1e-3}
        got = run(self.operator, [X, scale.reshape(1, 1, 1, 4), None], **fields)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_with_both_it_is_mean_variance_normalization1(self) -> None:
        inputs = [X, SCALE, BIAS]
        both = run(self.operator, inputs, axes=[1], use_mean=True, use_variance=True, epsilon=1)
        assert_same(both, run("mean_variance_normalization1", inputs, axes=[1], normalize_variance=True, epsilon=1))


# Local response and Lp normalization.


def local_response(x: Array, cross_channel: bool, size: int, alpha: float, beta: float, bias: float) -> Any:
    def around(centre: int, count: int) -> range:
        return range(max(0, centre - (size - 1) // 2), min(count, centre + -(-(size - 1) // 2) + 1))

    def element(at: Index) -> Decimal:
        n, c, h, w = at
        if cross_channel:
            near = [(n, channel, h, w) for channel in around(c, x.shape[1])]
        else:
            near = [(n, c, row, column) for row in around(h, x.shape[2]) for column in around(w, x.shape[3])]
        total = sum((number(x, place) ** 2 for place in near), Decimal(0))
        return number(x, at) / (step(bias) + step(alpha) / size * total) ** step(beta)

    return element


def local_case(why: str, of: str = "float32", x: Array = X, **fields: Any) -> Case:
    fields = {"cross_channel": True, "local_size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5} | fields
    x = x.astype(of)
    return case(why, [x], filled(x.shape, local_response(x, *fields.values()), of), of, **fields)


class TestLocalResponseNormalization(UnaryTests):
    operator = "local_response_normalization"
    levels = "1.0: 4D F32 F16"
    ulp: ClassVar = {"directml:software": 4}  # exp and log of the shader's power
    sample = local_case("channels")
    cases = (
        *(local_case("channels", of) for of in FLOATS),
        *(local_case("rows and columns", of, cross_channel=False) for of in FLOATS),
        *(local_case(f"{size} channels", x=some([1, 6, 1, 2]), local_size=size) for size in (1, 2, 4, 5, 13)),
        *(local_case(f"{size} rows", x=some([1, 2, 3, 5]), local_size=size, cross_channel=False) for size in (1, 2, 4)),
        local_case("another alpha", alpha=3),
        local_case("another beta", beta=2),
        local_case("another bias", bias=0.25),
        case(
            "the sum of squares overflows in float32",
            [[[[[1e20]], [[4]], [[-1e20]]]]],
            [[[[0]], [[1]], [[-0.0]]]],
            cross_channel=True, local_size=1, alpha=1, beta=0.5, bias=0,
        ),
        case("a base that is not positive has no power", [[[[[1]], [[2]], [[3]]]]], [[[[NAN]], [[NAN]], [[0.75]]]],
             cross_channel=True, local_size=1, alpha=1, beta=1, bias=-5),
        case("nor has 0 to the power of 0", [[[[[1]], [[2]]]]], [[[[NAN]], [[NAN]]]],
             cross_channel=True, local_size=1, alpha=0, beta=0, bias=0),
        case("it does not in float16", [[[[[256]]]]], [[[[1]]]], "float16",
             cross_channel=True, local_size=1, alpha=1, beta=0.5, bias=0),
    )  # fmt: skip

    def test_a_neighbourhood_has_an_element(self) -> None:
        fields = {**self.sample.fields, "local_size": 0}
        error = refused(self.operator, [X], **fields)
        assert (error.field, error.got) == ("local_size", 0)

    @pytest.mark.parametrize("size", [2, 3])
    def test_across_channels_it_is_the_lrn_of_onnx(self, size: int, device: DeviceName) -> None:
        x = some(
            [4, 4, 1, 2]
        )  # as many images as channels, because ONNX's reference loops over that many channels only
        (expected,) = evaluate("LRN", [x], size=size, alpha=0.5, beta=0.75, bias=1.5)
        got = run(self.operator, [x], device=device, **{**self.sample.fields, "local_size": size})
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def lp_case(why: str, of: str = "float32", x: Array = X, **fields: Any) -> Case:
    fields = {"axis": 1, "p": 2, "epsilon": 0.5} | fields
    x = x.astype(of)

    def element(at: Index) -> Decimal:
        line = [number(x, place) for place in along(at, x.shape, [fields["axis"]])]
        squared = kept(sum(map(abs, line), Decimal(0))) ** 2 if fields["p"] == 1 else sum(each**2 for each in line)
        return number(x, at) / root(kept(squared) + step(fields["epsilon"]))

    def kept(total: Any) -> Decimal:
        """A sum or its square, rounded to the type of its buffer, which float16 shows."""
        return Decimal(exact.rounded(total, of)) if of == "float16" else Decimal(total)

    return case(why, [x], filled(x.shape, element, of), of, **fields)


class TestLpNormalization(UnaryTests):
    operator = "lp_normalization"
    levels = "1.0: 4D F32 F16 | 3.1: 1-8D F32 F16"
    ulp: ClassVar = {"directml:software": 4}
    sample = lp_case("channels")
    cases = (
        *(lp_case(f"p {p}", of, p=p) for of in FLOATS for p in (1, 2)),
        *(lp_case(f"axis {axis}", axis=axis) for axis in (0, 2, 3)),
        *(lp_case(f"a large epsilon counts in the root, p {p}", p=p, epsilon=20) for p in (1, 2)),
        lp_case("one dimension", x=some([5]), axis=0),
        lp_case("zeros stay", x=array([[0, 0], [3, 4]], "float32"), axis=1, epsilon=1e-5),
        case("zeros without epsilon", [[[0, 0], [3, 4]]], [[NAN, NAN], [0.6, 0.8]], axis=1, p=2, epsilon=0),
        *(
            case(f"p {p}: the square overflows", [[[big, 1]]], [[0, 0]], of, axis=1, p=p, epsilon=0)
            for p in (1, 2)
            for of, big in (("float32", 1e20), ("float16", 256))
        ),
        *(case(f"p {p}: the square vanishes", [[[1e-30, 0]]], [[INF, NAN]], axis=1, p=p, epsilon=0) for p in (1, 2)),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x], axis=0, p=2, epsilon=0)

    @pytest.mark.parametrize("p", [0, 3])
    def test_p_is_1_or_2(self, p: int) -> None:
        error = refused(self.operator, [X], axis=0, p=p, epsilon=0)
        assert (error.field, error.got, error.allowed) == ("p", p, "1 or 2")

    def test_the_axis_is_the_inputs(self) -> None:
        error = refused(self.operator, [X], axis=4, p=1, epsilon=0)
        assert (error.field, error.got, error.allowed) == ("axis", 4, "-4 to 3")
