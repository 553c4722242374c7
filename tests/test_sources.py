"""The Python sources mean the same on every system: text files are read and written in UTF-8."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("tests", "tools", "dmlgraph") for path in (ROOT / folder).rglob("*.py"))
# The number of positional arguments with which a method of a path has no encoding.
WITHOUT_ENCODING = {"read_text": 0, "write_text": 1}


def in_the_systems_encoding(source: str) -> Iterator[int]:
    """The lines that open a text file without an encoding."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or any(keyword.arg in ("encoding", None) for keyword in call.keywords):
            continue
        if isinstance(call.func, ast.Attribute) and len(call.args) == WITHOUT_ENCODING.get(call.func.attr):
            yield call.lineno
        if isinstance(call.func, ast.Name) and call.func.id == "open":
            mode = call.args[1] if len(call.args) > 1 else ast.Constant("r")
            if isinstance(mode, ast.Constant) and "b" not in str(mode.value):
                yield call.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_text_files_have_an_encoding(path: pathlib.Path) -> None:
    assert list(in_the_systems_encoding(path.read_text(encoding="utf-8"))) == []


def test_what_has_none_is_found() -> None:
    source = 'open("a")\nopen("a", "rb")\nopen("a", encoding="utf-8")\np.read_text()\np.write_text("t", "utf-8")\n'
    assert list(in_the_systems_encoding(source)) == [1, 4]
