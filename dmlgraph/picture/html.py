"""HTML: one self-contained page to explore graphs; it needs no network.

The page holds the scenes, laid out here, as JSON, and a program that draws their visible part on a canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgraph.files.web_page import page
from dmlgraph.picture.drawing import Box, Drawing, Rows
from dmlgraph.picture.layout import LABEL, LEADING, LINE, TITLE, Scene, lay_out
from dmlgraph.picture.legend import SWATCH, legend
from dmlgraph.picture.scopes import MOST_BOXES, box_count, in_scopes
from dmlgraph.picture.shapes import SHAPES, cap, variables
from dmlgraph.picture.weights import with_weights

PROGRAM = [f"program/{subject}.js" for subject in ("scenes", "view", "selecting", "searching", "controls", "begin")]


def render(drawings: Sequence[Drawing]) -> str:
    """The drawings side by side as one page."""
    scoped = [in_scopes(with_weights(drawing)) for drawing in drawings]
    scenes = [lay_out(drawing) for drawing in scoped]
    data = _Data().of(scenes, are_open=sum(map(box_count, scoped)) <= MOST_BOXES)
    title = ", ".join(scene.title for scene in scenes)
    return page("dmlgraph.picture", title, data, style=variables(":root"), programs=PROGRAM)


class _Data:
    """The data of the page's program: texts, outlines and nodes once each, by index; program/scenes.js
    uses the same positions."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.outlines: dict[str, int] = {}
        self.records: dict[Box, int] = {}
        self.nodes: list[list[Any]] = []

    def of(self, scenes: Sequence[Scene], *, are_open: bool) -> dict[str, Any]:
        """The data; `are_open`: scopes are open at the beginning."""
        laid_out = [self._scene(scene) for scene in scenes]
        shown = {weight.box for box in self.records for weight in box.weights}
        entries = [
            [entry.look, entry.text, entry.outline, "" if entry.family is None else cap(*SWATCH)]
            for entry in legend((box for box in self.records if box not in shown), scenes[0].overlay)
        ]
        return {
            "fonts": {"title": TITLE, "line": LINE, "label": LABEL, "leading": LEADING},
            "legend": entries,
            "kinds": {kind: shape.legend for kind, shape in SHAPES.items()},
            "open": are_open,
            "scenes": laid_out,
            "nodes": self.nodes,
            "outlines": list(self.outlines),
            "texts": list(self.texts),
        }

    def _scene(self, scene: Scene) -> dict[str, Any]:
        boxes = []
        for placed in scene.boxes:
            outline = SHAPES[placed.box.kind].outline(placed.width, placed.height)
            numbers = [round(each) for each in (placed.x, placed.y, placed.width, placed.height)]
            end = "" if placed.box.family is None else cap(placed.width, placed.height)
            paths = [self._index(self.outlines, path) for path in (outline, end)]
            boxes.append([self._node(placed.box), *numbers, *paths])
            if placed.stands_for is not None:
                boxes[-1].append(placed.stands_for)
        routes = []
        for route in scene.routes:
            edge, tip = route.edge, route.tip
            label = route.label and list(map(round, route.label))
            way = [round(each) for point in route.points for each in point]
            ends = [round(each, 1) for each in tip]
            routes.append([edge.source, edge.target, self._text(edge.label), label, way, ends, self._rows(edge.rows)])
        return {
            "title": scene.title,
            "width": round(scene.width),
            "height": round(scene.height),
            "boxes": boxes,
            "edges": routes,
            "notes": [self._text(note) for note in scene.notes],
            "groups": {
                index: [self._scene(each) for each in (group, *scene.copies.get(index, ()))]
                for index, group in scene.groups.items()
            },
        }

    def _node(self, box: Box) -> int:
        if box not in self.records:
            self.records[box] = len(self.nodes)
            origins = [self._text(name) for name in box.origins]
            lines = [self._text(line) for line in box.lines]
            node: list[Any] = [
                box.kind,
                box.look,
                box.family,
                self._text(box.name),
                lines,
                self._rows(box.rows),
                origins,
            ]
            self.nodes.append(node)
            node.append([[self._text(weight.line), self._node(weight.box)] for weight in box.weights])
        return self.records[box]

    def _rows(self, rows: Rows) -> list[int]:
        return [self._text(each) for row in rows for each in row]

    def _text(self, text: str) -> int:
        return self._index(self.texts, text)

    @staticmethod
    def _index(known: dict[str, int], text: str) -> int:
        return known.setdefault(text, len(known))
