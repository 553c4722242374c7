"""Every unary operator on every float16 number: the reference and the real DirectML give the same bits.

Where DirectML's steps lose digits, the reference rounds once, and DirectML is compared with its own formulas, `STEPS`.
The differences that are allowed are in `ALLOWED`; an entry that is no longer needed fails.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import yaml
from support.agreement import LIBRARY_LEVEL
from support.operators.half_steps import STEPS, half_steps
from support.operators.harness import INF, NAN, Array, assert_same, bits_of, run, ulps

from dmlgraph.base.tensor import DataType
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example_fields
from dmlgraph.operators.common.element_wise import Unary
from dmlgraph.operators.declaration.fields import Kind

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
SIZES = {"even": EVERY, "odd": EVERY[:-1]}  # the last number is a NaN; in float16 some shaders process pairs
BEYOND = 1e5  # beyond float16
NUMBERS = (0.1, -0.3, 0.0, 1.7, 1000.0, BEYOND, INF, NAN)
SCALES = ((2, -1), (0.1, 0.3), (1e-3, 1000), (1e4, 0), (INF, 0), (0, NAN))
LEAST = {"steepness": 1.0}  # a field is not legal below this at the library's levels; NaN is refused, too


@dataclasses.dataclass(frozen=True)
class Allowed:
    """How DirectML may differ from the reference.

    Attributes:
        why: the reason for the difference.
        places: the most numbers that may differ, with any attributes.
        ulp: the most units in the last place; zeros of different signs have distance 0.
    """

    why: str
    places: int
    ulp: int


_LAST_BIT = "the last bit of float32 functions, where rounding to float16 is a close call"
_ZERO = "which of two zeros max and min take"
ALLOWED: Mapping[str, Allowed] = {
    "atanh": Allowed(_LAST_BIT, 1, 1),
    "clip": Allowed(_ZERO, 1, 0),
    "clip1": Allowed(_ZERO, 1, 0),
    "constant_pow": Allowed(_LAST_BIT, 2, 1),
    "cosh": Allowed(_LAST_BIT, 1, 1),
    "sinh": Allowed(_LAST_BIT, 1, 1),
}

OPERATORS = {
    operator.function_name(): operator
    for operator in REGISTRY.values()
    if issubclass(operator, Unary)
    and operator.support().introduced <= LIBRARY_LEVEL
    and (support := operator.support().rows("InputTensor", LIBRARY_LEVEL)) is not None
    and support.takes(DataType.FLOAT16)
}


def settings(operator: type[Operator]) -> Iterator[dict[str, Any]]:
    """Attributes: those of the example, and a few numbers in each field and in each pair of fields."""
    example = {field: yaml.safe_load(text) for field, text in example_fields(operator).items()}
    yield example
    members = operator.fields
    numbers = [f for f in operator.attribute_fields if members[f].kind in (Kind.FLOAT, Kind.SCALAR)]

    def possible(field: str) -> list[float]:
        in_range = members[field].kind is Kind.FLOAT  # others are numbers of the tensor's type
        return [n for n in NUMBERS if (field not in LEAST or n >= LEAST[field]) and (in_range or n != BEYOND)]

    for field in numbers:
        yield from (example | {field: number} for number in possible(field))
    if len(numbers) == 2:
        yield from (
            example | dict(zip(numbers, pair, strict=True)) for pair in itertools.product(*map(possible, numbers))
        )
    for field in operator.attribute_fields:
        if members[field].kind is Kind.ENUM and field != "min_max_data_type":
            yield from ({**example, field: each} for each in operator.enumeration(field))
    if "scale_bias" in operator.attribute_fields:
        yield from ({**example, "scale_bias": {"scale": scale, "bias": bias}} for scale, bias in SCALES)


def differing(got: Array, expected: Array) -> Array:
    """The positions where the bits differ; all NaNs are equal."""
    return np.flatnonzero((bits_of(got) != bits_of(expected)) & ~(np.isnan(got) & np.isnan(expected)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


def _unit(x: Array) -> Array:
    return np.asarray(np.clip(x, 0, 1))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu(x: Array) -> Array:
    return np.array([x and x * math.erfc(-x / math.sqrt(2)) / 2 if x > -INF else NAN for x in x.tolist()])


# The functions in float64, of the attributes 0.3 and 1.7 in the order of the fields; NaN as the operators have it.
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "log": np.log,
    "tanh": np.tanh,
    "activation_linear": lambda x, alpha, beta: alpha * x + beta,
    "activation_leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "activation_thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
    "activation_elu": _elu,
    "activation_celu": lambda x, alpha: np.where(np.isnan(x), 0, alpha * _elu(x / alpha)),
    "activation_scaled_elu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "activation_sigmoid": _sigmoid,
    "activation_hard_sigmoid": lambda x, alpha, beta: np.nan_to_num(_unit(alpha * x + beta)),
    "activation_tanh": np.tanh,
    "activation_scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "activation_softplus": lambda x, steepness: np.logaddexp(0, steepness * x) / steepness,
    "activation_parametric_softplus": lambda x, alpha, beta: alpha * np.logaddexp(0, beta * x),
    "activation_softsign": lambda x: x / (1 + np.abs(x)),
    "activation_shrink": lambda x, bias, threshold: np.where(
        x > threshold, x - bias, np.where(x < -threshold, x + bias, 0)
    ),
    "activation_gelu": _gelu,
    "activation_swish": lambda x, scale: x * _sigmoid(scale * x),
    "activation_hard_swish": lambda x, alpha, beta: x * np.nan_to_num(_unit(alpha * x + beta)),
}


@pytest.mark.parametrize("where", ["reference", "cpu"])
@pytest.mark.parametrize("name", STEPS)
def test_functions_are_rounded_once(name: str, where: DeviceName):
    """Unlike DirectML's; some from a float32, so that close calls are off by a unit."""
    fields = [field for field in OPERATORS[name].attribute_fields if field != "scale_bias"]
    numbers = [1.7] if fields == ["steepness"] else [0.3, 1.7][: len(fields)]
    with np.errstate(all="ignore"):
        wide = FUNCTIONS[name](EVERY.astype(np.float64), *(float(np.float32(each)) for each in numbers))
        expected = wide.astype(np.float16)
    got = run(name, [EVERY], device=where, **dict(zip(fields, numbers, strict=True)))
    places = differing(got, expected)
    assert ulps(got[places], expected[places]).max(initial=0) <= 1, (EVERY[places], got[places], expected[places])
    assert places.size < EVERY.size // 64


@pytest.mark.parametrize("where", ["reference", "cpu"])
@pytest.mark.parametrize("name", [name for name in STEPS if OPERATORS[name].support().fusable_into])
def test_a_fused_activation_gives_what_a_separate_one_gives(name: str, where: DeviceName):
    attributes = list(settings(OPERATORS[name]))[-1]
    fused = {"op": name, **attributes}
    got = run("add1", [EVERY, np.full_like(EVERY, -0.0)], device=where, fused_activation=fused)
    assert_same(got, run(name, [EVERY], device=where, **attributes))


def test_every_unary_operator_of_float16_is_swept():
    assert len(OPERATORS) > 45
    assert set(ALLOWED) <= set(OPERATORS)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("name", OPERATORS)
def test_directml_gives_the_bits_of_the_reference(name: str):
    allowed = ALLOWED.get(name, Allowed("", 0, 0))
    needed = False
    for index, attributes in enumerate(settings(OPERATORS[name])):
        for x in SIZES.values() if index == 0 else (EVERY,):
            got = run(name, [x], device="directml:software", **attributes)
            steps = half_steps(OPERATORS[name], x, attributes) if name in STEPS else None
            expected = run(name, [x], **attributes) if steps is None else steps
            if got.dtype != np.float16:
                np.testing.assert_array_equal(got, expected)
                continue
            places = differing(got, expected)
            what = f"{attributes}: {got[places][:5]}, not {expected[places][:5]}, for {x[places][:5]}"
            assert len(places) <= allowed.places, f"{len(places)} places, {what}"
            assert ulps(got[places], expected[places]).max(initial=0) <= allowed.ulp, what
            needed |= places.size > 0
    assert needed == (name in ALLOWED), f"{name} needs its entry no more"


CPU_ULP = 1  # rounded from float32, which matters in close cases


@pytest.mark.parametrize("name", OPERATORS)
def test_cpu_takes_the_steps_of_the_reference(name: str):
    attributes = next(settings(OPERATORS[name]))
    got, expected = (run(name, [EVERY], device=device, **attributes) for device in ("cpu", "reference"))
    if got.dtype != np.float16:
        np.testing.assert_array_equal(got, expected)
        return
    assert ulps(got, expected).max() <= CPU_ULP
