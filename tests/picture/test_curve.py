"""The curve of a training's loss."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from dmlgraph.picture.curve import HEIGHT, WIDTH, curve


def points(numbers: list[float]) -> list[list[tuple[float, float]]]:
    """The points of every line."""
    lines = ElementTree.fromstring(curve("a & b", numbers)).iter("{http://www.w3.org/2000/svg}polyline")
    return [
        [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]
        for line in lines
    ]


def test_larger_numbers_are_higher_and_later_steps_further_right() -> None:
    ((a, b, c),) = points([3, 1, 2])
    assert a[0] < b[0] < c[0] < WIDTH
    assert 0 < a[1] < c[1] < b[1] < HEIGHT
    assert c[1] == pytest.approx((a[1] + b[1]) / 2, abs=0.1)


def test_several_decades_have_a_logarithmic_axis() -> None:
    ((a, b, c),) = points([1, 0.01, 0.0001])
    assert b[1] == pytest.approx((a[1] + c[1]) / 2, abs=0.1)


def test_what_is_not_finite_leaves_gaps() -> None:
    assert [len(line) for line in points([1, 2, math.nan, 3, math.inf, 4, 5, 6])] == [2, 1, 3]
    assert points([math.nan]) == points([]) == []


def test_equal_numbers_and_one_number_are_drawn() -> None:
    ((a, b),) = points([2, 2])
    assert a[1] == b[1]
    assert len(points([7])[0]) == 1


def test_many_steps_are_drawn_as_means() -> None:
    (line,) = points([float(step % 2) for step in range(100_000)])
    assert len(line) == 400
    assert len({y for _, y in line}) == 1


def test_titles_are_text() -> None:
    root = ElementTree.fromstring(curve("a & <b>", [1]))
    assert root[0].text == "a & <b>"
