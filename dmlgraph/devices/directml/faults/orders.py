"""The orders of dimensions in which DirectML stores what is between nodes.

Measured on DirectML 1.13 (feature level 6.2): an operator that can run in place writes its output in the order in
which it reads its input, if that order is one of these.  The ones with channels last are kept whatever follows; those
of heads only if an operator follows that reads them as they are, or for a copy with a ScaleBias.  Dimensions of size 1
do not matter: they may be left out where there are more than 4.  Fewer than 4 dimensions are the last of 4.
"""

from __future__ import annotations

import itertools

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators import Identity
from dmlgraph.operators.common.strided import is_packed, steps

Orders = tuple[tuple[int, ...], ...]

# From the outermost dimension to the innermost.
CHANNELS_LAST: Orders = ((0, 2, 3, 1), (0, 2, 3, 4, 1))
HEADS: Orders = ((0, 2, 1, 3), (1, 2, 0, 3), (1, 2, 3, 0))


def is_ordered(desc: TensorDesc, orders: Orders) -> bool:
    """Whether the elements lie without gaps in one of some orders of the dimensions."""
    axes = range(min(0, desc.rank - 4), desc.rank)
    ones = [axis for axis in axes if axis < 0 or desc.sizes[axis] == 1]
    own = sorted(set(axes).difference(ones), key=lambda axis: -desc.effective_strides[axis])
    return is_dense(desc) and any(
        own == [kept[place] for place in order if kept[place] in own]
        for order in orders
        if len(order) <= len(axes)
        for dropped in itertools.combinations(ones, len(axes) - len(order))
        if (kept := [axis for axis in axes if axis not in dropped])
    )


def stored(copy: Identity, desc: TensorDesc) -> TensorDesc | None:
    """What a reader of an identity's output reads if the output is stored as the input is; None if no desc says it."""
    places = {
        stride: (size, source)
        for size, stride, source in zip(
            copy.output.sizes, copy.output.effective_strides, copy.input.effective_strides, strict=True
        )
        if size > 1
    }
    found = [
        places.get(stride, (0, 0)) if size > 1 else (1, 0)
        for size, stride in zip(desc.sizes, desc.effective_strides, strict=True)
    ]
    if any(size != whole for (whole, _), size in zip(found, desc.sizes, strict=True)):
        return None
    return desc.like(strides=[stride for _, stride in found])


def has_gaps(desc: TensorDesc) -> bool:
    """Whether elements lie apart in the order of the dimensions.  In another order, DirectML computes them packed."""
    strides = [stride for _, stride in steps(desc)]
    return not is_packed(desc) and strides == sorted(strides, reverse=True)


def is_reordered(desc: TensorDesc) -> bool:
    """Whether the dimensions are in another order than their strides."""
    strides = [stride for _, stride in steps(desc)]
    return 0 not in strides and strides != sorted(strides, reverse=True)


def is_dense(desc: TensorDesc) -> bool:
    """Whether the elements lie without gaps, in some order of the dimensions, and none is repeated."""
    return desc.span == desc.element_count and not desc.overlaps_itself
