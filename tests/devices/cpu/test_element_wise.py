"""Instructions of element-wise operators agree with `evaluate`, for every operator and data type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgraph._native import cpu_kernels
from dmlgraph.base.errors import OperatorError
from dmlgraph.base.levels import NEWEST
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu import element_wise as lowerings
from dmlgraph.devices.cpu.element_wise import activate
from dmlgraph.devices.cpu.expressions import Operand
from dmlgraph.devices.cpu.expressions import instructions as written
from dmlgraph.devices.cpu.nodes import Instruction
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.common.element_wise import ElementWise
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.fill import Fill

Array = np.ndarray[Any, Any]

NAN, INF = float("nan"), float("inf")
COUNT = 1009  # odd, so that the ends of all loops run

# Attributes that are required, or of which more values are tried.
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "clip": [{"min": low, "max": high} for low, high in [(-1.5, 6.25), (5, -5), (-INF, INF), (NAN, 2), (-2, NAN)]],
    "clip1": [{"min": 1, "max": 6}, {"min": 6, "max": 1}],
    "clip_grad": [{"min": -1.5, "max": 6.25}, {"min": -INF, "max": INF}, {"min": NAN, "max": 1}],
    "clip_grad1": [{"min": 1, "max": 6}],
    "threshold": [{"min": low} for low in (0.75, -1e9, 70000, INF, NAN)],
    "constant_pow": [{"exponent": e} for e in (2, 2.5, 3, 0, -1, -2.5, 0.5, 1e9, INF, -INF, NAN)],
    "round": [{"rounding_mode": mode} for mode in ("halves_to_nearest_even", "toward_zero", "toward_infinity")],
    "is_infinity": [{"infinity_mode": mode} for mode in ("either", "positive", "negative")],
    "activation_linear": [{"alpha": 1.7, "beta": -0.3}],
    "activation_leaky_relu": [{}, {"alpha": -1.5}],
    "activation_elu": [{}, {"alpha": 0.3}],
    "activation_celu": [{}, {"alpha": 0.3}],
    "activation_thresholded_relu": [{"alpha": 0.1}],
    "activation_shrink": [{}, {"bias": 1.25, "threshold": 2.5}, {"bias": -70000, "threshold": 1}],
    "activation_softplus": [{}, {"steepness": 1.75}],
    "activation_parametric_softplus": [{"alpha": 1.3, "beta": 2.1}, {"alpha": -2, "beta": -0.5}],
    "activation_scaled_tanh": [{}, {"alpha": 1.7, "beta": 0.3}],
    "activation_swish": [{"sigmoid_input_scale": 1}, {"sigmoid_input_scale": 1.3}],
    "activation_hard_swish": [{"alpha": 0.16666667, "beta": 0.5}],
    "add1": [{}]
    + [
        {"fused_activation": name}
        for name, operator in REGISTRY.items()
        if "ELEMENT_WISE_ADD1" in operator.support().fusable_into and issubclass(operator, ElementWise)
        if all(not field.required for key, field in operator.fields.items() if key not in ("input", "output"))
    ]
    + [{"fused_activation": {"op": "activation_linear", "alpha": 2, "beta": -65504}}],
}
SCALE_BIAS = {"scale": 1.7, "bias": -0.6}

# How far results may be from `evaluate`, in units in the last place; other operators are exact.
FLOAT32_ULP = {
    **dict.fromkeys(["exp", "log", "acos", "cosh", "asinh", "acosh", "atanh", "atan_yx", "pow", "constant_pow"], 1),
    **dict.fromkeys(["activation_softsign", "activation_elu", "activation_celu", "activation_hard_swish"], 2),
    **dict.fromkeys(["erf", "sin", "cos", "asin", "atan", "sinh", "tanh", "activation_tanh", "activation_sigmoid"], 2),
    **dict.fromkeys(["tan", "activation_softplus", "activation_parametric_softplus"], 3),
    **dict.fromkeys(["activation_scaled_elu", "activation_scaled_tanh", "activation_swish"], 4),
    "activation_gelu": 8,
}
# float16 is rounded from float32, while `evaluate` rounds from float64.
FLOAT16_ULP = dict.fromkeys(FLOAT32_ULP, 1) | dict.fromkeys(
    ["activation_leaky_relu", "activation_linear", "activation_hard_sigmoid", "activation_hard_swish"], 1
)
# Nearer to zero the unit is that of this number: GELU's `evaluate` computes 1 + erf x, which loses its digits there,
# and SWISH's factors become subnormal.
ULP_FLOOR = {"activation_gelu": 2.0**-20, "activation_swish": 2.0**-100}

ELEMENT_WISE = [
    name for name, operator in REGISTRY.items() if issubclass(operator, ElementWise | Fill) or name == "cast"
]
# Element-wise operators that have no instructions, and why.
WITHOUT = {
    "fill_value_constant": "its value is a scalar operand",
    "diagonal_matrix": "its elements depend on their positions",
    "diagonal_matrix1": "its elements depend on their positions",
}


def sample(dtype: DataType, seed: int) -> Array:
    """Edge values, small numbers, and random bit patterns."""
    random = np.random.default_rng(seed)
    if dtype.is_float:
        edges = [0, 0.5, 1, 1.5, 2, 2.5, 3, 0.49999997, 65504, 1e-45, 1.2e-38, 3.4e38, 88.7, 89, 104, 127.5, 255.5]
        edges += [32768, 16777217, 8388609, 2.0**31, 2.0**32, 2.0**63, 2.0**64, INF, NAN]
        third = (COUNT - 2 * len(edges)) // 3
        numbers = [*edges, *(-edge for edge in edges), *random.normal(size=third) * 3, *random.uniform(-1, 1, third)]
        with np.errstate(all="ignore"):
            given = np.array(numbers).astype(dtype.numpy)
    else:
        low, high = dtype.range
        edges = [-7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, 127, 128, 255, low, low + 1, high - 1, high]
        near = random.integers(max(low, -20), 21, COUNT // 2).tolist()
        given = np.array([each for each in edges if low <= each <= high] + near, dtype.numpy)
    rest = (COUNT - len(given)) * dtype.numpy.itemsize
    values = np.concatenate([given, np.frombuffer(random.bytes(rest), dtype.numpy)])
    random.shuffle(values)
    return values


def instructions(operator: Operator) -> tuple[Instruction, ...] | None:
    """Those of an element-wise operator; None if it has none."""
    lower = lowerings.ELEMENT_WISE.get(type(operator))
    found: Any = None if lower is None else lower(operator)
    return None if found is None else found.instructions


def execute(code: tuple[Instruction, ...], inputs: list[Array], level: str) -> Array:
    """The result of the last instruction."""
    results: list[Array] = []
    for opcode, places, operand, result, immediates in code:
        out = np.empty(COUNT, result.numpy)
        operands = [inputs[place] if place >= 0 else results[~place] for place in places]
        cpu_kernels.apply(opcode, operand.value, result.value, operands, out, list(immediates), level)
        results.append(out)
    return results[-1] if results else inputs[0]


def ordered(values: Array) -> Array:
    """Floats as integers whose differences are units in the last place."""
    bits = values.view(f"i{values.itemsize}").astype(np.int64)
    return np.where(bits < 0, -(bits & ((1 << (8 * values.itemsize - 1)) - 1)), bits)


def distance(got: Array, expected: Array, floor: float) -> Array:
    """The distance in units in the last place; NaN is near NaN only; numbers below `floor` have the unit of `floor`."""
    with np.errstate(all="ignore"):
        units = np.abs(ordered(got) - ordered(expected)).astype(float)
        unit = np.spacing(got.dtype.type(floor)).astype(float)
        wide = np.abs(got.astype(float) - expected.astype(float)) / unit
    units = np.where(np.fmax(np.abs(got), np.abs(expected)) < floor, wide, units)
    units[np.isnan(got) & np.isnan(expected)] = 0
    units[np.isnan(got) != np.isnan(expected)] = INF
    return units


def assert_near(got: Array, expected: Array, inputs: list[Array], ulp: float, floor: float) -> None:
    assert got.dtype == expected.dtype
    if got.dtype.kind != "f":
        wrong = got != expected
    else:
        wrong = distance(got, expected, floor) > ulp
        if ulp == 0:
            wrong |= np.signbit(got) != np.signbit(expected)
            wrong &= ~(np.isnan(got) & np.isnan(expected))
    at = np.nonzero(wrong)[0][:5]
    assert not len(at), [(*(each[i] for each in inputs), "gives", got[i], "not", expected[i]) for i in at]


def bounds(operator: Operator, dtype: DataType) -> tuple[float, float]:
    """(units in the last place, floor) for an operator's result."""
    fused = operator.attributes.get("fused_activation")
    name = operator.name if fused is None else fused.name
    ulp = {DataType.FLOAT32: FLOAT32_ULP, DataType.FLOAT16: FLOAT16_ULP}.get(dtype, {})
    floor = ULP_FLOOR.get(name, 0.0)
    return ulp.get(name, 0), max(floor, 2.0**-14) if floor and dtype is DataType.FLOAT16 else floor


def legal(name: str) -> Iterator[Operator]:
    """The operator for every legal combination of data types, with its attributes."""
    cls = REGISTRY[name]
    types = {row.tensor: [each for each in DataType if row.takes(each)] for row in cls.support().levels[newest(cls)]}
    member = {each.field: each.name for each in cls.members if each.field}
    asked = [None, *types[member["output"]]] if "dtype" in cls.output_keywords else [None]
    scales: list[dict[str, Any]] = [{}, {"scale_bias": SCALE_BIAS}] if "scale_bias" in cls.fields else [{}]
    operands = [types[member[field]] for field in cls.input_fields]
    for dtypes, output, scale, given in itertools.product(
        itertools.product(*operands), asked, scales, ATTRIBUTES.get(name, [{}])
    ):
        descs = {
            field: TensorDesc(dtype=dtype, sizes=(COUNT,))
            for field, dtype in zip(cls.input_fields, dtypes, strict=True)
        }
        fields: Mapping[str, Any] = given | scale | ({"output": {"dtype": output}} if output else {})
        try:
            operator = cls(**descs, **fields)
        except OperatorError:
            continue
        if not operator.level_problems(NEWEST):
            yield operator


def newest(cls: type[Operator]) -> Any:
    return max(cls.support().levels)


def inputs_of(operator: Operator) -> list[Array]:
    inputs = [sample(desc.dtype, seed) for seed, desc in enumerate(operator.input_descs) if desc is not None]
    if operator.name == "if":
        inputs[0] %= 3
    return inputs


@pytest.mark.parametrize("level", cpu_kernels.levels())
@pytest.mark.parametrize("name", [name for name in ELEMENT_WISE if not issubclass(REGISTRY[name], Fill)])
def test_instructions_give_what_evaluate_gives(name: str, level: str) -> None:
    tried = 0
    for operator in legal(name):
        code = instructions(operator)
        assert code is not None, operator
        inputs = inputs_of(operator)
        with np.errstate(all="ignore"):
            (expected,) = operator.evaluate(*inputs)
        (desc,) = operator.output_descs
        assert desc is not None
        assert_near(execute(code, inputs, level), expected, inputs, *bounds(operator, desc.dtype))
        tried += 1
    assert tried > 0


@pytest.mark.parametrize("name", WITHOUT)
def test_operators_without_instructions_are_listed(name: str) -> None:
    # All others are compared with `evaluate` above and below, whatever their data types.
    cls = REGISTRY[name]
    desc = TensorDesc(dtype=DataType.FLOAT32, sizes=(1, 1, 2, 2))
    fields: dict[str, Any] = dict.fromkeys(cls.input_fields, desc) or {
        "output": {"dtype": "float32", "sizes": desc.sizes}
    }
    fields |= {field: 1 for field in cls.attribute_fields if cls.fields[field].required}
    assert instructions(cls(**fields)) is None


def sequences() -> Iterator[Operator]:
    cls = REGISTRY["fill_value_sequence"]
    (row,) = cls.support().levels[newest(cls)]
    for dtype in filter(row.takes, DataType):
        for start, delta in ((3, 2), (100, 11), (0, 0), (7, -3 if dtype.is_signed else 251)):
            yield cls(output={"dtype": dtype, "sizes": (COUNT,)}, value_start=start, value_delta=delta)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_sequences(level: str) -> None:
    for operator in sequences():
        code = instructions(operator)
        assert code is not None
        (expected,) = operator.evaluate()
        assert_near(execute(code, [], level), expected, [np.arange(COUNT)], 0, 0)


@pytest.mark.parametrize("level", cpu_kernels.levels())
@pytest.mark.parametrize("first", [2040, 65_400, 2**24 - 5, 2**32 - 1 - COUNT])
def test_sequences_count_from_anywhere(first: int, level: str) -> None:
    for operator in sequences():
        code = instructions(operator)
        assert code is not None
        ((opcode, _, dtype, _, immediates),) = code
        got = np.empty(COUNT, dtype.numpy)
        cpu_kernels.apply(opcode, dtype.value, dtype.value, [], got, list(immediates), level, first)
        index = np.arange(first, first + COUNT, dtype=np.uint64)
        assert_near(got, operator.at(index), [index], 0, 0)  # type: ignore[attr-defined]


def of_float16(name: str, count: int) -> Operator:
    fields = ATTRIBUTES.get(name, [{}])[0]
    return REGISTRY[name](input=TensorDesc(dtype=DataType.FLOAT16, sizes=(count,)), **fields)


def takes_float16(name: str) -> bool:
    try:
        return not of_float16(name, 1).level_problems(NEWEST)
    except OperatorError:
        return False


@pytest.mark.parametrize("level", cpu_kernels.levels())
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ELEMENT_WISE
        if len(REGISTRY[name].input_fields) == 1 and name not in (*WITHOUT, "cast") and takes_float16(name)
    ],
)
def test_all_float16_numbers(name: str, level: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    operator = of_float16(name, len(x))
    code = instructions(operator)
    assert code is not None
    with np.errstate(all="ignore"):
        (expected,) = operator.evaluate(x)
    parts = [x[start : start + COUNT] for start in range(0, len(x) - COUNT, COUNT)] + [x[-COUNT:]]
    got = np.concatenate([execute(code, [part], level) for part in parts[:-1]])
    last = execute(code, [parts[-1]], level)
    assert_near(got, expected[: len(got)], [x], *bounds(operator, operator.output.dtype))  # type: ignore[attr-defined]
    assert_near(last, expected[-COUNT:], [x[-COUNT:]], *bounds(operator, operator.output.dtype))  # type: ignore[attr-defined]


def test_a_fused_activation_works_on_the_float32_of_its_host() -> None:
    float32 = DataType.FLOAT32
    x = Operand(0, float32)
    relu = activate(FusedActivation.of(REGISTRY["activation_relu"], {}), x, float32)
    assert relu is not None
    assert relu.dtype is float32
    assert written(relu) == (Instruction("RELU", (0,), float32, float32),)
    assert activate(FusedActivation.of(REGISTRY["activation_softmax"], {}), x, float32) is None


def test_what_changes_nothing_has_no_instructions() -> None:
    desc = TensorDesc(dtype=DataType.FLOAT64, sizes=(3,))
    assert instructions(REGISTRY["identity"](input=desc)) == ()
    assert instructions(REGISTRY["cast"](input=desc, output={"dtype": "float64"})) == ()


def test_types_without_kernels_have_no_instructions() -> None:
    desc = TensorDesc(dtype=DataType.parse(np.dtype(ml_dtypes.int4)), sizes=(4,))
    assert instructions(REGISTRY["cast"](input=desc, output={"dtype": "int8"})) is None


def test_operators_that_are_not_element_wise_have_no_instructions() -> None:
    desc = TensorDesc(dtype=DataType.FLOAT32, sizes=(1, 1, 2, 3))
    assert instructions(REGISTRY["activation_softmax"](input=desc)) is None
