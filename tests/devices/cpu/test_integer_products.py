"""Native products of quantized tensors: exact, for any number of threads, whether or not operands are constants."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cpu.near import LAYOUTS, check_exact, check_near, compiled, desc, filled, layouts, make, run, seeds
from support.cpu.plans import kinds

from dmlgraph._native import cpu_kernels
from dmlgraph.base.errors import OperatorError

Array = np.ndarray[Any, Any]

sides = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 70, 130]))
depths = st.one_of(st.integers(1, 9), st.sampled_from([64, 639, 640, 641, 1300]))
dtypes = st.sampled_from(["uint8", "int8"])
parameters = st.sampled_from(["absent", "one", "each"])


def check(operator: Any, arrays: Sequence[Array | None]) -> None:
    """Checks that the result is the reference's, whatever runs it and whatever is constant."""
    (expected,) = operator.evaluate(*arrays)
    packed: list[Any] = [each if each is None else np.ascontiguousarray(each) for each in arrays]
    for threads, given_arrays in ((1, arrays), (2, packed), (5, arrays)):
        np.testing.assert_array_equal(run(operator, *given_arrays, threads=threads)[0], expected)
    fields = operator.input_fields
    operands = [port for port, field in enumerate(fields) if field in ("a", "b", "input", "filter")]
    all_others = [port for port, each in enumerate(arrays) if each is not None and port != operands[0]]
    for constants in ([operands[0]], [operands[1]], all_others):
        fixed = {port: packed[port] for port in constants}
        inputs = {f"x{port}": each for port, each in enumerate(arrays) if each is not None and port not in fixed}
        with compiled(operator, fixed, threads=2) as executable:
            assert "python" not in kinds(executable)
            out = LAYOUTS["spaced"](np.zeros(expected.shape, expected.dtype))
            executable.run(inputs, {"y0": out})
        np.testing.assert_array_equal(out, expected)


def parameter(kind: str, count: int, dtype: str) -> Any:
    return None if kind == "absent" else desc((1 if kind == "one" else count,), dtype)


def scales(operator: Any, arrays: list[Any], seed: int) -> None:
    """Gives the scales numbers with which most results are within the range, and some are exact halves."""
    random = np.random.default_rng(seed)
    for port, field in enumerate(operator.input_fields):
        array = arrays[port]
        if field.endswith("scale") and array is not None:
            numbers = random.choice([0.5, 0.25, 0.3], array.shape)
            if field == "output_scale":
                numbers = numbers * 2 ** int(np.log2(operator.input_descs[0].sizes[-1] + 1) + 8)
            array[...] = numbers


def extreme(random: np.random.Generator, sizes: tuple[int, ...], dtype: str) -> Array:
    """Random integers, all in the range or all at its ends and about its middle."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, (info.min + info.max + 1) // 2, info.max - 1, info.max]
    if random.integers(2):
        return random.choice(ends, sizes).astype(dtype)
    return random.integers(info.min, info.max + 1, sizes).astype(dtype)


class TestMatrices:
    @given(
        sides,
        depths,
        sides,
        dtypes,
        dtypes,
        st.sampled_from([(), (3,), (2, 3)]),
        parameters,
        parameters,
        layouts,
        seeds,
    )
    def test_sums(self, m, k, n, a_type, b_type, batch, a_zero, b_zero, layout, seed) -> None:
        operator = make(
            "matrix_multiply_integer",
            a=desc((*batch, m, k), a_type),
            a_zero_point=parameter(a_zero, m, a_type),
            b=desc((*batch, k, n), b_type),
            b_zero_point=parameter(b_zero, n, b_type),
        )
        check(operator, filled(operator, seed, layout))

    @given(sides, depths, sides, dtypes, dtypes, dtypes, parameters, parameters, parameters, layouts, seeds)
    def test_quantized(self, m, k, n, a_type, b_type, y_type, a_zero, b_zero, zero, layout, seed) -> None:
        operator = make(
            "quantized_linear_matrix_multiply",
            a=desc((m, k), a_type),
            a_scale=desc((1 if zero == "one" else m,)),
            a_zero_point=parameter(a_zero, m, a_type),
            b=desc((k, n), b_type),
            b_scale=desc((1 if zero == "each" else n,)),
            b_zero_point=parameter(b_zero, n, b_type),
            output_scale=desc((1 if zero == "absent" else m,)),
            output_zero_point=parameter(zero, m, y_type),
        )
        arrays = filled(operator, seed, layout)
        arrays = [each if each is None else each.copy() for each in arrays]
        scales(operator, arrays, seed)
        check(operator, arrays)

    @pytest.mark.parametrize("dtype", ["uint8", "int8"])
    @pytest.mark.parametrize("inner", [33025, 33026, 70000])
    def test_extreme_sums(self, dtype, inner) -> None:
        a, b, zero = (desc(sizes, dtype) for sizes in ((1, inner), (inner, 2), (1,)))
        low, high = a.dtype.range
        arrays = [np.full(each.sizes, high, each.dtype.numpy) for each in (a, b)]
        zeros = np.full(1, low, a.dtype.numpy)
        operator = make("matrix_multiply_integer", a=a, a_zero_point=zero, b=b, b_zero_point=zero)
        check(operator, [arrays[0], zeros.reshape(1, 1), arrays[1], zeros.reshape(1, 1)])
        one = np.full((1, 1), 1, np.float32)
        fields = {
            "a": a,
            "a_scale": desc((1,)),
            "a_zero_point": zero,
            "b": b,
            "b_scale": desc((1,)),
            "b_zero_point": zero,
        }
        operator = make("quantized_linear_matrix_multiply", **fields, output_scale=desc((1,)))
        scale = np.full((1, 1), 2**24, np.float32)
        check_exact(operator, [arrays[0], one, zeros.reshape(1, 1), arrays[1], one, zeros.reshape(1, 1), scale, None])

    @given(st.integers(1, 40), st.integers(1, 600), st.integers(1, 70), dtypes, dtypes, seeds)
    def test_extreme_numbers_and_zero_points(self, m, k, n, a_type, b_type, seed) -> None:
        random = np.random.default_rng(seed)
        a, b = extreme(random, (m, k), a_type), extreme(random, (k, n), b_type)
        a_zero, b_zero = extreme(random, (m, 1), a_type), extreme(random, (1, n), b_type)
        operator = make(
            "matrix_multiply_integer",
            a=desc((m, k), a_type),
            a_zero_point=desc((m,), a_type),
            b=desc((k, n), b_type),
            b_zero_point=desc((n,), b_type),
        )
        sums = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
        for threads in (1, 3):
            np.testing.assert_array_equal(run(operator, a, a_zero, b, b_zero, threads=threads)[0], sums)

    @given(sides, depths, sides, st.sampled_from(["uint8", "int16", "uint32"]), st.booleans(), st.booleans(), seeds)
    def test_to_float(self, m, k, n, dtype, bias, half, seed) -> None:
        number = "float16" if half and dtype == "uint8" else "float32"
        operator = make(
            "matrix_multiply_integer_to_float",
            a=desc((m, k), dtype),
            a_scale=desc((m,), number),
            a_zero_point=desc((m,), dtype),
            b=desc((k, n), dtype),
            b_scale=desc((1,), number),
            bias=desc((n,), number) if bias else None,
        )
        arrays: list[Any] = [each if each is None else each.copy() for each in filled(operator, seed)]
        for port in (1, 4):
            arrays[port] *= 0.01
        # The magnitudes: `evaluate` of the operands' distances from their zero points.
        centred = np.abs(arrays[0].astype(np.float64) - arrays[2]) * np.abs(arrays[1].astype(np.float64))
        magnitudes = centred @ np.abs(arrays[3].astype(np.float64) * arrays[4]) + (np.abs(arrays[6]) if bias else 0)
        check_near(operator, arrays, k + 1, magnitudes)
        with compiled(operator) as executable:
            assert "python" not in kinds(executable)


@st.composite
def convolutions(draw: st.DrawFn, quantized: bool) -> tuple[str, dict[str, Any]]:
    spatial = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    groups, inner, outer = draw(st.sampled_from([(1, 3, 20), (1, 40, 7), (2, 5, 3), (7, 1, 1), (5, 1, 2), (1, 1, 33)]))
    taps = draw(st.sampled_from([(1,) * spatial, (3,) * spatial, each(1, 4)]))
    x_type, w_type, y_type = (draw(dtypes) for _ in range(3))
    fields = {
        "input": desc((draw(st.integers(1, 3)), groups * inner, *each(1, {1: 90, 2: 14}[spatial])), x_type),
        "input_zero_point": parameter(draw(st.sampled_from(["absent", "one"])), 1, x_type),
        "filter": desc((groups * outer, inner, *taps), w_type),
        "filter_zero_point": parameter(draw(parameters), groups * outer, w_type),
        "strides": draw(st.sampled_from([(1,) * spatial, (2,) * spatial, each(1, 5)])),
        "dilations": draw(st.sampled_from([(1,) * spatial, each(1, 3)])),
        "start_padding": each(0, 3),
        "end_padding": each(0, 3),
        "group_count": groups,
    }
    if not quantized:
        return "convolution_integer", fields
    return "quantized_linear_convolution", fields | {
        "input_scale": desc((1,)),
        "filter_scale": parameter(draw(st.sampled_from(["one", "each"])), groups * outer, "float32"),
        "bias": desc((groups * outer,), "int32") if draw(st.booleans()) else None,
        "output_scale": desc((1,)),
        "output_zero_point": parameter(draw(st.sampled_from(["absent", "one"])), 1, y_type),
    }


class TestConvolutions:
    @given(st.booleans().flatmap(convolutions), layouts, seeds)
    def test_any(self, made, layout, seed) -> None:
        name, fields = made
        try:
            operator = make(name, **fields)
        except OperatorError:  # the window is larger than the tensor
            assume(False)
        arrays = [each if each is None else each.copy() for each in filled(operator, seed, layout)]
        scales(operator, arrays, seed)
        check(operator, arrays)

    @given(
        st.sampled_from([(1, 1, 3), (1, 7, 5), (3, 2, 2), (6, 1, 1), (2, 1, 4)]),
        st.tuples(st.integers(1, 12), st.integers(1, 40)),
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        st.integers(1, 3),
        st.integers(1, 2),
        st.integers(0, 3),
        dtypes,
        dtypes,
        seeds,
    )
    def test_extreme_numbers_and_zero_points(
        self, channels, sizes, taps, stride, dilation, padding, x_type, w_type, seed
    ) -> None:
        groups, inner, outer = channels
        random = np.random.default_rng(seed)
        reach = [(each - 1) * dilation + 1 for each in taps]
        assume(all(size + 2 * padding >= each for size, each in zip(sizes, reach, strict=True)))
        x = extreme(random, (2, groups * inner, *sizes), x_type)
        weights = extreme(random, (groups * outer, inner, *taps), w_type)
        x_zero = extreme(random, (1, 1, 1, 1), x_type)
        zeros = extreme(random, (1, groups * outer, 1, 1), w_type)
        operator = make(
            "convolution_integer",
            input=desc(x.shape, x_type),
            input_zero_point=desc((1,), x_type),
            filter=desc(weights.shape, w_type),
            filter_zero_point=desc((groups * outer,), w_type),
            strides=(stride, stride),
            dilations=(dilation, dilation),
            start_padding=(padding, padding),
            end_padding=(padding, padding),
            group_count=groups,
        )
        around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        padded = np.pad(x.astype(np.int64) - x_zero, around)
        centred = weights.astype(np.int64) - zeros.reshape(-1, 1, 1, 1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
        windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
        windows = windows.reshape(2, groups, inner, *windows.shape[2:])
        sums = np.einsum("ngchwyx,gocyx->ngohw", windows, centred.reshape(groups, outer, inner, *taps))
        sums = sums.reshape(2, groups * outer, *sums.shape[3:])
        for threads in (1, 3):
            np.testing.assert_array_equal(run(operator, x, x_zero, weights, zeros, threads=threads)[0], sums)

    def test_a_bias_beyond_int32_is_added_exactly(self) -> None:
        fields = {"input": desc((1, 1, 1), "uint8"), "filter": desc((2, 1, 1), "uint8"), "bias": desc((2,), "int32")}
        one = desc((1,))
        operator = make("quantized_linear_convolution", **fields, input_scale=one, filter_scale=one, output_scale=one)
        x, weights = np.full((1, 1, 1), 255, np.uint8), np.full((2, 1, 1), 255, np.uint8)
        bias = np.array([2**31 - 1, -(2**31)], np.int32).reshape(1, 2, 1)
        number, scale = (np.full((1, 1, 1), each, np.float32) for each in (1, 2**24))
        (result,) = run(operator, x, number, None, weights, number, None, bias, scale, None)
        assert result.ravel().tolist() == [128, 0]  # (2^31 − 1 + 255²) / 2^24 rounds to 128

    def test_more_taps_than_float32_sums_exactly(self) -> None:
        # By channel, with 17 · 17 taps; 255² · 289 is beyond 2^24.
        operator = make(
            "convolution_integer",
            input=desc((1, 2, 17, 17), "uint8"),
            filter=desc((2, 1, 17, 17), "uint8"),
            group_count=2,
        )
        x, weights = np.full((1, 2, 17, 17), 255, np.uint8), np.full((2, 1, 17, 17), 255, np.uint8)
        weights[:, :, 0, 0] = 254
        check(operator, [x, None, weights, None])


def check_random(seed: int, count: int) -> None:
    """Random products; a process of its own runs this for another instruction set."""
    random = np.random.default_rng(seed)
    for number, dtype in itertools.product(range(count), ("uint8", "int8")):
        m, k, n = (int(random.choice([1, 5, 14, 33, 70])) for _ in range(3))
        fields = {"a": desc((m, k), dtype), "a_zero_point": desc((m,), dtype)}
        fields |= {"b": desc((k, n), "int8"), "b_zero_point": desc((n,), "int8")}
        operator = make("matrix_multiply_integer", **fields)
        arrays = filled(operator, number)
        check(operator, arrays)
        check(operator, [arrays[0], arrays[1], np.clip(arrays[2], -64, 64), arrays[3]])
        check(operator, [arrays[0], arrays[1], near_zero(random, (k, n)), np.zeros_like(arrays[3])])
        groups = int(random.choice([1, 4]))
        operator = make(
            "quantized_linear_convolution",
            input=desc((1, 4, 9, 11), dtype),
            input_scale=desc((1,)),
            input_zero_point=desc((1,), dtype),
            filter=desc((groups * int(random.integers(1, 12)), 4 // groups, 3, 3), "int8"),
            filter_scale=desc((1,)),
            output_scale=desc((1,)),
            strides=(int(random.integers(1, 3)),) * 2,
            start_padding=(1, 1),
            group_count=groups,
        )
        arrays = filled(operator, number)
        scales(operator, arrays, number)
        check(operator, arrays)
        weights = operator.input_fields.index("filter")
        check(operator, [np.clip(each, -64, 64) if port == weights else each for port, each in enumerate(arrays)])
        check_trained(random, dtype)


def near_zero(random: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """Integers like trained weights: most are near 0, some are not."""
    return np.clip(np.rint(random.normal(0, random.choice([10, 25, 40]), sizes)), -128, 127).astype(np.int8)


def check_trained(random: np.random.Generator, dtype: str) -> None:
    """A product and a convolution whose weights are like trained ones, and whose results are quantized by channel."""
    m, k, n = (int(random.choice(each)) for each in ([2, 17, 50, 90], [3, 40, 700, 1300], [1, 7, 40]))
    one = {"a_scale": desc((1,)), "a_zero_point": desc((1,), dtype), "output_zero_point": desc((1,), dtype)}
    matrices = {"a": desc((m, k), dtype), "b": desc((k, n), "int8"), "b_scale": desc((n,)), "output_scale": desc((1,))}
    operator = make("quantized_linear_matrix_multiply", **one, **matrices)
    check_weights(operator, "b", random)
    groups, inner = (int(random.choice(each)) for each in ([1, 2], [3, 16, 80]))
    outputs = groups * int(random.choice([1, 6, 13, 30]))
    operator = make(
        "quantized_linear_convolution",
        input=desc((2, groups * inner, 7, int(random.integers(3, 20))), dtype),
        input_scale=desc((1,)),
        input_zero_point=desc((1,), dtype),
        filter=desc((outputs, inner, 3, 3), "int8"),
        filter_scale=desc((outputs,)),
        bias=desc((outputs,), "int32") if random.integers(2) else None,
        output_scale=desc((1,)),
        output_zero_point=desc((1,), dtype),
        start_padding=(1, 1),
        group_count=groups,
    )
    check_weights(operator, "filter", random)


def check_weights(operator: Any, field: str, random: np.random.Generator) -> None:
    arrays = filled(operator, int(random.integers(2**31)))
    arrays = [each if each is None else each.copy() for each in arrays]
    for port, name in enumerate(operator.input_fields):
        if name == field:
            arrays[port] = near_zero(random, arrays[port].shape)
        elif name == "bias" and arrays[port] is not None:
            arrays[port] = random.choice([-(2**31), -999, 0, 77777, 2**31 - 1], arrays[port].shape).astype(np.int32)
    scales(operator, arrays, 0)
    check(operator, arrays)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_every_instruction_set(level: str) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = "from devices.cpu import test_integer_products; test_integer_products.check_random(0, 12)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
