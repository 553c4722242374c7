"""ONNX's own reference implementation of an operator, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.reference
from support.operators.harness import Array


def evaluate(op: str, inputs: Sequence[Any], *, outputs: int = 1, opset: int = 23, **attributes: Any) -> list[Array]:
    """The outputs of one ONNX operator on arrays; None for an input that is left out."""
    names = [f"x{index}" if each is not None else "" for index, each in enumerate(inputs)]
    feeds = {name: each for name, each in zip(names, inputs, strict=True) if name}
    results = [f"y{index}" for index in range(outputs)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, results, **attributes)],
        "test",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in feeds.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in results],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    made = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    return [np.asarray(each) for each in made]
