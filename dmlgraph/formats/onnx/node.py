"""A node of a model, as its rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import onnx
import onnx_ir as ir

from dmlgraph.formats.onnx.folding import numbers
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, parse_dtype
from dmlgraph.graph.value import Value

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
Maybe = Tensor | None  # an input that may be left out
Ints = Tensor | Sequence[int] | None  # whole numbers of an input, or of the attribute that it was before
Result = Tensor | Value | Array | Sequence["Tensor | Value | Array | None"]


class Node(Calls):
    """A node with its attributes and inputs; the functions of `dmlgraph` add nodes to the graph.

    Attributes:
        operator: its ONNX operator.
        domain: the operator's; "" for ONNX's own.
        opset: the version of the domain.
        inputs: its tensors; None for an optional one that is left out.
        outputs: which of its outputs are asked for.
        attributes: those that are given.
        run: imports a subgraph of the node.
        dtype_of: the type in place of a type, by the `convert` of the import.
        source: the node as it is in the model.
        appends: which of its outputs only say what is appended to a state: nothing reads them.
        padded_rows: how many of the first rows of each sequence in a cache are padding, uint32 {B}; None for none.

    Args:
        calls: the arguments of `Calls`.
        source, opset, inputs, attributes, run, dtype_of, appends, padded_rows: as above.
    """

    def __init__(
        self,
        *calls: Any,
        source: ir.Node,
        opset: int,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, ir.Attr],
        run: Callable[..., list[Tensor]],
        dtype_of: Callable[[np.dtype[Any]], np.dtype[Any]],
        appends: frozenset[int] = frozenset(),
        padded_rows: Value | None = None,
    ) -> None:
        super().__init__(*calls)
        self.source, self.operator, self.domain, self.opset = source, source.op_type, source.domain, opset
        self.inputs, self.attributes, self.run, self.dtype_of = list(inputs), attributes, run, dtype_of
        self.appends, self.padded_rows = appends, padded_rows
        self.outputs = [bool(each.uses() or each.is_graph_output()) for each in source.outputs]

    def proto(self, *, with_graphs: bool = False) -> onnx.NodeProto:
        """The node for ONNX's own functions."""
        made = onnx.NodeProto(op_type=self.operator, domain=self.domain, name=self.source.name or "")
        made.input.extend("" if each is None else f"x{index}" for index, each in enumerate(self.inputs))
        made.output.extend(f"y{index}" if each.name else "" for index, each in enumerate(self.source.outputs))
        given = (each for each in self.attributes.values() if with_graphs or each.type not in _GRAPHS)
        made.attribute.extend(map(ir.serde.serialize_attribute, given))
        return made

    @property
    def depends(self) -> frozenset[str]:
        """The model's inputs from which the outputs are computed."""
        return frozenset[str]().union(*(each.depends for each in self.given))

    @property
    def given(self) -> list[Tensor]:
        """The inputs that are not left out."""
        return [each for each in self.inputs if each is not None]

    @staticmethod
    def there(index: int, tensor: Maybe) -> Tensor:
        """An input that must be there."""
        if tensor is None:
            raise Refusal("an input is missing", code="missing", field=f"input {index}")
        return tensor

    def wants(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self.outputs) and self.outputs[index]

    def known(self, tensor: Tensor) -> Array:
        """The numbers of an input.

        Raises:
            Refusal: they are known only when the model runs.
        """
        known = numbers(tensor)
        if known is None:
            message = f"{self.place(tensor)} must be known when the model is imported"
            hint = give_values(tensor.depends)
            raise Refusal(message, code="unknown-value", got=tensor.name or None, hint=hint)
        return known

    def scalar(self, tensor: Maybe, default: Any = None) -> Any:
        """The only number of a known input; `default` if it is left out."""
        if tensor is None:
            return default
        array = self.known(tensor)
        if array.size != 1:
            got = list(array.shape)
            raise Refusal("must have one element", code="count", field=self.place(tensor), got=got)
        return array.reshape(()).item()

    def place(self, tensor: Tensor) -> str:
        """Which of the inputs a tensor is."""
        return f"input {next(at for at, each in enumerate(self.inputs) if each is tensor)}"

    @overload
    def ints(self, name: str, given: Ints, default: Sequence[int], *, counts: Sequence[int] = ()) -> list[int]: ...

    @overload
    def ints(self, name: str, given: Ints, default: None = None, *, counts: Sequence[int] = ()) -> list[int] | None: ...

    def ints(
        self, name: str, given: Ints, default: Sequence[int] | None = None, *, counts: Sequence[int] = ()
    ) -> list[int] | None:
        """Whole numbers, of an attribute or a known input, which has the name.

        Raises:
            Refusal: it is not one of `counts`, if these are given.
        """
        if given is None:
            return None if default is None else list(default)
        found = [int(each) for each in (self.known(given).ravel() if isinstance(given, Tensor) else given)]
        return counted(name, found, counts) if counts else found

    @property
    def broadcast(self) -> tuple[int, ...]:
        """The shape to which all inputs broadcast."""
        return broadcast(self.given)

    def tensor(self, value: Any, shape: Sequence[int] | None = None) -> Tensor:
        """A result with its ONNX shape, which may be () and may have other sizes than the value."""
        made = self.value(value)
        shape = made.sizes if shape is None else tuple(shape)
        value = self.reshaped(value, shape or (1,))
        return Tensor(value.dtype.numpy, shape, made=value)


def counted(name: str, numbers: Sequence[int], counts: Sequence[int]) -> list[int]:
    """The whole numbers of an attribute or input.

    Raises:
        Refusal: it is not one of these counts.
    """
    if len(numbers) not in counts:
        allowed = " or ".join(map(str, counts))
        raise Refusal("has another count of numbers", code="count", field=name, got=list(numbers), allowed=allowed)
    return list(numbers)


def numbered_dtype(name: str, number: int) -> np.dtype[Any]:
    """The type that an attribute gives by ONNX's number of it.

    Raises:
        Refusal: it is not the number of a type of numbers.
    """
    try:
        found = ir.DataType(number)
    except ValueError:
        raise Refusal("is not the number of a data type", code="range", field=name, got=number) from None
    return parse_dtype(found.name.lower())


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
