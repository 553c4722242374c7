"""Regions of interest."""

from __future__ import annotations

from dmlgraph.onnx.export.node import INT64, Node, Tensor
from dmlgraph.onnx.export.table import exports
from dmlgraph.onnx.refusals import Refusal
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction


@exports("roi_pooling", how="MaxRoiPool")
def _pool(node: Node) -> Tensor:
    width, height = node.field("pooled_size")
    regions = node.flat("roi", node.output.sizes[0], 5)
    scale = node.field("spatial_scale")
    return node.call("MaxRoiPool", node["input"], regions, pooled_shape=[height, width], spatial_scale=scale)


def _require(field: str, holds: bool, got: object, allowed: str) -> None:
    """Refuses what ONNX's RoiAlign does not have."""
    if not holds:
        raise Refusal("ONNX's RoiAlign has no such regions", field=field, got=got, allowed=allowed)


@exports("roi_align", "roi_align1", how="RoiAlign, where it has the same samples")
def _align(node: Node) -> Tensor:
    into, out_of = node.field("input_pixel_offset"), node.field("output_pixel_offset")
    least, most = node.field("minimum_samples_per_output"), node.field("maximum_samples_per_output")
    scale, outside = node.field("spatial_scale_x"), node.field("out_of_bounds_input_value")
    function, mode = node.field("reduction_function"), node.field("interpolation_mode")
    corners = node.field("align_regions_to_corners")
    _require("reduction_function", function is ReduceFunction.AVERAGE, str(function), "average")
    _require("interpolation_mode", mode is InterpolationMode.LINEAR, str(mode), "linear")
    _require("spatial_scale_y", node.field("spatial_scale_y") == scale, node.field("spatial_scale_y"), str(scale))
    _require("input_pixel_offset", into in (0, 0.5), into, "0, 0.5")
    _require("output_pixel_offset", out_of == -0.5, out_of, "-0.5")
    _require("out_of_bounds_input_value", outside == 0, outside, "0")
    _require("align_regions_to_corners", not corners, corners, "false")
    adaptive = least == 1 and most >= 2**31
    _require("maximum_samples_per_output", adaptive or least == most, most, f"{least}, or 2147483648 or more")
    regions = node.output.sizes[0]
    batches = node.cast(node.flat("batch_indices", regions), INT64)
    return node.call(
        "RoiAlign",
        node["input"],
        node.flat("roi", regions, 4),
        batches,
        coordinate_transformation_mode="half_pixel" if into else "output_half_pixel",
        mode="avg",
        output_height=node.output.sizes[2],
        output_width=node.output.sizes[3],
        sampling_ratio=0 if adaptive else least,
        spatial_scale=scale,
    )
