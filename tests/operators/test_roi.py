"""ROI_POOLING, ROI_ALIGN and ROI_ALIGN1, compared with the documented pseudocode."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, INF, NAN, Array, add_node, array, assert_same, case, refused, run
from support.operators.regions import ALIGN, ALIGN1, BATCHES, IMAGES, REGIONS, aligned

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

BOXES = array([[[[0, 0, 0, 3, 3], [1, 2, 1, 5, 4], [1, -3, 2, 9, 2], [0, 3, 3, 3, 3]]]], "float32")


def pooled(x: Array, boxes: Array, width: int, height: int) -> Array:
    """The documented equations, cell by cell; corners are whole numbers."""
    result = np.zeros((boxes.shape[-2], x.shape[1], height, width), x.dtype)
    for index, (batch, x1, y1, x2, y2) in enumerate(boxes.reshape(-1, 5).astype(int)):
        for row, column in np.ndindex(height, width):
            rows = range(row * (y2 - y1 + 1) // height + y1, ((row + 1) * (y2 - y1 + 1) + height - 1) // height + y1)
            columns = range(
                column * (x2 - x1 + 1) // width + x1, ((column + 1) * (x2 - x1 + 1) + width - 1) // width + x1
            )
            cells = [(i, j) for i in rows for j in columns if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]]
            for channel in range(x.shape[1]):
                result[index, channel, row, column] = max((x[batch, channel, i, j] for i, j in cells), default=0)
    return result


class TestRoiPooling(OperatorTests):
    operator = "roi_pooling"
    levels = "1.0: 4D F32 F16"
    sample = case("sample", [IMAGES, BOXES], pooled(IMAGES, BOXES, 2, 3), spatial_scale=1, pooled_size=(2, 3))
    cases = (
        *(
            case(
                "cells",
                [IMAGES.astype(of), BOXES.astype(of)],
                pooled(IMAGES, BOXES, 3, 2).astype(of),
                of,
                spatial_scale=1,
                pooled_size=(3, 2),
            )
            for of in FLOATS
        ),
        case(
            "corners are scaled and rounded, halves to even",
            [[[[[0, 1, 2, 3, 4, 5, 6, 7]]]], [[[[0, 5, 0, 13, 0]]]]],
            [[[[4, 6]]]],
            spatial_scale=0.5,
            pooled_size=(2, 1),
        ),
        case(
            "outside there is zero",
            [-IMAGES, [[[[0, 20, 0, 25, 0]]]]],
            np.zeros((1, 2, 1, 1), "float32"),
            spatial_scale=1,
            pooled_size=(1, 1),
        ),
        case(
            "an inverted region has the size of one element",
            [[[[[0, 1, 2, 3, 4, 5, 6, 7]]]], [[[[0, 6, 0, 2, 0]]]]],
            [[[[6, 6]]]],
            spatial_scale=1,
            pooled_size=(2, 1),
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        roi = graph.input("roi", sizes=[1] * (rank - 1) + [5], dtype=dtype)
        add_node(graph, self.operator, [x, roi], spatial_scale=1, pooled_size=[1] * 2)

    def test_a_region_has_five_numbers(self) -> None:
        error = refused(self.operator, [IMAGES, BOXES[..., :4]], spatial_scale=1, pooled_size=[1, 1])
        assert (error.field, error.got, error.allowed) == ("roi.sizes", [1, 1, 4, 4], "[1, 1, regions, 5]")
        error = refused(self.operator, [IMAGES, BOXES.reshape(1, 2, 2, 5)], spatial_scale=1, pooled_size=[1, 1])
        assert error.field == "roi.sizes"

    @pytest.mark.parametrize("scale", [1.0, 0.0, NAN, INF, -1.0, 1e30])
    def test_regions_that_are_no_numbers(self, scale: float, device: DeviceName) -> None:
        regions = array([[[[0, NAN, 0, 1e30, -INF], [0, INF, INF, 1, 1], [0, 0, 0, 1, 1]]]], "float32")
        got = run(self.operator, [IMAGES, regions], device=device, spatial_scale=scale, pooled_size=[2, 2])
        assert np.isfinite(got).all()

    def test_pooled_size_is_at_least_1(self) -> None:
        error = refused(self.operator, self.sample.inputs, spatial_scale=1, pooled_size=[1, 0])
        assert (error.field, error.got) == ("pooled_size.1", 0)


def align_row(why: str, base: dict[str, Any], of: str = "float32", **fields: Any) -> Any:
    x, regions = IMAGES.astype(of), REGIONS.astype(of)
    gives = aligned(x, regions, BATCHES, 2, 4, **fields)
    return case(why, [x, regions, BATCHES], gives, of, output={"sizes": gives.shape}, **base | fields)


def align_cases(base: dict[str, Any]) -> tuple[Any, ...]:
    return (
        *(align_row("linear", base, of) for of in FLOATS),
        *(align_row("nearest", base, of, interpolation_mode="nearest_neighbor") for of in FLOATS),
        align_row("more samples", base, maximum_samples_per_output=4),
        align_row("at least two samples", base, minimum_samples_per_output=2, maximum_samples_per_output=4),
        align_row("max", base, maximum_samples_per_output=3, reduction_function="max"),
        align_row("scales", base, spatial_scale_x=0.5, spatial_scale_y=0.75),
        align_row("beyond the edge", base, out_of_bounds_input_value=100.0),
    )


class AlignTests(OperatorTests):
    levels = "3.0: 4D F32 F16"
    ulp: ClassVar = {"reference": 1, "directml:software": 64}
    ulp_floor: ClassVar = {"reference": 1.0, "directml:software": 1.0}
    base: ClassVar[dict[str, Any]]

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        roi, batches = graph.input("r", sizes=[1, 4], dtype=dtype), graph.input("b", sizes=[1], dtype="uint32")
        add_node(graph, self.operator, [x, roi, batches], sizes=[1] * 4, **self.base)

    def test_sizes_must_be_given_and_fit(self) -> None:
        error = refused(self.operator, self.sample.inputs, **self.base)
        assert (error.field, error.allowed) == ("output.sizes", "[4, 2, height, width]")
        assert refused(self.operator, self.sample.inputs, sizes=[4, 3, 2, 2], **self.base).got == [4, 3, 2, 2]

    def test_regions_and_batches_fit(self) -> None:
        error = refused(self.operator, [IMAGES, REGIONS[:, :3], BATCHES], sizes=[4, 2, 2, 2], **self.base)
        assert error.field == "roi.sizes"
        error = refused(self.operator, [IMAGES, REGIONS, BATCHES[:3]], sizes=[4, 2, 2, 2], **self.base)
        assert (error.field, error.got, error.allowed) == ("batch_indices.sizes", [3], "[4]")

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"reduction_function": "sum"}, "reduction_function"),
            ({"minimum_samples_per_output": 0}, "minimum_samples_per_output"),
            ({"minimum_samples_per_output": 3, "maximum_samples_per_output": 2}, "maximum_samples_per_output"),
            ({"spatial_scale_x": -1.0}, "spatial_scale_x"),
            ({"spatial_scale_y": math.inf}, "spatial_scale_y"),
            ({"spatial_scale_y": -math.inf}, "spatial_scale_y"),
        ],
    )
    def test_what_is_not_legal_is_named(self, fields: dict[str, Any], field: str) -> None:
        assert refused(self.operator, self.sample.inputs, sizes=[4, 2, 2, 4], **self.base | fields).field == field

    @pytest.mark.parametrize("function", ["average", "max"])
    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    def test_regions_that_are_no_numbers(self, function: str, mode: str, device: DeviceName) -> None:
        """NaN, which the length of an infinite region is too, is at the first element; distant positions are outside.

        A maximum ignores NaN, and starts from the least number.
        """
        x = array([[[[3, 5], [7, 9]]]], "float32")
        regions = array([[NAN] * 4, [INF, 0, INF, 0], [1e9, 1e9, 1e9, 1e9], [0, 0, 1, 1]], "float32")
        batches = array([0] * 4, "uint32")
        fields = self.base | {"reduction_function": function, "interpolation_mode": mode}
        got = run(self.operator, [x, regions, batches], device=device, sizes=[4, 1, 1, 1], **fields)
        least = float(np.finfo("float32").min)
        first = {"nearest_neighbor": 3, "linear": NAN if function == "average" else least}[mode]
        assert_same(got.ravel(), array([first, first, -8, 3], "float32"))

    def test_a_scale_may_be_zero_or_nan(self, device: DeviceName) -> None:
        for scale in (0.0, NAN):
            fields = self.base | {"spatial_scale_x": scale, "interpolation_mode": "nearest_neighbor"}
            got = run(self.operator, self.sample.inputs, device=device, sizes=[4, 2, 1, 1], **fields)
            assert np.isfinite(got).all()

    def test_a_maximum_passes_nan_over(self, device: DeviceName) -> None:
        x = array([[[[NAN, NAN], [NAN, 2]]]], "float32")
        inputs = [x, array([[0, 0, 2, 2]], "float32"), array([0], "uint32")]
        fields = self.base | {
            "reduction_function": "max",
            "interpolation_mode": "nearest_neighbor",
            "minimum_samples_per_output": 2,
            "maximum_samples_per_output": 2,
        }
        got = run(self.operator, inputs, device=device, sizes=[1, 1, 1, 1], **fields)
        assert_same(got, array([[[[2]]]], "float32"))

    def test_leading_sizes_of_1_change_nothing(self) -> None:
        x, regions, batches = self.sample.inputs
        inputs = [x, regions.reshape(1, 1, 4, 4), batches.reshape(1, 1, 1, 4)]
        assert_same(
            run(self.operator, inputs, **self.sample.fields),
            run(self.operator, self.sample.inputs, **self.sample.fields),
        )


class TestRoiAlign(AlignTests):
    operator, base = "roi_align", ALIGN
    cases = align_cases(ALIGN)
    sample = cases[0]


class TestRoiAlign1(AlignTests):
    operator, base = "roi_align1", ALIGN1
    levels = "4.0: 4D F32 F16"
    cases = (
        *align_cases(ALIGN1),
        align_row("offsets", ALIGN1, input_pixel_offset=0.25, output_pixel_offset=0.0),
        align_row(
            "aligned to corners", ALIGN1, align_regions_to_corners=True, input_pixel_offset=0.0, output_pixel_offset=0.0
        ),
        align_row("aligned to corners, outside from the edges on", ALIGN1, align_regions_to_corners=True),
        align_row(
            "aligned to corners, more samples",
            ALIGN1,
            align_regions_to_corners=True,
            minimum_samples_per_output=2,
            maximum_samples_per_output=2,
        ),
    )
    sample = cases[0]

    def test_a_single_aligned_sample_is_in_the_middle(self, device: DeviceName) -> None:
        line = array([[[[0, 1, 2, 4, 8, 16, 32, 64]]]], "float32")
        fields = ALIGN1 | {"align_regions_to_corners": True, "input_pixel_offset": 0.0, "output_pixel_offset": 0.0}
        got = run(
            "roi_align1",
            [line, array([[1, 0, 5, 0]], "float32"), array([0], "uint32")],
            device=device,
            sizes=[1, 1, 1, 1],
            **fields,
        )
        assert_same(got, array([[[[4]]]], "float32"))

    def test_a_length_is_rounded_to_float32(self, device: DeviceName) -> None:
        """Its two halves have two samples each, though the difference of the float32 corners is more than 4."""
        line = array([[[[0, 1, 4, 9, 16, 25]]]], "float32")
        got = run(
            "roi_align1",
            [line, array([[0.3, 0, 4.3, 0]], "float32"), array([0], "uint32")],
            device=device,
            sizes=[1, 1, 1, 2],
            **ALIGN1 | {"input_pixel_offset": 0.0, "maximum_samples_per_output": 9},
        )
        np.testing.assert_allclose(got.ravel(), [(0.8 + 3.4) / 2, (8 + 14.6) / 2], 1e-6)
