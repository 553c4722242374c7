"""Powers of 64-bit integers as products: DirectML's pow takes no numbers of 64 bits."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

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
