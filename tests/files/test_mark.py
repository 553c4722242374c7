"""The mark in files that dmlgraph writes: it overwrites no file that somebody has changed."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest
from support.problems import raises

import dmlgraph as dg


@pytest.fixture
def graph() -> dg.Graph:
    g = dg.Graph("g")
    g.output("y", dg.negate(g.input("x", sizes=[2], dtype="float32"), name="y"))
    return g


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("negate", "abs"),
        lambda text: text + "# mine\n",
        lambda text: text.partition("\n")[2],  # without the mark
    ],
)
def test_a_file_that_somebody_has_changed_is_not_overwritten(
    change: Callable[[str], str], graph: dg.Graph, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "g.yaml"
    graph.save(path)
    changed = change(path.read_text("utf-8"))
    path.write_text(changed, "utf-8")
    with raises(dg.DmlGraphError, "unwritable") as caught:
        graph.save(path)
    assert caught.value.code == "unwritable"
    assert path.read_text("utf-8") == changed
    graph.save(path, force=True)
    assert "negate" in path.read_text("utf-8")


def test_what_was_written_is_overwritten_also_as_a_copy_with_other_ends_of_lines(
    graph: dg.Graph, tmp_path: pathlib.Path
) -> None:
    path, copied = tmp_path / "g.yaml", tmp_path / "copy.yaml"
    graph.save(path)
    graph.save(path)
    shutil.copy(path, copied)
    copied.write_bytes(copied.read_bytes().replace(b"\n", b"\r\n"))
    assert dg.load(copied).nodes == dg.load(path).nodes
    graph.save(copied)
    (tmp_path / "empty.yaml").touch()
    graph.save(tmp_path / "empty.yaml")


def test_the_suffix_says_what_is_written(graph: dg.Graph, tmp_path: pathlib.Path) -> None:
    for name in ("g.yml", "g.json", "g.onnx"):
        graph.save(tmp_path / name)
    assert dg.load_dxdispatch(tmp_path / "g.json").outputs.keys() == {"y"}
    for name in ("g.txt", "g"):
        with raises(dg.DmlGraphError, "file-name", field="path"):
            graph.save(tmp_path / name)
