"""How PyTorch trains the networks of the tests, as tests/training/record_pytorch.py recorded it."""

from __future__ import annotations

import json
import pathlib

FILE = pathlib.Path(__file__).parent.parent / "training" / "pytorch_losses.json"
STEPS = 100


def losses(network: str) -> list[float]:
    """The loss of each step, before the weights change."""
    found: list[float] = json.loads(FILE.read_text("utf-8"))[network]
    assert len(found) == STEPS
    return found
