"""Importing the package imports as little as possible, and yet all public names are available."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import pathlib
import pickle
import pydoc
import subprocess
import sys

import pytest

import dmlgraph as dg
from dmlgraph import functions, operators
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import is_plain
from dmlgraph.operators.catalog.registry import OPERATORS

ROOT = pathlib.Path(__file__).parent.parent
HEAVY = {"click", "llvmlite", "ml_dtypes", "networkx", "numpy", "pydantic", "yaml"}
HEAVY |= {"dask", "distributed", "zarr"}
CATALOG = {f"dmlgraph.operators.catalog{module}" for module in ("", ".index", ".registry")}
LIGHT = {"dmlgraph", "dmlgraph.operators", *CATALOG}


def imported(code: str) -> set[str]:
    """The imported modules of a fresh process after some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def families(modules: set[str]) -> set[str]:
    """The families of operators among the modules."""
    return {family for family, _ in OPERATORS.values() if f"dmlgraph.operators.{family}" in modules}


def test_the_import_imports_next_to_nothing() -> None:
    modules = imported("import dmlgraph")
    assert {each for each in modules if each.partition(".")[0] == "dmlgraph"} == LIGHT
    assert not modules & HEAVY
    assert "inspect" not in modules


def test_a_graph_that_is_not_fused_needs_no_passes() -> None:
    """As `dmlgraph check`, which is run on every change."""
    ramp = ROOT / "examples" / "ramp.yaml"
    modules = imported(f"import dmlgraph as dg; g = dg.load({str(ramp)!r}); g.lower(fuse=False); g.warnings()")
    assert not {each for each in modules if each.startswith("dmlgraph.compiler.passes")}


@pytest.mark.parametrize(
    "code",
    [
        "import dmlgraph.base.errors",
        "from dmlgraph import GraphError, Problem",
        "import dmlgraph as dg; dir(dg); dg.__version__; 'relu' in dir(dg.functions); dg.files",
        "from dmlgraph.operators import REGISTRY; list(REGISTRY), len(REGISTRY), 'gemm' in REGISTRY",
    ],
)
def test_what_needs_no_operator_imports_none(code: str) -> None:
    modules = imported(code)
    assert not modules & HEAVY
    assert not families(modules)


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import dmlgraph; dmlgraph.multiply", {"element_wise"}),
        ("from dmlgraph import gemm", {"matrix"}),
        ("from dmlgraph.operators import Gather", {"indexing"}),
        ("from dmlgraph.operators import find; find('scatter')", {"indexing"}),
        ("from dmlgraph.functions import TopKOutputs", {"selection"}),
    ],
)
def test_an_operator_imports_its_family_alone(code: str, needed: set[str]) -> None:
    assert families(imported(code)) == needed


def test_rules_import_no_family_but_those_they_make_operators_of() -> None:
    """A rule names what it looks for, or says what is true of it; see `dmlgraph.compiler.rule.Kinds`."""
    unused = {"attention", "gradient", "indexing", "matrix_integer", "normalization_grad", "patches", "pooling"}
    unused |= {"quantization", "recurrent", "reduction", "resampling", "roi", "roi_grad", "scan"}
    unused |= {"selection", "softmax"}
    assert not families(imported("import dmlgraph.passes")) & unused


@pytest.mark.parametrize("first", ["REGISTRY", "operators", "functions", "package"])
def test_it_does_not_matter_by_which_name_an_operator_is_found_first(first: str) -> None:
    ways = {
        "REGISTRY": "REGISTRY[n] for n in OPERATORS",
        "operators": "getattr(operators, c) for _, c in OPERATORS.values()",
        "functions": "getattr(functions, f) for f in FUNCTIONS",
        "package": "getattr(dg, f) for f in FUNCTIONS",
    }
    code = f"""
import dmlgraph as dg
from dmlgraph import functions, operators
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.registry import OPERATORS
from dmlgraph.operators.catalog.registry import FUNCTIONS
list({ways[first]})
for name, (family, cls) in OPERATORS.items():
    assert REGISTRY[name] is getattr(operators, cls), name
    assert REGISTRY[name].family == family, name
for function, name in FUNCTIONS.items():
    assert getattr(dg, function) is getattr(functions, function), name
    assert getattr(dg, function).__doc__ == REGISTRY[name].__doc__, name
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_every_public_name_is_that_of_its_module() -> None:
    """The names that type checkers see are those found at run time."""
    tree = ast.parse((ROOT / "dmlgraph" / "__init__.py").read_text(encoding="utf-8"))
    checked = next(each for each in tree.body if isinstance(each, ast.If))
    told = set()
    for statement in checked.body:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.module is not None
        module = importlib.import_module(statement.module)
        for alias in statement.names:
            for name in functions.__all__ if alias.name == "*" else (alias.name,):
                public = alias.asname or name
                told.add(public)
                assert getattr(dg, public) is getattr(module, name)
    assert told == set(vars(dg)["__all__"])


def test_star_imports_help_and_dir_have_every_name() -> None:
    for module in (dg, functions, operators):
        names: dict[str, object] = {}
        exec(f"from {module.__name__} import *", names)
        assert set(module.__all__) <= set(names)
        assert set(module.__all__) <= set(dir(module))
        assert all(names[name] is getattr(module, name) for name in module.__all__)
    assert {"Graph", "TensorDesc", "if_", "load_dxdispatch", "multiply"} <= set(vars(dg)["__all__"])
    text = pydoc.plain(pydoc.render_doc(dg))
    assert all(name in text for name in vars(dg)["__all__"])
    assert "multiply(a: Tensor, b: Tensor, *" in text


def test_a_module_needs_no_import_of_its_own() -> None:
    modules = imported("import dmlgraph as dg; dg.operators.REGISTRY; dg.passes.fuse")
    assert "dmlgraph.compiler.passes" in modules
    with pytest.raises(AttributeError, match=r"did you mean dg\.Graph"):
        dg.Grap  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Multipy'"):
        operators.Multipy  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        exec("from dmlgraph import multipy")


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_can_be_copied_and_pickled_before_and_after_it_is_made(name: str) -> None:
    """Its class is built by Pydantic when the first of it is made."""
    operator = REGISTRY[name]
    assert pickle.loads(pickle.dumps(operator)) is operator
    if not is_plain(operator):
        return
    desc = dg.TensorDesc(dtype="float32", sizes=(1, 1, 2, 3))
    try:
        made = operator(**dict.fromkeys(operator.input_fields, desc))
    except dg.OperatorError:
        return  # of another data type, or with attributes to be given
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


# The command.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--version"], None),
        (["--help"], None),
        (["run", "--help"], None),
        (["completion", "bash"], None),
        ([], "dmlgraph "),
        ([], "dmlgraph ru"),
        ([], "dmlgraph run g.yaml --de"),
        ([], "dmlgraph run g.yaml --device "),
        ([], "dmlgraph show --format "),
        ([], "dmlgraph directml in"),
        ([], "dmlgraph operators activation_rel"),
    ],
    ids=str,
)
def test_help_and_completion_import_neither_operators_nor_numpy(arguments: list[str], words: str | None) -> None:
    """A shell's TAB runs the command with the words so far."""
    code = f"import sys; sys.argv = ['dmlgraph', *{arguments}]\n"
    if words is not None:
        said = {"_DMLGRAPH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        code += f"import os; os.environ.update({said})\n"
    code += "from dmlgraph.cli.command import main\ntry:\n    main()\n"
    code += "except SystemExit as done:\n    assert not done.code"
    modules = imported(code)
    assert not modules & (HEAVY - {"click"} | {"dmlgraph._native"})
    assert not families(modules)
