"""Where errors lie, in words and drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dmlgraph.doctor import picture

RIGHT = np.zeros((2, 8, 6, 6), np.float32)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (np.s_[1, 3], ["axis 0: only 1 of 0 to 1", "axis 1: only 3 of 0 to 7"]),
        (np.s_[:, ::2], ["axis 1: every 2 from 0 to 6 of 0 to 7"]),
        (np.s_[..., 2:5, :], ["axis 2: only 2 to 4 of 0 to 5"]),
        (np.s_[:, [0, 1, 5]], ["axis 1: only 0, 1, 5 of 0 to 7"]),
        (np.s_[...], []),
    ],
)
def test_places_in_words(where: tuple[slice, ...], expected: list[str]) -> None:
    got = RIGHT.copy()
    got[where] = 1
    assert picture.places(picture.errors(got, RIGHT)) == expected


def test_a_border_is_seen() -> None:
    got = RIGHT.copy()
    got[..., 0, :] = got[..., -1, :] = got[..., 0] = got[..., -1] = 1
    assert picture.places(picture.errors(got, RIGHT)) == ["only at the border of the last two axes"]


def test_the_picture_shows_small_errors_beside_large_ones() -> None:
    got = np.array([[0, 1e-3, 0, 1e3], [0, 0, np.nan, 0]], np.float32)
    drawn = list(picture.lines(got, np.zeros((2, 4), np.float32)))
    assert drawn[-2:] == ["| . @|", "|  @ |"]


def test_a_large_tensor_is_reduced_to_its_largest_errors() -> None:
    off = np.zeros((100, 1000))
    off[57, 999] = 2
    small = picture.grid(off)
    assert small.shape == (picture.ROWS, picture.COLUMNS)
    assert np.argwhere(small).tolist() == [[9, 63]]  # row 57 is in the tenth of 16 groups, which begins with 56


def test_the_image_has_a_cell_for_each_error() -> None:
    got = np.array([[0, 1], [2, 0]], np.float32)
    root = ET.fromstring(picture.svg(got, np.zeros((2, 2), np.float32)))
    cells = [(each.get("x"), each.get("y")) for each in root if each.get("x") is not None]
    assert cells == [("8", "0"), ("0", "8")]
    assert root[-1].get("fill") == "#960000"
