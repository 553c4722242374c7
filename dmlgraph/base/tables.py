"""Aligned tables, and quantities for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = "  "
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def lines(rows: Sequence[Sequence[str]], align: str) -> Iterator[str]:
    """The rows with aligned columns; `align` has `<` or `>` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True))
        yield GAP.join(cells).rstrip()


def narrowed(rows: Sequence[Sequence[str]], columns: int, width: int) -> list[list[str]]:
    """The rows with the first columns cut to lines of `width` characters, but to no less than 8 characters each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths[columns:]) - len(GAP) * (len(widths) - 1)
    limits = [0] * columns
    for left, column in zip(range(columns, 0, -1), sorted(range(columns), key=widths.__getitem__), strict=True):
        limits[column] = min(widths[column], max(room // left, 8))  # what short columns leave, long ones get
        room -= limits[column]
    return [[*map(_cut, row, limits), *row[columns:]] for row in rows]


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def show_seconds(seconds: float) -> str:
    """Three digits and a unit: `1.23 ms`."""
    unit, name = next((each for each in _TIMES if seconds >= 0.9995 * each[0]), _TIMES[-1])
    return f"{_three_digits(seconds / unit)} {name}"


def show_bytes(count: int) -> str:
    """`24 B`, `1.50 KiB`."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{_three_digits(count / 1024**power)} {'KMGT'[power - 1]}iB"


def _three_digits(number: float) -> str:
    return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f}"
