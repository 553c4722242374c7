"""Tables, and quantities with units."""

from __future__ import annotations

import pytest

from dmlgraph.base.tables import lines, narrowed, show_bytes, show_seconds


def test_columns_are_aligned_and_nothing_trails() -> None:
    rows = [["name", "time", ""], ["a", "10 ms", "x"], ["longer", "1 ms", ""]]
    assert list(lines(rows, "<><")) == ["name     time", "a       10 ms  x", "longer   1 ms"]


@pytest.mark.parametrize(
    ("width", "cells"),
    [
        (40, ["first column", "a longer second one"]),  # 12 + 2 + 19 + 2 + 5
        (39, ["first column", "a longer second o…"]),
        (32, ["first colu…", "a longer se…"]),
        (30, ["first col…", "a longer s…"]),
        (1, ["first c…", "a longe…"]),
    ],
)
def test_the_longest_of_the_first_columns_are_cut_to_the_width(width: int, cells: list[str]) -> None:
    rows = [["first column", "a longer second one", "whole"], ["", "", ""]]
    assert narrowed(rows, 2, width) == [[*cells, "whole"], ["", "", ""]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ns"),
        (12e-9, "12.0 ns"),
        (999.4e-9, "999 ns"),
        (999.6e-9, "1.00 µs"),
        (1.234e-3, "1.23 ms"),
        (0.0999, "99.9 ms"),
        (0.09996, "100 ms"),
        (1.0, "1.00 s"),
        (75.0, "75.0 s"),
        (4000, "4000 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1 << 20, "1.00 MiB"),
        (100 << 20, "100 MiB"),
        (3 << 30, "3.00 GiB"),
        (5 << 40, "5.00 TiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert show_bytes(count) == text
