"""Makes docs/operators/: a page for each family of operators, from their classes.
"""

from __future__ import annotations

import inspect
import itertools
import pathlib
from collections.abc import Iterator

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.help import field_rows, level_rows
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "operators"

MEASURED_UP_TO = FeatureLevel.V6_2  # what the DirectML library for Linux reports
NOT_MEASURED = (
    "> No DirectML library for Linux has this operator: it is checked against an independent implementation instead.\n"
)


def title(family: str) -> str:
    return family.replace("_", " ").capitalize()


def pages() -> dict[str, str]:
    """File name → text, the index included."""
    families = {
        family: sorted(members, key=lambda each: (each.support().value, each.name))
        for family, members in itertools.groupby(
            sorted(REGISTRY.values(), key=lambda each: each.family), key=lambda each: each.family
        )
    }
    texts = {f"{family}.md": "\n".join(page(family, members)) for family, members in families.items()}
    return texts | {"README.md": "\n".join(index(families))}


def index(families: dict[str, list[type[Operator]]]) -> Iterator[str]:
    yield "# Operators\n"
    yield f"{len(REGISTRY)} operators. `dmlgraph operators NAME` prints what stands here.\n"
    for family, members in families.items():
        links = ", ".join(f"[{each.name}]({family}.md#{each.name})" for each in members)
        yield f"- [{title(family)}]({family}.md): {links}"
    yield ""


def page(family: str, members: list[type[Operator]]) -> Iterator[str]:
    yield f"# {title(family)}\n"
    module = inspect.getmodule(members[0])
    yield f"{inspect.getdoc(module)}\n"
    for operator in members:
        yield from section(operator)


def section(operator: type[Operator]) -> Iterator[str]:
    facts = operator.support()
    yield f"## {operator.name}\n"
    if operator.is_view:
        yield "A view: not an operator of DirectML, and at every feature level.\n"
    else:
        yield f"`DML_OPERATOR_{operator.dml}`, from feature level {facts.introduced}.\n"
    yield f"{inspect.getdoc(operator)}\n"
    if facts.introduced > MEASURED_UP_TO:
        yield NOT_MEASURED
    yield "| field | takes | default |\n|---|---|---|"
    for name, takes, default in field_rows(operator):
        yield f"| `{name}` | {takes.replace('|', '/')} | {default} |"
    yield "\n| from level | tensors | dimensions | data types |\n|---|---|---|---|"
    for level, tensors, ranks, dtypes in level_rows(operator):
        yield f"| {level} | {tensors} | {ranks} | {dtypes} |"
    yield f"\n```yaml\n{example(operator)}```\n"


def files() -> dict[pathlib.Path, str | None]:
    """The pages; None for those of families that do not exist."""
    stale = dict.fromkeys(PAGES.glob("*.md"))
    return {**stale, **{PAGES / name: text for name, text in pages().items()}}
