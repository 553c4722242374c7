"""Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from dmlgraph.formats.onnx.folding import evaluate
from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor

MOST_NUMBERS = 1 << 24  # of a matrix
MOST_RESAMPLED = 4  # dimensions that RESAMPLE2 takes
Offsets = tuple[float, float, float]  # scale, input pixel offset, output pixel offset


@imports("Upsample", until=9, how="resample2")
def _upsample(node: Node) -> Result:
    scales = node.attribute("scales") or _factors(node, 1, node[0].rank)
    return _scaled_up_or_down(node, scales)


@imports("Resize", since=10, until=10, how="resample2")
def _resize_10(node: Node) -> Result:
    return _scaled_up_or_down(node, _factors(node, 1, node[0].rank))


def _scaled_up_or_down(node: Node, scales: list[float]) -> Result:
    """Resize before opset 11, which leaves the rounding open: as in ONNX Runtime, up along dimensions that shrink."""
    x = node[0]
    _check_factors(scales, x.rank)
    if str(node.attribute("mode", "nearest")) == "nearest":
        fewer = [min(scale, 1.0) for scale in scales]
        x = _resampled(node, x, [_scaled(*each) for each in zip(x.shape, fewer, strict=True)], fewer, nearest="ceil")
        scales = [max(scale, 1.0) for scale in scales]
    return _resampled(node, x, [_scaled(*each) for each in zip(x.shape, scales, strict=True)], scales)


@imports("Resize", since=11, how="resample2; cubic, antialiased, cropped: gemm with constants")
def _resize(node: Node) -> Result:
    x = node[0]
    axes = [at_axis(axis, x.rank) for axis in node.ints("axes", default=range(x.rank)) or []]
    wanted = node.ints("sizes", 3, counts=[len(axes), 0])
    sizes, scales = list(x.shape), [1.0] * x.rank
    if wanted:
        if 0 in x.shape:
            raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=[*x.shape])
        policy = str(node.attribute("keep_aspect_ratio_policy", "stretch"))
        ratios = [size / x.shape[axis] for size, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            same = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [same] * len(axes)
            wanted = [math.floor(same * x.shape[axis] + 0.5) for axis in axes]
        given = list(zip(axes, wanted, ratios, strict=True))
    else:
        factors = _factors(node, 2, len(axes))
        given = [(axis, _scaled(x.shape[axis], each), each) for axis, each in zip(axes, factors, strict=True)]
    for axis, size, scale in given:
        sizes[axis], scales[axis] = size, scale
    coordinates = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    nearest = str(node.attribute("nearest_mode", "round_prefer_floor"))
    return _resampled(node, x, sizes, scales, coordinates, nearest)


def _factors(node: Node, index: int, count: int) -> list[float]:
    """The known scales of a number of axes."""
    factors = [float(each) for each in node.known(index)]
    _check_factors(factors, count)
    return factors


def _check_factors(factors: Sequence[float], count: int) -> None:
    if len(factors) != count:
        message = "needs a number for each axis"
        raise Refusal(message, code="count", field="scales", got=list(factors), allowed=f"{count}")
    if not all(0 < each < math.inf for each in factors):
        raise Refusal("must be finite and above 0", code="range", field="scales", got=list(factors))


def _scaled(size: int, scale: float) -> int:
    """A size times a scale, in float32: 5 times the number nearest to 1.4 is 7 and not less."""
    return math.floor(np.float32(size) * np.float32(scale))


def _resampled(
    node: Node,
    x: Tensor,
    sizes: list[int],
    scales: list[float],
    coordinates: str = "asymmetric",
    nearest: str = "floor",
) -> Tensor:
    mode = str(node.attribute("mode", "nearest"))
    if 0 in sizes:
        return Tensor.of(np.empty(sizes, x.dtype))
    if list(x.shape) == sizes and set(scales) == {1.0}:
        return x
    if mode == "cubic" or node.attribute("antialias", 0) or coordinates == "tf_crop_and_resize":
        return _by_matrices(node, sizes, scales)
    if mode not in ("nearest", "linear"):
        raise node.refuse("mode", "nearest, linear, cubic", mode)
    places = [
        _place(node, coordinates, size, count, scale) for size, count, scale in zip(x.shape, sizes, scales, strict=True)
    ]
    direction, shift = "increasing", 0.0
    if mode == "nearest":
        modes = {
            "round_prefer_floor": ("increasing", 0.5),  # ceil(c - 0.5)
            "round_prefer_ceil": ("decreasing", -0.5),  # floor(c + 0.5)
            "ceil": ("increasing", 0.0),
            "floor": ("decreasing", 0.0),
        }
        if nearest not in modes:
            raise node.refuse("nearest_mode", ", ".join(modes), nearest)
        direction, shift = modes[nearest]
    fields = {
        "sizes": sizes,
        "interpolation_mode": "nearest_neighbor" if mode == "nearest" else "linear",
        "rounding_direction": direction,
        "scales": [scale for scale, _, _ in places],
        "input_pixel_offsets": [offset + shift for _, offset, _ in places],
        "output_pixel_offsets": [offset for _, _, offset in places],
    }
    kept = _kept_dimensions(x.shape, sizes)
    if kept == 0:
        return node.tensor(node.dml.resample2(x, **fields), sizes)
    # Dimensions in front that stay as they are become one: RESAMPLE2 takes four.
    fields |= {key: each[kept:] for key, each in fields.items() if isinstance(each, list)}
    fields["sizes"] = [math.prod(sizes[: kept + 1]), *sizes[kept + 1 :]]
    joined = node.dml.reshaped(x, [math.prod(x.shape[: kept + 1]), *x.shape[kept + 1 :]])
    made = node.dml.resample2(joined, **fields)
    return node.tensor(node.dml.reshaped(made, sizes), sizes)


def _kept_dimensions(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """How many of the first dimensions to join with the one behind them, so that RESAMPLE2 takes the rest."""
    extra = len(shape) - MOST_RESAMPLED
    return extra if extra > 0 and list(shape[: extra + 1]) == list(sizes[: extra + 1]) else 0


def _by_matrices(node: Node, sizes: list[int], scales: list[float]) -> Tensor:
    """What DirectML's operators lack: along each dimension a product with the matrix of the resized unit vectors."""
    x = node[0]
    made = node.dml.value(x)
    axes = node.ints("axes", default=range(x.rank)) or []
    for place, axis in enumerate(at_axis(each, x.rank) for each in axes):
        if sizes[axis] != x.shape[axis] or scales[axis] != 1 or _crops(node, place):
            matrix = _matrix(node, place, x.shape[axis], sizes[axis])
            order = [*(each for each in range(x.rank) if each != axis), axis]
            moved = node.dml.transposed(made, order)
            flat = node.dml.reshaped(moved, (math.prod(moved.sizes[:-1]), moved.sizes[-1]))
            product = node.dml.gemm(flat, Tensor.of(matrix.astype(x.dtype)))
            made = node.dml.reshaped(product, (*moved.sizes[:-1], sizes[axis]))
            made = node.dml.transposed(made, [order.index(each) for each in range(x.rank)])
    return node.tensor(made, sizes)


def _crops(node: Node, place: int) -> bool:
    return str(node.attribute("coordinate_transformation_mode", "")) == "tf_crop_and_resize" and place >= 0


def _matrix(node: Node, place: int, size: int, count: int) -> Array:
    """[input, output]: the unit vectors, resized by the node's attributes.

    Args:
        node: Resize, from opset 11 on.
        place: which of its axes.
        size, count: the sizes along it.
    """
    if size * count > MOST_NUMBERS:
        raise Refusal("the size is too large for this mode", code="too-large", got=[size, count])
    names = "mode coordinate_transformation_mode cubic_coeff_a exclude_outside antialias extrapolation_value"
    given = {name: node.attribute(name) for name in names.split() if node.attribute(name) is not None}
    if given.get("coordinate_transformation_mode") in ("pytorch_half_pixel", b"pytorch_half_pixel") and count == 1:
        given["coordinate_transformation_mode"] = "asymmetric"  # one element is read at 0, by ONNX's text
    roi = np.zeros(0, np.float32)
    if _crops(node, place):
        bounds = [float(each) for each in node.known(1)]
        start, end = bounds[place], bounds[place + len(bounds) // 2]
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise Refusal("a region outside the input has no counterpart", field="roi", got=bounds)
        roi = np.array([0, start, 1, end], np.float32)
    scales = None
    if node.get(2) is not None and node[2].count:
        scale = np.float32(node.known(2)[place])
        if math.floor(size * float(scale)) < count:  # ONNX's reference computes the size in float64
            scale = np.nextafter(scale, np.float32(np.inf))
        scales = np.array([1, scale], np.float32)
    whole = None if scales is not None else np.array([size, count], np.int64)
    proto = onnx.helper.make_node("Resize", ["x", "roi", "scales" * (whole is None), "sizes" * (scales is None)], ["y"])
    proto.attribute.extend(onnx.helper.make_attribute(name, each) for name, each in given.items())
    (made,) = evaluate(proto, node.opset, [np.eye(size, dtype=np.float32), roi, scales, whole])
    return made


def _place(node: Node, mode: str, size: int, count: int, scale: float) -> Offsets:
    """The scale and offsets with which output o reads the input at (o − output offset) / scale − input offset."""
    if mode == "asymmetric":
        return scale, 0.0, 0.0
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and count > 1):
        return scale, 0.5, -0.5
    if mode == "half_pixel_symmetric":
        return scale, 0.5 - size / 2 * (1 - count / (scale * size)), -0.5
    if mode == "align_corners" and count > 1 and size > 1:
        return (scale * size - 1) / (size - 1), 0.0, 0.0
    if mode in ("align_corners", "pytorch_half_pixel"):
        return 1.0 if count == 1 else float(np.finfo(np.float32).max), 0.0, 0.0
    raise node.refuse(
        "coordinate_transformation_mode",
        "asymmetric, half_pixel, pytorch_half_pixel, half_pixel_symmetric, align_corners",
        mode,
    )
