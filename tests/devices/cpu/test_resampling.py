"""Resampling of the CPU executor equals the reference's, in float32; see test_windows.py for more of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import check_exact, check_near, desc, filled, layouts, make, run, seeds

from dmlgraph.devices.cpu.plan import lowered
from dmlgraph.operators.declaration.operator import Operator

sizes = st.integers(1, 3).flatmap(lambda rank: st.tuples(*[st.tuples(st.integers(1, 7), st.integers(1, 9))] * rank))
floats = st.sampled_from(["float32", "float16"])


def gradient(after: tuple[int, ...], before: tuple[int, ...], mode: str = "linear", dtype: str = "float32") -> Operator:
    """The gradient of resampling from `before` to `after`, with the offsets of aligned middles."""
    return make(
        "resample_grad",
        input_gradient=desc(after, dtype),
        output_gradient={"sizes": before},
        interpolation_mode=mode,
        input_pixel_offsets=(-0.5,) * len(after),
        output_pixel_offsets=(0.5,) * len(after),
    )


class TestResample:
    @given(sizes, floats, layouts, seeds, st.booleans())
    def test_linear_is_near_the_reference(self, pairs, dtype, layout, seed, antialiased) -> None:
        before, after = ([each[which] for each in pairs] for which in (0, 1))
        operator = make(
            "resample3",
            input=desc(tuple(before), dtype),
            output={"sizes": tuple(after)},
            interpolation_mode="linear",
            antialiased=antialiased,
        )
        arrays = filled(operator, seed, layout)
        # A weighted mean: no larger than the greatest element.
        terms = sum(before) + 3 * len(before)
        check_near(operator, arrays, terms, np.full(after, np.abs(arrays[0]).max()))

    @pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
    @pytest.mark.parametrize("mode", ["nearest_neighbor", "linear"])
    def test_integers_and_copies_are_exact(self, dtype, mode) -> None:
        scale = 2.7 if dtype != "float32" or mode == "nearest_neighbor" else 1
        operator = make("resample", input=desc((1, 2, 5, 6), dtype), scales=(1, 1, scale, 1), interpolation_mode=mode)
        check_exact(operator, filled(operator, 1))

    @given(
        st.lists(st.integers(1, 4), max_size=2), st.lists(st.integers(1, 60), min_size=1, max_size=2),
        st.lists(st.sampled_from([1, 2, 3, 4, 1.5, 0.5, 2.7]), min_size=2, max_size=2), floats, layouts, seeds,
    )  # fmt: skip
    def test_nearest_elements_are_copied(self, outer, spatial, scales, dtype, layout, seed) -> None:
        after = [max(1, int(size * scale)) for size, scale in zip(spatial, scales, strict=False)]
        operator = make(
            "resample3",
            input=desc((*outer, *spatial), dtype),
            output={"sizes": (*outer, *after)},
            interpolation_mode="nearest_neighbor",
        )
        check_exact(operator, filled(operator, seed, layout))

    @pytest.mark.parametrize("special", [np.nan, np.inf])
    def test_what_is_not_finite_is_as_in_the_reference(self, special) -> None:
        operator = make("resample", input=desc((1, 1, 5, 6)), scales=(1, 1, 2, 2), interpolation_mode="linear")
        (x,) = filled(operator, 2)
        magnitudes = np.full(operator.output.sizes, np.abs(x).max())
        x[0, 0, 2, 3] = special
        check_near(operator, [x], 4, magnitudes)

    def test_large_ones(self) -> None:
        for size in (100, 600):
            operator = make(
                "resample", input=desc((1, 3, 40, size)), scales=(1, 1, 2, 1.5), interpolation_mode="linear"
            )
            arrays = filled(operator, 3)
            check_near(operator, arrays, 20, np.full(operator.output.sizes, np.abs(arrays[0]).max()))

    @given(sizes, floats, layouts, seeds, st.sampled_from(["linear", "nearest_neighbor"]))
    def test_gradient_is_near_the_reference(self, pairs, dtype, layout, seed, mode) -> None:
        before, after = (tuple(each[which] for each in pairs) for which in (0, 1))
        operator = gradient(after, before, mode, dtype)
        assert isinstance(lowered(operator), tuple)
        check_near(operator, filled(operator, seed, layout), sum(after) + 3 * len(after))

    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    def test_the_number_of_threads_changes_no_bit_of_a_gradient(self, mode) -> None:
        operator = gradient((1, 8, 180, 170), (1, 8, 61, 90), mode)
        arrays = filled(operator, 4)
        one, *others = (run(operator, *arrays, threads=threads)[0].tobytes() for threads in (1, 2, 3, 8))
        assert set(others) == {one}
        check_near(operator, arrays, 40)

    def test_a_gradient_by_hand(self) -> None:
        # Linear from 2 to 4 elements: the outputs are a, (3a + b) / 4, (a + 3b) / 4 and b.
        operator = gradient((1, 1, 1, 4), (1, 1, 1, 2))
        (got,) = run(operator, np.array([[[[1, 4, 8, 16]]]], np.float32))
        assert got.ravel().tolist() == [1 + 3 + 2, 1 + 6 + 16]

    def test_elements_that_no_output_reads_have_no_gradient(self) -> None:
        operator = gradient((1, 1, 2, 2), (1, 1, 6, 6), "nearest_neighbor")
        (got,) = run(operator, np.ones((1, 1, 2, 2), np.float32))
        assert got.sum() == 4
        assert (got != 0).sum() == 4

    @pytest.mark.parametrize("special", [np.nan, np.inf])
    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    def test_a_gradient_that_is_not_finite_is_as_in_the_reference(self, special, mode) -> None:
        # Groups of results have different numbers of terms: those that are missing add nothing to infinity.
        operator = gradient((1, 2, 9, 53), (1, 2, 5, 31), mode)
        (x,) = filled(operator, 5)
        magnitudes = operator.evaluate(np.abs(x))[0]
        x[0, 0, 4, ::13] = special
        x[0, 1, 8, 52] = -np.inf
        check_near(operator, [x], 20, magnitudes)
