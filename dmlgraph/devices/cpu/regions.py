"""Regions of interest as native steps, in float32."""

from __future__ import annotations

import numpy as np

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.devices.cpu.parts import Parts
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction
from dmlgraph.operators.roi import AligningForward, RoiAlign, RoiAlign1, RoiPooling


def _align(operator: AligningForward) -> Lowered:
    step = cpu_steps.RegionAlignment(
        is_maximum=operator.reduction_function is ReduceFunction.MAX,
        is_nearest=operator.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR,
        aligns_to_corners=operator.align_regions_to_corners,
        least_samples=operator.minimum_samples_per_output,
        most_samples=operator.maximum_samples_per_output,
        scales=(operator.spatial_scale_x, operator.spatial_scale_y),
        offsets=(operator.input_pixel_offset, operator.output_pixel_offset),
        bounds=(operator.out_of_bounds_input_value, _least(operator.output)),
    )
    return _in_single(operator, step)


def _pool(operator: RoiPooling) -> Lowered:
    return _in_single(operator, cpu_steps.RegionPooling(scale=operator.spatial_scale, least=_least(operator.output)))


def _least(desc: TensorDesc) -> float:
    return float(np.finfo(desc.dtype.numpy).min)


def _in_single(operator: AligningForward | RoiPooling, step: cpu_steps.Step) -> Lowered:
    """The step on packed tensors, those of floats in float32."""
    parts, output = Parts(operator), operator.output
    given = [(each.single() if each.dtype.is_float else each).packed() for each in parts.inputs()]
    is_single = output.dtype is DataType.FLOAT32
    made = output if is_single and output.strides is None else TensorDesc(dtype=DataType.FLOAT32, sizes=output.sizes)
    result = parts.step(step, *given, output=made)
    if made is not output:
        parts.store(result, output)
    return parts.finish()


REGIONS: Lowerings = {**lowers(_align, RoiAlign, RoiAlign1), **lowers(_pool, RoiPooling)}
