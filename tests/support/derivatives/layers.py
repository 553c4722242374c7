"""Convolutions, poolings, normalizations and other layers of networks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from support.derivatives.case import Case, away

import dmlgraph as dg


def convolution(x: dg.Value, w: dg.Value, *bias: dg.Value, **fields: Any) -> Any:
    return dg.convolution(x, w, *bias, **fields)


CONVOLUTIONS = [
    Case(name, functools.partial(convolution, **fields), given, -1, 1)
    for name, given, fields in (
        ("convolution", [[2, 2, 4, 5], [3, 2, 2, 3], [3]], {"start_padding": [1, 0], "end_padding": [0, 1]}),
        ("convolution, activated", [[1, 1, 3, 3], [2, 1, 2, 2], [2]], {"fused_activation": "activation_tanh"}),
        (
            "convolution with steps",
            [[1, 2, 6, 7], [2, 2, 2, 2], [1, 2, 1, 1]],
            {"strides": [2, 3], "dilations": [2, 1], "start_padding": [1, 0], "end_padding": [0, 1]},
        ),
        ("convolution, cropped", [[1, 1, 6, 5], [1, 1, 2, 2]], {"strides": [4, 3], "end_padding": [1, 0]}),
        ("convolution in groups", [[2, 4, 3, 3], [4, 2, 2, 2]], {"group_count": 2, "output_padding": [1, 2]}),
        ("convolution by channels", [[2, 3, 4, 4], [6, 1, 2, 2], [6]], {"group_count": 3, "strides": [2, 2]}),
        ("convolution, mirrored", [[1, 2, 4, 4], [2, 2, 2, 3]], {"mode": "convolution", "strides": [1, 2]}),
        ("convolution of volumes", [[1, 1, 3, 3, 3], [2, 1, 2, 2, 2]], {"strides": [1, 2, 1]}),
        (
            "convolution backward",
            [[2, 2, 2, 3], [2, 3, 2, 2], [3]],
            {
                "direction": "backward",
                "strides": [2, 1],
                "dilations": [1, 2],
                "start_padding": [1, 0],
                "output_padding": [1, 0],
            },
        ),
        (
            "convolution backward in groups",
            [[1, 4, 2, 2], [4, 1, 2, 2]],
            {"direction": "backward", "group_count": 2, "strides": [2, 2], "mode": "convolution"},
        ),
    )
]
WINDOW: Any = {"window_size": [2, 3], "strides": [2, 1], "start_padding": [1, 1], "end_padding": [0, 1]}
POOLINGS = [
    *(
        Case(f"{name} {padded}", functools.partial(getattr(dg, name), include_padding=padded, **WINDOW), [[2, 2, 4, 4]])
        for name in ("average_pooling", "average_pooling1")
        for padded in (False, True)
    ),
    *(
        Case(
            f"average_pooling1 dilated {padded}",
            functools.partial(dg.average_pooling1, include_padding=padded, dilations=[2, 1], **WINDOW),
            [[1, 2, 4, 4]],
        )
        for padded in (False, True)
    ),
    *(
        Case(f"lp_pooling {p}", functools.partial(dg.lp_pooling, p=p, **WINDOW), [away([1, 2, 4, 4])])
        for p in (1, 2, 3)
    ),
    Case("lp_pooling1", functools.partial(dg.lp_pooling1, p=2, dilations=[1, 2], **WINDOW), [[1, 2, 4, 4]]),
    Case("max_pooling", functools.partial(dg.max_pooling, **WINDOW), [away([2, 2, 4, 4])]),
    Case("max_pooling1", lambda x: dg.max_pooling1(x, output_indices=True, **WINDOW), [away([1, 2, 4, 4])]),
    Case("max_pooling2", functools.partial(dg.max_pooling2, dilations=[2, 1], **WINDOW), [away([1, 1, 5, 4])]),
    Case(
        "average_pooling_grad",
        functools.partial(dg.average_pooling_grad, sizes=[1, 1, 4, 4], include_padding=False, **WINDOW),
        [[1, 1, 2, 4]],
    ),
    Case(
        "max_pooling_grad",
        functools.partial(dg.max_pooling_grad, **WINDOW),
        [away([1, 1, 4, 4]), [1, 1, 2, 4]],
    ),
    Case(
        "max_unpooling",
        functools.partial(dg.max_unpooling, sizes=[1, 1, 4, 4]),
        [[1, 1, 2, 2], np.array([[[[5, 7], [13, 2]]]], np.uint32)],
    ),
]
BATCH: Any = [[2, 3, 2, 2], [3], np.array([0.5, 1.5, 2.0]), [3], [3]]
NORMALIZATIONS = [
    Case("batch_normalization", functools.partial(dg.batch_normalization, spatial=True, epsilon=0.1), BATCH),
    Case(
        "batch_normalization, activated",
        functools.partial(dg.batch_normalization, spatial=True, epsilon=0.1, fused_activation="activation_sigmoid"),
        [[2, 3, 2, 2], [1, 3, 1, 1], np.full((1, 3, 1, 1), 1.5), [1, 1, 1, 1], [1, 3, 2, 2]],
    ),
    Case(
        "batch_normalization_training",
        functools.partial(dg.batch_normalization_training, epsilon=0.1),
        [[2, 3, 2, 2], [3], [3]],
    ),
    Case(
        "batch_normalization, other sizes",
        functools.partial(dg.batch_normalization, spatial=True, epsilon=0.1),
        [[2, 3, 2, 2], [1, 3, 1, 1], np.full((1, 1, 1, 1), 1.5), [1, 3, 2, 1], [1, 1, 1, 1]],
    ),
    Case(
        "batch_normalization_training, only normalized",
        lambda x, s, b, a: (
            dg.batch_normalization_training(x, s, b, a, epsilon=0.1, fused_activation="activation_tanh").output
        ),
        [[2, 3, 2, 2], [1, 3, 1, 1], [1, 3, 1, 1], [2, 3, 2, 2]],
    ),
    *(
        Case(
            f"mean_variance_normalization {across} {divided}",
            functools.partial(
                dg.mean_variance_normalization, cross_channel=across, normalize_variance=divided, epsilon=0.1
            ),
            [[2, 3, 2, 2], [1, 3, 1, 1], [1, 3, 1, 1]],
        )
        for across in (False, True)
        for divided in (False, True)
    ),
    Case(
        "mean_variance_normalization1",
        functools.partial(
            dg.mean_variance_normalization1,
            axes=[3],
            normalize_variance=True,
            epsilon=0.1,
            fused_activation="activation_tanh",
        ),
        [[2, 3, 1, 4], [1, 1, 1, 4], [1, 1, 1, 4]],
    ),
    Case(
        "layer without scale",
        functools.partial(dg.mean_variance_normalization1, axes=[1, 2, 3], normalize_variance=True, epsilon=0.1),
        [[2, 2, 1, 3]],
    ),
    *(
        Case(
            f"mean_variance_normalization2 {mean} {variance}",
            functools.partial(
                dg.mean_variance_normalization2, axes=[3], use_mean=mean, use_variance=variance, epsilon=0.1
            ),
            [[2, 1, 2, 4], [1, 1, 1, 4]],
        )
        for mean in (False, True)
        for variance in (False, True)
    ),
    *(
        Case(
            f"local_response_normalization {size} {across}",
            functools.partial(
                dg.local_response_normalization, cross_channel=across, local_size=size, alpha=0.9, beta=0.75, bias=1.2
            ),
            [[1, 4, 3, 3]],
        )
        for size in (2, 3)
        for across in (False, True)
    ),
    *(
        Case(
            f"lp_normalization {p}", functools.partial(dg.lp_normalization, axis=1, epsilon=0.1, p=p), [away([2, 4, 2])]
        )
        for p in (1, 2)
    ),
]
WINDOWS: Any = {"window_sizes": [2, 2], "strides": [2, 1], "dilations": [1, 2], "start_padding": [1, 0]}
IMAGES: Any = {"interpolation_mode": "linear"}
RESAMPLINGS = [
    *(
        Case(name, functools.partial(function, interpolation_mode=mode), [[1, 2, 3, 2]])
        for mode in ("linear", "nearest_neighbor")
        for name, function in (
            (f"upsample_2d {mode}", functools.partial(dg.upsample_2d, scale_size=[3, 2])),
            (f"resample {mode}", functools.partial(dg.resample, scales=[1, 1, 1.5, 2])),
            (f"resample1 {mode}", functools.partial(dg.resample1, sizes=[1, 2, 5, 3])),
            (f"resample2 {mode}", functools.partial(dg.resample2, sizes=[1, 2, 2, 5], rounding_direction="decreasing")),
            (f"resample3 {mode}", functools.partial(dg.resample3, sizes=[1, 2, 2, 5])),
        )
    ),
    Case(
        "resample1 moved",
        functools.partial(
            dg.resample1,
            sizes=[1, 1, 5, 3],
            input_pixel_offsets=[0, 0, 0, 0.25],
            output_pixel_offsets=[0, 0, 0, -0.75],
            **IMAGES,
        ),
        [[1, 1, 3, 4]],
    ),
    Case(
        "resample1 extrapolated",
        functools.partial(
            dg.resample1,
            sizes=[1, 1, 5, 3],
            input_pixel_offsets=[0, 0, 1.5, 0],
            output_pixel_offsets=[0, 0, 0, 0],
            **IMAGES,
        ),
        [[1, 1, 3, 4]],
    ),
    Case(
        "resample3 smooth",
        functools.partial(dg.resample3, sizes=[1, 1, 2, 3], antialiased=True, **IMAGES),
        [[1, 1, 6, 3]],
    ),
    Case("resample_grad", functools.partial(dg.resample_grad, sizes=[1, 1, 2, 2], **IMAGES), [[1, 1, 3, 4]]),
    Case(
        "resample_grad1",
        functools.partial(
            dg.resample_grad1,
            sizes=[1, 1, 2, 2],
            rounding_direction="increasing",
            interpolation_mode="nearest_neighbor",
        ),
        [[1, 1, 3, 4]],
    ),
    Case("unfold", functools.partial(dg.unfold, **WINDOWS), [[1, 2, 3, 4]]),
    Case("fold", functools.partial(dg.fold, sizes=[1, 2, 3, 4], **WINDOWS), [[1, 8, 4]]),
]
REGIONS: Any = {
    "spatial_scale_x": 1,
    "spatial_scale_y": 1,
    "out_of_bounds_input_value": 0,
    "minimum_samples_per_output": 1,
    "maximum_samples_per_output": 4,
    "sizes": [2, 2, 2, 2],
}
BOXES = np.array([[0, 0, 4, 4], [1, 0, 5, 2]])


def roi(x: dg.Value, function: Any, **fields: Any) -> Any:
    boxes = x.graph.constant("boxes", BOXES.astype(np.float32))
    return function(x, boxes, x.graph.constant("images", np.array([0, 1], np.uint32)), **REGIONS, **fields)


REGION_CASES = [
    *(
        Case(
            f"roi_align {reduction} {mode}",
            functools.partial(roi, function=dg.roi_align, reduction_function=reduction, interpolation_mode=mode),
            [away([2, 2, 4, 5])],
        )
        for reduction in ("average", "max")
        for mode in ("linear", "nearest_neighbor")
    ),
    Case(
        "roi_align1",
        functools.partial(
            roi,
            function=dg.roi_align1,
            reduction_function="average",
            interpolation_mode="linear",
            input_pixel_offset=0.5,
            output_pixel_offset=-0.5,
            align_regions_to_corners=True,
        ),
        [[2, 2, 4, 5]],
    ),
]
CASES = [*NORMALIZATIONS, *RESAMPLINGS, *REGION_CASES, *CONVOLUTIONS, *POOLINGS]
