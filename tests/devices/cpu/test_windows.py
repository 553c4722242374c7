"""Native pooling, local response normalization and resampling: any windows, layouts and special numbers.

The results are those of `evaluate`, with the same bits for any number of threads and any layout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.cpu.test_products import bits as float_bits
from devices.cpu.test_products import with_specials
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cpu.near import LAYOUTS, compare, compiled, desc, filled, layouts, make, run, seeds
from support.cpu.plans import kinds

from dmlgraph._native import cpu_kernels
from dmlgraph.base.errors import OperatorError

floats = st.sampled_from(["float32", "float32", "float16"])
MAXIMA = ["float32", "float32", "float16", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def bits(x: Any) -> bytes:
    """The bytes of an array, in which all NaN are the same."""
    return float_bits(x) if x.dtype.kind == "f" else x.tobytes()


def same_bits(operator: Any, arrays: list[Any]) -> tuple[Any, ...]:
    """The results, which are native and must not depend on threads, or on the layouts of the arrays."""
    expected = run(operator, *arrays, threads=1)
    packed = [np.ascontiguousarray(each) for each in arrays]
    outs = {f"y{port}": LAYOUTS["spaced"](np.zeros_like(each)) for port, each in enumerate(expected)}
    with compiled(operator, threads=2) as executable:
        assert "python" not in kinds(executable)
        others = executable.run({f"x{port}": each for port, each in enumerate(packed)})
        executable.run({f"x{port}": each for port, each in enumerate(arrays)}, outs)
    for each, other, spaced in zip(expected, others.values(), outs.values(), strict=True):
        assert bits(other) == bits(each), "threads or layouts change the result"
        assert bits(spaced) == bits(each), "the output's layout changes the result"
    return expected


@st.composite
def windows(draw: st.DrawFn, dtypes: Any) -> dict[str, Any]:
    """Fields of a pooling: small windows, those of networks, and the whole tensor."""
    spatial = draw(st.integers(2, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    most = 40 if spatial == 2 else 9
    sizes = each(1, most)
    window = draw(st.sampled_from([(2,) * spatial, (3,) * spatial, each(1, 5), sizes]))
    return {
        "input": desc((draw(st.integers(1, 2)), draw(st.integers(1, 5)), *sizes), draw(dtypes)),
        "window_size": window,
        "strides": draw(st.sampled_from([(1,) * spatial, (2,) * spatial, each(1, 4)])),
        "dilations": draw(st.sampled_from([(1,) * spatial, each(1, 3)])),
        "start_padding": draw(st.sampled_from([(0,) * spatial, each(0, 3)])),
        "end_padding": draw(st.sampled_from([(0,) * spatial, each(0, 3)])),
    }


def made(name: str, **fields: Any) -> Any:
    try:
        return make(name, **fields)
    except OperatorError:  # the window is larger than the tensor
        assume(False)


class TestPooling:
    @given(
        windows(st.sampled_from(MAXIMA)), layouts, seeds, st.booleans(), st.sampled_from([False, "uint32", "uint64"])
    )
    def test_maxima(self, fields, layout, seed, special, indices) -> None:
        operator = made("max_pooling2", **fields, output_indices={"dtype": indices} if indices else False)
        (x,) = filled(operator, seed, layout)
        x = x // 64 if seed % 2 else x  # few different ones, so that there are equal maxima
        if special and x.dtype.kind == "f":
            (x,) = with_specials([x], seed)
        got = same_bits(operator, [x])
        for one, expected in zip(got, operator.evaluate(x), strict=True):
            assert bits(one) == bits(expected), "of equal maxima, also zeros of either sign, the first counts"

    @given(windows(floats), layouts, seeds, st.booleans(), st.booleans())
    def test_averages(self, fields, layout, seed, special, include_padding) -> None:
        operator = made("average_pooling1", **fields, include_padding=include_padding)
        (x,) = filled(operator, seed, layout)
        (x,) = with_specials([x], seed) if special else (x,)
        # The sum is float16 before it is divided.
        (got,) = same_bits(operator, [x])
        compare(got, operator, [x], operator.window.tap_count, roundings=2)

    @given(windows(floats), layouts, seeds, st.booleans(), st.sampled_from([1, 2, 3, 7]))
    def test_norms(self, fields, layout, seed, special, p) -> None:
        operator = made("lp_pooling1", **fields, p=p)
        (x,) = filled(operator, seed, layout)
        (x,) = with_specials([x], seed) if special else (x,)
        (got,) = same_bits(operator, [x])
        compare(got, operator, [x], operator.window.tap_count + 3)

    @pytest.mark.parametrize("value", [0.0, -0.0])
    @pytest.mark.parametrize("sizes", [(1, 1, 3, 3), (1, 1, 20, 40)])
    def test_a_sum_of_negative_zeros_is_that_of_the_reference(self, value, sizes) -> None:
        operator = make("average_pooling", input=desc(sizes), window_size=(3, 3), strides=(1, 1), include_padding=False)
        x = np.full(sizes, value, np.float32)
        assert bits(*run(operator, x)) == bits(*operator.evaluate(x))

    @pytest.mark.parametrize("width", [1023, 1024, 1025, 2500])
    def test_rows_in_several_bands(self, width) -> None:
        operator = make("max_pooling1", input=desc((1, 2, 40, width)), window_size=(3, 3), output_indices=True)
        (x,) = filled(operator, 1)
        for got, expected in zip(same_bits(operator, [x]), operator.evaluate(x), strict=True):
            np.testing.assert_array_equal(got, expected)

    @given(seeds, st.sampled_from(["uint32", "int32"]))
    def test_unpooling(self, seed, dtype) -> None:
        operator = make(
            "max_unpooling",
            input=desc((1, 2, 3, 4)),
            indices=desc((1, 2, 3, 4), dtype),
            output={"sizes": (1, 2, 6, 8)},
        )
        x, _ = filled(operator, seed)
        indices = np.random.default_rng(seed).integers(0, 120, x.shape).astype(dtype)  # some beyond the end
        np.testing.assert_array_equal(run(operator, x, indices)[0], operator.evaluate(x, indices)[0])
        with compiled(operator) as executable:
            assert "python" not in kinds(executable)


class TestLocalResponse:
    @given(
        st.tuples(st.integers(1, 2), st.integers(1, 12), st.integers(1, 9), st.integers(1, 9)), floats, layouts, seeds,
        st.booleans(), st.integers(1, 14), st.sampled_from([0.75, 0.5, 1.0, 0.6, -2.0]), st.booleans(),
    )  # fmt: skip
    def test_is_near_the_reference(self, sizes, dtype, layout, seed, cross, size, beta, special) -> None:
        fields = {"cross_channel": cross, "local_size": size, "alpha": 0.5, "beta": beta, "bias": 1.5}
        operator = make("local_response_normalization", input=desc(sizes, dtype), **fields)
        (x,) = filled(operator, seed, layout)
        (x,) = with_specials([x], seed) if special else (x,)
        (got,) = same_bits(operator, [x])
        compare(got, operator, [x], size * size + 8, np.abs(operator.evaluate(x)[0]))

    @pytest.mark.parametrize(
        ("alpha", "bias", "beta", "native"),
        [(1e-4, 0, 0.75, True), (0, 0, 0.75, True), (-1, 1, 0.75, False), (1, 0, 0, False)],
    )
    def test_what_is_not_positive(self, alpha, bias, beta, native) -> None:
        fields = {"cross_channel": True, "local_size": 3, "alpha": alpha, "beta": beta, "bias": bias}
        operator = make("local_response_normalization", input=desc((1, 3, 1, 2)), **fields)
        x = np.array([0, -0.0, 0, 2, 0, 3], np.float32).reshape(1, 3, 1, 2)
        (got,) = run(operator, x)
        compare(got, operator, [x], 12, np.abs(operator.evaluate(x)[0]))
        with compiled(operator) as executable:
            assert ("python" in kinds(executable)) is not native

    @given(
        st.tuples(st.integers(1, 2), st.integers(1, 12), st.integers(1, 9), st.integers(1, 9)), floats, layouts, seeds,
        st.booleans(), st.integers(1, 14), st.sampled_from([0.75, 0.5, 1.0, 0.6, -2.0]),
    )  # fmt: skip
    def test_the_gradient_is_near_the_reference(self, sizes, dtype, layout, seed, cross, size, beta) -> None:
        fields = {"cross_channel": cross, "local_size": size, "alpha": 0.5, "beta": beta, "bias": 1.5}
        x = desc(sizes, dtype)
        operator = make("local_response_normalization_grad", input=x, input_gradient=x, **fields)
        arrays = filled(operator, seed, layout)
        number, gradient = (np.abs(each.astype(np.float64)) for each in arrays)
        bases = operator.bases(number, operator.input.dtype)
        sums = operator.local_sums(gradient * number * bases ** (-beta - 1))
        magnitudes = gradient * bases**-beta + np.abs(2 * operator.alpha_share * beta) * number * sums
        (got,) = same_bits(operator, arrays)
        compare(got, operator, arrays, 3 * size * size + 32, magnitudes)


class TestFold:
    @given(st.data(), st.sampled_from(["float32", "float16", "float64", "int8", "uint16", "int32", "uint64"]), seeds)
    def test_equals_the_reference(self, data, dtype, seed) -> None:
        """Windows with gaps and padding, in one to three dimensions; all types have the same bits."""
        count = data.draw(st.integers(1, 3))
        lists = {
            name: tuple(data.draw(st.lists(st.integers(*bounds), min_size=count, max_size=count)))
            for name, bounds in {
                "window_sizes": (1, 3), "strides": (1, 3), "dilations": (1, 2), "start_padding": (0, 2),
                "end_padding": (0, 2), "sizes": (1, 7),
            }.items()
        }  # fmt: skip
        sizes = lists.pop("sizes")
        blocks = [
            (start + size + end - dilation * (window - 1) - 1) // stride + 1
            for window, stride, dilation, start, end, size in zip(*lists.values(), sizes, strict=True)
        ]
        assume(all(each > 0 for each in blocks))
        batch, channels = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
        given_sizes = (batch, channels * int(np.prod(lists["window_sizes"])), int(np.prod(blocks)))
        operator = make("fold", input=desc(given_sizes, dtype), output={"sizes": (batch, channels, *sizes)}, **lists)
        arrays = filled(operator, seed, data.draw(layouts))
        (got,) = same_bits(operator, arrays)
        np.testing.assert_array_equal(got, operator.evaluate(*arrays)[0])


@st.composite
def resamplings(draw: st.DrawFn) -> Any:
    rank = draw(st.integers(1, 4))
    before = tuple(draw(st.integers(1, 8 if d + 1 < rank else 40)) for d in range(rank))
    after = tuple(draw(st.sampled_from([size, 2 * size, max(1, size // 3), size + 3])) for size in before)
    fields: dict[str, Any] = {"interpolation_mode": draw(st.sampled_from(["linear", "nearest_neighbor"]))}
    name = draw(st.sampled_from(["resample1", "resample2", "resample3"]))
    if name != "resample1":
        fields["rounding_direction"] = draw(st.sampled_from(["increasing", "decreasing"]))
    if name == "resample3":
        fields["antialiased"] = draw(st.booleans())
    if draw(st.booleans()):
        fields["input_pixel_offsets"] = tuple(draw(st.sampled_from([0.5, 0.0, -0.5, 1.5])) for _ in before)
    dtype = draw(st.sampled_from(["float32", "float32", "float16", "uint8", "int8"]))
    return make(name, input=desc(before, dtype), output={"sizes": after}, **fields)


class TestResampling:
    @given(resamplings(), layouts, seeds, st.booleans())
    def test_is_near_the_reference(self, operator, layout, seed, special) -> None:
        (x,) = filled(operator, seed, layout)
        is_float = x.dtype.kind == "f"
        (x,) = with_specials([x], seed) if special and is_float else (x,)
        (got,) = same_bits(operator, [x])
        if not is_float or operator.interpolation_mode.name == "NEAREST_NEIGHBOR":
            assert bits(got) == bits(operator.evaluate(x)[0])
            return
        # Weights may extrapolate, by no more than two elements in each dimension.
        magnitude = np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0).astype(np.float64) * 5.0**x.ndim
        compare(got, operator, [x], 10, np.full(got.shape, magnitude))

    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    def test_upsampling(self, mode) -> None:
        operator = make("upsample_2d", input=desc((2, 3, 5, 30)), scale_size=(3, 2), interpolation_mode=mode)
        (x,) = filled(operator, 1)
        (got,) = same_bits(operator, [x])
        compare(got, operator, [x], 8, np.full(operator.output.sizes, np.abs(x).max()))


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_each_instruction_set(level) -> None:
    """The comparisons above, of networks' windows, at every level that the processor has."""
    code = """
import numpy as np
from support.cpu.near import compare, desc, filled, make, run
for dtype in ("float32", "float16"):
    for size, stride, start in ((3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)):
        fields = {"window_size": (size,) * 2, "strides": (stride,) * 2, "start_padding": (start,) * 2}
        for sizes in ((1, 3, 28, 29), (2, 2, 9, 70)):
            greatest = make("max_pooling1", input=desc(sizes, dtype), output_indices=True, **fields)
            arrays = filled(greatest, size)
            for got, expected in zip(run(greatest, *arrays), greatest.evaluate(*arrays), strict=True):
                np.testing.assert_array_equal(got, expected)
            mean = make("average_pooling", input=desc(sizes, dtype), include_padding=False, **fields)
            compare(*run(mean, *arrays), mean, arrays, size * size)
    larger = make("resample", input=desc((1, 2, 9, 30), dtype), scales=(1, 1, 2, 1.7), interpolation_mode="linear")
    arrays = filled(larger, 3)
    compare(*run(larger, *arrays), larger, arrays, 8, np.full(larger.output.sizes, np.abs(arrays[0]).max()))
"""
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
