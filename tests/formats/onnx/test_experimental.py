"""Operators that ONNX had for trial up to opset 9, against ONNX Runtime, which still has most of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Case, Chance, Makers
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

making = Makers()


def case(operator: str, *inputs: Any, **fields: Any) -> Case:
    """A case in one of the opsets that have these operators."""
    known = fields.pop("known", ())
    return Case(operator, [*inputs], fields, domain="", opset=fields.pop("opset", 8), known=known)


def image(chance: Chance, channels: int = 3) -> Any:
    return chance.floats(chance.size(1, 2), channels, chance.size(4, 6), chance.size(4, 6))


@making(8)
def _image_scaler(chance: Chance) -> Case:
    channels = chance.one(1, 3, 3, 4)
    bias = [float(each) for each in chance.floats(channels)]
    opset = chance.size(1, 9)
    return case("ImageScaler", image(chance, channels), bias=bias, opset=opset, **chance.one({}, {"scale": 2.5}))


@making(8)
def _crop(chance: Chance) -> Case:
    border = [chance.flag(), chance.size(0, 2), chance.size(0, 2), chance.flag()]
    return case("Crop", image(chance), border=border, **chance.one({}, {"scale": [chance.size(1, 2), 1]}))


@making(4)
def _affine(chance: Chance) -> Case:
    return case("Affine", chance.floats(2, 5), **chance.one({}, {"alpha": 0.3}, {"alpha": -2.0, "beta": 0.5}))


@making(3)
def _parametric_softplus(chance: Chance) -> Case:
    return case("ParametricSoftplus", chance.floats(2, 5), alpha=chance.one(1.0, 0.7), beta=chance.one(1.0, 2.5))


@making(3)
def _scaled_tanh(chance: Chance) -> Case:
    return case("ScaledTanh", chance.floats(chance.size(1, 2), 5), alpha=1.7159, beta=chance.one(1.0, 0.6667))


@making(4)
def _thresholded_relu(chance: Chance) -> Case:
    fields = chance.one({}, {"alpha": 0.3}, {"alpha": 0.0})
    return case("ThresholdedRelu", chance.floats(2, 5), opset=chance.size(1, 9), **fields)


@making(3)
def _scale(chance: Chance) -> Case:
    return case("Scale", chance.floats(2, 5), **chance.one({}, {"scale": -0.3}))


@making(8)
def _mean_variance_normalization(chance: Chance) -> Case:
    """Small numbers show an epsilon, which there is not."""
    x = chance.floats(2, 3, *chance.one((5,), (4, 5))) * np.float32(chance.one(1, 1e-4))
    fields = {"across_channels": chance.flag(), "normalize_variance": chance.one(1, 1, 0)}
    return case("MeanVarianceNormalization", x, **fields)


@making(4)
def _mean_variance_normalization_of_opset_9(chance: Chance) -> Case:
    x = chance.floats(2, 3, 4, 5) * np.float32(chance.one(1, 1e-4))
    return case("MeanVarianceNormalization", x, opset=9, **chance.one({}, {"axes": [1, 3]}))


@making(3)
def _dynamic_slice(chance: Chance) -> Case:
    first = chance.flag()
    inputs = [np.array([first, 1]), np.array([3, -1]), chance.one(None, np.array([2, 0]))]
    return case("DynamicSlice", chance.floats(3, 4, 5), *inputs, known=(1, 2) if inputs[2] is None else (1, 2, 3))


@pytest.mark.parametrize("name", list(making))
@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives(name: str) -> None:
    making.check(name)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_float16(device: DeviceName) -> None:
    x = np.array([-2, -0.5, 0.25, 3], np.float16).reshape(1, 1, 2, 2)
    bound = 2e-3
    for each, expected in [
        (case("ImageScaler", x, scale=2.0, bias=[0.5]), 2 * x + np.float16(0.5)),
        (case("Affine", x, alpha=2.0, beta=0.5), 2 * x + np.float16(0.5)),
        (case("Crop", x, border=[1, 0, 0, 1]), x[..., :1, 1:]),
        (case("ScaledTanh", x, alpha=2.0, beta=0.5), (2 * np.tanh(x.astype(float) / 2)).astype(np.float16)),
        (case("MeanVarianceNormalization", x * 0 + 1), x * 0),
    ]:
        dataclasses.replace(each, bound=bound).check([expected], device)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_fills(device: DeviceName) -> None:
    """ONNX Runtime lacks them; of Caffe2."""
    shape = np.array([2, 3], np.int64)
    numbers, threes = np.array([[0, 1, 2], [3, 4, 5]], np.float32), np.full((2, 3, 2), 3, np.int32)
    for each, expected in [
        (case("GivenTensorFill", shape=[2, 1], values=[1.5, -2.0]), np.array([[1.5], [-2]], np.float32)),
        (case("GivenTensorFill", shape, input_as_shape=1, values=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], known=(0,)), numbers),
        (case("ConstantFill", shape=[2, 3], value=2.5), np.full((2, 3), 2.5, np.float32)),
        (case("ConstantFill", shape, input_as_shape=1, extra_shape=[2], dtype=6, value=3.0, known=(0,)), threes),
        (case("ConstantFill", np.zeros((2, 3), np.float32), value=1.5), np.full((2, 3), 1.5, np.float32)),
    ]:
        each.check([expected], device)


IMAGE = np.zeros((1, 3, 4, 5), np.float32)
REFUSED = {
    "bias": case("ImageScaler", IMAGE, bias=["1", "2", "3"]),
    "scale": case("ImageScaler", IMAGE, scale="x", bias=[1.0, 2.0, 3.0]),
    "border": case("Crop", IMAGE, border=[2, 0, 3, 0]),
    "alpha": case("ScaledTanh", IMAGE, beta=1.0),
    "values": case("GivenTensorFill", shape=[3], values=[1.0, 2.0]),
    "dtype": case("ConstantFill", shape=[3], dtype=8),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_does_not_fit_is_refused_by_its_field(field: str) -> None:
    with pytest.raises(dg.ModelError) as caught:
        REFUSED[field].graph()
    assert [problem.field for problem in caught.value.problems] == [field]


def test_a_bias_of_another_count_is_refused() -> None:
    with raises(dg.ModelError, "count", node="n", field="bias", got=[1.0, 2.0]):
        case("ImageScaler", IMAGE, bias=[1.0, 2.0]).graph()


@pytest.mark.parametrize("operator", ["ATen", "GRUUnit", "LoopIndexTensor"])
def test_those_without_a_counterpart_are_named(operator: str) -> None:
    with pytest.raises(dg.ModelError, match=f"there is no counterpart of {operator}"):
        case(operator, IMAGE).graph()


def test_later_opsets_do_not_have_them() -> None:
    with raises(dg.ModelError, "opset", node="n"):
        case("Affine", IMAGE, opset=10).graph()
