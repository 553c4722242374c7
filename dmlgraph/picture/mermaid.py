"""Mermaid: flowcharts that many sites and editors show in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmlgraph.picture.drawing import Drawing
from dmlgraph.picture.overlay import DARK
from dmlgraph.picture.scopes import Scope, scopes
from dmlgraph.picture.shapes import INKS, LOOKS, SHAPES
from dmlgraph.picture.weights import with_weights

_PLAIN = frozenset(" _-+=.,/()[]{}·↳…")  # in addition to letters and digits, characters without a meaning inside quotes


def render(drawings: Sequence[Drawing]) -> str:
    """The drawings as one flowchart; several are subgraphs side by side."""
    return "\n".join(_lines([with_weights(drawing) for drawing in drawings])) + "\n"


def _lines(drawings: Sequence[Drawing]) -> Iterator[str]:
    yield "flowchart TB"
    yield from (f"  %% {note}" for drawing in drawings for note in drawing.notes)
    for place, drawing in enumerate(drawings):
        several = len(drawings) > 1
        if several:
            yield f'  subgraph s{place}["{escaped(drawing.title)}"]'
            yield "  direction TB"
        yield from (f"  {line}" for line in _drawing(drawing, f"g{place}_" if several else "n"))
        if several:
            yield "  end"
    looks = {box.look for drawing in drawings for box in drawing.boxes}
    for look, ((fill, line), _) in LOOKS.items():
        if look in looks:
            yield f"  classDef {look} fill:{fill},stroke:{line},color:{INKS.get(look, DARK)}"


def _drawing(drawing: Drawing, prefix: str) -> Iterator[str]:
    yield from _scope(drawing, scopes(drawing), prefix, "")
    for edge in drawing.edges:
        yield f'{prefix}{edge.source} -->|"{escaped(edge.label)}"| {prefix}{edge.target}'


def _scope(drawing: Drawing, scope: Scope, prefix: str, around: str) -> Iterator[str]:
    """The boxes of a scope; each scope in it is a subgraph."""
    for index in scope.boxes:
        box = drawing.boxes[index]
        before, after = SHAPES[box.kind].mermaid
        yield f"{prefix}{index}{before}{'<br/>'.join(map(escaped, box.texts))}{after}:::{box.look}"
    for inner in scope.inner.values():
        label = escaped(inner.name.removeprefix(around).rstrip("/"))
        yield f'subgraph {prefix}s{min(inner.all_boxes())}_{inner.name.count("/")}["{label}"]'
        yield from (f"  {line}" for line in _scope(drawing, inner, prefix, inner.name))
        yield "end"


def escaped(text: str) -> str:
    """A text for use inside quotes: other characters become `#code;`."""
    return "".join(each if each.isalnum() or each in _PLAIN else f"#{ord(each)};" for each in text)
