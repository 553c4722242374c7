"""The Python code: functions are short, and no attribute is read by its name; tests/native tests the C++ code."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import dmlgraph

PACKAGE = pathlib.Path(dmlgraph.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 50  # the most lines of a function's body


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each function's name and how many lines its body has: a signature is a list of what is given."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.body[0].lineno + 1


def reads_by_name(tree: ast.AST) -> Iterator[str]:
    """Where an attribute is read or written by its name in `__dict__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
            yield ast.unparse(node)


def test_functions_are_measured() -> None:
    text = "class A:\n    @cache\n    def f(\n        self,\n    ):\n        async def g(): ...\n        return g\n"
    assert list(functions(ast.parse(text))) == [("f", 2), ("g", 1)]


def test_reads_by_name_are_found() -> None:
    assert list(reads_by_name(ast.parse("a.__dict__['b'] = vars(a)['c'] + a.__dict__.get('d')"))) == ["a.__dict__['b']"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_code_is_easy_to_read(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [(name, lines) for name, lines in functions(tree) if lines > LONGEST] == []
    assert list(reads_by_name(tree)) == []
