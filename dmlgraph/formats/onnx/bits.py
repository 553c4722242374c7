"""The bits of integers."""

from __future__ import annotations

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import BOOL, UINT32, UINT64, Emitter, Symbol
from dmlgraph.formats.onnx.node import Node, Result, numbered_dtype
from dmlgraph.formats.onnx.refusals import Refusal, give_values, one_of, unsupported
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored, type_name
from dmlgraph.graph.value import Value


def _unsigned(node: Emitter, x: Symbol) -> Symbol:
    """The same bits as an unsigned integer."""
    if x.is_float:
        raise Refusal("ONNX has no operator on the bits of floats", code="dtype", got=str(x.dtype), allowed="integers")
    return node.cast(x, np.dtype(f"uint{x.bits}"))


@imports(since=26, how="integers: cast, bit_and; others: known inputs only")
def BitCast(node: Node, input: Tensor, *, to: int) -> Result:
    dtype = numbered_dtype("to", to)
    given, wanted = stored(input.dtype), stored(dtype)
    if given.bits != wanted.bits or given.bits < 8:
        raise unsupported("to", f"a type of {given.bits} bits", type_name(dtype))
    if input.is_float or wanted.is_float or (dtype == BOOL) > (input.dtype == BOOL):
        message = "DirectML does not read the bits of floats as integers, nor those of integers as floats or bools"
        hint = give_values(input.depends)
        raise Refusal(message, field="to", got=type_name(dtype), allowed="another integer type", hint=hint)
    value = node.value(input)
    if wanted.bits < 32:  # a cast to 8 bits clamps
        value = wrapped(node, node.converted(value, "int32"), wanted)
    return Tensor(dtype, input.shape, made=node.converted(value, wanted))


@imports(since=11, how="bit_shift_left, bit_shift_right; signed: cast, bit_not, if_")
def BitShift(node: Node, X: Tensor, Y: Tensor, *, direction: str) -> Result:
    one_of("direction", direction, ("LEFT", "RIGHT"))
    x, y = node.value([X, Y])
    bits, signed = x.dtype.bits, x.dtype.is_signed
    wide = max(bits, 32) if signed else bits  # casts to 8 bits do not wrap
    if signed:
        x, y = node.converted(x, f"int{wide}"), node.converted(y, f"int{wide}")
    negative = node.logical_less_than(x, 0, dtype="uint8") if signed and direction == "RIGHT" else None
    if negative is not None:  # ones are shifted in: the opposite bits, and zeros
        x = node.if_(negative, node.bit_not(x), x)
    by = node.converted(y, f"uint{wide}")
    function = node.bit_shift_left if direction == "LEFT" else node.bit_shift_right
    made = function(node.converted(x, f"uint{wide}"), by)
    known = Y.known
    if known is None or not ((known >= 0) & (known < bits)).all():  # DirectML takes the remainder
        fits = node.logical_less_than(by, bits, dtype="uint8")
        made = node.if_(fits, made, Tensor.of(np.zeros(1, f"uint{wide}")))
    if signed:
        made = node.converted(made, f"int{wide}")
        if negative is not None:
            made = node.if_(negative, node.bit_not(made), made)
        elif wide > bits:
            made = wrapped(node, made, stored(X.dtype))
    return node.tensor(node.converted(made, stored(X.dtype)), node.broadcast)


def wrapped(node: Node, x: Value, dtype: DataType) -> Value:
    """Whole numbers modulo 2^N, in the range of a type of N bits."""
    lowest, _ = dtype.range
    return node.add(node.bit_and(node.subtract(x, lowest), 2**dtype.bits - 1), lowest)


@exports("bit_shift_left", how="BitShift")
@exports("bit_shift_right", how="BitShift")
def _shift(node: Emitter) -> Symbol:
    """The lowest 5 bits of the count are what counts; 64 bits are shifted by at most 63."""
    left = node.operator.name == "bit_shift_left"
    a, b = _unsigned(node, node.raw("a")), _unsigned(node, node.raw("b"))
    wide = UINT64 if a.bits == 64 else UINT32
    counts, known = node.cast(b, wide), node.known("b")
    if known is None or (known.astype(np.int64) < 0).any() or (known.astype(np.int64) >= 32).any():
        low = node.call("BitwiseAnd", counts, node.number(31, wide))
        if wide == UINT64:
            word = node.call("BitwiseAnd", counts, node.number(2**32 - 1, wide))
            far = node.number(31, wide) < word
            shift = node.call("Where", far, node.number(32, wide), node.number(0, wide))
            low = low + shift
        counts = low
    made = node.call("BitShift", node.cast(a, wide), counts, direction="LEFT" if left else "RIGHT")
    return node.cast(node.cast(made, a.dtype), node.dtype)


@exports("bit_count", how="BitShift, BitwiseAnd, Add")
def _bit_count(node: Emitter) -> Symbol:
    x = _unsigned(node, node.raw("input"))
    wide = UINT64 if x.bits == 64 else UINT32
    x = node.cast(x, wide)
    total, bits = x, 1
    while bits < np.dtype(node.raw("input").dtype).itemsize * 8:  # counts of neighbouring groups are added
        mask = node.number(sum(((1 << bits) - 1) << place for place in range(0, wide.itemsize * 8, 2 * bits)), wide)
        upper = node.call("BitShift", total, node.number(bits, wide), direction="RIGHT")
        total = node.call("BitwiseAnd", total, mask) + node.call("BitwiseAnd", upper, mask)
        bits *= 2
    return node.cast(total, node.dtype)
