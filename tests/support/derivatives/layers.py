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
CASES = [*CONVOLUTIONS, *POOLINGS]
