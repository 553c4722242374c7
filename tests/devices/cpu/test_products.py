"""Native products and convolutions: any sizes, strides and numbers, the same bits for any number of threads.

The bound is that of `near.compare`: units of the sum of the terms' magnitudes.
"""

from __future__ import annotations

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
from support.cpu.near import LAYOUTS, compare, compiled, desc, filled, layouts, make, run, seeds
from support.cpu.plans import kinds

import dmlgraph as dg
from dmlgraph._native import cpu_kernels
from dmlgraph.base.errors import OperatorError

Array = np.ndarray[Any, Any]

# Around the sizes of tiles, of panels and of the depth that is multiplied at a time.
sides = st.one_of(st.integers(5, 20), st.sampled_from([28, 31, 32, 33, 64, 77, 130]))
depths = st.one_of(st.integers(1, 9), st.sampled_from([64, 319, 320, 321, 700]))
dtypes = st.sampled_from(["float32", "float32", "float16"])


def with_specials(arrays: Sequence[Array | None], seed: int) -> list[Any]:
    """The arrays with some NaN, infinities, zeros of both signs and the least numbers."""
    random = np.random.default_rng(seed)
    numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 6e-8, 50]
    result: list[Any] = []
    for each in arrays:
        result.append(None if each is None else each.copy())
        if each is not None:
            some = np.asarray(random.random(each.shape) < 0.02)
            result[-1][some] = random.choice(numbers, int(some.sum())).astype(each.dtype)
    return result


def bits(x: Array) -> bytes:
    """The bytes of an array, in which all NaN are the same."""
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x).tobytes()


def same_bits(operator: Any, arrays: Sequence[Array | None]) -> Array:
    """The result, which must not depend on threads, on constants, or on the layouts of the arrays."""
    (expected,) = run(operator, *arrays, threads=1)
    packed: list[Any] = [each if each is None else np.ascontiguousarray(each) for each in arrays]
    for threads in (2, 5):
        (other,) = run(operator, *packed, threads=threads)
        assert bits(other) == bits(expected), "threads or layouts change the result"
    for constant in (0, 1):
        inputs = {f"x{port}": each for port, each in enumerate(arrays) if each is not None and port != constant}
        with compiled(operator, {constant: packed[constant]}, threads=2) as executable:
            out = LAYOUTS["spaced"](np.zeros(expected.shape, expected.dtype))
            assert "python" not in kinds(executable)
            executable.run(inputs, {"y0": out})
            assert bits(out) == bits(expected), "a constant, or the output's layout, changes the result"
    return expected


def check(operator: Any, arrays: Sequence[Array | None], terms: int) -> None:
    compare(same_bits(operator, arrays), operator, arrays, terms)


def gemm(
    m: int, k: int, n: int, dtype: str = "float32", batch: tuple[int, ...] = (), c: bool = False, **fields: Any
) -> Any:
    transposed = [fields.get(f"trans_{name}") == "transpose" for name in "ab"]
    return make(
        "gemm",
        a=desc((*batch, *((k, m) if transposed[0] else (m, k))), dtype),
        b=desc((*batch, *((n, k) if transposed[1] else (k, n))), dtype),
        c=desc((*batch, m, n), dtype) if c else None,
        **fields,
    )


transposes = st.sampled_from(["none", "transpose"])


class TestGemm:
    @given(
        sides, depths, sides, dtypes, st.sampled_from([(), (3,), (2, 1, 2)]), st.booleans(), transposes, transposes,
        layouts, seeds, st.booleans(),
    )  # fmt: skip
    def test_any_sizes_and_layouts(self, m, k, n, dtype, batch, c, trans_a, trans_b, layout, seed, special) -> None:
        operator = gemm(m, k, n, dtype, batch, c, trans_a=trans_a, trans_b=trans_b, alpha=0.75 if c else 1, beta=1.5)
        arrays = filled(operator, seed, layout)
        check(operator, with_specials(arrays, seed) if special else arrays, k + 1)

    @pytest.mark.parametrize("sizes", [(700, 70, 900), (2, 900, 3000), (3000, 900, 2), (2000, 3, 5), (300, 1300, 40)])
    def test_several_blocks(self, sizes) -> None:
        operator = gemm(*sizes)
        check(operator, filled(operator, 1), sizes[1] + 1)

    @pytest.mark.parametrize("inner", [3, 512, 1024, 1500])
    @pytest.mark.parametrize("columns", [5, 17, 24, 100, 256, 300])
    @pytest.mark.parametrize("trans_a", ["none", "transpose"])
    def test_rows_of_any_distance(self, inner: int, columns: int, trans_a: str) -> None:
        operator = gemm(41, inner, columns, c=inner == 512, trans_a=trans_a, alpha=0.5)
        check(operator, filled(operator, columns), inner + 1)

    @given(st.sampled_from([(4, 1), (1, 4), (4, 4)]), sides, depths, sides, layouts, st.booleans(), seeds)
    def test_matrices_that_repeat(self, batch, m, k, n, layout, c, seed) -> None:
        random = np.random.default_rng(seed)
        shapes = {"a": (batch[0], m, k), "b": (batch[1], k, n)} | ({"c": (1, n)} if c else {})
        g = dg.Graph()
        inputs = {name: random.standard_normal(sizes).astype(np.float32) for name, sizes in shapes.items()}
        values: dict[str, Any] = {name: g.input(name, sizes=sizes, dtype="float32") for name, sizes in shapes.items()}
        g.output("y", dg.gemm(**values))
        inputs["a"] = LAYOUTS[layout](inputs["a"])
        one, two = (g.compile("cpu", threads=threads).run(inputs)["y"] for threads in (1, 2))
        assert one.tobytes() == two.tobytes()
        expected = inputs["a"].astype(np.float64) @ inputs["b"] + inputs.get("c", 0)
        bound = np.abs(inputs["a"]).astype(np.float64) @ np.abs(inputs["b"]) + np.abs(inputs.get("c", 0))
        assert (np.abs(one - expected) <= (k + 4) * 2.0**-24 * bound).all()

    def test_a_sum_beyond_float32_is_infinite(self) -> None:
        operator = gemm(1, 2, 1, alpha=0.5)
        a, b = np.array([[3e38, 3e38]], np.float32), np.array([[2], [-0.5]], np.float32)
        assert run(operator, a, b, None)[0].item() == np.inf  # the reference, in float64: 2.25e38


class TestSoftmax:
    @given(st.booleans(), sides, depths, sides, dtypes, st.booleans(), seeds)
    def test_it_follows_natively(self, along_rows, m, k, n, dtype, c, seed) -> None:
        given = [desc(sizes, dtype) for sizes in ((1, 1, m, k), (1, 1, k, n))]
        activation: Any = "activation_softmax"
        if not along_rows:
            activation = make("activation_softmax1", input=desc((1, 1, m, n), dtype), axes=(2,))
        addend = desc((1, 1, m, n), dtype) if c else None
        operator = make("gemm", a=given[0], b=given[1], c=addend, fused_activation=activation)
        arrays = [None if each is None else each / 16 for each in filled(operator, seed)]
        with compiled(operator) as executable:
            assert "python" not in kinds(executable)
        one, two = (run(operator, *arrays, threads=threads)[0] for threads in (1, 3))
        assert bits(one) == bits(two)
        tolerance = 2e-3 if dtype == "float16" else 1e-4
        np.testing.assert_allclose(one, operator.evaluate(*arrays)[0], rtol=tolerance, atol=tolerance)


@st.composite
def convolutions(draw: st.DrawFn, backward: bool = False) -> Any:
    """A convolution of one to three spatial dimensions, among them those of networks."""
    spatial = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    groups, inner, outer = draw(st.sampled_from([(1, 3, 20), (1, 40, 7), (2, 5, 3), (7, 1, 1), (5, 1, 2), (1, 1, 33)]))
    taps = draw(st.sampled_from([(1,) * spatial, (3,) * spatial, each(1, 4)]))
    dtype = draw(dtypes)
    sizes = (draw(st.integers(1, 3)), groups * inner, *each(1, {1: 90, 2: 14, 3: 6}[spatial]))
    filters = (groups * inner, outer) if backward else (groups * outer, inner)
    return {
        "input": desc(sizes, dtype),
        "filter": desc((*filters, *taps), dtype),
        "bias": desc((groups * outer,), dtype) if draw(st.booleans()) else None,
        "strides": draw(st.sampled_from([(1,) * spatial, (2,) * spatial, each(1, 5)])),
        "dilations": draw(st.sampled_from([(1,) * spatial, each(1, 4)])),
        "start_padding": each(0, 3),
        "end_padding": each(0, 3),
        "output_padding": draw(st.sampled_from([(0,) * spatial, (0,) * spatial, each(0, 2)])),
        "group_count": groups,
        "mode": draw(st.sampled_from(["cross_correlation", "convolution"])),
        "direction": "backward" if backward else "forward",
    }


class TestConvolution:
    @given(convolutions(), layouts, seeds, st.booleans())
    def test_any_windows_and_layouts(self, fields, layout, seed, special) -> None:
        try:
            operator = make("convolution", **fields)
        except OperatorError:  # the window is larger than the tensor
            assume(False)
        arrays = filled(operator, seed, layout)
        terms = int(np.prod(fields["filter"].sizes[1:])) + 1
        check(operator, with_specials(arrays, seed) if special else arrays, terms)

    @given(convolutions(backward=True), layouts, seeds, st.booleans())
    def test_any_backward_one(self, fields, layout, seed, special) -> None:
        try:
            operator = make("convolution", **fields)
        except OperatorError:  # the padding leaves nothing
            assume(False)
        arrays = filled(operator, seed, layout)
        channels, _, *taps = fields["filter"].sizes
        terms = channels // fields["group_count"] * int(np.prod(taps)) + 1
        check(operator, with_specials(arrays, seed) if special else arrays, terms)

    @pytest.mark.parametrize(
        ("sizes", "filters", "fields"),
        [
            ((2, 40, 20, 20), (40, 24, 2, 2), {"strides": (2, 2)}),
            ((1, 64, 14, 14), (64, 32, 4, 4), {"strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)}),
            ((1, 90, 1, 1), (90, 50, 4, 4), {"strides": (3, 3)}),
            ((1, 24, 19, 19), (24, 1, 4, 4), {"strides": (2, 2), "group_count": 24, "start_padding": (1, 1)}),
            ((1, 16, 300), (16, 8, 16), {"strides": (8,), "start_padding": (4,), "end_padding": (4,)}),
            ((1, 3, 4, 5, 6), (3, 5, 1, 2, 2), {"strides": (3, 2, 4)}),
        ],
        ids=["2x2", "4x4", "one element", "by channel", "1-D", "strides without taps"],
    )
    def test_backward_ones_of_networks(self, sizes, filters, fields) -> None:
        bias = desc((filters[1] * fields.get("group_count", 1),))
        operator = make(
            "convolution", input=desc(sizes), filter=desc(filters), bias=bias, direction="backward", **fields
        )
        check(operator, filled(operator, 6), int(np.prod(filters)) // filters[1] + 1)

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_the_padding_of_the_output_has_no_bias(self, direction, dtype) -> None:
        fields = {"input": desc((1, 2, 3, 2), dtype), "filter": desc((2, 2, 1, 1), dtype), "bias": desc((2,), dtype)}
        for activation, expected in ((None, 0), ("activation_sigmoid", 0.5)):
            operator = make(
                "convolution", **fields, direction=direction, output_padding=(1, 2), fused_activation=activation
            )
            arrays = [np.full(tensor.sizes, 9, tensor.dtype.numpy) for tensor in operator.input_descs]
            result = same_bits(operator, arrays)
            assert result.shape == (1, 2, 4, 4)
            assert (result[:, :, 3] == expected).all()
            assert (result[..., 2:] == expected).all()
            assert (result[:, :, :3, :2] == (171 if activation is None else 1)).all()

    @pytest.mark.parametrize(
        ("sizes", "filters", "fields"),
        [
            ((1, 40, 30, 30), (96, 40, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
            ((1, 3, 64, 64), (20, 3, 7, 7), {"strides": (2, 2), "start_padding": (3, 3), "end_padding": (3, 3)}),
            ((2, 48, 20, 20), (48, 1, 5, 5), {"group_count": 48, "start_padding": (2, 2), "end_padding": (2, 2)}),
            ((2, 64, 20, 20), (96, 64, 1, 1), {}),
            ((1, 64, 20, 20), (96, 64, 1, 1), {"strides": (2, 2)}),
            ((1, 512, 3, 3), (600, 512, 3, 3), {"start_padding": (1, 1), "end_padding": (1, 1)}),
        ],
    )
    def test_those_of_networks(self, sizes, filters, fields) -> None:
        operator = make("convolution", input=desc(sizes), filter=desc(filters), bias=desc((filters[0],)), **fields)
        check(operator, filled(operator, 3), int(np.prod(filters[1:])) + 1)

    @given(st.sampled_from(["relu", "sigmoid", "tanh", "leaky_relu", "elu", "hard_sigmoid", "softplus"]), seeds)
    def test_an_activation_follows(self, activation, seed) -> None:
        fields = {"input": desc((1, 3, 6, 7)), "filter": desc((5, 3, 3, 3)), "bias": desc((5,))}
        operator = make("convolution", **fields, fused_activation=f"activation_{activation}")
        arrays = filled(operator, seed)
        # No slope exceeds 1; each function may add an error of 4 units in the last place.
        (magnitudes,) = make("convolution", **fields).evaluate(*(x if x is None else abs(x) for x in arrays))
        compare(same_bits(operator, arrays), operator, arrays, 3 * 9 + 1 + 8, magnitudes + 1)


few = st.integers(1, 5)


class TestFewRows:
    """Few rows or columns: the other matrix is read where it lies, and how it lies decides on the order of sums."""

    @given(
        few, st.one_of(depths, st.sampled_from([15, 16, 17, 4096, 4111])), st.sampled_from([1, 2, 3, 5, 64, 75, 600]),
        dtypes, st.sampled_from([(), (3,), (2, 1)]), st.booleans(), transposes, transposes, layouts, seeds,
        st.booleans(), st.booleans(),
    )  # fmt: skip
    def test_any_sizes(self, m, k, n, dtype, batch, c, trans_a, trans_b, layout, seed, special, swapped) -> None:
        m, n = (n, m) if swapped else (m, n)
        operator = gemm(m, k, n, dtype, batch, c, trans_a=trans_a, trans_b=trans_b, alpha=0.75 if c else 1, beta=1.5)
        arrays = filled(operator, seed, layout)
        if special:
            arrays = with_specials(arrays, seed)
        results = [run(operator, *arrays, threads=threads)[0] for threads in (1, 2, 5)]
        assert len({bits(each) for each in results}) == 1, "threads change the result"
        compare(results[0], operator, arrays, k + 1)
        packed: list[Any] = [each if each is None else np.ascontiguousarray(each) for each in arrays]
        for constant in (0, 1):
            inputs = {f"x{port}": each for port, each in enumerate(packed) if each is not None and port != constant}
            with compiled(operator, {constant: packed[constant]}, threads=2) as executable:
                assert "python" not in kinds(executable)
                compare(executable.run(inputs)["y0"], operator, arrays, k + 1)

    @pytest.mark.parametrize(("rows", "columns"), [(1, 1030), (1030, 1), (4, 1030)])
    def test_a_large_matrix_across_its_memory(self, rows: int, columns: int) -> None:
        operator = gemm(rows, 1100, columns, trans_a="transpose", trans_b="transpose")
        arrays = filled(operator, rows)
        one, two = (run(operator, *arrays, threads=threads)[0] for threads in (1, 2))
        assert one.tobytes() == two.tobytes()
        compare(one, operator, arrays, 1100)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("columns", [64, 75, 700])
@pytest.mark.parametrize("inner", [7, 321, 900])
def test_few_rows_are_streamed(rows: int, inner: int, columns: int) -> None:
    operator = gemm(rows, inner, columns, c=True, alpha=0.5)
    check(operator, with_specials(filled(operator, rows), rows), inner + 1)


@pytest.mark.parametrize(
    ("batch", "bias", "dtype"), [(1, True, "float32"), (3, False, "float32"), (2, True, "float16")]
)
@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
@pytest.mark.parametrize("activation", [None, "activation_relu"])
def test_a_backward_convolution_of_one_element_a_channel(batch, bias, dtype, mode, activation) -> None:
    operator = make(
        "convolution",
        input=desc((batch, 70, 1, 1), dtype),
        filter=desc((70, 9, 4, 3), dtype),
        bias=desc((9,), dtype) if bias else None,
        strides=(2, 3),
        direction="backward",
        mode=mode,
        fused_activation=activation,
    )
    check(operator, filled(operator, batch), 71)


def test_a_part_of_a_join_is_written_in_place() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 3, 5, 5], dtype="float32")
    filters = [g.constant(f"w{i}", np.full((2 + i, 3, 1, 1), 1 + i, np.float32)) for i in range(2)]
    g.output("y", dg.join([dg.convolution(x, each) for each in filters], axis=1))
    executable = g.compile("cpu")
    assert executable.stats["arena_bytes"] == 0
    data = np.arange(75, dtype=np.float32).reshape(1, 3, 5, 5)
    sums = data.sum(1, keepdims=True)
    np.testing.assert_array_equal(executable.run({"x": data})["y"], np.concatenate([sums] * 2 + [2 * sums] * 3, 1))


def check_random(seed: int, count: int) -> None:
    """Random products and convolutions; a process of its own runs this for another instruction set."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        m, k, n = (int(random.choice([1, 5, 14, 33, 70])) for _ in range(3))
        operator = gemm(m, k, n, random.choice(["float32", "float16"]), c=True)
        check(operator, with_specials(filled(operator, seed), seed), k + 1)
        channels, taps = int(random.integers(1, 40)), int(random.integers(1, 6))
        operator = make(
            "convolution",
            input=desc((2, channels, *(int(each) for each in random.integers(3, 12, 2)))),
            filter=desc((channels, 1, taps, taps)),
            bias=desc((channels,)),
            strides=(int(random.integers(1, 3)),) * 2,
            start_padding=(2, 2),
            end_padding=(2, 2),
            group_count=channels,
            fused_activation="activation_relu",
        )
        check(operator, with_specials(filled(operator, seed), seed), taps**2 + 1)
        channels, taps = int(random.integers(1, 6)), int(random.integers(1, 4))
        operator = make(
            "convolution",
            input=desc((1, channels, 9, 11)),
            filter=desc((int(random.integers(1, 40)), channels, taps, taps)),
            strides=(int(random.integers(1, 3)),) * 2,
            start_padding=(1, 1),
        )
        check(operator, with_specials(filled(operator, seed), seed), channels * taps**2 + 1)
        operator = make(
            "convolution",
            input=desc((1, channels, 9, 11)),
            filter=desc((channels, int(random.integers(1, 40)), taps, taps)),
            strides=(int(random.integers(1, 4)),) * 2,
            direction="backward",
        )
        check(operator, with_specials(filled(operator, seed), seed), channels * taps**2 + 1)
        seed += 1


def check_constant_filters() -> None:
    """Convolutions whose windows may become panels, since the filters are packed: rows end within vectors."""
    shapes = [(7, 1, 1, 3), (9, 1, 1, 3), (15, 1, 2, 3), (30, 2, 1, 3), (61, 4, 1, 5), (13, 1, 1, 7)]
    for width, stride, dilation, taps in shapes:
        operator = make(
            "convolution",
            input=desc((2, 11, 12, width)),
            filter=desc((40, 11, taps, taps)),
            strides=(stride, stride),
            dilations=(dilation, dilation),
            start_padding=(2, taps // 2),
            end_padding=(0, taps // 2),
        )
        arrays = filled(operator, width)
        with compiled(operator, {1: arrays[1]}, 1) as executable:
            y = np.empty(operator.output.sizes, np.float32)
            executable.run({"x0": arrays[0]}, {"y0": y})
        compare(y, operator, arrays, 11 * taps**2)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_every_instruction_set(level: str) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = "from devices.cpu import test_products as t; t.check_random(0, 25); t.check_constant_filters()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
