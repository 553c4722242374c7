"""Resampling and its gradients as native steps, by tables of indices and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.element_wise import Code, Value
from dmlgraph.devices.cpu.parts import Part
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.resampling import (
    Resample,
    Resample1,
    Resample2,
    Resample3,
    ResampleGrad,
    ResampleGrad1,
    Taps,
    Upsample2d,
)


def _resample(operator: Any) -> tuple[str, Any]:
    with np.errstate(all="ignore"):
        along = list(operator.taps(operator.input.sizes, operator.output.sizes))
        tables = [(taps.indices.T.ravel(), taps.weights.T.ravel().astype(np.float32)) for _, taps in along]
    code = Code()
    code.convert(Value(0, DataType.FLOAT32), operator.output.dtype)
    parameters = {
        "axes": tuple(axis for axis, _ in along),
        "taps": tuple(taps.indices.shape[1] for _, taps in along),
        "indices": tuple(int(each) for indices, _ in tables for each in indices),
        "weights": tuple(float(each) for _, weights in tables for each in weights),
    }
    payload = ("resampling", parameters, code.finish())
    return "parts", (Part("native", (0,), (operator.input,), operator.output, payload),)


def _gradient(operator: Any) -> tuple[str, Any]:
    """The transpose: the taps of each output element become terms of the elements that they read."""
    with np.errstate(all="ignore"):
        along = list(operator.taps(operator.output_gradient.sizes, operator.input_gradient.sizes))
    sizes = operator.output_gradient.sizes
    terms = [_terms(taps, sizes[axis]) for axis, taps in along]
    code = Code()
    code.convert(Value(0, DataType.FLOAT32), operator.output_gradient.dtype)
    parameters = {
        "axes": tuple(axis for axis, _ in along),
        "counts": tuple(each for counts, _, _ in terms for each in counts.tolist()),
        "indices": tuple(each for _, indices, _ in terms for each in indices.tolist()),
        "weights": tuple(each for _, _, weights in terms for each in weights.tolist()),
    }
    payload = ("resampling_gradient", parameters, code.finish())
    return "parts", (Part("native", (0,), (operator.input_gradient,), operator.output_gradient, payload),)


def _terms(taps: Taps, size: int) -> tuple[Array, Array, Array]:
    """How many terms each of `size` elements has, and the terms' indices and weights, element by element."""
    read = taps.indices.ravel()
    order = np.argsort(read, kind="stable")
    return (
        np.bincount(read, minlength=size),
        order // taps.indices.shape[1],
        taps.weights.ravel()[order].astype(np.float32),
    )


RESAMPLINGS: Mapping[type[Operator], Callable[[Any], tuple[str, Any]]] = {
    **dict.fromkeys((Resample, Resample1, Resample2, Resample3, Upsample2d), _resample),
    **dict.fromkeys((ResampleGrad, ResampleGrad1), _gradient),
}
