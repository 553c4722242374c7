"""Random models on ONNX Runtime and on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from support.onnx.onnx_runtime import session
from support.onnx.random_models import sample

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]

# Refusals that are meant: a part of the title, and a part of the message.
REFUSED = {
    "'count_include_pad'": "the padding that ceil_mode adds would count",
    "(float64": "does not take float64",  # casts to bool
}


# How far off DirectML's own functions are; see perturbed.py.
APPROXIMATED = {"Acos": 7e-5, "Asin": 7e-5, "Atan": 2e-5}


def problem(seed: int, device: DeviceName) -> str | None:
    """What is wrong with the sample of a seed on a device; None if it agrees, or is rightly refused."""
    made = sample(seed)
    judge = session(made.model.SerializeToString(), optimized=False)
    expected = [np.asarray(each) for each in judge(made.feeds).values()]
    if any(each.size == 0 for each in expected):
        return None  # DirectML has no tensors without elements
    try:
        level = choose(device).device.level
        graph = Importer(prepare(ir.from_proto(made.model)), dims={}, values={}, target=level, convert={}).read()
        feeds = {
            each.name: made.feeds[each.name].astype(each.desc.dtype.numpy).reshape(each.desc.sizes)
            for each in graph.inputs
        }
        got = list(graph.compile(device).run(feeds).values())
    except dg.DmlGraphError as error:
        meant = any(form in made.title and message in str(error) for form, message in REFUSED.items())
        return None if meant else f"{made.title}: {error}"
    try:
        for result, wanted in zip(got, expected, strict=True):
            _compare(result, wanted, made.exact, APPROXIMATED.get(made.operator, 0.0) if "directml" in device else 0.0)
    except AssertionError as error:
        return f"{made.title}: {error}"
    return None


def _compare(got: Array, wanted: Array, exact: bool, error: float) -> None:
    assert got.shape == (wanted.shape or (1,))
    assert str(got.dtype) == ("uint8" if wanted.dtype == bool else str(wanted.dtype))
    got = got.reshape(wanted.shape)
    if exact or wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)
    else:
        finite = np.abs(wanted[np.isfinite(wanted)])
        np.testing.assert_allclose(got, wanted, 2e-5, max(error, 2e-6 * max(1.0, finite.max(initial=0.0))))
