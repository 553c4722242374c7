"""Constants into attributes: an operator that has an attribute for a number gets the number instead of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.canonical.fills import scalar_of
from dmlgraph.compiler.rule import NUMBERS, New, Outcome, Rewrite, demand, rule, wanted
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.directml_enums import PaddingMode
from dmlgraph.operators.element_wise import ConstantPow, Pow
from dmlgraph.operators.padding import Padding, Padding1
from dmlgraph.operators.shape import Join


@rule(Pow, after=NUMBERS, effect="bit-exact")
def constant_exponent(ir: IrGraph, node: IrNode) -> Outcome:
    """pow(x, fill) → CONSTANT_POW, for a float x and an exponent that is a float32.

    Both compute 2 ^ (exponent · log2 |x|), with x's sign where the exponent is odd, and agree on NaN and infinities.
    POW with integers is exact and is not changed; neither is a POW with a scale and bias, which it also applies to the
    exponent.
    """
    operator = node.computing(Pow)
    exponent, x = ir.number(node.operand("exponent")), node.operand("input")
    if exponent is None or x is None:
        return None
    demand(operator.scale_bias is None, "its scale and bias also apply to the exponent")
    demand(operator.input.dtype.is_float, "POW of integers computes another function than CONSTANT_POW")
    value = wanted(_float_of(exponent), f"the exponent {exponent} is not a float32")
    return Rewrite.of(New(ConstantPow, {"input": x}, {"exponent": value}), f"the exponent is {exponent} everywhere")


@rule(Join, after=NUMBERS, effect="bit-exact")
def pad_for_join(ir: IrGraph, node: IrNode) -> Outcome:
    """join(fill, x, fill) → PADDING1 (PADDING below its level): one operator, where DirectML copies each part."""
    operator = node.computing(Join)
    parts = node.operands("inputs")
    numbers = [ir.number(part) for part in parts]
    known = {number for number in numbers if number is not None}
    if not known or numbers.count(None) != 1:
        return None
    demand(len(known) == 1, "it joins different numbers")
    (number,) = known
    place = numbers.index(None)
    lengths = [part.desc.sizes[operator.axis] for part in parts]
    start, end = sum(lengths[:place]), sum(lengths[place + 1 :])
    value: Scalar | float = number
    padding: type[Padding | Padding1] = Padding1
    if ir.level < FeatureLevel.V5_0:
        padding = Padding
        value = wanted(_padding_value(number), f"PADDING, whose value is a float32, cannot add {number}")
    attributes = {
        "padding_mode": PaddingMode.CONSTANT,
        "padding_value": value,
        "start_padding": [start if axis == operator.axis else 0 for axis in range(operator.output.rank)],
        "end_padding": [end if axis == operator.axis else 0 for axis in range(operator.output.rank)],
    }
    return Rewrite.of(New(padding, {"input": parts[place]}, attributes), f"all other parts are {number}")


def _float_of(number: Scalar) -> float | None:
    """The number as a float attribute; None if float32 cannot hold it."""
    value: Any = number.value
    with np.errstate(all="ignore"):
        single = np.float32(value)
    is_same = np.isnan(single) or single == value if number.dtype.is_float else int(number.value) == float(single)
    return float(single) if is_same else None


def _padding_value(number: Scalar) -> float | None:
    """The float attribute that PADDING converts to this number, to the bit; else None."""
    value = _float_of(number)
    return value if value is not None and scalar_of(cut(value, number.dtype)) == number else None


RULES = (constant_exponent, pad_for_join)
