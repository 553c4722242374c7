"""What finds the first wrong node on a machine without Python: the values that are expected of every node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import check_known
from dmlgraph.base.random_arrays import random_array
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.devices import choose
from dmlgraph.formats.arrays import to_stored
from dmlgraph.formats.cpp.tables import rows
from dmlgraph.formats.cpp.text import quoted

Array = np.ndarray[Any, Any]
DEVICE = "cpu"  # that computes what is expected


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """The file expected.bin: inputs as they lie in buffers, and then the elements of all outputs.

    Attributes:
        data: its content.
        inputs: offset of each input.
        outputs: offset of each output.
    """

    data: bytes
    inputs: list[int]
    outputs: list[int]

    @classmethod
    def of(cls, graph: GraphDesc, given: Mapping[str, Array]) -> Expected:
        """What the first run of a lowered graph gives, on the processor.

        Args:
            given: inputs' arrays, by name; random ones for others.

        Raises:
            BindingError: an array is of no input, or does not fit it.
        """
        check_known(given, [slot.name for slot in graph.given], "input")
        inputs = {slot.name: random_array(slot.desc, slot.name) for slot in graph.given} | dict(given)
        with choose(DEVICE).device.compile(graph, reason="for the self-check") as executable:
            results = executable.run(inputs)
        data = bytearray()
        offsets: tuple[list[int], list[int]] = [], []
        for slot in graph.given:
            offsets[0].append(len(data))
            data += slot.desc.pack(inputs[slot.name]).tobytes()
        for output in graph.results:
            offsets[1].append(len(data))
            data += np.ascontiguousarray(to_stored(results[output.name], output.desc.dtype)).tobytes()
        return cls(bytes(data), *offsets)


def tables(expected: Expected, graph: GraphDesc, nodes: Mapping[str, str]) -> dict[str, str]:
    """What is filled into self_check.cpp; `nodes` is the node of each output."""
    return {
        "expected_bytes": str(len(expected.data)),
        "expected_inputs": rows(
            (f"    {offset},  // {index}" for index, offset in enumerate(expected.inputs)), empty="0"
        ),
        "expected_outputs": rows(
            f"    {{{quoted(nodes[slot.name])}, {offset}}},"
            for slot, offset in zip(graph.results, expected.outputs, strict=True)
        ),
    }
