"""Makes docs/onnx.md: how ONNX models are read and written, and the tables of operators.

onnx.md beside it is the text above the tables.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from dmlgraph.formats.onnx.coverage import covered, exported
from dmlgraph.formats.onnx.model import NEWEST_OPSET
from dmlgraph.formats.onnx.table import OLDEST

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "onnx.md"

BEFORE = pathlib.Path(__file__).with_name("onnx.md").read_text(encoding="utf-8")


def page() -> str:
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield f"{BEFORE.rstrip()}\n"
    yield "## Operators that are read\n"
    yield f"Opsets {OLDEST} to {NEWEST_OPSET} are read. `dmlgraph onnx operators` prints this table.\n"
    yield "| operator | opsets | becomes |"
    yield "|---|---|---|"
    for each in covered():
        yield f"| {each.title} | {each.opsets} | {each.how} |"
    yield "\n## Operators that are written\n"
    yield "`dmlgraph onnx operators --export` prints this table.\n"
    yield "| operator of dmlgraph | becomes |"
    yield "|---|---|"
    for row in exported():
        yield f"| {row.operator} | {row.how} |"


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
