"""A node of a model, as its rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.formats.onnx.folding import numbers
from dmlgraph.formats.onnx.numbers import elements
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, parse_dtype
from dmlgraph.graph.value import Value

Result = Tensor | Value | Array | Sequence["Tensor | Value | Array | None"]


class Node:
    """A node with its attributes and inputs; `dml` adds nodes to the graph.

    Attributes:
        operator: its ONNX operator.
        domain: the operator's; "" for ONNX's own.
        opset: the version of the domain.
        inputs: its tensors; None for an optional one that is left out.
        outputs: which of its outputs are asked for.
        attributes: those that are given.
        dml: the functions of `dmlgraph`, with the node's label for names.
        run: imports a subgraph of the node.
        converted: the type in place of a type, by the `convert` of the import.
    """

    def __init__(
        self,
        operator: str,
        domain: str,
        opset: int,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[bool],
        attributes: Mapping[str, ir.Attr],
        dml: Calls,
        run: Callable[..., list[Tensor]],
        converted: Callable[[np.dtype[Any]], np.dtype[Any]],
    ) -> None:
        self.operator, self.domain, self.opset = operator, domain, opset
        self.inputs, self.outputs, self.attributes = list(inputs), list(outputs), attributes
        self.dml, self.run, self.converted = dml, run, converted

    def get(self, index: int) -> Tensor | None:
        """An input; None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def __getitem__(self, index: int) -> Tensor:
        """An input that must be there."""
        tensor = self.get(index)
        if tensor is None:
            raise Refusal("an input is missing", code="missing", field=f"input {index}")
        return tensor

    @property
    def given(self) -> list[Tensor]:
        """The inputs that are not left out."""
        return [each for each in self.inputs if each is not None]

    def wants(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self.outputs) and self.outputs[index]

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute: a number, text, a list of these, or an array."""
        found = self.attributes.get(name)
        if found is None or found.value is None:
            return default
        if found.type is ir.AttributeType.TENSOR:  # isinstance is slow with onnx-ir's protocols
            return elements(found.value)
        return list(found.value) if isinstance(found.value, tuple) else found.value

    def required(self, name: str) -> Any:
        """The value of an attribute that must be given."""
        value = self.attribute(name)
        if value is None:
            raise Refusal("an attribute is missing", code="missing", field=name)
        return value

    def dtype(self, name: str, default: int | None = None) -> np.dtype[Any]:
        """The type that an attribute gives by ONNX's number of it.

        Raises:
            Refusal: it is missing, or 0, and has no default, or is not the number of a type of numbers.
        """
        number = (self.attribute(name) or default) if default is not None else self.required(name)
        try:
            found = ir.DataType(number)
        except ValueError:
            raise Refusal("is not the number of a data type", code="range", field=name, got=number) from None
        return parse_dtype(found.name.lower())

    def known(self, index: int) -> Array:
        """The numbers of an input.

        Raises:
            Refusal: they are known only when the model runs.
        """
        tensor = self[index]
        known = numbers(tensor)
        if known is None:
            raise Refusal(
                f"input {index} must be known when the model is imported",
                code="unknown-value",
                got=tensor.name or None,
                hint=give_values(tensor.depends),
            )
        return known

    def scalar(self, index: int, default: Any = None) -> Any:
        """The only number of a known input; `default` if it is left out."""
        if self.get(index) is None:
            return default
        array = self.known(index)
        if array.size != 1:
            raise Refusal("must have one element", code="count", field=f"input {index}", got=list(array.shape))
        return array.reshape(()).item()

    def ints(
        self, name: str, index: int | None = None, default: Sequence[int] | None = None, *, counts: Sequence[int] = ()
    ) -> list[int] | None:
        """Whole numbers, from an attribute or, if that is missing, from a known input.

        Raises:
            Refusal: there are none of `counts`, if these are given.
        """
        value = self.attribute(name)
        if value is None and index is not None and self.get(index) is not None:
            value = self.known(index)
        if value is None:
            return None if default is None else list(default)
        found = [int(each) for each in np.asarray(value).ravel()]
        if counts and len(found) not in counts:
            allowed = " or ".join(map(str, counts))
            raise Refusal("has another count of numbers", code="count", field=name, got=found, allowed=allowed)
        return found

    @property
    def broadcast(self) -> tuple[int, ...]:
        """The shape to which all inputs broadcast."""
        return broadcast(self.given)

    def axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """The axis attribute, counted from the first."""
        return at_axis(self.attribute(name, default), self[0].rank if rank is None else rank)

    def tensor(self, value: Any, shape: Sequence[int] | None = None) -> Tensor:
        """A result with its ONNX shape, which may be () and may have other sizes than the value."""
        made: Value = self.dml.value(value)
        shape = made.sizes if shape is None else tuple(shape)
        value = self.dml.reshaped(value, shape or (1,))
        return Tensor(value.dtype.numpy, shape, made=value)

    def refuse(self, attribute: str, allowed: str, got: object = None) -> Refusal:
        """The refusal of an attribute's value."""
        value = self.attribute(attribute) if got is None else got
        return Refusal(
            "has no counterpart in DirectML", code="unsupported", field=attribute, got=value, allowed=allowed
        )


def broadcast(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape to which tensors broadcast."""
    try:
        return tuple(np.broadcast_shapes(*(each.shape for each in tensors)))
    except ValueError:
        shapes = [list(each.shape) for each in tensors]
        raise Refusal("the shapes do not broadcast", code="sizes", got=shapes) from None


def at_axis(axis: int, rank: int, *, last: int = 0) -> int:
    """An axis counted from the first; `last` is how far it may lie beyond the last one.

    Raises:
        Refusal: there is no such axis.
    """
    if not -rank - last <= axis < rank + last:
        raise Refusal("there is no such axis", code="range", field="axis", got=axis, allowed=f"{-rank} to {rank - 1}")
    return axis + rank + last if axis < 0 else axis
