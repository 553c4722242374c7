"""Random ONNX models of one operator each, beside ONNX Runtime."""

from __future__ import annotations

from support.onnx.beside_runtime import problem

from campaigns.campaign import Campaign
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")


def one_case(seed: int) -> str | None:
    return problem(seed, DEVICES[seed % len(DEVICES)])


CAMPAIGN = Campaign("onnx_operators", "random ONNX operators agree with ONNX Runtime", one_case)
