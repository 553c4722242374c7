"""The layers of the package: a module imports only from layers below its own."""

from __future__ import annotations

import ast
import itertools
import pathlib
from collections.abc import Iterator

import pytest

import dmlgraph as dg

PACKAGE = pathlib.Path(dg.__file__).parent

# From the bottom; modules and packages of one layer do not import one another.
LAYERS = (
    {"codes", "file_names", "table"},
    {"errors"},
    {
        "_native",
        "elements",
        "elsewhere",
        "expressions",
        "files",
        "free_names",
        "fusion",
        "kept",
        "mapped",
        "memory",
        "plain_files",
        "scopes",
        "web_page",
    },
    {"folders", "kinds", "levels", "tensor"},
    {"random_arrays", "scalar"},
    {"operators"},
    {"dims", "functions", "nodes", "value"},
    {"network", "operands"},
    {"checked"},
    {"graph"},
    {"lint", "lowering"},
    {"devices", "passes", "picture"},
    {"document"},
    {"recipe"},
    {"compile", "dxdispatch", "onnx"},
    {"loading"},
    {"measure"},
    {"testing"},
    {"distributed"},
    {"command"},
    {"cli"},
)
LEVELS = {name: level for level, layer in enumerate(LAYERS) for name in layer}

# Stand-alone programs: they may import anything.
PROGRAMS = {"devices/directml/trial.py"}

# Imports inside functions from the same layer or higher ones, in addition to those of Graph.
UPWARD = {
    ("command", "cli"),
    ("devices", "recipe"),
    ("errors", "memory"),
    ("onnx", "loading"),
    ("picture", "passes"),
    ("recipe", "loading"),
}


def imports(body: list[ast.stmt], function: str = "") -> Iterator[tuple[str, str]]:
    """The modules of the package that are imported, with the outermost function around; without imports for types
    only."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "dmlgraph":
            yield from ((alias.name, function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dmlgraph."):
            yield str(node.module).split(".")[1], function
        inner = function or (node.name if isinstance(node, ast.FunctionDef) else "")
        for field in ("body", "orelse", "finalbody", "handlers"):
            parts = getattr(node, field, [])
            yield from imports(parts, inner) if isinstance(parts, list) else ()


FILES = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py" or len(path.parts) > 1], ids=str)
def test_modules_import_from_below(path: pathlib.Path) -> None:
    own = path.parts[0].removesuffix(".py")
    assert own in LEVELS, "a layer is missing"
    for name, function in imports(ast.parse((PACKAGE / path).read_text("utf-8")).body):
        if name != own and path.as_posix() not in PROGRAMS and LEVELS[name] >= LEVELS[own]:
            assert function, f"imports {name}"
            assert own == "graph" or (own, name) in UPWARD, f"{function} imports {name}"


def test_a_graph_reaches_upward_in_one_place() -> None:
    tree = ast.parse((PACKAGE / "graph.py").read_text("utf-8"))
    (graph,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Graph")
    upward = {function for name, function in imports(tree.body) if LEVELS[name] > LEVELS["graph"]}
    methods = [node.name for node in graph.body if isinstance(node, ast.FunctionDef)]
    runs = [names for above, names in itertools.groupby(methods, upward.__contains__) if above]
    assert upward == {"__reduce__", "_allowed", "_repr_svg_", "compile", "lower", "save", "warnings"}
    assert len(runs) == 1
