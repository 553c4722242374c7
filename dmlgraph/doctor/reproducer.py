"""Reproducers: a case that a device computes wrong, as files that need nothing else.

The graph file has the inputs in a test, so that `dmlgraph test case.yaml --device D` fails where the fault is.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.doctor.trials import Outcome, telling
from dmlgraph.files.whole import write_text
from dmlgraph.formats import cpp
from dmlgraph.formats.arrays import INLINE_ELEMENTS, to_stored
from dmlgraph.formats.dxdispatch import writer as dxdispatch
from dmlgraph.formats.yaml import dumps
from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

TEST = "case"
FILES = ("case.yaml", "case.json", "cpp")  # what `save` writes


def text(graph: Graph, inputs: Mapping[str, Array], outcome: Outcome, files: dict[str, Array] | None = None) -> str:
    """The case as a graph file with a test.

    Args:
        graph: the case.
        inputs: by name.
        outcome: on the device; the tolerances of the test are those by which it is wrong.
        files: gets the arrays that are too large for a file that people read, by file; None: all are in the text.
    """
    test: dict[str, Any] = {
        "inputs": {name: _content(name, array, files) for name, array in inputs.items()},
        "expect": {name: {"same_as": "reference"} for name in graph.outputs},
    }
    if outcome.expected:
        allowed = telling(outcome.got, outcome.expected)
        given = {"ulp": allowed.ulp, "absolute": float(f"{allowed.absolute:.3g}")}
        test |= {name: number for name, number in given.items() if number}
    lines = (f"    {key}: {_in_line(value)}\n" for key, value in test.items())
    return f"{dumps(graph)}tests:\n  {TEST}:\n{''.join(lines)}"


def save(folder: pathlib.Path, graph: Graph, inputs: Mapping[str, Array], outcome: Outcome) -> list[str]:
    """Writes the case as a graph file, for DxDispatch and as C++ with a self-check; returns the names of `FILES`.

    Raises:
        DmlGraphError: C++ or DxDispatch cannot express it.
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Array] = {}
    write_text(folder / FILES[0], text(graph, inputs, outcome, files))
    for name, array in files.items():
        np.save(folder / name, array)
    dxdispatch.save(graph, folder / FILES[1], inputs=inputs)
    cpp.save(graph, folder / FILES[2], self_check=True, inputs=inputs)
    return list(FILES)


def _content(name: str, array: Array, files: dict[str, Array] | None) -> dict[str, Any]:
    """An array as a test has it: one number, a sequence, all numbers, or a file."""
    dtype = DataType.parse(array.dtype)
    plain = [Scalar.of(each, dtype).plain for each in array.ravel()]
    if len(set(map(repr, plain))) == 1:
        return {"value": plain[0]}
    if (steps := _steps(array)) is not None and len(plain) > 2:
        return {"sequence": {"start": plain[0], "delta": steps}}
    if files is not None and len(plain) > INLINE_ELEMENTS:
        file = f"{TEST}.tests.{name}.npy"  # beside those of the model for DxDispatch
        files[file] = to_stored(array, dtype)
        return {"file": file}
    return {"data": plain}


def _steps(array: Array) -> int | None:
    """The step of whole numbers at equal steps; None if they are something else."""
    numbers = array.ravel().astype(np.float64)
    if not np.isfinite(numbers).all() or (np.abs(numbers) > 2**10).any():
        return None
    steps = np.diff(numbers)
    return int(steps[0]) if (steps == steps[0]).all() and steps[0] == int(steps[0]) and steps[0] else None


def _in_line(value: Any) -> str:
    """A value of YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=2**20, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
