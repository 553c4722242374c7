"""The page as text; test_page.py tests in a browser that it works."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from support.picture.graphs import HOSTILE, chain, hostile, ramp

from dmlgraph.picture import render
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.weights import with_weights


class Elements(HTMLParser):
    """Every element's tag and attributes, and the text inside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.closed = True
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.closed = False
        self.found.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("script", "style", "title") and not self.closed:
            self.texts[self.lasttag][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.closed = True


def test_the_data_holds_every_node_edge_and_row() -> None:
    data = json.loads(Elements(render(ramp(), "html")).texts["script"][0])
    drawing = with_weights(draw(ramp()))
    texts = data["texts"]
    nodes = [
        (kind, look, family, texts[name], tuple(texts[line] for line in lines), [texts[each] for each in rows])
        for kind, look, family, name, lines, rows, *_ in data["nodes"]
    ]
    everything = [each for box in drawing.boxes for each in (box, *(weight.box for weight in box.weights))]
    assert nodes == [
        (str(box.kind), box.look, box.family, box.name, box.lines, [each for row in box.rows for each in row])
        for box in everything
    ]
    assert [texts[line] for node in data["nodes"] for line, _ in node[-1]] == ["b float32 [1,3]"]
    (scene,) = data["scenes"]
    assert [(edge[0], edge[1], texts[edge[2]]) for edge in scene["edges"]] == [
        (edge.source, edge.target, edge.label) for edge in drawing.edges
    ]


def test_names_end_no_element() -> None:
    elements = Elements(render(hostile(), "html"))
    assert [tag for tag, _ in elements.found].count("script") == 2
    data = json.loads(elements.texts["script"][0])
    assert HOSTILE in data["texts"]
    assert HOSTILE in elements.texts["title"][0]


def test_the_page_asks_no_network_and_runs_only_its_own_program() -> None:
    elements = Elements(render(ramp(), "html"))
    assert not {"src", "href", "action"} & {name for _, attributes in elements.found for name in attributes}
    policy = next(a["content"] or "" for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    for kind, text in (("script", elements.texts["script"][1]), ("style", elements.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket", elements.texts["script"][1])


def test_a_page_of_two_thousand_nodes_weighs_less_than_two_megabytes() -> None:
    assert len(render(chain(2000), "html").encode()) < 2_000_000
