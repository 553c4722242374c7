"""RNN, GRU and LSTM with a clip, other activations and lengths, against ONNX Runtime's CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Case, Chance, Makers
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.onnx.control import MOST_STEPS

making = Makers()
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
PARAMETERS = {  # activations, and whether they take alpha and beta
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"), ()),
    **dict.fromkeys(("LeakyRelu", "ThresholdedRelu", "Elu"), ("alpha",)),
    **dict.fromkeys(("Affine", "ScaledTanh", "HardSigmoid"), ("alpha", "beta")),
}


def recurrent(operator: str, chance: Chance, **fields: Any) -> Case:
    """With clip, and what else there is at random; sizes of 1, too."""
    steps, batch, width, hidden = (chance.size(1, 4) for _ in range(4))
    direction = chance.one("forward", "reverse", "bidirectional")
    count = 2 if direction == "bidirectional" else 1
    rows = GATES[operator] * hidden
    lengths = 1 + chance.below(steps, batch) if chance.flag() else None
    inputs = [
        chance.floats(steps, batch, width),
        chance.floats(count, rows, width),
        chance.floats(count, rows, hidden),
        chance.maybe(chance.floats(count, 2 * rows)),
        lengths,
        chance.maybe(chance.floats(count, batch, hidden)),
    ]
    fields |= {"hidden_size": hidden, "direction": direction, "clip": chance.one(0.3, 0.5, 2.0)}
    if chance.flag():
        fields |= activations([chance.one(*PARAMETERS) for _ in range(FUNCTIONS[operator] * count)], chance)
    known = [index for index in (1, 2, 3, 4) if inputs[index] is not None and chance.flag()]
    outputs = (True,) * (3 if operator == "LSTM" else 2)
    return Case(operator, inputs, fields, outputs, tuple(known), domain="", opset=chance.size(7, 21), bound=5e-5)


def activations(names: list[str], chance: Chance) -> dict[str, Any]:
    numbers: dict[str, list[float]] = {"activation_alpha": [], "activation_beta": []}
    for name in names:
        for parameter in PARAMETERS[name]:
            numbers[f"activation_{parameter}"].append(float(chance.positive(least=0.2, most=1.2)))
    return {"activations": names, **{key: each for key, each in numbers.items() if each}}


@making(8)
def _rnn(chance: Chance) -> Case:
    return recurrent("RNN", chance)


@making(8)
def _gru(chance: Chance) -> Case:
    return recurrent("GRU", chance, linear_before_reset=chance.flag())


@making(4)
def _lstm(chance: Chance) -> Case:
    return recurrent("LSTM", chance, input_forget=chance.flag())


@pytest.mark.parametrize("name", list(making))
@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives(name: str) -> None:
    making.check(name)


@pytest.mark.parametrize("operator", ["RNN", "GRU"])
@pytest.mark.usefixtures("directml_path")
def test_layout_and_float16(operator: str) -> None:
    """ONNX Runtime has neither: it is given the other layout and float32."""
    chance = Chance(7)
    case = recurrent(operator, chance)
    while case.inputs[5] is None or case.inputs[4] is None:
        case = recurrent(operator, chance)
    case = dataclasses.replace(case, known=(), opset=14, attributes=case.attributes | {"clip": 0.5})
    sequence, last = case.expected()
    x, *weights, state = case.inputs
    assert x is not None
    assert state is not None
    batch_first = [x.transpose(1, 0, 2).copy(), *weights, state.transpose(1, 0, 2).copy()]
    turned = dataclasses.replace(case, inputs=batch_first, attributes=case.attributes | {"layout": 1})
    expected = [sequence.transpose(2, 0, 1, 3), last.transpose(1, 0, 2)]
    turned.check(expected, "reference", "cpu", SOFTWARE)
    narrow = [each if each is None or each.dtype == np.int32 else each.astype(np.float16) for each in case.inputs]
    half = dataclasses.replace(case, inputs=narrow, bound=1e-2)
    half.check([sequence.astype(np.float16), last.astype(np.float16)], "reference", "cpu", SOFTWARE)


SMALL = [np.zeros(each, np.float32) for each in ((2, 1, 1), (1, 3, 1), (1, 3, 1))]
REFUSED: dict[str, tuple[Any, dict[str, Any], str, object]] = {
    "too-large": (np.zeros((MOST_STEPS + 1, 1, 1), np.float32), {}, "clip", None),
    "range": (SMALL[0], {"clip": 0.0}, "clip", 0.0),
    "count": (SMALL[0], {"activations": ["Relu"] * 3}, "activations", 3),
    "rank": (SMALL[0][0], {}, "X", [1, 1]),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_does_not_fit_is_refused(code: str) -> None:
    x, fields, field, got = REFUSED[code]
    with raises(dg.ModelError, code, node="n", field=field, got=got):
        Case("GRU", [x, *SMALL[1:]], {"hidden_size": 1, "clip": 1.0} | fields, domain="").graph()
