"""What a state may hold: at first, as its next value, and how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.constant_data import ConstantData, constant_array
from dmlgraph.graph.nodes import StateNode
from dmlgraph.operators.declaration.number_types import is_number


def check_next(node: StateNode, got: TensorDesc) -> None:
    """Refuses what cannot be the next value of a state, or rows that are appended to it.

    Raises:
        GraphError: it has another data type, or other sizes.
    """
    field, desc = "next" if node.grows is None else "append", node.desc
    if got.dtype is not desc.dtype:
        raise GraphError(
            "has another data type than the state",
            code="dtype",
            node=node.name,
            field=field,
            got=str(got.dtype),
            allowed=str(desc.dtype),
        )
    if not fits(got.sizes, desc.sizes, node.grows):
        raise GraphError(
            "has other sizes than the state",
            code="sizes",
            node=node.name,
            field=field,
            got=list(got.sizes),
            allowed=fitting(desc.sizes, node.grows, least=1),
        )


def fits(given: Sequence[int], sizes: Sequence[int], grows: int | None) -> bool:
    """Whether sizes are those of a state, or, along the axis along which it grows, at most as large."""
    if len(given) != len(sizes):
        return False
    pairs = enumerate(zip(given, sizes, strict=True))
    return all(one == size or (axis == grows and one <= size) for axis, (one, size) in pairs)


def fitting(sizes: Sequence[int], grows: int | None, *, least: int) -> str:
    """The sizes that fit a state, with at least so many rows, as text."""
    shown = (f"{least} to {size}" if axis == grows else str(size) for axis, size in enumerate(sizes))
    return f"[{', '.join(shown)}]"


def axis_of(grows: object, desc: TensorDesc) -> int | None:
    """The axis along which a state grows, counted from the first."""
    if grows is None:
        return None
    if isinstance(grows, bool) or not isinstance(grows, int) or not -desc.rank <= grows < desc.rank:
        raise GraphError(
            "is not an axis", code="range", field="grows", got=grows, allowed=f"{-desc.rank} to {desc.rank - 1}"
        )
    return grows % desc.rank


def initial_of(given: Any, desc: TensorDesc, grows: object) -> ConstantData | Scalar | None:
    """What a state holds at first."""
    if desc.dtype.bits < 8:
        raise GraphError("a state has a data type of at least 8 bits", code="dtype", field="dtype", got=str(desc.dtype))
    if given is None:
        return None
    if grows is not None:
        raise GraphError(
            "a growing state has no rows at first", code="conflict", field="initial", hint="leave 'initial' out"
        )
    with Report(field="initial"):
        if isinstance(given, Scalar) or is_number(given):
            return Scalar.of(given.value if isinstance(given, Scalar) else given, desc.dtype)
        data = given.array if isinstance(given, ConstantData) else given
        array, stated = constant_array(data, None if isinstance(data, np.ndarray) else desc.dtype)
    if (stated.dtype, stated.sizes) != (desc.dtype, desc.sizes):
        raise GraphError(
            "has another data type or other sizes than the state",
            code="sizes",
            field="initial",
            got=f"{stated.dtype} {list(stated.sizes)}",
            allowed=f"{desc.dtype} {list(desc.sizes)}",
        )
    return given if isinstance(given, ConstantData) else ConstantData(array)
