"""Parts of models as text, which the tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlgraph as dg

FLOATS = '{"DataType": "FLOAT32", "Sizes": [4]}'


def model(resources: str, dispatchables: str, commands: str) -> str:
    return f'{{"resources": {{{resources}}}, "dispatchables": {{{dispatchables}}}, "commands": [{commands}]}}'


def buffer(name: str, values: str, dtype: str = "FLOAT32", more: str = "") -> str:
    return f'"{name}": {{"initialValuesDataType": "{dtype}", "initialValues": {values}{more}}}'


def room(name: str, count: int = 4, dtype: str = "FLOAT32") -> str:
    """A buffer of zeros, for results."""
    return buffer(name, f'{{"valueCount": {count}, "value": 0}}', dtype)


def dispatch(name: str, **bindings: str) -> str:
    """A dispatch command; `Members="resource"`."""
    bound = ", ".join(f'"{member}": "{resource}"' for member, resource in bindings.items())
    return f'{{"type": "dispatch", "dispatchable": "{name}", "bindings": {{{bound}}}}}'


def show(name: str) -> str:
    return f'{{"type": "print", "resource": "{name}"}}'


def unary(name: str, kind: str = "ACTIVATION_RELU", members: str = "", tensor: str = FLOATS) -> str:
    return f'"{name}": {{"type": "{kind}", "desc": {{"InputTensor": {tensor}, "OutputTensor": {tensor}{members}}}}}'


def binary(name: str, kind: str, a: str = FLOATS, b: str = FLOATS, output: str = FLOATS) -> str:
    return f'"{name}": {{"type": "{kind}", "desc": {{"ATensor": {a}, "BTensor": {b}, "OutputTensor": {output}}}}}'


def run(graph: dg.Graph, **inputs: Any) -> dict[str, Any]:
    """The outputs on the reference, as lists."""
    dtypes = {node.name: node.desc.dtype.numpy for node in graph.inputs}
    arrays = {name: np.array(each, dtypes[name]) for name, each in inputs.items()}
    return {name: each.tolist() for name, each in graph.compile("reference", fuse=False).run(arrays).items()}
