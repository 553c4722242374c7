"""The Python sources mean the same on every system and in every folder.

Text files are read and written in UTF-8, and a Python that a test starts does not take `dmlgraph` from the current
folder.
"""

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
    if not any(word in source for word in ("open", *WITHOUT_ENCODING)):
        return
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


def takes_the_current_folder(source: str) -> Iterator[int]:
    """The lines with a command that runs code or dmlgraph in a new Python, which looks for modules in its folder first.

    In a folder with dmlgraph's sources that is a package without its native module.
    """
    if "sys.executable" not in source:
        return
    for command in ast.walk(ast.parse(source)):
        if not isinstance(command, ast.List | ast.Tuple):
            continue
        words = [ast.unparse(word) for word in command.elts]
        if "sys.executable" not in words or {"'-P'", "'-S'"} & set(words):
            continue
        if "'-c'" in words or any(word.startswith("'dmlgraph") for word in words):
            yield command.lineno


TESTS = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_tests_start_imports_the_installed_package(path: pathlib.Path) -> None:
    assert list(takes_the_current_folder(path.read_text(encoding="utf-8"))) == []


def test_a_command_that_takes_the_current_folder_is_found() -> None:
    source = 'a = [sys.executable, "-c", code]\nb = [sys.executable, "-P", "-c", code]\n'
    source += 'c = [sys.executable, "-m", "dmlgraph.cli"]\nd = [sys.executable, "-m", "venv", folder]\n'
    assert list(takes_the_current_folder(source)) == [1, 3]
