"""Earlier versions of DirectML's operators, for graphs whose level lacks the newest: where they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.graph.value import Value
from dmlgraph.operators import find

Fields = dict[str, Any]


def _same_for_floats(x: Value, fields: Fields) -> Fields | None:
    """The newer version has a bound or a value of the tensor's type, the earlier one a float32."""
    return fields if x.dtype.is_float else None


def _without_gaps(_: Value, fields: Fields) -> Fields | None:
    rest = {name: each for name, each in fields.items() if name != "dilations"}
    return rest if all(each == 1 for each in fields.get("dilations", ())) else None


def _to_the_nearest(x: Value, fields: Fields) -> Fields | None:
    """RESAMPLE1 takes the nearest element, at halves the latter: half an element further on, that is rounding down."""
    rest = {name: each for name, each in fields.items() if name != "rounding_direction"}
    if fields["interpolation_mode"] == "linear":
        return rest
    if fields["rounding_direction"] != "decreasing" or not x.dtype.is_float:
        return None
    return rest | {"input_pixel_offsets": [each + 0.5 for each in fields["input_pixel_offsets"]]}


# The newer function → the earlier one, and a function that makes its fields of a tensor and the newer one's fields, or
# returns None where it would compute something else.
_EARLIER: dict[str, tuple[str, Callable[[Value, Fields], Fields | None]]] = {
    "average_pooling1": ("average_pooling", _without_gaps),
    "clip1": ("clip", _same_for_floats),
    "lp_pooling1": ("lp_pooling", _without_gaps),
    "padding1": ("padding", _same_for_floats),
    "resample2": ("resample1", _to_the_nearest),
}


def has(level: FeatureLevel, function: str) -> bool:
    """Whether a level has the operator of a function."""
    operator = find(function)
    return operator is None or operator.support().introduced <= level


def at_level(level: FeatureLevel, function: str, x: Any, fields: Fields) -> tuple[str, Fields]:
    """The function and fields for a tensor at a level; unchanged where the level has it, or no earlier one serves."""
    if function not in _EARLIER or has(level, function) or not isinstance(x, Value):
        return function, fields
    earlier, adapt = _EARLIER[function]
    found = adapt(x, fields)
    return (function, fields) if found is None else (earlier, found)
