"""Layouts: one buffer read with other sizes and strides.

A layout is a list of dimensions, each with a size and a stride in elements.  Dimensions of size 1 may have any stride.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from dmlgraph.base.tensor import TensorDesc

Numbers = tuple[int, ...]


def steps(desc: TensorDesc) -> list[tuple[int, int]]:
    """The sizes and strides of the dimensions that are larger than 1."""
    return [(size, stride) for size, stride in zip(desc.sizes, desc.effective_strides, strict=True) if size > 1]


def is_packed(desc: TensorDesc) -> bool:
    """Whether the elements lie row-major without gaps; strides of dimensions of size 1 do not matter."""
    return desc.strides is None or steps(desc) == steps(desc.like())


def repeats(desc: TensorDesc) -> bool:
    """Whether a stride of zero repeats elements."""
    return any(stride == 0 for _, stride in steps(desc))


def merged(sizes: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """The fewest dimensions that address the same elements in the same order; none has the size 1.

    Two neighbours are one if the left one's steps are as long as the whole of the right one.
    """
    few_sizes: list[int] = []
    few_strides: list[int] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if few_sizes and few_strides[-1] == stride * size:
            few_sizes[-1] *= size
            few_strides[-1] = stride
        else:
            few_sizes.append(size)
            few_strides.append(stride)
    return few_sizes, few_strides


def reshaped(sizes: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Numbers | None:
    """The strides that read a layout with other sizes, row-major; None if no strides do.

    Args:
        sizes: of the layout.
        strides: of the layout.
        to: sizes of as many elements.
    """
    whole, steps = merged(sizes, strides)
    result = [0] * len(to)
    left, step = 1, 0  # what is left of the dimension of the layout that is being cut, from its end
    for axis in range(len(to) - 1, -1, -1):
        size = to[axis]
        if size == 1:
            continue
        if left == 1:
            left, step = whole.pop(), steps.pop()
        if left % size:
            return None
        result[axis] = step
        left, step = left // size, step * size
    return tuple(result)


def regrouped(layouts: Sequence[tuple[Sequence[int], Sequence[int]]], units: Sequence[int]) -> Numbers | None:
    """The fewest sizes in which all these layouts can be cut; None if there are none.

    Args:
        layouts: (sizes, strides) each.
        units: for each layout the number of elements at its end that are not to be cut.  Without them, all layouts
            have as many elements.
    """
    ends = {1}
    for (sizes, strides), unit in zip(layouts, units, strict=True):
        reaches = itertools.accumulate(reversed(merged(sizes, strides)[0]), operator.mul, initial=1)
        ends |= {reach // unit for reach in reaches if reach % unit == 0}
    pairs = list(itertools.pairwise(sorted(ends)))
    if any(last % first for first, last in pairs):
        return None
    return tuple(last // first for first, last in reversed(pairs))


def reads_each_once(sizes: Sequence[int], strides: Sequence[int], count: int) -> bool:
    """Whether a layout reads each element of a packed buffer of `count` elements once, in any order."""
    reach = 1
    for stride, size in sorted(zip(*reversed(merged(sizes, strides)), strict=True)):
        if stride != reach:
            return False
        reach *= size
    return reach == count


def reordered(sizes: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Numbers | None:
    """The strides with which a producer writes what a layout reads, so that the layout's elements become packed.

    Args:
        sizes: of the layout.
        strides: of the layout, over the producer's packed buffer.
        to: the producer's sizes.

    Returns:
        One stride for each of the producer's sizes; None if no strides do, or the layout does not read every element
        once.
    """
    if not reads_each_once(sizes, strides, math.prod(to)):
        return None
    few_sizes, few_strides = merged(sizes, strides)
    new_strides = [math.prod(few_sizes[place + 1 :]) for place in range(len(few_sizes))]
    order = sorted(range(len(few_sizes)), key=lambda place: few_strides[place], reverse=True)
    return reshaped([few_sizes[place] for place in order], [new_strides[place] for place in order], to)


def through(
    sizes: Sequence[int], strides: Sequence[int], packed: Sequence[int], layout: Sequence[int]
) -> Numbers | None:
    """The strides of a reading of a packed tensor, where the tensor has a layout instead; None if no strides do.

    Args:
        sizes: of the reading.
        strides: of the reading, in elements of the packed tensor.
        packed: the tensor's sizes.
        layout: the strides that the tensor has instead.
    """
    packed, layout = merged(packed, layout)  # a dimension of the reading may go over several of the tensor
    extents = [1] * len(packed)
    for axis in range(len(packed) - 2, -1, -1):
        extents[axis] = extents[axis + 1] * packed[axis + 1]
    reach = [1] * len(packed)  # how far the reading goes along each dimension of the tensor
    result: list[int] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1 or stride == 0:
            result.append(0)
            continue
        fitting = (
            axis
            for axis, (extent, length) in enumerate(zip(extents, packed, strict=True))
            if stride % extent == 0 and reach[axis] + (size - 1) * (stride // extent) <= length
        )
        axis = next(fitting, -1)
        if axis < 0:
            return None
        step = stride // extents[axis]
        reach[axis] += (size - 1) * step
        result.append(step * layout[axis])
    return tuple(result)
