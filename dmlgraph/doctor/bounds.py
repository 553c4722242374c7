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

from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import is_plain

Array = np.ndarray[Any, Any]

# Units in the last place by which a device may differ, in addition to the effect of the inputs' last bits.
ULPS: dict[str, int] = {"cpu": 16, "directml:software": 64}


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

_AVERAGES = ("average_pooling", "average_pooling1", "average_pooling_grad")
_RESAMPLING = ("resample", "resample1", "resample2", "resample_grad", "resample_grad1", "upsample_2d")

ALLOWED: Mapping[str, Mapping[str, Allowed]] = {
    "directml:software": {
        **dict.fromkeys(("asin", "acos", "atan", "atan_yx"), _POLYNOMIAL),
        **dict.fromkeys(("erf", "tanh", "sinh", "atanh", "asinh", "acosh"), _APPROXIMATED),
        **{
            name: _APPROXIMATED
            for name in (each.function_name() for each in REGISTRY.values() if is_plain(each))
            if name.startswith("activation_")
        },
        **dict.fromkeys(
            (
                "batch_normalization",
                "batch_normalization_grad",
                "batch_normalization_training_grad",
                "convolution",
                "gemm",
                "local_response_normalization",
                "local_response_normalization_grad",
                "lp_normalization",
                "mean_variance_normalization",
                "mean_variance_normalization1",
            ),
            _OVERFLOWS,
        ),
        "batch_normalization_training": Allowed(near=1e-3, beyond=100.0, special=True),  # mean · factor cancels
        "multihead_attention": Allowed(near=1e-3, beyond=100.0, special=True),  # −10000 is added to masked scores
        "adam_optimizer": Allowed(near=1e-3, beyond=100.0, special=True),  # 1 − beta^T cancels
        **dict.fromkeys(("gru", "lstm", "rnn"), Allowed(near=1e-5, beyond=1e4, special=True)),
        **dict.fromkeys(_RESAMPLING, _INTERPOLATES),
        **dict.fromkeys(("top_k", "top_k1"), Allowed(special=True)),
        **dict.fromkeys(("activation_log_softmax", "activation_log_softmax1"), _OVERFLOWS),
        **dict.fromkeys(("clip", "clip_grad", "padding"), Allowed(special=True)),  # integers and NaN
        **dict.fromkeys(("roi_align", "roi_align1", "roi_align_grad"), _INTERPOLATES),
        **dict.fromkeys(_AVERAGES, Allowed(beyond=1e4)),  # a sum has the tensor's type
        **dict.fromkeys(("lp_pooling", "lp_pooling1"), Allowed(near=1e-6, beyond=10.0)),  # so have powers and their sum
        "dynamic_quantize_linear": Allowed(special=True),
        "reduce": Allowed(beyond=1e15),
        "activation_softplus": _INFINITELY_STEEP,
        **dict.fromkeys(("pow", "constant_pow"), Allowed(beyond=1e9)),
        "activation_celu": Allowed(near=4e-6, beyond=100.0),  # of a large alpha, e^(x / alpha) − 1 keeps few digits
    },
    "cpu": {
        "activation_softplus": _INFINITELY_STEEP,
        "activation_gelu": Allowed(near=1e-9),  # far below zero it is nearer to the true value
        **dict.fromkeys(
            ("activation_log_softmax", "activation_log_softmax1", "batch_normalization"), Allowed(beyond=1e15)
        ),
        # Sums, differences and products that overflow in float32 on the way.
        **dict.fromkeys(
            (
                "gemm",
                "convolution",
                "roi_align",
                "roi_align1",
                "batch_normalization_grad",
                "batch_normalization_training",
                "batch_normalization_training_grad",
                "mean_variance_normalization",
                "mean_variance_normalization1",
            ),
            Allowed(beyond=1e15),
        ),
        # s^−beta: the rounding of s counts beta times.
        **dict.fromkeys(
            ("local_response_normalization", "local_response_normalization_grad"), Allowed(near=1e-6, beyond=1e4)
        ),
        **dict.fromkeys(_RESAMPLING, Allowed(near=1e-6, beyond=1e15)),  # constants that cancel, too
        **dict.fromkeys(_AVERAGES, Allowed(near=1e-6, beyond=1e15)),
        **dict.fromkeys(("gru", "lstm", "rnn"), Allowed(near=1e-6, beyond=1e15)),
        "multihead_attention": Allowed(near=1e-3, beyond=1e15),
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
        margin = slack + 2 * spread + units * ulp(np.fmax(np.abs(low), np.abs(high)), got.dtype)
        margin += near * np.fmax(1, np.fmax(np.abs(low), np.abs(high))) * (2**13 if got.dtype == np.float16 else 1)
        is_near = np.where(finite.all(0), (got >= low - margin) & (got <= high + margin), got == runs[0])
    return np.asarray(settled & ~is_near & ~(np.isnan(got) & np.isnan(runs[0])))


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
