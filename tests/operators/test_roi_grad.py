"""ROI_ALIGN_GRAD, as the transpose of the documented pseudocode of ROI_ALIGN1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators.harness import FLOATS, INF, Array, add_node, array, assert_same, case, refused, run_all
from support.operators.regions import ALIGN1, BATCHES, IMAGES, REGIONS, aligned

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

GRADIENT: dict[str, Any] = {key: value for key, value in ALIGN1.items() if key != "out_of_bounds_input_value"}
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

    def test_gives(self, case: Any, device: DeviceName) -> None:
        (got,) = run_all(self.operator, case.inputs, device=device, **case.fields)
        assert_same(got, case.gives[0])

    def gradients(self, x: Any, dy: Array, device: DeviceName = "reference", **fields: Any) -> list[Array]:
        asked = {"output_gradient": True} if x is not None else {"output_gradient": {"sizes": IMAGES.shape}}
        return run_all("roi_align_grad", [x, dy, REGIONS, BATCHES], device=device, **asked | GRADIENT | fields)

    @pytest.mark.parametrize("aligned_corners", [False, True])
    @pytest.mark.parametrize("mode", ["linear", "nearest_neighbor"])
    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("reduction", ["average", "max"])
    def test_is_the_transpose_of_the_forward_operator(
        self, mode: str, samples: int, reduction: str, aligned_corners: bool, device: DeviceName
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
        given: dict[str, Any] = {field: scale}
        with pytest.raises(dg.OperatorError) as caught:
            self.gradients(array([[[[1, 2]]]], "float32"), array([[[[1]]]], "float32"), **given)
        assert (caught.value.field, caught.value.got) == (field, scale)
        assert caught.value.allowed == "0 or more, finite"

    def test_what_goes_beyond_the_last_batch_is_dropped(self, device: DeviceName) -> None:
        inputs = [None, array([[[[5]]], [[[7]]]], "float32"), array([[0, 0, 1, 1]] * 2, "float32")]
        fields = GRADIENT | {"output_gradient": {"sizes": [1, 1, 1, 1]}, "output_roi_gradient": False}
        (got,) = run_all("roi_align_grad", [*inputs, array([0, 1], "uint32")], device=device, **fields)
        assert_same(got, array([[[[5]]]], "float32"))

    def test_one_output_must_be_asked_for(self) -> None:
        dy = np.ones((4, 2, 2, 4), "float32")
        assert refused("roi_align_grad", [IMAGES, dy, REGIONS, BATCHES], **GRADIENT).field == "output_gradient"

    @pytest.mark.parametrize("aligned_corners", [False, True])
    @pytest.mark.parametrize("samples", [1, 2, 3])
    def test_corners_count_steps_of_samples(self, samples: int, aligned_corners: bool, device: DeviceName) -> None:
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
