"""RESAMPLE, RESAMPLE1 to 3, their gradients, and UPSAMPLE_2D."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, Array, add_node, array, assert_same, case, refused, run

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

NEAREST, LINEAR = "nearest_neighbor", "linear"
RAMP = array([[[[0, 4, 8, 12]]]], "float32")
IMAGE = (np.arange(2 * 3 * 4 * 3) * 37 % 32).reshape(2, 3, 4, 3).astype("float32")


def weights(size: int, count: int, scale: Fraction, into: Fraction, out_of: Fraction, mode: str, way: str) -> Array:
    """{count, size}: the exact weight of each input element in each output element, by the documented formula."""
    table = np.full((count, size), Fraction(0), object)
    for o in range(count):
        at = (o - out_of) / scale - into
        if mode == NEAREST:
            rounded = {"": math.floor(at + Fraction(1, 2)), "increasing": math.ceil(at), "decreasing": math.floor(at)}[
                way
            ]
            table[o, min(max(rounded, 0), size - 1)] += 1
        else:
            at = min(max(at, Fraction(0)), Fraction(size - 1))
            table[o, math.floor(at)] += 1 - (at - math.floor(at))
            table[o, min(math.floor(at) + 1, size - 1)] += at - math.floor(at)
    return table


def resampled(
    x: Array, counts: Any, mode: str, scales: Any = None, into: Any = 0.5, out_of: Any = -0.5, way: str = ""
) -> Array:
    """x multiplied by the table of weights along every dimension."""
    result = np.vectorize(Fraction, otypes=[object])(x.astype("float64"))
    for axis, (size, count) in enumerate(zip(x.shape, counts, strict=True)):
        scale = Fraction(count, size) if scales is None else Fraction(scales[axis])
        table = weights(size, count, scale, Fraction(into), Fraction(out_of), mode, way)
        result = np.moveaxis(np.tensordot(table, result, (1, axis)), 0, axis)
    return result.astype("float64").astype(x.dtype)


def of(counts: Any) -> dict[str, Any]:
    return {"output": {"sizes": tuple(counts)}}


class ResampleTests(OperatorTests):
    """Operators that resample to requested sizes, or by their scales."""

    scaling: ClassVar[dict[str, Any]] = {}  # required fields except the mode, for one dimension
    rounding: ClassVar[str] = ""
    ulp: ClassVar = {"directml:software": 4}

    def fields(self, rank: int) -> dict[str, Any]:
        return {"interpolation_mode": LINEAR} | {key: [value] * rank for key, value in self.scaling.items()}

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x], sizes=[1] * rank, **self.fields(rank))

    def test_scales_say_the_sizes_where_they_are_not_given(self) -> None:
        got = run(
            self.operator, [np.zeros((1, 1, 10, 5), "float32")], interpolation_mode=NEAREST, scales=[1, 1, 0.7, 1.5]
        )
        assert got.shape == (1, 1, 7, 7)

    @pytest.mark.parametrize("mode", [NEAREST, LINEAR])
    def test_output_is_cropped_or_goes_on_with_the_last_element(self, mode: str, device: DeviceName) -> None:
        fields = {"interpolation_mode": mode, "scales": [1, 1, 1, 2]}
        whole = run(self.operator, [RAMP], device=device, **fields)
        short = run(self.operator, [RAMP], device=device, sizes=[1, 1, 1, 5], **fields)
        long = run(self.operator, [RAMP], device=device, sizes=[1, 1, 1, 11], **fields)
        np.testing.assert_array_equal(short, whole[..., :5])
        np.testing.assert_array_equal(long[..., 8:], [[[[12, 12, 12]]]])

    @pytest.mark.parametrize("scale", [0.0, -1.0])
    def test_scales_are_above_zero(self, scale: float) -> None:
        error = refused(self.operator, [RAMP], interpolation_mode=LINEAR, scales=[1, 1, scale, 1])
        assert (error.field, error.got) == ("scales.2", scale)

    def test_there_is_a_scale_for_each_dimension(self) -> None:
        error = refused(self.operator, [RAMP], interpolation_mode=LINEAR, scales=[2, 2])
        assert error.field is not None
        assert error.field.partition(".")[0] in ("scales", "input_pixel_offsets")

    def test_sizes_have_the_inputs_number_of_dimensions(self) -> None:
        assert refused(self.operator, [RAMP], sizes=[1, 8], **self.fields(4)).field == "output"


LEVELS_OF_RESAMPLE = "5.1: 1-4D F32 F16 | 6.2: 1-4D F32 F16 I8 U8"


def common_cases(scales: bool, way: str) -> tuple[Any, ...]:
    """Rows without offsets; `scales`: the operator requires scales."""

    def row(why: str, x: Array, counts: Any, mode: str, to: str) -> Any:
        given: dict[str, Any] = (
            {"scales": [count / size for size, count in zip(x.shape, counts, strict=True)]} if scales else {}
        )
        x = x.astype(to)
        return case(
            why,
            [x],
            resampled(x, counts, mode, way=way if mode == NEAREST else ""),
            to,
            interpolation_mode=mode,
            **of(counts),
            **given,
        )

    return tuple(
        row(f"{mode} {why}", x, counts, mode, to)
        for mode in (NEAREST, LINEAR)
        for to in FLOATS
        for why, x, counts in (
            ("twice as large", RAMP, (1, 1, 1, 8)),
            ("half as large", RAMP, (1, 1, 1, 2)),
            ("all four dimensions", IMAGE[:, :2, :, :2], (4, 4, 8, 4)),
        )
    )


INTEGERS_ARE_CUT = tuple(
    case(
        "integers are cut",
        [[[[[0, 10, 15, 3]]]]],
        [[[[0, 2, 7, 11, 13, 12, 6, 3]]]],
        dtype,
        interpolation_mode=LINEAR,
        scales=[1, 1, 1, 2],
    )
    for dtype in ("int8", "uint8")
)
INTEGERS_ARE_ROUNDED_DOWN = tuple(
    case(
        why,
        [[[[[10, 20, 30, 40]]]]],
        gives,
        dtype,
        interpolation_mode=NEAREST,
        scales=[1, 1, 1, scale],
    )
    for dtype in ("int8", "uint8")
    for why, scale, gives in (
        ("the nearest integer is the one at or before the place", 2, [[[[10, 10, 10, 20, 20, 30, 30, 40]]]]),
        ("also where halves are", 0.5, [[[[10, 30]]]]),
    )
)
SAMPLE = case(
    "sample",
    [IMAGE[:, :2]],
    resampled(IMAGE[:, :2], (2, 2, 8, 6), LINEAR),
    interpolation_mode=LINEAR,
    scales=[1, 1, 2, 2],
)


class TestResample(ResampleTests):
    operator = "resample"
    levels = f"2.0: 4D F32 F16 | {LEVELS_OF_RESAMPLE}"
    scaling: ClassVar = {"scales": 1}
    sample = SAMPLE
    cases = (*common_cases(scales=True, way=""), *INTEGERS_ARE_CUT, *INTEGERS_ARE_ROUNDED_DOWN)


def offset_cases(ways: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(
        case(
            f"offsets {into} and {out_of}, {mode} {way}",
            [RAMP],
            resampled(RAMP, (1, 1, 1, 8), mode, [1, 1, 1, 2], into, out_of, way if mode == NEAREST else ""),
            interpolation_mode=mode,
            scales=[1, 1, 1, 2],
            input_pixel_offsets=[into] * 4,
            output_pixel_offsets=[out_of] * 4,
            **({"rounding_direction": way} if way else {}),
        )
        for mode in (NEAREST, LINEAR)
        for into, out_of in ((0, 0), (0.5, -0.5), (0.25, -0.5), (0, -0.5))
        for way in ways
    )


# Positions 0, 1, 2, … of the input: the weights follow from the whole offset, the choice of elements does not.
FAR = tuple(
    case(
        f"{why} is extrapolated",
        [[[[[1, 2, 4, 8]]]]],
        [[[gives]]],
        interpolation_mode=LINEAR,
        scales=[1, 1, 1, 1],
        input_pixel_offsets=[0, 0, 0, offset],
        output_pixel_offsets=[0, 0, 0, out_of],
    )
    for why, offset, out_of, gives in (
        ("an offset above 1", 1.5, 0, [1, 0.5, 1, 2]),  # x[p − 1] + (x[p] − x[p − 1]) · (1 − 1.5)
        ("an offset below 0", -3, 0, [4, 8, 16, 8]),  # x[p] + 3 · (x[p + 1] − x[p])
        ("an offset below 0 between elements", -0.75, 0.75 - 1, [2, 4, 8, 8]),  # x[p] + (x[p + 1] − x[p])
    )
)
COPIED = tuple(
    case(
        f"offsets {offset} and {-offset} copy the elements before",
        [[[[[1, 2, 4, 8]]]]],
        [[[gives]]],
        interpolation_mode=LINEAR,
        scales=[1, 1, 1, 1],
        input_pixel_offsets=[0, 0, 0, offset],
        output_pixel_offsets=[0, 0, 0, -offset],
    )
    for offset, gives in ((-0.5, [1, 1, 2, 4]), (-2, [1, 1, 1, 2]), (1.5, [1, 2, 4, 8]))
)


class TestResample1(ResampleTests):
    operator = "resample1"
    levels = f"2.1: 4D F32 F16 | {LEVELS_OF_RESAMPLE}"
    sample = SAMPLE
    cases = (
        *common_cases(scales=False, way=""),
        *INTEGERS_ARE_CUT,
        *INTEGERS_ARE_ROUNDED_DOWN,
        *offset_cases(("",)),
        *FAR,
        *COPIED,
    )

    def test_sizes_or_scales_must_be_given(self) -> None:
        assert refused(self.operator, [RAMP], interpolation_mode=LINEAR).field == "output.sizes"

    def test_sizes_must_be_given_beside_an_infinite_scale(self, device: DeviceName) -> None:
        """Then every read is at the first element."""
        fields = {"interpolation_mode": NEAREST, "scales": [1, 1, 1, math.inf]}
        assert refused(self.operator, [RAMP], **fields).field == "output.sizes"
        got = run(self.operator, [RAMP], device=device, sizes=[1, 1, 1, 3], **fields)
        np.testing.assert_array_equal(got, np.repeat(RAMP[..., :1], 3, axis=-1))

    @pytest.mark.parametrize("mode", [NEAREST, LINEAR])
    def test_an_offset_that_is_nan(self, mode: str, device: DeviceName) -> None:
        """The position is at the first element, or between it and the next."""
        offsets = {"input_pixel_offsets": [0, 0, 0, math.nan], "output_pixel_offsets": [0] * 4}
        fields = {"interpolation_mode": mode, "scales": [1, 1, 1, 2], **offsets}
        got = run(self.operator, [RAMP], device=device, sizes=[1, 1, 1, 3], **fields)
        first = RAMP.ravel()[0] if mode == NEAREST else math.nan
        np.testing.assert_array_equal(got.ravel(), [first] * 3)

    @pytest.mark.parametrize("scale", [0, -1, math.nan, -math.inf, 2.0**-24, 1e-40])
    def test_a_scale_is_not_too_small(self, scale: float) -> None:
        error = refused(self.operator, [RAMP], interpolation_mode=LINEAR, scales=[1, 1, 1, scale], sizes=[1, 1, 1, 3])
        assert (error.field, error.allowed) == ("scales.3", f"{2.0**-23} or more")

    def test_an_infinite_element_makes_what_is_between_nan(self, device: DeviceName) -> None:
        got = run(
            self.operator,
            [array([[[[math.inf, 1, 2, 3]]]], "float32")],
            device=device,
            interpolation_mode=LINEAR,
            sizes=[1, 1, 1, 8],
        )
        np.testing.assert_array_equal(got, [[[[math.nan] * 3 + [1.25, 1.75, 2.25, 2.75, 3]]]])


class TestResample2(ResampleTests):
    operator = "resample2"
    levels = LEVELS_OF_RESAMPLE
    sample = SAMPLE
    cases = (
        *common_cases(scales=False, way="increasing"),
        *INTEGERS_ARE_CUT,
        *offset_cases(("increasing", "decreasing")),
        *FAR,
        *COPIED,
        case(
            "the integer that is cut is computed in float32",  # 75 − 15 · 0.33333337, which rounds to 70
            [array([[[[75, 60]]]], "int8")],
            [[[[75, 70, 65, 60]]]],
            "int8",
            interpolation_mode=LINEAR,
            scales=[1, 1, 1, 3],
            output={"sizes": [1, 1, 1, 4]},
            input_pixel_offsets=[0, 0, 0, 0],
            output_pixel_offsets=[0, 0, 0, 0],
        ),
    )


def antialiased(x: tuple[float, ...], count: int) -> list[float]:
    """A triangle filter of 1 / scale on either side of each output element's position; its weights add up to one."""
    step = Fraction(len(x), count)
    result = []
    for o in range(count):
        at = (o + Fraction(1, 2)) * step - Fraction(1, 2)
        parts = {i: 1 - abs(i - at) / step for i in range(-len(x), 2 * len(x)) if abs(i - at) < step}
        total = sum(part * Fraction(x[min(max(i, 0), len(x) - 1)]) for i, part in parts.items())
        result.append(float(total / sum(parts.values())))
    return result


class TestResample3(ResampleTests):
    operator = "resample3"
    levels = "6.4: 1-4D F32 F16 I8 U8"
    sample = SAMPLE
    ulp: ClassVar = {"reference": 1}
    line = (0.0, 8.0, 4.0, 16.0, 32.0, 2.0, 6.0, 64.0)
    cases = (
        *common_cases(scales=False, way="increasing"),
        *INTEGERS_ARE_CUT,
        *offset_cases(("increasing", "decreasing")),
        case(
            "antialiased to a quarter",
            [[[[line]]]],
            [[[antialiased(line, 2)]]],
            interpolation_mode=LINEAR,
            antialiased=True,
            **of((1, 1, 1, 2)),
        ),
        case(
            "a half is not antialiased",
            [[[[line]]]],
            [[[[4, 10, 17, 35]]]],
            interpolation_mode=LINEAR,
            antialiased=True,
            **of((1, 1, 1, 4)),
        ),
        case(
            "nearest_neighbor is not antialiased",
            [[[[line]]]],
            [[[[4, 6]]]],
            interpolation_mode=NEAREST,
            antialiased=True,
            input_pixel_offsets=[0.0] * 4,
            output_pixel_offsets=[-0.5] * 4,
            **of((1, 1, 1, 2)),
        ),
    )


class TestUpsample2d(OperatorTests):
    operator = "upsample_2d"
    levels = "1.0: 4-5D F32 F16"
    ulp: ClassVar = {"directml:software": 4}
    sample = case(
        "sample",
        [IMAGE[:, :, :2]],
        resampled(IMAGE[:, :, :2], (2, 3, 4, 12), LINEAR),
        interpolation_mode=LINEAR,
        scale_size=[4, 2],
    )
    cases = (
        *(
            case(
                mode,
                [IMAGE.astype(to)],
                resampled(IMAGE.astype(to), (2, 3, 8, 12), mode),
                to,
                interpolation_mode=mode,
                scale_size=[4, 2],
            )
            for mode in (NEAREST, LINEAR)
            for to in FLOATS
        ),
        case(
            "width first",
            [[[[[1, 2]]]]],
            [[[[1, 1, 1, 2, 2, 2], [1, 1, 1, 2, 2, 2]]]],
            interpolation_mode=NEAREST,
            scale_size=[3, 2],
        ),
        case(
            "depth stays",
            [[[[[[1, 2]], [[3, 4]]]]]],
            [[[[[1, 1, 2, 2]], [[3, 3, 4, 4]]]]],
            interpolation_mode=NEAREST,
            scale_size=[2, 1],
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x], scale_size=[1, 1], interpolation_mode=NEAREST)

    @pytest.mark.parametrize(
        ("scale", "field"), [([0, 1], "scale_size.0"), ([1, 0], "scale_size.1"), ([1, 2**31], "scale_size.1")]
    )
    def test_scales_keep_the_sizes_within_32_bits(self, scale: list[int], field: str) -> None:
        error = refused("upsample_2d", [RAMP.reshape(1, 1, 2, 2)], scale_size=scale, interpolation_mode=NEAREST)
        assert error.field == field
        assert error.allowed == f"1 to {(2**32 - 1) // 2}"


def gradient(dy: Array, sizes: Any, mode: str, scales: Any, into: Any, out_of: Any, way: str = "") -> Array:
    """Tables of weights, transposed.  `into` and `out_of` are the forward operator's offsets."""
    result = np.vectorize(Fraction, otypes=[object])(dy.astype("float64"))
    for axis, (size, count) in enumerate(zip(sizes, dy.shape, strict=True)):
        table = weights(size, count, Fraction(scales[axis]), Fraction(into), Fraction(out_of), mode, way)
        result = np.moveaxis(np.tensordot(table.T, result, (1, axis)), 0, axis)
    return result.astype("float64").astype(dy.dtype)


DY = (np.arange(1, 1 + 2 * 4 * 8) * 5 % 17).reshape(1, 2, 4, 8).astype("float32")


def gradient_cases(ways: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(
        case(
            f"offsets {into} and {out_of}, {mode} {way}",
            [DY.astype(to)],
            gradient(DY.astype(to), (1, 2, 8, 4), mode, [1, 1, 0.5, 2], into, out_of, way if mode == NEAREST else ""),
            to,
            interpolation_mode=mode,
            scales=[1, 1, 0.5, 2],
            input_pixel_offsets=[out_of] * 4,
            output_pixel_offsets=[into] * 4,
            output_gradient={"sizes": (1, 2, 8, 4)},
            **({"rounding_direction": way} if way else {}),
        )
        for to, mode, (into, out_of), way in itertools.product(FLOATS, (NEAREST, LINEAR), ((0.5, -0.5), (0, 0)), ways)
    )


class GradientTests(OperatorTests):
    ulp: ClassVar = {"directml:software": 4}
    more: ClassVar[dict[str, Any]] = {}

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        lists = {"scales": [1] * rank, "input_pixel_offsets": [0] * rank, "output_pixel_offsets": [0] * rank}
        add_node(graph, self.operator, [x], sizes=[1] * rank, interpolation_mode=LINEAR, **lists, **self.more)

    def test_sizes_must_be_given(self) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != "output_gradient"}
        assert refused(self.operator, self.sample.inputs, **fields).field == "output_gradient.sizes"


class TestResampleGrad(GradientTests):
    operator = "resample_grad"
    levels = "3.0: 4D F32 F16 | 5.1: 1-4D F32 F16"
    cases = gradient_cases(("",))
    sample = cases[0]

    def test_scales_are_those_of_the_sizes_unless_given(self, device: DeviceName) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != "scales"}
        assert_same(run(self.operator, self.sample.inputs, device=device, **fields), self.sample.gives[0], 4)


class TestResampleGrad1(GradientTests):
    operator = "resample_grad1"
    levels = "5.1: 1-4D F32 F16"
    more: ClassVar = {"rounding_direction": "increasing"}
    cases = gradient_cases(("increasing", "decreasing"))
    sample = cases[0]
