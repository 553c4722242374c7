"""ONNX Runtime on the processor, which the tests compare with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], dict[str, Array]]
ERRORS = 3  # the severity from which it prints


def session(model: str | os.PathLike[str] | bytes, *, optimized: bool = True) -> Run:
    """A function from inputs by name to outputs by name, of a model in a file or in memory."""
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = ERRORS
    made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in made.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(names, made.run(None, dict(inputs)), strict=True))

    return run


def difference(got: Array, expected: Array) -> float:
    """The greatest difference, as a part of the greatest expected number; infinite for another shape or type."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    return float(np.abs(got - expected).max() / np.abs(expected).max())
