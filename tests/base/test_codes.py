"""Codes of problems: every problem has one, every one is used and documented, and no code compares messages."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

import dmlgraph as dg
from dmlgraph.base.codes import CODES, ERRORS, WARNINGS
from dmlgraph.base.errors import Problem, Severity
from dmlgraph.devices.directml import errors as directml_errors
from dmlgraph.devices.directml.software import errors as software_errors

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(dg.__file__).parent
SOURCES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
SECTION = re.compile(r"^### ([\w-]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def subclasses(cls: type[dg.DmlGraphError]) -> Iterator[type[dg.DmlGraphError]]:
    for each in cls.__subclasses__():
        yield from (each, *subclasses(each))


# Tests may name a sentence only where it is all that tells an error from others of its code and place, or where its
# numbers are what the test is about.
SENTENCES = {
    "base": {"test_expressions.py", "test_scalar.py"},  # what is wrong in a text
    "cli": {"test_compare.py"},  # the words of ONNX Runtime
    "compiler": {"test_detours.py"},  # why a node has no detour
    "devices": {  # the words of a library, an operating system or a shader
        "test_buffers.py", "test_cpu_executable.py", "test_device.py", "test_install.py", "test_library.py",
        "test_memory.py", "test_merges.py", "test_planted_faults.py", "test_ready.py", "test_recipe.py",
        "test_resident.py", "test_shader_compiler.py", "test_cache_folder.py",
    },
    "distributed": {"test_chunks.py", "test_cluster.py"},
    "files": {"test_untrusted.py"},
    "formats": {
        "test_batches.py", "test_earlier.py", "test_experimental.py", "test_microsoft.py", "test_names.py",
        "test_reader.py", "test_sparse.py", "test_yaml.py",
    },
    "operators": {  # hints on names elsewhere; since when something is legal
        "test_foreign_names.py", "test_padding.py", "test_roi_grad.py", "test_subscripts.py", "test_top_k.py",
    },
    "testing": {"test_run.py"},
    "training": {"test_gradient.py"},
}  # fmt: skip

ALL: list[type[dg.DmlGraphError]] = [dg.DmlGraphError, *subclasses(dg.DmlGraphError)]
CLASSES = {cls.__name__: cls for cls in ALL if cls.__module__ != __name__}


def named(call: ast.Call) -> str:
    """The name of the called function."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def made() -> Iterator[tuple[str, ast.Call]]:
    """Every problem and every error with a message in the package, with its place."""
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and named(node) in {"Problem", "at", *CLASSES} and node.args:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def is_several(argument: ast.expr) -> bool:
    """Whether an error is made of problems and not of a message, as far as the expression tells."""
    if isinstance(argument, ast.Call):
        is_problem = named(argument) in ("at", "within")  # also of one that has a code already
        return is_problem or named(argument).startswith("problems")
    lists = ("problems", "missing", "unknown", "unequal", "ordered")
    return isinstance(argument, (ast.GeneratorExp, ast.ListComp)) or getattr(argument, "id", None) in lists


def test_the_walk_finds_what_it_is_for() -> None:
    assert {directml_errors.LibraryError, software_errors.ShaderError} <= set(CLASSES.values())
    assert len(list(made())) > 400


def test_every_problem_has_a_code_of_the_table() -> None:
    for place, call in made():
        code = next((each.value for each in call.keywords if each.arg == "code"), None)
        if code is not None:
            assert not (isinstance(code, ast.Constant) and code.value not in CODES), f"{place}: {ast.unparse(code)}"
        elif named(call) == "at":
            continue  # a place alone
        elif named(call) == "Problem" and not any(each.arg is None for each in call.keywords):
            pytest.fail(f"{place}: a problem without a code")
        elif named(call) != "Problem" and not is_several(call.args[0]):
            assert hasattr(CLASSES[named(call)], "CODE"), f"{place}: an error without a code"


def test_without_a_code_there_is_no_problem() -> None:
    with pytest.raises(TypeError, match="code"):
        Problem("is wrong")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="code"):
        dg.GraphError("is wrong", field="name")


@pytest.mark.parametrize("cls", [each for each in CLASSES.values() if hasattr(each, "CODE")])
def test_a_class_of_errors_has_a_code_of_the_table(cls: type[dg.DmlGraphError]) -> None:
    assert cls.CODE in ERRORS
    assert cls("is wrong").code == cls.CODE
    assert cls("is wrong", code="memory").code == "memory"


def test_native_code_gives_its_errors_codes() -> None:
    source = (ROOT / "native" / "bind" / "init_cpu.cpp").read_text("utf-8")
    raised = re.findall(r"^ +raise_device_error\((.*)\);$", source, re.MULTILINE)
    assert len(raised) == 2
    for arguments in raised:
        assert set(re.findall(r'"([\w-]+)"', arguments)) & set(ERRORS), arguments
    assert {cls.CODE for cls in directml_errors._CLASSES.values()} <= set(ERRORS)


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_lower_case_words_and_its_meaning_a_sentence(code: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
    assert re.fullmatch(r"[A-Z][^\n]*\.", CODES[code])
    assert Problem("is odd", code=code).severity is (Severity.WARNING if code in WARNINGS else Severity.ERROR)


def test_every_code_is_documented_with_an_example_that_provokes_it() -> None:
    """`documentation/test_generated.py` checks that the messages are those of the examples."""
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    sections = dict(SECTION.findall(page))
    assert list(sections) == list(CODES)
    for code, text in sections.items():
        assert CODES[code] in text
        assert f"{'warning' if code in WARNINGS else 'error'}[{code}]: " in text, code


def test_nothing_goes_by_the_words_of_a_message() -> None:
    """No comparison with, and no search in, the message of a problem."""
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            looked_at: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                looked_at = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                looked_at = [node.func.value] if node.func.attr in ("startswith", "endswith", "find", "index") else []
            for each in looked_at:
                assert not (isinstance(each, ast.Attribute) and each.attr == "message"), f"{path}:{each.lineno}"


def sentences(tree: ast.AST) -> bool:
    """Whether a module matches the sentence of one of our errors."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and named(node) == "raises" and node.args]
    ours = (call for call in calls if ast.unparse(call.args[0]).rpartition(".")[2] in CLASSES)
    return any(keyword.arg == "match" for call in ours for keyword in call.keywords)


def test_tests_go_by_codes_and_places() -> None:
    """See `support/problems.py`; a file in the list that matches no sentence any more leaves it."""
    folder = ROOT / "tests"
    found: dict[str, set[str]] = {}
    for path in folder.rglob("test_*.py"):
        if sentences(ast.parse(path.read_text("utf-8"))):
            found.setdefault(path.relative_to(folder).parts[0], set()).add(path.name)
    assert found == SENTENCES
