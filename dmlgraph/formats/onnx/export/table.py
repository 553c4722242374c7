"""The table of dmlgraph's operators that can be exported: one row each.

    @exports("gather_elements", how="GatherElements")
    def gather_elements(node: Emitter) -> Symbol: ...

    @applies("exp", how="Exp")
    def exp(node: Emitter, operator: Operator, x: Symbol) -> Symbol: ...

The modules named in `FAMILIES` have the rows.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlgraph.formats.onnx.export.emitter import Emitter, Result, Symbol
    from dmlgraph.operators import Operator

    Rule = Callable[[Emitter], Result]
    Function = Callable[[Emitter, Operator, Symbol], Symbol]

FAMILIES = (
    "element_wise",
    "division",
    "bits",
    "comparison",
    "activations",
    "fills",
    "matrix",
    "windows",
    "shapes",
    "padding",
    "reduction",
    "indexing",
    "normalization",
    "gradients",
    "quantization",
    "recurrent",
    "resampling",
    "regions",
    "attention",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An operator that can be exported.

    Attributes:
        operator: its name.
        how: what it becomes: operators of ONNX.
        rule: adds its nodes to the model.
        function: for a function of one tensor, which may be fused into another operator: adds its nodes.
    """

    operator: str
    how: str
    rule: Rule
    function: Function | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """An operator that cannot be exported: its name and the reason."""

    operator: str
    reason: str


_ROWS: dict[str, Row] = {}

# Operators without an equivalent.
REFUSED = {
    each.operator: each
    for each in (
        Refused("random_generator", "ONNX's random numbers are not those of Philox"),
        Refused("roi_align_grad", "ONNX has no gradient of RoiAlign"),
    )
}


def exports(*operators: str, how: str) -> Callable[[Rule], Rule]:
    """Enters a rule for operators into the table."""

    def enter(rule: Rule) -> Rule:
        for operator in operators:
            _ROWS[operator] = Row(operator, how, rule)
        return rule

    return enter


def applies(*operators: str, how: str) -> Callable[[Function], Function]:
    """Enters a function of one tensor into the table; `input` and `scale_bias` are read before it."""

    def enter(function: Function) -> Function:
        def rule(node: Emitter) -> Symbol:
            return node.converted(function(node, node.operator, node.scaled()), node.dtype)

        for operator in operators:
            _ROWS[operator] = Row(operator, how, rule, function)
        return function

    return enter


@functools.cache
def rows() -> dict[str, Row]:
    """The rows by operator."""
    for family in FAMILIES:
        importlib.import_module(f"dmlgraph.formats.onnx.export.{family}")
    return dict(sorted(_ROWS.items()))
