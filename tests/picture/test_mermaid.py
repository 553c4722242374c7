"""Mermaid flowcharts."""

from __future__ import annotations

import re

import pytest
from support.picture.graphs import fused, hostile, ramp

from dmlgraph.picture import render
from dmlgraph.picture.mermaid import escaped
from dmlgraph.picture.mermaid import render as render_drawings


def test_a_flowchart() -> None:
    assert render(ramp(), "mermaid").splitlines()[:12] == [
        "flowchart TB",
        r'  n0[\"x<br/>float32 [2,3]"/]:::input',
        '  n1{{"steps<br/>float32 [2,3]<br/>3.0 #8722; 2.0·i"}}:::fill',
        '  n2{{"seven<br/>float32 [1,1] = 7.0"}}:::fill',
        '  n3("scaled<br/>multiply"):::arithmetic',
        '  n4("shifted<br/>add<br/>b float32 [1,3]"):::arithmetic',
        '  n5("more<br/>add"):::arithmetic',
        '  n6("clipped<br/>clip<br/>min 0.0 · max 4.0"):::arithmetic',
        r'  n7[/"y<br/>float32 [2,3]"\]:::output',
        '  n0 -->|"float32 [2,3]"| n3',
        '  n1 -->|"float32 [2,3]"| n3',
        '  n3 -->|"float32 [2,3]"| n4',
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("a_b", "a_b"), ('"', "#34;"), ("<b>", "#60;b#62;"), ("#1;", "#35;1#59;"), ("层", "层")]
)
def test_what_could_mean_something_is_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_names_are_texts_and_nothing_else() -> None:
    for line in render(hostile(), "mermaid").splitlines():
        assert "<" not in line.replace("<br/>", "")
        for quoted in re.findall(r'"(.*)"', line):
            assert '"' not in quoted


def test_two_drawings_are_subgraphs() -> None:
    lines = render_drawings(fused()).splitlines()
    assert [line.strip() for line in lines if "subgraph" in line] == ['subgraph s0["before"]', 'subgraph s1["after"]']
    assert sum(line.strip() == "end" for line in lines) == 2
    assert any("↳ scaled<br/>↳ shifted" in line and line.endswith("]]:::fused") for line in lines)
