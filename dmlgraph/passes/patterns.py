"""Patterns: formulas in several operators for which DirectML has one.

A formula is looked for up to the way it is spelled: factors in either order, numbers multiplied before or after,
divisions for products.  Each becomes one operator only where all of it disappears.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dmlgraph.operators.activation import (
    ActivationGelu,
    ActivationHardSigmoid,
    ActivationHardSwish,
    ActivationLeakyRelu,
    ActivationSigmoid,
    ActivationSwish,
)
from dmlgraph.operators.element_wise import Add, Clip, Divide, Erf, Identity, Max, Min, Multiply
from dmlgraph.operators.normalization import BatchNormalization
from dmlgraph.passes.affine import AFFINE, FLOATS, Line, line_of, nearly_affine
from dmlgraph.passes.draft import Draft, DraftNode
from dmlgraph.passes.rule import Constant, Declined, New, Operand, Outcome, Rewrite, Tensor, rule

MAX_STEPS = 4  # lines that are looked through, one after another
TOLERANCE = 2.0**-22  # relative: how well a written constant, such as 0.70710677 for 1/√2, is one that is meant
FLOAT16_TOLERANCE = 2.0**-10


class Traced(NamedTuple):
    """A value as a line of another one, in real numbers, and the nodes that compute the line."""

    operand: Operand
    line: Line
    steps: tuple[Operand, ...]


class Product(NamedTuple):
    """scale · a · b of two tensors, and the values in between that only this node needs."""

    scale: float
    a: Operand
    b: Operand
    steps: tuple[Operand, ...]


@rule(
    Multiply,
    after=(ActivationSigmoid,),
    effect="float32 to the bit on DirectML, at most 4 ULP elsewhere; float16: 1/2 ULP of sigmoid's argument",
)
def swish(draft: Draft, node: DraftNode) -> Outcome:
    """x · sigmoid(s·x) → ACTIVATION_SWISH, which computes this very formula.

    NaN stays NaN; −∞ · 0 is NaN in both.  In float16, and on the reference, neither s·x nor the sigmoid is rounded;
    half a unit of s·x is a relative error of |s·x| / 2 units of a sigmoid near zero.
    """
    for x, gate in _either_way(draft, node):
        found = draft.made_by(gate, ActivationSigmoid)
        if found is None:
            continue
        traced = _trace(draft, found.needed("input"), x)
        if traced.operand != x or traced.line.shifts:
            continue
        attributes = {"sigmoid_input_scale": traced.line.scale}
        return _replace(draft, x, New(ActivationSwish, {"input": x}, attributes), (gate, *traced.steps))
    return None


@rule(
    Multiply,
    Identity,
    Divide,
    needs=(ActivationHardSigmoid, Clip),
    effect="to the bit for x · clip(x·a + b, 0, 1) of float32, otherwise at most 2 ULP of x; what overflows in between "
    "no longer does",
)
def hard_swish(draft: Draft, node: DraftNode) -> Outcome:
    """x · hard_sigmoid(x), x · clip(x·a + b, 0, 1), x · clip(x + 3, 0, 6) / 6 → ACTIVATION_HARD_SWISH.

    NaN stays NaN.  The last spelling has other roundings: the result is within 2 ULP of x, not always of itself, which
    is near zero where x is near −3.
    """
    for product, x, gate in _factors(draft, node):
        traced = _trace(draft, gate)
        bent = draft.made_by(traced.operand, ActivationHardSigmoid, Clip)
        if bent is None or traced.line.shifts:
            continue
        scale = product.scale * traced.line.scale
        inner = _trace(draft, bent.needed("input"), x)
        if inner.operand != x:
            continue
        operator = bent.operator
        if isinstance(operator, Clip):
            line, height = _after(line_of(operator.scale_bias), inner.line), operator.max
            if operator.min != 0.0:
                continue
        else:
            assert isinstance(operator, ActivationHardSigmoid)
            line, height = _after(Line(operator.alpha, operator.beta), inner.line), 1.0
        if not _is_near(height * scale, 1.0, x):
            continue
        attributes = {"alpha": _float32(line.scale * scale), "beta": _float32(line.bias * scale)}
        steps = (*product.steps, gate, *traced.steps, traced.operand, *inner.steps)
        return _replace(draft, x, New(ActivationHardSwish, {"input": x}, attributes), steps)
    return None


@rule(
    Multiply,
    Identity,
    Divide,
    needs=(Erf,),
    effect="at most 2 ULP of x on exact functions, and 8 on DirectML, whose erf is near",
)
def gelu(draft: Draft, node: DraftNode) -> Outcome:
    """½ · x · (1 + erf(x / √2)) → ACTIVATION_GELU.

    Where 1 + erf cancels, for x well below zero, the formula has digits of x left and not of its own, so the bound is
    in ULP of x.  NaN and infinities are what they were.
    """
    for product, x, gate in _factors(draft, node):
        traced = _trace(draft, gate)
        found = draft.made_by(traced.operand, Erf)
        if found is None:
            continue
        inner = _trace(draft, found.needed("input"), x)
        operator = found.operator
        assert isinstance(operator, Erf)
        line = _after(line_of(operator.scale_bias), inner.line)
        if line.shifts or inner.operand != x or not _is_near(line.scale, math.sqrt(0.5), x):
            continue
        if not all(_is_near(product.scale * each, 0.5, x) for each in traced.line):
            continue
        steps = (*product.steps, gate, *traced.steps, traced.operand, *inner.steps)
        return _replace(draft, x, New(ActivationGelu, {"input": x}), steps)
    return None


@rule(Max, Min, after=AFFINE, effect="bit-exact")
def leaky_relu(draft: Draft, node: DraftNode) -> Outcome:
    """max(x, a·x) with 0 < a < 1, min(x, a·x) with a > 1 → ACTIVATION_LEAKY_RELU.

    Whichever of the two is the other's part, x is taken above zero and a·x below, rounded once in both.  NaN and
    infinities stay, and zeros keep their sign.
    """
    for x, other in _operands(node):
        traced = _trace(draft, other, x)
        if len(traced.steps) != 1 or traced.line.shifts or traced.operand != x:
            continue
        scale = traced.line.scale
        if not (0.0 < scale < 1.0 if isinstance(node.operator, Max) else 1.0 < scale < math.inf):
            return Declined(f"a scale of {scale:g} turns the line the other way")
        return _replace(draft, x, New(ActivationLeakyRelu, {"input": x}, {"alpha": scale}), traced.steps)
    return None


@rule(
    Add,
    after=(Multiply,),
    effect="to the bit on DirectML; saves a rounding of the product elsewhere: at most 1/2 ULP of it",
)
def multiply_add(draft: Draft, node: DraftNode) -> Outcome:
    """x · w + b of tensors → BATCH_NORMALIZATION of mean 0 and variance 1.

    DirectML has no other operator that multiplies and adds in one pass: (x − 0) / √(1 + 0) · w + b is x · w + b, each
    step rounded as before in float32 (measured), and x − 0 leaves every x as it is.  In float16 the product is not
    rounded before the sum.
    """
    for product, b in _operands(node):
        found = draft.made_by(product, Multiply)
        if found is None or product.desc.dtype not in FLOATS:
            continue
        if nearly_affine(draft, found) is not None or draft.number(b) is not None:
            return None  # a ScaleBias does it better
        x, w = next(_operands(found))
        if not draft.only_use(product):
            return Declined(f"'{found.name}' has other readers, and would stay")
        x_read, w_read = (draft.around(product, draft.produced(product), each) for each in (x, w))
        if x_read is None or w_read is None:
            return Declined(f"it reads '{found.name}' through strides of its own")
        ones = (1,) * product.desc.rank
        zero, one = (Constant(np.full(ones, each, product.desc.dtype.numpy)) for each in (0, 1))
        tensors: dict[str, Tensor | list[Tensor] | None] = {
            "input": x_read,
            "mean": zero,
            "variance": one,
            "scale": w_read,
            "bias": b,
        }
        value = New(BatchNormalization, tensors, {"spatial": True, "epsilon": 0.0})
        return Rewrite.of(value, f"'{found.name}' and this sum are one pass")
    return None


# Looking at formulas.


def _operands(node: DraftNode) -> Iterator[tuple[Operand, Operand]]:
    """Both operands of a node of two, in either order."""
    a, b = node.operand("a"), node.operand("b")
    if a is not None and b is not None:
        yield a, b
        yield b, a


def _either_way(draft: Draft, node: DraftNode) -> Iterator[tuple[Operand, Operand]]:
    for a, b in _operands(node):
        if a.desc.dtype in FLOATS and draft.number(a) is None and draft.number(b) is None:
            yield a, b


def _factors(draft: Draft, node: DraftNode) -> Iterator[tuple[Product, Operand, Operand]]:
    """A product of two tensors and numbers: with what one of them may be a multiple of, and the other, either way."""
    product = _product(draft, node)
    if product is None:
        return
    for operand, other in ((product.a, product.b), (product.b, product.a)):
        scale, x, steps = product.scale, operand, product.steps
        for _ in range(MAX_STEPS):
            yield Product(scale, x, other, steps), x, other
            found = nearly_affine(draft, draft.producer(x))
            behind = found and draft.around(x, draft.produced(x), found.operand)
            if found is None or behind is None or found.line.shifts:
                break
            scale, x, steps = scale * found.line.scale, behind, (*steps, x)


def _product(draft: Draft, node: DraftNode) -> Product | None:
    scale = 1.0
    steps: tuple[Operand, ...] = ()
    for _ in range(MAX_STEPS):
        found = nearly_affine(draft, node)
        if found is None:
            break
        if found.line.shifts:
            return None
        scale, steps = scale * found.line.scale, (*steps, found.operand)
        node = draft.producer(found.operand)
    pairs = next(_either_way(draft, node), None) if isinstance(node.operator, Multiply) else None
    return pairs and Product(scale, *pairs, steps)


def _trace(draft: Draft, operand: Operand, until: Operand | None = None) -> Traced:
    """Where a value comes from, but for lines, or what line of `until` it is; what is no line is one of itself."""
    line = Line()
    steps: tuple[Operand, ...] = ()
    for _ in range(MAX_STEPS):
        if operand == until:
            break
        found = nearly_affine(draft, draft.producer(operand))
        behind = found and draft.around(operand, draft.produced(operand), found.operand)
        if found is None or behind is None:
            break
        line, steps = _after(line, found.line), (*steps, operand)
        operand = behind
    return Traced(operand, line, steps)


def _after(outer: Line, inner: Line) -> Line:
    """outer(inner(x)) in real numbers."""
    if not inner.shifts:
        return Line(outer.scale * inner.scale, outer.bias)
    return Line(outer.scale * inner.scale, outer.scale * inner.bias + (outer.bias if outer.shifts else 0.0))


def _replace(draft: Draft, x: Operand, value: New, steps: tuple[Operand, ...]) -> Outcome:
    """The rewrite to an operator of x, if nothing else reads the values in between."""
    for step in steps:
        if not draft.only_use(step):
            return Declined(f"'{step.source.node}' is read elsewhere, too")
    return Rewrite.of(value, f"it is {value.operator.name} of '{x.source.node}'")


def _is_near(number: float, meant: float, x: Operand) -> bool:
    tolerance = TOLERANCE if x.desc.dtype.bits == 32 else FLOAT16_TOLERANCE
    return abs(number - meant) <= tolerance * abs(meant)


def _float32(number: float) -> float:
    return float(np.float32(number))


RULES = (swish, hard_swish, gelu, leaky_relu, multiply_add)
