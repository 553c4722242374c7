"""Pow with the special values of IEEE's pow, of which DirectML's formula, 2^(y · log2 |x|), lacks some.

x^0 is 1 for every x, and 1^y is 1 for every y.  Odd powers of −0 have its sign.  −∞ to an exponent with a fraction, and
a negative x to an infinite one, are powers of |x|.

Powers of 64-bit integers are products: DirectML's pow takes no numbers of 64 bits.
"""

from __future__ import annotations

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import FLOAT32, Emitter, Symbol
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.table import applies, exports, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor, stored
from dmlgraph.graph.value import Value
from dmlgraph.operators import Operator

_ROUNDING = 2.0**-20  # how far off DirectML's power may be where it is a whole number


@imports(how="pow; with one known exponent constant_pow; special values: if_; 64-bit integers: multiply, if_")
def Pow(node: Node, X: Tensor, Y: Tensor) -> Result:
    known = Y.known
    if not X.is_float and X.dtype.itemsize == 8:
        return node.tensor(integer_power(node, X, Y), node.broadcast)
    if X.is_float and known is not None and Y.count == 1 and Y.rank <= X.rank:
        number = float(known.reshape(()).item())
        if number == 0:
            return np.broadcast_to(np.ones((), X.dtype), X.shape)
        if abs(number) < _all_even(np.float32):
            return node.tensor(_to_number(node, node.value(X), number), X.shape)
    x, y, kind = node.value(X), node.value(Y), stored(X.dtype)
    if not X.is_float and (not Y.is_float or (known is not None and _are_whole(known))):
        return node.tensor(node.pow(x, node.converted(y, kind)), node.broadcast)
    if x.dtype is not y.dtype:  # exponents need not fit into float16
        wide = kind if X.is_float and kind is not DataType.FLOAT16 else DataType.FLOAT32
        x, y = node.converted(x, wide), node.converted(y, wide)
    made = node.pow(x, y) if known is not None and _are_plain(known) else _to_exponents(node, x, y)
    return node.tensor(made if X.is_float else node.converted(_whole_where_near(node, made), kind), node.broadcast)


def _all_even(dtype: type[np.floating]) -> float:
    """From here on all numbers of a type of floats are even."""
    return float(2.0 ** (np.finfo(dtype).nmant + 1))


def _are_whole(exponents: Array) -> bool:
    return bool((np.isfinite(exponents) & (np.trunc(exponents) == exponents)).all())


def _are_plain(exponents: Array) -> bool:
    """Whether the formula has the right result for every x."""
    wide = exponents.astype(np.float64)
    if not _are_whole(wide):
        return False
    odd = np.fmod(wide, 2) != 0
    return bool(((wide != 0) & (abs(wide) < _all_even(np.float16)) & ~(odd & (wide < 0))).all())


def _to_number(node: Node, x: Value, exponent: float) -> Value:
    """x to the power of a number that is finite, not zero, and not so large that all such numbers are even."""
    made: Value
    if exponent == -1:
        made = node.recip(x)
        return made
    made = node.constant_pow(x, exponent=exponent)
    if not exponent.is_integer():
        at_infinity = Tensor.of(np.array(0 if exponent < 0 else np.inf, x.dtype.numpy).reshape((1,) * len(x.sizes)))
        made = node.if_(_equal(node, x, -np.inf), at_infinity, made)
    elif exponent < 0 and exponent % 2:
        made = node.if_(_equal(node, x, 0), node.recip(x), made)
    return made


def _to_exponents(node: Node, x: Value, y: Value) -> Value:
    """x to the power of numbers that are known when the graph runs."""
    both, either = node.logical_and, node.logical_or
    half = node.multiply(y, 0.5)
    whole, even = _equal(node, node.floor(y), y), _equal(node, node.floor(half), half)
    large = node.logical_greater_than_or_equal(node.abs(y), _all_even(y.dtype.numpy.type), dtype="uint8")
    broken = both(node.logical_not(whole), _equal(node, x, -np.inf))
    made = node.pow(node.if_(either(large, broken), node.abs(x), x), y)
    below = both(node.logical_less_than(y, 0, dtype="uint8"), both(whole, node.logical_not(even)))
    made = node.if_(both(below, _equal(node, x, 0)), node.recip(x), made)
    ones = either(either(_equal(node, y, 0), _equal(node, x, 1)), both(large, _equal(node, node.abs(x), 1)))
    return node.if_(ones, Tensor.of(np.ones((1,) * len(made.sizes), x.dtype.numpy)), made)


def _equal(node: Node, a: Value, b: Value | float) -> Value:
    return node.logical_equals(a, b, dtype="uint8")


def _whole_where_near(node: Node, x: Value) -> Value:
    """Numbers near whole ones rounded to them: DirectML's 5^3 is 124.99999."""
    whole = node.round(x)
    away = node.abs(node.subtract(x, whole))
    near = node.logical_less_than_or_equal(away, node.multiply(node.abs(whole), _ROUNDING), dtype="uint8")
    return node.if_(near, whole, x)


# What is written.


@exports("pow", how="Pow")
def _pow(node: Emitter) -> Symbol:
    x, exponent = node.scaled("input"), node.scaled("exponent")
    wide = FLOAT32 if exponent.is_float and not x.is_float else node.wide_for("Pow", x.dtype)
    return node.converted(node.call("Pow", node.cast(x, wide), exponent), node.dtype)


@applies("constant_pow", how="Pow")
def _constant_pow(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    exponent: float = operator.exponent  # type: ignore[attr-defined]
    return node.call("Pow", x, node.number(exponent, x.dtype if x.is_float else FLOAT32))


_BITS = 6  # of an exponent: from 2^64 on nothing but powers of 0, 1 and -1 fits


def integer_power(node: Node, base: Tensor, exponent: Tensor) -> Value:
    """Powers modulo 2^64; those with an exponent below 0 are 0, except of 1 and -1.

    Raises:
        Refusal: an exponent is a fraction, or a float that is known only when the model runs.
    """
    if exponent.is_float:
        known = exponent.known
        if known is None or not (np.isfinite(known) & (known == np.round(known))).all():
            message = "of 64-bit integers only whole powers have a counterpart"
            raise Refusal(message, code="unsupported", field="input 1", hint=give_values(exponent.depends))
        exponent = Tensor.of(np.clip(known, -(2.0**31), 2.0**31).astype(np.int64))
    if exponent.known is not None and exponent.count == 1 and int(exponent.known.reshape(())) >= 0:
        return _known_power(node, node.value(base), int(exponent.known.reshape(())))
    x = node.value(base)
    one = Tensor.of(np.ones(1, base.dtype))
    by = node.converted(exponent, "int64")
    odd = node.bit_and(by, 1)
    is_negative = node.logical_less_than(by, 0, dtype="uint8")
    is_large = node.logical_greater_than(by, 2**_BITS - 1, dtype="uint8")
    bits = node.if_(is_negative, odd, node.if_(is_large, node.add(odd, 2**_BITS - 2), by))
    made: Value | None = None
    square = x
    for bit in range(_BITS):
        has_bit = node.logical_not(node.logical_equals(node.bit_and(bits, 1 << bit), 0, dtype="uint8"))
        factor = node.if_(has_bit, square, one)
        made = factor if made is None else node.multiply(made, factor)
        square = node.multiply(square, square)
    is_unit = node.logical_equals(node.multiply(x, x), one, dtype="uint8")
    vanishes = node.logical_and(is_negative, node.logical_not(is_unit))
    return node.if_(vanishes, Tensor.of(np.zeros(1, base.dtype)), made)


def _known_power(node: Node, x: Value, exponent: int) -> Value:
    """By squares, of which each bit of the exponent takes one."""
    if exponent >= 2**_BITS:
        exponent = 2**_BITS - 2 + exponent % 2
    made: Value | None = None
    while exponent:
        if exponent % 2:
            made = x if made is None else node.multiply(made, x)
        exponent //= 2
        if exponent:
            x = node.multiply(x, x)
    if made is None:
        made = node.value(Tensor.of(np.broadcast_to(np.ones((), x.dtype.numpy), x.sizes)))
    return made
