"""Batches: rows of files and folders, in an order that follows from the seed."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.batches import Batches

X = np.arange(22, dtype=np.float32).reshape(11, 2)


def graph() -> dg.Graph:
    g = dg.Graph("g")
    x, factor = g.input("x", sizes=[3, 2], dtype="float32"), g.input("factor", sizes=[1], dtype="float32")
    g.output("y", x * factor.broadcast_to(3, 2))
    return g


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, pathlib.Path]:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "factor.npy", np.ones(1, np.float32))
    return {name: tmp_path / f"{name}.npy" for name in ("x", "factor")}


def test_each_epoch_has_every_row_once_in_another_order(files: dict[str, pathlib.Path]) -> None:
    batches = Batches(graph(), files, seed=5)
    assert (batches.rows, batches.size, batches.each) == (11, 3, 3)
    steps = [batches.at(step) for step in range(6)]
    assert {tuple(step["factor"]) for step in steps} == {(1.0,)}
    epochs = [np.concatenate([step["x"] for step in steps[start : start + 3]]) for start in (0, 3)]
    for number, epoch in enumerate(epochs):
        np.testing.assert_array_equal(epoch, X[np.random.default_rng([5, number]).permutation(11)[:9]])
    again = Batches(graph(), files, seed=5)
    np.testing.assert_array_equal(again.at(4)["x"], steps[4]["x"])  # whatever was asked before
    in_order = np.concatenate([each["x"] for each in Batches(graph(), files).epoch()])
    np.testing.assert_array_equal(in_order, X[:9])


def test_a_folder_has_single_rows_or_several(files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    for folder, parts in {"single": list(X), "several": [X[:5], X[5], X[6:]]}.items():
        (tmp_path / folder).mkdir()
        for place, part in enumerate(parts):
            np.save(tmp_path / folder / f"{place:02}.npy", part.astype(">f4") if place == 1 else part)
        batches = Batches(graph(), files | {"x": tmp_path / folder}, seed=5)
        expected = Batches(graph(), files, seed=5)
        for step in range(5):
            found = batches.at(step)["x"]
            assert found.dtype == np.dtype("=f4")
            np.testing.assert_array_equal(found, expected.at(step)["x"])


def test_one_batch_is_enough(files: dict[str, pathlib.Path]) -> None:
    np.save(files["x"], X[:3])
    batches = Batches(graph(), {"x": files["x"], "factor": files["factor"]}, seed=None)
    np.testing.assert_array_equal(batches.at(7)["x"], X[:3])


@pytest.mark.parametrize(
    ("array", "code", "message"),
    [
        (X[:2], "sizes", "too few rows"),
        (X.astype(np.float64), "dtype", "float64"),
        (X.reshape(22), "sizes", r"\[22\].*\[rows, 2\]"),
        (np.ones((11, 3), np.float32), "sizes", r"\[11, 3\]"),
        (np.float32(1), "sizes", r"\[\]"),
        (np.array([{}]), "array-file", "not a .npy file"),
    ],
)
def test_what_does_not_fit_is_refused(
    files: dict[str, pathlib.Path], array: np.ndarray, code: str, message: str
) -> None:
    np.save(files["x"], array)
    with pytest.raises(dg.DmlGraphError, match=message) as caught:
        Batches(graph(), files)
    assert caught.value.code == code


def test_inputs_must_have_as_many_rows(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    a, b = (g.input(name, sizes=[3, 2], dtype="float32") for name in "ab")
    g.output("y", a + b)
    np.save(tmp_path / "a.npy", X)
    for rows in (10, 3):  # three rows are not the same three for every step
        np.save(tmp_path / "b.npy", X[:rows])
        got, allowed = (f"{count} rows in batches of 3" for count in (rows, 11))
        with raises(dg.BindingError, "sizes", field="b", got=got, allowed=allowed):
            Batches(g, {name: tmp_path / f"{name}.npy" for name in "ab"})


def test_files_must_be_there(files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, code, field in (("none.npy", "unreadable", None), ("empty", "missing-input", "x")):
        with raises(dg.DmlGraphError, code, field=field):
            Batches(graph(), files | {"x": tmp_path / name})
    with raises(dg.BindingError, "missing-input", hint="--input x=FILE.npy"):
        Batches(graph(), {"factor": files["factor"]})
    np.savez(tmp_path / "x.npz", X)
    with pytest.raises(dg.DmlGraphError, match=r"is an \.npz archive"):
        Batches(graph(), files | {"x": tmp_path / "x.npz"})
