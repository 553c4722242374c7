"""The cost of a picture of a large graph in seconds and bytes, by kind of graph.

    python benchmarks/picture.py [--nodes 3200] [--chromium /usr/bin/chromium]

The graph "scopes" has 100 scopes, which are closed when the page opens.

drawing   Graph → Drawing: every box and edge with its texts
layout    Drawing → Scene: a place for everything
svg, html the two files, all of it: drawing, layout, text
opens     the page in a headless Chromium, from asking for it to its first drawn frame; only with --chromium
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import dmlgraph as dg
from dmlgraph import picture
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.layout import arranged_once, lay_out

SIZES = (1, 8, 16, 16)


def chain(nodes: int) -> dg.Graph:
    """A long chain; every other node also reads the input."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=SIZES, dtype="float32")
    for index in range(nodes - 1):
        value = value + x if index % 2 else dg.activation_relu(value)
    g.output("y", value)
    return g


def blocks(nodes: int) -> dg.Graph:
    """Blocks with a residual: fills, a constant matrix, an activation; eight nodes each."""
    g = dg.Graph("blocks")
    value = g.input("x", sizes=(1, 1, 16, 16), dtype="float32")
    for index in range((nodes - 1) // 8):
        weights = g.constant(f"weights_{index}", [[[[0.5] * 16] * 16]], dtype="float32")
        hidden = dg.activation_tanh(dg.gemm(value, weights) * 0.125 + 1)
        value = value + dg.activation_relu(hidden)
    g.output("y", value)
    return g


def wide(nodes: int) -> dg.Graph:
    """Many short chains side by side, joined pair by pair."""
    g = dg.Graph("wide")
    x = g.input("x", sizes=SIZES, dtype="float32")
    values = [dg.activation_relu(x) for _ in range(nodes // 2)]
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    g.output("y", values[0])
    return g


def scopes(nodes: int) -> dg.Graph:
    """100 scopes one after another, each a chain."""
    g = dg.Graph("scopes")
    value = g.input("x", sizes=SIZES, dtype="float32")
    for index in range(100):
        with g.scope(f"layers/{index}"):
            for _ in range(max(2, nodes // 100)):
                value = dg.activation_relu(value)
    g.output("y", value)
    return g


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    arranged_once.cache_clear()  # of the measurement before
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def opening(page: str, chromium: str) -> float:
    """Seconds from requesting the page to its first drawn frame."""
    from playwright.sync_api import sync_playwright  # only needed with a browser

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = pathlib.Path(folder, "graph.html")
        file.write_text(page, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        seconds, _ = timed(lambda: (tab.goto(file.as_uri()), tab.wait_for_selector("body[data-drawn]")))
        browser.close()
    return seconds


def measure(nodes: int, chromium: str | None) -> None:
    columns = ("graph", "nodes", "drawing", "layout", "svg", "svg size", "html", "html size", "opens")
    print("  ".join(f"{column:>9}" for column in columns))
    for make in (chain, blocks, wide, scopes):
        graph = make(nodes)
        drawing_time, drawing = timed(lambda: draw(graph))  # noqa: B023 - called at once
        layout_time, _ = timed(lambda: lay_out(drawing))  # noqa: B023
        svg_time, svg = timed(lambda: picture.render(graph, "svg"))  # noqa: B023
        html_time, html = timed(lambda: picture.render(graph, "html"))  # noqa: B023
        opens = opening(html, chromium) if chromium else None
        seconds = [f"{each:.2f} s" for each in (drawing_time, layout_time, svg_time, html_time)]
        sizes = [f"{len(each.encode()) / 1e6:.2f} MB" for each in (svg, html)]
        count = str(sum(1 for _ in graph.nodes))
        cells = [make.__name__, count, *seconds[:3], sizes[0], seconds[3], sizes[1]]
        cells.append("-" if opens is None else f"{opens:.2f} s")
        print("  ".join(f"{cell:>9}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3_200)
    parser.add_argument("--chromium", help="the browser's program")
    arguments = parser.parse_args()
    measure(arguments.nodes, arguments.chromium)
