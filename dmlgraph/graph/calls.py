"""Calls of operators in Python: one function per operator, made from its class.

Tensors are positional in the struct's order, everything else is keyword-only: the attributes, `name`, and requests for
the outputs (`output={"strides": …}`; a few operators also take members of that directly, as in
`cast(x, dtype="float16")`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import OperatorError, listing, plural
from dmlgraph.operators.catalog.foreign_fields import meant_field
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.signatures import keyword_parameters, outputs_type, signature

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph
    from dmlgraph.graph.value import Value


def apply(operator: type[Operator], /, *tensors: Any, **keywords: Any) -> Value:
    """Applies an operator to values and numbers; at least one must be a value."""
    result: Value = make_function(operator)(*tensors, **keywords)
    return result


def add(
    graph: Graph,
    operator: type[Operator],
    tensors: Mapping[str, Any],
    keywords: Mapping[str, Any],
    name: str | None,
) -> tuple[Value | None, ...]:
    """Adds a node from a function's keywords, which are attributes and requests for the outputs."""
    if not keywords:
        return graph.add(operator, tensors, {}, {}, name)
    return graph.add(operator, tensors, *sorted_fields(operator, keywords, name or operator.name), name)


def sorted_fields(
    operator: type[Operator], keywords: Mapping[str, Any], node: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes and the requests for the outputs among keywords.

    Raises:
        OperatorError: one of them is neither.
    """
    known = [*operator.attribute_fields, *operator.output_fields, *operator.output_keywords]
    for keyword, value in keywords.items():
        if keyword not in known:
            raise OperatorError(
                "is not known here",
                code="unknown-field",
                node=node,
                field=keyword,
                allowed=listing(known),
                hint=meant_field(keyword, (*known, *operator.input_fields), value, python=True).hint,
            )
    asked = {key: keywords[key] for key in operator.output_keywords if keywords.get(key) is not None}
    outputs = {field: keywords[field] for field in operator.output_fields if keywords.get(field) is not None}
    if asked:
        output = operator.output_fields[0]
        outputs[output] = dict(outputs.get(output, {})) | asked
    attributes = {key: value for key, value in keywords.items() if key in operator.attribute_fields}
    return attributes, outputs


def outputs_of(operator: type[Operator], values: Sequence[Value | None]) -> Any:
    """What a function returns for a node's outputs, which come in binding order, None for one that is left out.

    That is the value if the node has one output, a tuple of values if they are an array, else the named tuple.
    """
    if True in operator.output_arrays.values():
        return tuple(values)
    if len(values) == 1:
        return values[0]
    present = [value for value in values if value is not None]
    several: Callable[..., Any] | None = outputs_type(operator)
    return present[0] if several is None or len(present) == 1 else several(*values)


def take_tensors(operator: type[Operator], tensors: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """The tensors by field, from the positional arguments and the keywords; removes them from the keywords."""
    fields = operator.input_fields
    if len(tensors) > len(fields):
        raise TypeError(_too_many(operator, tensors, keywords))
    given = dict(zip(fields, tensors, strict=False))
    for field in fields if keywords else ():
        if field in keywords:
            if field in given:
                raise TypeError(f"{operator.function_name()}() got the tensor '{field}' twice")
            given[field] = keywords.pop(field)
    return given


def _too_many(operator: type[Operator], tensors: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The message for too many positional arguments, with the right call."""
    fields, name = operator.input_fields, operator.function_name()
    takes = f"{plural(len(fields), 'tensor')} ({listing(fields)})" if fields else "no tensors"
    text = f"{name}() takes {takes}; got {len(tensors)}"
    given = ", ".join(f"{key}={value!r}" for key, value in keywords.items())
    extra = tensors[len(fields) :]
    if len(fields) == 1 and operator.fields[fields[0]].kind is Kind.TENSORS:
        return f"{text}: write them as a list: {name}([{fields[0]}…]{given and f', {given}'})"
    if all(hasattr(each, "graph") for each in extra):
        return text
    # Required fields come first, because a caller most likely meant these.
    known = sorted(keyword_parameters(operator), key=lambda each: each.default is not inspect.Parameter.empty)
    free = [each.name for each in known if each.name not in keywords]
    named = ", ".join(f"{key}={value!r}" for key, value in zip(free, extra, strict=False))
    written = ", ".join(filter(None, (*fields, named, given)))
    return f"{text}: everything except tensors is given by name: {name}({written})"


@functools.cache
def make_function(operator: type[Operator]) -> Callable[..., Any]:
    """The function of an operator, made once."""
    name = operator.function_name()

    def function(*tensors: Any, name: str | None = None, **keywords: Any) -> Any:
        given = take_tensors(operator, tensors, keywords)
        results = add(_graph_of(given.values(), function.__name__), operator, given, keywords, name)
        return outputs_of(operator, results)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    function.__signature__ = signature(operator)  # type: ignore[attr-defined]
    return function


def _graph_of(tensors: Any, function: str) -> Graph:
    for tensor in tensors:
        graph: Graph | None = getattr(tensor, "graph", None)
        if graph is not None:
            return graph
        for each in tensor if isinstance(tensor, Sequence) and not isinstance(tensor, str) else ():
            found: Graph | None = getattr(each, "graph", None)
            if found is not None:
                return found
    raise OperatorError("needs at least one value of a graph", code="missing", node=function)
