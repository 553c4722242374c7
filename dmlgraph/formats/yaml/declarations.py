"""What graph files and the templates in them have in common: versions, the operators of nodes."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from dmlgraph.base.errors import Problem, shorten
from dmlgraph.base.expressions import DECLARED
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.keys import MERGE, MERGED
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.catalog.hints import operator_hint
from dmlgraph.operators.catalog.registry import find
from dmlgraph.operators.declaration.operator import Operator

FORMAT_VERSION = 1
STATE_KEYS = ("dtype", "sizes", "initial", "next", "grows", "append")
CHANGES = ("next", "append")  # the keys of a state that name what changes it


def problem_at(message: str, tree: Tree, *, code: str, **fields: Any) -> Problem:
    """A problem at the place of a tree."""
    return Problem(message, code=code, location=tree.location, **fields)


def check_version(version: Tree, report: Report) -> None:
    """Reports what is wrong with a file's format version."""
    if version.value != FORMAT_VERSION or isinstance(version.value, bool):
        message, allowed = "not a format version that this dmlgraph reads", str(FORMAT_VERSION)
        hint = "a number, without quotes" if version.value == allowed else None
        report.problem(message, version, "version", "dmlgraph", got=version.plain, allowed=allowed, hint=hint)


def dim_hint(problem: Problem, dims: Collection[str]) -> str | None:
    """The hint of a problem of a graph with these dims; that of an unknown dim shows what to write in the file."""
    if problem.code != "unknown-dim" or not (problem.hint or "").startswith(f"{DECLARED},"):
        return problem.hint
    line = f"{shorten(problem.got)}: 1"
    return f"{DECLARED}: add '{line}' to 'dims'" if dims else f"{DECLARED}: add the line 'dims: {{{line}}}'"


@functools.cache
def node_keys(operator: type[Operator]) -> tuple[str, ...]:
    """The keys that a node of this operator may have."""
    return ("op", *operator.fields)


def operator_of(tree: Tree) -> type[Operator] | None:
    """The class of a node's operator; None where no such operator exists."""
    op = tree.value.get("op") if isinstance(tree.value, dict) else None
    return find(op.value) if op is not None and isinstance(op.value, str) else None


def report_operator(name: str, tree: Tree, report: Report) -> None:
    """Reports what is wrong with the operator of a node that has none."""
    op = tree.value.get("op")
    if op is None and MERGE in tree.value:
        report.problem("is not known here", tree.keys[MERGE], "unknown-field", MERGE, node=name, hint=MERGED.hint)
    elif op is None:
        other = next((key for key in ("type", "op_type", "operator", "kind") if key in tree.value), None)
        hint = f"write 'op' in place of '{other}'" if other else "such as {op: add, a: x, b: y}"
        report.problem("the operator is missing", tree, "missing", "op", node=name, hint=hint)
    else:
        got, hint = op.plain, operator_hint(op.value)
        report.problem("is not an operator", op, "unknown-operator", "op", node=name, got=got, hint=hint)
