"""What the tests of ROI_ALIGN, ROI_ALIGN1 and their gradient share: regions of images and the documented pseudocode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from support.operators.harness import Array, array

IMAGES = (np.arange(2 * 2 * 5 * 6) * 37 % 61 - 30).reshape(2, 2, 5, 6).astype("float32")
ALIGN = {
    "reduction_function": "average",
    "interpolation_mode": "linear",
    "spatial_scale_x": 1.0,
    "spatial_scale_y": 1.0,
    "out_of_bounds_input_value": -8.0,
    "minimum_samples_per_output": 1,
    "maximum_samples_per_output": 1,
}
ALIGN1: dict[str, Any] = ALIGN | {
    "input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False,
}  # fmt: skip
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
