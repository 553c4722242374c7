"""Shapes and colours: everybody can tell the kinds apart, on light and on dark backgrounds."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from dmlgraph.picture.shapes import GROUND, SHAPES, Kind, variables

# Machado, Oliveira, Fernandes: "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1, on linear RGB.
VISIONS = {
    "common": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
GROUNDS = {"light": 0, "dark": 1}
KINDS = [kind for kind in Kind if kind not in (Kind.REFERENCE, Kind.FOLDED)]  # those two stand for nodes of other kinds


def linear(colour: str) -> np.ndarray:
    """sRGB `#rrggbb` → linear RGB."""
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Linear RGB → CIELAB under D65."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two colours."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


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
