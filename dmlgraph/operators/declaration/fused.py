"""Fused activations: operators in another's FusedActivation field, with null tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BeforeValidator

from dmlgraph.base.errors import OperatorError, Problem, listing
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, refusal
from dmlgraph.operators.catalog.registry import REGISTRY, find
from dmlgraph.operators.declaration.fields import Kind, as_list
from dmlgraph.operators.declaration.operator import Array, Operator


def activation_hint(name: str) -> str:
    """What to write instead of a name that is not an operator, in place of an activation."""
    from dmlgraph.operators.catalog.hints import operator_hint  # it needs all operators

    return operator_hint(name)


def _parse_activation(value: object) -> Operator | None:
    """A fused activation from its name, a mapping `{op: …, attributes…}`, or an operator with null tensors."""
    if value is None:
        return None
    if isinstance(value, Operator):
        return type(value).fused(**value.attributes)
    attributes = {"op": value} if isinstance(value, str) else value
    if not isinstance(attributes, Mapping) or not isinstance(attributes.get("op"), str):
        problem = Problem("must be the name of an activation, or {op: name, …}", code="kind", got=value)
        raise refusal(problem)
    activation = find(attributes["op"])
    if activation is None:
        problem = Problem(
            "is not an operator", code="unknown-operator", got=attributes["op"], hint=activation_hint(attributes["op"])
        )
        raise refusal(problem)
    fields = {key: each for key, each in attributes.items() if key != "op"}
    tensors = [field for field in activation.input_fields + activation.output_fields if field in fields]
    if tensors:
        raise refusal(
            *(Problem("a fused activation has no tensors", code="activation", field=field) for field in tensors)
        )
    try:
        return activation.fused(**fields)
    except OperatorError as error:
        raise refusal(*error.problems) from None


OptionalActivation = Annotated[Operator | None, BeforeValidator(_parse_activation), Kind.OPERATOR]
Activations = Annotated[
    tuple[Annotated[Operator, BeforeValidator(_parse_activation)], ...], BeforeValidator(as_list), Kind.OPERATORS
]


def activation_fits(host: Operator, activation: Operator | None, like: str | None = None) -> Iterator[Problem]:
    """DirectML fuses the activation into the host, or into the operator `like`."""
    if activation is None:
        return
    listed = like or host.dml
    if listed not in activation.support().fusable_into:
        allowed = listing(name for name, each in REGISTRY.items() if listed in each.support().fusable_into)
        message, got = "cannot be fused here", activation.name
        yield Problem(message, code="activation", field="fused_activation", got=got, allowed=allowed)
    else:
        # Its attributes were checked without a tensor; some, such as axes, must fit the host's output.
        try:
            activation.on(host.first_output)
        except OperatorError as error:
            yield from (problem.within("fused_activation") for problem in error.problems)
    if getattr(activation, "scale_bias", None) is not None:
        # Measured: CreateOperator refuses both together, and accepts one of them without applying it.
        message = "a fused activation has no scale and bias: DirectML refuses or ignores it"
        yield Problem(message, code="activation", field="fused_activation.scale_bias")


def activation_fits_level(activation: Operator | None, level: FeatureLevel) -> Iterator[Problem]:
    """The activation is fusable at the level, and so are its attributes."""
    if activation is None:
        return
    since = activation.support().fusable_since
    if since is not None and since > level:
        message = f"cannot be fused at feature level {level}; legal from {since}"
        yield Problem(message, code="level", field="fused_activation", got=activation.name)
    yield from (problem.within("fused_activation") for problem in activation.level_constraints(level))


def activate(activation: Operator | None, x: Array, dtype: DataType) -> Array:
    """The activation of a result that is then stored in a tensor of this data type; the result if it is None."""
    return x if activation is None else activation.apply_fused(x, dtype)
