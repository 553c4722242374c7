"""Nodes of opsets 1 to 6 as nodes of opset 7: the rules know operators from that one on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from dmlgraph.formats.onnx.node import Ints, Maybe, Node, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.table import bind
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value

RENEWED = 7  # the opset of the new form

Inputs = list[Tensor | None]
Change = tuple[Inputs, dict[str, Any]]  # the inputs, and attributes to set, or to take away by None

# Attributes without a meaning: they told Caffe2 which memory to reuse, and which outputs to compute.
_IDLE = ("consumed_inputs", "output_sequence")


def renew(node: Node) -> None:
    """Gives a node the inputs and attributes of its form in opset 7.

    Raises:
        Refusal: it has no such form.
    """
    changed = dict.fromkeys(_IDLE)
    change = _CHANGES.get(node.operator)
    if change is not None:
        node.inputs, attributes = change(node)
        changed |= attributes
    kept = {name: each for name, each in node.attributes.items() if name not in changed}
    given = {name: each for name, each in changed.items() if each is not None}
    node.attributes = kept | {each.name: each for each in ir.convenience.convert_attributes(given)}
    node.opset = RENEWED


def _broadcasting(node: Node, a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Change:
    """B's dimensions stand under those of A from `axis` on, or under the last ones; then others of size 1 follow."""
    gone = {"broadcast": None, "axis": None}
    if not broadcast:
        if a.shape != b.shape:
            message = "the shapes differ, and the node does not ask for broadcasting"
            raise Refusal(message, code="sizes", got=[[*a.shape], [*b.shape]], allowed="broadcast=1, or one shape")
        return [a, b], gone
    if b.count == 1:
        return [a, _shaped(b, ())], gone
    first = at_axis(a.rank - b.rank if axis is None else axis, a.rank) if b.rank <= a.rank else 0
    under = a.shape[first : first + b.rank]
    if len(under) != b.rank or any(mine not in (1, size) for mine, size in zip(b.shape, under, strict=True)):
        message = f"B's shape is not a part of A's from dimension {first} on"
        raise Refusal(message, code="sizes", field="B", got=[*b.shape], allowed=f"a part of {[*a.shape]}")
    return [a, _shaped(b, (*b.shape, *(1,) * (a.rank - first - b.rank)))], gone


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in another shape."""

    def make(calls: Calls) -> Value:
        return calls.reshaped(x, shape or (1,))

    known = None if x.known is None else x.known.reshape(shape)
    return Tensor(x.dtype, shape, known, make=make, depends=x.depends, name=x.name)


def _product(
    node: Node, a: Tensor, b: Tensor, c: Tensor, *, broadcast: int = 0, transA: int = 0, transB: int = 0
) -> Change:
    shape = [a.shape[1 if transA else 0], b.shape[0 if transB else 1]]
    if not broadcast and list(c.shape) != shape:
        message = "the shape is not the result's, and the node does not ask for broadcasting"
        raise Refusal(message, code="sizes", field="C", got=[*c.shape], allowed=f"broadcast=1, or {shape}")
    return node.inputs, {"broadcast": None}


def _slope(node: Node, x: Tensor, slope: Tensor) -> Change:
    """A slope for each channel."""
    per_channel = x.rank > 1 and slope.shape == x.shape[1:2]
    return [x, _shaped(slope, (*slope.shape, *(1,) * (x.rank - 2))) if per_channel else slope], {}


def _inference(node: Node, *, is_test: int = 1, ratio: float = 0.5) -> Change:
    """Without `is_test` it is taken for inference, as onnx's converter of versions does."""
    if not is_test and ratio != 0:
        raise Refusal("the node is in training", field="is_test", got=0, allowed="1")
    return node.inputs, {"is_test": None}


def _cast_by_name(node: Node, *, to: str | int) -> Change:
    if isinstance(to, int):
        return node.inputs, {}
    types = dict(onnx.TensorProto.DataType.items())
    if to.upper() not in types:
        raise Refusal("ONNX has no such type", code="unknown-dtype", field="to", got=to)
    return node.inputs, {"to": types[to.upper()]}


def _shape_as_input(node: Node, data: Tensor, shape: Ints = None) -> Change:
    if shape is None or isinstance(shape, Tensor):
        return node.inputs, {}
    return [data, Tensor.of(np.asarray(shape, np.int64))], {"shape": None}


def _parts_as_attribute(node: Node, input: Tensor, split: Ints = None) -> Change:
    return [input], {"split": node.ints("split", split)}


def _renamed_padding(node: Node, *, paddings: list[int] | None = None, pads: list[int] | None = None) -> Change:
    return node.inputs, {"paddings": None, "pads": paddings if pads is None else pads}


def _one_axis_repeated(node: Node, input: Tensor, tiles: Tensor, axis: Maybe = None) -> Change:
    """Opset 1: (x, the number of tiles, the axis)."""
    if node.opset >= 6:
        return node.inputs, {}
    repeats = [1] * input.rank
    repeats[at_axis(int(node.scalar(node.there(2, axis))), input.rank)] = int(node.scalar(tiles))
    return [input, Tensor.of(np.asarray(repeats, np.int64))], {}


def _scales_by_name(node: Node, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Change:
    if x.rank != 4:
        raise Refusal("needs an image {N, C, H, W}", code="rank", got=[*x.shape])
    scales = [1.0, 1.0, height_scale, width_scale]
    if not all(math.isfinite(each) and each > 0 for each in scales):
        raise Refusal("must be positive", code="range", field="scales", got=scales)
    sizes = {"height_scale": None, "width_scale": None, "scales": scales}
    return node.inputs, sizes | {"mode": "linear" if mode == "bilinear" else mode}


def _whole_power(node: Node, *, p: float = 2) -> Change:
    if not float(p).is_integer():
        raise unsupported("p", "a whole number", p)
    return node.inputs, {"p": int(p)}


def _defaults(before: int, **values: Any) -> Callable[..., Change]:
    """Those that became others with an opset."""

    def rule(node: Node, **attributes: Any) -> Change:
        return node.inputs, {} if node.opset >= before else {
            name: attributes.get(name, each) for name, each in values.items()
        }

    return rule


_CHANGES: dict[str, Callable[[Node], Change]] = {
    operator: bind(change)
    for operators, change in (
        ("Add And Div Equal Greater Less Mul Or Pow Sub Xor", _broadcasting),
        ("BatchNormalization Dropout", _inference),
        ("GlobalLpPool LpPool", _whole_power),
        ("Concat", _defaults(4, axis=1)),
        ("Selu", _defaults(6, alpha=1.6732, gamma=1.0507)),
        ("Cast", _cast_by_name),
        ("Gemm", _product),
        ("Pad", _renamed_padding),
        ("PRelu", _slope),
        ("Reshape", _shape_as_input),
        ("Split", _parts_as_attribute),
        ("Tile", _one_axis_repeated),
        ("Upsample", _scales_by_name),
    )
    for operator in operators.split()
}
