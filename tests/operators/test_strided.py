"""Layouts against NumPy: random sizes, orders, steps and repetitions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.common.strided import (
    is_packed,
    merged,
    reads_each_once,
    regrouped,
    reordered,
    repeats,
    reshaped,
    through,
)

Layout = tuple[tuple[int, ...], tuple[int, ...]]
SIZES = st.lists(st.sampled_from([1, 2, 2, 3, 4, 6]), min_size=1, max_size=5).map(tuple)


def packed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def read(sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The places in the buffer that a layout reads."""
    places = np.arange(1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
    return np.lib.stride_tricks.as_strided(places, sizes, [8 * stride for stride in strides])


@st.composite
def layouts(draw: st.DrawFn, *, plain: bool = False) -> Layout:
    """A packed tensor in another order; unless `plain`, with gaps and repetitions."""
    sizes = draw(SIZES)
    order = draw(st.permutations(range(len(sizes))))
    pairs = [(sizes[axis], packed(sizes)[axis]) for axis in order]
    if not plain:
        pairs = [(size, stride * draw(st.sampled_from([1, 1, 1, 2, 0]))) for size, stride in pairs]
    return tuple(size for size, _ in pairs), tuple(stride for _, stride in pairs)


@st.composite
def other_sizes(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """Sizes of as many elements."""
    sizes: list[int] = []
    while count > 1 and len(sizes) < 5:
        sizes.append(draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0])))
        count //= sizes[-1]
    return (*sizes, count)


@given(layouts())
def test_merged_dimensions_read_the_same(layout: Layout) -> None:
    few_sizes, few_strides = merged(*layout)
    assert 1 not in few_sizes
    np.testing.assert_array_equal(read(tuple(few_sizes), tuple(few_strides)).ravel(), read(*layout).ravel())
    pairs = itertools.pairwise(zip(few_sizes, few_strides, strict=True))
    assert all(left[1] != right[0] * right[1] for left, right in pairs)  # no fewer are possible


@given(st.data())
@settings(max_examples=300)
def test_a_reshape_reads_what_numpy_does_or_numpy_has_to_copy(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    sizes = data.draw(other_sizes(math.prod(layout[0])))
    strides = reshaped(*layout, sizes)
    source = read(*layout)
    if strides is not None:
        np.testing.assert_array_equal(read(sizes, strides), source.reshape(sizes))
        return
    view = source.view()
    try:
        view.shape = sizes
    except AttributeError:
        return
    raise AssertionError(f"NumPy reads {layout} as {sizes} with strides {view.strides}")


@given(layouts(), st.integers(0, 40))
def test_each_once_is_what_counting_says(layout: Layout, more: int) -> None:
    places = np.sort(read(*layout).ravel())
    for count in (places.size, places.size + more):
        is_whole = places.size == count and np.array_equal(places, np.arange(count))
        assert reads_each_once(*layout, count) is is_whole


@given(st.data())
def test_a_producer_writes_so_that_the_layout_is_packed(data: st.DataObject) -> None:
    layout = data.draw(layouts(plain=data.draw(st.booleans())))
    to = data.draw(other_sizes(math.prod(layout[0])))
    strides = reordered(*layout, to)
    if strides is None:
        return
    written = np.empty(math.prod(to), int)
    written[read(to, strides).ravel()] = np.arange(math.prod(to))  # element by element, in row-major order
    np.testing.assert_array_equal(written, read(*layout).ravel())


@given(layouts(plain=True))
def test_the_producer_of_an_order_can_always_write_it(layout: Layout) -> None:
    sizes = [size for _, size in sorted(zip(layout[1], layout[0], strict=True), reverse=True)]
    assert reordered(*layout, sizes) is not None


@given(st.data())
def test_a_reading_of_a_tensor_that_lies_otherwise(data: st.DataObject) -> None:
    """A window of a packed tensor, in another order: through the tensor's own layout it is the same."""
    sizes, layout = data.draw(layouts())
    steps = [data.draw(st.integers(1, size)) for size in sizes]
    counts = [data.draw(st.integers(1, 1 + (size - 1) // step)) for size, step in zip(sizes, steps, strict=True)]
    order = data.draw(st.permutations(range(len(sizes))))
    reading = tuple(counts[axis] for axis in order)
    strides = tuple(steps[axis] * packed(sizes)[axis] for axis in order)
    found = through(reading, strides, sizes, layout)
    if found is None:  # two dimensions that one stride fits
        return
    np.testing.assert_array_equal(read(reading, found), read(sizes, layout).ravel()[read(reading, strides)])


@given(st.data())
def test_several_layouts_can_be_cut_in_the_same_sizes(data: st.DataObject) -> None:
    first = data.draw(layouts())
    sizes = data.draw(other_sizes(math.prod(first[0])))
    both = [first, (sizes, packed(sizes))]
    found = regrouped(both, (1, 1))
    if found is None:
        return
    assert math.prod(found) == math.prod(sizes)
    for layout in both:
        strides = reshaped(*layout, found)
        assert strides is not None
        np.testing.assert_array_equal(read(found, strides), read(*layout).reshape(found))


def test_sizes_that_cross_have_no_common_cut() -> None:
    apart = ((2, 3), (1, 1)), ((3, 2), (1, 1))
    assert regrouped(apart, (1, 1)) is None
    assert regrouped(apart[:1], (1,)) == (2, 3)


@pytest.mark.parametrize(
    ("sizes", "strides", "packed", "repeated"),
    [
        ([2, 3], None, True, False),
        ([2, 3], [3, 1], True, False),
        ([2, 1, 3], [3, 99, 1], True, False),
        ([2, 1, 3], [3, 0, 1], True, False),
        ([1, 1], [0, 7], True, False),
        ([2, 3], [1, 2], False, False),
        ([2, 3], [4, 1], False, False),
        ([2, 3], [0, 1], False, True),
        ([2, 3], [1, 0], False, True),
        ([2, 3], [0, 0], False, True),
        ([2, 3], [0, 2], False, True),
        ([2, 4, 3], [1, 0, 2], False, True),
    ],
)
def test_packed_and_repeated(sizes: list[int], strides: list[int] | None, packed: bool, repeated: bool) -> None:
    tensor = TensorDesc(dtype="uint32", sizes=sizes, strides=strides)
    assert (is_packed(tensor), repeats(tensor)) == (packed, repeated)
