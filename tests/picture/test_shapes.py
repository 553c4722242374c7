"""Shapes and colours: everybody can tell the kinds apart, on light and on dark backgrounds."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from support.picture.colours import GROUNDS, VISIONS, contrast, lab, linear

from dmlgraph.picture.shapes import GROUND, SHAPES, Kind, variables

KINDS = [kind for kind in Kind if kind not in (Kind.REFERENCE, Kind.FOLDED)]  # those two stand for nodes of other kinds


def colours(kind: Kind, ground: int) -> tuple[str, str]:
    return (SHAPES[kind].light, SHAPES[kind].dark)[ground]


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("ground", GROUNDS)
def test_lines_of_any_two_kinds_stay_apart(vision: str, ground: str) -> None:
    seen = {kind: lab(np.array(VISIONS[vision]) @ linear(colours(kind, GROUNDS[ground])[1])) for kind in KINDS}
    for one, other in itertools.combinations(KINDS, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)  # 2.3 can just be told apart


@pytest.mark.parametrize("ground", GROUNDS)
def test_texts_and_lines_stand_out(ground: str) -> None:
    at = GROUNDS[ground]
    for kind in Kind:
        fill, line = colours(kind, at)
        assert contrast(GROUND["ink"][at], fill) >= 7
        assert contrast(GROUND["faint"][at], fill) >= 4.5
        assert contrast(line, GROUND["paper"][at]) >= 3
    assert contrast(GROUND["edge"][at], GROUND["paper"][at]) >= 3


def test_kinds_differ_in_outline_in_every_format() -> None:
    assert set(SHAPES) == set(Kind)
    assert len({shape.outline(100, 40) for shape in SHAPES.values()}) == len(Kind)
    assert len({shape.dot for shape in SHAPES.values()}) == len(Kind)
    assert len({shape.mermaid for shape in SHAPES.values()}) == len(Kind)


@pytest.mark.parametrize("kind", [kind for kind in Kind if SHAPES[kind].outline(9, 9).count("L") > 1])
def test_polygons_fill_their_box(kind: Kind) -> None:
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", SHAPES[kind].outline(120, 40))]
    assert (min(numbers[::2]), max(numbers[::2])) == (-60, 60)
    assert (min(numbers[1::2]), max(numbers[1::2])) == (-20, 20)


def test_variables_come_for_light_and_dark() -> None:
    light, dark = variables(".scope").split("@media (prefers-color-scheme:dark)")
    for kind in Kind:
        assert f"--{kind}-fill:{SHAPES[kind].light[0]};" in light
        assert f"--{kind}-line:{SHAPES[kind].dark[1]};" in dark
