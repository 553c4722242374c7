"""Sequences: a value computed from a sequence and constants is often a sequence again, and takes no memory.

Element i of a sequence is start + i · delta; the index, the product and the sum are each rounded to the data type, so
the sequence of a sum need not be the sum of the sequences.  Every rule here computes the only possible sequence, and
uses it only where it is certain: for integers, whose sums and products are exact modulo 2^N; for floats if all numbers
and intermediates are exact multiples of one power of two within the type's precision; or where at most
COMPARED_ELEMENTS elements agree bit for bit when both are evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dmlgraph.base.errors import ScalarError
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc, packed_strides
from dmlgraph.compiler.ir import IrGraph, broadcast_strides
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.passes.canonical.fills import fill, scalar_of
from dmlgraph.compiler.rule import New, Outcome, Rewrite, Tensor, demand, rule, wanted
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.element_wise import Add, Cast, Multiply, Subtract
from dmlgraph.operators.fill import FillValueSequence
from dmlgraph.operators.shape import Split
from dmlgraph.operators.slicing import Slice, Slice1

COMPARED_ELEMENTS = 1 << 16

# Bits of the significand, and the exponents of the smallest normal number and of the largest power of two.
_FLOATS = {DataType.FLOAT16: (11, -14, 15), DataType.FLOAT32: (24, -126, 127), DataType.FLOAT64: (53, -1022, 1023)}


@rule(FillValueSequence, effect="bit-exact")
def fill_of_sequence(ir: IrGraph, node: IrNode) -> Outcome:
    """A sequence of one element, or with a step of zero → fill.

    Products with zero have the same sign for all indices, so the second and the last element represent those between.
    A float16 index may be infinite, and its product with zero NaN: then the last element differs.
    """
    sequence = node.computing(FillValueSequence)
    count = sequence.output.element_count
    if count > 1 and sequence.value_delta.value != 0:
        return None
    ends = sequence.at(np.array([0, min(1, count - 1), count - 1], np.uint64))
    demand(_same_bits(ends[:-1], ends[1:]), "its elements are not all the same to the bit")
    return Rewrite.of(fill(ir, node, 0, scalar_of(ends[:1])), "every element is the same")


@rule(lambda kind: kind.line is not Operator.line, after=(FillValueSequence,), effect="bit-exact")
def fold_sequences(ir: IrGraph, node: IrNode) -> Outcome:
    """sequence ± fill, sequence ± sequence, sequence · fill, −sequence, cast(sequence) → sequence.

    Exact for integers, except that a cast must not leave the new type's range; floats as the module describes.
    """
    operator = node.computation
    found = [_affine(ir, operand) for operand in node.operands()]
    sequences = [each for each in found if isinstance(each, FillValueSequence)]
    operands = [each for each in found if each is not None]
    if not sequences or len(operands) < len(found):
        return None
    output = node.output_desc()
    is_whole = all(each.output.element_count == output.element_count for each in sequences)
    demand(is_whole, "the sequence is broadcast: it starts again and again")
    if isinstance(operator, Multiply) and len(sequences) == 2:
        return None
    starts = [each.value_start if isinstance(each, FillValueSequence) else each for each in operands]
    delta = wanted(_delta(operator, operands, output.dtype), f"its step is not a number of {output.dtype}")
    start = scalar_of(_of_numbers(operator, starts))
    folded = FillValueSequence(output=output.like(), value_start=start, value_delta=delta)

    def elements(index: Array) -> Array:
        values = [_elements(each, index) for each in operands]
        (result,) = operator.evaluate(*values)
        return np.asarray(result)

    is_modular = not output.dtype.is_float and isinstance(operator, (Add, Subtract, Multiply))
    is_same = is_modular or _agree(folded, elements, _reals(type(operator), found), sequences)
    demand(is_same, "start + i · delta would be rounded to other numbers")
    return Rewrite.of(_new(folded), "it is computed from a sequence and constants")


@rule(Slice, Slice1, Split, after=(FillValueSequence,), effect="bit-exact")
def slice_sequence(ir: IrGraph, node: IrNode) -> Outcome:
    """slice(sequence), split(sequence) → sequences, where the elements taken are evenly spaced.

    They are in a slice of one dimension, of whole rows, and of every n-th row of one element.
    """
    operator = node.operator
    assert isinstance(operator, (Slice, Slice1, Split))
    operand = node.needed("input")
    sequence = _affine(ir, operand)
    if not isinstance(sequence, FillValueSequence):
        return None
    demand(operand.desc.like() == sequence.output.like(), "it reads elements of the sequence several times")
    parts: dict[int, Tensor] = {}
    for port, (output, start, step) in enumerate(_taken(operator)):
        if not ir.use_count(Source(node.name, port)):
            continue
        spacing = wanted(step, "the elements it takes are not evenly spaced in the sequence")
        part = _every(sequence, output, start, spacing)
        parts[port] = _new(wanted(part, "start + i · delta would be rounded to other numbers"))
    return Rewrite(parts, "the elements it takes are evenly spaced")


def _affine(ir: IrGraph, operand: Operand | None) -> FillValueSequence | Scalar | None:
    """The operand's sequence, if it is read as written or broadcast; or its number; or None."""
    if operand is None:
        return None
    node = ir.made_by(operand, FillValueSequence)
    if node is None:
        return ir.number(operand)
    sequence = node.computing(FillValueSequence)
    is_as_written = broadcast_strides(operand.desc, sequence.output, sequence.output) is not None
    return sequence if is_as_written else None


def _delta(operator: Operator, operands: Sequence[FillValueSequence | Scalar], dtype: DataType) -> Scalar | None:
    """The step of the result; None if the data type cannot represent it."""
    sequence = operands[0]
    if isinstance(operator, Cast) and isinstance(sequence, FillValueSequence):
        # Of a real number: an unsigned sequence may step backwards.
        return _scalar(_real(sequence.value_delta, is_step=True), dtype)
    is_product = isinstance(operator, Multiply)
    steps = [
        each.value_delta if isinstance(each, FillValueSequence) else each if is_product else Scalar(dtype, 0)
        for each in operands
    ]
    return scalar_of(_of_numbers(operator, steps))


def _scalar(number: Fraction | None, dtype: DataType) -> Scalar | None:
    try:
        return None if number is None else Scalar.of(number, dtype)
    except ScalarError:
        return None


def _of_numbers(operator: Operator, numbers: Iterable[Any]) -> Array:
    (result,) = operator.evaluate(*(np.full(1, number.value) for number in numbers))
    return np.asarray(result)


def _elements(operand: FillValueSequence | Scalar, index: Array) -> Array:
    """The elements of a sequence, or a number in place of them."""
    return operand.at(index) if isinstance(operand, FillValueSequence) else np.full(index.shape, operand.value)


def _new(sequence: FillValueSequence) -> New:
    output = {"dtype": sequence.output.dtype, "sizes": sequence.output.sizes}
    return New(
        FillValueSequence,
        {},
        {"value_start": sequence.value_start, "value_delta": sequence.value_delta},
        {"output": output},
    )


# Slices.


def _taken(operator: Slice | Slice1 | Split) -> list[tuple[TensorDesc, int, int | None]]:
    """Each output with the index of its first element in the input, and the spacing; None if it is uneven."""
    outer = packed_strides(operator.input.sizes)
    if isinstance(operator, Split):
        lengths = [part.sizes[operator.axis] for part in operator.outputs]
        starts = itertools.accumulate((length * outer[operator.axis] for length in lengths[:-1]), initial=0)
        return [(part, start, _step(part, outer)) for part, start in zip(operator.outputs, starts, strict=True)]
    if isinstance(operator, Slice):
        offsets, strides = operator.offsets, operator.strides
    else:
        strides = operator.input_window_strides
        offsets = tuple(
            offset if stride > 0 else offset + size - 1
            for offset, size, stride in zip(
                operator.input_window_offsets, operator.input_window_sizes, strides, strict=True
            )
        )
    start = sum(offset * stride for offset, stride in zip(offsets, outer, strict=True))
    steps = [stride * step for stride, step in zip(strides, outer, strict=True)]
    return [(operator.output, start, _step(operator.output, steps))]


def _step(output: TensorDesc, steps: Sequence[int]) -> int | None:
    """The spacing in the input of consecutive elements; None if it is uneven."""
    ratios = {
        Fraction(step, packed)
        for size, step, packed in zip(output.sizes, steps, output.packed_strides, strict=True)
        if size > 1
    }
    if len(ratios) > 1:
        return None
    ratio = ratios.pop() if ratios else Fraction(1)
    return int(ratio) if ratio.denominator == 1 else None


def _every(sequence: FillValueSequence, output: TensorDesc, start: int, step: int) -> FillValueSequence | None:
    """The sequence of every `step`-th element from `start` on; None if it is not certain."""
    dtype = output.dtype
    first = scalar_of(sequence.at(np.array([start], np.uint64)))
    delta: Scalar | None
    if dtype.is_float:
        real = _real(sequence.value_delta)
        delta = _scalar(real and real * step, dtype)
    else:
        delta = Scalar(dtype, sequence.value_delta.bits * step & ((1 << dtype.bits) - 1))
    if delta is None:
        return None
    part = FillValueSequence(output=output.like(), value_start=first, value_delta=delta)
    if not dtype.is_float:
        return part

    def elements(index: Array) -> Array:
        return sequence.at((np.int64(start) + index.astype(np.int64) * step).astype(np.uint64))

    def reals(values: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        return values[0] + start * deltas[0], step * deltas[0]

    return part if _agree(part, elements, _RealSequence([sequence], reals), [sequence]) else None


# Certainty.


class _RealSequence:
    """Start and delta of a result in real numbers, computed from those of the operands."""

    def __init__(
        self,
        operands: Sequence[FillValueSequence | Scalar | None],
        function: Callable[[Sequence[Fraction], Sequence[Fraction]], tuple[Fraction, Fraction]],
    ) -> None:
        self.operands, self.function = operands, function

    def __call__(self) -> tuple[Fraction, Fraction] | None:
        found = [_start_and_delta(each) for each in self.operands]
        known = [real for real in found if real is not None]
        if len(known) < len(found):
            return None
        return self.function([start for start, _ in known], [delta for _, delta in known])


def _reals(operator: type[Operator], operands: Sequence[FillValueSequence | Scalar | None]) -> _RealSequence:
    return _RealSequence(operands, operator.line)


def _start_and_delta(operand: FillValueSequence | Scalar | None) -> tuple[Fraction, Fraction] | None:
    """Start and delta as real numbers; None if one is not finite."""
    if isinstance(operand, FillValueSequence):
        start, delta = _real(operand.value_start), _real(operand.value_delta, is_step=True)
        return None if start is None or delta is None else (start, delta)
    number = None if operand is None else _real(operand)
    return None if number is None else (number, Fraction(0))


def _real(number: Scalar, *, is_step: bool = False) -> Fraction | None:
    """A number as a fraction; None if it is not finite.  With `is_step`, a backward step of an integer is
    negative."""
    if not number.dtype.is_float:
        value = int(number.value)
        half = 1 << (number.dtype.bits - 1)
        return Fraction(value - 2 * half if is_step and value >= half else value)
    return Fraction(number.value.item()) if np.isfinite(number.value) else None


def _agree(
    folded: FillValueSequence,
    elements: Callable[[Array], Array],
    real: _RealSequence,
    sequences: Sequence[FillValueSequence],
) -> bool:
    """Whether a sequence has exactly the elements (a function of their indices) that it replaces."""
    count = folded.output.element_count
    if real() == _start_and_delta(folded) and all(_is_exact(each) for each in (*sequences, folded)):
        # Exact in real numbers; only the sign of a zero may differ.
        places = _places_of_zero(folded)
        if places is not None:
            return _same_bits(folded.at(places), elements(places))
    if count > COMPARED_ELEMENTS:
        return False
    index = np.arange(count, dtype=np.uint64)
    return _same_bits(folded.at(index), elements(index))


def _is_exact(sequence: FillValueSequence) -> bool:
    """Whether no element and no intermediate is rounded, wraps or is subnormal."""
    real = _start_and_delta(sequence)
    if real is None:
        return False
    start, delta = real
    last = sequence.output.element_count - 1
    dtype = sequence.output.dtype
    if not dtype.is_float:
        low, high = dtype.range
        return low <= min(start, start + last * delta) and max(start, start + last * delta) <= high
    precision, least, greatest = _FLOATS[dtype]
    unit = min((_unit(each) for each in (start, delta) if each), default=0)
    bound = Fraction(2) ** (unit + precision)
    return (
        last <= 1 << precision
        and unit >= least
        and unit + precision <= greatest
        and max(abs(start), abs(last * delta), abs(start + last * delta)) <= bound
    )


def _unit(number: Fraction) -> int:
    """The exponent of the largest power of two that divides a number."""
    whole = number.numerator
    return (whole & -whole).bit_length() - number.denominator.bit_length()


def _places_of_zero(sequence: FillValueSequence) -> Array | None:
    """The first, the last and a zero element's index; None if all elements are zero."""
    real = _start_and_delta(sequence)
    assert real is not None
    start, delta = real
    last = sequence.output.element_count - 1
    places = [0, last]
    if delta == 0:
        if start == 0:
            return None
    elif (-start / delta).denominator == 1 and 0 <= -start / delta <= last:
        places.append(int(-start / delta))
    return np.array(places, np.uint64)


def _same_bits(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


RULES = (fill_of_sequence, fold_sequences, slice_sequence)
