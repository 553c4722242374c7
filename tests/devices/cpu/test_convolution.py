"""Convolutions of the CPU executor equal the reference's, in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cpu.near import (
    LAYOUTS,
    check_exact,
    check_near,
    compare,
    compiled,
    desc,
    filled,
    layouts,
    make,
    run,
    seeds,
)

import dmlgraph as dg
from dmlgraph.base.errors import OperatorError
from dmlgraph.base.tensor import DataTypeName


@st.composite
def windows(draw: st.DrawFn, backward: bool = False) -> dict[str, Any]:
    """Sizes and fields of a legal convolution."""
    spatial = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    groups, inner, outer = (draw(st.integers(1, 3)) for _ in range(3))
    batch, taps = draw(st.integers(1, 2)), each(1, 3)
    filters = (groups * inner, outer, *taps) if backward else (groups * outer, inner, *taps)
    return {
        "sizes": (batch, groups * inner, *each(1, 6)),
        "filter_sizes": filters,
        "outputs": groups * outer,
        "strides": each(1, 3),
        "dilations": each(1, 2),
        "start_padding": each(0, 2),
        "end_padding": each(0, 2),
        "group_count": groups,
    }


@st.composite
def wide_windows(draw: st.DrawFn, backward: bool = False) -> dict[str, Any]:
    """Sizes and fields of a legal convolution with rows longer than vectors and padding larger than its window."""
    spatial = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    groups = draw(st.sampled_from([1, 1, 2, 5]))
    inner, outer = draw(st.sampled_from([(1, 1), (1, 2), (3, 20), (8, 8), (40, 9)]))
    longest = {1: 200, 2: 30, 3: 9}[spatial]
    return {
        "sizes": (draw(st.integers(1, 2)), groups * inner, *each(1, longest)),
        "filter_sizes": (groups * inner, outer, *each(1, 5)) if backward else (groups * outer, inner, *each(1, 5)),
        "outputs": groups * outer,
        "strides": each(1, 3),
        "dilations": each(1, 3),
        "start_padding": each(0, 7),
        "end_padding": each(0, 7),
        "group_count": groups,
    }


@st.composite
def few_windows(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes and fields of a convolution whose windows are whole images, or single elements of small ones."""
    spatial = draw(st.integers(1, 3))
    sides = tuple(draw(st.integers(1, 3)) for _ in range(spatial))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inner, outer = draw(st.sampled_from([(2, 1), (5, 3), (16, 40), (330, 17), (9, 70)]))
    taps = sides if draw(st.booleans()) else (1,) * spatial
    return {
        "sizes": (draw(st.integers(1, 7)), groups * inner, *sides),
        "filter_sizes": (groups * outer, inner, *taps),
        "outputs": groups * outer,
        "group_count": groups,
    }


def made(name: str, fields: dict[str, Any], **more: Any) -> Any:
    try:
        return make(name, **{key: each for key, each in fields.items() if key not in NOT_FIELDS}, **more)
    except OperatorError:  # the window is larger than the tensor, or padding leaves nothing
        assume(False)


NOT_FIELDS = ("sizes", "filter_sizes", "outputs")


def convolution(window: tuple[bool, dict[str, Any]], dtype: str, bias: bool, mirrored: bool, **more: Any) -> Any:
    backward, fields = window
    return made(
        "convolution",
        fields,
        input=desc(fields["sizes"], dtype),
        filter=desc(fields["filter_sizes"], dtype),
        bias=desc((fields["outputs"],), dtype) if bias else None,
        direction="backward" if backward else "forward",
        mode="convolution" if mirrored else "cross_correlation",
        **more,
    )


class TestConvolution:
    @given(
        st.booleans().flatmap(lambda back: windows(back).map(lambda fields: (back, fields))),
        st.sampled_from(["float32", "float16"]), st.booleans(), st.booleans(), st.integers(0, 2), layouts, seeds,
    )  # fmt: skip
    def test_is_near_the_reference(self, window, dtype, bias, mirrored, more, layout, seed) -> None:
        _, fields = window
        operator = convolution(window, dtype, bias, mirrored, output_padding=(more,) * len(fields["strides"]))
        terms = math.prod(fields["filter_sizes"][2:]) * fields["sizes"][1] + 1
        check_near(operator, filled(operator, seed, layout), terms)

    @given(
        st.booleans().flatmap(lambda back: wide_windows(back).map(lambda fields: (back, fields))),
        st.sampled_from(["float32", "float16"]), st.booleans(), st.booleans(), st.booleans(), seeds,
    )  # fmt: skip
    def test_wide_ones_with_any_number_of_threads(self, window, dtype, bias, relu, mirrored, seed) -> None:
        _, fields = window
        activation = "activation_relu" if relu else None
        operator = convolution(window, dtype, bias, mirrored, fused_activation=activation)
        arrays = filled(operator, seed)
        results = []
        for threads in (1, 2, 3):
            with compiled(operator, {1: arrays[1]}, threads) as executable:
                given = {f"x{port}": each for port, each in enumerate(arrays) if each is not None and port != 1}
                results.append(executable.run(given)["y0"])
        terms = math.prod(fields["filter_sizes"][2:]) * fields["sizes"][1] // fields["group_count"] + 1
        compare(results[0], operator, arrays, terms)
        for other in results[1:]:
            np.testing.assert_array_equal(other, results[0])

    @given(
        st.integers(1, 40), st.integers(1, 2),
        st.tuples(st.integers(1, 13), st.one_of(st.integers(1, 13), st.integers(14, 70))),
        st.one_of(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.sampled_from([(3, 3), (5, 5), (7, 7)])),
        st.tuples(st.integers(1, 3), st.integers(1, 2)), st.sampled_from([1, 1, 2]), st.booleans(),
        st.sampled_from(["activation_relu", "activation_softplus", None]), layouts, seeds,
    )  # fmt: skip
    def test_by_channel(self, channels, batch, sizes, taps, strides, dilation, bias, activation, layout, seed) -> None:
        assume(all(size + 2 * 2 >= (tap - 1) * dilation + 1 for size, tap in zip(sizes, taps, strict=True)))
        fields: dict[str, Any] = {"outputs": channels, "group_count": channels, "strides": strides}
        fields |= {"dilations": (dilation,) * 2, "sizes": (batch, channels, *sizes)}
        fields |= {"filter_sizes": (channels, 1, *taps)}
        fields |= {"start_padding": (2, 2), "end_padding": (2, 2)}
        operator = convolution((False, fields), "float32", bias, mirrored=False)
        x, weights, addend = filled(operator, seed, layout)
        g = dg.Graph("residual")
        given_x = g.input("x", sizes=x.shape, dtype="float32")
        residual = g.input("r", sizes=operator.output.sizes, dtype="float32")
        weight, number = (
            None if each is None else g.constant(name, each) for name, each in (("w", weights), ("b", addend))
        )
        assert weight is not None
        names = ("group_count", "strides", "dilations", "start_padding", "end_padding")
        y = dg.convolution(given_x, weight, number, **{name: fields[name] for name in names}) + residual
        g.output("y", y if activation is None else getattr(dg, activation)(y))
        arrays = {"x": x, "r": np.random.default_rng(seed).standard_normal(operator.output.sizes, np.float32)}
        results = [g.compile("cpu", threads=threads).run(arrays)["y"] for threads in (1, 3)]
        expected = g.compile("reference").run(arrays)["y"]
        np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(results[1], results[0])

    @given(
        few_windows(), st.sampled_from(["float32", "float16"]), st.booleans(), st.booleans(), st.booleans(), layouts,
        layouts, seeds,
    )  # fmt: skip
    def test_few_windows(self, fields, dtype, bias, mirrored, constant, layout, output_layout, seed) -> None:
        operator = convolution((False, fields), dtype, bias, mirrored, fused_activation="activation_relu")
        arrays = filled(operator, seed, layout)
        constants = {1: np.ascontiguousarray(arrays[1])} if constant else {}
        inputs = {f"x{port}": each for port, each in enumerate(arrays) if each is not None and port not in constants}
        out = LAYOUTS[output_layout](np.empty(operator.output.sizes, dtype))
        if not out.flags.writeable:  # it repeats
            out = np.empty_like(out)
        results = []
        for threads in (1, 3):
            with compiled(operator, constants, threads) as executable:
                executable.run(inputs, {"y0": out})
                results.append(out.copy())
        compare(results[0], operator, arrays, math.prod(fields["filter_sizes"][1:]) + 1)
        np.testing.assert_array_equal(results[1], results[0])

    @pytest.mark.parametrize("groups", [1, 2])
    def test_few_windows_whose_results_do_not_lie_in_a_line(self, groups: int) -> None:
        """The filters are read again, although they are packed."""
        random = np.random.default_rng(0)
        g = dg.Graph("few")
        weights = random.standard_normal((6, 10 // groups, 1, 1), np.float32)
        x = g.input("x", sizes=[6, 10, 2, 2], dtype="float32")
        g.output("y", dg.convolution(x, g.constant("w", weights), group_count=groups))
        arrays = {"x": random.standard_normal((6, 10, 2, 2), np.float32)}
        y = np.zeros((6, 6, 2, 5), np.float32)[..., 1::2]
        g.compile("cpu").run(arrays, {"y": y})
        np.testing.assert_allclose(y, g.compile("reference").run(arrays)["y"], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        ("sizes", "filters", "fields"),
        [
            ((1, 64, 56, 56), (64, 64, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
            ((1, 96, 40, 40), (96, 1, 3, 3), {"group_count": 96, "strides": (2, 2)}),
            ((2, 64, 30, 30), (32, 64, 1, 1), {}),
            ((1, 32, 28, 28), (32, 16, 4, 4), {"direction": "backward", "strides": (2, 2)}),
            ((1, 200, 7, 7), (100, 200, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
            ((1, 3, 60, 60), (40, 3, 7, 7), {"strides": (2, 2), "start_padding": (9, 9), "end_padding": (9, 9)}),
            ((1, 4, 3000), (20, 4, 9), {"dilations": (100,), "start_padding": (400,)}),
            ((1, 1, 2000), (3, 1, 1100), {}),
            ((1, 8, 6, 9, 20), (16, 4, 3, 3, 3), {"group_count": 2, "start_padding": (1, 1, 1)}),
            ((2, 3, 400), (3, 1, 31), {"group_count": 3, "start_padding": (15,), "end_padding": (15,)}),
            ((1, 96, 40, 40), (96, 1, 5, 5), {"group_count": 96, "start_padding": (2, 2), "end_padding": (2, 2)}),
        ],
        ids=[
            "3x3",
            "by channel",
            "1x1",
            "transposed",
            "small planes",
            "padding",
            "a long row",
            "many taps",
            "groups in 3-D",
            "1-D by channel",
            "5x5",
        ],
    )
    def test_large_ones(self, sizes, filters, fields) -> None:
        operator = make("convolution", input=desc(sizes), filter=desc(filters), **fields)
        check_near(operator, filled(operator, 4), math.prod(filters[1:]))

    @pytest.mark.parametrize("constant", [False, True])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize(
        ("sizes", "filters", "fields"),
        [
            ((1, 90, 50, 40), (90, 3, 4, 4), {"strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)}),
            ((2, 400, 9, 11), (400, 2, 3, 3), {}),
            ((2, 6, 10, 12), (6, 9, 2, 2), {"strides": (2, 2), "group_count": 2}),
            ((1, 5, 20, 35), (5, 17, 3, 3), {"strides": (3, 3), "output_padding": (1, 2)}),
            ((1, 64, 700), (64, 4, 16), {"strides": (8,), "start_padding": (4,), "end_padding": (4,)}),
            ((1, 300, 900), (300, 5, 8), {"strides": (4,), "start_padding": (2,)}),
            ((1, 7, 9, 9), (7, 5, 5, 5), {"strides": (5, 5), "dilations": (1, 2), "start_padding": (3, 2)}),
            ((1, 7, 9, 21), (7, 5, 9, 9), {"strides": (6, 7), "start_padding": (20, 30)}),
            ((1, 8, 6, 7, 9), (8, 3, 2, 3, 4), {"strides": (2, 2, 2), "dilations": (1, 2, 1)}),
            ((1, 300, 2, 30), (300, 2, 2, 3), {"strides": (1, 2), "start_padding": (1, 0), "end_padding": (1, 0)}),
            ((1, 24, 5), (24, 2, 70), {}),
        ],
        ids=[
            "bands",
            "few outputs",
            "side by side",
            "every third",
            "every eighth",
            "bands of a row",
            "every fifth",
            "far apart",
            "3-D",
            "one row",
            "many taps",
        ],
    )
    def test_backward_ones_with_any_number_of_threads(self, sizes, filters, fields, dtype, constant) -> None:
        for mirrored in (False, True):
            operator = make(
                "convolution",
                input=desc(sizes, dtype),
                filter=desc(filters, dtype),
                bias=desc((filters[1] * fields.get("group_count", 1),), dtype),
                direction="backward",
                mode="convolution" if mirrored else "cross_correlation",
                fused_activation="activation_relu",
                **fields,
            )
            arrays = filled(operator, 9)
            constants = {1: arrays[1]} if constant else {}
            inputs = {
                f"x{port}": each for port, each in enumerate(arrays) if each is not None and port not in constants
            }
            results = []
            for threads in (1, 2, 3):
                with compiled(operator, constants, threads) as executable:
                    results.append(executable.run(inputs)["y0"])
            compare(results[0], operator, arrays, math.prod(filters[2:]) * filters[0] + 1)
            for other in results[1:]:
                np.testing.assert_array_equal(other, results[0])

    @pytest.mark.parametrize("special", [np.nan, np.inf])
    def test_weights_beyond_the_border_of_backward_ones_do_not_count(self, special) -> None:
        operator = make(
            "convolution", input=desc((1, 2, 5, 5)), filter=desc((2, 3, 4, 4)), direction="backward", strides=(2, 2)
        )
        x, weights, _ = filled(operator, 5)
        weights[1, 1, 3, 0] = special
        (result,) = run(operator, x, weights, None)
        assert np.isfinite(result[0, 1, :3]).all()
        assert not np.isfinite(result[0, 1, 3::2, :9:2]).any()
        check_near(operator, [x, weights, None], 2 * 16)

    @pytest.mark.parametrize("special", [np.nan, np.inf, 3e38])
    def test_what_is_not_finite_is_as_in_the_reference(self, special) -> None:
        operator = make(
            "convolution", input=desc((1, 2, 5, 5)), filter=desc((3, 2, 3, 3)), fused_activation="activation_sigmoid"
        )
        x, weights, bias = filled(operator, 5)
        x[0, 1, 2, 2] = special
        weights[0, 1, 1, 1] = 7
        # Where a sum is finite, its sigmoid is as near as the sum of the terms' magnitudes allows.
        magnitudes = np.where(np.isfinite(operator.evaluate(x, weights, bias)[0]), 100, 0)
        check_near(operator, [x, weights, bias], 2 * 9 + 1 + 8, magnitudes)

    def test_the_padding_of_the_output_is_activated_too(self) -> None:
        operator = make(
            "convolution",
            input=desc((1, 1, 2)),
            filter=desc((1, 1, 1)),
            output_padding=(1,),
            fused_activation="activation_sigmoid",
        )
        (result,) = run(operator, np.full((1, 1, 2), 200, np.float32), np.ones((1, 1, 1), np.float32), None)
        assert result.tolist() == [[[1, 1, 0.5]]]


class TestQuantized:
    @given(windows(), st.sampled_from(["uint8", "int8"]), st.booleans(), layouts, seeds)
    def test_sums_of_integers_are_exact(self, fields, dtype, zeros, layout, seed) -> None:
        assume(len(fields["strides"]) < 3)
        operator = made(
            "convolution_integer",
            fields,
            input=desc(fields["sizes"], dtype),
            input_zero_point=desc((1,), dtype) if zeros else None,
            filter=desc(fields["filter_sizes"], "int8"),
            filter_zero_point=desc((fields["outputs"],), "int8") if zeros else None,
        )
        check_exact(operator, filled(operator, seed, layout))

    def test_sums_that_float32_cannot_hold_are_exact(self) -> None:
        operator = make("convolution_integer", input=desc((1, 40, 3, 3), "uint8"), filter=desc((1, 40, 3, 3), "uint8"))
        x, weights = (np.full((1, 40, 3, 3), 255, np.uint8) for _ in range(2))
        weights[0, 0, 0, 0] = 254
        assert run(operator, x, None, weights, None)[0].item() == 255 * 255 * 360 - 255

    @given(windows(), st.booleans(), st.booleans(), layouts, seeds)
    def test_quantized_is_exact(self, fields, zeros, bias, layout, seed) -> None:
        assume(len(fields["strides"]) < 3)
        operator = made(
            "quantized_linear_convolution",
            fields,
            input=desc(fields["sizes"], "uint8"),
            input_scale=desc((1,)),
            input_zero_point=desc((1,), "uint8") if zeros else None,
            filter=desc(fields["filter_sizes"], "int8"),
            filter_scale=desc((fields["outputs"],)),
            filter_zero_point=desc((fields["outputs"],), "int8") if zeros else None,
            bias=desc((fields["outputs"],), "int32") if bias else None,
            output_scale=desc((1,)),
            output_zero_point=desc((1,), "int8") if zeros else None,
        )
        arrays = filled(operator, seed, layout)
        arrays[-2] = np.full_like(arrays[-2], 300)  # so that most results are within the range
        check_exact(operator, arrays)


@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("dilation", [5, 12, 36])
@pytest.mark.parametrize("constant", [True, False])
def test_windows_that_are_dilated_beyond_a_picture(
    mode: Any, dtype: DataTypeName, dilation: int, constant: bool
) -> None:
    """Taps that meet padding alone are left out of constant filters."""
    random = np.random.default_rng(dilation)
    arrays = {"x": random.integers(-4, 4, (2, 6, 8, 7)), "w": random.integers(-4, 4, (5, 6, 3, 4))}
    arrays = {name: each.astype(dtype) for name, each in arrays.items()}
    g = dg.Graph("dilated")
    x = g.input("x", sizes=arrays["x"].shape, dtype=dtype)
    w = g.constant("w", arrays["w"]) if constant else g.input("w", sizes=arrays["w"].shape, dtype=dtype)
    fields: dict[str, Any] = {"dilations": (dilation,) * 2}
    fields |= {"start_padding": (dilation, dilation + 3), "end_padding": (dilation, 2 * dilation)}
    g.output("y", dg.convolution(x, w, mode=mode, **fields))
    given = {"x": arrays["x"]} if constant else arrays
    got, expected = (g.compile(device).run(given)["y"] for device in ("cpu", "reference"))
    np.testing.assert_array_equal(got, expected)
