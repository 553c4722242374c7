"""ROI_POOLING, ROI_ALIGN, ROI_ALIGN1 and ROI_ALIGN_GRAD, compared with the documented pseudocode."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

import dmlgraph as dg

from .checks import OperatorTests
from .harness import FLOATS, INF, NAN, Array, add_node, array, assert_same, case, refused, run, run_all

IMAGES = (np.arange(2 * 2 * 5 * 6) * 37 % 61 - 30).reshape(2, 2, 5, 6).astype("float32")
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

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        roi = graph.input("roi", sizes=[1] * (rank - 1) + [5], dtype=dtype)
        add_node(graph, self.operator, [x, roi], spatial_scale=1, pooled_size=[1] * 2)

    def test_a_region_has_five_numbers(self) -> None:
        error = refused(self.operator, [IMAGES, BOXES[..., :4]], spatial_scale=1, pooled_size=[1, 1])
        assert (error.field, error.got, error.allowed) == ("roi.sizes", [1, 1, 4, 4], "[1, 1, regions, 5]")
        error = refused(self.operator, [IMAGES, BOXES.reshape(1, 2, 2, 5)], spatial_scale=1, pooled_size=[1, 1])
        assert error.field == "roi.sizes"

    @pytest.mark.parametrize("scale", [1.0, 0.0, NAN, INF, -1.0, 1e30])
    def test_regions_that_are_no_numbers(self, scale: float, device: str) -> None:
        regions = array([[[[0, NAN, 0, 1e30, -INF], [0, INF, INF, 1, 1], [0, 0, 0, 1, 1]]]], "float32")
        got = run(self.operator, [IMAGES, regions], device=device, spatial_scale=scale, pooled_size=[2, 2])
        assert np.isfinite(got).all()

    def test_pooled_size_is_at_least_1(self) -> None:
        error = refused(self.operator, self.sample.inputs, spatial_scale=1, pooled_size=[1, 0])
        assert (error.field, error.got) == ("pooled_size.1", 0)


ALIGN = {
    "reduction_function": "average",
    "interpolation_mode": "linear",
    "spatial_scale_x": 1.0,
    "spatial_scale_y": 1.0,
    "out_of_bounds_input_value": -8.0,
    "minimum_samples_per_output": 1,
    "maximum_samples_per_output": 1,
}
ALIGN1 = ALIGN | {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
REGIONS = array([[1, 1, 5, 4], [5, 3, 1, 1], [-2, -1, 6, 7], [2, 2, 2, 2]], "float32")
BATCHES = array([0, 1, 1, 0], "uint32")


def aligned(x: Array, regions: Array, batches: Array, height: int, width: int, **fields: Any) -> Array:
    """The documented pseudocode, sample by sample."""
    f = ALIGN1 | fields
    result = np.zeros((len(regions), x.shape[1], height, width))

    def places(start: float, end: float, count: int) -> list[list[float]]:
        least, most = f["minimum_samples_per_output"], f["maximum_samples_per_output"]
        n = min(max(math.ceil(abs(end - start) / count), least), most)
        step = (end - start) / (n * count - (1 if f["align_regions_to_corners"] else 0))
        return [
            [(s - f["output_pixel_offset"]) * step + start - f["input_pixel_offset"] for s in range(o * n, o * n + n)]
            for o in range(count)
        ]

    def read(image: Array, y: float, x: float) -> float:
        rows, columns = image.shape
        aligned_inside = 0 <= y <= rows - 1 and 0 <= x <= columns - 1
        if not (aligned_inside if f["align_regions_to_corners"] else -1 < y < rows and -1 < x < columns):
            return float(f["out_of_bounds_input_value"])
        if f["interpolation_mode"] == "nearest_neighbor":
            y, x = math.floor(y + 0.5), math.floor(x + 0.5)
        y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
        top, left = math.floor(y), math.floor(x)
        bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
        above = image[top, left] + (x - left) * (image[top, right] - image[top, left])
        below = image[bottom, left] + (x - left) * (image[bottom, right] - image[bottom, left])
        return float(above + (y - top) * (below - above))

    for index, ((x1, y1, x2, y2), batch) in enumerate(zip(regions.astype(float), batches, strict=True)):
        rows = places(y1 * f["spatial_scale_y"], y2 * f["spatial_scale_y"], height)
        columns = places(x1 * f["spatial_scale_x"], x2 * f["spatial_scale_x"], width)
        for channel, row, column in np.ndindex(x.shape[1], height, width):
            samples = [read(x[batch, channel].astype(float), i, j) for i in rows[row] for j in columns[column]]
            reduced = max(samples) if f["reduction_function"] == "max" else sum(samples) / len(samples)
            result[index, channel, row, column] = reduced
    return result.astype(x.dtype)


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

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
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
    def test_regions_that_are_no_numbers(self, function: str, mode: str, device: str) -> None:
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

    def test_a_scale_may_be_zero_or_nan(self, device: str) -> None:
        for scale in (0.0, NAN):
            fields = self.base | {"spatial_scale_x": scale, "interpolation_mode": "nearest_neighbor"}
            got = run(self.operator, self.sample.inputs, device=device, sizes=[4, 2, 1, 1], **fields)
            assert np.isfinite(got).all()

    def test_a_maximum_passes_nan_over(self, device: str) -> None:
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

    def test_a_single_aligned_sample_is_in_the_middle(self, device: str) -> None:
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


GRADIENT = {key: value for key, value in ALIGN1.items() if key != "out_of_bounds_input_value"}


RAMP = np.broadcast_to(np.arange(6, dtype="float32"), (1, 1, 5, 6))


def region_row(why: str, inputs: list[Any], gives: Any, of: str, **fields: Any) -> Any:
    """A row of ROI_ALIGN_GRAD with one region; inputs are the image, the gradient and the region."""
    return case(why, [*inputs, array([0], "uint32")], gives, of, **GRADIENT | fields)


class TestRoiAlignGrad:
    """Gradients of the input and of the regions."""

    operator = "roi_align_grad"
    cases = (
        *(
            region_row("an average needs no input", [None, [[[[8]]]], [[0, 0, 2, 2]]], [[[[2, 2], [2, 2]]]], of,
                       output_gradient={"sizes": [1, 1, 2, 2]})
            for of in FLOATS
        ),
        *(
            region_row("the nearest element takes all", [None, [[[[8]]]], [[0, 0, 2, 2]]], [[[[0, 0], [0, 8]]]], of,
                       output_gradient={"sizes": [1, 1, 2, 2]}, interpolation_mode="nearest_neighbor")
            for of in FLOATS
        ),
        # The documented pseudocode on a ramp of slope 1 along x: g · (6 − x) for x1, g · x for x2, x being 0 and 3.
        *(
            region_row("a slope moves the corners", [RAMP.astype(of), [[[[1, 10]]]], [[1, 1, 5, 3]]],
                       [[1 * 6 + 10 * 3, 0, 1 * 0 + 10 * 3, 0]], of, output_roi_gradient=True)
            for of in FLOATS
        ),
    )  # fmt: skip

    def test_gives(self, case: Any, device: str) -> None:
        (got,) = run_all(self.operator, case.inputs, device=device, **case.fields)
        assert_same(got, case.gives[0])

    def gradients(self, x: Any, dy: Array, device: str = "reference", **fields: Any) -> list[Array]:
        asked = {"output_gradient": True} if x is not None else {"output_gradient": {"sizes": IMAGES.shape}}
        return run_all("roi_align_grad", [x, dy, REGIONS, BATCHES], device=device, **asked | GRADIENT | fields)

    @pytest.mark.parametrize("aligned_corners", [False, True])
    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("reduction", ["average", "max"])
    def test_is_the_transpose_of_the_forward_operator(
        self, mode: str, samples: int, reduction: str, aligned_corners: bool, device: str
    ) -> None:
        """The output changes by ⟨gradient, direction⟩ when the input changes by a small direction.

        Measured: a sample outside counts as 0, also in a maximum.
        """
        fields = {
            "interpolation_mode": mode,
            "minimum_samples_per_output": samples,
            "maximum_samples_per_output": samples,
            "reduction_function": reduction,
            "align_regions_to_corners": aligned_corners,
        }
        random = np.random.default_rng(3)
        x, direction = random.normal(size=IMAGES.shape), random.normal(size=IMAGES.shape)
        dy = random.normal(size=(4, 2, 2, 4)).astype("float32")
        (image,) = self.gradients(x.astype("float32"), dy, device, **fields)
        outside = {"out_of_bounds_input_value": 0.0}
        step = 1e-4
        more, less = (
            aligned(x + sign * step * direction, REGIONS, BATCHES, 2, 4, **fields, **outside) for sign in (1, -1)
        )
        assert np.isclose(((more - less) / (2 * step) * dy).sum(), (image * direction).sum(), rtol=1e-3, atol=1e-3)

    def test_needs_an_input_for_regions_and_for_max(self) -> None:
        dy = np.ones((4, 2, 2, 4), "float32")
        self.gradients(None, dy)
        for fields in ({"reduction_function": "max"}, {"output_roi_gradient": True}):
            asked = {"output_gradient": {"sizes": IMAGES.shape}} | GRADIENT | fields
            assert refused("roi_align_grad", [None, dy, REGIONS, BATCHES], **asked).field == "input"

    @pytest.mark.parametrize("field", ["spatial_scale_x", "spatial_scale_y"])
    @pytest.mark.parametrize("scale", [-1.0, INF, -INF])
    def test_scales_are_finite_and_not_negative(self, field: str, scale: float) -> None:
        with pytest.raises(dg.OperatorError) as caught:
            self.gradients(array([[[[1, 2]]]], "float32"), array([[[[1]]]], "float32"), **{field: scale})
        assert (caught.value.field, caught.value.got) == (field, scale)
        assert caught.value.allowed == "0 or more, finite"

    def test_what_goes_beyond_the_last_batch_is_dropped(self, device: str) -> None:
        inputs = [None, array([[[[5]]], [[[7]]]], "float32"), array([[0, 0, 1, 1]] * 2, "float32")]
        fields = GRADIENT | {"output_gradient": {"sizes": [1, 1, 1, 1]}, "output_roi_gradient": False}
        (got,) = run_all("roi_align_grad", [*inputs, array([0, 1], "uint32")], device=device, **fields)
        assert_same(got, array([[[[5]]]], "float32"))

    def test_one_output_must_be_asked_for(self) -> None:
        dy = np.ones((4, 2, 2, 4), "float32")
        assert refused("roi_align_grad", [IMAGES, dy, REGIONS, BATCHES], **GRADIENT).field == "output_gradient"

    @pytest.mark.parametrize("aligned_corners", [False, True])
    @pytest.mark.parametrize("samples", [1, 2, 3])
    def test_corners_count_steps_of_samples(self, samples: int, aligned_corners: bool, device: str) -> None:
        """Measured: a position is relative to the steps of all samples; aligned, lengths and steps are 1 less."""
        fields = GRADIENT | {
            "minimum_samples_per_output": samples,
            "maximum_samples_per_output": samples,
            "align_regions_to_corners": aligned_corners,
            "input_pixel_offset": 0.0,
            "output_pixel_offset": 0.0,
        }
        (corners,) = run_all(
            "roi_align_grad",
            [RAMP, array([[[[1, 10]]]], "float32"), array([[1, 1, 4, 3]], "float32"), array([0], "uint32")],
            output_roi_gradient=True,
            device=device,
            **fields,
        )
        width, steps = (5, 2 * samples - 1) if aligned_corners else (6, 2 * samples)
        end = 10 * width / steps
        np.testing.assert_allclose(corners, [[11 * width - end, 0, end, 0]], rtol=1e-6)

    @pytest.mark.parametrize(("level", "legal"), [("4.0", False), ("4.1", True)])
    def test_levels(self, level: str, legal: bool) -> None:
        graph = dg.Graph("test", target=level)
        x, roi = graph.input("x", sizes=[1] * 4, dtype="float32"), graph.input("r", sizes=[1, 4], dtype="float32")
        batches = graph.input("b", sizes=[1], dtype="uint32")
        if legal:
            add_node(graph, "roi_align_grad", [x, x, roi, batches], output_gradient=True, **GRADIENT)
        else:
            with pytest.raises(dg.OperatorError, match=r"it appears at 4\.1"):
                add_node(graph, "roi_align_grad", [x, x, roi, batches], output_gradient=True, **GRADIENT)
