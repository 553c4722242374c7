"""Random models of one operator each agree with ONNX Runtime."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.onnx.beside_runtime import problem

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
@settings(max_examples=600)
def test_they_agree(seed: int) -> None:
    assert problem(seed, "cpu") is None


@given(SEEDS)
@settings(max_examples=100)
@pytest.mark.usefixtures("directml_path")
def test_they_agree_on_directml(seed: int) -> None:
    assert problem(seed, "directml:software") is None
