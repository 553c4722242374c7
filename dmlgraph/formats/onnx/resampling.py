"""Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from dmlgraph.formats.onnx.export.emitter import FLOAT32, Emitter, Symbol
from dmlgraph.formats.onnx.folding import evaluate
from dmlgraph.formats.onnx.node import Maybe, Node, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, one_of, unsupported
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.operators.directml_enums import InterpolationMode
from dmlgraph.operators.resampling import Resampling, Taps

MOST_NUMBERS = 1 << 24  # of a matrix
MOST_RESAMPLED = 4  # dimensions that RESAMPLE2 takes
Offsets = tuple[float, float, float]  # scale, input pixel offset, output pixel offset


_WRITTEN = ("half_pixel", "asymmetric")  # the modes of coordinates, and those of rounding, that are tried in turn
_WRITTEN_ROUNDINGS = ("round_prefer_ceil", "round_prefer_floor", "floor", "ceil")
_CLOSE = 1e-5  # of weights


@imports("Upsample", until=9, how="resample2")
@imports("Resize", since=10, until=10, how="resample2")
def Resize_10(node: Node, X: Tensor, scales: Tensor | list[float] | None = None, *, mode: str = "nearest") -> Tensor:
    """The rounding is open here: as in ONNX Runtime, up along dimensions that shrink."""
    factors = _factors(node, scales, X.rank)
    x = X
    if mode == "nearest":
        fewer = [min(scale, 1.0) for scale in factors]
        sizes = [_scaled(*each) for each in zip(x.shape, fewer, strict=True)]
        x = _resampled(node, x, sizes, fewer, nearest="ceil")
        factors = [max(scale, 1.0) for scale in factors]
    return _resampled(node, x, [_scaled(*each) for each in zip(x.shape, factors, strict=True)], factors, mode)


@imports(since=11, how="resample2; cubic, antialiased, cropped: gemm with constants")
def Resize(
    node: Node,
    X: Tensor,
    roi: Maybe = None,
    scales: Maybe = None,
    sizes: Maybe = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    **weights: Any,
) -> Tensor:
    places = [at_axis(axis, X.rank) for axis in (range(X.rank) if axes is None else axes)]
    wanted = node.ints("sizes", sizes, counts=[len(places), 0])
    if wanted:
        factors, counts = _to_sizes(X, places, wanted, keep_aspect_ratio_policy)
    else:
        factors = _factors(node, scales, len(places))
        counts = [_scaled(X.shape[axis], each) for axis, each in zip(places, factors, strict=True)]
    whole, ratios = list(X.shape), [1.0] * X.rank
    for axis, count, factor in zip(places, counts, factors, strict=True):
        whole[axis], ratios[axis] = count, factor
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    if not (mode == "cubic" or antialias or crops) or _is_trivial(X, whole, ratios):
        return _resampled(node, X, whole, ratios, mode, coordinate_transformation_mode, nearest_mode)
    weights |= {"mode": mode, "coordinate_transformation_mode": coordinate_transformation_mode}
    weights |= {"antialias": antialias} if antialias else {}
    matrices = {
        axis: _matrix(node, place, X.shape[axis], whole[axis], roi if crops else None, scales, weights)
        for place, axis in enumerate(places)
        if whole[axis] != X.shape[axis] or ratios[axis] != 1 or crops
    }
    return _by_matrices(node, X, whole, matrices)


def _to_sizes(x: Tensor, axes: list[int], wanted: list[int], policy: str) -> tuple[list[float], list[int]]:
    """The scales and sizes of axes to which the policy makes the wanted sizes."""
    if 0 in x.shape:
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=[*x.shape])
    ratios = [size / x.shape[axis] for size, axis in zip(wanted, axes, strict=True)]
    if policy == "stretch":
        return ratios, wanted
    same = min(ratios) if policy == "not_larger" else max(ratios)
    return [same] * len(axes), [math.floor(same * x.shape[axis] + 0.5) for axis in axes]


def _factors(node: Node, scales: Tensor | list[float] | None, count: int) -> list[float]:
    """The scales of a number of axes, of an attribute or a known input."""
    if scales is None:
        raise Refusal("an input is missing", code="missing", field=f"input {1 if node.opset < 11 else 2}")
    factors = [float(each) for each in (node.known(scales) if isinstance(scales, Tensor) else scales)]
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


def _is_trivial(x: Tensor, sizes: list[int], scales: list[float]) -> bool:
    """Whether nothing is computed: the result has no elements, or is the tensor."""
    return 0 in sizes or (list(x.shape) == sizes and set(scales) == {1.0})


# The modes of rounding: RESAMPLE2's direction, and what is added to places before.
_NEAREST = {
    "round_prefer_floor": ("increasing", 0.5),  # ceil(c - 0.5)
    "round_prefer_ceil": ("decreasing", -0.5),  # floor(c + 0.5)
    "ceil": ("increasing", 0.0),
    "floor": ("decreasing", 0.0),
}


def _resampled(
    node: Node,
    x: Tensor,
    sizes: list[int],
    scales: list[float],
    mode: str = "nearest",
    coordinates: str = "asymmetric",
    nearest: str = "floor",
) -> Tensor:
    if _is_trivial(x, sizes, scales):
        return Tensor.of(np.empty(sizes, x.dtype)) if 0 in sizes else x
    if mode not in ("nearest", "linear"):
        raise unsupported("mode", "nearest, linear, cubic", mode)
    places = [
        _place(coordinates, size, count, scale) for size, count, scale in zip(x.shape, sizes, scales, strict=True)
    ]
    direction, shift = "increasing", 0.0
    if mode == "nearest":
        one_of("nearest_mode", nearest, _NEAREST)
        direction, shift = _NEAREST[nearest]
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
        return node.tensor(node.resample2(x, **fields), sizes)
    # Dimensions in front that stay as they are become one: RESAMPLE2 takes four.
    fields |= {key: each[kept:] for key, each in fields.items() if isinstance(each, list)}
    fields["sizes"] = [math.prod(sizes[: kept + 1]), *sizes[kept + 1 :]]
    joined = node.reshaped(x, [math.prod(x.shape[: kept + 1]), *x.shape[kept + 1 :]])
    made = node.resample2(joined, **fields)
    return node.tensor(node.reshaped(made, sizes), sizes)


def _kept_dimensions(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """How many of the first dimensions to join with the one behind them, so that RESAMPLE2 takes the rest."""
    extra = len(shape) - MOST_RESAMPLED
    return extra if extra > 0 and list(shape[: extra + 1]) == list(sizes[: extra + 1]) else 0


def _by_matrices(node: Node, x: Tensor, sizes: list[int], matrices: dict[int, Array]) -> Tensor:
    """What DirectML's operators lack: along dimensions a product with the matrix of the resized unit vectors."""
    made = node.value(x)
    for axis, matrix in matrices.items():
        order = [*(each for each in range(x.rank) if each != axis), axis]
        moved = node.transposed(made, order)
        flat = node.reshaped(moved, (math.prod(moved.sizes[:-1]), moved.sizes[-1]))
        product = node.gemm(flat, Tensor.of(matrix.astype(x.dtype)))
        made = node.reshaped(product, (*moved.sizes[:-1], sizes[axis]))
        made = node.transposed(made, [order.index(each) for each in range(x.rank)])
    return node.tensor(made, sizes)


def _matrix(
    node: Node, place: int, size: int, count: int, roi: Maybe, scales: Maybe, attributes: dict[str, Any]
) -> Array:
    """[input, output]: the unit vectors, resized by Resize.

    Args:
        node: has the opset.
        place: which of its axes.
        size, count: the sizes along it.
        roi: where it crops.
        scales: if they are given.
        attributes: of the interpolation.
    """
    if size * count > MOST_NUMBERS:
        raise Refusal("the size is too large for this mode", code="too-large", got=[size, count])
    if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel" and count == 1:
        attributes = attributes | {"coordinate_transformation_mode": "asymmetric"}  # it is read at 0, by ONNX's text
    bounds = np.zeros(0, np.float32)
    if roi is not None:
        given = [float(each) for each in node.known(roi)]
        start, end = given[place], given[place + len(given) // 2]
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise Refusal("a region outside the input has no counterpart", field="roi", got=given)
        bounds = np.array([0, start, 1, end], np.float32)
    factors = None
    if scales is not None and scales.count:
        scale = np.float32(node.known(scales)[place])
        if math.floor(size * float(scale)) < count:  # ONNX's reference computes the size in float64
            scale = np.nextafter(scale, np.float32(np.inf))
        factors = np.array([1, scale], np.float32)
    whole = None if factors is not None else np.array([size, count], np.int64)
    names = ["x", "roi", "scales" * (whole is None), "sizes" * (factors is None)]
    proto = onnx.helper.make_node("Resize", names, ["y"], **attributes)
    (made,) = evaluate(proto, node.opset, [np.eye(size, dtype=np.float32), bounds, factors, whole])
    return made


def _place(mode: str, size: int, count: int, scale: float) -> Offsets:
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
    raise unsupported(
        "coordinate_transformation_mode",
        "asymmetric, half_pixel, pytorch_half_pixel, half_pixel_symmetric, align_corners",
        mode,
    )


@exports(
    "upsample_2d",
    "resample",
    "resample1",
    "resample2",
    "resample3",
    how="Resize; other offsets: Gather, MatMul with the weights",
)
def _resample(node: Emitter) -> Symbol:
    operator = node.operator
    assert isinstance(operator, Resampling)
    sizes, counts = node.desc("input").sizes, node.output.sizes
    taps = dict(operator.taps(sizes, counts))
    if not taps:
        return node["input"]
    is_nearest = operator.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR
    resized = _resized(node, taps, sizes, counts) if is_nearest or node.output.dtype.is_float else None
    return resized or _along_each(node, taps, sizes)


def _resized(node: Emitter, taps: dict[int, Taps], sizes: tuple[int, ...], counts: tuple[int, ...]) -> Symbol | None:
    """As Resize to these sizes, if one of its modes is the same."""
    is_nearest = all(each.weights.shape[1] == 1 for each in taps.values())
    axes = sorted({*taps, *(axis for axis, size in enumerate(sizes) if size != counts[axis])})
    if set(axes) != set(taps) or not (is_nearest or axes[0] >= len(sizes) - (3 if len(sizes) == 5 else 2)):
        return None  # ONNX Runtime interpolates along the last dimensions only
    for mode in _WRITTEN:
        for rounding in _WRITTEN_ROUNDINGS if is_nearest else ("",):
            same = (
                _close(_weights(mode, rounding, sizes[axis], counts[axis]), matrix(each, sizes[axis]))
                for axis, each in taps.items()
            )
            if all(same):
                whole = node.ints([counts[axis] for axis in axes])
                return node.call(
                    "Resize",
                    node["input"],
                    None,
                    None,
                    whole,
                    axes=axes,
                    mode="nearest" if is_nearest else "linear",
                    coordinate_transformation_mode=mode,
                    nearest_mode=rounding or None,
                )
    return None


def _close(one: Array, other: Array) -> bool:
    return bool(np.abs(one - other).max() < _CLOSE)


def _weights(mode: str, rounding: str, size: int, count: int) -> Array:
    """The matrix {count, size} of ONNX's Resize along a dimension."""
    _, into, out = _place(mode, size, count, count / size)
    where = (np.arange(count) - out) * (size / count) - into
    if rounding:
        direction, shift = _NEAREST[rounding]
        where = (np.ceil if direction == "increasing" else np.floor)(where - shift)
    where = where.clip(0, size - 1)
    return np.asarray(np.maximum(0, 1 - np.abs(where[:, None] - np.arange(size))))


def matrix(taps: Taps, size: int) -> Array:
    """The weights as a matrix {count, size}."""
    count = len(taps.indices)
    found = np.zeros((count, size))
    np.add.at(found, (np.arange(count)[:, None], taps.indices), taps.weights)
    return found


def _along_each(node: Emitter, taps: dict[int, Taps], sizes: tuple[int, ...]) -> Symbol:
    x = node["input"]
    weighted = any(each.weights.shape[1] > 1 for each in taps.values())
    wide = node.cast(x, FLOAT32) if weighted and not x.is_float else x
    for axis, each in taps.items():
        if each.weights.shape[1] == 1:
            wide = node.taken_along(wide, axis, each.indices[:, 0])
        else:
            wide = _product(node, wide, axis, len(sizes), matrix(each, sizes[axis]))
    return node.converted(wide, x.dtype)


def _product(node: Emitter, x: Symbol, axis: int, rank: int, weights: Array) -> Symbol:
    """x with the elements along an axis multiplied by a matrix {count, size}."""
    order = [*(each for each in range(rank) if each != axis), axis]
    made = node.transpose(x, order) @ node.number(weights.T, x.dtype)
    return node.transpose(made, [order.index(each) for each in range(rank)])


@exports("resample_grad", "resample_grad1", how="MatMul with the weights")
def _gradient(node: Emitter) -> Symbol:
    operator = node.operator
    assert isinstance(operator, Resampling)
    sizes, counts = node.output.sizes, node.desc("input_gradient").sizes
    x = node["input_gradient"]
    for axis, each in operator.taps(sizes, counts):
        x = _product(node, x, axis, len(sizes), matrix(each, sizes[axis]).T)
    return x
