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
