"""IS_NAN that DirectML computes correctly: from float16 to uint32 it finds no NaN.

Measured on DirectML 1.13 (feature level 6.2): it reads the float16 tensor through a view of 32-bit integers then, so
that every result is 0.  With a uint8 output it reads float16 correctly; a cast then converts the result to uint32.
"""

from __future__ import annotations

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.directml.faults.edit import DescEdit, Value
from dmlgraph.operators import Cast, IsNan
from dmlgraph.operators.declaration.operator import Operator


def cast_answers_on_float16(edit: DescEdit) -> None:
    """Inserts a cast after each IS_NAN from float16 to uint32."""
    for index in range(len(edit.nodes)):
        operator = edit.operator(index)
        if operator is None or not _finds_none(operator):
            continue
        asked = operator.first_output
        answers = TensorDesc(dtype=DataType.UINT8, sizes=asked.sizes)
        edit.replace(index, operator.replace(output=answers))
        edit.insert_after(f"{edit.nodes[index].name}.cast", Cast(input=answers, output=asked), Value(index, 0))


def _finds_none(operator: Operator) -> bool:
    return (
        isinstance(operator, IsNan)
        and operator.input.dtype is DataType.FLOAT16
        and operator.output.dtype is DataType.UINT32
    )
