"""`dmlgraph.picture`: formats, views, files, Jupyter."""

from __future__ import annotations

import pathlib

import pytest
from support.picture.graphs import ramp
from support.problems import raises

import dmlgraph as dg
from dmlgraph import picture

BEGIN = {"svg": "<svg ", "html": "<!doctype html>", "dot": "digraph ", "mermaid": "flowchart TB"}


@pytest.mark.parametrize(("suffix", "format_"), picture.SUFFIXES.items())
def test_the_suffix_says_the_format(suffix: str, format_: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"graph{suffix}"
    picture.save(ramp(), path)
    assert path.read_text(encoding="utf-8") == picture.render(ramp(), format_)
    assert path.read_text(encoding="utf-8").startswith(BEGIN[format_])


def test_an_unknown_suffix_format_or_view_is_an_error(tmp_path: pathlib.Path) -> None:
    with raises(dg.DmlGraphError, "name", field="path", allowed="a name that ends in .svg, .html, .dot, .mmd"):
        picture.save(ramp(), tmp_path / "graph.png")
    with raises(dg.DmlGraphError, "unknown-name", field="format", got="mermaids", hint="did you mean 'mermaid'?"):
        picture.render(ramp(), "mermaids")
    with raises(dg.DmlGraphError, "unknown-name", field="view", got="after", allowed="source, fused, both"):
        picture.render(ramp(), "dot", view="after")  # type: ignore[arg-type]


def foldable() -> dg.Graph:
    g = dg.Graph("foldable")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output(
        "y", dg.activation_relu(dg.gemm(x, g.constant("w", [[1.0]] * 3, dtype="float32"), name="product"), name="y")
    )
    return g


def test_the_fused_view_draws_what_fusion_makes() -> None:
    (after,) = picture.drawings(foldable(), "fused")
    (node,) = [box for box in after.boxes if box.origins]
    assert sorted(node.origins) == ["product", "y"]
    assert dict(node.rows)["fused_activation"] == "activation_relu"
    (group,) = after.groups.values()
    assert sorted(box.name for box in group.boxes) == ["product", "y"]


def test_both_are_titled() -> None:
    titles = [drawing.title for drawing in picture.drawings(foldable(), "both")]
    assert titles == ["foldable: before fusion", "foldable: after fusion"]


def test_a_graph_shows_itself_in_jupyter() -> None:
    assert ramp()._repr_svg_() == picture.render(ramp(), "svg")
