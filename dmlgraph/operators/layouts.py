"""Which layouts of tensors DirectML takes: any strides at any tensor, except those of this table.

Measured on DirectML 1.13 (feature level 6.2) by `tools/measure_layouts.py`: every operator at each of its tensors, in
all data types, with the dimensions in another order than their strides, with gaps, with strides of zero, and with any
strides of dimensions of size 1; docs/measured.md, "Strides", says more.  This is about operators by themselves: for
values that share a buffer see `dmlgraph.devices.directml.faults.aliases`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator

MEASURED = FeatureLevel.V6_2  # no library for Linux has the operators of later levels


class Refused(NamedTuple):
    """A layout that an operator does not take at one of its tensors.

    Attributes:
        holds: whether a desc has this layout.
        why: what the operator does not do.
    """

    holds: Callable[[TensorDesc], bool]
    why: str


def is_packed(desc: TensorDesc) -> bool:
    """Whether the elements lie row-major without gaps; strides of dimensions of size 1 do not matter."""
    return desc.strides is None or steps(desc) == steps(desc.like())


def repeats(desc: TensorDesc) -> bool:
    """Whether a stride of zero repeats elements."""
    return any(stride == 0 for _, stride in steps(desc))


def only_repeats(desc: TensorDesc) -> bool:
    """Whether the elements are packed, apart from dimensions that are repeated."""
    kept = [(size, stride) for size, stride in steps(desc) if stride != 0]
    sizes = tuple(size for size, _ in kept) or (1,)
    return kept == steps(desc.like(sizes=sizes))


def steps(desc: TensorDesc) -> list[tuple[int, int]]:
    """The sizes and strides of the dimensions that are larger than 1."""
    return [(size, stride) for size, stride in zip(desc.sizes, desc.effective_strides, strict=True) if size > 1]


# By operator and the field of the tensor.
REFUSED: Mapping[tuple[str, str], Refused] = {
    ("SCATTER_ND", "indices"): Refused(repeats, "does not read its indices through strides of zero"),
}


def refusal(operator: Operator, path: str, desc: TensorDesc) -> str | None:
    """Why DirectML does not take a tensor in this layout, in a few words; None if it does.

    Args:
        operator: the operator; its own descs do not matter.
        path: the binding path of the tensor: `input`, `inputs.1`, `output`, …
        desc: the layout.  A packed one is never refused.
    """
    if is_packed(desc):
        return None
    field = path.partition(".")[0]
    if operator.support().introduced > MEASURED:
        if field in operator.input_fields and only_repeats(desc):
            return None  # so broadcasting works at every level
        return f"{operator.dml} has not been measured with other strides than those of packed tensors"
    refused = REFUSED.get((operator.dml, field))
    return f"{operator.dml} {refused.why}" if refused is not None and refused.holds(desc) else None
