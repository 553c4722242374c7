"""What each operator computes, seen with other dimensions, then joined or padded: some write it where the join is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def data(desc: TensorDesc) -> Array:
    """Numbers in the domain of most functions, not repeated; small integers, which may be indices."""
    count = desc.element_count
    numbers = np.linspace(0.1, 0.9, count) if desc.dtype.is_float else np.arange(count) % 3
    return numbers.reshape(desc.sizes).astype(desc.dtype.numpy)


def readings(array: Array) -> Iterator[tuple[Sizes, str, Array]]:
    """Other sizes for the elements, a node that reads `seen`, which has them, and what the node makes of the array.

    The dimensions of size 1 are at the end, at the beginning, or after each other one; or the elements are one row.
    """
    longer = [size for size in array.shape if size > 1] or [1]
    yield _joined(array.reshape(*longer, 1, 1))
    yield _padded(array.reshape(1, 1, *longer))
    yield _joined(array.reshape([size for each in longer for size in (each, 1)]))
    yield _padded(array.reshape(1, 1, 1, -1))


def _joined(seen: Array) -> tuple[Sizes, str, Array]:
    return seen.shape, "{op: join, inputs: [seen, seen], axis: 0}", np.concatenate([seen, seen])


def _padded(seen: Array) -> tuple[Sizes, str, Array]:
    start, end = [1] * seen.ndim, [0] * seen.ndim
    node = f"{{op: padding1, input: seen, padding_mode: constant, start_padding: {start}, end_padding: {end}}}"
    return seen.shape, node, np.pad(seen, [(1, 0)] * seen.ndim)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_each_operator(name: str) -> None:
    nodes, _, outputs = example(REGISTRY[name]).rpartition("outputs: ")
    whole = dg.loads(f"{nodes}outputs: {outputs}")
    inputs = {node.name: data(node.desc) for node in whole.inputs}
    for output, array in whole.compile("reference").run(inputs).items():
        value = whole.outputs[output]
        if value.dtype.bits == 4:  # no operator joins or pads them
            continue
        for sizes, reader, expected in readings(array):
            view = f"{{op: reshape, input: {whole.reference(value.node, value.port)}, sizes: {list(sizes)}}}"
            graph = dg.loads(f"{nodes}  seen: {view}\n  result: {reader}\noutputs: [result]\n")
            result = graph.compile("cpu").run({node.name: inputs[node.name] for node in graph.inputs})["result"]
            np.testing.assert_allclose(result, expected, rtol=2e-3, atol=1e-5, err_msg=f"{view}, {reader}")
