"""The pages in docs/ are the output of their scripts; the entries of docs/measured.md name existing tests."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent


MEASURED = ROOT / "docs" / "measured.md"
REFERENCE = re.compile(r'`([\w/]+\.py)::(\w+)(?:::(\w+))?`(?: "([^"]+)")?')


@functools.cache
def syntax(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def operator_test_functions() -> frozenset[str]:
    """Those of the modules whose classes the tests of operators inherit from, and of those tests themselves."""
    folders = ROOT / "tests" / "support" / "operators", ROOT / "tests" / "operators"
    trees = [syntax(path) for folder in folders for path in sorted(folder.glob("*.py"))]
    return frozenset().union(*(definitions(each, ast.FunctionDef) for each in trees))


@functools.cache
def definitions(tree: ast.AST, kind: type[ast.AST]) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, kind)}  # type: ignore[attr-defined]


def test_measured_facts_name_tests_that_exist() -> None:
    text = MEASURED.read_text(encoding="utf-8")
    references = REFERENCE.findall(text)
    assert len(references) == text.count(".py::") > 100
    for path, name, method, row in references:
        file = ROOT / "tests" / (path if "/" in path else f"operators/{path}")
        assert file.exists(), path
        tree = syntax(file)
        if name.startswith("test_"):
            assert name in definitions(tree, ast.FunctionDef), f"{path}::{name}"
            continue
        assert name in definitions(tree, ast.ClassDef), f"{path}::{name}"
        assert bool(method) != bool(row), f"{path}::{name} wants a method or a row"
        if method:
            known = definitions(tree, ast.FunctionDef) | operator_test_functions()
            assert method in known, f"{path}::{name}::{method}"


def test_measured_facts_name_rows_that_exist() -> None:
    """A row's name, or its beginning: its data types follow."""
    for path, name, _, row in REFERENCE.findall(MEASURED.read_text(encoding="utf-8")):
        if row:
            cls = getattr(importlib.import_module(f"operators.{path.removesuffix('.py')}"), name)
            assert any(re.match(f"{re.escape(row)}[ ,]", each.why) for each in cls.cases), f'{path}::{name} "{row}"'


def test_every_measured_entry_names_a_test() -> None:
    for line in MEASURED.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| operator "):
            assert REFERENCE.search(line), line
