"""The vocabulary in which operators say what they require; a broken rule gives its problems.

    def constraints(self) -> Iterator[Problem]:
        yield from at_least("local_size", self.local_size, 1)
        yield from sizes_are("indices", self.indices, with_size(self.output.sizes, self.axis, 1))

Code, `got` and `allowed` follow from the rule, and so does the message unless the operator has a better one.  A rule
on a tensor that is left out holds.  Inference that depends on rules requires them: `require(divides(…))`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import Any, TypeVar

from dmlgraph.base.errors import OperatorError, Problem, listing
from dmlgraph.base.tensor import DataType, TensorDesc

Sizes = tuple[int, ...]
Found = TypeVar("Found")


def require(*rules: Iterable[Problem]) -> None:
    """Checks rules on which what follows depends.

    Raises:
        OperatorError: every problem.
    """
    problems = list(itertools.chain(*rules))
    if problems:
        raise OperatorError(problems)


def determined(found: Found | None, field: str, why: str = "nothing determines them", **more: Any) -> Found:
    """What the inputs, or else the caller, determine of an output.

    Raises:
        OperatorError: it was not given; `why` says why it must be.
    """
    if found is None:
        raise OperatorError(f"must be given: {why}", code="undetermined", field=field, **more)
    return found


def rule(holds: object, field: str, message: str, code: str, **more: Any) -> Iterator[Problem]:
    """A rule that is like no other; `more` are the other fields of its problem."""
    if not holds:
        yield Problem(message, code=code, field=field, **more)


def is_given(field: str, value: object, message: str = "must be given", code: str = "missing") -> Iterator[Problem]:
    """A field that may be left out elsewhere is given."""
    return rule(value is not None, field, message, code)


# Numbers


def at_least(
    field: str, value: float | Sequence[float], least: float = 1, message: str | None = None, **more: Any
) -> Iterator[Problem]:
    """A number, or each of several, is not below `least`."""
    if isinstance(value, Sequence):
        for index, each in enumerate(value):
            yield from at_least(f"{field}.{index}", each, least, message, **more)
    elif not value >= least:
        fields: dict[str, Any] = {"code": "range", "got": value} | more
        yield Problem(message or f"must be at least {least}", field=field, **fields)


def between(field: str, value: int, least: int, most: int, message: str, code: str = "range") -> Iterator[Problem]:
    """A whole number is in a range, both ends included."""
    if not least <= value <= most:
        yield Problem(message, code=code, field=field, got=value, allowed=f"{least} to {most}")


def one_of(
    field: str, value: object, allowed: Collection[object], message: str, code: str = "range"
) -> Iterator[Problem]:
    """A value is one of a few."""
    if value not in allowed:
        *others, last = map(str, allowed)
        shown = value if isinstance(value, int) else str(value)
        yield Problem(message, code=code, field=field, got=shown, allowed=f"{', '.join(others)} or {last}")


def divides(field: str, divisor: int, whole: int, message: str) -> Iterator[Problem]:
    """A number divides a size."""
    if whole % divisor:
        yield Problem(message, code="sizes", field=field, got=divisor, allowed=f"divisors of {whole}")


def multiple_of(field: str, value: int, factor: int, message: str, got: object = None) -> Iterator[Problem]:
    """A number is a multiple of another; `got` shows more than the number."""
    if value % factor:
        got = value if got is None else got
        yield Problem(message, code="sizes", field=field, got=got, allowed=f"{factor} · n")


def count_is(field: str, values: Sized, count: int, message: str) -> Iterator[Problem]:
    """A list has as many entries as it must."""
    if len(values) != count:
        yield Problem(message, code="count", field=field, got=len(values), allowed=str(count))


def fusable(field: str, name: str, is_fusable: bool, names: Iterable[str], message: str) -> Iterator[Problem]:
    """An operator is among those that can be fused here; `names` are looked at only if it is not."""
    if not is_fusable:
        yield Problem(message, code="activation", field=field, got=name, allowed=listing(names))


# Sizes of tensors


def sizes_hold(
    holds: object, field: str, tensor: TensorDesc | Sizes, message: str, allowed: str | None = None, code: str = "sizes"
) -> Iterator[Problem]:
    """A rule on all sizes of a tensor."""
    if not holds:
        yield Problem(message, code=code, field=f"{field}.sizes", got=list(_sizes(tensor)), allowed=allowed)


def _sizes(tensor: TensorDesc | Sizes) -> Sizes:
    return tensor.sizes if isinstance(tensor, TensorDesc) else tensor


def sizes_are(
    field: str, tensor: TensorDesc | Sizes | None, expected: Sizes, message: str = "has other sizes"
) -> Iterator[Problem]:
    """A tensor has these sizes."""
    if tensor is not None and _sizes(tensor) != expected:
        yield from sizes_hold(False, field, tensor, message, str(list(expected)))


def same_sizes(field: str, desc: TensorDesc | None, other: str, like: TensorDesc | None) -> Iterator[Problem]:
    """A tensor has the sizes of another, if both are present."""
    return iter(()) if like is None else sizes_are(field, desc, like.sizes, f"must have the sizes of '{other}'")


def size_is(
    field: str, desc: TensorDesc | None, axis: int, expected: int, message: str, code: str = "sizes"
) -> Iterator[Problem]:
    """A tensor has this size along an axis."""
    if desc is not None and desc.sizes[axis] != expected:
        path, size = f"{field}.sizes.{axis}", desc.sizes[axis]
        yield Problem(message, code=code, field=path, got=size, allowed=str(expected))


def sizes_divide(field: str, desc: TensorDesc, whole: TensorDesc, message: str) -> Iterator[Problem]:
    """Each size divides that of another tensor of the same rank."""
    for axis, (size, of) in enumerate(zip(desc.sizes, whole.sizes, strict=True)):
        yield from divides(f"{field}.sizes.{axis}", size, of, message)


def broadcastable(field: str, desc: TensorDesc | None, whole: Sizes) -> Iterator[Problem]:
    """Each size is 1 or the input's; other numbers of dimensions are reported elsewhere."""
    if desc is None or desc.rank != len(whole):
        return
    for axis, (size, of) in enumerate(zip(desc.sizes, whole, strict=True)):
        if size not in (1, of):
            path, allowed = f"{field}.sizes.{axis}", "1" if of == 1 else f"1 or {of}"
            yield Problem("must be 1 or the input's size", code="sizes", field=path, got=size, allowed=allowed)


def rank_at_least(
    field: str, desc: TensorDesc | None, least: int, message: str | None = None, allowed: str | None = None
) -> Iterator[Problem]:
    """A tensor has as many dimensions as it must."""
    if desc is not None and desc.rank < least:
        message = message or f"must have at least {least} dimensions"
        yield from sizes_hold(False, field, desc, message, allowed, "rank")


def one_number(field: str, desc: TensorDesc | None) -> Iterator[Problem]:
    """A tensor holds one number."""
    return iter(()) if desc is None else sizes_are(field, desc, (1,) * desc.rank, "must be one number")


def one_or_vector(field: str, desc: TensorDesc | None, vector: Sizes, message: str) -> Iterator[Problem]:
    """A tensor holds one number, or has the sizes `vector`."""
    if desc is not None and desc.element_count != 1 and desc.sizes != vector:
        yield from sizes_hold(False, field, desc, message, f"{[1] * desc.rank} or {list(vector)}")


def one_per_channel(field: str, desc: TensorDesc | None, channels: int, *, single: bool = True) -> Iterator[Problem]:
    """A tensor holds one number for each channel or, if `single`, one for all."""
    if desc is None:
        return
    message, vector = "must be one number for each channel", (1, channels, *(1,) * (desc.rank - 2))
    yield from one_or_vector(field, desc, vector, message) if single else sizes_are(field, desc, vector, message)


# Data types


def dtype_is(
    field: str, desc: TensorDesc | None, dtype: DataType, message: str, code: str = "dtype"
) -> Iterator[Problem]:
    """A tensor has this data type."""
    if desc is not None and desc.dtype is not dtype:
        path, got = f"{field}.dtype", str(desc.dtype)
        yield Problem(message, code=code, field=path, got=got, allowed=str(dtype))
