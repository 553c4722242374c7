"""Overlays: a text and a colour for each node, laid over a picture; `sources` makes them.

Nodes with a number have a colour of a scale from light to dark, which everybody can order; an alarm has a colour of its
own.  The box of a scope has what its overlay makes of all that is in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

# ColorBrewer's sequential scale OrRd, and the colour of alarms; the colours of texts on them.
DARK, LIGHT = "#1a1f26", "#ffffff"
SHADES = (
    ("#fef0d9", DARK),
    ("#fdd49e", DARK),
    ("#fdbb84", DARK),
    ("#fc8d59", DARK),
    ("#d7301f", LIGHT),
    ("#8c0000", LIGHT),
)
ALARM = ("#40127f", LIGHT)
PLAIN = "plain"  # the look of boxes of which an overlay says nothing


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """What an overlay says of a node.

    Attributes:
        text: a line of its box.
        number: its place on the scale; None: it has none.
        alarm: whether it must not be overlooked.
    """

    text: str
    number: float | None = None
    alarm: bool = False


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What is laid over a picture.

    Attributes:
        title: what the texts say, such as "time".
        marks: by the name of the node.
        ends: the numbers at both ends of the scale.
        labels: what the ends are, and an alarm, in the legend.
        joined: the mark of a scope, from those of its nodes.
    """

    title: str
    marks: Mapping[str, Mark]
    ends: tuple[float, float]
    labels: tuple[str, str, str]
    joined: Callable[[Sequence[Mark]], Mark]

    def look(self, mark: Mark | None) -> str:
        """The name of the colours of a mark."""
        if mark is None or (mark.number is None and not mark.alarm):
            return PLAIN
        if mark.number is None or mark.alarm:
            return "alarm"
        low, high = self.ends
        part = (mark.number - low) / (high - low) if high > low else 0.0
        return f"shade-{min(max(int(part * len(SHADES)), 0), len(SHADES) - 1)}"

    def legend(self) -> dict[str, str]:
        """Look → its text in the legend."""
        low, high, alarm = self.labels
        ends = {"shade-0": low} | ({f"shade-{len(SHADES) - 1}": high} if high != low else {})
        texts = {look: f"{self.title}: {text}" for look, text in ends.items()}
        return texts | ({"alarm": alarm} if alarm else {})
