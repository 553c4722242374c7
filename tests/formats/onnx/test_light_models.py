"""ONNX's light models against ONNX Runtime; the campaign `light_models` runs all of them on every device."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.onnx.light_models import NAMES, Trial


@pytest.mark.parametrize("name", NAMES[:6])  # the others have 240 to 570 MB of weights
@pytest.mark.usefixtures("directml_path")
def test_a_light_model_gives_what_onnx_runtime_gives(name: str, tmp_path: pathlib.Path) -> None:
    trial = Trial.of(name, tmp_path)
    assert all(np.isfinite(each).all() and each.std() > 0 for each in trial.expected.values())
    assert [trial.problem(device) for device in ("cpu", "directml:software")] == [None, None]


def test_the_smallest_one_on_the_reference(tmp_path: pathlib.Path) -> None:
    assert Trial.of(NAMES[0], tmp_path).problem("reference") is None
