"""Random ONNX models of one operator each, beside ONNX Runtime."""

from __future__ import annotations

import pathlib
import sys

from campaigns.campaign import Campaign

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "onnx"))

from beside_runtime import problem

DEVICES = ("reference", "cpu", "directml:software")


def one_case(seed: int) -> str | None:
    return problem(seed, DEVICES[seed % len(DEVICES)])


CAMPAIGN = Campaign("onnx_operators", "random ONNX operators agree with ONNX Runtime", one_case)
