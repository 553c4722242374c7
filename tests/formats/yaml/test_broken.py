"""The broken files of documents/broken: the output of `dmlgraph check` for each is stored next to it.

After a change of messages, check the new output and store it:
cd tests/formats/yaml/documents/broken && dmlgraph check NAME.yaml 2> NAME.txt
"""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.cli.commands import main

FOLDER = pathlib.Path(__file__).parent / "documents" / "broken"
FILES = sorted(FOLDER.glob("*.yaml"))
BLOCKS = os.path.join("parts", "blocks.yaml")


def kept(file: pathlib.Path) -> str:
    """What is printed for a document, with its system's path of the other file that is named."""
    return re.sub(r"parts/blocks\.yaml(?=:\d+:\d)", lambda _: BLOCKS, file.with_suffix(".txt").read_text("utf-8"))


def test_every_file_has_its_output() -> None:
    assert len(FILES) == 27
    assert {file.stem for file in FILES} == {file.stem for file in FOLDER.glob("*.txt")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_check_prints_what_is_kept(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    result = CliRunner().invoke(main, ["check", file.name])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == kept(file)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_exception_carries_what_is_printed_as_fields(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    printed = kept(file)
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(file.name)
    texts = {name: (FOLDER / name).read_text("utf-8").splitlines() for name in (file.name, BLOCKS)}
    headlines = [line for line in printed.splitlines() if line.startswith(tuple(f"{name}:" for name in texts))]
    assert len(headlines) == len(caught.value.problems)
    for headline, problem in zip(headlines, caught.value.problems, strict=True):
        assert problem.location is not None
        place = f"{problem.location.file}:{problem.location.line}:{problem.location.column}"
        assert headline.startswith(f"{place}: error[{problem.code}]: ")
        assert headline.endswith(problem.headline)
        assert problem.location.source in (None, texts[problem.location.file][problem.location.line - 1])
        assert problem.hint is None or problem.hint in printed
        assert problem.allowed is None or problem.allowed in printed
