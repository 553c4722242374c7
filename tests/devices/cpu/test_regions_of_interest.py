"""ROI_ALIGN and ROI_POOLING on the device `cpu`: near `reference`, nothing in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import LAYOUTS, UNIT, Array, check_exact, desc, layouts, make, run, seeds

from dmlgraph.devices.cpu.plan import lowered
from dmlgraph.operators.declaration.operator import Operator

FLOATS = st.sampled_from(["float32", "float16"])
small = st.integers(1, 9)
scales = st.sampled_from([1.0, 0.5, 0.0])


@st.composite
def aligning(draw: st.DrawFn) -> Operator:
    dtype, regions, channels = draw(FLOATS), draw(st.integers(1, 4)), draw(st.sampled_from([1, 3, 65]))
    x = desc((draw(st.integers(1, 3)), channels, draw(small), draw(small)), dtype)
    least = draw(st.integers(1, 3))
    name = draw(st.sampled_from(["roi_align", "roi_align1"]))
    more: dict[str, Any] = {}
    if name == "roi_align1":
        more = {
            "input_pixel_offset": draw(st.sampled_from([0.5, 0.0])),
            "output_pixel_offset": draw(st.sampled_from([-0.5, 0.0])),
            "align_regions_to_corners": draw(st.booleans()),
        }
    return make(
        name, input=x, roi=desc((regions, 4), dtype),
        batch_indices=desc((regions,), draw(st.sampled_from(["uint32", "uint64"]))),
        output={"sizes": (regions, channels, draw(st.integers(1, 4)), draw(st.integers(1, 4)))},
        reduction_function=draw(st.sampled_from(["average", "max"])),
        interpolation_mode=draw(st.sampled_from(["linear", "nearest_neighbor"])),
        spatial_scale_x=draw(scales), spatial_scale_y=draw(scales), out_of_bounds_input_value=draw(scales),
        minimum_samples_per_output=least, maximum_samples_per_output=least + draw(st.integers(0, 3)), **more,
    )  # fmt: skip


def arrays_for(operator: Any, seed: int, layout: str) -> list[Any]:
    """Corners in, at and beyond the image, at whole and half places."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(operator.input.sizes).astype(operator.input.dtype.numpy)
    roi = (random.integers(-8, 24, operator.roi.sizes) / 2).astype(x.dtype)
    given = [x, roi]
    if "batch_indices" in operator.input_fields:
        batches = random.integers(0, operator.input.sizes[0] + 1, operator.batch_indices.sizes)
        given.append(batches.astype(operator.batch_indices.dtype.numpy))
    else:
        roi[..., 0] = random.integers(-1, operator.input.sizes[0] + 1, roi.shape[:-1])
    return [LAYOUTS[layout](each) for each in given]


def check_near(operator: Any, arrays: Sequence[Array | None]) -> None:
    """To some units of the greatest number, and one of float16."""
    (got,), (expected,) = run(operator, *arrays), operator.evaluate(*arrays)
    assert arrays[0] is not None
    greatest = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(arrays[0]), arrays[0], 0)))))
    bound = 64 * UNIT * greatest + (np.spacing(np.abs(expected)) if expected.dtype == np.float16 else 0)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert (same | (error <= bound)).all(), (got[~same][:4], expected[~same][:4])


@given(aligning(), layouts, seeds)
def test_roi_align(operator: Operator, layout: str, seed: int) -> None:
    assert isinstance(lowered(operator), tuple)
    check_near(operator, arrays_for(operator, seed, layout))


@pytest.mark.parametrize("function", ["average", "max"])
@pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_numbers(function: str, mode: str, special: float) -> None:
    """In the image, and as corners; at whole places too, where a tap's weight is 0."""
    operator = make(
        "roi_align1", input=desc((1, 2, 5, 6)), roi=desc((5, 4)), batch_indices=desc((5,), "uint32"),
        output={"sizes": (5, 2, 2, 3)}, reduction_function=function, interpolation_mode=mode, spatial_scale_x=1,
        spatial_scale_y=1, out_of_bounds_input_value=0.5, minimum_samples_per_output=1, maximum_samples_per_output=3,
        input_pixel_offset=0, output_pixel_offset=0, align_regions_to_corners=False,
    )  # fmt: skip
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 6)).astype(np.float32)
    x[0, 0, 2, 3] = special
    x[0, 1, 4, 5] = special
    roi = np.array([[0, 0, 6, 4], [1, 1, 5, 5], [0, 0, special, 3], [special, 1, 2, 2], [2.5, 0.5, 6, 6]], np.float32)
    check_near(operator, [x, roi, np.zeros(5, np.uint32)])


@given(
    FLOATS, st.tuples(st.integers(1, 3), st.integers(1, 5), small, small), st.integers(1, 4), st.tuples(small, small),
    scales, layouts, seeds,
)  # fmt: skip
def test_roi_pooling(dtype, sizes, regions, pooled, scale, layout, seed) -> None:
    operator = make(
        "roi_pooling", input=desc(sizes, dtype), roi=desc((1, 1, regions, 5), dtype), spatial_scale=scale,
        pooled_size=pooled,
    )  # fmt: skip
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, arrays_for(operator, seed, layout))


def test_more_samples_than_memory_holds() -> None:
    operator = make(
        "roi_align", input=desc((1, 2, 4, 4)), roi=desc((1, 4)), batch_indices=desc((1,), "uint32"),
        output={"sizes": (1, 2, 2, 2)}, reduction_function="average", interpolation_mode="linear",
        spatial_scale_x=1.0, spatial_scale_y=1.0, out_of_bounds_input_value=0.0,
        minimum_samples_per_output=1, maximum_samples_per_output=2**32 - 1,
    )  # fmt: skip
    corners = np.array([[0, 0, 1e30, 1e30]], np.float32)
    with pytest.raises(MemoryError):
        run(operator, np.ones((1, 2, 4, 4), np.float32), corners, np.zeros(1, np.uint32))
