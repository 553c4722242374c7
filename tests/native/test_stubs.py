"""The stubs of the native module have its names, and the parameters of its functions."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.pages import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from generators import native_stubs

from dmlgraph import _native

Owner = Any  # the module, a submodule or a class
STUBS = ast.parse(native_stubs.PAGE.read_text(encoding="utf-8"))


def functions(body: list[ast.stmt], owner: Owner, path: str) -> Iterator[tuple[str, ast.FunctionDef, Owner]]:
    """The functions of the stubs, each with what has it in the module."""
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from functions(each.body, getattr(owner, each.name), f"{path}{each.name}.")
        elif isinstance(each, ast.FunctionDef):
            yield f"{path}{each.name}", each, owner


FUNCTIONS = {name: (stub, owner) for name, stub, owner in functions(STUBS.body, _native, "")}


def shape(arguments: ast.arguments) -> tuple[list[str], list[str], int]:
    """The names of the parameters without self, those given by name only, and how many have a default."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    return names[1:] if names[:1] == ["self"] else names, [each.arg for each in arguments.kwonlyargs], len(defaults)


def signature(function: Any) -> ast.arguments | None:
    """The parameters as pybind11 documents them; None for a function without names of its parameters."""
    (line, *_) = (function.__doc__ or "").splitlines()
    (found,) = ast.parse(f"def {native_stubs.plain(line).rpartition(' -> ')[0]}: ...").body
    assert isinstance(found, ast.FunctionDef)
    return None if any(each.arg == "arg0" for each in found.args.args) else found.args


def test_everything_in_the_module_has_a_stub() -> None:
    def names(owner: Owner) -> set[str]:
        return {name for name in vars(owner) if not name.startswith("_")}

    def check(body: list[ast.stmt], owner: Owner) -> None:
        stubs = {each.name: each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
        attributes = {ast.unparse(each.target) for each in body if isinstance(each, ast.AnnAssign)}
        inherited = {"name"} if owner in vars(_native.cpu_steps).values() else set()  # every step's class has it
        assert names(owner) - inherited == {name for name in {*stubs, *attributes} if name[0] != "_"} - inherited
        for name, stub in stubs.items():
            if isinstance(stub, ast.ClassDef):
                check(stub.body, getattr(owner, name))

    check(STUBS.body, _native)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_stub_has_the_parameters_of_its_function(name: str) -> None:
    stub, owner = FUNCTIONS[name]
    found = inspect.getattr_static(owner, stub.name)
    if isinstance(found, property):
        assert any(isinstance(each, ast.Name) and each.id == "property" for each in stub.decorator_list)
        return
    given = signature(getattr(owner, stub.name))
    if given is not None:
        assert shape(given) == shape(stub.args)
