"""Regions of interest as native steps, in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.parts import Parts, Tensor
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import InterpolationMode, ReduceFunction
from dmlgraph.operators.roi import AligningForward, RoiAlign, RoiAlign1, RoiPooling

Payload = tuple[str, Any]


def _align(operator: AligningForward) -> Payload | None:
    return _step(
        "region_alignment",
        operator,
        is_maximum=operator.reduction_function is ReduceFunction.MAX,
        is_nearest=operator.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR,
        aligns_to_corners=operator.align_regions_to_corners,
        least_samples=operator.minimum_samples_per_output,
        most_samples=operator.maximum_samples_per_output,
        scales=(operator.spatial_scale_x, operator.spatial_scale_y),
        offsets=(operator.input_pixel_offset, operator.output_pixel_offset),
        bounds=(operator.out_of_bounds_input_value, _least(operator.output)),
    )


def _pool(operator: RoiPooling) -> Payload | None:
    return _step("region_pooling", operator, scale=operator.spatial_scale, least=_least(operator.output))


def _least(desc: TensorDesc) -> float:
    return float(np.finfo(desc.dtype.numpy).min)


def _step(name: str, operator: Any, **parameters: Any) -> Payload | None:
    """The step; its parameters are those of its struct in native/cpu/steps."""
    parts, output = Parts(), operator.output
    tensors = [Tensor(port, desc) for port, desc in enumerate(operator.input_descs)]
    given = [parts.packed(parts.single(each) if each.desc.dtype.is_float else each) for each in tensors]
    is_single = output.dtype is DataType.FLOAT32
    made = output if is_single and output.strides is None else TensorDesc(dtype=DataType.FLOAT32, sizes=output.sizes)
    result = parts.step(name, parameters, *given, output=made)
    if made is not output:
        parts.convert_to(result, output)
    return parts.finish()


REGIONS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    RoiAlign: _align,
    RoiAlign1: _align,
    RoiPooling: _pool,
}
