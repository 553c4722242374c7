"""What a notebook shows of an error: the user's lines."""

from __future__ import annotations

import linecache

import dmlgraph as dg


def shown(cell: str) -> list[str]:
    """What IPython is given for the error of a cell."""
    linecache.cache["<cell>"] = len(cell), None, cell.splitlines(keepends=True), "<cell>"
    try:
        exec(compile(cell, "<cell>", "exec"), {"dg": dg})
    except dg.DmlGraphError as error:
        return error._render_traceback_()
    raise AssertionError("the cell does not fail")


def test_the_lines_of_the_user_are_shown_and_not_ours() -> None:
    lines = shown(
        "g = dg.Graph()\n"
        "x = g.input('x', sizes=[1, 3], dtype='float32')\n"
        "def layer(x):\n"
        "    return dg.multiply(x, g.constant('c', [2]))\n"
        "layer(x)\n"
    )
    places = [line for line in lines if line.startswith("  File ")]
    assert [place for place in places if "<cell>" in place] == [
        '  File "<cell>", line 5, in <module>',
        '  File "<cell>", line 4, in layer',
    ]
    assert len(places) == 3  # one is this test's own
    assert "    return dg.multiply(x, g.constant('c', [2]))" in lines
    assert "multiply" in lines[-1]
    assert "dtype" in lines[-1]


def test_an_error_inside_the_package_alone_keeps_its_frames() -> None:
    error = dg.GraphError("of no code", code="name")
    assert error._render_traceback_() == ["dmlgraph.base.errors.GraphError: of no code"]
