"""How far the results of an operator may be from the reference's: by operator, by device and by what it reads.

A result may be as far off as the results of the reference are from one another when the last bits of the inputs change,
and some units in the last place more.  The table says which operators may differ by more; docs/measured.md has why.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import is_plain
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]

# Units in the last place by which a device may differ, in addition to the effect of the inputs' last bits.
ULPS: dict[str, int] = {"cpu": 16, "directml:software": 64}
MOST_OF_HALF = 16  # of float16, whose unit is 2^13 times that of float32: 64 would be 6 % of a number


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """How a device may differ from the reference; docs/measured.md explains each entry.

    Attributes:
        near: the error that float32 results may have; float16 has coarser steps and may have 2^13 times as much.
        beyond: numbers of a greater magnitude may give any result, because their sums and squares overflow.
        special: NaN and infinities may give any result too.
    """

    near: float = 0.0
    beyond: float = math.inf
    special: bool = False


_APPROXIMATED = Allowed(near=4e-6, beyond=1e15)  # formulas in float32: near zero their error is that of rounding at 1
_OVERFLOWS = Allowed(near=1e-6, beyond=100.0, special=True)  # sums and squares of the tensor's type, or float32
_INTERPOLATES = Allowed(near=1e-6, beyond=1e15, special=True)  # 0 · infinity; constants that cancel
_POLYNOMIAL = Allowed(near=1e-4, special=True)
_INFINITELY_STEEP = Allowed(near=4e-6, beyond=1e15, special=True)  # ∞ / ∞

_AVERAGES = (ops.AveragePooling, ops.AveragePooling1, ops.AveragePoolingGrad)
_RESAMPLING = (ops.Resample, ops.Resample1, ops.Resample2, ops.ResampleGrad, ops.ResampleGrad1, ops.Upsample2d)

ALLOWED: Mapping[str, Mapping[type[Operator], Allowed]] = {
    "directml:software": {
        **dict.fromkeys((ops.Asin, ops.Acos, ops.Atan, ops.AtanYx), _POLYNOMIAL),
        **dict.fromkeys((ops.Erf, ops.Tanh, ops.Sinh, ops.Atanh, ops.Asinh, ops.Acosh), _APPROXIMATED),
        **{
            each: _APPROXIMATED
            for each in REGISTRY.values()
            if is_plain(each) and each.function_name().startswith("activation_")
        },
        **dict.fromkeys(
            (
                ops.BatchNormalization,
                ops.BatchNormalizationGrad,
                ops.BatchNormalizationTrainingGrad,
                ops.Convolution,
                ops.Gemm,
                ops.LocalResponseNormalization,
                ops.LocalResponseNormalizationGrad,
                ops.LpNormalization,
                ops.MeanVarianceNormalization,
                ops.MeanVarianceNormalization1,
            ),
            _OVERFLOWS,
        ),
        ops.BatchNormalizationTraining: Allowed(near=1e-3, beyond=100.0, special=True),  # mean · factor cancels
        ops.MultiheadAttention: Allowed(near=1e-3, beyond=100.0, special=True),  # −10000 is added to masked scores
        ops.AdamOptimizer: Allowed(near=1e-3, beyond=100.0, special=True),  # 1 − beta^T cancels
        **dict.fromkeys((ops.Gru, ops.Lstm, ops.Rnn), Allowed(near=1e-5, beyond=1e4, special=True)),
        **dict.fromkeys(_RESAMPLING, _INTERPOLATES),
        **dict.fromkeys((ops.TopK, ops.TopK1), Allowed(special=True)),
        **dict.fromkeys((ops.ActivationLogSoftmax, ops.ActivationLogSoftmax1), _OVERFLOWS),
        **dict.fromkeys((ops.Clip, ops.ClipGrad, ops.Padding), Allowed(special=True)),  # integers and NaN
        **dict.fromkeys((ops.RoiAlign, ops.RoiAlign1, ops.RoiAlignGrad), _INTERPOLATES),
        **dict.fromkeys(_AVERAGES, Allowed(beyond=1e4)),  # a sum has the tensor's type
        **dict.fromkeys((ops.LpPooling, ops.LpPooling1), Allowed(near=1e-6, beyond=10.0)),  # powers and their sum, too
        ops.DynamicQuantizeLinear: Allowed(special=True),
        ops.Reduce: Allowed(beyond=1e15),
        ops.ActivationSoftplus: _INFINITELY_STEEP,
        **dict.fromkeys((ops.Pow, ops.ConstantPow), Allowed(beyond=1e9, special=True)),  # an infinite exponent is odd
        ops.ActivationCelu: Allowed(near=4e-6, beyond=100.0),  # of a large alpha, e^(x / alpha) − 1 keeps few digits
    },
    "cpu": {
        ops.ActivationSoftplus: _INFINITELY_STEEP,
        ops.ActivationGelu: Allowed(near=1e-9),  # far below zero it is nearer to the true value
        **dict.fromkeys(
            (ops.ActivationLogSoftmax, ops.ActivationLogSoftmax1, ops.BatchNormalization), Allowed(beyond=1e15)
        ),
        # Sums, differences and products that overflow in float32 on the way.
        **dict.fromkeys(
            (
                ops.Gemm,
                ops.Convolution,
                ops.RoiAlign,
                ops.RoiAlign1,
                ops.BatchNormalizationGrad,
                ops.BatchNormalizationTraining,
                ops.BatchNormalizationTrainingGrad,
                ops.MeanVarianceNormalization,
                ops.MeanVarianceNormalization1,
            ),
            Allowed(beyond=1e15),
        ),
        # s^−beta: the rounding of s counts beta times.
        **dict.fromkeys(
            (ops.LocalResponseNormalization, ops.LocalResponseNormalizationGrad), Allowed(near=1e-6, beyond=1e4)
        ),
        **dict.fromkeys(_RESAMPLING, Allowed(near=1e-6, beyond=1e15)),  # constants that cancel, too
        **dict.fromkeys(_AVERAGES, Allowed(near=1e-6, beyond=1e15)),
        **dict.fromkeys((ops.Gru, ops.Lstm, ops.Rnn), Allowed(near=1e-6, beyond=1e15)),
        ops.MultiheadAttention: Allowed(near=1e-3, beyond=1e15),
    },
}


def moved(inputs: dict[str, Array], seed: int) -> dict[str, Array]:
    """The inputs with the last bits of their finite numbers changed; zeros stay."""
    rng = np.random.default_rng(seed)

    def one(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        with np.errstate(all="ignore"):
            steps = (rng.integers(-1, 1, array.shape, endpoint=True) * np.spacing(array)).astype(array.dtype)
            near = array + steps
        return np.where(np.isfinite(near) & (array != 0), near, array)

    return {name: one(array) for name, array in inputs.items()}


def differing(got: Array, runs: Sequence[Array], units: int, near: float, slack: Array | float = 0.0) -> Array:
    """Where a result is not near those of the reference on inputs that differ in their last bits only.

    If these disagree on whether it is finite, infinite or NaN, any result is allowed.  `slack` is allowed besides.
    """
    low, high, spread = hull(runs)
    if got.dtype.kind != "f":
        return np.asarray(np.abs(got.astype(object) - runs[0].astype(object)) > spread)
    finite = np.isfinite(runs)
    settled = ~(finite.any(0) & ~finite.all(0)) & ~(np.isnan(runs).any(0) & ~np.isnan(runs).all(0))
    with np.errstate(invalid="ignore"):
        greatest = np.fmax(np.abs(low), np.abs(high))
        units = units_of(units, got.dtype)
        error = slack + 2 * spread + units * ulp(greatest, got.dtype) + margin(near, greatest, got.dtype)
        is_near = np.where(finite.all(0), (got >= low - error) & (got <= high + error), got == runs[0])
    return np.asarray(settled & ~is_near & ~(np.isnan(got) & np.isnan(runs[0])))


def units_of(units: int, dtype: np.dtype[Any]) -> int:
    """As many of these units in the last place as numbers of a data type may differ by."""
    return min(units, MOST_OF_HALF) if dtype == np.float16 else units


def margin(near: float, numbers: Array, dtype: np.dtype[Any]) -> Array:
    """The error that `Allowed.near` means for results of these magnitudes."""
    return np.asarray(near * np.fmax(1, np.abs(numbers)) * (2**13 if dtype == np.float16 else 1))


def hull(runs: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The minimum and maximum of some runs, and their difference; in float64 or as exact integers."""
    stack = np.stack(runs)
    stack = stack.astype(np.float64) if stack.dtype.kind == "f" else stack.astype(object)
    low, high = np.fmin.reduce(stack), np.fmax.reduce(stack)
    with np.errstate(invalid="ignore"):
        spread = high - low
    if stack.dtype.kind == "f":
        spread = np.where(np.isfinite(spread), spread, 0.0)
    return low, high, spread


def ulp(magnitude: Array, dtype: np.dtype[Any]) -> Array:
    """The ULP of numbers of a float type; 0 for integers."""
    if dtype.kind != "f":
        return np.zeros(magnitude.shape, object)
    info = np.finfo(dtype)
    greatest = float(info.max)
    finite = np.clip(np.where(np.isfinite(magnitude), magnitude, greatest), float(info.tiny), greatest)
    return np.asarray(np.exp2(np.frexp(finite)[1] - 1.0) * float(info.eps))
