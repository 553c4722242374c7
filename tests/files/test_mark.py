"""The mark in files that dmlgraph writes: it overwrites no file that somebody has changed."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from support.problems import raises

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.formats import cpp


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
    with raises(dg.DmlGraphError, "unwritable"):
        graph.save(path)
    assert path.read_text("utf-8") == changed
    graph.save(path, force=True)
    assert "negate" in path.read_text("utf-8")


@pytest.mark.parametrize("name", ["one/graph.h", "one/graph.cpp", "CMakeLists.txt", "one/README.md"])
def test_a_source_of_cpp_that_somebody_has_changed_is_not_overwritten(
    name: str, graph: dg.Graph, tmp_path: pathlib.Path
) -> None:
    def write(*, force: bool = False) -> dict[str, bytes]:
        cpp.save({"one": graph, "two": graph}, tmp_path, force=force)
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*.*")}

    written = write()
    assert write() == written
    changed = (tmp_path / name).read_bytes() + b"\n"
    (tmp_path / name).write_bytes(changed)
    (tmp_path / "two" / "ids.h").unlink()
    with raises(dg.DmlGraphError, "unwritable"):
        write()
    assert (tmp_path / name).read_bytes() == changed
    assert not (tmp_path / "two" / "ids.h").exists()
    assert write(force=True) == written


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


def _changed_model(data: bytes) -> bytes:
    """An ONNX model with another operator, written again by onnx."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(data)
    model.graph.node[0].op_type = "Abs"
    written: bytes = model.SerializeToString()
    return written


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("g.json", lambda data: data.replace(b"NEGATE", b"ABS")),
        ("g.json", lambda data: json.dumps(json.loads(data)).encode()),
        ("g.onnx", _changed_model),
    ],
)
def test_models_that_somebody_has_changed_are_not_overwritten(
    name: str, change: Callable[[bytes], bytes], graph: dg.Graph, tmp_path: pathlib.Path
) -> None:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    path, source = tmp_path / name, tmp_path / "g.yaml"
    graph.save(source)
    graph.save(path)
    written = path.read_bytes()
    graph.save(path)  # its own
    assert path.read_bytes() == written
    changed = change(written)
    assert changed != written
    path.write_bytes(changed)
    with raises(dg.DmlGraphError, "unwritable"):
        graph.save(path)
    arguments = ["export", str(source), "-o", str(path)]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "error[unwritable]" in refused.output
    assert path.read_bytes() == changed
    done = CliRunner().invoke(main, [*arguments, "--force"])
    assert done.exit_code == 0, done.output
    assert path.read_bytes() == written


def test_a_file_that_others_wrote_is_not_overwritten(graph: dg.Graph, tmp_path: pathlib.Path) -> None:
    for name in ("g.json", "g.onnx"):
        if name.endswith(".onnx"):
            pytest.importorskip("onnx")
        path = tmp_path / name
        path.write_bytes(b"{}")
        with raises(dg.DmlGraphError, "unwritable"):
            graph.save(path)
    with raises(dg.DmlGraphError, "unwritable"):
        dg.save_dxdispatch(graph, tmp_path / "g.json")
    dg.save_dxdispatch(graph, tmp_path / "g.json", force=True)
    assert dg.load_dxdispatch(tmp_path / "g.json").outputs.keys() == {"y"}
