"""Completion: an operator's fields from what is given of it.

Some fields are left out, or given in a shorter form than the C struct's, as their annotations declare:

- `Entries`: an array with one entry per dimension, given as one number for all of them, or left out;
- `Axes`: an axis or axes of the first input, negative ones from the end, or left out;
- `RankOf`: a count whose default is the number of dimensions with which a tensor is given;
- `TypedBy`: a scalar with the data type of the first output.

The others are completed by methods of the operator's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import OperatorError, Problem, TensorError
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.fields import AxesDefault, Entries, Everywhere, Kind
from dmlgraph.operators.declaration.outputs import Given, merged

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.fused import FusedActivation
    from dmlgraph.operators.declaration.operator import Operator
    from dmlgraph.operators.declaration.struct import Member


def counts(operator: type[Operator], descs: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, int]:
    """Counts that are left out and default to a tensor's number of dimensions, from the tensors as given."""
    return {
        member.field: descs[member.rank_of.field].rank
        for member in operator.fields.values()
        if member.rank_of and attributes.get(member.field) is None and descs.get(member.rank_of.field)
    }


def completed(operator: type[Operator], given: Given) -> dict[str, Any]:
    """Every field of an operator, in the struct's order: what is given, and what follows from it.

    Raises:
        OperatorError: the fields do not fit together.
    """
    known = operator.of_fields({field: given[field] for field in operator.plain_fields if field in given})
    known = known.replace(**_declared(known, given))
    known = known.replace(**known.fill_in(given))
    _check_array_lengths(known)
    known = known.replace(**_outputs(known, given))
    known = known.replace(**known.derive(given))
    known = known.replace(**_fitted_activations(known), **_typed_scalars(known, given))
    return {field: getattr(known, field) for field in operator.fields}


def _declared(operator: Operator, given: Given) -> dict[str, Any]:
    """The fields that follow from their declarations, the inputs and what is given, by name.

    Args:
        operator: with its inputs.

    Raises:
        OperatorError: arrays with a wrong number of entries, and wrong axes; all of them.
    """
    fields: dict[str, Any] = {}
    problems: list[Problem] = []
    rank = operator.input_rank if operator.members_to_complete else None
    for member in operator.members_to_complete:
        value = given.get(member.field)
        if member.entries is not None:
            tensor, dimensions = operator.entries_of(given)
            if dimensions is None:
                continue
            value = _with_entries(value, member.entries, dimensions - member.entries.skipped)
            found = _entry_problems(member.field, value, member.entries, tensor, dimensions)
            problems += [problem for problem in found if problem not in problems]
        elif member.rank_of is not None:
            value = getattr(operator, member.rank_of.field).rank if value is None else value
        elif rank is not None and (value is not None or (member.axes and member.axes.default)):
            counted = _from_start(member, value, rank)
            problems += _axis_problems(member.field, value, counted, rank)
            value = counted
        if value is not None:
            fields[member.field] = value
    if problems:
        raise OperatorError(problems)
    return fields


def _outputs(operator: Operator, given: Given) -> dict[str, Any]:
    """The outputs by name: what follows from the inputs and attributes, with the requested strides."""
    try:
        return merged(operator.infer(given), given)
    except TensorError as error:  # the fields imply an illegal tensor, for example of more than 2^32 elements
        raise OperatorError(problem.within(operator.output_fields[0]) for problem in error.problems) from None


def _fitted_activations(operator: Operator) -> dict[str, FusedActivation]:
    """The fused activations that have axes, with the axes counted in the first output."""
    activations = {field: getattr(operator, field) for field in operator.activation_fields}
    return {field: each.fitted(operator.first_output) for field, each in activations.items() if each is not None}


def _with_entries(value: Any, entries: Entries, count: int) -> tuple[Any, ...] | None:
    """The array with all entries; None if it is left out and has no default."""
    if isinstance(value, Everywhere):
        return (value.value,) * count
    if value is None and entries.default is not None:
        return (entries.default,) * count
    return value  # type: ignore[no-any-return]


def _entry_problems(
    field: str, value: tuple[Any, ...] | None, entries: Entries, tensor: str, dimensions: int
) -> Iterator[Problem]:
    count = dimensions - entries.skipped
    if count < 1:
        yield Problem(
            "needs spatial dimensions after batch and channel",
            code="rank",
            field=f"{tensor}.sizes",
            got=f"{dimensions} dimensions",
            allowed=f"{entries.skipped + 1} dimensions or more",
        )
    elif value is not None and len(value) != count:
        yield Problem(
            f"must have one entry for each {entries.of}",
            code="count",
            field=field,
            got=list(value),
            allowed=f"{count} {'entry' if count == 1 else 'entries'}, or one number for all",
        )


def _from_start(member: Member, value: Any, rank: int) -> Any:
    """An axis or axes counted from the start; the default if they are left out."""
    default = member.axes.default if member.axes else None
    if value is None and default is not None:
        return _DEFAULT_AXES[default](rank)
    if member.kind is Kind.UINT:
        return value + rank if -rank <= value < 0 else value
    return tuple(axis + rank if -rank <= axis < 0 else axis for axis in value)


_DEFAULT_AXES: Mapping[AxesDefault, Callable[[int], tuple[int, ...]]] = {
    AxesDefault.ALL: lambda rank: tuple(range(rank)),
    AxesDefault.LAST: lambda rank: (rank - 1,),
    AxesDefault.REVERSED: lambda rank: tuple(reversed(range(rank))),
}


def _axis_problems(field: str, given: Any, value: Any, rank: int) -> Iterator[Problem]:
    """Axes must exist and be named once; with an empty list every element is reduced by itself."""
    if isinstance(value, int):
        pairs: Iterable[tuple[str, int, int]] = [(field, given, value)]
    else:
        named = zip(value if given is None else given, value, strict=True)
        pairs = [(f"{field}.{index}", said, axis) for index, (said, axis) in enumerate(named)]
    seen = set()
    for path, said, axis in pairs:
        if not 0 <= axis < rank:
            yield Problem(
                "is not an axis of the tensor", code="range", field=path, got=said, allowed=f"{-rank} to {rank - 1}"
            )
        elif axis in seen:
            yield Problem("names an axis twice", code="duplicate", field=path, got=said)
        seen.add(axis)


def _typed_scalars(operator: Operator, given: Given) -> dict[str, Any]:
    """The scalar fields and their data types, by name: that of the first output, which is the only one allowed.

    Raises:
        OperatorError: another data type is given, or a number that does not fit in the data type.
    """
    fields: dict[str, Any] = {}
    with Report(OperatorError) as report:
        for field, typed_by in operator.scalars.items():
            dtype = operator.first_output.dtype
            said: DataType = given.get(typed_by, dtype)
            if said is not dtype:
                message, allowed = "must be the output's data type", str(dtype)
                raise OperatorError(message, code="dtype", field=typed_by, got=str(said), allowed=allowed)
            fields[typed_by] = said
            with report.at(field=field):
                fields[field] = Scalar.of(given[field], said)
    return fields


def _check_array_lengths(operator: Operator) -> None:
    """Checks that arrays that share a count have the same length."""
    lengths: dict[str, tuple[str, int]] = {}
    for member in operator.fields.values():
        array = None if member.count is None else getattr(operator, member.field, None)
        if array is None or member.count is None:
            continue
        length = len(array)
        first, expected = lengths.setdefault(member.count, (member.field, length))
        if length != expected:
            message, allowed = f"must have as many entries as '{first}'", str(expected)
            raise OperatorError(message, code="count", field=member.field, got=length, allowed=allowed)
