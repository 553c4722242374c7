"""CONVOLUTION, CONVOLUTION_INTEGER and QUANTIZED_LINEAR_CONVOLUTION, compared with the sums written out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, Array, add_node, array, assert_same, case, refused, run

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

INPUT = (np.arange(2 * 4 * 5 * 4) * 37 % 19 - 9).reshape(2, 4, 5, 4)
FILTER = (np.arange(6 * 4 * 3 * 2) * 29 % 13 - 6).reshape(6, 4, 3, 2)
BIAS = np.array([5, -7, 11, 0, 3, -2])
VOLUME = (np.arange(2 * 3 * 4 * 3) * 37 % 19 - 9).reshape(1, 2, 3, 4, 3)


def per_dimension(fields: dict[str, Any], rank: int) -> dict[str, Any]:
    defaults = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0}
    return {field: fields.get(field, [value] * rank) for field, value in defaults.items()}


def convolved(x: Array, weights: Array, bias: Array | None = None, **fields: Any) -> Array:
    """Every product of the formula, one after another, in Python's integers."""
    rank, groups = x.ndim - 2, fields.get("group_count", 1)
    f = per_dimension(fields, rank)
    backward = fields.get("direction") == "backward"
    if fields.get("mode") == "convolution":
        weights = np.flip(weights, tuple(range(2, rank + 2)))
    extents = [1 + (taps - 1) * dilation for taps, dilation in zip(weights.shape[2:], f["dilations"], strict=True)]
    sizes = []
    for axis in range(rank):
        size, padding = x.shape[axis + 2], f["start_padding"][axis] + f["end_padding"][axis]
        if backward:
            sizes.append((size - 1) * f["strides"][axis] + extents[axis] - padding)
        else:
            sizes.append((size + padding - extents[axis]) // f["strides"][axis] + 1)
    channels = weights.shape[1] * groups if backward else weights.shape[0]
    inner, outer = x.shape[1] // groups, channels // groups
    total = np.zeros((len(x), channels, *sizes), object)
    if bias is not None:
        for channel in range(channels):
            total[:, channel] = int(bias[channel])
    small = x.shape[2:] if backward else tuple(sizes)  # the sizes that the windows step over; the other ones are padded
    large = tuple(sizes) if backward else x.shape[2:]
    for n, group, i, o in itertools.product(range(len(x)), range(groups), range(inner), range(outer)):
        ic, oc = group * inner + i, group * outer + o
        for step in np.ndindex(*small):
            for tap in np.ndindex(*weights.shape[2:]):
                at = tuple(
                    step[d] * f["strides"][d] + tap[d] * f["dilations"][d] - f["start_padding"][d] for d in range(rank)
                )
                if all(0 <= each < size for each, size in zip(at, large, strict=True)):
                    if backward:
                        total[(n, oc, *at)] += int(x[(n, ic, *step)]) * int(weights[(ic, o, *tap)])
                    else:
                        total[(n, oc, *step)] += int(x[(n, ic, *at)]) * int(weights[(oc, i, *tap)])
    return np.pad(total, [(0, 0), (0, 0), *((0, more) for more in f["output_padding"])])


def row(why: str, x: Array, weights: Array, bias: Array | None, of: str = "float32", **fields: Any) -> Any:
    """A row whose sums are small integers, which every float type can hold exactly."""
    tensors = [x.astype(of), weights.astype(of), None if bias is None else bias.astype(of)]
    return case(why, tensors, convolved(x, weights, bias, **fields).astype(of), of, **fields)


X1, W1 = INPUT[:, :, 0], FILTER[:, :, 0]
W3 = (np.arange(3 * 2 * 2 * 3 * 2) * 29 % 13 - 6).reshape(3, 2, 2, 3, 2)


class TestConvolution(OperatorTests):
    operator = "convolution"
    levels = "1.0: 4-5D F32 F16 | 4.0: 3-5D F32 F16"
    sample = row("sample", INPUT, FILTER, BIAS.reshape(1, 6, 1, 1).ravel(), start_padding=(1, 0), end_padding=(0, 1))
    sample = case(
        "sample",
        [sample.inputs[0], sample.inputs[1], sample.inputs[2].reshape(1, 6, 1, 1)],
        sample.gives,
        **sample.fields,
    )
    cases = (
        *(row("plain", INPUT, FILTER, BIAS, of) for of in FLOATS),
        row("no bias", INPUT, FILTER, None),
        row("strides", INPUT, FILTER, BIAS, strides=(2, 3)),
        row("dilations", INPUT, FILTER, BIAS, dilations=(2, 3)),
        row("padding", INPUT, FILTER, BIAS, start_padding=(1, 2), end_padding=(2, 0)),
        row("groups", INPUT, FILTER[:, :2], BIAS, group_count=2),
        row("a channel for itself", INPUT, FILTER[:4, :1], BIAS[:4], group_count=4),
        row("mirrored", INPUT, FILTER, BIAS, mode="convolution"),
        row("output padding is zero", INPUT, FILTER, BIAS, output_padding=(1, 2)),
        row("one dimension", X1, W1, BIAS, start_padding=(1,)),
        row("three dimensions", VOLUME, W3, BIAS[:3], start_padding=(1, 0, 1), strides=(1, 2, 1)),
        *(
            row(f"backward, {why}", x, weights, bias, of, direction="backward", **fields)
            for of in FLOATS
            for why, x, weights, bias, fields in (
                ("plain", INPUT, FILTER[:4], BIAS[:4], {}),
                ("mirrored", INPUT, FILTER[:4], BIAS[:4], {"mode": "convolution"}),
                ("strides", INPUT, FILTER[:4], BIAS[:4], {"strides": (2, 3)}),
                ("dilations", INPUT, FILTER[:4], BIAS[:4], {"dilations": (2, 1)}),
                ("padding", INPUT, FILTER[:4], None, {"start_padding": (1, 1), "end_padding": (2, 0)}),
                ("groups", INPUT, FILTER[:4, :3], BIAS, {"group_count": 2}),
                ("output padding is zero", INPUT, FILTER[:4], BIAS[:4], {"output_padding": (1, 2), "strides": (2, 2)}),
                ("one dimension", X1, W1[:4], BIAS[:4], {"strides": (2,)}),
                ("three dimensions", VOLUME, W3[:2], BIAS[:2], {"strides": (1, 2, 1)}),
            )
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x, x])

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    def test_activation_comes_last(self, direction: str, device: DeviceName) -> None:
        x, weights, bias = (
            array(INPUT, "int64").astype("float32"),
            FILTER[:4].astype("float32"),
            BIAS[:4].astype("float32"),
        )
        fields = {"direction": direction, "output_padding": [1, 0]}
        plain = run("convolution", [x, weights, bias], device=device, **fields)
        got = run("convolution", [x, weights, bias], device=device, fused_activation="activation_relu", **fields)
        np.testing.assert_array_equal(got, np.where(plain > 0, plain, 0))

    def test_the_padding_of_the_output_is_activated_too(self, device: DeviceName) -> None:
        one = array([[[[1]]]], "float32")
        got = run(
            "convolution", [one, one], device=device, output_padding=[0, 1], fused_activation="activation_sigmoid"
        )
        assert got[0, 0, 0, 1] == 0.5

    def test_activation_must_be_one_that_is_fused(self) -> None:
        error = refused("convolution", self.sample.inputs, **self.sample.fields, fused_activation="add")
        assert error.field is not None
        assert error.field.startswith("fused_activation")

    def test_a_vector_is_a_bias_for_each_channel(self) -> None:
        x, weights, bias = self.sample.inputs
        assert_same(run("convolution", [x, weights, bias.ravel()], **self.sample.fields), self.sample.gives[0])

    @pytest.mark.parametrize(
        ("fields", "shapes", "field", "got", "allowed"),
        [
            ({}, ([1, 4, 5, 5], [6, 3, 3, 3]), "filter.sizes.1", 3, "4"),
            ({"group_count": 3}, ([1, 4, 5, 5], [6, 4, 3, 3]), "group_count", 3, "divisors of 4"),
            ({"group_count": 2}, ([1, 4, 5, 5], [5, 2, 3, 3]), "group_count", 2, "divisors of 5"),
            ({"group_count": 0}, ([1, 4, 5, 5], [6, 4, 3, 3]), "group_count", 0, None),
            ({}, ([1, 4, 5, 5], [6, 4, 7, 3]), "filter.sizes.2", 7, "at most 5 elements"),
            ({"strides": [1]}, ([1, 4, 5, 5], [6, 4, 3, 3]), "strides", [1], "2 entries, or one number for all"),
            ({"strides": [1, 0]}, ([1, 4, 5, 5], [6, 4, 3, 3]), "strides.1", 0, None),
            ({"dilations": [0, 1]}, ([1, 4, 5, 5], [6, 4, 3, 3]), "dilations.0", 0, None),
            ({"direction": "backward"}, ([1, 4, 5, 5], [6, 4, 3, 3]), "filter.sizes.0", 6, "4"),
            (
                {"direction": "backward", "group_count": 3},
                ([1, 4, 5, 5], [4, 4, 3, 3]),
                "group_count",
                3,
                "divisors of 4",
            ),
            (
                {"direction": "backward", "start_padding": [9, 0]},
                ([1, 4, 5, 5], [4, 4, 3, 3]),
                "start_padding.0",
                "a size of -2",
                "padding that leaves a size of at least 1",
            ),
        ],
    )
    def test_what_does_not_fit_is_named(
        self, fields: dict[str, Any], shapes: Any, field: str, got: Any, allowed: Any
    ) -> None:
        error = refused("convolution", [np.zeros(shape, "float32") for shape in shapes], **fields)
        assert (error.field, error.got, error.allowed) == (field, got, allowed)

    def test_bias_has_an_element_for_each_channel(self) -> None:
        error = refused("convolution", [*self.sample.inputs[:2], np.zeros((1, 5, 1, 1), "float32")])
        assert (error.field, error.got, error.allowed) == ("bias.sizes", [1, 5, 1, 1], "[1, 6, 1, 1]")

    def test_tensors_have_one_data_type_and_number_of_dimensions(self) -> None:
        error = refused("convolution", [np.zeros((1, 1, 3, 3), "float32"), np.zeros((1, 1, 3), "float32")])
        assert error.field == "filter"


def evaluate_onnx(operator: str, inputs: dict[str, Array], **attributes: Any) -> Any:
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in inputs.items()}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, list(inputs), ["y"], **attributes)],
        "g",
        [onnx.helper.make_tensor_value_info(name, kinds[name], each.shape) for name, each in inputs.items()],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
    (result,) = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    return result


def test_forward_is_onnx_conv_and_backward_its_conv_transpose(device: DeviceName) -> None:
    x, weights = INPUT.astype("float32"), FILTER.astype("float32")
    expected = evaluate_onnx("Conv", {"x": x, "w": weights}, strides=[2, 1], pads=[1, 2, 0, 1])
    got = run("convolution", [x, weights], device=device, strides=[2, 1], start_padding=[1, 2], end_padding=[0, 1])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    expected = evaluate_onnx("ConvTranspose", {"x": x, "w": weights[:4]}, strides=[2, 3], pads=[1, 1, 1, 1])
    got = run(
        "convolution",
        [x, weights[:4]],
        device=device,
        direction="backward",
        strides=[2, 3],
        start_padding=[1, 1],
        end_padding=[1, 1],
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_convolution_of_an_image() -> None:
    x, weights = np.ones((1, 3, 224, 224), "float32"), np.ones((64, 3, 3, 3), "float32")
    got = run("convolution", [x, weights], start_padding=[1, 1], end_padding=[1, 1])
    assert got[0, 63, 100, 100] == 27


BYTES = {"int8": INPUT.astype("int8"), "uint8": (INPUT + 120).astype("uint8")}
TAPS = {"int8": FILTER.astype("int8"), "uint8": (FILTER + 130).astype("uint8")}


def integers(x: Array, x_zero: int, weights: Array, weights_zero: Any, bias: Any = None, **fields: Any) -> Array:
    zeros = np.broadcast_to(np.array(weights_zero, "int64"), len(weights)).reshape(-1, 1, 1, 1)
    return convolved(x.astype("int64") - x_zero, weights.astype("int64") - zeros, bias, **fields)


class TestConvolutionInteger(OperatorTests):
    operator = "convolution_integer"
    levels = "2.1: 4D I8 U8 | 4.0: 3-4D I8 U8"
    sample = case(
        "sample",
        [BYTES["uint8"], array([[[[120]]]], "uint8"), TAPS["int8"], array([[[[3]]]], "int8")],
        integers(BYTES["uint8"], 120, TAPS["int8"], 3).astype("int32"),
        "uint8",
        "int32",
    )
    cases = (
        *(
            case(
                f"{one} and {other}",
                [BYTES[one], array([7], one), TAPS[other], array([11], other)],
                integers(BYTES[one], 7, TAPS[other], 11, **fields).astype("int32"),
                one,
                "int32",
                **fields,
            )
            for one in BYTES
            for other in TAPS
            for fields in ({}, {"start_padding": (1, 2), "strides": (2, 1), "dilations": (1, 2), "end_padding": (2, 0)})
        ),
        case(
            "no zero points",
            [BYTES["int8"], None, TAPS["int8"], None],
            integers(BYTES["int8"], 0, TAPS["int8"], 0).astype("int32"),
            "int8",
            "int32",
        ),
        case(
            "a zero point for each channel",
            [BYTES["int8"], array([1], "int8"), TAPS["int8"], array([1, 2, 3, 4, 5, 6], "int8")],
            integers(BYTES["int8"], 1, TAPS["int8"], [1, 2, 3, 4, 5, 6]).astype("int32"),
            "int8",
            "int32",
        ),
        case(
            "groups",
            [BYTES["int8"], None, TAPS["int8"][:, :2], None],
            integers(BYTES["int8"], 0, TAPS["int8"][:, :2], 0, group_count=2).astype("int32"),
            "int8",
            "int32",
            group_count=2,
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, None, x, None])

    def test_zero_points_are_one_number_or_one_for_each_channel(self) -> None:
        x, zero, weights, _ = self.sample.inputs
        error = refused(self.operator, [x, array([1, 2], "uint8"), weights, None])
        assert (error.field, error.got, error.allowed) == ("input_zero_point.sizes", [1, 2, 1, 1], "[1, 1, 1, 1]")
        error = refused(self.operator, [x, zero, weights, array([1, 2], "int8")])
        assert error.field == "filter_zero_point.sizes"
        assert error.allowed == "[1, 1, 1, 1] or [1, 6, 1, 1]"

    def test_zero_point_has_the_tensors_data_type(self) -> None:
        x, _, weights, _ = self.sample.inputs
        assert refused(self.operator, [x, array([1], "int8"), weights, None]).field == "input_zero_point"


def requantized(sums: Array, step: Any, zero: int, dtype: str) -> Array:
    """clamp(round(sum · step) + zero), halves to even; steps are powers of two and so exact."""
    low, high = exact.limits(dtype)
    steps = np.broadcast_to(np.array(step, "float64"), sums.shape[1])
    result = np.zeros(sums.shape, dtype)
    for index in np.ndindex(*sums.shape):
        result[index] = min(max(round(int(sums[index]) * float(steps[index[1]])) + zero, low), high)
    return result


def scale(*values: float) -> Array:
    return np.array(values, "float32")


class TestQuantizedLinearConvolution(OperatorTests):
    operator = "quantized_linear_convolution"
    levels = "2.1: 4D I8 U8 | 4.0: 3-4D I8 U8"
    bias = BIAS.astype("int32")
    sample = case(
        "sample",
        [
            BYTES["uint8"],
            scale(0.5),
            array([120], "uint8"),
            TAPS["int8"],
            scale(0.25),
            array([3], "int8"),
            bias,
            scale(4),
            array([9], "uint8"),
        ],
        requantized(integers(BYTES["uint8"], 120, TAPS["int8"], 3, bias), 1 / 32, 9, "uint8"),
        "uint8",
    )
    cases = (
        *(
            case(
                f"{one}, {other} to {to}",
                [
                    BYTES[one],
                    scale(0.5),
                    array([7], one),
                    TAPS[other],
                    scale(0.25),
                    array([11], other),
                    BIAS.astype("int32"),
                    scale(16),
                    array([9], to),
                ],
                requantized(integers(BYTES[one], 7, TAPS[other], 11, BIAS, **fields), 1 / 128, 9, to),
                one,
                to,
                **fields,
            )
            for one in BYTES
            for other in TAPS
            for to in BYTES
            for fields in ({}, {"start_padding": (1, 2), "strides": (2, 1)})
        ),
        case(
            "nothing optional",
            [BYTES["int8"], scale(1), None, TAPS["int8"], scale(1), None, None, scale(8), None],
            requantized(integers(BYTES["int8"], 0, TAPS["int8"], 0), 1 / 8, 0, "int8"),
            "int8",
        ),
        case(
            "a scale and zero point for each channel",
            [
                BYTES["int8"],
                scale(1),
                None,
                TAPS["int8"],
                scale(1, 2, 0.5, 1, 2, 0.5),
                array([1, 2, 3, 4, 5, 6], "int8"),
                None,
                scale(16),
                None,
            ],
            requantized(
                integers(BYTES["int8"], 0, TAPS["int8"], [1, 2, 3, 4, 5, 6]),
                np.array([1, 2, 0.5, 1, 2, 0.5]) / 16,
                0,
                "int8",
            ),
            "int8",
        ),
        case(
            "halves to even",
            [[[[[-3, -1, 1, 3, 5]]]], scale(0.5), None, array([[[[1]]]], "int8"), scale(1), None, None, scale(1), None],
            [[[[-2, 0, 0, 2, 2]]]],
            "int8",
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        one = graph.input("one", sizes=[1], dtype="float32")
        add_node(graph, self.operator, [x, one, None, x, one, None, None, one, None])

    def test_output_has_the_inputs_data_type_unless_asked(self) -> None:
        inputs = [BYTES["uint8"], scale(1), None, TAPS["int8"], scale(1), None, None, scale(8), None]
        assert run(self.operator, inputs).dtype == np.uint8
        assert run(self.operator, inputs, output={"dtype": "int8"}).dtype == np.int8

    @pytest.mark.parametrize(
        ("field", "index"), [("input_scale", 1), ("output_scale", 7), ("filter_scale", 4), ("bias", 6)]
    )
    def test_parameters_have_the_sizes_they_should(self, field: str, index: int) -> None:
        inputs = [*self.sample.inputs]
        inputs[index] = np.ones(4, inputs[index].dtype)
        error = refused(self.operator, inputs)
        assert (error.field, error.got) == (f"{field}.sizes", [1, 4, 1, 1])
