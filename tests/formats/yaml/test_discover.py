"""Which files of folders are graph files."""

from __future__ import annotations

import pathlib

import pytest

from dmlgraph.formats.yaml.discover import graph_files, is_graph_file


def make(folder: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("dmlgraph: 1\n", True),
        ("# a comment\n\nname: x\ndmlgraph : 1\n", True),
        ("{dmlgraph: 1, outputs: [x]}", True),
        ('"dmlgraph": 1\n', True),
        ("\ufeffdmlgraph: 1\n", True),
        ("---\ndmlgraph: 2\n", True),
        ("", False),
        ("on: push\njobs:\n  dmlgraph: 1\n", False),
        ("# dmlgraph: 1\n", False),
        ("- dmlgraph\n", False),
        ("dmlgraphs: 1\n", False),
        ("dmlgrph: 1\nnodes:\n  y: {op: exp, input: x}\noutputs: [y]\n", True),
        ("nodes: {y: {op: exp, input: x}}\noutputs: [y]\n", True),
        ("inputs: {a: b}\noutputs: {c: d}\nruns: {using: node20}\n", False),  # an action of GitHub
        ("nodes: [a]\noutputs: [b]\n", False),
    ],
)
def test_a_graph_file_has_the_key_at_its_top_level(text: str, is_one: bool, tmp_path: pathlib.Path) -> None:
    make(tmp_path, {"g.yaml": text})
    assert is_graph_file(tmp_path / "g.yaml") is is_one


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_a_graph_file_in_another_encoding_is_one(encoding: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "g.yaml").write_bytes("dmlgraph: 1\noutputs: [x]\n".encode(encoding))
    (tmp_path / "k.yaml").write_bytes("a: 1\n".encode(encoding))
    assert graph_files([tmp_path]) == ([tmp_path / "g.yaml"], [tmp_path / "k.yaml"])


def test_folders_are_searched_in_order_and_hidden_ones_are_not(tmp_path: pathlib.Path) -> None:
    graph, other = "dmlgraph: 1\n", "a: 1\n"
    make(
        tmp_path,
        {"b.yaml": graph, "a.YML": graph, "c.txt": graph, "z/y.yaml": graph, "k.yaml": other, ".git/g.yaml": graph},
    )
    found, skipped = graph_files([tmp_path])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a.YML", "b.yaml", "z/y.yaml"]
    assert skipped == [tmp_path / "k.yaml"]


def test_given_files_are_graph_files_unless_others_are_to_be_skipped(tmp_path: pathlib.Path) -> None:
    make(tmp_path, {"a.yaml": "a: 1\n", "g.yaml": "dmlgraph: 1\n"})
    given = [tmp_path / "a.yaml", tmp_path / "g.yaml", tmp_path / "g.yaml", tmp_path]
    assert graph_files(given[:2]) == (given[:2], [])
    assert graph_files(given, skip_others=True) == ([given[1]], [given[0]])


def test_what_cannot_be_read_is_left_to_the_reader_to_report(tmp_path: pathlib.Path) -> None:
    assert is_graph_file(tmp_path / "nowhere.yaml")
