"""Comparisons, tests and logic: ONNX's bools as 1 and 0."""

from __future__ import annotations

from dmlgraph.formats.onnx.export.emitter import BOOL, Emitter, Symbol
from dmlgraph.formats.onnx.export.table import exports
from dmlgraph.operators.directml_enums import IsInfinityMode

_COMPARISONS = {
    "logical_equals": "Equal",
    "logical_greater_than": "Greater",
    "logical_less_than": "Less",
    "logical_greater_than_or_equal": "GreaterOrEqual",
    "logical_less_than_or_equal": "LessOrEqual",
}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _comparison(node: Emitter) -> Symbol:
    return node.flags(node.call(_COMPARISONS[node.operator.name], node.raw("a"), node.raw("b"), dtype=BOOL))


def _logic(node: Emitter) -> Symbol:
    a, b = (node.truth(node.raw(field)) for field in ("a", "b"))
    return node.flags(node.call(_LOGIC[node.operator.name], a, b))


for _name, _how in _COMPARISONS.items():
    exports(_name, how=f"{_how}, Cast")(_comparison)
for _name, _how in _LOGIC.items():
    exports(_name, how=f"{_how}, Cast")(_logic)


@exports("logical_not", how="Not, Cast")
def _not(node: Emitter) -> Symbol:
    return node.flags(node.call("Not", node.truth(node.raw("input"))))


@exports("is_nan", how="IsNaN, Cast")
def _is_nan(node: Emitter) -> Symbol:
    return node.flags(node.call("IsNaN", node.raw("input"), dtype=BOOL))


@exports("is_infinity", how="IsInf, Cast")
def _is_infinity(node: Emitter) -> Symbol:
    mode = node.field("infinity_mode")
    negative, positive = mode is not IsInfinityMode.POSITIVE, mode is not IsInfinityMode.NEGATIVE
    return node.flags(
        node.call("IsInf", node.raw("input"), dtype=BOOL, detect_negative=int(negative), detect_positive=int(positive))
    )
