"""Shrinking: a node that a device computes wrong, made as small as it can be while it still does.

    found = shrink(part, inputs, trials.is_wrong)
    print(found.graph, found.inputs)

Each step proposes drafts that are simpler, and keeps the first that is legal and still wrong: tensors that may be left
out, attributes, sizes, values, the data type.  The order is fixed, so that the same case gives the same result.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.random_arrays import SEED, random_array
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.doctor.draft import Array, Draft
from dmlgraph.graph.graph import Graph

MOST = 200  # executions
SMALL = 4  # integers between −SMALL and SMALL are small

IsWrong = Callable[[Graph, Mapping[str, Array]], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Shrunk:
    """The result.

    Attributes:
        graph: of one operator.
        inputs: by name.
        executions: how many it took.
        is_smallest: whether nothing simpler was left to try.
        is_anonymous: whether its numbers say nothing of those that were given.
    """

    graph: Graph
    inputs: Mapping[str, Array]
    executions: int
    is_smallest: bool
    is_anonymous: bool


def shrink(graph: Graph, inputs: Mapping[str, Array], is_wrong: IsWrong, *, most: int = MOST) -> Shrunk:
    """The simplest graph of the same operator that is still wrong.

    A node that is only right when it reads what it reads through no view stays as it is, views and all.

    Args:
        graph: a node alone, as `cut_node` makes it.
        inputs: with which it is wrong.
        is_wrong: runs a graph and compares.
        most: how often.
    """
    search = _Search(is_wrong, most)
    draft = Draft.of(graph, inputs)
    if not search.takes(draft):
        return Shrunk(graph, inputs, search.executions, is_smallest=True, is_anonymous=False)
    anonymous = _random(draft)
    is_anonymous = search.takes(anonymous)
    draft, is_smallest = search.run(anonymous if is_anonymous else draft)
    is_anonymous |= all(map(_is_small, draft.arrays.values()))
    return Shrunk(draft.graph(), draft.inputs, search.executions, is_smallest, is_anonymous)


class _Search:
    def __init__(self, is_wrong: IsWrong, most: int) -> None:
        self.executions = 0
        self._is_wrong, self._most = is_wrong, most
        self._tried: set[str] = set()

    def takes(self, draft: Draft) -> bool:
        """Whether a draft is legal, was not tried before, and is wrong."""
        key = _key(draft)
        graph = None if key in self._tried or self.executions >= self._most else draft.made()
        self._tried.add(key)
        if graph is None:
            return False
        self.executions += 1
        return self._is_wrong(graph, draft.inputs)

    def run(self, draft: Draft) -> tuple[Draft, bool]:
        """Takes simpler drafts until none is left, or the executions are used up."""
        changed = True
        while changed:
            changed = False
            for propose in PROPOSALS:
                while (simpler := next(filter(self.takes, propose(draft)), None)) is not None:
                    draft, changed = simpler, True
        return draft, self.executions < self._most


def _key(draft: Draft) -> str:
    arrays = {path: (str(array.dtype), array.shape, array.tobytes()) for path, array in draft.arrays.items()}
    return repr((arrays, sorted(map(repr, draft.attributes.items())), sorted(map(repr, draft.outputs.items()))))


def _random(draft: Draft) -> Draft:
    """The draft with random floats in place of those that were given."""
    arrays = {
        path: random_array(TensorDesc(dtype=DataType.parse(array.dtype), sizes=array.shape), path, SEED)
        if array.dtype.kind == "f"
        else array
        for path, array in draft.arrays.items()
    }
    return dataclasses.replace(draft, arrays=arrays)


def _is_small(array: Array) -> bool:
    """Whether all elements are small whole numbers."""
    return bool((np.rint(array) == array).all() and (np.abs(array) <= SMALL).all())


# What may be simpler.


def _without_tensors(draft: Draft) -> Iterator[Draft]:
    """One optional tensor less."""
    for path in draft.arrays:
        member = draft.operator.fields[path.partition(".")[0]]
        if member.optional:
            arrays = {name: array for name, array in draft.arrays.items() if name != path}
            yield dataclasses.replace(draft, arrays=arrays)


def _without_attributes(draft: Draft) -> Iterator[Draft]:
    """One attribute at its default, or a simple number."""
    for name, value in draft.attributes.items():
        yield dataclasses.replace(draft, attributes={k: v for k, v in draft.attributes.items() if k != name})
        if isinstance(value, float):
            for number in (1.0, 0.0, 0.5):
                if value not in (1.0, 0.0, number):
                    yield dataclasses.replace(draft, attributes={**draft.attributes, name: number})
    for name in draft.outputs:
        yield dataclasses.replace(draft, outputs={k: v for k, v in draft.outputs.items() if k != name})


def _smaller(draft: Draft) -> Iterator[Draft]:
    """Sizes that are equal shrink together, then those at the same place, then each alone; to 1, 2, then by half."""
    groups = list(_groups(draft))
    for size_of in (lambda _: 1, lambda _: 2, lambda size: size // 2, lambda size: size - 1):
        for size, axes in groups:
            to = size_of(size)
            if 0 < to < size:
                for part in (slice(0, to), slice(size - to, size)):
                    yield _cut(draft, axes, part)


def _groups(draft: Draft) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
    """Sizes, each with axes that have it: paths, and places from the end."""
    equal = collections.defaultdict[Any, list[tuple[str, int]]](list)
    for path, array in draft.arrays.items():
        for place, size in enumerate(reversed(array.shape), 1):
            if size > 1:
                equal[size].append((path, -place))
                equal[size, place].append((path, -place))
                equal[size, place, path].append((path, -place))
    seen: set[tuple[tuple[str, int], ...]] = set()
    for key, axes in sorted(equal.items(), key=lambda item: -len(item[1])):
        if tuple(axes) not in seen:
            seen.add(tuple(axes))
            yield (key if isinstance(key, int) else key[0]), tuple(axes)


def _cut(draft: Draft, axes: tuple[tuple[str, int], ...], part: slice) -> Draft:
    arrays = dict(draft.arrays)
    for path, axis in axes:
        index = [slice(None)] * arrays[path].ndim
        index[axis] = part
        arrays[path] = np.ascontiguousarray(arrays[path][tuple(index)])
    return dataclasses.replace(draft, arrays=arrays)


def _fewer_dimensions(draft: Draft) -> Iterator[Draft]:
    """Without the first dimension, where it is 1 everywhere; axes count one less."""
    if all(array.ndim > 1 and array.shape[0] == 1 for array in draft.arrays.values()):
        arrays = {path: array[0] for path, array in draft.arrays.items()}
        attributes = {name: _moved_axes(draft, name, value) for name, value in draft.attributes.items()}
        yield dataclasses.replace(draft, arrays=arrays, attributes=attributes)


def _moved_axes(draft: Draft, name: str, value: Any) -> Any:
    if draft.operator.fields[name].axes is None:
        return value
    return [axis - 1 for axis in value] if isinstance(value, (list, tuple)) else value - 1


def _simpler_values(draft: Draft) -> Iterator[Draft]:
    """Ones everywhere, one number, small integers, a single element that is not 0, fewer that are not 1."""
    for path, array in draft.arrays.items():
        if not array.size or _is_simple(array):
            continue
        for simple in _values(array):
            if simple.tobytes() != array.tobytes():
                yield draft.with_array(path, simple)


def _is_simple(array: Array) -> bool:
    """Whether all elements are 1, or all integers are 0."""
    number = 1 if array.dtype.kind == "f" else 0
    return bool((array == number).all())


def _values(array: Array) -> Iterator[Array]:
    """Arrays that are simpler than this one, the simplest first."""
    if array.dtype.kind != "f":
        yield np.zeros_like(array)
        return
    finite = np.where(np.isfinite(array), array, 0)
    hot = np.abs(finite.astype(np.float64)).argmax()
    yield np.ones_like(array)
    yield np.full_like(array, finite.flat[hot])
    single = np.zeros_like(array)
    single.flat[hot] = array.flat[hot]
    if np.count_nonzero(array) > 1:
        yield single
    if (np.rint(finite) != array).any():
        for rounded in (np.rint, _away_from_zero):
            yield rounded(np.clip(finite, -SMALL, SMALL)).astype(array.dtype)
            yield rounded(finite).astype(array.dtype)
    flat = array.reshape(-1)
    others = np.flatnonzero(flat != 1)
    for part in (others[: len(others) // 2], others[len(others) // 2 :]):
        if 0 < len(part) < len(others):
            fewer = flat.copy()
            fewer[part] = 1
            yield fewer.reshape(array.shape)


def _away_from_zero(array: Array) -> Array:
    return np.copysign(np.ceil(np.abs(array)), array)


def _another_type(draft: Draft) -> Iterator[Draft]:
    """float32 in place of other floats: whoever reads the case knows it best."""
    floats = {array.dtype for array in draft.arrays.values() if array.dtype.kind == "f"}
    if floats and floats != {np.dtype(np.float32)}:
        arrays = {
            path: array.astype(np.float32) if array.dtype.kind == "f" else array for path, array in draft.arrays.items()
        }
        yield dataclasses.replace(draft, arrays=arrays)


PROPOSALS: tuple[Callable[[Draft], Iterator[Draft]], ...] = (
    _without_tensors,
    _another_type,
    _without_attributes,
    _smaller,
    _fewer_dimensions,
    _simpler_values,
)
