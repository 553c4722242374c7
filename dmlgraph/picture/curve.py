"""A curve as SVG: one number for each step of a training, such as its loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from dmlgraph.picture.shapes import variables
from dmlgraph.picture.svg import FONT

WIDTH, HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 40  # margins
_MOST_POINTS = 400  # of a line; more steps are drawn as means of several
_DECADES = 1.5  # a curve that spans more of them has a logarithmic axis
_TICKS = 5

_STYLE = f"""\
.dmlgraph{{font-family:{FONT};background:var(--paper)}}
.dmlgraph text{{fill:var(--ink);font-size:12px}}
.dmlgraph .heading{{font-size:16px;font-weight:600}}
.dmlgraph .paper{{fill:var(--paper)}}
.dmlgraph .rule{{stroke:var(--rule);stroke-width:1}}
.dmlgraph .low{{text-anchor:end}}
.dmlgraph .step{{text-anchor:middle}}
.dmlgraph .all{{fill:none;stroke:var(--input-line);stroke-width:1.6}}
"""


def curve(title: str, numbers: Sequence[float]) -> str:
    """The numbers of steps 1, 2, … as an SVG document; those that are not finite leave gaps.

    Args:
        title: of the picture.
        numbers: one for each step.
    """
    return "\n".join(_document(title, numbers)) + "\n"


def _document(title: str, numbers: Sequence[float]) -> Iterator[str]:
    box = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="dmlgraph" role="img" {box}>'
    yield f"<title>{escape(title)}</title><style>{variables('.dmlgraph')}\n{_STYLE}</style>"
    yield f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>'
    yield f'<text class="heading" x="{_LEFT}" y="24">{escape(title)}</text>'
    finite = [number for number in numbers if math.isfinite(number)]
    if finite:
        axis = _Axis(finite)
        for tick in axis.ticks():
            y = axis.place(tick)
            yield f'<path class="rule" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
            yield f'<text class="low" x="{_LEFT - 6}" y="{y + 4:.1f}">{tick:.3g}</text>'
        for step in sorted({1, (len(numbers) + 1) // 2, len(numbers)}):
            yield f'<text class="step" x="{_across(step, len(numbers)):.1f}" y="{HEIGHT - _BOTTOM + 20}">{step}</text>'
        for line in _lines(numbers):
            points = " ".join(f"{_across(step, len(numbers)):.1f},{axis.place(number):.1f}" for step, number in line)
            yield f'<polyline class="all" points="{points}"/>'
    yield "</svg>"


class _Axis:
    """The axis of the numbers: logarithmic if they are positive and span several decades."""

    def __init__(self, numbers: Sequence[float]) -> None:
        low, high = min(numbers), max(numbers)
        self.is_logarithmic = low > 0 and math.log10(high) - math.log10(low) > _DECADES
        self.low, self.high = self._scaled(low), self._scaled(high)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def _scaled(self, number: float) -> float:
        return math.log10(number) if self.is_logarithmic else number

    def place(self, number: float) -> float:
        """How far down a number is."""
        share = (self._scaled(number) - self.low) / (self.high - self.low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    def ticks(self) -> Iterator[float]:
        """Numbers at even distances."""
        for index in range(_TICKS):
            at = self.low + (self.high - self.low) * index / (_TICKS - 1)
            yield 10**at if self.is_logarithmic else at


def _across(step: float, count: int) -> float:
    return _LEFT + (step - 1) / max(count - 1, 1) * (WIDTH - _LEFT - _RIGHT)


def _lines(numbers: Sequence[float]) -> Iterator[list[tuple[float, float]]]:
    """The points between gaps, each the mean of as many steps as fit on a pixel or two."""
    each = -(-len(numbers) // _MOST_POINTS)
    line: list[tuple[float, float]] = []
    for start in range(0, len(numbers), each):
        part = numbers[start : start + each]
        mean = sum(part) / len(part)
        if math.isfinite(mean):
            line.append((start + (len(part) + 1) / 2, mean))
        elif line:
            yield line
            line = []
    if line:
        yield line
