"""Resampling of the CPU executor equals the reference's, in float32; see test_windows.py for more of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from near import check_exact, check_near, desc, filled, layouts, make, seeds

sizes = st.integers(1, 3).flatmap(lambda rank: st.tuples(*[st.tuples(st.integers(1, 7), st.integers(1, 9))] * rank))
floats = st.sampled_from(["float32", "float16"])


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
        operator = make(
            "resample_grad",
            input_gradient=desc(after, dtype),
            output_gradient={"sizes": before},
            interpolation_mode=mode,
            input_pixel_offsets=(-0.5,) * len(pairs),
            output_pixel_offsets=(0.5,) * len(pairs),
        )
        check_near(operator, filled(operator, seed, layout), sum(after) + 3 * len(after))
