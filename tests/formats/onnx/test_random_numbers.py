"""Random operators: distributions, bounds and seeds.  The seeds are fixed, and so are the numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Case
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]
DEVICES = ["reference", "cpu", SOFTWARE]
SHAPE = [40, 50, 5]
COUNT = math.prod(SHAPE)
ERRORS = 4  # standard errors that a moment may be off

pytestmark = pytest.mark.usefixtures("directml_path")


def case(operator: str, *inputs: Any, **fields: Any) -> Case:
    return Case(operator, [*inputs], fields, domain="", opset=fields.pop("opset", 21))


def drawn(device: DeviceName, operator: str, *inputs: Any, **fields: Any) -> Array:
    (made,) = case(operator, *inputs, **fields).run(device)
    return made


def check_moments(values: Array, mean: float, deviation: float, kurtosis: float) -> None:
    """Mean and variance within their standard errors."""
    wide = values.astype(np.float64).ravel()
    assert abs(wide.mean() - mean) < ERRORS * deviation / math.sqrt(wide.size)
    assert abs(wide.var() / deviation**2 - 1) < ERRORS * math.sqrt((kurtosis - 1) / wide.size)


def check_independent(values: Array) -> None:
    """Neighbours at several distances do not depend on each other."""
    wide = values.astype(np.float64).ravel()
    wide = (wide - wide.mean()) / wide.std()
    for distance in (1, 2, 4, wide.size // 2):
        assert abs((wide[distance:] * wide[:-distance]).mean()) < ERRORS / math.sqrt(wide.size - distance)


TYPES = [np.float32, np.float16, np.float64]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 5.0), (100.0, 101.0)])
def test_uniform_numbers(low: float, high: float, dtype: Any, device: DeviceName) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = drawn(device, "RandomUniform", shape=SHAPE, low=low, high=high, dtype=kind, seed=1.5)
    assert made.dtype == dtype
    assert made.shape == tuple(SHAPE)
    assert made.min() >= low
    assert made.max() < high
    if low < 100 or dtype != np.float16:  # float16 has 16 numbers from 100 to 101
        check_moments(made, (low + high) / 2, (high - low) / math.sqrt(12), 1.8)
        check_independent(made)
        parts = np.histogram(made.astype(np.float64), 10, (low, high))[0]
        assert abs(parts - COUNT / 10).max() < ERRORS * math.sqrt(COUNT * 0.1 * 0.9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (-3.0, 0.5)])
def test_normal_numbers(mean: float, scale: float, dtype: Any, device: DeviceName) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = drawn(device, "RandomNormal", shape=SHAPE, mean=mean, scale=scale, dtype=kind, seed=2.0)
    assert made.dtype == dtype
    assert made.shape == tuple(SHAPE)
    check_moments(made, mean, scale, 3)
    check_independent(made)
    away = np.abs(made.astype(np.float64) - mean) / scale
    for distance in (0.5, 1, 2, 3):  # parts within so many deviations
        part = math.erf(distance / math.sqrt(2))
        assert abs((away < distance).mean() - part) < ERRORS * math.sqrt(part * (1 - part) / COUNT)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_shapes_and_types_of_an_input(dtype: Any, device: DeviceName) -> None:
    x = np.zeros(SHAPE, dtype)
    uniform = drawn(device, "RandomUniformLike", x, low=-1.0, seed=3.0)
    normal = drawn(device, "RandomNormalLike", x, mean=1.0, seed=3.0)
    assert uniform.dtype == normal.dtype == dtype
    assert uniform.shape == normal.shape == x.shape
    check_moments(uniform, 0, 2 / math.sqrt(12), 1.8)
    check_moments(normal, 1, 1, 3)
    half = drawn(device, "RandomNormalLike", np.zeros(3, np.int64), dtype=onnx.TensorProto.FLOAT16)
    assert half.dtype == np.float16


@pytest.mark.parametrize("device", DEVICES)
def test_bernoulli_gives_ones_as_often_as_the_input_says(device: DeviceName) -> None:
    chances = np.array([0, 0.1, 0.5, 0.9, 1], np.float32)
    x = np.broadcast_to(chances, (3000, 5)).copy()
    for fields, dtype in (({}, np.float32), ({"dtype": onnx.TensorProto.BOOL}, np.uint8), ({"dtype": 7}, np.int64)):
        made = drawn(device, "Bernoulli", x, seed=4.0, **fields)
        assert made.dtype == dtype
        assert set(np.unique(made)) == {0, 1}
        assert (np.abs(made.mean(0) - chances) <= ERRORS * np.sqrt(chances * (1 - chances) / len(x))).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_multinomial_draws_classes_by_their_weights(dtype: Any, device: DeviceName) -> None:
    weights = np.array([[1, 0, 5, 4], [0, 0, 2, 0], [3, 3, 3, 3]], np.float64)
    with np.errstate(divide="ignore"):
        logarithms = np.log(weights).astype(dtype)
    made = drawn(device, "Multinomial", logarithms, sample_size=4000, seed=5.0)
    assert made.dtype == np.int32
    assert made.shape == (3, 4000)
    parts = np.stack([(made == index).mean(1) for index in range(4)], 1)
    wanted = weights / weights.sum(1, keepdims=True)
    assert (np.abs(parts - wanted) <= ERRORS * np.sqrt(wanted * (1 - wanted) / 4000)).all()
    (one,) = case("Multinomial", logarithms[:1, :1], dtype=onnx.TensorProto.INT64).run(device)
    np.testing.assert_array_equal(one, np.zeros((1, 1), np.int64))


def test_a_seed_decides_the_numbers() -> None:
    def numbers(**fields: Any) -> Array:
        return drawn("cpu", "RandomUniform", shape=[100], **fields)

    first, again, other = numbers(seed=1.0), numbers(seed=1.0), numbers(seed=2.0)
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9
    np.testing.assert_array_equal(numbers(), numbers())
    assert (numbers() != first).mean() > 0.9


def test_every_run_gives_the_same_numbers() -> None:
    compiled = case("RandomNormal", shape=[100], seed=1.0).graph().compile("cpu")
    (first,), (second,) = compiled.run({}).values(), compiled.run({}).values()
    np.testing.assert_array_equal(first, second)


def test_nodes_without_a_seed_draw_other_numbers() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g () => (float[100] y, float[100] z) {
        y = RandomUniform <shape = [100]> ()
        z = RandomUniform <shape = [100]> ()
    }""")
    prepared = prepare(ir.from_proto(model))
    graph = Importer(prepared, dims={}, values={}, target=None, convert=None).read()
    first, second = graph.compile("cpu").run({}).values()
    assert (first != second).mean() > 0.9


REFUSED = [
    ("high", case("RandomUniform", shape=[2], low=2.0, high=1.0)),
    ("scale", case("RandomNormal", shape=[2], scale=float("inf"))),
    ("dtype", case("RandomUniformLike", np.zeros(2, np.int32))),
    ("dtype", case("RandomNormal", shape=[2], dtype=-1)),
    ("dtype", case("Multinomial", np.zeros((1, 2), np.float32), dtype=99)),
]


@pytest.mark.parametrize(("field", "refused"), REFUSED)
def test_what_is_no_distribution_is_refused(field: str, refused: Case) -> None:
    with pytest.raises(dg.ModelError) as caught:
        refused.graph()
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize("target", ["3.0", "2.0"])
def test_old_levels(target: str) -> None:
    """From 3.0 on there is the generator."""
    made = case("RandomUniform", shape=[2, 3], seed=1.0)
    if target == "3.0":
        assert made.graph(dg.FeatureLevel.parse(target)).compile("cpu").run({})
    else:
        with raises(dg.ModelError, "level", node="n"):
            made.graph(dg.FeatureLevel.parse(target))
