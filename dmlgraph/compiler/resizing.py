"""Resizing: an operator that computes the same in other sizes can read what a reshape's strides cannot express.

relu over [6, 4] of a value that lies in memory as [2, 3, 4] in another order: relu over [2, 3, 4], and its
packed output has the elements in the order of [6, 4].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.tensor import MAX_RANK, TensorDesc
from dmlgraph.operators.common.strided import regrouped, reshaped
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.view import with_strides


def relaid(desc: TensorDesc, sizes: Sequence[int]) -> TensorDesc | None:
    """The description that reads a layout with other sizes, row-major; None if no strides do."""
    strides = reshaped(desc.sizes, desc.effective_strides, sizes)
    if strides is None or len(sizes) > MAX_RANK:
        return None
    return with_strides(TensorDesc(dtype=desc.dtype, sizes=sizes, owned=desc.owned), strides)


def permuted(desc: TensorDesc, sizes: Sequence[int], order: Sequence[int]) -> TensorDesc | None:
    """The layout of a transposed tensor, in the sizes of its parts; None if it has too many of them.

    Args:
        desc: the tensor's layout, in any sizes.
        sizes: the tensor's own.
        order: the permutation of these.
    """
    apart = (1,) * len(sizes)  # strides with which no two dimensions are one
    parts = regrouped([(desc.sizes, desc.effective_strides), (sizes, apart)], (1, 1))
    fine = None if parts is None else relaid(desc, parts)
    if parts is None or fine is None:
        return None
    groups: list[range] = []  # for each of the tensor's dimensions the places of its parts
    place = len(parts)
    for size in reversed(sizes):
        end = place
        while math.prod(parts[place:end]) < size:
            place -= 1
        groups.append(range(place, end))
    groups.reverse()
    places = [place for axis in order for place in groups[axis]]
    strides = fine.effective_strides
    moved = TensorDesc(dtype=desc.dtype, sizes=[parts[place] for place in places], owned=desc.owned)
    return with_strides(moved, tuple(strides[place] for place in places))


def resizable(operator: Operator) -> bool:
    """Whether the operator may compute in other sizes, and its only output may have others."""
    if len(operator.output_descs) != 1 or operator.first_output.strides is not None:
        return False
    if any(getattr(operator, field) is not None for field in operator.activation_fields):
        return False  # one that looks along dimensions
    return operator.inner_dimensions is not None


def resized(operator: Operator, layouts: Sequence[TensorDesc | None]) -> Operator | None:
    """A resizable operator in sizes in which it can read its inputs; None if there are none.

    Args:
        operator: with its inputs in the sizes that it computes in.
        layouts: how each input lies in memory: as many elements in the same order, in any sizes.
    """
    kept = operator.inner_dimensions
    assert kept is not None
    descs = [desc for desc in operator.input_descs if desc is not None]
    given = [desc for desc in layouts if desc is not None]
    ends = [desc.sizes[desc.rank - kept :] for desc in descs]
    first = regrouped([(desc.sizes, desc.effective_strides) for desc in given], [math.prod(end) for end in ends])
    if first is None:
        return None
    first = (1,) * (operator.first_output.rank - kept - len(first)) + first
    made = [relaid(desc, first + end) for desc, end in zip(given, ends, strict=True)]
    if None in made:
        return None
    rest = iter(made)
    changes = {port: next(rest) for port, desc in enumerate(operator.input_descs) if desc is not None}
    output = operator.first_output
    try:
        return type(operator)(
            **operator.by_field(Role.INPUT, changes),
            **operator.attributes,
            **{operator.output_fields[0]: {"dtype": output.dtype}},
        )
    except DmlGraphError:
        return None  # more dimensions than it takes
