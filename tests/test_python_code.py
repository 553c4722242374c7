"""The Python code: functions are short, and neither attributes nor operators are named as text.

tests/native tests the C++ code.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import dmlgraph
from dmlgraph.operators.catalog.registry import OPERATORS

PACKAGE = pathlib.Path(dmlgraph.__file__).parent
CLASSES = {name for _, name in OPERATORS.values()}
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 50  # the most lines of a function's body
# Names of operators that are words, too: functions of expressions and of HLSL, passes, options, keys.
WORDS = {
    "acos", "add", "argmax", "asin", "atan", "cast", "ceil", "clip", "convolution", "cos", "cosh", "exp", "floor",
    "log", "max", "mean", "min", "padding", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "threshold", "top_k",
    "transpose",
}  # fmt: skip


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


def operators_as_text(tree: ast.AST) -> Iterator[str]:
    """Names of operators, or of their classes, that stand as text."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    yield from (text for text in texts if text in CLASSES or (text in OPERATORS and text not in WORDS))


def test_functions_are_measured() -> None:
    text = "class A:\n    @cache\n    def f(\n        self,\n    ):\n        async def g(): ...\n        return g\n"
    assert list(functions(ast.parse(text))) == [("f", 2), ("g", 1)]


def test_reads_by_name_are_found() -> None:
    assert list(reads_by_name(ast.parse("a.__dict__['b'] = vars(a)['c'] + a.__dict__.get('d')"))) == ["a.__dict__['b']"]


def test_operators_as_text_are_found() -> None:
    tree = ast.parse("a = {'gemm': Gemm, 'top_k': 1, 'Gemm': 2, 'a gemm': 3}")
    assert list(operators_as_text(tree)) == ["gemm", "Gemm"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_code_is_easy_to_read(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [(name, lines) for name, lines in functions(tree) if lines > LONGEST] == []
    assert list(reads_by_name(tree)) == []
    if not path.relative_to(PACKAGE).as_posix().startswith(("formats/", "operators/catalog/")):
        assert list(operators_as_text(tree)) == []  # `ops.Gemm`, or `later.Gemm`, which imports no family
    if path.is_relative_to(PACKAGE / "devices" / "cpu"):
        assert "tuple[str, Any]" not in path.read_text(encoding="utf-8")  # what goes to C++ has types


def test_the_builder_of_graphs_is_short() -> None:
    tree = ast.parse((PACKAGE / "graph" / "graph.py").read_text(encoding="utf-8"))
    (graph,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    assert graph.end_lineno is not None
    assert graph.end_lineno - graph.lineno < 350
