"""Operators that move elements, or find them by indices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from support.derivatives.case import Case, away

import dmlgraph as dg

DIRECTIONS: Any = ("increasing", "decreasing")
MOVES = [
    Case("join", lambda a, b: dg.join([a, b, a], axis=1), [[2, 3], [2, 1]]),
    Case("split", lambda x: dg.split(x, axis=1, outputs=[2, 1, 3]), [[2, 6]]),
    Case("split, one unread", lambda x: dg.split(x, axis=1, outputs=2)[1], [[2, 6]]),
    Case("tile", functools.partial(dg.tile, repeats=[2, 1, 3]), [[2, 3, 2]]),
    Case(
        "reverse_subsequences",
        functools.partial(dg.reverse_subsequences, axis=1),
        [[2, 4], np.array([[3], [4]], np.uint32)],
    ),
    Case("slice", functools.partial(dg.slice, offsets=[1, 0], sizes=[2, 2], strides=[1, 2]), [[3, 4]]),
    *(
        Case(
            f"slice1 {step}",
            functools.partial(
                dg.slice1,
                input_window_offsets=[1, 1],
                input_window_sizes=[2, 4],
                input_window_strides=[1, step],
                output={"sizes": [2, 2 if step > 1 else 3]},
            ),
            [[3, 6]],
        )
        for step in (2, -1)
    ),
    Case(
        "slice_grad",
        lambda g: dg.slice_grad(
            g, sizes=[3, 5], input_window_offsets=[0, 1], input_window_sizes=[3, 4], input_window_strides=[2, -2]
        ),
        [[2, 2]],
    ),
    *(
        Case(
            f"padding {mode}",
            functools.partial(function, padding_mode=mode, padding_value=1.5, start_padding=[0, 3], end_padding=[1, 2]),
            [[2, 4]],
        )
        for mode in ("constant", "edge", "reflection", "symmetric", "wrap")
        for function in ((dg.padding, dg.padding1) if mode == "constant" else (dg.padding,))
    ),
    *(
        Case(name, functools.partial(getattr(dg, name), block_size=2), [sizes])
        for name, sizes in (("space_to_depth", [1, 2, 2, 4]), ("depth_to_space", [1, 8, 1, 2]))
    ),
    *(
        Case(name, functools.partial(getattr(dg, name), block_size=2, order="column_row_depth"), [sizes])
        for name, sizes in (("space_to_depth1", [1, 2, 2, 4]), ("depth_to_space1", [1, 8, 1, 2]))
    ),
    Case("value_scale_2d", functools.partial(dg.value_scale_2d, scale=0.7, bias=[1, 2, 3]), [[1, 3, 1, 2]]),
    *(
        Case(
            f"cumulative_summation {direction} {exclusive}",
            functools.partial(dg.cumulative_summation, axis=1, axis_direction=direction, has_exclusive_sum=exclusive),
            [[2, 4, 2]],
        )
        for direction in DIRECTIONS
        for exclusive in (False, True)
    ),
    *(
        Case(
            f"cumulative_product {direction} {exclusive}",
            functools.partial(dg.cumulative_product, axis=1, axis_direction=direction, has_exclusive_product=exclusive),
            [np.array([[[1, 2], [0, -1], [0.5, 3], [2, 0]]]) * 1.0],
        )
        for direction in DIRECTIONS
        for exclusive in (False, True)
    ),
    Case(
        "diagonal_matrix1",
        lambda x: x.graph.diagonal_matrix1(x, value=7, diagonal_fill_begin=0, diagonal_fill_end=2),
        [[3, 4]],
    ),
    Case("top_k", lambda x: dg.top_k(x, axis=1, k=2).output_value, [away([2, 5])]),
    Case("top_k1", lambda x: dg.top_k1(x, axis=0, k=2, axis_direction="increasing").output_value, [away([4, 2])]),
]
int32 = np.int32
INDEXED = [
    Case("gather", functools.partial(dg.gather, axis=1), [[2, 4, 2], np.array([1, 3, 1, -1], int32)]),
    Case(
        "gather rows",
        functools.partial(dg.gather, axis=0, index_dimensions=1),
        [[4, 3], np.array([[2, 0, 2]], np.uint32)],
    ),
    Case(
        "gather_elements",
        functools.partial(dg.gather_elements, axis=1),
        [[2, 3], np.array([[0, 0, 2, 0], [1, -1, 2, 2]], int32)],
    ),
    Case("gather_nd", dg.gather_nd, [[3, 2, 2], np.array([[0, 1], [-1, 0], [0, 1]], np.int64)]),
    Case("gather_nd of slices", dg.gather_nd, [[3, 2, 2], np.array([[1], [2], [1]], np.uint32)]),
    Case(
        "gather_nd1",
        functools.partial(dg.gather_nd1, batch_dimension_count=1),
        [[2, 3, 2], np.array([[[0, 1], [2, 0], [0, 1]], [[1, 1], [1, 1], [1, 1]]], int32)],
    ),
    Case(
        "scatter_elements",
        functools.partial(dg.scatter_elements, axis=1),
        [[2, 4], np.array([[0, 2], [3, 1]], int32), [2, 2]],
    ),
    Case("scatter_nd", dg.scatter_nd, [[3, 2, 2], np.array([[0, 1], [2, 0]], int32), [2, 2]]),
    Case("scatter_nd of slices", dg.scatter_nd, [[3, 2, 2], np.array([[2], [1]], int32), [2, 2, 2]]),
    Case(
        "one_hot", functools.partial(dg.one_hot, sizes=[3, 4], axis=1), [np.array([[1], [3], [7]], np.uint32), [1, 2]]
    ),
    Case(
        "one_hot of more",
        functools.partial(dg.one_hot, sizes=[3, 4], axis=1),
        [np.array([[1], [3], [0]], int32), [1, 3]],
    ),
]


CASES = [*MOVES, *INDEXED]
