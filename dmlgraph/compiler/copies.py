"""Copies: operators that bring the elements of a tensor into a packed buffer, at any feature level.

DirectML's operators take few dimensions and data types at low levels.  A copy does not depend on either: dimensions
that lie one behind the other are one, and 64-bit elements are pairs of 32-bit words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from dmlgraph.base.errors import GraphError
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc
from dmlgraph.compiler.lowering import WORDS, copy_of
from dmlgraph.operators.common.strided import merged
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.slicing import Slice, Slice1

# Types of as many bits, for types that DirectML does not copy.
_SAME_BITS = {16: (DataType.UINT16, DataType.FLOAT16), 32: WORDS}
LEAST_RANK = 4  # what every operator takes at every level


@functools.lru_cache(maxsize=1024)
def packing(desc: TensorDesc, level: FeatureLevel) -> Operator:
    """The operator that copies a tensor with strides into a packed buffer.

    Its output may have other sizes, but the same elements in the same order.

    Raises:
        GraphError: DirectML has no such operator at this level.
    """
    if desc.strides is None:
        return copy_of(desc, level)
    return _first_legal((Identity(input=each) for each in _forms(desc)), desc, level)


@functools.lru_cache(maxsize=1024)
def window(
    desc: TensorDesc, starts: tuple[int, ...], steps: tuple[int, ...], counts: tuple[int, ...], level: FeatureLevel
) -> Operator:
    """The operator that copies every `steps`-th element from `starts` on, `counts` of them, into a packed buffer.

    Raises:
        GraphError: DirectML has no such operator at this level.
    """
    return _first_legal(_windows(desc, starts, steps, counts), desc, level)


def _first_legal(operators: Iterator[Operator], desc: TensorDesc, level: FeatureLevel) -> Operator:
    tried = list(operators)
    for operator in tried:
        if not operator.level_problems(level):
            return operator
    later = any(not operator.level_problems(max(FeatureLevel)) for operator in tried)
    raise GraphError(
        f"DirectML has no operator that copies such a tensor at feature level {level}",
        code="level",
        got=str(desc),
        hint="a higher target has one" if later else "no level copies this data type in another order",
    )


def _forms(desc: TensorDesc) -> Iterator[TensorDesc]:
    """Descriptions of the same elements in the same order."""
    yield desc
    sizes, strides = merged(desc.sizes, desc.effective_strides)
    yield _described(desc, desc.dtype, sizes, strides)
    for dtype in _SAME_BITS.get(desc.dtype.bits, ()):
        yield _described(desc, dtype, sizes, strides)
    yield from _as_pairs(desc, sizes, strides)


def _as_pairs(desc: TensorDesc, sizes: list[int], strides: list[int]) -> Iterator[TensorDesc]:
    """64-bit elements as pairs of 32-bit words, for which a dimension must be left."""
    if desc.dtype.bits == 64 and len(sizes) < MAX_RANK:
        for dtype in _SAME_BITS[32]:
            yield _described(desc, dtype, [*sizes, 2], [*(2 * stride for stride in strides), 1])


def _described(desc: TensorDesc, dtype: DataType, sizes: list[int], strides: list[int]) -> TensorDesc:
    missing = max(LEAST_RANK - len(sizes), 0)
    return TensorDesc(dtype=dtype, sizes=[1] * missing + sizes, strides=[0] * missing + strides, owned=desc.owned)


def _windows(
    desc: TensorDesc, starts: tuple[int, ...], steps: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[Operator]:
    yield from _slices(desc, starts, steps, counts)
    missing = max(LEAST_RANK - desc.rank, 0)
    zeros, ones = (0,) * missing, (1,) * missing
    starts, steps, counts = zeros + starts, ones + steps, ones + counts
    sizes, strides = [*ones, *desc.sizes], [*zeros, *desc.effective_strides]
    for dtype in (desc.dtype, *_SAME_BITS.get(desc.dtype.bits, ())):
        yield from _slices(_described(desc, dtype, sizes, strides), starts, steps, counts)
    for pairs in _as_pairs(desc, sizes, strides):
        yield from _slices(pairs, (*starts, 0), (*steps, 1), (*counts, 2))


def _slices(
    desc: TensorDesc, starts: tuple[int, ...], steps: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[Operator]:
    if min(steps) > 0:
        yield Slice(input=desc, offsets=starts, sizes=counts, strides=steps)
    reach = tuple(1 + (count - 1) * abs(step) for count, step in zip(counts, steps, strict=True))
    offsets = tuple(
        start if step > 0 else start - (length - 1) for start, step, length in zip(starts, steps, reach, strict=True)
    )
    yield Slice1(input=desc, input_window_offsets=offsets, input_window_sizes=reach, input_window_strides=steps)
