"""The folders of the package are layers: a module imports only from its own folder and from lower ones."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import networkx as nx
import pytest

import dmlgraph as dg

PACKAGE = pathlib.Path(dg.__file__).parent
ROOT = pathlib.Path(__file__).parents[1]

# From the bottom; folders of one layer do not import one another.
LAYERS = (
    {"_native", "base"},
    {"files"},
    {"operators"},
    {"functions"},
    {"graph"},
    {"compiler"},
    {"devices"},
    {"passes"},
    {"formats"},
    {"measure", "picture"},
    {"distributed"},
    {"testing"},
    {"cli"},
)
LEVELS = {name: level for level, layer in enumerate(LAYERS) for name in layer}

# Imports inside functions from higher folders: (module, folder).
UPWARD = {
    ("devices/recipe.py", "formats"),
    ("graph/graph.py", "devices"),
    ("graph/graph.py", "formats"),
    ("graph/graph.py", "picture"),
}
NOT_FOLDERS = {"_native", "functions", "passes"}  # the modules of public names, and the extension


def imports(body: list[ast.stmt], function: str = "") -> Iterator[tuple[str, str]]:
    """The folders of the package that are imported, with the outermost function around; without imports for types
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
        if name != own and LEVELS[name] >= LEVELS[own]:
            assert function, f"imports {name}"
            assert (path.as_posix(), name) in UPWARD, f"{function} imports {name}"


@pytest.mark.parametrize("name", ["dxdispatch", "onnx", "yaml"])
def test_a_format_imports_no_other(name: str) -> None:
    """What formats share lies beside them: texts and trees, arrays."""
    others = {path.name for path in (PACKAGE / "formats").iterdir() if path.is_dir()} - {"text_tree", name}
    for path in (PACKAGE / "formats" / name).rglob("*.py"):
        found = re.findall(r"\bdmlgraph\.formats\.(\w+)", path.read_text("utf-8"))
        assert not others & set(found), path


def test_every_exception_is_needed() -> None:
    found = {
        (path.as_posix(), name)
        for path in FILES
        for name, function in imports(ast.parse((PACKAGE / path).read_text("utf-8")).body)
        if function and LEVELS.get(name, 0) > LEVELS.get(path.parts[0].removesuffix(".py"), len(LAYERS))
    }
    assert found == UPWARD


def circles(*, whole: bool) -> list[set[str]]:
    """The groups of modules that import one another, with the imports inside functions and for types if `whole`."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for path in FILES:
        name = ".".join(("dmlgraph", *path.with_suffix("").parts)).removesuffix(".__init__")
        tree = ast.parse((PACKAGE / path).read_text("utf-8"))
        for node in ast.walk(tree) if whole else outside_functions(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dmlgraph":
                for alias in node.names:
                    found = f"{node.module}.{alias.name}"
                    graph.add_edges_from((name, each) for each in imported(found, name) if each != name)
    return [group for group in nx.strongly_connected_components(graph) if len(group) > 1]


def outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run on import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            yield node
            yield from outside_functions(node)


def imported(name: str, by: str) -> Iterator[str]:
    """The modules that run for an import of a module or of a name in one: the packages around, and itself."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        if module in MODULES and not by.startswith(f"{module}.") and module != "dmlgraph":
            yield module


MODULES = {".".join(("dmlgraph", *path.with_suffix("").parts)).removesuffix(".__init__") for path in FILES}


def test_no_module_must_be_imported_before_another() -> None:
    assert circles(whole=False) == []


def test_nothing_but_public_names_is_at_the_top() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", *NOT_FOLDERS} - {"_native"}
    assert {path.parts[0] for path in FILES if len(path.parts) > 1} == set(LEVELS) - NOT_FOLDERS


def test_contributing_names_every_folder() -> None:
    """Its map has one line a folder, in which a name stands before what is there."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where things are")[2].partition("\n## ")[0]
    named = set(re.findall(r"[\w]+(?:/[\w]+)*/", text))
    folders = {path.parent for path in FILES} - {pathlib.Path()}
    assert {each.name for each in folders} <= {each.rstrip("/").rpartition("/")[2] for each in named}
