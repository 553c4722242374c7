"""Resampling, by Resize where it reads the same elements with the same weights, else along each dimension."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmlgraph.formats.onnx.export.emitter import FLOAT32, Array, Emitter, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.directml_enums import InterpolationMode
from dmlgraph.operators.resampling import Resampling, Taps

_COORDINATES = {"half_pixel": 0.5, "asymmetric": 0.0}  # ONNX's modes: how far an element's middle is from its start
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
_CLOSE = 1e-5  # of weights


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
    for mode, middle in _COORDINATES.items():
        for rounding in _ROUNDINGS if is_nearest else ("",):
            same = (
                _close(_weights(sizes[axis], counts[axis], middle, rounding), matrix(each, sizes[axis]))
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


def _weights(size: int, count: int, middle: float, rounding: str) -> Array:
    """The matrix {count, size} of ONNX's Resize along a dimension."""
    where = (np.arange(count) + middle) * (size / count) - middle
    if rounding:
        where = _ROUNDINGS[rounding](where)
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
    made = node.call("MatMul", node.transpose(x, order), node.number(weights.T, x.dtype))
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
