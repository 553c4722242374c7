"""DOT: the language of Graphviz, to lay out and style graphs with its programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmlgraph.picture.drawing import Drawing
from dmlgraph.picture.scopes import Scope, scopes
from dmlgraph.picture.shapes import INKS, LOOKS, SHAPES
from dmlgraph.picture.weights import with_weights


def render(drawings: Sequence[Drawing]) -> str:
    """The drawings as one digraph; several are clusters side by side."""
    return "\n".join(_lines([with_weights(drawing) for drawing in drawings])) + "\n"


def _lines(drawings: Sequence[Drawing]) -> Iterator[str]:
    yield f"digraph {quoted(' and '.join(drawing.title for drawing in drawings))} {{"
    yield '  node [style=filled fontname="Helvetica" fontsize=12 margin="0.12,0.06"]'
    yield '  edge [color="#77828f" fontname="Helvetica" fontsize=9 fontcolor="#55606d" arrowsize=0.7]'
    yield from (f"  // {note}" for drawing in drawings for note in drawing.notes)
    for place, drawing in enumerate(drawings):
        several = len(drawings) > 1
        if several:
            yield f"  subgraph cluster_{place} {{"
            yield f'  label={quoted(drawing.title)} fontname="Helvetica" color="#d5dbe2"'
        yield from (f"  {line}" for line in _drawing(drawing, f"g{place}_" if several else "n"))
        if several:
            yield "  }"
    yield "}"


def _drawing(drawing: Drawing, prefix: str) -> Iterator[str]:
    yield from _scope(drawing, scopes(drawing), prefix, "")
    for edge in drawing.edges:
        yield f"{prefix}{edge.source} -> {prefix}{edge.target} [label={quoted(edge.label)}]"


def _scope(drawing: Drawing, scope: Scope, prefix: str, around: str) -> Iterator[str]:
    """The boxes of a scope; each scope in it is a cluster."""
    for index in scope.boxes:
        box = drawing.boxes[index]
        shape = SHAPES[box.kind]
        fill, line = LOOKS[box.look][0]
        tooltip = quoted("\n".join(f"{what}: {text}" for what, text in box.rows))
        label = quoted("\n".join(box.texts))
        ink = f' fontcolor="{INKS[box.look]}"' if box.look in INKS else ""
        yield f'{prefix}{index} [{shape.dot} fillcolor="{fill}" color="{line}"{ink} label={label} tooltip={tooltip}]'
    for inner in scope.inner.values():
        label = quoted(inner.name.removeprefix(around).rstrip("/"))
        yield f"subgraph cluster_{prefix}s{min(inner.all_boxes())}_{inner.name.count('/')} {{"
        yield f'  label={label} fontname="Helvetica" color="#768493" style="rounded"'
        yield from (f"  {line}" for line in _scope(drawing, inner, prefix, inner.name))
        yield "}"


def quoted(text: str) -> str:
    """A DOT string; a backslash in a label would start an escape, `&` an entity."""
    for character, escaped in (("&", "&amp;"), ("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f'"{text}"'
