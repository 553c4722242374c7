"""Which layouts of tensors DirectML takes: any strides at any tensor, except those that operators' constraints exclude.

Measured on DirectML 1.13 (feature level 6.2) by `tools/measure_layouts.py`: every operator at each of its tensors, in
all data types, with the dimensions in another order than their strides, with gaps, with strides of zero, and with any
strides of dimensions of size 1; docs/measured.md, "Strides", says more.  This is about operators by themselves: for
values that share a buffer see `dmlgraph.devices.directml.faults.aliases`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.common.strided import is_packed, steps

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator

MEASURED = FeatureLevel.V6_2  # no library for Linux has the operators of later levels


def only_repeats(desc: TensorDesc) -> bool:
    """Whether the elements are packed, apart from dimensions that are repeated."""
    kept = [(size, stride) for size, stride in steps(desc) if stride != 0]
    sizes = tuple(size for size, _ in kept) or (1,)
    return kept == steps(desc.like(sizes=sizes))


def refusal(operator: Operator, path: str, desc: TensorDesc) -> str | None:
    """Why DirectML does not take a tensor in this layout, in a few words; None if it does.

    Args:
        operator: the operator; its own descs do not matter.
        path: the binding path of the tensor: `input`, `inputs.1`, `output`, …
        desc: the layout, which the operator's constraints allow.  A packed one is never refused.
    """
    if is_packed(desc) or operator.support().introduced <= MEASURED:
        return None
    if path.partition(".")[0] in operator.input_fields and only_repeats(desc):
        return None  # so broadcasting works at every level
    return f"{operator.dml} has not been measured with other strides than those of packed tensors"
