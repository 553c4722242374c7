"""Patterns: formulas of several operators for which DirectML has one operator.

A formula is found in every spelling: factors in either order, numbers multiplied before or after, divisions for
products.  It becomes one operator only where all its nodes disappear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.passes.canonical.affine import FLOATS, is_affine, nearly_affine
from dmlgraph.compiler.passes.canonical.clip import clip_view
from dmlgraph.compiler.rule import Differs, New, Outcome, Rewrite, demand, rule
from dmlgraph.operators.activation import (
    ActivationGelu,
    ActivationHardSigmoid,
    ActivationHardSwish,
    ActivationLeakyRelu,
    ActivationSigmoid,
    ActivationSwish,
)
from dmlgraph.operators.declaration.traits import AffineMap
from dmlgraph.operators.element_wise import Clip, Clip1, Divide, Erf, Identity, Max, Min, Multiply

MAX_STEPS = 4  # the most affine maps in a row that are followed
TOLERANCE = 2.0**-22  # relative: how close a constant, such as 0.70710677, must be to the exact one, 1/√2
FLOAT16_TOLERANCE = 2.0**-10


class Traced(NamedTuple):
    """A value as an affine map of another one, in real numbers, and the nodes that compute it."""

    operand: Operand
    map: AffineMap
    steps: tuple[Operand, ...]


class Product(NamedTuple):
    """scale · a · b of two tensors, and the intermediate values."""

    scale: float
    a: Operand
    b: Operand
    steps: tuple[Operand, ...]


@rule(
    Multiply,
    after=(ActivationSigmoid,),
    effect="float32 to the bit on DirectML, at most 4 ULP elsewhere; float16: 1/2 ULP of sigmoid's argument",
    differs=Differs.ROUNDED,
)
def swish(ir: IrGraph, node: IrNode) -> Outcome:
    """x · sigmoid(s·x) → ACTIVATION_SWISH, which computes this formula.

    NaN stays NaN; −∞ · 0 is NaN in both.  In float16, and on the reference, neither s·x nor the sigmoid is rounded;
    an error of 1/2 ULP of s·x is |s·x| / 2 ULP of a sigmoid near zero.
    """
    for x, gate in _either_way(ir, node):
        found = ir.made_by(gate, ActivationSigmoid)
        if found is None:
            continue
        traced = _trace(ir, found.needed("input"), x)
        if traced.operand != x or traced.map.shifts:
            continue
        attributes = {"sigmoid_input_scale": traced.map.scale}
        return _replace(ir, x, New(ActivationSwish, {"input": x}, attributes), (gate, *traced.steps))
    return None


@rule(
    Multiply,
    Identity,
    Divide,
    needs=(ActivationHardSigmoid, Clip, Clip1),
    effect="to the bit for x · clip(x·a + b, 0, 1) of float32, otherwise at most 2 ULP of x; intermediate values "
    "no longer overflow",
    differs=Differs.ROUNDED | Differs.CANCELS,
)
def hard_swish(ir: IrGraph, node: IrNode) -> Outcome:
    """x · hard_sigmoid(x), x · clip(x·a + b, 0, 1), x · clip(x + 3, 0, 6) / 6 → ACTIVATION_HARD_SWISH.

    NaN stays NaN.  The last spelling rounds elsewhere: the result is within 2 ULP of x, not always of the result, which
    is near zero where x is near −3.
    """
    for product, x, gate in _factors(ir, node):
        traced = _trace(ir, gate)
        bent = ir.made_by(traced.operand, ActivationHardSigmoid, Clip, Clip1)
        if bent is None or traced.map.shifts:
            continue
        scale = product.scale * traced.map.scale
        inner = _trace(ir, bent.needed("input"), x)
        if inner.operand != x:
            continue
        if isinstance(bent.operator, ActivationHardSigmoid):
            bend = bent.computing(ActivationHardSigmoid)
            affine_map, height = _after(AffineMap(bend.alpha, bend.beta), inner.map), 1.0
        else:
            clip = clip_view(ir, bent)
            if clip is None or clip.bounds.low != 0.0:
                continue
            affine_map, height = _after(AffineMap.of(clip.scale_bias), inner.map), float(clip.bounds.high)
        if not _is_near(height * scale, 1.0, x):
            continue
        attributes = {"alpha": _float32(affine_map.scale * scale), "beta": _float32(affine_map.bias * scale)}
        steps = (*product.steps, gate, *traced.steps, traced.operand, *inner.steps)
        return _replace(ir, x, New(ActivationHardSwish, {"input": x}, attributes), steps)
    return None


@rule(
    Multiply,
    Identity,
    Divide,
    needs=(Erf,),
    effect="at most 2 ULP of x with exact functions, and 8 on DirectML, whose erf is approximate",
    differs=Differs.ROUNDED | Differs.CANCELS,
)
def gelu(ir: IrGraph, node: IrNode) -> Outcome:
    """½ · x · (1 + erf(x / √2)) → ACTIVATION_GELU.

    Where 1 + erf cancels, for x well below zero, the result has lost its own digits, so the bound is in ULP of x.  NaN
    and infinities do not change.
    """
    for product, x, gate in _factors(ir, node):
        traced = _trace(ir, gate)
        found = ir.made_by(traced.operand, Erf)
        if found is None:
            continue
        inner = _trace(ir, found.needed("input"), x)
        operator = found.computing(Erf)
        affine_map = _after(AffineMap.of(operator.scale_bias), inner.map)
        if affine_map.shifts or inner.operand != x or not _is_near(affine_map.scale, math.sqrt(0.5), x):
            continue
        if not all(_is_near(product.scale * each, 0.5, x) for each in traced.map):
            continue
        steps = (*product.steps, gate, *traced.steps, traced.operand, *inner.steps)
        return _replace(ir, x, New(ActivationGelu, {"input": x}), steps)
    return None


@rule(Max, Min, after=(is_affine,), effect="bit-exact")
def leaky_relu(ir: IrGraph, node: IrNode) -> Outcome:
    """max(x, a·x) with 0 < a < 1, min(x, a·x) with a > 1 → ACTIVATION_LEAKY_RELU.

    Both give x above zero and a·x below, rounded once.  NaN and infinities stay, and zeros keep their sign.
    """
    for x, other in both_orders(node):
        traced = _trace(ir, other, x)
        if len(traced.steps) != 1 or traced.map.shifts or traced.operand != x:
            continue
        scale = traced.map.scale
        selects_it = 0.0 < scale < 1.0 if isinstance(node.operator, Max) else 1.0 < scale < math.inf
        demand(selects_it, f"a scale of {scale:g} selects the other branch")
        return _replace(ir, x, New(ActivationLeakyRelu, {"input": x}, {"alpha": scale}), traced.steps)
    return None


# Matching formulas.


def both_orders(node: IrNode) -> Iterator[tuple[Operand, Operand]]:
    """Both operands of a binary node, in either order."""
    a, b = node.operand("a"), node.operand("b")
    if a is not None and b is not None:
        yield a, b
        yield b, a


def _either_way(ir: IrGraph, node: IrNode) -> Iterator[tuple[Operand, Operand]]:
    for a, b in both_orders(node):
        if a.desc.dtype in FLOATS and ir.number(a) is None and ir.number(b) is None:
            yield a, b


def _factors(ir: IrGraph, node: IrNode) -> Iterator[tuple[Product, Operand, Operand]]:
    """A product of two tensors and numbers as (product, x, other factor), for every x that a factor is a multiple
    of."""
    product = _product(ir, node)
    if product is None:
        return
    for operand, other in ((product.a, product.b), (product.b, product.a)):
        scale, x, steps = product.scale, operand, product.steps
        for _ in range(MAX_STEPS):
            yield Product(scale, x, other, steps), x, other
            found = nearly_affine(ir, ir.producer(x))
            previous = found and ir.around(x, ir.produced(x), found.operand)
            if found is None or previous is None or found.map.shifts:
                break
            scale, x, steps = scale * found.map.scale, previous, (*steps, x)


def _product(ir: IrGraph, node: IrNode) -> Product | None:
    scale = 1.0
    steps: tuple[Operand, ...] = ()
    for _ in range(MAX_STEPS):
        found = nearly_affine(ir, node)
        if found is None:
            break
        if found.map.shifts:
            return None
        scale, steps = scale * found.map.scale, (*steps, found.operand)
        node = ir.producer(found.operand)
    pairs = next(_either_way(ir, node), None) if isinstance(node.operator, Multiply) else None
    return pairs and Product(scale, *pairs, steps)


def _trace(ir: IrGraph, operand: Operand, until: Operand | None = None) -> Traced:
    """A value as an affine map of `until`, or of the first value before it that no affine map computes (maybe
    itself)."""
    affine_map = AffineMap()
    steps: tuple[Operand, ...] = ()
    for _ in range(MAX_STEPS):
        if operand == until:
            break
        found = nearly_affine(ir, ir.producer(operand))
        previous = found and ir.around(operand, ir.produced(operand), found.operand)
        if found is None or previous is None:
            break
        affine_map, steps = _after(affine_map, found.map), (*steps, operand)
        operand = previous
    return Traced(operand, affine_map, steps)


def _after(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """outer(inner(x)) in real numbers."""
    if not inner.shifts:
        return AffineMap(outer.scale * inner.scale, outer.bias)
    return AffineMap(outer.scale * inner.scale, outer.scale * inner.bias + (outer.bias if outer.shifts else 0.0))


def _replace(ir: IrGraph, x: Operand, value: New, steps: tuple[Operand, ...]) -> Outcome:
    """The rewrite to an operator of x, if nothing else reads the intermediate values."""
    for step in steps:
        demand(ir.only_use(step), f"'{step.source.node}' has other readers")
    return Rewrite.of(value, f"it is {value.operator.name} of '{x.source.node}'")


def _is_near(number: float, meant: float, x: Operand) -> bool:
    tolerance = TOLERANCE if x.desc.dtype.bits == 32 else FLOAT16_TOLERANCE
    return abs(number - meant) <= tolerance * abs(meant)


def _float32(number: float) -> float:
    return float(np.float32(number))


RULES = (swish, hard_swish, gelu, leaky_relu)
