"""Scale and bias: what only multiplies and adds numbers goes into the operator that reads it.

Most element-wise functions take a ScaleBias, which costs nothing: f(x · scale + bias) is one pass over x.  The numbers
need not be stored then, either.  See `dmlgraph.passes.affine` for what a line is, and which are one.

Multiplications and additions are light: where several nodes read one, it is taken into all of them and disappears,
or, if one of them cannot take it, stays for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.operators.activation import ActivationIdentity, ActivationLinear, ActivationRelu, ActivationTanh
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Divide, Identity, Multiply, Negate, ScaledUnary, Subtract, Threshold
from dmlgraph.operators.fill import FillValueConstant
from dmlgraph.operators.trigonometric import Tanh
from dmlgraph.passes.affine import AFFINE, FLOATS, Affine, Line, affine, compose, compose_as_reals, line_of
from dmlgraph.passes.draft import Draft, DraftNode
from dmlgraph.passes.rule import (
    NUMBERS,
    Anchor,
    Constant,
    Declined,
    New,
    Operand,
    Outcome,
    Rewrite,
    Source,
    Tensor,
    rule,
)
from dmlgraph.scalar import Scalar

MAX_READERS = 8  # of a value whose producer is taken into each of them; each looks at all the others

Compose = Callable[[Line, Line], Line]


@dataclasses.dataclass(frozen=True, slots=True)
class Taker:
    """A node as an operator with a ScaleBias: operator(line(operand))."""

    operator: type[Operator]
    attributes: Mapping[str, Any]
    operand: Operand
    line: Line

    def of(self, operand: Operand, line: Line) -> New:
        """The operator of another line."""
        return New(self.operator, {"input": operand}, {**self.attributes, "scale_bias": line.scale_bias})


# Activations whose function an operator with a ScaleBias has, too.
TWINS: dict[type[Operator], tuple[type[Operator], Mapping[str, Any]]] = {
    ActivationRelu: (Threshold, {"min": 0.0}),  # not CLIP: for NaN both of these give 0
    ActivationTanh: (Tanh, {}),
    ActivationIdentity: (Identity, {}),
}
_LINES = (*NUMBERS, Negate, Identity, ActivationLinear)  # without these nothing is a line


def is_scaled(operator: type[Operator]) -> bool:
    """Whether an operator has a ScaleBias that is applied to its only input."""
    return issubclass(operator, ScaledUnary)


TAKERS: tuple[Anchor, ...] = (is_scaled, *TWINS, *AFFINE)


def taker(draft: Draft, node: DraftNode) -> Taker | None:
    """How a node takes a scale and a bias before what it does; None where it cannot."""
    operator = node.operator
    if operator is None:
        return None
    if type(operator) in AFFINE and (found := affine(draft, node)) is not None:
        return Taker(Identity, {}, found.operand, found.line)
    operand = node.operand("input") if type(operator) in TWINS or isinstance(operator, ScaledUnary) else None
    if operand is None or operand.desc.dtype not in FLOATS:
        return None
    if type(operator) in TWINS:
        return Taker(*TWINS[type(operator)], operand, Line())
    attributes = operator.attributes
    return Taker(type(operator), attributes, operand, line_of(attributes["scale_bias"]))


@rule(
    *TAKERS,
    after=AFFINE,
    needs=_LINES,
    effect="bit-exact, at most 2 ULP for (x·a)·b; float16 is rounded once for all (1/2 ULP of the product), and TANH "
    "is nearer there; what is in between does not over- or underflow",
)
def absorb_scale_bias(draft: Draft, node: DraftNode) -> Outcome:
    """f(x · a + b) → f of x with ScaleBias; (x · a) · b → x · ab.

    For every operator with a ScaleBias but POW, which would scale its exponent; ACTIVATION_RELU becomes THRESHOLD,
    ACTIVATION_TANH TANH, and multiplications and additions by numbers become one IDENTITY.  A product and a sum
    are rounded as before; lines that follow one another are one as `affine.compose` says.  NaN and infinities are what
    they were.  In float16 the product is not rounded before the sum (the sum differs by at most 1/2 ULP of the
    product, and 1/2 of its own) and does not overflow.  ACTIVATION_TANH is computed in float16 itself by DirectML,
    TANH in float32: the same function, with fewer errors.  What the reference gives for ACTIVATION_LINEAR has no
    rounding of the product either.
    """
    return _absorb(draft, node, compose)


@rule(
    *TAKERS,
    after=AFFINE,
    needs=_LINES,
    effect="not bounded in ULP: where terms cancel, no digit may be left",
    default=False,
)
def reassociate(draft: Draft, node: DraftNode) -> Outcome:
    """(x + a) + b → x + (a + b), and (x + a) · b → x · b + ab, as if numbers were real.

    As `absorb_scale_bias`, for lines that it declines.  The result is within a few ULP of the greatest of its terms,
    not of itself: (x + 1e9) − 1e9 becomes x, where it was a multiple of 64.
    """
    return _absorb(draft, node, compose_as_reals)


def _absorb(draft: Draft, node: DraftNode, composed: Compose) -> Outcome:
    found = taker(draft, node)
    if found is None or (found.operator is Identity and _is_taken(draft, node, found.line, composed)):
        return None
    operand, line = found.operand, found.line
    absorbed: list[str] = []
    # All the way up at once: one new operator for a chain, not one for each of its links.
    while (inner := affine(draft, producer := draft.producer(operand))) is not None:
        try:
            behind, line = _through(draft, operand, inner, line, composed)
        except Declined:
            if not absorbed:
                raise
            break
        operand = behind
        absorbed.append(f"'{producer.name}'")
    if not absorbed:
        return None
    return Rewrite.of(found.of(operand, line), f"with {', '.join(absorbed)} it is of {line}, and that costs nothing")


def _through(draft: Draft, operand: Operand, inner: Affine, line: Line, composed: Compose) -> tuple[Operand, Line]:
    """What a line reads, and which line it is, once it has taken in the one before it; Declined where it must not."""
    name = operand.source.node
    behind = draft.around(operand, draft.produced(operand), inner.operand)
    if behind is None:
        raise Declined(f"it reads '{name}' through strides of its own")
    line = composed(line, inner.line)
    if (stays := _why_it_stays(draft, operand, inner, composed)) is not None:
        raise Declined(f"'{name}' {stays}")
    return behind, line


def _is_taken(draft: Draft, node: DraftNode, line: Line, composed: Compose) -> bool:
    """Whether a line's only reader takes it as it is, so that nothing need be made of it before."""
    source = Source(node.name, 0)
    readers = draft.users(source) if draft.use_count(source) == 1 else []
    found = taker(draft, readers[0][0]) if readers else None
    if found is None or found.operand != Operand(source, node.output_desc()):
        return False
    try:
        composed(found.line, line)
    except Declined:
        return False
    return True


def _why_it_stays(draft: Draft, operand: Operand, inner: Affine, composed: Compose) -> str | None:
    """Why a line does not disappear, were it taken into its readers."""
    if draft.only_use(operand):
        return None
    if draft.is_output(operand.source):
        return "is an output, too, and would stay"
    readers = draft.users(operand.source)
    if len(readers) > MAX_READERS:
        return f"has more than {MAX_READERS} readers"
    for reader, _ in readers:
        found = taker(draft, reader)
        if found is None or found.operand.source != operand.source:
            return f"is read by '{reader.name}', too, and would stay"
        try:
            composed(found.line, inner.line)
        except Declined as declined:
            return f"would stay for '{reader.name}': {declined.why}"
    return None


@rule(Multiply, Add, Subtract, Divide, after=NUMBERS, effect="bit-exact")
def number_to_scale_bias(draft: Draft, node: DraftNode) -> Outcome:
    """x · c, x + c, x − c, c − x, x / 2^k → IDENTITY with a ScaleBias.

    The number is then no tensor that is filled and read.  A product keeps the sign of its zeros by a bias of −0.0.
    What its only reader can take in is left to that, and to `absorb_scale_bias`.
    """
    found = affine(draft, node)
    if found is None or _is_taken(draft, node, found.line, compose):
        return None
    value = New(Identity, {"input": found.operand}, {"scale_bias": found.line.scale_bias})
    return Rewrite.of(value, f"{found.line} needs no tensor for its numbers")


# Integers.


@dataclasses.dataclass(frozen=True, slots=True)
class Modular:
    """A node as an integer line, x · factor + term modulo 2^N, and the tensor that its number is."""

    operand: Operand
    factor: int
    term: int
    number: Operand


def modular(draft: Draft, node: DraftNode) -> Modular | None:
    """ADD, SUBTRACT and MULTIPLY of an integer tensor and a number."""
    a, b = node.operand("a"), node.operand("b")
    if a is None or b is None or a.desc.dtype.is_float:
        return None
    left, right = draft.number(a), draft.number(b)
    if (left is None) == (right is None):
        return None
    operand, number, scalar = (a, b, right) if right is not None else (b, a, left)
    assert scalar is not None
    value = int(scalar.value)
    if isinstance(node.operator, Multiply):
        return Modular(operand, value, 0, number)
    if isinstance(node.operator, Add):
        return Modular(operand, 1, value, number)
    return Modular(operand, 1, -value, number) if operand is a else Modular(operand, -1, value, number)


@rule(Add, Subtract, Multiply, after=NUMBERS, effect="bit-exact: modulo 2^N")
def fold_integer_numbers(draft: Draft, node: DraftNode) -> Outcome:
    """(x + a) + b → x + (a + b), (x · a) · b → x · (ab), c − (x + a) → (c − a) − x of integers.

    Integers wrap modulo 2^N in ADD, SUBTRACT and MULTIPLY, where sums and products are associative.  What mixes both
    is left alone: there is no integer operator for x · a + b.
    """
    outer = modular(draft, node)
    if outer is None:
        return None
    producer = draft.producer(outer.operand)
    inner = modular(draft, producer) if isinstance(producer.operator, (Add, Subtract, Multiply)) else None
    if inner is None:
        return None
    modulus = 1 << outer.operand.desc.dtype.bits
    factor = inner.factor * outer.factor % modulus
    term = (inner.term * outer.factor + outer.term) % modulus
    form = _integer_form(factor, term, modulus)
    if form is None:
        return Declined("no operator multiplies and adds integers")
    if not draft.only_use(outer.operand):
        return Declined(f"'{producer.name}' has other readers, and would stay")
    operand = draft.around(outer.operand, draft.produced(outer.operand), inner.operand)
    if operand is None:
        return Declined(f"it reads '{producer.name}' through strides of its own")
    operator, field, number_field, number = form
    tensor = _number_like(draft, outer.number, number, operand.desc.rank)
    return Rewrite.of(New(operator, {field: operand, number_field: tensor}), f"'{producer.name}' adds to its number")


def _integer_form(factor: int, term: int, modulus: int) -> tuple[type[Operator], str, str, int] | None:
    """An operator for x · factor + term, the fields of x and of the number, and the number."""
    if factor == 1:
        return Add, "a", "b", term
    if factor == modulus - 1:
        return Subtract, "b", "a", term
    if term == 0:
        return Multiply, "a", "b", factor
    return None


def _number_like(draft: Draft, operand: Operand, bits: int, rank: int) -> Tensor:
    """One element in the way the graph has its numbers: by a fill, or as a constant."""
    scalar = Scalar(operand.desc.dtype, bits)
    sizes = (1,) * rank
    if isinstance(draft.producer(operand).operator, FillValueConstant):
        output = {"dtype": scalar.dtype, "sizes": sizes}
        return New(FillValueConstant, {}, {"value": scalar}, {"output": output})
    return Constant(np.full(sizes, scalar.value))


RULES = (absorb_scale_bias, reassociate, number_to_scale_bias, fold_integer_numbers)
