"""Pooling of the CPU executor equals the reference's, dimension by dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cpu.near import LAYOUTS, check_exact, check_near, desc, filled, layouts, make, run, seeds

from dmlgraph.base.errors import OperatorError

floats = st.sampled_from(["float32", "float16"])
SIZES = "sizes"
# Windows whose rows are more than 2 apart: the sides of a plane, the taps along each, the stride.
FAR_APART = [((20, 45), 5, 3), ((9, 70), 3, 4), ((31, 33), 7, 3), ((40, 150), 3, 3), ((12, 16), 2, 5)]


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes and fields of a pooling."""
    spatial = draw(st.integers(2, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    return {
        SIZES: (draw(st.integers(1, 2)), draw(st.one_of(st.integers(1, 3), st.integers(4, 40))), *each(1, 6)),
        "window_size": each(1, 4),
        "strides": each(1, 3),
        "dilations": each(1, 2),
        "start_padding": each(0, 3),
        "end_padding": each(0, 3),
    }


def made(name: str, window: dict[str, Any], dtype: str, **more: Any) -> Any:
    fields = {key: each for key, each in window.items() if key != SIZES}
    try:
        return make(name, **{"input": desc(window[SIZES], dtype)}, **fields, **more)
    except OperatorError:  # the window is larger than the tensor
        assume(False)


class TestAveragePooling:
    @given(windows(), floats, st.booleans(), layouts, seeds)
    def test_is_near_the_reference(self, window, dtype, include_padding, layout, seed) -> None:
        operator = made("average_pooling1", window, dtype, include_padding=include_padding)
        check_near(operator, filled(operator, seed, layout), math.prod(window["window_size"]))

    @pytest.mark.parametrize(("sides", "taps", "stride"), FAR_APART)
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("channels", [1, 3, 20])
    def test_windows_far_apart(self, sides, taps, stride, dtype, channels) -> None:
        """The order of a sum does not depend on where the elements lie."""
        window = {SIZES: (2, channels, *sides), "window_size": (taps, taps), "strides": (stride, stride)}
        window |= {"start_padding": (1, 2), "end_padding": (2, 1)}
        operator = made("average_pooling", window, dtype, include_padding=False)
        (packed,) = filled(operator, 3)
        check_near(operator, [packed], taps * taps)
        (expected,) = run(operator, packed)
        for layout in ("transposed", "swapped", "spaced"):
            np.testing.assert_array_equal(run(operator, LAYOUTS[layout](packed))[0], expected)

    @pytest.mark.parametrize(
        ("operator", "fields"), [("average_pooling", {"include_padding": True}), ("lp_pooling", {"p": 1})]
    )
    def test_sums_of_float16_are_wider(self, operator: str, fields: dict[str, Any]) -> None:
        """Also of windows that DirectML adds up in float16."""
        window = {"window_size": (1, 51), "strides": (1, 51), "start_padding": (0, 0), "end_padding": (0, 0)}
        made = make(operator, input=desc((1, 1, 1, 102), "float16"), **window, **fields)
        scale = 51 if operator == "lp_pooling" else 1
        x = np.repeat(np.array([1000, 1200], np.float16), 51).reshape(1, 1, 1, 102)
        expected = np.array([1000, 1200]) * scale
        np.testing.assert_array_equal(run(made, x)[0].ravel(), expected.astype(np.float16))
        np.testing.assert_array_equal(made.evaluate(x)[0].ravel(), expected.astype(np.float16))

    @pytest.mark.parametrize("special", [np.nan, np.inf, 3e38])
    def test_what_is_not_finite_is_as_in_the_reference(self, special) -> None:
        window = {SIZES: (1, 1, 4, 4), "window_size": (2, 3), "strides": (1, 1), "start_padding": (1, 0)}
        operator = made("average_pooling1", window | {"end_padding": (0, 0)}, "float32", include_padding=False)
        (x,) = filled(operator, 1)
        x[0, 0, 1, 1:3] = special
        check_near(operator, [x], 6)


def quantized(
    window: dict[str, Any], dtype: str, scales: int, zeros: tuple[bool, bool], result: str, **more: Any
) -> Any:
    """A quantized pooling with zero points of the input, the output, or both; its scales are one number or C."""
    return made(
        "quantized_linear_average_pooling",
        window,
        dtype,
        input_scale=desc((scales,)),
        input_zero_point=desc((scales,), dtype) if zeros[0] else None,
        output_scale=desc((scales,)),
        output_zero_point=desc((scales,), result) if zeros[1] else None,
        **({} if zeros[1] else {"output": {"dtype": result}}),
        **more,
    )


bytes_ = st.sampled_from(["int8", "uint8"])
pairs = st.tuples(st.booleans(), st.booleans())


class TestQuantizedAveragePooling:
    @given(windows(), bytes_, pairs, bytes_, st.booleans(), st.booleans(), layouts, seeds)
    def test_is_exact(self, window, dtype, zeros, result, by_channel, include_padding, layout, seed) -> None:
        scales = window[SIZES][1] if by_channel else 1
        operator = quantized(window, dtype, scales, zeros, result, include_padding=include_padding)
        check_exact(operator, filled(operator, seed, layout))

    @given(windows(), bytes_, pairs, bytes_, st.floats(2.0**-13, 2.0**13, width=32), layouts, seeds)
    def test_middles_between_steps_are_rounded_as_in_the_reference(
        self, window, dtype, zeros, result, scale, layout, seed
    ) -> None:
        operator = quantized(window, dtype, 1, zeros, result)
        arrays = filled(operator, seed, layout)
        for which in (1, 3):  # means are often halves of steps then, except for rounding errors
            arrays[which] = np.full(operator.input_descs[which].sizes, scale, np.float32)
        check_exact(operator, arrays)

    @pytest.mark.parametrize("zeros", [(True, True), (True, False)])
    @pytest.mark.parametrize("scale", [0.0, -1.0, 1e-45, 3e38, np.inf, np.nan])
    @pytest.mark.parametrize("which", [1, 3])
    def test_extreme_scales(self, which, scale, zeros) -> None:
        window = {SIZES: (1, 3, 5, 4), "window_size": (2, 3), "strides": (2, 1), "start_padding": (1, 2)}
        operator = quantized(window | {"end_padding": (2, 1)}, "uint8", 1, zeros, "int8")
        arrays = filled(operator, 3)
        arrays[which][:] = scale
        check_exact(operator, arrays)

    @pytest.mark.parametrize("zeros", [(True, True), (False, False)])
    @pytest.mark.parametrize("include_padding", [False, True])
    def test_windows_of_nothing_but_padding(self, include_padding, zeros) -> None:
        window = {SIZES: (2, 2, 3, 3), "window_size": (2, 2), "strides": (1, 1), "start_padding": (3, 2)}
        operator = quantized(
            window | {"end_padding": (3, 4)}, "int8", 2, zeros, "uint8", include_padding=include_padding
        )
        check_exact(operator, filled(operator, 4))

    @pytest.mark.parametrize(
        ("sizes", "taps", "stride"),
        [((1, 150, 7, 7), 7, 1), ((2, 3, 70, 60), 60, 1), ((1, 2, 4, 2100), 2, 2), ((1, 5, 61, 47), 3, 2)],
    )
    @pytest.mark.parametrize("threads", [1, 3])
    def test_large_ones(self, sizes, taps, stride, threads) -> None:
        rows = min(taps, sizes[2]) if taps < 60 else sizes[2]
        window = {SIZES: sizes, "window_size": (rows, taps), "strides": (stride, stride)}
        window |= {"start_padding": (0, 0), "end_padding": (0, 0)}
        operator = quantized(window, "uint8", 1, (True, True), "uint8")
        arrays = filled(operator, 5)
        arrays[1][:] = arrays[3][:] = 0.0173
        np.testing.assert_array_equal(run(operator, *arrays, threads=threads)[0], operator.evaluate(*arrays)[0])


class TestLpPooling:
    @given(windows(), floats, st.integers(1, 3), layouts, seeds)
    def test_is_near_the_reference(self, window, dtype, p, layout, seed) -> None:
        operator = made("lp_pooling1", window, dtype, p=p)
        check_near(operator, filled(operator, seed, layout), math.prod(window["window_size"]) + 3)

    @pytest.mark.parametrize("p", [1, 2, 3])
    @pytest.mark.parametrize("special", [np.nan, -np.inf, 3e38])
    def test_what_is_not_finite_is_as_in_the_reference(self, special, p) -> None:
        window = {SIZES: (1, 1, 4, 4), "window_size": (2, 3), "strides": (1, 1), "start_padding": (1, 0)}
        operator = made("lp_pooling", window | {"end_padding": (0, 0)}, "float32", p=p)
        x = np.zeros((1, 1, 4, 4), np.float32)
        x[0, 0, 1, 1:3] = special
        check_exact(operator, [x])


TYPES = ["float32", "float16", "uint32", "uint16", "uint8", "int32", "int16", "int8", "int64", "uint64"]


class TestMaxPooling:
    @given(windows(), st.sampled_from(TYPES), layouts, seeds, st.sampled_from([False, "uint32", "uint64"]))
    def test_is_that_of_the_reference(self, window, dtype, layout, seed, indices) -> None:
        asked = {"dtype": indices} if indices else False
        operator = made("max_pooling2", window, dtype, output_indices=asked)
        arrays = filled(operator, seed, layout)
        check_exact(operator, [arrays[0] // 64])  # few different ones, so that there are equal maxima

    @pytest.mark.parametrize(("sides", "taps", "stride"), FAR_APART)
    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
    @pytest.mark.parametrize("zero", [0.0, -0.0])
    def test_windows_far_apart(self, sides, taps, stride, dtype, zero) -> None:
        """Of zeros of both signs the first one of a window counts."""
        window = {SIZES: (2, 3, *sides), "window_size": (taps, taps), "strides": (stride, stride)}
        window |= {"start_padding": (1, 2), "end_padding": (2, 1)}
        operator = made("max_pooling", window, dtype)
        numbers = [-3, -2, 0, zero, *([np.nan, -np.inf] if dtype != "int8" else [])]
        x = np.random.default_rng(3).choice(numbers, (2, 3, *sides)).astype(dtype)
        (got,), (expected,) = run(operator, x), operator.evaluate(x)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("indices", [False, True])
    def test_nan_is_passed_over_and_infinity_is_the_least_number(self, dtype, indices) -> None:
        window = {SIZES: (1, 2, 3, 4), "window_size": (2, 2), "strides": (1, 1), "start_padding": (2, 0)}
        operator = made("max_pooling2", window | {"end_padding": (0, 1)}, dtype, output_indices=indices)
        specials = [np.nan, -np.inf, np.inf, 0.0, -0.0, np.finfo(dtype).min, 1]
        x = np.random.default_rng(7).choice(specials, (1, 2, 3, 4)).astype(dtype)
        check_exact(operator, [x])

    @pytest.mark.parametrize("dtype", TYPES)
    def test_the_extremes_of_a_type(self, dtype) -> None:
        window = {SIZES: (1, 1, 2, 3), "window_size": (1, 2), "strides": (1, 1), "start_padding": (0, 2)}
        operator = made("max_pooling2", window | {"end_padding": (1, 0)}, dtype, output_indices=True)
        limits = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
        x = np.array([[[[limits.min, limits.min, limits.max], [limits.max, limits.max, limits.min]]]], dtype)
        check_exact(operator, [x])


class TestMaxPoolingGrad:
    @given(windows(), floats, layouts, seeds)
    def test_is_that_of_the_reference(self, window, dtype, layout, seed) -> None:
        operator = gradient("max_pooling_grad", made("max_pooling2", window, dtype), window)
        x, given_ = filled(operator, seed, layout)
        check_exact(operator, [x // 4, given_])  # few different ones, so that there are equal maxima

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_specials(self, dtype) -> None:
        window = {SIZES: (2, 3, 5, 6), "window_size": (2, 3), "strides": (1, 1), "start_padding": (3, 1)}
        window |= {"end_padding": (2, 2)}
        operator = gradient("max_pooling_grad", made("max_pooling2", window, dtype), window)
        random = np.random.default_rng(7)
        specials = [np.nan, -np.inf, np.inf, 0.0, -0.0, np.finfo(dtype).min, np.finfo(dtype).max, 1]
        check_exact(operator, [random.choice(specials, each.sizes).astype(dtype) for each in operator.input_descs])

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("threads", [1, 3])
    @pytest.mark.parametrize(("sizes", "taps"), [((2, 3, 9, 2300), (3, 5)), ((1, 4, 70, 80), (3, 3))])
    def test_windows_add_in_their_order(self, sizes, taps, threads, dtype) -> None:
        window = {SIZES: sizes, "window_size": taps, "strides": (1, 1), "start_padding": (1, 2), "end_padding": (1, 0)}
        operator = gradient("max_pooling_grad", made("max_pooling2", window, dtype), window)
        arrays = filled(operator, 8)
        np.testing.assert_array_equal(run(operator, *arrays, threads=threads)[0], operator.evaluate(*arrays)[0])


class TestAveragePoolingGrad:
    @given(windows(), floats, st.booleans(), layouts, seeds)
    def test_is_that_of_the_reference(self, window, dtype, include_padding, layout, seed) -> None:
        window.pop("dilations")
        forward = made("average_pooling", window, dtype, include_padding=include_padding)
        operator = gradient("average_pooling_grad", forward, window, include_padding=include_padding)
        check_exact(operator, filled(operator, seed, layout))

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("threads", [1, 3])
    @pytest.mark.parametrize("taps", [(3, 3), (30, 29), (2, 1)])
    def test_large_ones(self, taps, threads, dtype) -> None:
        window = {SIZES: (2, 5, 30, 29), "window_size": taps, "strides": (1, 1)}
        window |= {"start_padding": (0, 0), "end_padding": (0, 0)}
        operator = gradient("average_pooling_grad", made("average_pooling", window, dtype), window)
        arrays = filled(operator, 8)
        np.testing.assert_array_equal(run(operator, *arrays, threads=threads)[0], operator.evaluate(*arrays)[0])


def gradient(name: str, forward: Any, window: dict[str, Any], **more: Any) -> Any:
    """The gradient of a pooling."""
    fields = {key: each for key, each in window.items() if key != SIZES} | more
    given_ = desc(forward.output.sizes, str(forward.input.dtype))
    if name == "max_pooling_grad":
        return make(name, input=forward.input, input_gradient=given_, output_gradient=forward.input, **fields)
    return make(name, input_gradient=given_, output_gradient=forward.input, **fields)


def test_large_ones() -> None:
    window = {
        "window_size": (3, 3),
        "strides": (2, 2),
        "start_padding": (1, 1),
        "end_padding": (1, 1),
        "input": desc((1, 64, 112, 112)),
    }
    average = make("average_pooling", include_padding=False, **window)
    check_near(average, filled(average, 9), 9)
    greatest = make("max_pooling1", output_indices=True, **window)
    check_exact(greatest, filled(greatest, 9))
    everything = make(
        "average_pooling",
        input=desc((2, 512, 14, 14)),
        window_size=(14, 14),
        strides=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        include_padding=False,
    )
    check_near(everything, filled(everything, 9), 196)
