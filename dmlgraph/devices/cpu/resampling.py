"""Resampling and its gradients as native steps, by tables of indices and weights."""

from __future__ import annotations

import numpy as np

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.expressions import Operand, instructions
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.devices.cpu.parts import Parts
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.resampling import (
    BackwardResampling,
    ForwardResampling,
    Resample,
    Resample1,
    Resample2,
    Resample3,
    ResampleGrad,
    ResampleGrad1,
    Taps,
    Upsample2d,
)

_RESULT = Operand(0, DataType.FLOAT32)


def _resample(operator: ForwardResampling) -> Lowered:
    with np.errstate(all="ignore"):
        along = list(operator.taps(operator.input.sizes, operator.output.sizes))
        tables = [(taps.indices.T.ravel(), taps.weights.T.ravel().astype(np.float32)) for _, taps in along]
    step = cpu_steps.Resampling(
        axes=[axis for axis, _ in along],
        taps=[taps.indices.shape[1] for _, taps in along],
        indices=[each for indices, _ in tables for each in indices.tolist()],
        weights=[each for _, weights in tables for each in weights.tolist()],
    )
    return _followed(operator, step)


def _gradient(operator: BackwardResampling) -> Lowered:
    """The transpose: the taps of each output element become terms of the elements that they read."""
    with np.errstate(all="ignore"):
        along = list(operator.taps(operator.output_gradient.sizes, operator.input_gradient.sizes))
    sizes = operator.output_gradient.sizes
    terms = [_terms(taps, sizes[axis]) for axis, taps in along]
    step = cpu_steps.ResamplingGradient(
        axes=[axis for axis, _ in along],
        counts=[each for counts, _, _ in terms for each in counts.tolist()],
        indices=[each for _, indices, _ in terms for each in indices.tolist()],
        weights=[each for _, _, weights in terms for each in weights.tolist()],
    )
    return _followed(operator, step)


def _followed(operator: ForwardResampling | BackwardResampling, step: cpu_steps.Step) -> Lowered:
    """The step of the one input, then the conversion to the type of the output."""
    parts, output = Parts(operator), operator.first_output
    followers = instructions(_RESULT.convert(output.dtype))
    return parts.step(step, *parts.inputs(), output=output, followers=followers).finish()


def _terms(taps: Taps, size: int) -> tuple[Array, Array, Array]:
    """How many terms each of `size` elements has, and the terms' indices and weights, element by element."""
    read = taps.indices.ravel()
    order = np.argsort(read, kind="stable")
    return (
        np.bincount(read, minlength=size),
        order // taps.indices.shape[1],
        taps.weights.ravel()[order].astype(np.float32),
    )


RESAMPLINGS: Lowerings = {
    **lowers(_resample, Resample, Resample1, Resample2, Resample3, Upsample2d),
    **lowers(_gradient, ResampleGrad),
    **lowers(_gradient, ResampleGrad1),
}
