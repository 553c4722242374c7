"""RoiAlign with mode max, against ONNX Runtime's CPU, which takes the greatest weighted term as ONNX's example does."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Case, Chance, Makers
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

making = Makers()


@making(6)
def _roi_align_max(chance: Chance) -> Case:
    """Images of one element, regions beyond the image and without area, samples exactly at edges."""
    batch, channels, height, width = chance.size(1, 2), chance.size(1, 3), chance.size(1, 7), chance.size(1, 7)
    rois = chance.numbers.uniform(-4, 12, (chance.size(1, 4), 4))
    rois = np.round(rois) if chance.flag() else rois
    rois[:, 2:] = np.maximum(rois[:, :2], rois[:, 2:])
    fields: dict[str, Any] = {name: chance.size(1, 3) for name in ("output_height", "output_width", "sampling_ratio")}
    fields |= {"mode": "max", "spatial_scale": chance.one(1.0, 0.5)}
    opset = chance.one(10, 16)
    mode = chance.one("half_pixel", "output_half_pixel", None) if opset == 16 else None
    fields |= {"coordinate_transformation_mode": mode} if mode else {}
    inputs = [chance.floats(batch, channels, height, width), rois.astype(np.float32), chance.below(batch, len(rois))]
    inputs[2] = inputs[2].astype(np.int64)
    return Case("RoiAlign", inputs, fields, domain="", opset=opset, known=chance.one((), (1,), (1, 2)))


@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives() -> None:
    making.check("roi_align_max")


IMAGE, REGIONS = np.zeros((1, 1, 4, 4), np.float32), np.array([[0, 0, 3, 3]], np.float32)
CASE = Case("RoiAlign", [IMAGE, REGIONS, np.zeros(1, np.int64)], {"mode": "max", "sampling_ratio": 2}, domain="")


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_float16(device: DeviceName) -> None:
    """The samples lie at 0.25 and 1.75; the term of 8 · 0.75² is the greatest, exactly."""
    image = np.zeros((1, 1, 4, 4), np.float16)
    image[0, 0, 2, 2] = 8
    regions = np.array([[0.0, 0, 3, 3]], np.float16)
    case = dataclasses.replace(CASE, inputs=[image, regions, np.zeros(1, np.int64)])
    case.check([np.array([[[[8 * 0.75**2]]]], np.float16)], device)


def test_samples_whose_number_depends_on_the_regions_are_refused() -> None:
    case = dataclasses.replace(CASE, attributes={"mode": "max"})
    with raises(dg.ModelError, "unsupported", node="n", field="sampling_ratio", got=0, allowed="1 and more"):
        case.graph()
