"""Single kernels: their error bounds; scalars, counts, offsets and levels do not change their results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlgraph._native import cpu_kernels
from dmlgraph.base.tensor import DataType

Array = np.ndarray[Any, Any]

LEVELS = cpu_kernels.levels()
OPCODES = cpu_kernels.opcodes()
FLOAT32, FLOAT16 = DataType.FLOAT32, DataType.FLOAT16
TYPES = [dtype for dtype in DataType if dtype.bits >= 8]


def single(number: float) -> float:
    """A number rounded to float32."""
    return float(np.float32(number))


def apply(opcode: str, operands: list[Array], operand: DataType, result: DataType, **more: Any) -> Array:
    count = max((each.size for each in operands if each.ndim), default=more.pop("count", 1))
    out = np.empty(count, result.numpy)
    cpu_kernels.apply(opcode, operand.value, result.value, operands, out, **more)
    return out


# Accuracy.

_erf = np.vectorize(math.erf, otypes=[float])
_erfc = np.vectorize(math.erfc, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return np.exp(np.minimum(x, 0)) / (np.exp(np.minimum(x, 0)) + np.exp(-np.maximum(x, 0)))


def _powered(exponent: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x < 0, np.nan, np.abs(x) ** exponent)


# opcode → (the function in float64, immediates, the greatest error in float32 in units in the last place)
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], tuple[float, ...], int]] = {
    "EXP": (np.exp, (), 1),
    "LOG": (np.log, (), 1),
    "ERF": (_erf, (), 2),
    "SIN": (np.sin, (), 2),
    "COS": (np.cos, (), 2),
    "TAN": (np.tan, (), 4),
    "ASIN": (np.arcsin, (), 2),
    "ACOS": (np.arccos, (), 2),
    "ATAN": (np.arctan, (), 2),
    "SINH": (np.sinh, (), 3),
    "COSH": (np.cosh, (), 2),
    "TANH": (np.tanh, (), 1),
    "SIGMOID": (_sigmoid, (), 3),
    "GELU": (lambda x: 0.5 * x * _erfc(-x / math.sqrt(2)), (), 5),
    "SWISH": (lambda x: x * _sigmoid(single(1.3) * x), (single(1.3),), 4),
    "ELU": (lambda x: np.where(x >= 0, x, 0.75 * np.expm1(np.minimum(x, 0))), (0.75,), 3),
    "SCALED_ELU": (lambda x: 1.0625 * np.where(x >= 0, x, 1.6875 * np.expm1(np.minimum(x, 0))), (1.6875, 1.0625), 4),
    "SOFTPLUS": (lambda x: np.logaddexp(0, 1.75 * x) / 1.75, (1.75,), 3),
    "PARAMETRIC_SOFTPLUS": (lambda x: 1.3125 * np.logaddexp(0, -1.75 * x), (1.3125, -1.75), 3),
    "SCALED_TANH": (lambda x: 1.75 * np.tanh(0.3125 * x), (1.75, 0.3125), 3),
    "SOFTSIGN": (lambda x: x / (1 + np.abs(x)), (), 2),
    "CONSTANT_POW": (_powered(2.5), (2.5,), 1),
}
COMPUTED_FROM_SUBNORMALS = 2.0**-100  # nearer to zero, their unit is this number's
FLOORED = ("GELU", "SWISH")


@pytest.fixture(scope="module")
def numbers() -> Array:
    random = np.random.default_rng(0)
    parts = [
        np.linspace(-1.2, 1.2, 20_001),
        np.linspace(-20, 20, 20_001),
        np.linspace(-110, 95, 10_001),
        random.normal(size=5_000) * 1e-3,
        [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38],
    ]
    anything = random.integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([*(np.asarray(part, np.float32) for part in parts), anything])


def ulps(got: Array, expected: Array, floor: float) -> Array:
    """The distance of float32 results from float64 ones, in units in the last place of the expected ones."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        unit = np.spacing(np.fmax(np.abs(rounded), np.float32(floor))).astype(float)
        off = np.abs(got.astype(float) - rounded.astype(float)) / unit
    off[(got == rounded) | (np.isnan(got) & np.isnan(rounded))] = 0
    return np.where(np.isnan(off), np.inf, off)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", FUNCTIONS)
def test_functions_are_within_their_bounds(opcode: str, level: str, numbers: Array) -> None:
    function, immediates, bound = FUNCTIONS[opcode]
    with np.errstate(all="ignore"):
        expected = function(numbers.astype(float))
    got = apply(opcode, [numbers], FLOAT32, FLOAT32, immediates=list(immediates), level=level)
    off = ulps(got, expected, COMPUTED_FROM_SUBNORMALS if opcode in FLOORED else 0.0)
    worst = int(off.argmax())
    assert off[worst] <= bound, (numbers[worst], got[worst], expected[worst])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", [opcode for opcode in FUNCTIONS if opcode not in ("COS", "COSH", "ACOS")])
def test_the_sign_of_zero_is_that_of_the_function(opcode: str, level: str) -> None:
    x = np.array([0.0, -0.0], np.float32)
    function, immediates, _ = FUNCTIONS[opcode]
    with np.errstate(all="ignore"):
        expected = function(x.astype(float))
    got = apply(opcode, [x], FLOAT32, FLOAT32, immediates=list(immediates), level=level)
    zero = expected == 0
    if opcode != "CONSTANT_POW":  # of |x|
        assert (np.signbit(got) == np.signbit(expected))[zero].all()


@pytest.mark.parametrize("level", LEVELS)
def test_gelu_ends_in_negative_zero(level: str) -> None:
    x = np.array([-15.0, -20.0, -100.0, -1e30, -3.4e38], np.float32)
    got = apply("GELU", [x], FLOAT32, FLOAT32, level=level)
    assert (got == 0).all()
    assert np.signbit(got).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", ["SIN", "COS", "TAN"])
def test_large_angles_are_reduced_exactly(opcode: str, level: str) -> None:
    random = np.random.default_rng(1)
    x = (2.0 ** random.uniform(15, 127, 5_000) * random.choice([-1, 1], 5_000)).astype(np.float32)
    # Multiples of π/2 with a float32 very near to them, and both sides of the number from which the C library is used.
    x = np.concatenate([x, np.array([16367173 * 2.0**72, 1048576, 1048577, 355, 710, 1000 * math.pi], np.float32)])
    _, _, bound = FUNCTIONS[opcode]
    exactly = {"SIN": math.sin, "COS": math.cos, "TAN": math.tan}[opcode]
    expected = np.array([exactly(each) for each in x.tolist()])
    assert ulps(apply(opcode, [x], FLOAT32, FLOAT32, level=level), expected, 0).max() <= bound


@pytest.mark.parametrize("level", LEVELS)
def test_a_double_is_subtracted_within_one_unit(level: str) -> None:
    random = np.random.default_rng(8)
    a = random.standard_normal(4000).astype(np.float32)
    near = a.astype(np.float64) * (1 + random.standard_normal(4000) * 10.0 ** random.integers(-12, 2, 4000))
    special = [0.0, -0.0, 1e-320, 1e300, -1e300, np.inf, -np.inf, np.nan]
    for b in (near, random.standard_normal(4000), np.resize(special, 4000)):
        got = apply("SUBTRACT_WIDE", [a, b], DataType.FLOAT64, DataType.FLOAT32, level=level)
        with np.errstate(over="ignore"):
            exact = a.astype(np.float64) - b
            expected = exact.astype(np.float32)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        assert (np.abs(got - exact)[finite] <= np.abs(np.spacing(expected))[finite]).all()


@pytest.mark.parametrize("level", LEVELS)
def test_logarithms_of_doubles_are_within_one_unit(level: str) -> None:
    random = np.random.default_rng(5)
    x = random.integers(0, 1 << 63, 30_000).view(np.float64)
    special = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -1.0, -1e-320, 5e-324, 1e-310, 2.0**-1022, 1.7e308]
    x = np.concatenate([x, 1 + random.normal(size=10_000) * 1e-3, np.array(special)])
    with np.errstate(all="ignore"):
        expected = np.log(x)
        got = apply("LOG", [x], DataType.FLOAT64, DataType.FLOAT64, level=level)
        off = np.abs(got - expected) / np.spacing(np.abs(expected))
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert (same | (off <= 1)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_powers_are_within_one_unit(level: str) -> None:
    random = np.random.default_rng(2)
    base = np.exp(random.uniform(-80, 80, 30_000)).astype(np.float32)
    exponent = (random.uniform(-100, 100, 30_000) / np.log(base)).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = base.astype(float) ** exponent.astype(float)
    got = apply("POW", [base, exponent], FLOAT32, FLOAT32, level=level)
    assert ulps(got, expected, 0).max() <= 1
    whole = random.integers(-20, 20, 30_000).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = (-base.astype(float)) ** whole.astype(float)
    got = apply("POW", [-base, whole], FLOAT32, FLOAT32, level=level)
    assert ulps(got, expected, 0).max() <= 1


@pytest.mark.parametrize("level", LEVELS)
def test_angles_of_points(level: str) -> None:
    values = [0.0, -0.0, 1, -1, 0.3, -3, 1e-40, -1e-45, 1e38, -3.4e38, math.inf, -math.inf, math.nan]
    points = np.array(list(itertools.product(values, repeat=2)), np.float32)
    random = np.random.default_rng(3)
    points = np.concatenate([points, random.normal(size=(20_000, 2)).astype(np.float32)])
    y, x = np.ascontiguousarray(points.T)
    expected = np.arctan2(y.astype(float), x.astype(float))
    got = apply("ATAN_YX", [y, x], FLOAT32, FLOAT32, level=level)
    assert ulps(got, expected, 0).max() <= 2
    real = ~np.isnan(expected)
    assert (np.signbit(got) == np.signbit(expected))[real].all()


# float16.


@pytest.mark.parametrize("level", LEVELS)
def test_float16_is_read_exactly(level: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        expected = halves.astype(np.float32)
    np.testing.assert_array_equal(apply("CONVERT", [halves], FLOAT16, FLOAT32, level=level), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", [DataType.FLOAT32, DataType.FLOAT64], ids=str)
def test_float16_is_rounded_to_nearest_even_once(source: DataType, level: str) -> None:
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(source.numpy)
    middles = (halves[:-2] + halves[1:-1]) / 2
    around = [np.nextafter(middles, np.inf, dtype=source.numpy), np.nextafter(middles, 0, dtype=source.numpy)]
    beyond = np.array([65519.996, 65520, 65520.004, 1e30, np.inf, np.nan, 1e-40], source.numpy)
    x = np.concatenate([halves, middles, *around, beyond])
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16)
    got = apply("CONVERT", [x], source, FLOAT16, level=level)
    np.testing.assert_array_equal(got, expected)
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


# Properties of all kernels.


def kernels() -> list[tuple[str, DataType, DataType]]:
    return [
        (opcode, operand, result)
        for opcode, operand, result in itertools.product(OPCODES, TYPES, TYPES)
        if cpu_kernels.has_kernel(opcode, operand.value, result.value, LEVELS[0])
    ]


KERNELS = kernels()
# Operands whose type is not the operand type: by opcode, a function of (operand, result).
OTHER_TYPES: dict[str, Callable[[DataType, DataType], list[DataType]]] = {
    "IF": lambda operand, result: [DataType.UINT8, operand, operand],
    "INTEGER_POW": lambda operand, result: [operand, DataType.INT64],
    "SUBTRACT_WIDE": lambda operand, result: [result, operand],
    "QUANTIZE_FROM": lambda operand, result: [operand, operand, result],
    "REQUANTIZE": lambda operand, result: [operand, DataType.FLOAT32, result],
    "DEQUANTIZE": lambda operand, result: [operand, result],
    "DEQUANTIZE_FROM": lambda operand, result: [operand, result, operand],
}


def operand_types(opcode: str, operand: DataType, result: DataType) -> list[DataType]:
    return OTHER_TYPES.get(opcode, lambda operand, _: [operand] * OPCODES[opcode][0])(operand, result)


def sample(dtype: DataType, count: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if dtype.is_float:
        return (random.normal(size=count) * 3).astype(dtype.numpy)
    low, high = dtype.range
    values: Array = random.integers(max(low, -50), min(high, 50), count).astype(dtype.numpy)
    return values


def immediates_of(opcode: str, dtype: DataType) -> list[int | float]:
    special: dict[str, list[int | float]] = {
        "IS_INFINITY": [0],
        "SEQUENCE": [3, 2],
    }
    numbers = special.get(opcode, [0.75, 1.5][: OPCODES[opcode][1]])
    as_integers = not dtype.is_float and opcode != "SCALE_BIAS"
    return [int(number * 4) if as_integers else number for number in numbers]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_scalars_counts_and_places_do_not_matter(opcode: str, level: str) -> None:
    for _, operand, result in [kernel for kernel in KERNELS if kernel[0] == opcode]:
        types = operand_types(opcode, operand, result)
        more: dict[str, Any] = {"immediates": immediates_of(opcode, operand), "level": level}
        inputs = [sample(dtype, 700, seed) for seed, dtype in enumerate(types)]
        whole = apply(opcode, inputs, operand, result, **more, count=700)
        for count in (1, 2, 3, 7, 8, 15, 17, 33, 63, 255, 256, 257, 513):
            given = [each[1 : count + 1] for each in inputs]
            part = apply(opcode, given, operand, result, **more, count=count, first=1)
            expected = whole[1 : count + 1]
            np.testing.assert_array_equal(part, expected, err_msg=f"{count} of {operand} {result}")
        for scalar in itertools.product([False, True], repeat=len(types)):
            given = [np.array(each[0]) if one else each for each, one in zip(inputs, scalar, strict=True)]
            spread = [np.full_like(each, each[0]) if one else each for each, one in zip(inputs, scalar, strict=True)]
            out = np.empty(700, result.numpy)
            cpu_kernels.apply(opcode, operand.value, result.value, given, out, **more)
            expected = apply(opcode, spread, operand, result, **more, count=700)
            np.testing.assert_array_equal(out, expected, err_msg=f"scalars {scalar} of {operand} {result}")
        for place, dtype in enumerate(types):
            if dtype.bits == result.bits:
                copies = [each.copy() for each in inputs]
                out = copies[place].view(result.numpy)
                cpu_kernels.apply(opcode, operand.value, result.value, copies, out, **more)
                np.testing.assert_array_equal(out, whole, err_msg=f"in place of {place} of {operand} {result}")


APPROXIMATE = {*FUNCTIONS, "ASINH", "ACOSH", "ATANH", "ATAN_YX", "POW", "CELU", "EXP_BELOW"}


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("opcode", [opcode for opcode in OPCODES if opcode not in APPROXIMATE])
def test_levels_agree_bit_for_bit(opcode: str, level: str) -> None:
    for _, operand, result in [kernel for kernel in KERNELS if kernel[0] == opcode]:
        random = np.random.default_rng(4)
        inputs = [
            np.frombuffer(random.bytes(1000 * dtype.numpy.itemsize), dtype.numpy)
            for dtype in operand_types(opcode, operand, result)
        ]
        if opcode in ("DIVIDE", "MODULUS_TRUNCATE", "MODULUS_FLOOR"):
            inputs[1] = np.where(np.arange(1000) % 5 == 0, 0, inputs[1]).astype(inputs[1].dtype)
        immediates = immediates_of(opcode, operand)
        low = apply(opcode, inputs, operand, result, immediates=immediates, level=LEVELS[0], count=1000)
        high = apply(opcode, inputs, operand, result, immediates=immediates, level=level, count=1000)
        np.testing.assert_array_equal(high, low, err_msg=f"{operand} {result}")


def test_all_levels_have_the_same_kernels() -> None:
    for opcode, operand, result in itertools.product(OPCODES, TYPES, TYPES):
        here = {cpu_kernels.has_kernel(opcode, operand.value, result.value, level) for level in LEVELS}
        assert len(here) == 1, (opcode, operand, result)


def test_every_opcode_has_a_kernel() -> None:
    assert {kernel[0] for kernel in KERNELS} == set(OPCODES)


def test_everything_can_be_converted_to_everything() -> None:
    for operand, result in itertools.product(TYPES, TYPES):
        assert ("CONVERT", operand, result) in KERNELS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("NOTHING", 1, 1), "not an opcode: NOTHING"),
        (("ADD", 1, 99), "not a DML_TENSOR_DATA_TYPE: 99"),
        (("ADD", 1, 5), "the kernel does not exist"),
        (("EXP", 1, 1), "wrong number of operands or immediates"),
    ],
)
def test_wrong_calls_are_refused(arguments: tuple[str, int, int], message: str) -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=message):
        cpu_kernels.apply(*arguments, [x, x], x)
    with pytest.raises(ValueError, match="packed"):
        cpu_kernels.apply("ADD", 1, 1, [x, np.zeros(4, np.float32)], x)
    with pytest.raises(ValueError, match="level"):
        cpu_kernels.apply("ADD", 1, 1, [x, x], x, level="none")


@pytest.mark.parametrize("level", LEVELS)
def test_quotients_by_one_number_are_rounded_once(level: str) -> None:
    """As NumPy's, also where the remainder of a quotient would not be exact."""
    random = np.random.default_rng(7)
    ordinary = (random.uniform(1, 2, 3000) * 2.0 ** random.integers(-8, 8, 3000)).astype(np.float32)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-39, 3.4e38, 1e-13, 1e13, 1e-20, -1e25]
    mixed, hidden = ordinary.copy(), ordinary.copy()
    mixed[random.integers(0, 3000, 40)] = random.choice(special, 40)
    hidden[::64], hidden[16::64] = math.nan, math.inf  # in the same lane of a vector
    divisors = [1.0, 3.0, -7.0, 1.9999999, 1.0000001, *random.uniform(1, 2, 20), *special]
    for x, divisor in itertools.product([ordinary, -ordinary, mixed, hidden], np.array(divisors, np.float32)):
        with np.errstate(all="ignore"):
            expected = x / divisor
        got = apply("DIVIDE", [x, np.asarray(divisor)], DataType.FLOAT32, DataType.FLOAT32, immediates=[], level=level)
        np.testing.assert_array_equal(got, expected)
        whole = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[whole]), np.signbit(expected[whole]))


@pytest.mark.parametrize("level", LEVELS)
def test_exp_below_is_the_exponential_of_a_difference(level: str) -> None:
    """e^(a − b) for a up to b, within 2 ULP and 2⁻²⁸ (b − a), which is a sixteenth of the rounding of the difference; 0
    far below, 1 where both are equal."""
    below = np.concatenate([np.linspace(-103, 0, 4001), [-1000, -np.inf]]).astype(np.float32)
    greatest = np.full_like(below, 0.5)
    got = apply(
        "EXP_BELOW",
        [below + greatest, greatest],
        DataType.FLOAT32,
        DataType.FLOAT32,
        immediates=[],
        level=level,
        count=len(below),
    )
    difference = (below + greatest).astype(np.float64) - 0.5
    expected = np.exp(difference)
    unit = np.spacing(expected.astype(np.float32)).astype(np.float64)
    assert (np.abs(got - expected) <= 2 * unit - expected * np.maximum(difference, -200) * 2.0**-28).all()
    assert got[-1] == got[-2] == 0
    assert got[4000] == 1
