"""The look of nodes by kind, in every format: outline, colours, name in the legend; operators are coloured by family.

Kinds differ in shape as well as in colour.  A search chose the colours of the lines: any two differ in hue or
lightness, for normal vision and all three kinds of colour blindness, on a light and on a dark background.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterator

from dmlgraph.picture.families import COLOURS
from dmlgraph.picture.overlay import ALARM, PLAIN, SHADES

TINT = 0.16  # of a line's colour in the fill
Outline = Callable[[float, float], str]  # width, height → an SVG path around the origin


class Kind(enum.StrEnum):
    """What a box of a picture represents."""

    INPUT = "input"
    STATE = "state"
    CONSTANT = "constant"
    FILL = "fill"
    OPERATOR = "operator"
    FUSED = "fused"
    OUTPUT = "output"
    REFERENCE = "reference"
    FOLDED = "folded"


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """How a kind is drawn.

    Attributes:
        legend: the name of the kind.
        outline: the function that makes its path.
        slack: the space that the outline needs in addition to the text: width, height.
        dot: its attributes in DOT.
        mermaid: the text before and after a label in Mermaid.
        light, dark: fill and line colours on a light and on a dark background.
    """

    legend: str
    outline: Outline
    slack: tuple[float, float]
    dot: str
    mermaid: tuple[str, str]
    light: tuple[str, str]
    dark: tuple[str, str]


def _line(*points: tuple[float, float]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _polygon(*points: tuple[float, float]) -> str:
    return _line(*points) + "Z"


def _slant(height: float) -> float:
    """The horizontal extent of a slanted side."""
    return min(14.0, height / 2.5)


def _rounded(width: float, height: float, radius: float = 7) -> str:
    x, y, arc = width / 2, height / 2, f"a{radius:g} {radius:g} 0 0 1"
    across, down = width - 2 * radius, height - 2 * radius
    return (
        f"M{radius - x:g} {-y:g}h{across:g}{arc} {radius:g} {radius:g}v{down:g}{arc} {-radius:g} {radius:g}"
        f"h{-across:g}{arc} {-radius:g} {-radius:g}v{-down:g}{arc} {radius:g} {-radius:g}Z"
    )


def _double(width: float, height: float) -> str:
    return _rounded(width, height, 8) + _rounded(width - 8, height - 8, 5)


def _stack(width: float, height: float) -> str:
    """A sheet with the edges of two more behind it."""
    x, y = width / 2, height / 2
    sheet = _polygon((-x, 8 - y), (x - 8, 8 - y), (x - 8, y), (-x, y))
    for by in (4, 8):
        left, top, right, bottom = by - x, 8 - by - y, x - 8 + by, y - by
        sheet += _line((left, top + 4), (left, top), (right, top), (right, bottom), (right - 4, bottom))
    return sheet


def _pill(width: float, height: float) -> str:
    return _rounded(width, height, height / 2)


def _hexagon(width: float, height: float) -> str:
    x, y, slant = width / 2, height / 2, _slant(height)
    return _polygon((-x, 0), (slant - x, -y), (x - slant, -y), (x, 0), (x - slant, y), (slant - x, y))


def _wide_at_top(width: float, height: float) -> str:
    x, y, slant = width / 2, height / 2, _slant(height)
    return _polygon((-x, -y), (x, -y), (x - slant, y), (slant - x, y))


def _wide_at_bottom(width: float, height: float) -> str:
    x, y, slant = width / 2, height / 2, _slant(height)
    return _polygon((slant - x, -y), (x - slant, -y), (x, y), (-x, y))


def _cylinder(width: float, height: float) -> str:
    x, rise = width / 2, 6
    y = height / 2 - rise
    arc = f"a{x:g} {rise:g} 0 0 "
    start, there, back = f"M{-x:g} {-y:g}", f"{width:g} 0", f"{-width:g} 0"
    return f"{start}{arc}1 {there}v{2 * y:g}{arc}1 {back}Z{start}{arc}0 {there}{arc}0 {back}Z"


def _octagon(width: float, height: float) -> str:
    x, y, cut = width / 2, height / 2, height / 4
    right = [(x - cut, -y), (x, cut - y), (x, y - cut), (x - cut, y)]
    return _polygon(*right, *((-across, down) for across, down in reversed(right)))


def cap(width: float, height: float, radius: float = 7) -> str:
    """The left end of a rounded box, in the colour of its family."""
    x, y, arc = width / 2, height / 2, f"a{radius:g} {radius:g} 0 0 0"
    return f"M{radius - x:g} {-y:g}{arc} {-radius:g} {radius:g}v{height - 2 * radius:g}{arc} {radius:g} {radius:g}Z"


def _tinted(line: str, paper: str) -> tuple[str, str]:
    """A light or dark fill of a line's hue, and the line."""
    mixed = (round(TINT * int(line[at : at + 2], 16) + (1 - TINT) * int(paper[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{each:02x}" for each in mixed), line


SHAPES = {
    Kind.INPUT: Shape(
        "input",
        _wide_at_top,
        (30, 0),
        "shape=invtrapezium",
        ('[\\"', '"/]'),
        ("#dcecf9", "#12509f"),
        ("#0c2c45", "#2f7ae0"),
    ),
    Kind.STATE: Shape(
        "state",
        _octagon,
        (16, 0),
        "shape=octagon",
        ('>"', '"]'),
        ("#efe3fb", "#9f00ff"),
        ("#2a1640", "#8c19ff"),
    ),
    Kind.CONSTANT: Shape(
        "constant", _cylinder, (4, 18), "shape=cylinder", ('[("', '")]'), ("#f7e5f0", "#6b2350"), ("#3c2034", "#b3478a")
    ),
    Kind.FILL: Shape(
        "fill", _hexagon, (26, 0), "shape=hexagon", ('{{"', '"}}'), ("#fdf1d3", "#c47c00"), ("#3a2d0a", "#faaf00")
    ),
    Kind.OPERATOR: Shape(
        "operator",
        _rounded,
        (10, 0),
        'shape=box style="filled,rounded"',
        ('("', '")'),
        ("#f3f5f7", "#768493"),
        ("#252b33", "#c9ced4"),
    ),
    Kind.FUSED: Shape(
        "fused",
        _double,
        (16, 10),
        'shape=box style="filled,rounded" peripheries=2',
        ('[["', '"]]'),
        ("#dcf3eb", "#109352"),
        ("#0b362b", "#27e787"),
    ),
    Kind.OUTPUT: Shape(
        "output",
        _wide_at_bottom,
        (30, 0),
        "shape=trapezium",
        ('[/"', '"\\]'),
        ("#fce7da", "#9c3a00"),
        ("#43220f", "#dd4a24"),
    ),
    Kind.REFERENCE: Shape(
        "drawn elsewhere",
        _pill,
        (8, -6),
        'shape=box style="filled,rounded,dashed"',
        ('(["', '"])'),
        ("#ffffff", "#8a94a0"),
        ("#15191e", "#8a94a0"),
    ),
    Kind.FOLDED: Shape(
        "several nodes",
        _stack,
        (12, 12),
        'shape=box3d style="filled"',
        ('[/"', '"/]'),
        ("#f3f5f7", "#768493"),
        ("#252b33", "#c9ced4"),
    ),
}

# All other colours: on a light and on a dark background.
GROUND = {
    "paper": ("#ffffff", "#15191e"),
    "ink": ("#1a1f26", "#e8ecf1"),
    "faint": ("#55606d", "#a5b0bd"),
    "edge": ("#77828f", "#7d8996"),
    "mark": ("#e6007e", "#ff5cb0"),
    "panel": ("#f6f8fa", "#1d232a"),
    "rule": ("#d5dbe2", "#38424d"),
}


_OVERLAYS = {f"shade-{index}": shade for index, shade in enumerate(SHADES)} | {"alarm": ALARM}
_DARKER, _LIGHTER = "#5c1500", "#fdd49e"  # lines around them, on a light and on a dark background

# The names of colours in legends, and their fill and line on a light and on a dark background.
LOOKS = {str(kind): (shape.light, shape.dark) for kind, shape in SHAPES.items()} | {
    str(family): tuple(_tinted(line, GROUND["paper"][which]) for which, line in enumerate(lines))
    for family, lines in COLOURS.items()
}
LOOKS |= {look: ((fill, _DARKER), (fill, _LIGHTER)) for look, (fill, _) in _OVERLAYS.items()}
LOOKS[PLAIN] = (("#ffffff", "#8a94a0"), ("#15191e", "#8a94a0"))
# The colours of texts where they are not those of the ground.
INKS = {look: ink for look, (_, ink) in _OVERLAYS.items()}


def variables(scope: str, looks: Collection[str] = LOOKS) -> str:
    """The ground's colours and those of `looks` as CSS variables for the selector `scope`, light and dark."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in _colours(which, looks)) for which in (0, 1))
    return f"{scope}{{{light}}}@media (prefers-color-scheme:dark){{{scope}{{{dark}}}}}"


def _colours(which: int, looks: Collection[str]) -> Iterator[tuple[str, str]]:
    for name, pair in GROUND.items():
        yield name, pair[which]
    for name in looks:
        fill, line = LOOKS[name][which]
        yield f"{name}-fill", fill
        yield f"{name}-line", line
        if name in INKS:
            yield f"{name}-ink", INKS[name]
