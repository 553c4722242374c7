"""Dims: the named sizes of a graph, and the fields that use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.errors import GraphError, Problem, listing, suggestion
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.tensor import MOST_ENTRIES

NOT_A_DIM = "is not a dim of the graph"


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
                    hint=suggestion(dim, self.values) or "dims are declared with the graph",
                )
        return self.values | changed

    def resolve(self, sizes: Any, field: str, problems: list[Problem]) -> Any:
        """Sizes with the values of dims in place of their names; anything else unchanged.

        A name that is not a dim is added to the problems, and its size is taken as 1.
        """
        if isinstance(sizes, str):
            if sizes not in self.values:
                allowed = f"a number{', ' if self.values else ''}{listing(self.values)}"
                hint = _size_hint(sizes, self.values)
                problems.append(Problem(NOT_A_DIM, None, field, sizes, allowed, hint, code="unknown-dim"))
                return 1
            self.used.add(sizes)
            return self.values[sizes]
        if isinstance(sizes, (list, tuple)) and len(sizes) <= MOST_ENTRIES:
            return [self.resolve(size, f"{field}.{index}", problems) for index, size in enumerate(sizes)]
        return sizes

    def resolve_fields(
        self,
        operator: type[Operator],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        problems: list[Problem],
    ) -> dict[str, Any]:
        """The fields of a node, with dims resolved in whole numbers among the attributes, and in the outputs."""
        resolved = dict(attributes)
        for member in operator.members:
            if member.kind.form.names_dims and member.field in resolved:
                resolved[member.field] = self.resolve(resolved[member.field], member.field, problems)
        for field, asked in outputs.items():
            resolved[field] = self._resolve_output(asked, field, problems)
        return resolved

    def _resolve_output(self, asked: Any, field: str, problems: list[Problem]) -> Any:
        if isinstance(asked, Mapping):
            shaped = {
                key: self.resolve(asked[key], f"{field}.{key}", problems)
                for key in ("sizes", "strides")
                if key in asked
            }
            return dict(asked) | shaped
        if isinstance(asked, (list, tuple)):
            return [self._resolve_output(each, f"{field}.{index}", problems) for index, each in enumerate(asked)]
        return self.resolve(asked, field, problems) if isinstance(asked, str) else asked


def _size_hint(size: str, dims: Mapping[str, int]) -> str:
    """A hint for text that is not a dim."""
    if size.replace("_", "").isdecimal():
        return "write the number with digits only, without quotes"
    if any(sign in size for sign in "+-*/()"):
        return "expressions are not supported: declare a dim of that size"
    return suggestion(size, dims) or "dims are declared with the graph"


def _checked(given: object) -> dict[str, int]:
    """The sizes of dims by name."""
    if not isinstance(given, Mapping):
        raise GraphError(
            "must be a mapping from names to sizes", code="kind", field="dims", got=given, hint='such as {"N": 8}'
        )
    for dim, size in given.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise GraphError("a dim is a whole number of at least 1", code="range", field=f"dims.{dim}", got=size)
    return {dim: int(size) for dim, size in given.items()}
