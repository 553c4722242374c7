"""Fused activations: what an operator's FusedActivation field holds."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator

from dmlgraph.base.errors import OperatorError, Problem, listing
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc, refusal
from dmlgraph.operators.catalog.registry import REGISTRY, find
from dmlgraph.operators.declaration.fields import Kind, as_list
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.struct import Member, struct_values


def activation_hint(name: str) -> str:
    """What to write instead of a name that is not an operator, in place of an activation."""
    from dmlgraph.operators.catalog.hints import operator_hint  # it needs all operators

    return operator_hint(name)


@dataclasses.dataclass(frozen=True, repr=False)
class FusedActivation:
    """An activation that its host applies to its result: an operator's attributes, and no tensors.

    Attributes:
        operator: the class of the activation.
        values: the values of its attributes, in the struct's order; axes are as they are given until the host's output
            has a number of dimensions.
    """

    operator: type[Operator]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, operator: type[Operator], attributes: Mapping[str, Any]) -> FusedActivation:
        """From the attributes that are given.

        Raises:
            OperatorError: an attribute is wrong, for any host.
        """
        fields = operator(**dict.fromkeys(operator.input_fields, _result(MAX_RANK)), **attributes).attributes
        for member in operator.members_to_complete:
            axes = attributes.get(member.field)
            fields[member.field] = None if axes is None else tuple(axes)
        return cls(operator, tuple(fields.values()))

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(zip(self.operator.attribute_fields, self.values, strict=True))

    def on(self, desc: TensorDesc) -> Operator:
        """The activation as an operator on tensors of this description.

        Raises:
            OperatorError: its attributes, such as axes, do not fit the tensor.
        """
        return self.operator(**dict.fromkeys(self.operator.input_fields, desc), **self.attributes)

    def fitted(self, output: TensorDesc) -> FusedActivation:
        """The same with axes counted in the host's output, if they fit it; if not, the host's constraints say so."""
        if self.operator.members_to_complete:
            with contextlib.suppress(OperatorError):
                return FusedActivation(self.operator, tuple(self.on(output).attributes.values()))
        return self

    def on_result(self, rank: int) -> Operator:
        """The activation as an operator on a result of this number of dimensions, which is float32."""
        return self.on(_result(rank))

    def struct_values(self) -> Iterator[tuple[Member, Any]]:
        """The members of its C struct in order with their values; its tensors are null."""
        tensors = self.operator.input_fields + self.operator.output_fields
        return struct_values(self.operator.members, dict.fromkeys(tensors) | self.attributes)

    def __repr__(self) -> str:
        return f"{self.operator.__name__}({', '.join(f'{field}={each!r}' for field, each in self.attributes.items())})"


def _result(rank: int) -> TensorDesc:
    return TensorDesc(dtype=DataType.FLOAT32, sizes=(1,) * rank)


def _parse_activation(value: object) -> FusedActivation:
    """A fused activation from its name, a mapping `{op: …, attributes…}`, an operator, or itself."""
    if isinstance(value, FusedActivation):
        return value
    if isinstance(value, Operator):
        return FusedActivation.of(type(value), value.attributes)
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
        return FusedActivation.of(activation, fields)
    except OperatorError as error:
        raise refusal(*error.problems) from None


_Activation = Annotated[FusedActivation, PlainValidator(_parse_activation)]
OptionalActivation = Annotated[_Activation | None, Kind.OPERATOR]
Activations = Annotated[tuple[_Activation, ...], BeforeValidator(as_list), Kind.OPERATORS]


def activation_fits(host: Operator, activation: FusedActivation | None, like: str | None = None) -> Iterator[Problem]:
    """DirectML fuses the activation into the host, or into the operator `like`."""
    if activation is None:
        return
    listed = like or host.dml
    if listed not in activation.operator.support().fusable_into:
        allowed = listing(name for name, each in REGISTRY.items() if listed in each.support().fusable_into)
        message, got = "cannot be fused here", activation.name
        yield Problem(message, code="activation", field="fused_activation", got=got, allowed=allowed)
    else:
        # Its attributes were checked without a tensor; some, such as axes, must fit the host's output.
        try:
            activation.on(host.first_output)
        except OperatorError as error:
            yield from (problem.within("fused_activation") for problem in error.problems)
    if activation is not None and activation.attributes.get("scale_bias") is not None:
        # Measured: CreateOperator refuses both together, and accepts one of them without applying it.
        message = "a fused activation has no scale and bias: DirectML refuses or ignores it"
        yield Problem(message, code="activation", field="fused_activation.scale_bias")


def activation_fits_level(activation: FusedActivation | None, level: FeatureLevel) -> Iterator[Problem]:
    """The activation is fusable at the level, and so are its attributes."""
    if activation is None:
        return
    since = activation.operator.support().fusable_since
    if since is not None and since > level:
        message = f"cannot be fused at feature level {level}; legal from {since}"
        yield Problem(message, code="level", field="fused_activation", got=activation.name)
    of_itself = activation.on_result(MAX_RANK).level_constraints(level)
    yield from (problem.within("fused_activation") for problem in of_itself)


def activate(activation: FusedActivation | None, x: Array, dtype: DataType) -> Array:
    """The activation of a result that is then stored in a tensor of this data type; the result if it is None."""
    return x if activation is None else activation.on_result(x.ndim).apply_fused(x, dtype)
