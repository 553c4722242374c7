"""The files of an export."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.formats import cpp
from dmlgraph.formats.cpp.writer import SOURCES, WEIGHTS


def product() -> dg.Graph:
    g = dg.Graph("a/b")
    x = g.input("x", sizes=[4, 8], dtype="float32")
    w = g.constant("w", np.arange(32, dtype=np.float32).reshape(8, 4))
    g.output("y 1", dg.activation_relu(dg.gemm(x, w, name="product"), name="y"))
    return g


def test_the_text_is_the_same_from_run_to_run(tmp_path: pathlib.Path) -> None:
    texts = []
    for name in ("first", "second"):
        cpp.save(product(), tmp_path / name)
        texts.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert texts[0] == texts[1]
    assert texts[0].keys() == {*SOURCES, WEIGHTS}


def test_nothing_stays_to_be_filled_in(tmp_path: pathlib.Path) -> None:
    cpp.save(product(), tmp_path)
    for name in SOURCES:
        text = (tmp_path / name).read_text("utf-8")
        assert "@" not in text, name
        assert [line for line in text.splitlines() if line != line.rstrip()] == [], name


def test_names_are_those_of_the_graph(tmp_path: pathlib.Path) -> None:
    cpp.save(product(), tmp_path)
    header = (tmp_path / "graph.h").read_text("utf-8")
    assert "namespace dml_a_b {" in header
    assert "enum class Output : UINT {\n    y_1,  // y 1\n};" in header
    assert "enum class State : UINT {};" in header
    assert "RequiredLevel = DML_FEATURE_LEVEL_4_0;" in header
    assert '"y 1.npy"' in (tmp_path / "main.cpp").read_text("utf-8")
    assert "build/dml_a_b_main -o FOLDER x=FILE.npy" in (tmp_path / "README.md").read_text("utf-8")


def test_fusion_can_be_left_out(tmp_path: pathlib.Path) -> None:
    counts = []
    for fuse in (True, False):
        cpp.save(product(), tmp_path, fuse=fuse)
        counts.append((tmp_path / "graph.cpp").read_text("utf-8").count("\n    {DML_OPERATOR_"))
    assert counts == [1, 2]


def test_the_weights_are_those_of_the_graph(tmp_path: pathlib.Path) -> None:
    cpp.save(product(), tmp_path, fuse=False)
    data = np.fromfile(tmp_path / WEIGHTS, np.float32)
    assert data.tolist() == [*range(32), *([0] * 32)]


def test_an_error_leaves_no_files(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("empty")
    g.input("x", sizes=[1], dtype="float32")
    with pytest.raises(dg.GraphError):
        cpp.save(g, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
