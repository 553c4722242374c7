"""What the tests of the operators that run in NumPy's BLAS share: arrays in many layouts, compared with `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dmlgraph.devices.cpu.library import FAST
from dmlgraph.operators import find
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.tensor import DataType, TensorDesc

Array = np.ndarray[Any, Any]

UNIT = 2.0**-24  # half a unit in the last place of float32, relative


def _packed(x: Array) -> Array:
    return x


def _transposed(x: Array) -> Array:
    return np.asfortranarray(x)


def _spaced(x: Array) -> Array:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2] = x
    return wide[..., 1::2]


def _swapped(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x


def _repeated(axis: int) -> Callable[[Array], Array]:
    def repeat(x: Array) -> Array:
        where = axis % x.ndim
        return np.broadcast_to(x.take([0], where), x.shape)

    return repeat


LAYOUTS = {
    "packed": _packed,
    "transposed": _transposed,
    "spaced": _spaced,
    "swapped": _swapped,
    "first repeated": _repeated(0),
    "last repeated": _repeated(-1),
}
layouts = st.sampled_from(sorted(LAYOUTS))
seeds = st.integers(0, 2**32 - 1)


def desc(sizes: tuple[int, ...], dtype: str = "float32") -> TensorDesc:
    return TensorDesc(dtype=DataType.parse(dtype), sizes=sizes)


def make(name: str, **fields: Any) -> Operator:
    """An operator from its name and fields, with input descriptions that fit together."""
    cls = find(name)
    assert cls is not None
    inputs = {field: fields.get(field) for field in cls.input_fields}
    return cls(**fields | cls.adapt(inputs, fields))


def filled(operator: Operator, seed: int, layout: str = "packed") -> list[Array | None]:
    """Arrays for the inputs: normally distributed floats of two magnitudes, or integers of the whole 8-bit range."""
    random = np.random.default_rng(seed)

    def one(tensor: TensorDesc) -> Array:
        if tensor.dtype.is_float:
            numbers = random.standard_normal(tensor.sizes) * random.choice([1, 8], tensor.sizes)
            return numbers.astype(tensor.dtype.numpy)
        low, high = tensor.dtype.range
        return random.integers(max(low, -128), min(high, 255), tensor.sizes, endpoint=True).astype(tensor.dtype.numpy)

    return [None if tensor is None else LAYOUTS[layout](one(tensor)) for tensor in operator.input_descs]


def run(operator: Operator, *arrays: Array | None) -> tuple[Array, ...]:
    """The outputs; checks their sizes and types, and that the inputs are unchanged."""
    before = [None if each is None else each.copy() for each in arrays]
    outputs = FAST[type(operator)](operator, *arrays)
    for each, was in zip(arrays, before, strict=True):
        if each is not None:
            np.testing.assert_array_equal(each, was, "an input was overwritten")
    wanted = [tensor for tensor in operator.output_descs if tensor is not None]
    assert [(each.shape, each.dtype) for each in outputs] == [(each.sizes, each.dtype.numpy) for each in wanted]
    return outputs


def check_exact(operator: Operator, arrays: list[Array | None]) -> None:
    for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
        np.testing.assert_array_equal(got, expected)


def check_near(operator: Operator, arrays: list[Array | None], terms: int, magnitudes: Array | None = None) -> None:
    """Checks results to (terms + 3) units of the sum of the terms' magnitudes, computed from the inputs' magnitudes.

    A float16 result is rounded once more, to half a unit in its last place, so it may be the neighbouring number.
    """
    (got,), (expected,) = run(operator, *arrays), operator.evaluate(*arrays)
    with np.errstate(all="ignore"):
        if magnitudes is None:
            (magnitudes,) = operator.evaluate(*(None if each is None else np.abs(each) for each in arrays))
        bound = (terms + 3) * (UNIT * np.abs(magnitudes.astype(np.float64)) + 2.0**-149)
        if expected.dtype == np.float16:
            bound = bound + np.abs(np.spacing(expected.astype(np.float16)).astype(np.float64))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    error = np.abs(np.where(same, 0, got.astype(np.float64)) - np.where(same, 0, expected.astype(np.float64)))
    # Not `error > bound`: the error is NaN if only one result is, and must not pass.
    worst = ~(same | (error <= bound))
    assert not worst.any(), f"{operator}: {got[worst][:3]} instead of {expected[worst][:3]}, bound {bound[worst][:3]}"
