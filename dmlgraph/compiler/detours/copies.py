"""Detours through copies: in the same layout, in another one, or in another data type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.detours.site import Made, NoDetourError, Site
from dmlgraph.graph.value import Value
from dmlgraph.operators import Cast, Identity

ALIGNMENT = 16  # elements

Layout = Callable[[Sequence[int]], "list[int] | None"]  # sizes → strides; None where it is the packed one


def _copy(site: Site, value: Value, strides: Sequence[int] | None = None) -> Value:
    asked = {} if strides is None else {"output": {"strides": list(strides)}}
    (made,) = site.graph.add(Identity, {"input": value}, {}, asked)
    assert made is not None
    return made


def inputs_copied(site: Site) -> Value:
    return _with_copies(site, lambda _: [])


def output_copied(site: Site) -> Made:
    return _each(site, site.outputs_again(), lambda value, desc: _copy(site, value, desc.strides))


def aligned(site: Site) -> Value:
    return _with_copies(site, _aligned)


def channels_last(site: Site) -> Value:
    return _with_copies(site, _channels_last)


def float32(site: Site) -> Made:
    narrow = [value for value in site.inputs if value is not None and value.dtype is DataType.FLOAT16]
    descs = site.operator.output_descs
    if not narrow or not any(desc is not None and desc.dtype is DataType.FLOAT16 for desc in descs):
        raise NoDetourError("it does not compute float16 of float16")

    def cast(value: Value, dtype: DataType) -> Value:
        (made,) = site.graph.add(Cast, {"input": value}, {}, {"output": {"dtype": dtype}})
        assert made is not None
        return made

    wide = {value.reference: cast(value, DataType.FLOAT32) for value in narrow}
    made = site.outputs_again(_replaced(site, wide), outputs={field: {} for field in site.node.outputs})
    return _each(site, made, lambda value, desc: value if value.dtype is desc.dtype else cast(value, desc.dtype))


def _each(site: Site, made: Sequence[Value | None], change: Callable[[Value, TensorDesc], Value]) -> Made:
    """What stands in the place of the outputs that the node has, each changed."""
    pairs = zip(made, site.operator.output_descs, strict=True)
    found = [None if value is None or desc is None else change(value, desc) for value, desc in pairs]
    return found[0] if site.has_one_output and found[0] is not None else found


def _with_copies(site: Site, layout: Layout) -> Value:
    """The node on copies of its inputs; inputs whose layout is the packed one, and numbers, are read as they are."""
    copied: dict[str, Value] = {}
    for value in site.inputs:
        if value is None or site.is_number(value) or value.reference in copied:
            continue
        strides = layout(value.sizes)
        if strides is not None:
            copied[value.reference] = _copy(site, value, strides or None)
    if not copied:
        raise NoDetourError("no input would be another one")
    return site.again(_replaced(site, copied))


def _replaced(site: Site, others: Mapping[str, Value]) -> list[Value | None]:
    """The inputs, with other values in the place of some references."""
    return [None if value is None else others.get(value.reference, value) for value in site.inputs]


def _aligned(sizes: Sequence[int]) -> list[int] | None:
    """Rows that begin at multiples of ALIGNMENT elements."""
    if len(sizes) < 2 or sizes[-1] % ALIGNMENT == 0:
        return None
    return _strides([*sizes[:-1], math.ceil(sizes[-1] / ALIGNMENT) * ALIGNMENT])


def _channels_last(sizes: Sequence[int]) -> list[int] | None:
    """Of an image or a volume: the channels of a place one after another."""
    if len(sizes) not in (4, 5) or sizes[1] == 1 or math.prod(sizes[2:]) == 1:
        return None
    batch, *rest, channels = _strides([sizes[0], *sizes[2:], sizes[1]])
    return [batch, channels, *rest]


def _strides(sizes: Sequence[int]) -> list[int]:
    """Those of a packed tensor."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
