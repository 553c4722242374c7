"""What all tests share."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parent.parent
REFERENCE = ROOT.parent / "shared" / "reference"


@pytest.fixture(scope="session")
def reference_operators() -> dict[str, Any]:
    """Every operator of the DirectML reference data by name; it lies beside the checkout, not in it."""
    path = REFERENCE / "directml_operators.json"
    if not path.exists():
        pytest.skip("the DirectML reference data is not beside the checkout (../shared/reference)")
    return {operator["name"]: operator for operator in json.loads(path.read_text())["operators"]}
