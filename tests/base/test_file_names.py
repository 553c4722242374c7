"""Names of files that graph files refer to, or that names of nodes become: the same on every system."""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import unicodedata

import numpy as np
import pytest
from click.testing import CliRunner
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.file_names import LONGEST_FILE_NAME, FileNames, names_a_device, spelled_otherwise, why_unportable
from dmlgraph.cli.commands import main
from dmlgraph.files import whole as files
from dmlgraph.formats import yaml as document

HEAD = "dmlgraph: 1\n"
DEVICES = ("con", "PRN", "Aux", "nul", "COM1", "com9", "LPT0", "lpt¹", "CONIN$", "conout$")


def refused(name: str, folder: pathlib.Path) -> str:
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(f"{HEAD}constants: {{c: {{file: '{name}'}}}}\noutputs: [c]\n", folder=folder)
    assert caught.value.problems[0].code == "file-name"
    return str(caught.value.problems[0].hint)


@pytest.mark.parametrize("name", [f"{device}{ending}" for device in DEVICES for ending in ("", ".npy", " .a.b", ".")])
def test_a_device_of_windows_is_no_file(name: str, tmp_path: pathlib.Path) -> None:
    assert names_a_device(name)
    for path in (name, f"sub/{name}", f"{name}/w.npy"):
        assert f"'{name}' is the name of a device on Windows" in refused(path, tmp_path)


@pytest.mark.parametrize("name", ["console", "com", "com10", "nul_", "a.con", "lpt", "auxiliary.npy", ".nul", "con$"])
def test_other_names_are_no_devices(name: str) -> None:
    assert not names_a_device(name)
    assert why_unportable(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("w.npy.", "ends in a dot, which Windows leaves out"),
        ("w.npy ", "ends in a space, which Windows leaves out"),
        ("sub./w.npy", "ends in a dot"),
        ("...", "ends in a dot"),
        ("sub\\w.npy", "holds \\, which cannot be part of a file name on every system"),
        ("w.npy:stream", "holds :"),
        ("what?.npy", "holds ?"),
        ("w*", "holds *"),
    ],
)
def test_a_name_that_windows_changes_or_lacks_is_refused_where_it_exists(
    name: str, reason: str, tmp_path: pathlib.Path
) -> None:
    if os.name != "nt":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert reason in refused(name, tmp_path)


@pytest.mark.parametrize("name", ["C:/w.npy", "c:w.npy", "/w.npy", "//host/share/w.npy"])
def test_a_path_from_elsewhere_is_outside_on_every_system(name: str, tmp_path: pathlib.Path) -> None:
    with raises(dg.DocumentError, "outside-folder", node="c", field="file"):
        dg.loads(f"{HEAD}constants: {{c: {{file: '{name}'}}}}\noutputs: [c]\n", folder=tmp_path)


def test_the_files_of_a_folder_are_found_by_their_own_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Sub").mkdir()
    np.save(tmp_path / "Sub" / "w.npy", np.ones(3, np.float32))
    np.save(tmp_path / "é .1.npy", np.ones(3, np.float32))
    for name in ("Sub/w.npy", "./Sub/../Sub//w.npy", "é .1.npy"):
        g = dg.loads(f"{HEAD}constants: {{c: {{file: '{name}'}}}}\noutputs: [c]\n", folder=tmp_path)
        assert g.compile("reference").run()["c"].tolist() == [1, 1, 1]
    for name in ("SUB/w.npy", "Sub/W.npy", "É .1.npy"):
        with pytest.raises(dg.DocumentError) as caught:
            dg.loads(f"{HEAD}constants: {{c: {{file: '{name}'}}}}\noutputs: [c]\n", folder=tmp_path)
        assert caught.value.field == "file"
        assert caught.value.code in ("unreadable", "file-name")  # where letter case does not matter, it is there


@pytest.mark.skipif(os.name == "nt", reason="Windows itself has such folders: the test above")
def test_another_spelling_is_refused_where_letter_case_does_not_matter(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that finds W.NPY and w.npy but lists only w.npy, made of two links to one file."""
    np.save(tmp_path / "w.npy", np.ones(3, np.float32))
    (tmp_path / "W.NPY").hardlink_to(tmp_path / "w.npy")
    monkeypatch.setattr(os, "listdir", lambda folder: ["other.npy", "w.npy"])
    assert refused("W.NPY", tmp_path) == "its name is 'w.npy'"
    assert spelled_otherwise(pathlib.PurePath("w.npy"), tmp_path) is None
    monkeypatch.setattr(os, "listdir", lambda folder: ["weights.npy"])  # W is its short name
    assert spelled_otherwise(pathlib.PurePath("W.NPY"), tmp_path) == ""


def names(seed: int) -> list[str]:
    """Names of nodes that a system could mix up, take for others or refuse."""
    choose = random.Random(seed)
    parts = [
        "W",
        "w",
        "é",
        "e\u0301",
        "É",
        "ß",
        "SS",
        ".",
        " ",
        "/",
        "\\",
        ":",
        "%",
        "%2F",
        "~",
        "nul",
        "CON",
        "x" * 150,
    ]
    made = {"".join(choose.choices(parts, k=choose.randint(1, 4))) for _ in range(40)}
    return sorted(made | {*DEVICES, "W", "w"}, key=lambda each: choose.random())


@pytest.mark.parametrize("seed", range(20))
def test_different_names_are_different_files_on_every_system(seed: int) -> None:
    taken = FileNames()
    found = [taken.take(name) for name in names(seed)]
    assert all(why_unportable(f"{each}.npy") is None for each in found)
    assert max(len(each.encode()) for each in found) <= LONGEST_FILE_NAME
    folded = {unicodedata.normalize("NFD", each).upper().casefold() for each in found}
    assert len(folded) == len(found)


def test_constants_whose_names_differ_in_case_are_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    g = dg.Graph()
    for number, name in enumerate(("W", "w", "nul", "a/b", "A/B")):
        g.output(f"{number}", g.constant(name, np.full(100, number, np.float32)))
    document.save(g, tmp_path / "g.yaml")  # with a file for each array
    listed = sorted(each.name for each in tmp_path.iterdir())
    assert len({each.casefold() for each in listed}) == len(listed) == 6
    results = dg.load(tmp_path / "g.yaml").compile("reference").run()
    assert all((results[f"{number}"] == number).all() for number in range(5))
    model = tmp_path / "model"
    model.mkdir()
    dg.save_dxdispatch(g, model / "m.json")
    assert len({each.name.casefold() for each in model.iterdir()}) == len(list(model.iterdir()))


def test_a_graph_is_loaded_again_whatever_the_name_of_its_file(tmp_path: pathlib.Path) -> None:
    g = dg.Graph()
    g.output("y", g.constant("w", np.arange(100, dtype=np.float32)))
    odd = ("x" * 100,) if os.name == "nt" else ("x" * 200, "a:b", "what?", "back\\slash", "aux")
    for stem in ("50% of Ünï", "a.b", *odd):
        g.save(tmp_path / f"{stem}.yaml")
        assert dg.load(tmp_path / f"{stem}.yaml").compile("reference").run()["y"].sum() == 4950


def test_outputs_whose_names_differ_in_case_are_saved(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(
        f"{HEAD}inputs: {{x: {{dtype: float32, sizes: [2]}}}}\n"
        "nodes: {Y: {op: sqrt, input: x}, y: {op: abs, input: x}, nul: {op: recip, input: x}}\noutputs: [Y, y, nul]\n",
        "utf-8",
    )
    np.save("x.npy", np.full(2, 4, np.float32))
    arguments = ["run", "g.yaml", "--device", "reference", "--input", "x=x.npy", "--output-dir", "out"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    saved = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert len(saved) == 3
    assert saved[0] == "%6Eul.npy"
    assert {float(np.load(tmp_path / "out" / name)[0]) for name in saved} == {2.0, 4.0, 0.25}


@pytest.mark.parametrize("name", ["CON.yaml", "nul", "aux.svg", "com1.mmd"])
def test_nothing_is_written_into_a_device_of_windows(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_HAS_DEVICES_BY_NAME", True)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["new", name])
    assert result.exit_code == 1
    assert result.stderr == f"error[unwritable]: cannot write '{name}': it is the name of a device\n"
    for path in (name, tmp_path / name):
        with pytest.raises(OSError, match="it is the name of a device"):
            files.write_text(path, "")
    assert list(tmp_path.iterdir()) == []


def test_a_reference_costs_no_listing_of_its_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A").mkdir()
    if (tmp_path / "a").exists():
        pytest.skip("letter case does not matter in this folder")
    listed = itertools.count()
    monkeypatch.setattr(os, "listdir", lambda folder: next(listed))
    (tmp_path / "A" / "w.npy").touch()
    assert spelled_otherwise(pathlib.PurePath("A/w.npy"), tmp_path) is None
    assert next(listed) == 0
