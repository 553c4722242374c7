"""Pictures of graphs: SVG, a page of HTML, DOT and Mermaid.

    picture.save(graph, "graph.html")
    text = picture.render(graph, "svg", view="both")

Inputs, constants, fills, operators, fused nodes and outputs differ in shape and in colour, operators in colour by what
they do.  Edges show data types and sizes, and a tooltip shows what does not fit in a box.  Large graphs are folded.
`over` lays times, values, differences or the work of fusion over a picture: see `dmlgraph.picture.sources`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from dmlgraph.base.errors import DmlGraphError, listing, suggestion
from dmlgraph.base.memory import enough_memory
from dmlgraph.files.whole import write_text
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.picture import dot, html, mermaid, svg
from dmlgraph.picture.drawing import Drawing, draw
from dmlgraph.picture.folding import fold
from dmlgraph.picture.laying import laid_over
from dmlgraph.picture.overlay import Mark, Overlay

if TYPE_CHECKING:
    from dmlgraph.compiler.pipeline import Fused

__all__ = ["FORMATS", "SUFFIXES", "VIEWS", "Drawing", "Mark", "Overlay", "View", "draw", "format_of", "render", "save"]

View = Literal["source", "fused", "both"]
VIEWS: tuple[View, ...] = get_args(View)

FORMATS: dict[str, Callable[[Sequence[Drawing]], str]] = {
    "svg": svg.render,
    "html": html.render,
    "dot": dot.render,
    "mermaid": mermaid.render,
}
SUFFIXES = {".svg": "svg", ".html": "html", ".dot": "dot", ".mmd": "mermaid"}


def drawings(graph: Graph, view: View = "source", over: Overlay | None = None) -> list[Drawing]:
    """The drawings of a view: the graph as built, the fused graph, or both; `over`: what is laid over them."""
    drawn = _drawings(graph, view)
    return drawn if over is None else [laid_over(each, over) for each in drawn]


def _drawings(graph: Graph, view: View) -> list[Drawing]:
    if view == "source":
        return [draw(graph)]
    from dmlgraph.passes import fuse  # the passes are slow to import, and most pictures do not need them

    source = draw(graph, title=f"{graph.name}: before fusion")
    fused = fuse(graph)
    title = f"{graph.name}: after fusion"
    after = draw(fused.graph, title=title, origins=fused.origins, source=source, notes=_notes(graph, fused))
    return [source, after] if view == "both" else [after]


def _notes(graph: Graph, fused: Fused) -> list[str]:
    """What fusion did, as text: the number of executed nodes before and after, then each rewrite."""
    before = sum(isinstance(graph.node(name), OperatorNode) for name in graph.live_nodes())
    after = sum(isinstance(node, OperatorNode) for node in fused.graph.nodes)
    done = [str(entry) for entry in fused.record if entry.applied]
    return [f"{_nodes(before)} became {_nodes(after)}" if done else "nothing to fuse", *done]


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def render(graph: Graph, format: str = "svg", *, view: View = "source", over: Overlay | None = None) -> str:
    """A picture of a graph as text.

    Args:
        graph: any.
        format: "svg", "html", "dot" or "mermaid".
        view: "source", the graph as built; "fused", the fused graph; "both", side by side.
        over: what is laid over the picture; `dmlgraph.picture.sources` makes overlays of times, values, differences
            and fusion.

    Raises:
        DmlGraphError: the format or view is unknown.
    """
    for what, given, known in (("format", format, tuple(FORMATS)), ("view", view, VIEWS)):
        if given not in known:
            hint = suggestion(str(given), known)
            raise DmlGraphError(
                f"is not a {what} of pictures",
                code="unknown-name",
                field=what,
                got=given,
                allowed=listing(known),
                hint=hint,
            )
    with enough_memory("draw", graph):
        return FORMATS[format](drawings(graph, view, over))


def notebook(graph: Graph) -> str:
    """A graph for a notebook: SVG, folded if it is large."""
    return svg.render([fold(draw(graph))])


def format_of(path: str | pathlib.Path) -> str:
    """The format of a file name's suffix.

    Raises:
        DmlGraphError: no format has this suffix.
    """
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        allowed = f"a name that ends in {listing(SUFFIXES)}"
        raise DmlGraphError("is not a name for a picture", code="name", field="path", got=str(path), allowed=allowed)
    return SUFFIXES[suffix]


def save(graph: Graph, path: str | pathlib.Path, *, view: View = "source", over: Overlay | None = None) -> None:
    """Writes a picture of a graph in the format of the file's suffix: .svg, .html, .dot or .mmd; else as `render`."""
    text = render(graph, format_of(path), view=view, over=over)
    write_text(path, text)
