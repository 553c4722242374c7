"""Makes docs/coming_from.md: the names in other libraries, from `dmlgraph.operators.catalog.foreign_names`.

coming_from.md beside it is the text of the page, with a comment instead of each table.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator

from dmlgraph.operators.catalog.foreign_fields import FIELDS
from dmlgraph.operators.catalog.foreign_names import DEVICES, MEMBERS, OPERATORS, THINGS, Entry
from dmlgraph.operators.catalog.registry import REGISTRY

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = DOCS / "coming_from.md"
FRAME = pathlib.Path(__file__).parent / "coming_from.md"

# The libraries that have a column; the field of the entries, and the heading.
COLUMNS = {"torch": "PyTorch", "onnx": "ONNX", "numpy": "NumPy", "webnn": "WebNN"}

_TABLE = re.compile(r"^<!-- table: (\w+) -->$", re.MULTILINE)


def page() -> str:
    return _TABLE.sub(lambda found: "\n".join(TABLES[found[1]]()), FRAME.read_text(encoding="utf-8"))


def operators() -> Iterator[str]:
    """A row for each entry for which a column has a name."""
    yield f"| {' | '.join(COLUMNS.values())} | here |\n|{'---|' * (len(COLUMNS) + 1)}"
    for entry in OPERATORS:
        names = [", ".join(f"`{name}`" for name in entry.names(library)) for library in COLUMNS]
        if any(names):
            yield f"| {' | '.join(names)} | {_here(entry)} |"


def _here(entry: Entry) -> str:
    if not entry.operator:
        return entry.instead
    link = f"[{entry.operator}](operators/{REGISTRY[entry.operator].family}.md#{entry.operator})"
    fields = ", ".join(f"`{name}: {value}`" for name, value in entry.fields.items())
    return ", ".join(part for part in (f"{link} with {fields}" if fields else link, entry.instead) if part)


def _pairs(names: dict[str, str]) -> Callable[[], Iterator[str]]:
    """A table of two columns; names with the same meaning here share a row."""

    def table() -> Iterator[str]:
        yield "| elsewhere | here |\n|---|---|"
        for ours in dict.fromkeys(names.values()):
            yield f"| {', '.join(f'`{name}`' for name in names if names[name] == ours)} | `{ours}` |"

    return table


def fields() -> Iterator[str]:
    """A row for each of the fields' names, without those that say what to do elsewhere."""
    yield "| elsewhere | here |\n|---|---|"
    for row in FIELDS:
        ours = ", ".join(f"`{field}`" for field in row.ours.split())
        yield f"| {', '.join(f'`{name}`' for name in row.names.split())} | {ours or row.instead} |"


def things() -> Iterator[str]:
    """A row for each of what other packages have beside functions."""
    yield "| elsewhere | here |\n|---|---|"
    for here, names in THINGS.items():
        yield f"| {', '.join(f'`{name}`' for name in names.split())} | {here} |"


TABLES = {
    "operators": operators,
    "things": things,
    "fields": fields,
    "members": _pairs(MEMBERS),
    "devices": _pairs(DEVICES),
}


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
