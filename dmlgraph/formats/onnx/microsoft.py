"""Operators of the domain com.microsoft, which ONNX Runtime's optimizer writes: element-wise, images, indices."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.delegation import channels_first, channels_last, own
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import MOST_COUNTED, viewed
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value

# Activations.

# ONNX's name → the function of dmlgraph and its fields, in the order of a fused operator's parameters.
_FUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "Celu": ("activation_celu", ("alpha",)),
    "Clip": ("clip", ("min", "max")),
    "Elu": ("activation_elu", ("alpha",)),
    "HardSigmoid": ("activation_hard_sigmoid", ("alpha", "beta")),
    "HardSwish": ("activation_hard_swish", ()),
    "LeakyRelu": ("activation_leaky_relu", ("alpha",)),
    "Relu": ("activation_relu", ()),
    "Selu": ("activation_scaled_elu", ("alpha", "gamma")),
    "Sigmoid": ("activation_sigmoid", ()),
    "Softplus": ("activation_softplus", ()),
    "Softsign": ("activation_softsign", ()),
    "Tanh": ("activation_tanh", ()),
    "ThresholdedRelu": ("activation_thresholded_relu", ("alpha",)),
}
_FIXED = {"HardSwish": {"alpha": 1 / 6, "beta": 0.5}}  # fields of an activation without parameters


def activated(node: Node, x: Tensor, parameters: list[float]) -> Tensor:
    """With the activation that the node's attribute names, if it names one."""
    name = str(node.attribute("activation", ""))
    if not name:
        return x
    if name not in _FUSED:
        raise node.refuse("activation", ", ".join(_FUSED), name)
    function, fields = _FUSED[name]
    if len(parameters) < len(fields):
        raise Refusal(
            "the activation needs more parameters", code="missing", field="activation", got=name, allowed=str(fields)
        )
    made = getattr(node.dml, function)(x, **dict(zip(fields, parameters, strict=False)), **_FIXED.get(name, {}))
    return node.tensor(made, x.shape)


@imports("Gelu", domain=MICROSOFT, how="activation_gelu")
def _gelu(node: Node) -> Result:
    return node.tensor(node.dml.activation_gelu(node[0]), node[0].shape)


@imports("BiasGelu", domain=MICROSOFT, how="add, activation_gelu")
def _bias_gelu(node: Node) -> Result:
    return node.tensor(node.dml.activation_gelu(node.dml.add(node[0], node[1])), node.broadcast)


@imports("FastGelu", domain=MICROSOFT, how="multiply, add, activation_tanh")
def _fast_gelu(node: Node) -> Result:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    dml = node.dml
    x = dml.value(node[0]) if node.get(1) is None else dml.add(node[0], node[1])
    cube = dml.multiply(dml.multiply(x, x), dml.multiply(x, 0.044715))
    bent = dml.activation_tanh(dml.multiply(dml.add(x, cube), 0.7978845608028654))
    return node.tensor(dml.multiply(dml.multiply(x, 0.5), dml.add(bent, 1)), node[0].shape)


@imports("QuickGelu", domain=MICROSOFT, how="multiply, activation_sigmoid")
def _quick_gelu(node: Node) -> Result:
    """x · sigmoid(alpha · x)."""
    gate = node.dml.activation_sigmoid(node.dml.multiply(node[0], node.attribute("alpha", 1.702)))
    return node.tensor(node.dml.multiply(node[0], gate), node[0].shape)


@imports("BiasSplitGelu", domain=MICROSOFT, how="add, split, activation_gelu, multiply")
def _bias_split_gelu(node: Node) -> Result:
    """The first half times the gelu of the second, along the last dimension."""
    x = node[0]
    if x.shape[-1] % 2:
        raise Refusal("must have an even last dimension", code="sizes", field="X", got=list(x.shape))
    total = node.dml.add(x, node[1])
    first, second = node.dml.split(total, axis=x.rank - 1, outputs=[x.shape[-1] // 2] * 2)
    return node.tensor(node.dml.multiply(first, node.dml.activation_gelu(second)))


@imports("BiasAdd", domain=MICROSOFT, how="add")
def _bias_add(node: Node) -> Result:
    return node.tensor(node.dml.add(node.dml.add(node[0], node[1]), node[2]), node[0].shape)


# Images.


@imports("FusedConv", domain=MICROSOFT, how="convolution, add, an activation")
def _fused_conv(node: Node) -> Result:
    """Activation(convolution + Z)."""
    made, z = own(node, "Conv", node[0], node[1], node.get(2)), node.get(3)
    if z is not None:
        made = node.tensor(node.dml.add(made, z), made.shape)
    return activated(node, made, node.attribute("activation_params", []))


@imports("ConvTransposeWithDynamicPads", domain=MICROSOFT, how="as ONNX's ConvTranspose; known padding only")
def _conv_transpose(node: Node) -> Result:
    pads = None if node.get(2) is None else [int(each) for each in node.known(2).ravel()]
    return own(node, "ConvTranspose", node[0], node[1], node.get(3), pads=pads)


@imports("NhwcMaxPool", domain=MICROSOFT, how="max_pooling2, transpose")
def _nhwc_max_pool(node: Node) -> Result:
    return channels_last(node, own(node, "MaxPool", channels_first(node, node[0])))


@imports("GridSample", domain=MICROSOFT, how="as ONNX's GridSample")
def _grid_sample(node: Node) -> Result:
    return own(node, "GridSample", node[0], node[1])


@imports("CropAndResize", domain=MICROSOFT, how="gather, gemm with weights computed from the rois, if_")
def _crop_and_resize(node: Node) -> Result:
    """Inputs: x {N, C, H, W}, rois {R, 4} as parts of the image, batch_indices {R}, crop_size; result {R, C, …}."""
    dml, (x, rois) = node.dml, (node[0], node[1])
    mode, crop = str(node.attribute("mode", "bilinear")), [int(each) for each in node.known(3).ravel()]
    if mode not in ("bilinear", "nearest"):
        raise node.refuse("mode", "bilinear, nearest", mode)
    if len(crop) != 2 or min(crop) < 1 or max(crop) > MOST_COUNTED:
        raise Refusal("needs a positive height and width", code="range", field="crop_size", got=crop)
    images = dml.value(own(node, "Gather", x, node[2], axis=0))
    corners = dml.split(rois, axis=1, outputs=[1] * 4)
    made, inside = images, None
    for axis in (0, 1):
        places = _places(dml, corners[axis], corners[axis + 2], x.shape[2 + axis], crop[axis])
        weights = _weights(dml, places, x.shape[2 + axis], mode == "nearest")
        sizes = (rois.shape[0], x.shape[1], *weights.sizes[1:])
        weights = dml.expanded(dml.reshaped(weights, (rois.shape[0], 1, *weights.sizes[1:])), sizes)
        made = dml.gemm(weights, made) if axis == 0 else dml.gemm(made, weights, trans_b="transpose")
        within = dml.logical_equals(places, dml.clip(places, min=0, max=x.shape[2 + axis] - 1), dtype="uint8")
        within = dml.reshaped(within, (rois.shape[0], 1, crop[0], 1) if axis == 0 else (rois.shape[0], 1, 1, crop[1]))
        inside = within if inside is None else dml.logical_and(inside, within)
    outside = Tensor.of(np.full((1, 1, 1, 1), node.attribute("extrapolation_value", 0.0), x.dtype))
    return node.tensor(dml.if_(inside, made, outside))


def _places(dml: Calls, first: Value, last: Value, size: int, count: int) -> Value:
    """Where a crop reads along a dimension, {R, count, 1}, in elements; the corners are {R, 1}."""
    if count == 1:
        place = dml.multiply(dml.add(first, last), (size - 1) / 2)
    else:
        step = dml.multiply(dml.subtract(last, first), (size - 1) / (count - 1))
        steps = dml.multiply(step, Tensor.of(np.arange(count, dtype=np.float32)[None]))
        place = dml.add(dml.multiply(first, size - 1), steps)
    return dml.reshaped(place, (first.sizes[0], count, 1))


def _weights(dml: Calls, places: Value, size: int, nearest: bool) -> Value:
    """What each element counts at each place: {R, count, size}."""
    elements = Tensor.of(np.arange(size, dtype=np.float32)[None, None])
    if nearest:
        places = dml.floor(dml.add(places, 0.5))
    away = dml.abs(dml.subtract(places, elements))
    made: Value = dml.clip(dml.subtract(1, away), min=0, max=1)
    return made


# Indices and shapes.


@imports("GatherND", domain=MICROSOFT, how="as ONNX's GatherND")
def _gather_nd(node: Node) -> Result:
    return own(node, "GatherND", node[0], node[1])


@imports("Pad", domain=MICROSOFT, how="as ONNX's Pad")
def _pad(node: Node) -> Result:
    return own(node, "Pad", node[0], node[1], node.get(2))


@imports("Trilu", domain=MICROSOFT, how="as ONNX's Trilu")
def _trilu(node: Node) -> Result:
    return own(node, "Trilu", node[0], node.get(1))


@imports("Range", domain=MICROSOFT, how="as ONNX's Range; the step is 1 by default")
def _range(node: Node) -> Result:
    step = node.get(2)
    return own(node, "Range", node[0], node[1], Tensor.of(np.ones((), node[0].dtype)) if step is None else step)


@imports("ExpandDims", domain=MICROSOFT, how="reshape")
def _expand_dims(node: Node) -> Result:
    return own(node, "Unsqueeze", node[0], Tensor.of(np.array([node.scalar(1)])))


# Fourier transforms along the last dimension.


def _check_transform(node: Node) -> None:
    for name, allowed in (("onesided", 1), ("normalized", 0), ("signal_ndim", 1)):
        if node.attribute(name, allowed) != allowed:
            raise node.refuse(name, str(allowed))


@imports("Rfft", domain=MICROSOFT, how="as ONNX's DFT")
def _rfft(node: Node) -> Result:
    _check_transform(node)
    x = node[0]
    return own(node, "DFT", viewed(node, x, (*x.shape, 1)), opset=17, axis=x.rank - 1, onesided=1)


@imports("Irfft", domain=MICROSOFT, how="as ONNX's DFT")
def _irfft(node: Node) -> Result:
    _check_transform(node)
    made = own(node, "DFT", node[0], opset=17, axis=node[0].rank - 2, onesided=1, inverse=1)
    return viewed(node, made, made.shape[:-1])
