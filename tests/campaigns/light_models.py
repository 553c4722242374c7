"""ONNX's light models with random weights on all devices, against ONNX Runtime; the seed chooses model and weights."""

from __future__ import annotations

import pathlib
import tempfile

from support.onnx.light_models import NAMES, Trial

from campaigns.campaign import Campaign
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("cpu", "directml:software", "reference")


def one_case(seed: int) -> str | None:
    name = NAMES[seed % len(NAMES)]
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial.of(name, pathlib.Path(folder), seed)
    problems = [problem for device in DEVICES if (problem := trial.problem(device)) is not None]
    return f"{name}: {'; '.join(problems)}" if problems else None


CAMPAIGN = Campaign("light_models", "ONNX's light models on every device, against ONNX Runtime", one_case)
