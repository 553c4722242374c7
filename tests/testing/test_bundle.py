"""A graph file travels with the files it names; nothing it says reaches outside of them."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.testing.bundle import Bundle, pack, pack_graph
from dmlgraph.testing.records import Outcome
from dmlgraph.testing.run import Runner, cases

GRAPH = """\
dmlgraph: 1
templates: {file: parts/blocks.yaml}
inputs: {x: {dtype: float32, sizes: [2]}}
constants:
  w: {file: w.npy}
nodes:
  h: {use: scaled, x: x, w: w}
outputs: [h]
tests:
  t: {inputs: {x: {file: inputs/x.npy}}, expect: {h: {data: [3, 8]}}, devices: [cpu]}
  u: {inputs: {x: {file: missing.npy}}, expect: {h: {data: [3, 8]}}, devices: [cpu]}
"""
BLOCKS = """\
dmlgraph: 1
templates:
  scaled: {inputs: [x, w], nodes: {y: {op: multiply, a: x, b: w}}, outputs: [y]}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("parts", "inputs"):
        (tmp_path / name).mkdir()
    (tmp_path / "g.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "parts" / "blocks.yaml").write_text(BLOCKS, "utf-8")
    np.save(tmp_path / "w.npy", np.array([3, 4], np.float32))
    np.save(tmp_path / "inputs" / "x.npy", np.array([1, 2], np.float32))
    np.save(tmp_path / "other.npy", np.array([1, 2], np.float32))
    return tmp_path


def packed(folder: pathlib.Path, **more: int) -> Bundle:
    return pack((folder / "g.yaml").read_bytes(), "shown.yaml", folder, {}, **more)[0]


def test_it_has_what_the_file_its_templates_and_its_tests_name_and_no_more(folder: pathlib.Path) -> None:
    bundle = packed(folder)
    assert set(bundle.files) == {"parts/blocks.yaml", "w.npy", "inputs/x.npy"}
    assert bundle.text == GRAPH
    assert bundle.__sizeof__() > len(GRAPH) + sum(map(len, bundle.files.values()))


def test_its_tests_run_where_it_is_unpacked(folder: pathlib.Path) -> None:
    bundle = packed(folder)
    for path in sorted(folder.rglob("*.*")):
        path.unlink()
    with bundle.unpacked() as made:
        graph = bundle.graph(made, {})
        with Runner(graph) as runner:
            first, second = (runner.run(case) for case in cases(graph))
    assert first.outcome is Outcome.PASSED, first.report
    assert second.report.startswith("shown.yaml:11:26: field 'tests.u.inputs.x.file': there is no such file")
    assert not made.exists()


def test_a_graph_without_a_file_is_one_with_its_constants() -> None:
    graph = dg.Graph("made")
    weights = np.arange(100_000, dtype=np.float32)
    graph.output("y", graph.input("x", sizes=[100_000], dtype="float32") * graph.constant("w", weights))
    bundle = pack_graph(graph, "made")
    assert len(bundle.files) == 1
    with bundle.unpacked() as made, bundle.graph(made, {}).compile("cpu") as exe:
        assert (exe.run({"x": weights})["y"] == weights * weights).all()


def test_sizes_are_bounded(folder: pathlib.Path) -> None:
    whole = len(GRAPH.encode()) + sum(map(len, packed(folder).files.values()))
    packed(folder, most_bytes=whole)
    with raises(DmlGraphError, "bundle"):
        packed(folder, most_bytes=whole - 1)
    with raises(DmlGraphError, "bundle"):
        packed(folder, most_bytes=10)


@pytest.mark.parametrize(
    "path",
    [
        "../x.npy",
        "a/../../x.npy",
        "/etc/x.npy",
        "a//x.npy",
        "",
        ".",
        "a/..",
        "C:\\x.npy",
        "C:x.npy",
        "a\\..\\..\\x",
        "nul",
    ],
)
def test_a_path_that_leads_outside_is_refused(path: str) -> None:
    refused = raises(DmlGraphError, "outside-folder", field="file", got=path)
    with refused, Bundle("g.yaml", "", {path: b"x"}).unpacked():
        pass


def test_a_path_may_go_up_inside(folder: pathlib.Path) -> None:
    (folder / "parts" / "blocks.yaml").write_text("dmlgraph: 1\ntemplates: {file: ../more.yaml}\n", "utf-8")
    (folder / "more.yaml").write_text(BLOCKS, "utf-8")
    (folder / "g.yaml").write_text(GRAPH, "utf-8")
    with raises(DmlGraphError, "outside-folder", field="templates.file", got="../more.yaml"):
        packed(folder)
    with Bundle("g.yaml", "", {"a/../b/x.npy": b"x"}).unpacked() as made:
        assert (made / "b" / "x.npy").read_bytes() == b"x"


def test_a_file_outside_is_not_packed(folder: pathlib.Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    data = GRAPH.replace("w.npy", "../w.npy").replace("templates: {file: parts/blocks.yaml}", "").encode()
    with raises(DmlGraphError, "outside-folder", node="w", field="file", got="../w.npy"):
        pack(data, "g.yaml", inner, {})
