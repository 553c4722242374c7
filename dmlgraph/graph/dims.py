"""Dims: the named sizes of a graph, and the fields that are computed from them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError, OperatorError, listing, suggestion
from dmlgraph.base.expressions import CONSTANTS, DECLARED, NOT_A_DIM, Expression, name_of, parse, unknown_dim
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import MOST_ENTRIES
from dmlgraph.operators.common.subscripts import entries
from dmlgraph.operators.declaration.fields import Computed
from dmlgraph.operators.declaration.operator import Operator

MOST = 2**64 - 1  # the size of a dim


class Dims:
    """Names with their sizes.

    Attributes:
        values: the sizes by name.
        used: the names that a size has used.

    Raises:
        GraphError: a value is not a size.
    """

    def __init__(self, values: Mapping[str, int] | None) -> None:
        self.values = _checked({} if values is None else values)
        self.used: set[str] = set()

    def copy(self) -> Dims:
        other = Dims(self.values)
        other.used = set(self.used)
        return other

    def unused(self) -> list[str]:
        """The dims that no size has used."""
        return [dim for dim in self.values if dim not in self.used]

    def changed(self, others: Mapping[str, int]) -> dict[str, int]:
        """The values with others for some of the dims.

        Raises:
            GraphError: a dim is unknown, or a value is not a size.
        """
        changed = _checked(others)
        for dim in changed:
            if dim not in self.values:
                raise GraphError(
                    NOT_A_DIM,
                    code="unknown-dim",
                    field=f"dims.{dim}",
                    allowed=listing(self.values) or "nothing: the graph has no dims",
                    hint=suggestion(dim, self.values) or DECLARED,
                )
        return self.values | changed

    def dim(self, name: str) -> Expression:
        """A dim as an expression.

        Raises:
            GraphError: there is no such dim.
        """
        if not isinstance(name, str) or name not in self.values:
            raise GraphError(
                NOT_A_DIM,
                code="unknown-dim",
                got=name,
                allowed=listing(self.values) or "nothing: the graph has no dims",
                hint=suggestion(name, self.values) if isinstance(name, str) else None,
            )
        return name_of(name)

    def resolve(self, given: Any, field: str, report: Report, *, whole: bool = True, literals: bool = False) -> Any:
        """Numbers in place of names of dims and expressions; anything else unchanged.

        Args:
            given: a number, or a list of numbers.
            field: where it is, for problems.
            report: gets what is wrong; the number is then taken as 1.
            whole: whether the numbers must be whole.
            literals: whether text may be one number, written out.
        """
        if isinstance(given, (str, Expression)):
            with report.at(field=field):
                return self._number(given, whole, literals)
            return 1
        if isinstance(given, (list, tuple)) and len(given) <= MOST_ENTRIES:
            return [self.resolve(each, f"{field}.{index}", report, whole=whole) for index, each in enumerate(given)]
        return given

    def _number(self, given: str | Expression, whole: bool, literals: bool) -> Any:
        """The number of a dim or expression; text that is not meant as one is returned, for the field to refuse."""
        if isinstance(given, str) and given in self.values:
            self.used.add(given)
            return self.values[given]
        expression = self._parse(given, whole, literals) if isinstance(given, str) else given
        if expression is None:
            return given
        number = expression.value(self.values)
        self.used.update(name for name in expression.names if name in self.values)
        if whole and not isinstance(number, int):
            raise GraphError(
                "must be a whole number",
                code="expression",
                got=f"{number} = {expression.with_sizes(self.values)}",
                hint="'//' divides and rounds down; ceil(…) and floor(…) round",
            )
        return number

    def _parse(self, text: str, whole: bool, literals: bool) -> Expression | None:
        """The expression in a text; None where a field that takes other numbers should say what is wrong."""
        try:
            expression = parse(text)
        except GraphError:
            if not _SIGNS.isdisjoint(text) or text.startswith("-") or text.isdecimal():
                raise
            expression = None
        if expression is not None and (literals or not expression.is_literal) and not self._is_foreign(expression):
            return expression
        if whole or suggestion(text, self.values):
            raise self._unknown(text)
        return None

    def _is_foreign(self, expression: Expression) -> bool:
        """Whether it is one word that means nothing here."""
        return expression.names == (expression.text,) and expression.text not in (*self.values, *CONSTANTS)

    def _unknown(self, text: str) -> GraphError:
        is_number = text.strip().lstrip("+-").replace("_", "").replace(".", "").isdecimal()
        hint = "write the number with digits only, without quotes" if is_number else None
        problems = [unknown_dim(text, self.values, hint)]
        return GraphError(problems)

    def resolve_fields(
        self,
        operator: type[Operator],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        report: Report,
    ) -> dict[str, Any]:
        """The fields of a node with numbers in place of expressions, in the attributes and outputs."""
        resolved = dict(attributes)
        for member in operator.members:
            computed = member.kind.form.computed
            if computed is not Computed.NONE and member.field in resolved:
                resolved[member.field] = self._resolve_field(resolved[member.field], computed, member.field, report)
        for field, asked in outputs.items():
            resolved[field] = self._resolve_output(asked, field, report)
        return resolved

    def _resolve_field(self, given: Any, computed: Computed, field: str, report: Report) -> Any:
        if computed is Computed.INDEX:
            return self._resolve_index(given, report) if isinstance(given, str) else given
        if computed is not Computed.PARTS:
            return self.resolve(given, field, report, whole=computed is Computed.WHOLE)
        if isinstance(given, Mapping):
            return {
                key: each if key == "op" else self.resolve(each, f"{field}.{key}", report, whole=False)
                for key, each in given.items()
            }
        if isinstance(given, (list, tuple)) and len(given) <= MOST_ENTRIES:
            return [self._resolve_field(each, computed, f"{field}.{index}", report) for index, each in enumerate(given)]
        return given

    def _resolve_index(self, text: str, report: Report) -> Any:
        """The entries of a subscript."""

        def number(part: str) -> int:
            resolved: int = self.resolve(part, "index", report, literals=True)
            return resolved

        with report.at():
            try:
                return entries(text, number)
            except OperatorError as error:
                problems = error.problems
                raise GraphError(problems) from None
        return ()

    def _resolve_output(self, asked: Any, field: str, report: Report) -> Any:
        if isinstance(asked, Mapping):
            named = [key for key in ("sizes", "strides") if key in asked]
            return dict(asked) | {key: self.resolve(asked[key], f"{field}.{key}", report) for key in named}
        if isinstance(asked, (list, tuple)):
            return [self._resolve_output(each, f"{field}.{index}", report) for index, each in enumerate(asked)]
        return self.resolve(asked, field, report) if isinstance(asked, (str, Expression)) else asked


_SIGNS = frozenset("+*/%(),")  # a name may have a hyphen


def is_computed(given: Any, computed: Computed) -> bool:
    """Whether a field was given with a dim or an expression in it."""
    if computed is Computed.NONE:
        return False
    if isinstance(given, Mapping):
        return any(is_computed(each, Computed.REAL) for key, each in given.items() if key != "op")
    if isinstance(given, (list, tuple)):
        return any(is_computed(each, computed) for each in given)
    return isinstance(given, Expression) or (isinstance(given, str) and computed is not Computed.PARTS)


def _checked(given: object) -> dict[str, int]:
    """The sizes of dims by name."""
    if not isinstance(given, Mapping):
        raise GraphError(
            "must be a mapping from names to sizes", code="kind", field="dims", got=given, hint='such as {"N": 8}'
        )
    for dim, size in given.items():
        check_name(dim, given)
        check_size(dim, size)
    return {dim: int(size) for dim, size in given.items()}


def check_name(dim: object, others: Collection[object]) -> None:
    """Refuses what is not the name of a dim, and a name such as `N - 1` beside N, which is also an expression.

    Raises:
        GraphError: with its field.
    """
    allowed = "printable text without spaces at its ends"
    if isinstance(dim, str) and dim and dim == dim.strip() and dim.isprintable():
        if not _is_expression(dim, others):
            return
        allowed = "text that is not also an expression over dims"
    raise GraphError("is not a name for a dim", code="name", field=f"dims.{dim}", got=repr(dim), allowed=allowed)


def _is_expression(dim: str, others: Collection[object]) -> bool:
    """Whether a name also means an expression over dims."""
    try:
        names = parse(dim).names
    except GraphError:
        return False
    return names != (dim,) and all(name in others or name in CONSTANTS for name in names)


def check_size(dim: str, size: object) -> None:
    """Refuses what is not a size of a dim.

    Raises:
        GraphError: with its field.
    """
    message = "a dim is a whole number of at least 1"
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 1:
        if size <= MOST:
            return
        message = f"a dim is at most {MOST}"
    raise GraphError(message, code="range", field=f"dims.{dim}", got=size)


def combinations(dims: Mapping[str, Sequence[int]]) -> Iterator[tuple[dict[str, int], str]]:
    """Every combination of sizes, and how to name it: `N=8, M=1`, or "" if there is one."""
    several = any(len(sizes) > 1 for sizes in dims.values())
    for sizes in itertools.product(*dims.values()):
        chosen = dict(zip(dims, sizes, strict=True))
        yield chosen, ", ".join(f"{dim}={size}" for dim, size in chosen.items()) if several else ""
