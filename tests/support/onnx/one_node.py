"""Models of one node, imported and run, or run by ONNX's own evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]
DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")


def model_of(
    operator: str,
    inputs: Mapping[str, Array],
    *,
    known: Collection[str] = (),
    opset: int = 22,
    count: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of a node, whose inputs in `known` are initializers, and whose outputs are y0, …."""
    names = [f"y{index}" for index in range(count)]
    node = helper.make_node(operator, list(inputs), names, **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in inputs.items()
        if name not in known
    ]
    weights = [onnx.numpy_helper.from_array(inputs[name], name) for name in known]
    graph = helper.make_graph([node], "model", given, [onnx.ValueInfoProto(name=name) for name in names], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def results(operator: str, inputs: Mapping[str, Array], device: DeviceName, **options: Any) -> list[Array]:
    """The outputs of a node on a device."""
    model = prepare(ir.from_proto(model_of(operator, inputs, **options)))
    graph = Importer(model, dims={}, values={}, target=choose(device).device.level, convert={}).read()
    feeds = {each.name: inputs[each.name].reshape(each.desc.sizes) for each in graph.inputs}
    return list(graph.compile(device=device).run(feeds).values())
