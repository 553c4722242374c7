"""The folders of the package are layers: a module imports only from its own folder and from lower ones."""

from __future__ import annotations

import ast
import importlib
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
    {"graph"},
    {"functions", "training"},
    {"compiler"},
    {"devices"},
    {"passes"},
    {"formats"},
    {"generation", "measure", "picture"},
    {"distributed"},
    {"testing"},
    {"doctor"},
    {"cli"},
)
LEVELS = {name: level for level, layer in enumerate(LAYERS) for name in layer}

# What lower folders call of higher ones, by name: see dmlgraph/base/by_name.py.
ABOVE = {
    "compiler/ir.py": {"formats.load_save:save"},
    "devices/recipe.py": {
        "formats.load_save:load",
        "formats.yaml.portable:digest_of",
        "formats.yaml.portable:parts",
        "formats.yaml.portable:restore",
    },
    "devices/states.py": {"formats.safetensors:load", "formats.safetensors:save"},
    "graph/uses.py": {
        "devices.compile:compile_graph",
        "devices.compile:lower_graph",
        "devices:choose",
        "formats.load_save:save",
        "formats.yaml.portable:pickled",
        "picture:notebook",
        "training.minimize:minimize",
    },
    "testing/run.py": {"doctor.examined:examined"},
}
NOT_FOLDERS = {"_native", "functions", "passes"}  # the modules of public names, and the extension


def imports(body: list[ast.stmt]) -> Iterator[str]:
    """The folders of the package that are imported, inside functions too; without imports for types only."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "dmlgraph":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dmlgraph."):
            yield str(node.module).split(".")[1]
        for field in ("body", "orelse", "finalbody", "handlers"):
            parts = getattr(node, field, [])
            yield from imports(parts) if isinstance(parts, list) else ()


FILES = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py" or len(path.parts) > 1], ids=str)
def test_modules_import_from_below(path: pathlib.Path) -> None:
    own = path.parts[0].removesuffix(".py")
    assert own in LEVELS, "a layer is missing"
    for name in imports(ast.parse((PACKAGE / path).read_text("utf-8")).body):
        assert name == own or LEVELS[name] < LEVELS[own], f"imports {name}"


def test_what_is_called_from_above_exists() -> None:
    called: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse((PACKAGE / path).read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "above":
                called.setdefault(path.as_posix(), set()).add(ast.literal_eval(node.args[0]))
    assert called == ABOVE
    for name in set().union(*ABOVE.values()):
        module, _, function = name.partition(":")
        assert callable(getattr(importlib.import_module(f"dmlgraph.{module}"), function)), name


def circles(*, whole: bool) -> list[set[str]]:
    """The groups of modules that import one another.

    Args:
        whole: also by imports inside functions and for types; only by those that they name, not their packages.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    for path in FILES:
        name = ".".join(("dmlgraph", *path.with_suffix("").parts)).removesuffix(".__init__")
        tree = ast.parse((PACKAGE / path).read_text("utf-8"))
        for node in ast.walk(tree) if whole else outside_functions(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "dmlgraph":
                for alias in node.names:
                    found = f"{node.module}.{alias.name}"
                    named = {found if found in MODULES else node.module} - {"dmlgraph"}
                    reached = named if whole else imported(found, name)
                    graph.add_edges_from((name, each) for each in reached if each != name)
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


def test_few_modules_know_one_another() -> None:
    assert max(map(len, circles(whole=True))) <= 15


def test_nothing_but_public_names_is_at_the_top() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", *NOT_FOLDERS} - {"_native"}
    assert {path.parts[0] for path in FILES if len(path.parts) > 1} == set(LEVELS) - NOT_FOLDERS


def test_contributing_names_every_folder() -> None:
    """Its map has one line a folder, in which a name stands before what is there."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where things are")[2].partition("\n## ")[0]
    named = set(re.findall(r"[\w]+(?:/[\w]+)*/", text))
    folders = {path.parent for path in FILES} - {pathlib.Path()}
    assert {each.name for each in folders} <= {each.rstrip("/").rpartition("/")[2] for each in named}
