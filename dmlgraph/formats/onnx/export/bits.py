"""Operators on the bits of integers."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import BOOL, UINT32, UINT64, Emitter, Symbol
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import applies, exports
from dmlgraph.operators import Operator


def _unsigned(node: Emitter, x: Symbol) -> Symbol:
    """The same bits as an unsigned integer."""
    if x.is_float:
        raise Refusal("ONNX has no operator on the bits of floats", code="dtype", got=str(x.dtype), allowed="integers")
    return node.cast(x, np.dtype(f"uint{x.bits}"))


@exports("bit_and", how="BitwiseAnd")
@exports("bit_or", how="BitwiseOr")
@exports("bit_xor", how="BitwiseXor")
def _bits(node: Emitter) -> Symbol:
    return node.call(
        {"bit_and": "BitwiseAnd", "bit_or": "BitwiseOr", "bit_xor": "BitwiseXor"}[node.operator.name],
        node.raw("a"),
        node.raw("b"),
    )


@applies("bit_not", how="BitwiseNot")
def _bit_not(node: Emitter, _: Operator, x: Symbol) -> Symbol:
    return node.call("BitwiseNot", x)


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
            far = node.call("Less", node.number(31, wide), word, dtype=BOOL)
            shift = node.call("Where", far, node.number(32, wide), node.number(0, wide), dtype=wide)
            low = node.call("Add", low, shift)
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
        total = node.call("Add", node.call("BitwiseAnd", total, mask), node.call("BitwiseAnd", upper, mask))
        bits *= 2
    return node.cast(total, node.dtype)
