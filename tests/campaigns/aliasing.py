"""Values that share a buffer on the real DirectML: every way to share one × read it × follow that × read it elsewhere.

The seed is the number of a case.  Neighbouring seeds are far apart in the enumeration, so that a short run has some of
everything; `COUNT` seeds are all of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.base.tensor import DataType

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
Made = tuple[dg.Value, list[dg.Value]]  # what is read, and the other values in its buffer


class Draft:
    """A graph under construction; its inputs have different numbers in all their elements."""

    def __init__(self, dtype: str, maker: Maker) -> None:
        self.graph, self.dtype, self.maker = dg.Graph("aliasing"), np.dtype(dtype), maker
        self.inputs: Values = {}

    def given(self, sizes: Sequence[int]) -> dg.Value:
        """A graph input."""
        name, elements = f"x{len(self.inputs)}", math.prod(sizes)
        numbers = (np.arange(elements) * 7 + 3 * len(self.inputs)) % 121 - 60
        self.inputs[name] = (numbers / 8 if self.dtype.kind == "f" else numbers).astype(self.dtype).reshape(sizes)
        return self.graph.input(name, sizes=list(sizes), dtype=self.dtype)

    def made(self, sizes: Sequence[int]) -> dg.Value:
        """A value that a node makes."""
        return self.maker(self, sizes)

    def output(self, value: dg.Value) -> None:
        self.graph.output(f"y{len(self.graph.outputs)}", value)


# ---- Makers: the nodes that write the values


def difference(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    return dg.subtract(draft.given(sizes), draft.given([1] * len(sizes)).broadcast_to(sizes))


def shifted(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    """A copy with a ScaleBias, which DirectML runs by other shaders than other element-wise operators."""
    return dg.identity(draft.given(sizes), scale_bias={"scale": 1, "bias": 3})


def converted(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    return dg.cast(dg.cast(draft.given(sizes), dtype="float32"), dtype=draft.dtype)


def repeated(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    return dg.tile(draft.given(sizes), repeats=[1] * len(sizes))


def greatest_of_two(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    return dg.reduce(draft.given([*sizes, 2]), function="max", axes=[len(sizes)]).squeeze(len(sizes))


def matrix(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    return dg.gemm(draft.given([math.prod(sizes), 1]), draft.given([1, 1])).reshape(list(sizes))


def turned_input(draft: Draft, sizes: Sequence[int]) -> dg.Value:
    """An identity that writes in another order than it reads."""
    return dg.identity(draft.given(list(reversed(sizes))).transpose(list(reversed(range(len(sizes))))))


Maker = Callable[[Draft, Sequence[int]], dg.Value]
MAKERS: tuple[Maker, ...] = (difference, shifted, converted, repeated, greatest_of_two, matrix, turned_input)

# ---- Producers: the value that is read, of some sizes, at an offset in elements if it is a part of another


def node(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return draft.made(sizes), []


def graph_input(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return draft.given(sizes), []


def identity(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    made = draft.made(sizes)
    return dg.identity(made), [made]


def _first(sizes: Sequence[int]) -> int:
    """The outermost axis that can be cut."""
    return next((axis for axis, size in enumerate(sizes) if size > 1), 0)


def _last(sizes: Sequence[int]) -> int:
    return next((axis for axis in reversed(range(len(sizes))) if sizes[axis] > 1), 0)


def _with(sizes: Sequence[int], axis: int, size: int) -> list[int]:
    return [size if each == axis else whole for each, whole in enumerate(sizes)]


def _joined(sizes: Sequence[int], axis: int, makers: Sequence[Callable[[Sequence[int]], dg.Value]]) -> Made:
    """A join of two halves along an axis."""
    half = max(1, sizes[axis] // 2)
    parts = [makers[0](_with(sizes, axis, half)), makers[1](_with(sizes, axis, max(1, sizes[axis] - half)))]
    if sizes[axis] == 1:
        parts = parts[:1]
    return dg.join(parts, axis=axis), parts


def join_of_both(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return _joined(sizes, _first(sizes), (draft.made, draft.made))


def join_with_an_input(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    made, parts = _joined(sizes, _first(sizes), (draft.made, draft.given))
    return made, parts[:1]


def join_of_columns(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return _joined(sizes, _last(sizes), (draft.given, draft.made))


def join_of_one(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    made = draft.made(sizes)
    return dg.join([made], axis=0), [made]


def join_at_an_offset(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    """A flat join, whose second input begins at the offset."""
    count = math.prod(sizes)
    cut = min(max(offset, 1), count - 1)
    parts = [draft.made([cut]), draft.made([count - cut])] if count > 1 else [draft.made([1])]
    return dg.join(parts, axis=0).reshape(list(sizes)), parts


def join_of_joins(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    def inner(part: Sequence[int]) -> dg.Value:
        made, parts = _joined(part, _last(part), (draft.made, draft.made))
        shared.extend([made, *parts])
        return made

    shared: list[dg.Value] = []
    return _joined(sizes, _first(sizes), (inner, draft.made))[0], shared


def join_of_parts(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    axis = _first(sizes)
    half = max(1, sizes[axis] // 2)
    whole = draft.made(_with(sizes, axis, 2 * half))
    parts = dg.split(whole, axis=axis, outputs=[half, half])
    rest = [draft.made(_with(sizes, axis, 1))] if sizes[axis] % 2 and sizes[axis] > 1 else []
    if sizes[axis] == 1:
        return dg.join([parts[1]], axis=axis), [whole, parts[1]]
    return dg.join([parts[1], parts[0], *rest], axis=axis), [whole, *parts]


def slice_of_rows(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    axis = _first(sizes)
    whole = draft.made(_with(sizes, axis, sizes[axis] + offset))
    offsets = [offset if each == axis else 0 for each in range(len(sizes))]
    return dg.slice(whole, offsets=offsets, sizes=list(sizes), strides=[1] * len(sizes)), [whole]


def slice_of_columns(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    axis = _last(sizes)
    whole = draft.made(_with(sizes, axis, sizes[axis] + offset))
    offsets = [offset if each == axis else 0 for each in range(len(sizes))]
    return dg.slice(whole, offsets=offsets, sizes=list(sizes), strides=[1] * len(sizes)), [whole]


def slice_at_an_offset(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    whole = draft.made([math.prod(sizes) + offset + 2])
    cut = dg.slice(whole, offsets=[offset], sizes=[math.prod(sizes)], strides=[1])
    return cut.reshape(list(sizes)), [whole]


def beginning(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    """The first elements, which is a view."""
    whole = draft.made([math.prod(sizes) + offset])
    return whole[: math.prod(sizes)].reshape(list(sizes)), [whole]


def part(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    """The only used part of a split."""
    axis = _first(sizes)
    whole = draft.made(_with(sizes, axis, sizes[axis] + offset + 1))
    parts = dg.split(whole, axis=axis, outputs=[*([offset] if offset else []), sizes[axis], 1])
    return parts[1 if offset else 0], [whole]


def part_of_both(draft: Draft, sizes: Sequence[int], offset: int) -> Made:
    whole = draft.made([math.prod(sizes) + max(1, offset)])
    parts = dg.split(whole, axis=0, outputs=[max(1, offset), math.prod(sizes)])
    return parts[1].reshape(list(sizes)), [whole, parts[0]]


def _states(draft: Draft, sizes: Sequence[int], name: str, direction: str) -> Made:
    """All states of a recurrent network whose matrices are so simple that every state has one number of the input."""
    hidden = sizes[-1]
    steps, batch = (sizes[0], math.prod(sizes[1:-1])) if len(sizes) > 1 else (1, 1)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    x = draft.given([1, steps, batch, hidden])
    eye = np.tile(np.eye(hidden, dtype=draft.dtype), (gates, 1))[None, None]
    w, r = draft.graph.constant("w", eye / 8), draft.graph.constant("r", np.zeros_like(eye))
    made = getattr(dg, name)(
        *(x, w, r),
        activation_descs=[{"op": "activation_identity"}] * {"rnn": 1, "gru": 2, "lstm": 3}[name],
        direction=direction,
        output_sequence=True,
        output_single=True,
        **({"linear_before_reset": False} if name == "gru" else {}),
    )
    return made.output_sequence.reshape(list(sizes)), [made.output_single]


def states_of_rnn(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return _states(draft, sizes, "rnn", "forward")


def states_of_lstm(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return _states(draft, sizes, "lstm", "backward")


def states_of_gru(draft: Draft, sizes: Sequence[int], _: int) -> Made:
    return _states(draft, sizes, "gru", "forward")


Producer = Callable[[Draft, Sequence[int], int], Made]
WHOLE: tuple[Producer, ...] = (
    *(node, graph_input, identity, join_of_both, join_with_an_input, join_of_columns, join_of_one, join_of_joins),
    *(join_of_parts, states_of_rnn, states_of_lstm, states_of_gru),
)
AT_OFFSETS: tuple[Producer, ...] = (
    *(join_at_an_offset, slice_of_rows, slice_of_columns, slice_at_an_offset, beginning, part, part_of_both),
)


# ---- Readers of the value, in some order of its axes; and what follows them


def negate(_: Draft, x: dg.Value) -> dg.Value:
    return dg.negate(x)


def absolute(_: Draft, x: dg.Value) -> dg.Value:
    return dg.abs(x)


def scaled(_: Draft, x: dg.Value) -> dg.Value:
    return dg.identity(x, scale_bias={"scale": 2, "bias": 1})


def leaky(_: Draft, x: dg.Value) -> dg.Value:
    return dg.activation_leaky_relu(x, alpha=0.5)


def plus_input(draft: Draft, x: dg.Value) -> dg.Value:
    return dg.add(x, draft.given(x.sizes))


def minus_from_input(draft: Draft, x: dg.Value) -> dg.Value:
    return dg.subtract(draft.given(x.sizes), x)


def minus_from_made(draft: Draft, x: dg.Value) -> dg.Value:
    return dg.subtract(draft.made(x.sizes), x)


def softmax(_: Draft, x: dg.Value) -> dg.Value:
    return dg.activation_softmax1(x, axes=[-1])


def greatest(_: Draft, x: dg.Value) -> dg.Value:
    return dg.reduce(x, function="max", axes=[-1])


def product(draft: Draft, x: dg.Value) -> dg.Value:
    flat = x.reshape([-1, x.sizes[-1]])
    return dg.gemm(flat, draft.given([x.sizes[-1], 4]))


def joined(draft: Draft, x: dg.Value) -> dg.Value:
    return dg.join([draft.given(x.sizes), x], axis=_first(x.sizes))


def summed_up(_: Draft, x: dg.Value) -> dg.Value:
    return dg.cumulative_summation(x, axis=-1, axis_direction="increasing", has_exclusive_sum=False)


def same(_: Draft, x: dg.Value) -> dg.Value:
    return dg.identity(x)


def cast(_: Draft, x: dg.Value) -> dg.Value:
    return dg.cast(x, dtype="int32" if x.dtype is DataType.FLOAT32 else "float32")


def tail(_: Draft, x: dg.Value) -> dg.Value:
    axis = _first(x.sizes)
    offsets = [1 if each == axis and size > 1 else 0 for each, size in enumerate(x.sizes)]
    sizes = [size - before for size, before in zip(x.sizes, offsets, strict=True)]
    return dg.slice(x, offsets=offsets, sizes=sizes, strides=[1] * x.rank)


def back(_: Draft, x: dg.Value) -> dg.Value:
    """The axes in the reversed order, then another operator."""
    return dg.abs(x.transpose(list(reversed(range(x.rank)))))


def nothing(_: Draft, x: dg.Value) -> dg.Value:
    return x


def turned(_: Draft, x: dg.Value) -> dg.Value:
    """The output in the reversed order."""
    return x.transpose(list(reversed(range(x.rank))))


Reader = Callable[[Draft, dg.Value], dg.Value]
READERS: tuple[Reader, ...] = (
    *(negate, scaled, leaky, plus_input, minus_from_input, minus_from_made, softmax, greatest, product, joined),
    *(summed_up, same, cast, tail),
)
FOLLOWING: tuple[Reader, ...] = (
    *(nothing, absolute, softmax, minus_from_made, joined, greatest, product, back, turned, tail),
)


# ---- Who else reads the buffer


def _read(draft: Draft, values: Sequence[dg.Value]) -> None:
    for each in values:
        draft.output(dg.negate(each))


def _kept(draft: Draft, values: Sequence[dg.Value]) -> None:
    for each in values:
        draft.output(each)


class Others(NamedTuple):
    """What is done with the other values in the buffer before and after the last output."""

    name: str
    before: Callable[[Draft, Sequence[dg.Value]], None] = lambda draft, values: None
    after: Callable[[Draft, Sequence[dg.Value]], None] = lambda draft, values: None
    value: bool = False  # the value itself is read, too


OTHERS = (
    Others("nobody"),
    Others("outputs after", after=_kept),
    Others("readers after", after=_read),
    Others("outputs before", before=_kept),
    Others("readers before", before=_read),
    Others("one after", after=lambda draft, values: _read(draft, values[-1:])),
    Others("value read after", after=_read, value=True),
    Others("value output after", after=_kept, value=True),
)

SIZES = (
    *((4, 8), (1, 8), (8, 1), (3, 5)),
    *((4, 4, 8), (2, 3, 4), (1, 4, 8), (4, 1, 8), (3, 1, 2)),
    *((2, 2, 4, 8), (1, 4, 4, 8), (2, 1, 4, 8), (1, 1, 4, 8), (2, 3, 1, 2)),
    *((2, 2, 2, 2, 8), (1, 2, 1, 4, 8)),
)
TYPES = ("float32", "float16", "int32", "int8", "int64")


class Case(NamedTuple):
    """One of the enumeration."""

    dtype: str
    maker: Maker
    producer: Producer
    offset: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    reader: Reader
    following: Reader
    others: Others

    def __str__(self) -> str:
        made = f"{self.producer.__name__} of {self.maker.__name__} at {self.offset}"
        read = f"read in {self.order} by {self.reader.__name__}, then {self.following.__name__}"
        return f"{self.dtype} {list(self.sizes)}: {made}, {read}; {self.others.name}"

    def draft(self) -> Draft | None:
        """The graph; None where an operator does not take the data type."""
        draft = Draft(self.dtype, self.maker)
        try:
            value, shared = self.producer(draft, self.sizes, self.offset)
            read = value.transpose(list(self.order))
            last = self.following(draft, self.reader(draft, read))
            others = [value, *shared] if self.others.value else shared
            self.others.before(draft, others)
            draft.output(last)
            self.others.after(draft, others)
        except dg.DmlGraphError:
            return None
        return draft


LAYOUTS = [(sizes, order) for sizes in SIZES for order in itertools.permutations(range(len(sizes)))]
BUFFERS = [
    (dtype, producer, offset)
    for dtype in TYPES
    for producer in (*WHOLE, *AT_OFFSETS)
    for offset in range(0, 1 + (16 // np.dtype(dtype).itemsize if producer in AT_OFFSETS else 0))
]
CHOICES: tuple[Sequence[Any], ...] = (OTHERS, FOLLOWING, READERS, MAKERS, BUFFERS, LAYOUTS)
COUNT = math.prod(map(len, CHOICES))
STEP = 15_485_863  # a prime that does not divide COUNT: every case has one seed below COUNT


def case(number: int) -> Case:
    index = number * STEP % COUNT
    chosen: list[Any] = []
    for choices in CHOICES:
        index, place = divmod(index, len(choices))
        chosen.append(choices[place])
    others, following, reader, maker, (dtype, producer, offset), (sizes, order) = chosen
    return Case(dtype, maker, producer, offset, sizes, order, reader, following, others)


def differing(got: Mapping[str, Array], expected: Mapping[str, Array], dtype: str) -> list[str]:
    """The outputs that differ; floats may have the error of a function in the graph's data type."""

    def is_near(one: Array, other: Array) -> bool:
        slack = 0 if one.dtype.kind != "f" else 1e-2 if dtype == "float16" else 1e-4
        greatest = np.abs(other.astype("f8")).max()
        return np.allclose(one.astype("f8"), other.astype("f8"), slack, slack * greatest)

    return [name for name in expected if not is_near(got[name], expected[name])]


def one_case(seed: int) -> str | None:
    this = case(seed)
    draft = this.draft()
    if draft is None:
        return None
    expected = draft.graph.compile("reference", fuse=False).run(draft.inputs)
    for fuse in (False, True):
        with draft.graph.compile("directml:software", fuse=fuse) as executable:
            wrong = differing(executable.run(draft.inputs), expected, this.dtype)
        if wrong:
            return f"{', '.join(wrong)} of {this}, {'fused' if fuse else 'not fused'}"
    return None


CAMPAIGN = Campaign(
    "aliasing", "values that share a buffer on directml:software, enumerated: as the reference", one_case
)
