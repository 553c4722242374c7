"""What the tests of the operators with windows share: the windows one by one, as the documentation describes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import Array, add_node, array, refused

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName

Index = tuple[int, ...]

# Different integers of both signs; sums of a few of them are exact in every float type.
IMAGE = array([[[[3, -1, 4, 1, -5], [9, 2, -6, 5, 3], [-5, 8, 9, 7, -9], [3, 2, -3, 8, 4]]]], "float32")
VOLUME = (np.arange(24) * 7 % 11 - 5).reshape(1, 1, 2, 3, 4).astype("float32")


def windows(
    sizes: Sequence[int],
    window_size: Sequence[int],
    strides: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    dilations: Sequence[int] | None = None,
) -> Iterator[tuple[Index, list[tuple[Index, Index | None]]]]:
    """(window, [(tap, its index in the tensor, or None for padding)]) of spatial sizes, in row-major order."""
    dilations = dilations or [1] * len(sizes)
    counts = []
    for size, taps, stride, start, end, dilation in zip(
        sizes, window_size, strides, start_padding, end_padding, dilations, strict=True
    ):
        counts.append((size + start + end - (1 + (taps - 1) * dilation)) // stride + 1)
    for window in itertools.product(*map(range, counts)):
        taps_of_window: list[tuple[Index, Index | None]] = []
        for tap in itertools.product(*map(range, window_size)):
            place = tuple(
                o * stride + k * dilation - start
                for o, stride, k, dilation, start in zip(window, strides, tap, dilations, start_padding, strict=True)
            )
            inside = all(0 <= at < size for at, size in zip(place, sizes, strict=True))
            taps_of_window.append((tap, place if inside else None))
        yield window, taps_of_window


def pooled(x: Array, function: Callable[[list[Fraction | None]], Any], **fields: Any) -> Array:
    """`function` of each window's elements, None for padding, in x's type."""
    rows: dict[Index, Any] = {}
    for batch, channel in np.ndindex(*x.shape[:2]):
        for window, taps in windows(x.shape[2:], **fields):
            elements = [None if at is None else Fraction(float(x[(batch, channel, *at)])) for _, at in taps]
            rows[(batch, channel, *window)] = function(elements)
    result = np.zeros([max(index) + 1 for index in zip(*rows, strict=True)], x.dtype)
    for index, value in rows.items():
        whole = x.dtype.kind != "f" or not isinstance(value, Fraction)
        result[index] = value if whole else exact.rounded(value, str(x.dtype))
    return result


class WindowTests(OperatorTests):
    """Operators with windows.  `attributes` are the fields of a table of levels for a number of dimensions."""

    per_dimension: ClassVar[dict[str, int]]  # field → its value for each spatial dimension
    others: ClassVar[dict[str, Any]] = {}

    def attributes(self, rank: int) -> dict[str, Any]:
        return {field: [value] * (rank - 2) for field, value in self.per_dimension.items()} | self.others

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, self.operator, [graph.input("x", sizes=[1] * rank, dtype=dtype)], **self.attributes(rank))

    def test_lists_have_an_entry_for_each_spatial_dimension(self) -> None:
        fields = {**self.sample.fields, **dict.fromkeys(self.per_dimension, (1, 1, 1))}
        error = refused(self.operator, self.sample.inputs, **fields)
        assert (error.code, error.field in self.per_dimension) == ("count", True)
        assert (error.got, error.allowed) == ([1, 1, 1], "2 entries, or one number for all")

    def test_what_counts_or_steps_is_at_least_1(self) -> None:
        for field in self.per_dimension:
            if not field.endswith("padding"):
                error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, field: [1, 0]})
                assert (error.field, error.got) == (f"{field}.1", 0)


class PoolingTests(WindowTests):
    """Operators that pool one tensor into another."""

    def test_windows_fit_into_the_padded_tensor(self) -> None:
        height = self.sample.inputs[0].shape[2]
        fields = {**self.sample.fields, "window_size": [height + 4, 1], "start_padding": [1, 0], "end_padding": [2, 0]}
        if "dilations" in self.sample.fields:
            fields["dilations"] = [1, 1]
        error = refused(self.operator, self.sample.inputs, **fields)
        assert error.field == "window_size.0"
        assert error.got == height + 4
        assert error.allowed == f"at most {height + 3} elements"

    def test_sizes_of_the_output_are_inferred(self) -> None:
        error = refused(self.operator, self.sample.inputs, output={"sizes": [9, 9, 9, 9]}, **self.sample.fields)
        assert error.field == "output.sizes"
        assert error.allowed == str(list(self.sample.gives[0].shape))
