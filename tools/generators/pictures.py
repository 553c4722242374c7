"""The pictures of the documentation, as Mermaid in its pages and as SVG on its site.

A page requests one with a comment, `<!-- picture: FILE WHAT -->`: FILE is a graph file in docs/, or the title of a YAML
block of the page; WHAT is "source", the graph itself; "all", before and after fusion; or the name of one rule.
This script writes the picture as Mermaid below the comment, in all pages; a test fails if one is not up to date.

It also draws docs/ramp.svg, the README's picture, as `dmlgraph show examples/ramp.yaml` does, and those of
docs/pictures.md, which are too large for Mermaid.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence

import dmlgraph as dg
from dmlgraph import devices, picture
from dmlgraph.base.random_arrays import SEED
from dmlgraph.measure.diff import Side, inner_values
from dmlgraph.measure.inputs import complete
from dmlgraph.passes import fuse
from dmlgraph.picture import sources

DOCS = pathlib.Path(__file__).parents[2] / "docs"
README_GRAPH, README_PICTURE = DOCS.parent / "examples" / "ramp.yaml", DOCS / "ramp.svg"

_PICTURE = re.compile(r"^<!-- picture: (\S+) (\S+) -->\n(?:\n```mermaid\n.*?^```\n)?", re.DOTALL | re.MULTILINE)


def with_mermaid(page: str) -> str:
    """A page's text with its pictures as Mermaid, for readers of the plain files."""
    return _replaced(page, lambda found, shown: f"<!-- picture: {found[1]} {found[2]} -->\n\n{mermaid(shown)}")


def with_svg(page: str) -> str:
    """A page's text with its pictures as SVG."""
    return _replaced(page, lambda _, shown: f'<div class="picture">\n{picture.FORMATS["svg"](shown)}</div>\n')


def mermaid(shown: Sequence[picture.Drawing]) -> str:
    """Drawings as a block of a page."""
    return f"```mermaid\n{picture.FORMATS['mermaid'](shown)}```\n"


def drawings(graph: dg.Graph, what: str) -> list[picture.Drawing]:
    """The drawings of a picture."""
    if what == "source":
        return [picture.draw(graph)]
    before = picture.draw(graph, title="before")
    fused = fuse(graph, rules=True if what == "all" else [what])
    assert any(entry.applied for entry in fused.record), f"nothing fires in {graph.name}"
    return [before, picture.draw(fused.graph, title="after", origins=fused.origins, source=before)]


def _replaced(page: str, shown: Callable[[re.Match[str], Sequence[picture.Drawing]], str]) -> str:
    return _PICTURE.sub(lambda found: shown(found, drawings(_graph(page, found[1]), found[2])), page)


def _graph(page: str, source: str) -> dg.Graph:
    block = re.search(rf'^```yaml title="{re.escape(source)}"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE)
    return dg.loads(block[1]) if block else dg.load(DOCS / source)


def readme_picture() -> str:
    """The README's first graph as SVG."""
    return picture.render(dg.load(README_GRAPH), "svg")


def large_pictures() -> dict[pathlib.Path, str]:
    """The pictures of docs/pictures.md."""
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    tower, digits, rotary = _graph(page, "tower.yaml"), _example("digits"), _example("rotary_encoding")
    random = complete(digits, {}, SEED)[0]
    computed = inner_values(digits, Side(devices.choose("reference"), fuse=False), random)
    texts = {
        "small": readme_picture(),
        "fifty": picture.render(_example("characters"), "svg"),
        "five_hundred": picture.render(tower, "svg"),
        "repeated": picture.FORMATS["svg"]([_without_names(picture.draw(tower))]),
        "values": picture.render(digits, "svg", over=sources.values((at.node, array) for at, array in computed)),
        "fusion": picture.render(rotary, "svg", view="both", over=sources.fusion(fuse(rotary))),
    }
    return {DOCS / "pictures" / f"{name}.svg": text for name, text in texts.items()}


def _example(name: str) -> dg.Graph:
    return dg.load(DOCS.parent / "examples" / name / f"{name}.yaml")


def _without_names(drawing: picture.Drawing) -> picture.Drawing:
    """The drawing with nodes and weights named by numbers."""
    names = [box.name if box.name in ("x", "layers") else f"node_{index}" for index, box in enumerate(drawing.boxes)]
    boxes = (
        dataclasses.replace(box, name=name, lines=(name, *box.lines[1:]))
        for name, box in zip(names, drawing.boxes, strict=True)
    )
    return dataclasses.replace(drawing, boxes=tuple(boxes))


def files() -> dict[pathlib.Path, str]:
    """The README's picture, and the pages that request pictures, except for those that are made whole."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md")) if path.name != "passes.md"}
    drawn = {path: with_mermaid(text) for path, text in pages.items() if "<!-- picture:" in text}
    return {README_PICTURE: readme_picture(), **large_pictures(), **drawn}
