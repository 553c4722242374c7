"""IS_NAN that DirectML computes correctly: from float16 to uint32 it finds no NaN.

Measured on DirectML 1.13 (feature level 6.2): it reads the float16 tensor through a view of 32-bit integers then, so
that every result is 0.  With a uint8 output it reads float16 correctly; a cast then converts the result to uint32.
"""

from __future__ import annotations

import itertools

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.devices.directml.faults.edits import insert_after, put
from dmlgraph.operators import Cast, IsNan
from dmlgraph.operators.declaration.operator import Operator


def cast_answers_on_float16(ir: IrGraph) -> int:
    """Inserts a cast after each IS_NAN from float16 to uint32; returns how many, each a dispatch."""
    casts = 0
    nodes = list(ir)
    for node, following in itertools.zip_longest(nodes, nodes[1:]):
        operator = node.operator
        if operator is None or not _finds_none(operator):
            continue
        asked = operator.first_output
        answers = TensorDesc(dtype=DataType.UINT8, sizes=asked.sizes)
        cast = Cast(input=answers, output=asked)
        insert_after(ir, Source(node.name, 0), "cast", cast, before=None if following is None else following.name)
        put(ir, node.name, operator.replace(output=answers))
        casts += 1
    return casts


def _finds_none(operator: Operator) -> bool:
    return (
        isinstance(operator, IsNan)
        and operator.input.dtype is DataType.FLOAT16
        and operator.output.dtype is DataType.UINT32
    )
