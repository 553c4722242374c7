"""What the tests of softmax and its variants share: exact results over any set of axes, and the rules for axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from support.operators import exact
from support.operators.activations import DIRECTML, OLD_LEVELS
from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, Case, add_node, array, case, refused

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName

Formula = Callable[[list[Fraction]], list[Any]]


def log_softmax(row: list[Fraction]) -> list[Decimal]:
    return [exact.log(Fraction(share)) for share in exact.softmax(row)]


def hardmax(row: list[Fraction]) -> list[int]:
    return [int(x == max(row) and x not in row[:at]) for at, x in enumerate(row)]


def rows(formula: Formula, **fields: Any) -> list[Case]:
    """Rows of a matrix, each with its exact results."""
    table = []
    for dtype in FLOATS:
        numbers = [exact.values(row, dtype) for row in ([1, 2, 3], [-1, 0.5, 0.25], [10, 0, -10], [2, 2, -1])]
        gives = [exact.round_all(formula(row), dtype) for row in numbers]
        table.append(case("rows", [[[float(x) for x in row] for row in numbers]], gives, dtype, **fields))
    return table


def joint(formula: Formula, axes: list[int]) -> Case:
    """{2,3,2} over any set of axes, grouped by the coordinates of the other axes; there are ties."""
    numbers = array([[[1, 2], [3, 5], [2, 1]], [[-1, 0], [0.5, 2], [2, 5]]], "float32")
    gives = np.zeros_like(numbers)
    coordinates = list(itertools.product(*map(range, numbers.shape)))
    for kept in itertools.product(*([0] if axis in axes else range(size) for axis, size in enumerate(numbers.shape))):
        group = [at for at in coordinates if all(at[axis] == kept[axis] for axis in range(3) if axis not in axes)]
        for at, value in zip(group, formula([Fraction(float(numbers[at])) for at in group]), strict=True):
            gives[at] = exact.rounded(value, "float32")
    return case(f"axes {axes}", [numbers], gives, axes=axes)


def sets_of_axes(formula: Formula) -> list[Case]:
    return [joint(formula, axes) for axes in ([0], [1], [2], [0, 1], [0, 2], [2, 1], [0, 1, 2])]


class AlongAxesTests(UnaryTests):
    """DirectML divides rounded numbers, and takes their logarithms."""

    ulp: ClassVar = {DIRECTML: 4}
    ulp_floor: ClassVar = {DIRECTML: 1.0}


class LastAxisTests(AlongAxesTests):
    """Operators on matrices, along the last axis."""

    levels = OLD_LEVELS

    def test_sizes_in_front_of_the_rows_are_1(self) -> None:
        for sizes in ([2, 3, 4], [2, 1, 1, 3]):
            error = refused(self.operator, [np.zeros(sizes, "float32")])
            assert (error.field, error.got) == ("input.sizes", sizes)
            assert error.allowed == "[…, 1, rows, columns]"


class ChosenAxesTests(AlongAxesTests):
    """Operators with a field for the axes."""

    levels = "5.1: 1-8D F32 F16"

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x], axes=[rank - 1])

    def test_an_axis_out_of_range_is_refused(self) -> None:
        error = refused(self.operator, self.sample.inputs, axes=[0, 2])
        assert (error.field, error.got, error.allowed) == ("axes.1", 2, "-2 to 1")

    def test_an_axis_below_minus_the_dimensions_is_refused(self) -> None:
        error = refused(self.operator, self.sample.inputs, axes=[-3])
        assert (error.field, error.got) == ("axes.0", -3)

    def test_an_axis_twice_is_refused(self) -> None:
        error = refused(self.operator, self.sample.inputs, axes=[1, 1])
        assert (error.field, error.got) == ("axes.1", 1)
