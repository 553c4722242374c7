"""The table of operators that can be imported: one row each, with the opsets in which it holds.

    @imports("Gelu", since=20, how="activation_gelu")
    def gelu(node: Node) -> Result: ...

The modules named in `FAMILIES` have the rows.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlgraph.formats.onnx.node import Node, Result

OLDEST = 1  # the first opset that is read
MICROSOFT = "com.microsoft"
FAMILIES = (
    "element_wise",
    "powers",
    "inverse_hyperbolic",
    "activations",
    "matrix",
    "windows",
    "regions",
    "reduction",
    "shapes",
    "indexing",
    "scattering",
    "resampling",
    "sampling",
    "deformable",
    "boxes",
    "spectral",
    "normalization",
    "recurrent",
    "quantization",
    "control",
    "sequences",
    "experimental",
    "random_numbers",
    "microsoft",
    "microsoft_products",
    "microsoft_normalization",
    "microsoft_attention",
    "microsoft_grouped",
    "microsoft_quantized",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An operator in a range of opsets.

    Attributes:
        domain: "" for ONNX's own operators.
        operator: its name.
        since, until: the first and the last opset; `until` is None where the row holds to the newest.
        how: what it becomes: functions of `dmlgraph`, or a phrase.
        family: the module with the rule.
        rule: adds its nodes to the graph.
    """

    domain: str
    operator: str
    since: int
    until: int | None
    how: str
    family: str
    rule: Callable[[Node], Result]


_ROWS: dict[tuple[str, str], list[Row]] = {}


def imports(
    *operators: str, how: str, since: int = OLDEST, until: int | None = None, domain: str = ""
) -> Callable[[Callable[[Node], Result]], Callable[[Node], Result]]:
    """Enters a rule for operators into the table.

    A rule raises ByDefinition for a form of the operator that ONNX's definition by other operators serves better.
    """

    def enter(rule: Callable[[Node], Result]) -> Callable[[Node], Result]:
        family = rule.__module__.rpartition(".")[2]
        for operator in operators:
            first = 1 if domain else since
            row = Row(domain, operator, first, until, how, family, rule)
            _ROWS.setdefault((domain, operator), []).append(row)
        return rule

    return enter


@functools.cache
def rows() -> dict[tuple[str, str], list[Row]]:
    """The rows by domain and operator, each operator's by opset."""
    for family in FAMILIES:
        importlib.import_module(f"dmlgraph.formats.onnx.{family}")
    return {key: sorted(each, key=lambda row: row.since) for key, each in sorted(_ROWS.items())}


def find(domain: str, operator: str, opset: int) -> Row | None:
    """The row of an operator in an opset."""
    for row in rows().get((domain, operator), ()):
        if row.since <= opset and (row.until is None or opset <= row.until):
            return row
    return None


def all_rows() -> Iterator[Row]:
    """All rows, ONNX's own operators first, by name."""
    for each in rows().values():
        yield from each
