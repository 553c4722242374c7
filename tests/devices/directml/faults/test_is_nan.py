"""IS_NAN of float16 on the real DirectML, which finds no NaN if the output is uint32."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml import device as module
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.faults import make_safe

X = np.array([[np.nan, 1, np.inf], [-0.0, np.nan, -2]], np.float16)


def questions() -> dg.Graph:
    """Results with strides that an output and a node read."""
    graph = dg.Graph("questions")
    x = graph.input("x", sizes=X.shape, dtype="float16")
    answers = dg.is_nan(x, output={"dtype": "uint32", "strides": [1, 2]})
    graph.output("answers", answers)
    graph.output("more", answers + answers)
    graph.output("bytes", dg.is_nan(x))
    return graph


def answered(device: DirectMLDevice) -> list[np.ndarray]:
    with device.compile(lower(questions(), device.level), reason="asked for") as executable:
        return list(executable.run({"x": X}).values())


def test_nan_is_found(directml: DirectMLDevice) -> None:
    answers, more, as_bytes = answered(directml)
    np.testing.assert_array_equal(answers, np.isnan(X))
    np.testing.assert_array_equal(more, 2 * np.isnan(X))
    np.testing.assert_array_equal(as_bytes, np.isnan(X))
    assert answers.dtype == np.uint32


def test_directml_finds_none(directml: DirectMLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, DirectML finds them, and `cast_answers_on_float16` can be removed."""
    monkeypatch.setattr(module, "make_safe", lambda graph: (graph, 0))
    assert not answered(directml)[0].any()


def test_other_questions_stay_as_they_are() -> None:
    graph = dg.Graph("others")
    graph.output("a", dg.is_nan(graph.input("x", sizes=[2], dtype="float16")))
    graph.output("b", dg.is_nan(graph.input("y", sizes=[2], dtype="float32"), output={"dtype": "uint32"}))
    desc = lower(graph)
    assert make_safe(desc) == (desc, 0)
