"""The pooling operators and their gradients."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx.reference
import pytest
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    add_node,
    array,
    assert_same,
    case,
    refused,
    run,
    run_all,
)
from support.operators.harness_windows import IMAGE, VOLUME, PoolingTests, WindowTests, pooled, windows
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

PLAIN: dict[str, Any] = {"window_size": (2, 2), "strides": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
PADDED: dict[str, Any] = {"window_size": (2, 3), "strides": (2, 1), "start_padding": (1, 2), "end_padding": (0, 1)}
DILATED: dict[str, Any] = PADDED | {"dilations": (2, 1)}
DEEP: dict[str, Any] = {
    "window_size": (2, 2, 3), "strides": (1, 2, 1), "start_padding": (1, 0, 1), "end_padding": (0, 1, 0),
}

FLOAT_LEVELS = "1.0: 4-5D F32 F16"
LATE_FLOAT_LEVELS = "6.2: 4-5D F32 F16"
STEPS = {"window_size": 1, "strides": 1, "start_padding": 0, "end_padding": 0}


def mean_of_all(elements: list[Fraction | None]) -> Fraction:
    return Fraction(sum(each or 0 for each in elements)) / len(elements)


def mean_of_inside(elements: list[Fraction | None]) -> Any:
    inside = [each for each in elements if each is not None]
    return Fraction(sum(inside)) / len(inside) if inside else NAN


def norm(p: int) -> Any:
    def of(elements: list[Fraction | None]) -> Fraction:
        total = sum((abs(each or Fraction(0)) ** p for each in elements), Fraction(0))
        with localcontext(prec=60):
            root = (Decimal(total.numerator) / Decimal(total.denominator)) ** (Decimal(1) / p) if total else Decimal(0)
        return Fraction(root)

    return of


def average_cases(dilated: bool) -> tuple[Any, ...]:
    more: dict[str, Any] = {"dilations": (1, 1)} if dilated else {}
    deep = {"dilations": (1, 1, 1)} if dilated else {}
    return (
        *(
            case(why, [x], pooled(array(x, of), function, **fields), of, include_padding=included, **fields)
            for of in FLOATS
            for why, x, fields in (
                ("plain", IMAGE, PLAIN | more),
                ("steps and padding", IMAGE, PADDED | more),
                ("three dimensions", VOLUME, DEEP | deep),
            )
            for x in [x.astype(of)]
            for included, function in ((True, mean_of_all), (False, mean_of_inside))
        ),
        case(
            "the whole",
            [IMAGE],
            pooled(IMAGE, mean_of_all, **PLAIN | more | {"window_size": (4, 5)}),
            include_padding=True,
            **PLAIN | more | {"window_size": (4, 5)},
        ),
        case(
            "infinity and NaN",
            [[[[[INF, 1, NAN, 2]]]]],
            [[[[INF, NAN, NAN]]]],
            include_padding=True,
            **PLAIN | more | {"window_size": (1, 2)},
        ),
        case(
            "nothing but padding is 0 / 0",
            [[[[[3, 2]]]]],
            [[[[NAN, 3, 2]]]],
            include_padding=False,
            **PLAIN | more | {"window_size": (1, 1), "start_padding": (0, 1)},
        ),
        case(
            "one window of all elements: a float16 sum is a float32",
            [[[[[60000, 60000]], [[2048, 1]]]]],
            [[[[60000]], [[1024.5]]]],
            "float16",
            include_padding=True,
            **PLAIN | more | {"window_size": (1, 2)},
        ),
    )


class TestAveragePooling(PoolingTests):
    operator = "average_pooling"
    levels = FLOAT_LEVELS
    per_dimension, others = STEPS, {"include_padding": False}
    ulp: ClassVar = {"directml:software": 2}
    cases = (
        case(
            "the documented example",
            [[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]],
            [[[[3, 4], [6, 7]]]],
            include_padding=True,
            **PLAIN,
        ),
        *average_cases(dilated=False),
    )
    sample = case("sample", [IMAGE], pooled(IMAGE, mean_of_inside, **PADDED), include_padding=False, **PADDED)


class TestAveragePooling1(PoolingTests):
    operator = "average_pooling1"
    levels = LATE_FLOAT_LEVELS
    per_dimension, others = STEPS | {"dilations": 1}, {"include_padding": False}
    ulp: ClassVar = {"directml:software": 2}
    sample = case("sample", [IMAGE], pooled(IMAGE, mean_of_inside, **DILATED), include_padding=False, **DILATED)
    cases = (
        *average_cases(dilated=True),
        *(
            case("dilated", [IMAGE], pooled(IMAGE, function, **DILATED), include_padding=included, **DILATED)
            for included, function in ((True, mean_of_all), (False, mean_of_inside))
        ),
    )

    def test_dilations_are_1_unless_given(self, device: DeviceName) -> None:
        got = run("average_pooling1", [IMAGE], device=device, include_padding=True, **PADDED)
        assert_same(got, run("average_pooling", [IMAGE], include_padding=True, **PADDED), self.ulp.get(device, 0))


@pytest.mark.parametrize("included", [True, False])
def test_averages_are_those_of_onnx(included: bool, device: DeviceName) -> None:
    x = np.random.default_rng(1).integers(-20, 20, (2, 3, 7, 6)).astype("float32")
    node = onnx.helper.make_node(
        "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=[3, 2],
        strides=[2, 1],
        pads=[1, 0, 2, 1],
        dilations=[1, 2],
        count_include_pad=int(included),
    )
    expected = evaluate_onnx(node, x)
    got = run(
        "average_pooling1",
        [x],
        device=device,
        window_size=[3, 2],
        strides=[2, 1],
        start_padding=[1, 0],
        end_padding=[2, 1],
        dilations=[1, 2],
        include_padding=included,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def evaluate_onnx(node: Any, *inputs: np.ndarray) -> Any:
    """The first output of an ONNX operator."""
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for each in inputs]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info(n, k, x.shape) for n, k, x in zip(node.input, kinds, inputs, strict=True)],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
    results: Any = onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(node.input, inputs, strict=True)))
    return results[0]


def lp_cases(more: dict[str, Any]) -> tuple[Any, ...]:
    return (
        *(
            case(f"p = {p}", [IMAGE.astype(of)], pooled(IMAGE.astype(of), norm(p), **fields), of, p=p, **fields)
            for of in FLOATS
            for p in (1, 2)
            for fields in (PLAIN | more, PADDED | more)
        ),
        case("p = 3", [IMAGE], pooled(IMAGE, norm(3), **PADDED | more), p=3, **PADDED | more),
        case(
            "infinity and NaN", [[[[[-INF, 1, NAN]]]]], [[[[INF, NAN]]]], p=2, **PLAIN | more | {"window_size": (1, 2)}
        ),
        case(
            "one window of all elements: a float16 sum is a float32",
            [[[[[6000, 8000]]]]],
            [[[[10000]]]],
            "float16",
            p=2,
            **PLAIN | more | {"window_size": (1, 2)},
        ),
    )


class LpTests(PoolingTests):
    ulp: ClassVar = {"reference": 1, "directml:software": 4}  # which adds up in float16

    def test_p_is_at_least_1(self) -> None:
        error = refused(self.operator, self.sample.inputs, **self.sample.fields | {"p": 0})
        assert (error.field, error.got) == ("p", 0)


class TestLpPooling(LpTests):
    operator = "lp_pooling"
    levels = FLOAT_LEVELS
    per_dimension, others = STEPS, {"p": 2}
    sample = case("sample", [IMAGE], pooled(IMAGE, norm(2), **PADDED), p=2, **PADDED)
    cases = (case("3, 4, 5", [[[[[3, -4]]]]], [[[[5]]]], p=2, **PLAIN | {"window_size": (1, 2)}), *lp_cases({}))


class TestLpPooling1(LpTests):
    operator = "lp_pooling1"
    levels = LATE_FLOAT_LEVELS
    per_dimension, others = STEPS | {"dilations": 1}, {"p": 2}
    sample = case("sample", [IMAGE], pooled(IMAGE, norm(2), **DILATED), p=2, **DILATED)
    cases = (
        *lp_cases({"dilations": (1, 1)}),
        case("dilated", [IMAGE], pooled(IMAGE, norm(1), **DILATED), p=1, **DILATED),
    )


def greatest(elements: list[Fraction | None]) -> Any:
    return max(each for each in elements if each is not None)


def where_greatest(x: np.ndarray, **fields: Any) -> np.ndarray:
    """The row-major index in x of the first maximum of each window."""
    found: dict[Any, int] = {}
    for batch, channel in np.ndindex(*x.shape[:2]):
        for window, taps in windows(x.shape[2:], **fields):
            places = [(batch, channel, *at) for _, at in taps if at is not None]
            first = max(places, key=lambda at: x[at])  # Python's max takes the first of equal ones
            found[(batch, channel, *window)] = int(np.ravel_multi_index(first, x.shape))
    result = np.zeros([max(index) + 1 for index in zip(*found, strict=True)], "uint32")
    for index, value in found.items():
        result[index] = value
    return result


MAX_LEVELS = "3.0: 4-5D F32 F16 I8 U8 | 5.0: 4-5D ALL10"
SMALL: dict[str, Any] = {  # no empty window
    "window_size": (2, 3), "strides": (2, 1), "start_padding": (1, 2), "end_padding": (1, 0),
}
TWO = (np.arange(2 * 3 * 4 * 5) * 37 % 61 - 30).reshape(2, 3, 4, 5)


def max_cases(more: dict[str, Any]) -> tuple[Any, ...]:
    deep: dict[str, Any] = {"dilations": (1, 1, 1)} if more else {}
    return (
        *(
            case("maxima", [x], pooled(x, greatest, **SMALL | more), of, **SMALL | more)
            for of in FLOATS + tuple(each for each in INTEGERS if not each.endswith("64"))
            for x in [(TWO + (30 if of.startswith("u") else 0)).astype(of)]
        ),
        case("three dimensions", [VOLUME], pooled(VOLUME, greatest, **DEEP | deep), **DEEP | deep),
        case(
            "64 bits",
            [[[[[-(2**63), 2**62 + 1, 2**62]]]]],
            [[[[2**62 + 1, 2**62 + 1]]]],
            "int64",
            **PLAIN | more | {"window_size": (1, 2)},
        ),
        case(
            "64 bits",
            [[[[[0, 2**63 + 1, 2**63]]]]],
            [[[[2**63 + 1, 2**63 + 1]]]],
            "uint64",
            **PLAIN | more | {"window_size": (1, 2)},
        ),
        *(
            case(
                "−infinity counts as the least number, NaN is passed over",
                [[[[[-INF, -INF, 1, NAN, NAN]]]]],
                [[[[least, 1, 1, least]]]],
                of,
                **PLAIN | more | {"window_size": (1, 2)},
            )
            for of in FLOATS
            for least in [float(np.finfo(of).min)]
        ),
        *(
            case(
                "one window of all elements: −infinity stays, and is what NaN alone gives",
                [[[[[-INF, -INF]], [[NAN, NAN]], [[NAN, -3]]]]],
                [[[[-INF]], [[-INF]], [[-3]]]],
                of,
                **PLAIN | more | {"window_size": (1, 2)},
            )
            for of in FLOATS
        ),
        *(
            case(
                "nothing but padding is the least number, of 32 bits",
                [[[[[3, 2]]]]],
                [[[[least, 3, 2]]]],
                of,
                **PLAIN | more | {"window_size": (1, 1), "start_padding": (0, 1)},
            )
            for of, least in (
                *((of, float(np.finfo(of).min)) for of in FLOATS),
                *(("int8", -128), ("int16", 0), ("int32", -(2**31)), ("uint8", 0), ("uint16", 0), ("uint32", 0)),
            )
        ),
    )


class MaxTests(PoolingTests):
    per_dimension = STEPS


@pytest.mark.parametrize("own", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operator", ["max_pooling", "max_pooling2"])
def test_of_zeros_of_either_sign_the_first_is_taken(operator: str, dtype: str, own: DeviceName) -> None:
    """DirectML takes either; that depends on the compiler of its shader."""
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, -0.0, -1, NAN], (2, 3, 9, 11), p=[0.3, 0.3, 0.3, 0.1]).astype(dtype)
    fields = {"window_size": [3, 2], "strides": [2, 1], "start_padding": [1, 0], "end_padding": [1, 1]}
    got = run(operator, [x], device=own, **fields)
    padded = np.pad(np.fmax(x, np.finfo(dtype).min), [(0, 0), (0, 0), (1, 1), (0, 1)], constant_values=-INF)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2].reshape(*got.shape, 6)
    assert_same(got, np.take_along_axis(windows, windows.argmax(-1)[..., None], -1)[..., 0])


class TestMaxPooling(MaxTests):
    operator = "max_pooling"
    levels = f"1.0: 4-5D F32 F16 | {MAX_LEVELS}"
    sample = case("sample", [IMAGE], pooled(IMAGE, greatest, **SMALL), **SMALL)
    cases = tuple(max_cases({}))


class IndexTests(MaxTests):
    asked = ("output", "output_indices")

    def test_indices_are_uint64_where_asked_for(self, device: DeviceName) -> None:
        x, fields = self.sample.inputs[0], self.sample.fields | {"output_indices": {"dtype": "uint64"}}
        _, indices = run_all(self.operator, [x], device=device, **fields)
        assert_same(indices, self.sample.gives[1].astype("uint64"))

    def test_indices_are_left_out_unless_asked_for(self) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != "output_indices"}
        assert len(run_all(self.operator, self.sample.inputs, **fields)) == 1

    @pytest.mark.parametrize(("level", "legal"), [("3.0", False), ("5.0", True)])
    def test_uint64_indices_are_legal_from_5_0(self, level: str, legal: bool) -> None:
        graph = dg.Graph("test", target=level)
        x = graph.input("x", sizes=[1, 1, 4, 4], dtype="float32")
        fields = self.attributes(4) | {"output_indices": {"dtype": "uint64"}}
        if legal:
            add_node(graph, self.operator, [x], **fields)
        else:
            with pytest.raises(dg.OperatorError) as caught:
                add_node(graph, self.operator, [x], **fields)
            assert caught.value.field == "output_indices.dtype"
            assert "legal from 5.0" in str(caught.value)

    def test_sizes_of_the_output_are_inferred(self) -> None:
        error = refused(self.operator, self.sample.inputs, output={"sizes": [9, 9, 9, 9]}, **self.sample.fields)
        assert error.field == "output.sizes"

    def test_a_window_of_nothing_but_padding_has_index_0(self, device: DeviceName) -> None:
        fields = self.attributes(4) | {"start_padding": [0, 2], "output_indices": True}
        _, indices = run_all(self.operator, [array([[[[3, 2]]]], "float32")], device=device, **fields)
        assert_same(indices, array([[[[0, 0, 0, 1]]]], "uint32"))


def indexed(why: str, x: np.ndarray, fields: dict[str, Any]) -> Any:
    gives = (pooled(x, greatest, **fields), where_greatest(x, **fields))
    return case(why, [x], gives, output_indices=True, **fields)


TIES = array([[[[1, 2, 2], [2, 2, 1], [0, 2, 2]]]], "float32")


class TestMaxPooling1(IndexTests):
    operator = "max_pooling1"
    levels = f"2.0: 4-5D F32 F16 | {MAX_LEVELS}"
    sample = indexed("sample", IMAGE, SMALL)
    cases = (
        *max_cases({}),
        indexed("indices count over batches and channels", TWO.astype("float32"), SMALL),
        case(
            "the first of several",
            [TIES],
            (array([[[[2, 2], [2, 2]]]], "float32"), array([[[[1, 1], [3, 4]]]], "uint32")),
            output_indices=True,
            **PLAIN,
        ),
    )


class TestMaxPooling2(IndexTests):
    operator = "max_pooling2"
    levels = f"2.1: 4-5D F32 F16 | {MAX_LEVELS}"
    per_dimension = STEPS | {"dilations": 1}
    sample = indexed("sample", IMAGE, SMALL | {"dilations": (2, 1)})
    cases = (
        *max_cases({"dilations": (1, 1)}),
        case(
            "the documented example",
            [[[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]]],
            (array([[[[4, 4], [6, 7]]]], "float32"), array([[[[4, 4], [7, 8]]]], "uint32")),
            window_size=(2, 2),
            output_indices=True,
        ),
        indexed("dilated", TWO.astype("float32"), SMALL | {"dilations": (2, 1)}),
    )


SPREAD: dict[str, Any] = {"window_size": (1, 2), "strides": (1, 2), "start_padding": (0, 1), "end_padding": (0, 1)}


def of_sizes(*sizes: int) -> dict[str, Any]:
    return {"output_gradient": {"sizes": sizes}}


class TestAveragePoolingGrad(WindowTests):
    operator = "average_pooling_grad"
    levels = "3.0: 4-5D F32 F16"
    per_dimension, others = STEPS, {"include_padding": False}
    ulp: ClassVar = {"directml:software": 2}
    sample = case(
        "sample",
        [[[[[1, 2], [3, 4]]]]],
        [[[[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]]],
        include_padding=True,
        **of_sizes(1, 1, 3, 3),
        **PLAIN,
    )
    cases = (
        *(
            case(
                "the documented example", [sample.inputs[0].astype(of)], sample.gives[0].astype(of), of, **sample.fields
            )
            for sample, of in itertools.product([sample], FLOATS)
        ),
        case(
            "padding takes its part where it counts",
            [[[[[8, 4]]]]],
            [[[[4, 2]]]],
            include_padding=True,
            **of_sizes(1, 1, 1, 2),
            **SPREAD,
        ),
        case(
            "and none where it does not",
            [[[[[8, 4]]]]],
            [[[[8, 4]]]],
            include_padding=False,
            **of_sizes(1, 1, 1, 2),
            **SPREAD,
        ),
        case(
            "what no window holds is zero",
            [[[[[8]]]]],
            [[[[4, 4, 0]]]],
            include_padding=True,
            **of_sizes(1, 1, 1, 3),
            **PLAIN | {"window_size": (1, 2), "strides": (1, 2)},
        ),
        case(
            "float16 is added up window by window",
            [[[[[2048, 1, 1, 1, 1, 1, 1, 1]]]]],
            [[[[256] * 8 + [0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]]]],
            "float16",
            include_padding=True,
            **of_sizes(1, 1, 1, 15),
            **PLAIN | {"window_size": (1, 8)},
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x], sizes=[1] * rank, **self.attributes(rank))

    def test_sizes_must_be_given(self) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != "output_gradient"}
        error = refused(self.operator, self.sample.inputs, **fields)
        expect(error, "undetermined", node="node", field="output_gradient.sizes")

    def test_sizes_are_those_that_are_pooled_to_the_gradients(self) -> None:
        error = refused(self.operator, self.sample.inputs, **self.sample.fields | of_sizes(1, 1, 4, 4))
        assert (error.field, error.got, error.allowed) == ("input_gradient.sizes", [1, 1, 2, 2], "[1, 1, 3, 3]")


class TestMaxPoolingGrad(WindowTests):
    operator = "max_pooling_grad"
    levels = "3.0: 4D F32 F16 | 4.0: 4-5D F32 F16"
    per_dimension = STEPS | {"dilations": 1}
    sample = case(
        "sample",
        [[[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]], [[[[1, 2], [4, 5]]]]],
        [[[[0, 0, 0], [0, 3, 0], [0, 4, 5]]]],
        dilations=(1, 1),
        **PLAIN,
    )
    cases = (
        *(
            case(
                "the documented example",
                [each.tolist() for each in sample.inputs],
                sample.gives[0].tolist(),
                of,
                **sample.fields,
            )
            for sample, of in itertools.product([sample], FLOATS)
        ),
        case(
            "the first of several takes it",
            [TIES, [[[[1, 2], [4, 8]]]]],
            [[[[0, 3, 0], [4, 8, 0], [0, 0, 0]]]],
            **sample.fields,
        ),
        case(
            "dilated",
            [[[[[1, 5, 2, 4]]]], [[[[1, 10]]]]],
            [[[[0, 10, 1, 0]]]],
            dilations=(1, 2),
            **PLAIN | {"window_size": (1, 2)},
        ),
        case(
            "NaN is passed over",
            [[[[[NAN, 2, NAN, NAN]]]], [[[[1, 2, 4]]]]],
            [[[[0, 3, 4, 0]]]],
            dilations=(1, 1),
            **PLAIN | {"window_size": (1, 2)},
        ),
        case(
            "nothing but padding takes nothing",
            [[[[[3, 2]]]], [[[[1, 2, 4, 8]]]]],
            [[[[4, 8]]]],
            dilations=(1, 1),
            **PLAIN | {"window_size": (1, 1), "start_padding": (0, 2)},
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x], **self.attributes(rank))

    def test_gradient_has_the_sizes_of_what_is_pooled(self) -> None:
        x, _ = self.sample.inputs
        error = refused(self.operator, [x, x], **self.sample.fields)
        assert (error.field, error.got, error.allowed) == ("input_gradient.sizes", [1, 1, 3, 3], "[1, 1, 2, 2]")


class TestMaxUnpooling(OperatorTests):
    operator = "max_unpooling"
    levels = "3.0: 4D F32 F16 | 5.0: 4D ALL10"
    places = array([[[[5, 7], [13, 15]]]], "uint32")
    sample = case(
        "sample",
        [[[[[1, 2], [3, 4]]]], places],
        [[[[0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0], [0, 3, 0, 4]]]],
        output={"sizes": (1, 1, 4, 4)},
    )
    cases = (
        *(
            case(
                "puts elements in their places",
                [sample.inputs[0].astype(of), places],
                sample.gives[0].astype(of),
                of,
                sizes=(1, 1, 4, 4),
            )
            for sample, places, of in itertools.product([sample], [places], FLOATS + INTEGERS)
        ),
        case("indices of 64 bits", [sample.inputs[0], places.astype("uint64")], sample.gives[0], sizes=(1, 1, 4, 4)),
        case(
            "an index beyond the end is passed over",
            [[[[[1, 2]]]], array([[[[4, 1]]]], "uint32")],
            [[[[0, 2, 0, 0]]]],
            sizes=(1, 1, 1, 4),
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        indices = graph.input("indices", sizes=[1] * rank, dtype="uint32")
        add_node(graph, self.operator, [x, indices], sizes=[1] * rank)

    def test_undoes_max_pooling(self, device: DeviceName) -> None:
        x = array([[[[1, 2], [4, 3]]]], "float32")
        values, indices = run_all("max_pooling1", [x], output_indices=True, **PLAIN)
        assert_same(
            run("max_unpooling", [values, indices], device=device, sizes=[1, 1, 2, 2]),
            array([[[[0, 0], [4, 0]]]], "float32"),
        )

    def test_sizes_must_be_given(self) -> None:
        error = refused("max_unpooling", self.sample.inputs)
        assert error.field == "output.sizes"

    def test_indices_have_the_inputs_sizes(self) -> None:
        error = refused("max_unpooling", [self.sample.inputs[0], self.places[:, :, :1]], sizes=[1, 1, 4, 4])
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [1, 1, 1, 2], "[1, 1, 2, 2]")


def quantized_mean(
    x: np.ndarray, x_scale: Any, x_zero: Any, scale: Any, zero: Any, included: bool, **fields: Any
) -> Any:
    """The formula in exact numbers; scales and zero points have one entry for each channel."""
    low, high = exact.limits(str(x.dtype))
    channels = []
    for channel in range(x.shape[1]):
        part = (x[:, channel : channel + 1].astype("float64") - x_zero[channel]) * x_scale[channel]

        def quantize(elements: list[Fraction | None], channel: int = channel) -> float:
            mean = mean_of_all(elements) if included else mean_of_inside(elements)
            return min(max(round(mean / Fraction(scale[channel])) + zero[channel], low), high)

        channels.append(pooled(part, quantize, **fields))
    return np.concatenate(channels, 1).astype(x.dtype)


def number(*values: float, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


class TestQuantizedLinearAveragePooling(PoolingTests):
    operator = "quantized_linear_average_pooling"
    levels = "6.2: 4-5D I8 U8"
    per_dimension, others = STEPS | {"dilations": 1}, {"include_padding": False}
    bytes_ = (np.arange(40) * 29 % 256).reshape(1, 2, 4, 5)
    signed = (bytes_ - 128).astype("int8")
    sample = case(
        "sample",
        [signed, number(0.5), number(3, dtype="int8"), number(0.25), number(7, dtype="int8")],
        quantized_mean(signed, [0.5] * 2, [3] * 2, [0.25] * 2, [7] * 2, False, **DILATED),
        "int8",
        include_padding=False,
        **DILATED,
    )
    cases = (
        *(
            case(
                "one scale and zero point",
                [x, number(0.5), number(3, dtype=of), number(0.75), number(7, dtype=of)],
                quantized_mean(x, [0.5] * 2, [3] * 2, [0.75] * 2, [7] * 2, included, **fields),
                of,
                include_padding=included,
                **fields,
            )
            for of in ("int8", "uint8")
            for x in [(np.arange(40) * 29 % 256 - (128 if of == "int8" else 0)).reshape(1, 2, 4, 5).astype(of)]
            for included in (True, False)
            for fields in (SMALL | {"dilations": (1, 1)}, SMALL | {"dilations": (2, 1)})
        ),
        case(
            "for each channel",
            [signed, number(0.5, 0.25), number(3, -4, dtype="int8"), number(2, 0.5), number(1, 2, dtype="int8")],
            quantized_mean(signed, [0.5, 0.25], [3, -4], [2, 0.5], [1, 2], True, **DILATED),
            "int8",
            include_padding=True,
            **DILATED,
        ),
        case(
            "nothing but padding",
            [[[[[4, 8]]]], number(1), None, number(1), None],
            [[[[127, 6, 127]]]],
            "int8",
            include_padding=False,
            **PLAIN | {"window_size": (1, 2), "strides": (1, 2), "start_padding": (0, 2), "end_padding": (0, 2)},
            dilations=(1, 1),
        ),
        case(
            "nothing but padding, with a zero point",
            [array([[[[4, 8]]]], "uint8"), number(1), None, number(1), number(3, dtype="uint8")],
            [[[[0, 9, 0]]]],
            "uint8",
            include_padding=False,
            **PLAIN | {"window_size": (1, 2), "strides": (1, 2), "start_padding": (0, 2), "end_padding": (0, 2)},
            dilations=(1, 1),
        ),
        case(
            "no zero points, halves to even",
            [[[[[0, 1, 2, 3, 4, 5]]]], number(1), None, number(1), None],
            [[[[0, 2, 2, 4, 4]]]],
            "int8",
            include_padding=True,
            **PLAIN | {"window_size": (1, 2), "dilations": (1, 1)},
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        scale = graph.input("scale", sizes=[1], dtype="float32")
        add_node(graph, self.operator, [x, scale, None, scale, None], **self.attributes(rank))

    def test_parameters_are_one_number_or_one_for_each_channel(self) -> None:
        inputs = [*self.sample.inputs]
        inputs[3] = number(1, 2, 3)
        error = refused(self.operator, inputs, **self.sample.fields)
        assert (error.field, error.got) == ("output_scale.sizes", [1, 3, 1, 1])
        assert error.allowed == "[1, 1, 1, 1] or [1, 2, 1, 1]"

    def test_zero_point_has_the_tensors_data_type(self) -> None:
        inputs = [*self.sample.inputs]
        inputs[2] = number(3, dtype="uint8")
        assert refused(self.operator, inputs, **self.sample.fields).field == "input_zero_point"

    def test_output_has_the_data_type_of_its_zero_point(self) -> None:
        inputs = [*self.sample.inputs]
        inputs[4] = number(200, dtype="uint8")
        assert run(self.operator, inputs, **self.sample.fields).dtype == np.uint8


def test_a_large_pooling_takes_no_loop_over_elements() -> None:
    x = np.zeros((1, 8, 224, 224), "float32")
    x[0, 0, 223, 223] = 9
    _, indices = run_all(
        "max_pooling2", [x], window_size=[3, 3], strides=[2, 2], output_indices=True, end_padding=[1, 1]
    )
    assert indices[0, 0, -1, -1] == 223 * 224 + 223
    assert math.prod(indices.shape) == 8 * 112 * 112
