"""Folders and files of models: what they say, and what is missing in them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support.decoders import greedy, tokens_of
from support.model_folders import END, config, write_config, write_graph, write_tokenizer
from support.problems import raises

import dmlgraph as dg
from dmlgraph.generation import Generator, Sampling
from dmlgraph.generation.folder import opened

PROMPT = tokens_of("The statement ").tolist()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    write_graph(tmp_path)
    write_tokenizer(tmp_path)
    write_config(tmp_path, config())
    return tmp_path


def test_a_folder_as_the_builder_writes_it(folder: pathlib.Path) -> None:
    known = opened(folder)
    assert (known.stop, known.beams, known.tokenizer) == ([END], 1, folder / "tokenizer.json")
    assert known.sampling == Sampling(temperature=0, top_k=50)
    assert list(Generator(folder, device="cpu")(PROMPT, max_new_tokens=6)) == greedy(PROMPT, 6)


def test_how_tokens_are_chosen(folder: pathlib.Path) -> None:
    search = {
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 0,
        "top_p": 0.9,
        "repetition_penalty": 1.1,
        "num_beams": 3,
    }
    write_config(folder, config(**search))
    known = opened(folder)
    assert known.sampling == Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.1)
    assert known.beams == 3
    given = config()
    given["model"]["eos_token_id"] = 5
    del given["search"]
    write_config(folder, given)
    assert (opened(folder).stop, opened(folder).sampling) == ([5], Sampling(temperature=0))


def test_other_files_and_folders(folder: pathlib.Path) -> None:
    for path in (folder / "model.yaml", folder):
        assert list(Generator(path, device="cpu")(PROMPT, max_new_tokens=3)) == greedy(PROMPT, 3)
        (folder / "genai_config.json").unlink(missing_ok=True)
    known = opened(folder, dims={"capacity": 20})
    assert Generator(known, device="cpu").capacity == 20
    assert (known.sampling, known.stop) == (None, ())


def edited(path: str, value: Any) -> Any:
    """The configuration with another value under a path; None leaves it out."""
    given = config()
    *above, key = path.split(".")
    at = given
    for each in above:
        at = at[each]
    at[key] = value
    if value is None:
        del at[key]
    return given


@pytest.mark.parametrize(
    ("path", "value", "code", "line"),
    [
        ("model", None, "missing", 1),
        ("model", 3, "kind", 2),
        ("model.decoder", None, "missing", 2),
        ("model.decoder.filename", None, "missing", 5),
        ("model.decoder.filename", 7, "kind", 9),
        ("model.decoder.filename", "other.onnx", "unreadable", 9),
        ("model.decoder.filename", "../model.yaml", "unreadable", 9),
        ("model.vision", {}, "unsupported", 17),
        ("model.eos_token_id", "end", "kind", 11),
        ("model.eos_token_id", [1.5], "kind", 11),
        ("search.do_sample", "yes", "kind", 19),
        ("search.top_k", -1, "range", 22),
        ("search.top_p", 2.0, "range", 23),
        ("search.num_beams", True, "kind", 21),
    ],
)
def test_what_is_wrong_has_its_place(folder: pathlib.Path, path: str, value: Any, code: str, line: int) -> None:
    given = edited(path, value)
    write_config(folder, given)
    with pytest.raises(dg.DocumentError) as caught:
        opened(folder)
    problem = caught.value.problems[0]
    assert problem.code == code
    assert problem.field == path
    assert problem.location is not None
    assert problem.location.file == str(folder / "genai_config.json")
    written = json.dumps(given, indent=4).splitlines()
    key = path.rpartition(".")[2]
    expected = next((number for number, text in enumerate(written, 1) if f'"{key}":' in text), line)
    assert problem.location.line == expected


def test_folders_without_a_model(tmp_path: pathlib.Path) -> None:
    with raises(dg.DocumentError, "folder", got="no file that ends in .onnx or .yaml"):
        opened(tmp_path)
    for name in ("a.onnx", "b.yaml"):
        (tmp_path / name).touch()
    with raises(dg.DocumentError, "folder", got="a.onnx, b.yaml"):
        opened(tmp_path)
    write_config(tmp_path, [])
    with pytest.raises(dg.DocumentError):
        opened(tmp_path)
    (tmp_path / "genai_config.json").write_text("{", "utf-8")
    with pytest.raises(dg.DocumentError):
        opened(tmp_path)
