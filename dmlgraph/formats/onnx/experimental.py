"""Operators that ONNX had for trial and removed in opset 10: models for Windows ML and of Caffe2 have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.normalization import MEAN_VARIANCE_EPSILON
from dmlgraph.formats.onnx.one_to_one import applied
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.shapes import Slice, sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor

LAST = 9  # the last opset that may have them


def _activation(function: str, **fields: float | None) -> Callable[..., Tensor]:
    """The attributes are fields of that name; without a default they must be given."""

    def rule(node: Node, x: Tensor, **attributes: Any) -> Tensor:
        given = {name: _number(name, attributes.get(name, default)) for name, default in fields.items()}
        return applied(node, function, x, **given)

    return rule


for _name, _function, _fields in (
    ("Affine", "activation_linear", {"alpha": 1.0, "beta": 0.0}),
    ("ParametricSoftplus", "activation_parametric_softplus", {"alpha": None, "beta": None}),
    ("ScaledTanh", "activation_scaled_tanh", {"alpha": None, "beta": None}),
):
    imports(_name, how=_function, until=LAST)(_activation(_function, **_fields))


# No schema has checked the attributes.


def _number(name: str, value: Any) -> float:
    if value is None:
        raise Refusal("an attribute is missing", code="missing", field=name)
    if not isinstance(value, (int, float)):
        raise Refusal("must be a number", code="kind", field=name, got=value)
    return float(value)


def _whole(name: str, value: Any, count: int) -> list[int]:
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value) or len(value) != count:
        raise Refusal(f"must be {count} whole numbers", code="kind", field=name, got=value)
    return value


def _numbers(name: str, value: Any) -> list[float]:
    if not isinstance(value, list) or not all(isinstance(each, (int, float)) for each in value):
        raise Refusal("must be numbers", code="kind", field=name, got=value)
    return value


@imports(how="multiply", until=LAST)
def Scale(node: Node, input: Tensor, *, scale: Any = 1.0) -> Tensor:
    return node.tensor(node.multiply(input, _number("scale", scale)), input.shape)


VALUE_SCALE_CHANNELS = (1, 3)  # that VALUE_SCALE_2D takes


@imports(how="value_scale_2d; of other than 1 or 3 channels multiply, add", until=LAST)
def ImageScaler(node: Node, input: Tensor, *, scale: Any = 1.0, bias: Any = None) -> Tensor:
    factor, added = _number("scale", scale), _numbers("bias", [] if bias is None else bias)
    if input.rank != 4 or len(added) != input.shape[1]:
        allowed = "a number for each channel of an image {N, C, H, W}"
        raise Refusal("the bias does not fit the image", code="count", field="bias", got=added, allowed=allowed)
    if len(added) in VALUE_SCALE_CHANNELS:
        return node.tensor(node.value_scale_2d(input, scale=factor, bias=added))
    by_channel = Tensor.of(np.reshape(added, (1, -1, 1, 1)).astype(input.dtype))
    return node.tensor(node.add(node.multiply(input, factor), by_channel))


@imports(how="slice1", until=LAST)
def Crop(node: Node, input: Tensor, *, border: Any, scale: Any = None) -> Tensor:
    """Cuts a border {left, top, right, bottom} off; or what is behind a height and a width, if `scale` gives them."""
    left, top, right, bottom = _whole("border", border, 4)
    if input.rank != 4:
        raise Refusal("needs an image {N, C, H, W}", code="rank", got=list(input.shape))
    height, width = input.shape[2:]
    rows, columns = (top, height - bottom), (left, width - right)
    if scale is not None:
        kept = _whole("scale", scale, 2)
        rows, columns = (top, top + kept[0]), (left, left + kept[1])
    for (first, last), size in ((rows, height), (columns, width)):
        if not 0 <= first < last <= size:
            got = [*rows, *columns]
            message = "the part must lie in the image"
            raise Refusal(message, code="range", field="border", got=got, allowed=str(size))
    return sliced(node, input, [slice(None), slice(None), slice(*rows), slice(*columns)])


@imports(how="as Slice", until=LAST)
def DynamicSlice(node: Node, data: Tensor, starts: Tensor, ends: Tensor, axes: Maybe = None) -> Tensor:
    return Slice(node, data, starts, ends, axes)


@imports(how="mean_variance_normalization1", until=8)
def MeanVarianceNormalization(
    node: Node, input: Tensor, *, across_channels: Any = 0, normalize_variance: Any = 1
) -> Tensor:
    """Of each channel over the batch, too, as ONNX Runtime does it; or of all numbers."""
    if not 2 <= input.rank <= 4:
        raise Refusal("needs an image {N, C, H, W}", code="rank", got=list(input.shape))
    fields: dict[str, Any] = {"axes": [axis for axis in range(input.rank) if axis != 1 or across_channels]}
    fields |= {"normalize_variance": bool(normalize_variance), "epsilon": MEAN_VARIANCE_EPSILON}
    return applied(node, "mean_variance_normalization1", input, **fields)


@imports(how="known", until=LAST)
def GivenTensorFill(node: Node, shape_input: Maybe = None, *, values: Any = None, **attributes: Any) -> Tensor:
    shape, numbers = _fill_shape(node, shape_input, **attributes), _numbers("values", [] if values is None else values)
    if len(numbers) != math.prod(shape):
        message = "the shape has another number of elements"
        raise Refusal(message, code="count", field="values", got=len(numbers), allowed=str(math.prod(shape)))
    return Tensor.of(np.reshape(numbers, shape).astype(np.float32))


_FILLS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}


@imports(how="fill_value_constant", until=LAST)
def ConstantFill(
    node: Node, shape_input: Maybe = None, *, dtype: Any = 1, value: Any = 0.0, **attributes: Any
) -> Array:
    to = _number("dtype", dtype)
    if to not in _FILLS:
        raise unsupported("dtype", ", ".join(map(str, _FILLS)), dtype)
    number: Array = np.asarray(_number("value", value)).astype(_FILLS[int(to)])
    return np.broadcast_to(number, _fill_shape(node, shape_input, **attributes))


def _fill_shape(
    node: Node, given: Maybe, *, extra_shape: Any = None, input_as_shape: Any = 0, shape: Any = None, **_: Any
) -> list[int]:
    """The attribute `shape`, or the shape of the input or the numbers in it, with `extra_shape` behind."""
    sizes = [int(each) for each in _numbers("shape", [] if shape is None else shape)]
    if given is not None:
        sizes = [int(each) for each in (node.known(given).ravel() if input_as_shape else given.shape)]
    sizes += [int(each) for each in _numbers("extra_shape", [] if extra_shape is None else extra_shape)]
    if min(sizes, default=1) < 1:
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", field="shape", got=sizes)
    return sizes
