"""Affine maps: the nodes that compute x · scale + bias with numbers, and the composition of two maps.

A ScaleBias computes x · scale, rounds it, adds bias and rounds again, all in float32, without a fused multiply-add.  So
a bias of −0.0 adds nothing to any x, not even to a zero, where 0.0 would turn −0.0 into 0.0; and a scale of 1 changes
nothing.  A ScaleBias cannot compute x · 1 + 0.0: DirectML skips it as a whole, and −0.0 stays (measured).  In float16
the product and the sum are float32, and their result is rounded once.

Affine maps are float16 and float32 only: a ScaleBias converts integers to float32, and 64-bit types refuse it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.rule import Declined
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.traits import AffineMap, is_power_of_two
from dmlgraph.operators.element_wise import Divide

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_GREATEST, _LEAST_NORMAL = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


class Affine(NamedTuple):
    """A node as an affine map of one of its operands."""

    operand: Operand
    map: AffineMap


class BesideNumbers(NamedTuple):
    """The only operand that is not a number, and the numbers by input port: None for the operand."""

    operand: Operand
    numbers: tuple[Scalar | None, ...]


def beside_numbers(ir: IrGraph, node: IrNode) -> BesideNumbers | None:
    """The operand of a node with one input, or with another one beside it that is a number; None for other nodes."""
    operands = [node.operand(field) for field in node.computation.input_fields]
    if len(operands) == 1:
        return None if operands[0] is None else BesideNumbers(operands[0], (None,))
    numbers = tuple(map(ir.number, operands))
    unknown = [operand for operand, number in zip(operands, numbers, strict=True) if number is None]
    return BesideNumbers(unknown[0], numbers) if len(unknown) == 1 and unknown[0] is not None else None


def is_affine(kind: type[Operator]) -> bool:
    """Whether the operator may be an affine map of one operand."""
    return kind.affine is not Operator.affine


def affine(ir: IrGraph, node: IrNode) -> Affine | None:
    """The affine map that a node computes to the bit (in float16: with the last rounding only); else None.

    Returns None for an identity, for numbers that are not finite, and for a node that has only numbers as operands.
    """
    found = _affine(ir, node)
    if found is None or found.map.is_identity or found.map.is_left_out or not _is_finite(found.map):
        return None
    return found if found.operand.desc.dtype in FLOATS else None


def nearly_affine(ir: IrGraph, node: IrNode) -> Affine | None:
    """`affine`, and also DIVIDE by any number: for patterns that tolerate rounding."""
    found = affine(ir, node)
    if found is not None or not isinstance(node.operator, Divide):
        return found
    divided = beside_numbers(ir, node)
    divisor = None if divided is None else divided.numbers[1]
    if divided is None or divisor is None or divisor.dtype not in FLOATS or float(divisor.value) == 0.0:
        return None
    return Affine(divided.operand, AffineMap(1.0 / float(divisor.value)))


def compose(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """outer(inner(x)) as one map: within 2 ULP, and to the bit where a scale is a power of two.

    (x·a)·c is x·(a·c): to the bit if a or c is a power of two and nothing over- or underflows; within 2 ULP if both are
    at most 1 or both at least 1, so that the one product over- or underflows where the two do.  (x·a + b)·c is x·(a·c)
    + b·c to the bit if c is a power of two.

    Raises:
        Declined: one map is not that close; `reassociate` accepts more.
    """
    exact = is_power_of_two(inner.scale) or is_power_of_two(outer.scale)
    magnitudes = abs(inner.scale), abs(outer.scale)
    if not exact and (inner.shifts or outer.shifts or not (max(magnitudes) <= 1 or min(magnitudes) >= 1)):
        raise Declined(f"({inner}) · {outer.scale:g} is not within 2 ULP of one product")
    if inner.shifts and outer.scale != 1.0 and not (is_power_of_two(outer.scale) and outer.scale > 0):
        raise Declined(f"({inner}) · {outer.scale:g}: the sum would be rounded elsewhere, without a bound in ULP")
    if inner.shifts and outer.shifts:
        raise Declined(f"({inner}) + {outer.bias:g}: sums are not associative")
    affine_map = _composed(outer, inner)
    if affine_map.is_left_out:
        raise Declined("DirectML skips a scale of 1 with a bias of 0.0")
    return affine_map


def compose_as_reals(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """outer(inner(x)) as one map, computed as in real numbers: where terms cancel, no digit may be correct.

    Raises:
        Declined: a number of the map is beyond float32.
    """
    affine_map = _composed(outer, inner)
    return AffineMap() if affine_map.is_left_out else affine_map


def _composed(outer: AffineMap, inner: AffineMap) -> AffineMap:
    scale = _rounded(inner.scale * outer.scale)
    if not inner.shifts:
        return AffineMap(scale, outer.bias)
    bias = _rounded(inner.bias * outer.scale)
    return AffineMap(scale, _rounded(bias + outer.bias) if outer.shifts else bias)


def _rounded(number: float) -> float:
    """A number as float32.  Raises Declined where float32 overflows, or is subnormal, which has fewer digits."""
    if abs(number) > _GREATEST or 0.0 < abs(number) < _LEAST_NORMAL:
        raise Declined(f"{number:g} is not a normal float32")
    return float(np.float32(number))


def _affine(ir: IrGraph, node: IrNode) -> Affine | None:
    if node.operator is None or not is_affine(type(node.operator)):
        return None
    found = beside_numbers(ir, node)
    affine_map = None if found is None else node.operator.affine(found.numbers)
    return None if found is None or affine_map is None else Affine(found.operand, affine_map)


def _is_finite(affine_map: AffineMap) -> bool:
    return math.isfinite(affine_map.scale) and math.isfinite(affine_map.bias)
