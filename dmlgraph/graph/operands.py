"""Operands: the tensors of a call, as values of the graph that gets the node.

A number becomes a fill of one element, an array a constant; anything else must be a value of that graph.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError, GraphError, OperatorError, listing, plural
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.number_types import is_number, number_type
from dmlgraph.operators.declaration.operator import Operator

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

NOT_A_VALUE = "is not a value of a graph"


def values(
    graph: Graph, operator: type[Operator], tensors: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Each input field's Value, list of Values or None; numbers become fills.

    Args:
        graph: gets the fills.
        operator: the operator's class.
        tensors: input field → what was given.
        outputs: what is asked of the outputs; their data types decide those of numbers for some operators.

    Raises:
        OperatorError, GraphError: something else was given.
    """

    def value(given: Any, field: str, index: int | None = None) -> Value:
        place = field if index is None else f"{field}.{index}"
        if isinstance(given, Value):
            return own(graph, given, place)
        if isinstance(given, np.ndarray) and not given.ndim and given.dtype.kind in "iuf":
            given = given[()]
        if isinstance(given, np.ndarray):
            return _constant(graph, operator, (field, index), given, tensors, outputs)
        if is_number(given):
            return _fill(graph, operator, (field, index), given, tensors, outputs)
        return own(graph, given, place)

    found: dict[str, Any] = {}
    for field, takes_list in operator.input_arrays.items():
        given = tensors.get(field)
        if given is None:
            found[field] = None
        elif not isinstance(given, (list, tuple)):
            found[field] = value(given, field)
            if takes_list:
                raise OperatorError(
                    "takes a list of values, not one", code="kind", field=field, got=found[field].reference
                )
        elif not takes_list:
            raise OperatorError(
                "takes one value, not a list of them",
                code="kind",
                field=field,
                got=plural(len(given), "value"),
                hint=one_of(given),
            )
        else:
            found[field] = [value(each, field, index) for index, each in enumerate(given)]
    return found


def own(graph: Graph, value: Any, field: str | None = None) -> Value:
    """The value, which must be one of this graph."""
    if not isinstance(value, Value):
        hint = "write 1 or 0" if isinstance(value, (bool, np.bool_)) else one_of(value)
        raise OperatorError(NOT_A_VALUE, code="not-a-value", field=field, got=value, hint=hint)
    if value.graph is not graph:
        raise GraphError(
            f"the value belongs to another graph, '{value.graph.name}'",
            code="foreign-value",
            field=field,
            got=value.reference,
        )
    if not graph.writes(value):
        raise GraphError(
            "the value does not match its node's output",
            code="foreign-value",
            field=field,
            got=value,
            hint="the graph has changed since: g.value(reference) gives the value that it has now",
        )
    return value


def one_of(given: object) -> str | None:
    """A hint for the outputs of a function, or numbers in a list, given as one value."""
    fields = getattr(given, "_fields", None)
    if fields is None and isinstance(given, (list, tuple)) and not any(isinstance(each, Value) for each in given):
        return "np.array([…]) of the numbers is a constant"
    return None if fields is None else f"take one of its outputs: {listing(fields)}"


def _fill(
    graph: Graph,
    operator: type[Operator],
    path: tuple[str, int | None],
    number: Any,
    tensors: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Value:
    """A fill of one element, with as many dimensions as the other tensors, and the type from `number_types`."""
    peers = [each for given in tensors.values() for each in _listed(given) if isinstance(each, Value)]
    field = path[0] if path[1] is None else f"{path[0]}.{path[1]}"
    if not peers:
        raise OperatorError(
            "needs at least one value of a graph in addition to numbers",
            code="missing",
            field=field,
            got=number,
            hint="make a fill: g.fill_value_constant(sizes=…, dtype=…, value=number)",
        )
    dtype = number_type(operator, path, number, _dtype_of, tensors, outputs)
    try:
        rank = max(len(peer.sizes) for peer in peers)
        return graph.fill_value_constant(sizes=[1] * rank, dtype=dtype, value=number)
    except DmlGraphError as error:
        hint = f"numbers are {dtype} here; else give a tensor, g.constant(name, number, dtype=…)"
        raise OperatorError(
            dataclasses.replace(problem, node=None, field=field, hint=problem.hint or hint)
            for problem in error.problems
        ) from None


def _constant(
    graph: Graph,
    operator: type[Operator],
    path: tuple[str, int | None],
    array: np.ndarray[Any, Any],
    tensors: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> Value:
    """A constant that holds an array; numbers of NumPy's own types, int64 and float64, get their type as others do."""
    dtype = None
    if array.dtype in (np.int64, np.float64):
        with contextlib.suppress(OperatorError):
            number = array.flat[0] if array.size else 0
            dtype = number_type(operator, path, number, _dtype_of, tensors, outputs)
    with Report(field=path[0] if path[1] is None else f"{path[0]}.{path[1]}"):
        return graph.array(array, dtype)


def _dtype_of(value: Any) -> DataType | None:
    """The data type of a value, or of an array that keeps its own; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim and value.dtype not in (np.int64, np.float64):
        return next((dtype for dtype in DataType if dtype == value.dtype), None)
    return value.dtype if isinstance(value, Value) else None


def _listed(value: Any) -> Sequence[Value | None]:
    return value if isinstance(value, (list, tuple)) else [value]
