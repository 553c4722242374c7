"""Operators that ONNX had for trial and removed in opset 10: models for Windows ML and of Caffe2 have them."""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.formats.onnx.delegation import own
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.normalization import MEAN_VARIANCE_EPSILON
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor

LAST = 9  # the last opset that may have them

# ONNX's name → the function of dmlgraph, and the attributes with their defaults, which are fields of that name; None
# must be given.
_ACTIVATIONS: dict[str, tuple[str, dict[str, float | None]]] = {
    "Affine": ("activation_linear", {"alpha": 1.0, "beta": 0.0}),
    "ParametricSoftplus": ("activation_parametric_softplus", {"alpha": None, "beta": None}),
    "ScaledTanh": ("activation_scaled_tanh", {"alpha": None, "beta": None}),
}


def _activation(node: Node) -> Result:
    function, fields = _ACTIVATIONS[node.operator]
    given = {name: _number(node, name, default) for name, default in fields.items()}
    return node.tensor(getattr(node.dml, function)(node[0], **given), node[0].shape)


for _name, (_function, _) in _ACTIVATIONS.items():
    imports(_name, how=_function, until=LAST)(_activation)


def _number(node: Node, name: str, default: float | None = None) -> float:
    """A number of an attribute, which no schema has checked; without a default it must be given."""
    value = node.required(name) if default is None else node.attribute(name, default)
    if not isinstance(value, (int, float)):
        raise Refusal("must be a number", code="kind", field=name, got=value)
    return float(value)


def _whole(node: Node, name: str, count: int) -> list[int]:
    """Whole numbers of an attribute; their number."""
    value = node.required(name)
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value) or len(value) != count:
        raise Refusal(f"must be {count} whole numbers", code="kind", field=name, got=value)
    return value


def _numbers(node: Node, name: str) -> list[float]:
    value = node.attribute(name, [])
    if not isinstance(value, list) or not all(isinstance(each, (int, float)) for each in value):
        raise Refusal("must be numbers", code="kind", field=name, got=value)
    return value


@imports("Scale", how="multiply", until=LAST)
def _scale(node: Node) -> Result:
    return node.tensor(node.dml.multiply(node[0], _number(node, "scale", 1.0)), node[0].shape)


VALUE_SCALE_CHANNELS = (1, 3)  # that VALUE_SCALE_2D takes


@imports("ImageScaler", how="value_scale_2d; of other than 1 or 3 channels multiply, add", until=LAST)
def _image_scaler(node: Node) -> Result:
    x, scale, bias = node[0], _number(node, "scale", 1.0), _numbers(node, "bias")
    if x.rank != 4 or len(bias) != x.shape[1]:
        allowed = "a number for each channel of an image {N, C, H, W}"
        raise Refusal("the bias does not fit the image", code="count", field="bias", got=bias, allowed=allowed)
    if len(bias) in VALUE_SCALE_CHANNELS:
        return node.tensor(node.dml.value_scale_2d(x, scale=scale, bias=bias))
    added = Tensor.of(np.reshape(bias, (1, -1, 1, 1)).astype(x.dtype))
    return node.tensor(node.dml.add(node.dml.multiply(x, scale), added))


@imports("Crop", how="slice1", until=LAST)
def _crop(node: Node) -> Result:
    """Cuts a border {left, top, right, bottom} off; or what is behind a height and a width, if `scale` gives them."""
    x, (left, top, right, bottom) = node[0], _whole(node, "border", 4)
    if x.rank != 4:
        raise Refusal("needs an image {N, C, H, W}", code="rank", got=list(x.shape))
    height, width = x.shape[2:]
    rows, columns = (top, height - bottom), (left, width - right)
    if node.attribute("scale") is not None:
        kept = _whole(node, "scale", 2)
        rows, columns = (top, top + kept[0]), (left, left + kept[1])
    for (first, last), size in ((rows, height), (columns, width)):
        if not 0 <= first < last <= size:
            raise Refusal(
                "the part must lie in the image", code="range", field="border", got=[*rows, *columns], allowed=str(size)
            )
    return sliced(node.dml, x, [slice(None), slice(None), slice(*rows), slice(*columns)])


@imports("DynamicSlice", how="as Slice", until=LAST)
def _dynamic_slice(node: Node) -> Result:
    return own(node, "Slice", node[0], node[1], node[2], node.get(3), opset=10)


@imports("MeanVarianceNormalization", how="mean_variance_normalization1", until=8)
def _mean_variance(node: Node) -> Result:
    """Of each channel over the batch, too, as ONNX Runtime does it; or of all numbers."""
    x, across = node[0], node.attribute("across_channels", 0)
    if not 2 <= x.rank <= 4:
        raise Refusal("needs an image {N, C, H, W}", code="rank", got=list(x.shape))
    axes = [axis for axis in range(x.rank) if axis != 1 or across]
    scaled = bool(node.attribute("normalize_variance", 1))
    made = node.dml.mean_variance_normalization1(x, axes=axes, normalize_variance=scaled, epsilon=MEAN_VARIANCE_EPSILON)
    return node.tensor(made, x.shape)


@imports("GivenTensorFill", how="known", until=LAST)
def _given_fill(node: Node) -> Result:
    shape, values = _fill_shape(node), _numbers(node, "values")
    if len(values) != math.prod(shape):
        message = "the shape has another number of elements"
        raise Refusal(message, code="count", field="values", got=len(values), allowed=str(math.prod(shape)))
    return Tensor.of(np.reshape(values, shape).astype(np.float32))


@imports("ConstantFill", how="fill_value_constant", until=LAST)
def _constant_fill(node: Node) -> Result:
    types = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}
    to = _number(node, "dtype", 1)
    if to not in types:
        raise node.refuse("dtype", ", ".join(map(str, types)))
    value: Array = np.asarray(_number(node, "value", 0.0)).astype(types[int(to)])
    return np.broadcast_to(value, _fill_shape(node))


def _fill_shape(node: Node) -> list[int]:
    """The attribute `shape`, or the shape of the input or the numbers in it, with `extra_shape` behind."""
    shape = [int(each) for each in _numbers(node, "shape")]
    if node.get(0) is not None:
        as_shape = node.attribute("input_as_shape", 0)
        shape = [int(each) for each in (node.known(0).ravel() if as_shape else node[0].shape)]
    shape += [int(each) for each in _numbers(node, "extra_shape")]
    if min(shape, default=1) < 1:
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", field="shape", got=shape)
    return shape
