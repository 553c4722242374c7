"""What each of DirectML's operators accepts at each feature level, from data.json.

The data covers every operator of DirectML, also those that have no class yet; it is made by
tools/generate.py.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import Problem, plural
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSupport:
    """The ranks and data types that one tensor of an operator may have.

    `functions` names the members of DML_REDUCE_FUNCTION to which a row of REDUCE applies; if it is empty, to all.
    """

    tensor: str
    least_rank: int
    greatest_rank: int
    dtypes: frozenset[DataType]
    functions: frozenset[str]

    def takes(self, dtype: DataType) -> bool:
        """Whether a data type is legal; if none is documented, all with elements of whole bytes are."""
        return dtype in self.dtypes if self.dtypes else dtype.bits >= 8

    def describe_ranks(self) -> str:
        if self.least_rank == self.greatest_rank:
            return plural(self.least_rank, "dimension")
        return f"{self.least_rank} to {self.greatest_rank} dimensions"

    def describe_dtypes(self) -> str:
        return ", ".join(str(dtype) for dtype in DataType if self.takes(dtype))


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorSupport:
    """Facts about one operator.

    Attributes:
        value: its DML_OPERATOR_TYPE.
        introduced: the level from which it exists.
        levels: from level to the rows that apply until the next level in the table, ascending.
        same: (struct members, properties) that must agree: DataType, DimensionCount, Sizes.
        fusable_into: operators into which it can be fused → the level from which it can.
    """

    value: int
    introduced: FeatureLevel
    levels: dict[FeatureLevel, tuple[TensorSupport, ...]]
    same: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    fusable_into: frozenset[str]
    fusable_since: FeatureLevel | None

    def rows(self, tensor: str, level: FeatureLevel, function: str | None = None) -> TensorSupport | None:
        """What is legal for `tensor` at `level`; None if the operator or its function does not exist yet."""
        table = max((at for at in self.levels if at <= level), default=None)
        if table is None:
            return None
        return next(
            (
                row
                for row in self.levels[table]
                if row.tensor == tensor and (not row.functions or function in row.functions)
            ),
            None,
        )


@functools.cache
def support(name: str) -> OperatorSupport:
    """The facts about the operator DML_OPERATOR_`name`; KeyError if DirectML has no such operator."""
    entry = _data()["operators"][name]
    since, hosts = entry.get("fusable", (None, ()))
    levels = {FeatureLevel.parse(at): tuple(map(_row, rows)) for at, rows in entry["levels"].items()}
    return OperatorSupport(
        value=entry["value"],
        introduced=FeatureLevel.parse(entry["introduced"]),
        levels=dict(sorted(levels.items())),
        same=tuple((tuple(tensors), tuple(properties)) for tensors, properties in entry["same"]),
        fusable_into=frozenset(hosts),
        fusable_since=FeatureLevel.parse(since) if since else None,
    )


@functools.lru_cache(maxsize=16384)
def level_problem(
    cls: type[Operator], level: FeatureLevel, field: str, dtype: DataType, rank: int, function: str | None
) -> Problem | None:
    """The problem of a tensor at a level, or None; its field is relative to the tensor, None for the operator."""
    facts = cls.support()
    tensor = next(member.name for member in cls.members if member.field == field)

    def fits(at: FeatureLevel, what: str) -> bool:
        row = facts.rows(tensor, at, function)
        if row is None:
            return False
        fits_rank = row.least_rank <= rank <= row.greatest_rank
        return (row.takes(dtype) or what == "rank") and (fits_rank or what == "dtype")

    def since(what: str) -> str:
        legal = next((at for at in facts.levels if at > level and fits(at, what)), None)
        return f"legal from {legal}" if legal else "legal at no level"

    def cast() -> str | None:
        """What to do about a tensor of a data type that no level takes."""
        known = cls.input_fields and not any(fits(at, "dtype") for at in facts.levels)
        return "'cast' converts to another data type" if known else None

    row = facts.rows(tensor, level, function)
    if row is None or facts.introduced > level:
        first = max(facts.introduced, min(facts.levels))
        return Problem(f"{cls.dml} does not exist at feature level {level}; it appears at {first}", code="level")
    if not row.takes(dtype):
        return Problem(
            f"{cls.dml} does not take {dtype} here at feature level {level}; {since('dtype')}",
            code="level",
            field="dtype",
            got=str(dtype),
            allowed=row.describe_dtypes(),
            hint=cast(),
        )
    if not row.least_rank <= rank <= row.greatest_rank:
        return Problem(
            f"{cls.dml} does not take {plural(rank, 'dimension')} here at feature level {level}; {since('rank')}",
            code="level",
            field="sizes",
            got=plural(rank, "dimension"),
            allowed=row.describe_ranks(),
        )
    return None


@functools.cache
def _data() -> dict[str, Any]:
    text = importlib.resources.files("dmlgraph.operators").joinpath("data.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@functools.cache
def _dtypes(index: int) -> frozenset[DataType]:
    return frozenset(DataType.parse(name) for name in _data()["types"][index].split())


def _row(row: list[Any]) -> TensorSupport:
    tensor, least, greatest, types, *functions = row
    return TensorSupport(tensor, least, greatest, _dtypes(types), frozenset(" ".join(functions).split()))
