"""The steps in the README.md of exported folders, for two examples; programs run as those of test_templates.py do."""

from __future__ import annotations

import pathlib
import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from support.cpp_export import Program, assert_same_bits, require

import dmlgraph as dg
from dmlgraph.cli.commands import main

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def export(*arguments: object) -> None:
    require()
    result = CliRunner().invoke(main, ["export", "--to", "cpp", "--level", "6.2", *map(str, arguments)])
    assert result.exit_code == 0, result.output


def run(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, pathlib.Path], *more: str) -> None:
    """Runs the command of the folder's README.md in the folder; outputs go there too."""
    (command,) = re.findall(r"^build/.*$", (folder / "README.md").read_text("utf-8"), re.M)
    program = Program(folder)
    monkeypatch.chdir(folder)
    words = [str(folder) if word == "FOLDER" else word for word in shlex.split(command)[1:]]
    given = {name: f"{name}={path}" for name, path in files.items()}
    status, text = program(*(given.get(word.removesuffix("=FILE.npy"), word) for word in words), *more)
    assert status == 0, text


def test_digits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(EXAMPLES / "digits" / "digits.yaml", "-o", tmp_path, "--dim", "N=10")
    pixels = EXAMPLES / "digits" / "pixels.npy"
    run(tmp_path, monkeypatch, {"pixels": pixels})
    graph = dg.load(EXAMPLES / "digits" / "digits.yaml", dims={"N": 10})
    expected = graph.compile("directml:software").run({"pixels": np.load(pixels)})
    assert_same_bits({name: np.load(tmp_path / f"{name}.npy") for name in expected}, expected)


def test_generation_with_a_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [EXAMPLES / "generate_text" / f"{name}.yaml" for name in ("prefill", "decode")]
    export(*files, "-o", tmp_path)
    run(tmp_path / "decode", monkeypatch, {}, "--steps", "5")
    expected = dg.load(files[1]).compile("directml:software").run({}, steps=5, collect=["token"])
    assert_same_bits({"token": np.load(tmp_path / "decode" / "token.npy")}, expected)
