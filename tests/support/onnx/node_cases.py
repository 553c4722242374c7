"""The test cases of ONNX's operators, `onnx.backend.test.case.node`: made in memory, imported and run.

A case whose operator needs values is imported with those that the error's hint names, and one with doubles or bfloat16
is converted as the hint says: so the hints are tested, too.
"""

from __future__ import annotations

import fnmatch
import functools
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]
MOST_TRIES = 6  # imports of a case, each with what the one before asked for

# Bounds beside those of the cases, relative and absolute, by the type of the expected numbers.
BOUNDS = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-6, "bfloat16": 1e-3}
CONVERTED_BOUNDS = {"double": 1e-5, "bfloat16": 8e-3}  # of results that are computed in float32 instead


@functools.cache
def cases() -> tuple[Any, ...]:
    """All cases, in ONNX's order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the numbers in the cases
        from onnx.backend.test.case.node import collect_testcases

        return tuple(collect_testcases(None))


def is_expanded(name: str) -> bool:
    """Whether a case is the definition of an operator by others."""
    return "_expanded" in name


def arrays(case: Any) -> tuple[dict[str, Any], list[Any]]:
    """The inputs by name, and the expected outputs."""

    def array(value: Any) -> Any:
        return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    inputs, outputs = case.data_sets[0]
    names = [each.name for each in case.model.graph.input]
    return {name: array(each) for name, each in zip(names, inputs, strict=True)}, [array(each) for each in outputs]


def imported(
    model: onnx.ModelProto, given: dict[str, Any], target: dg.FeatureLevel | None = None
) -> tuple[dg.Graph, dict[str, str]]:
    """The graph, and the conversions; values and conversions are given as the errors' hints ask for them.

    Raises:
        ModelError: it cannot be imported.
    """
    values: dict[str, Any] = {}
    convert: dict[str, str] = {}
    for _ in range(MOST_TRIES):
        prepared = prepare(ir.from_proto(model))
        try:
            return Importer(prepared, dims={}, values=values, target=target, convert=convert).read(), convert
        except dg.ModelError as error:
            asked = [problem.hint or "" for problem in error.problems]
            new = {name: given[name] for hint in asked if "values=" in hint for name in re.findall(r"'(\w+)': …", hint)}
            types = {name: to for hint in asked for name, to in re.findall(r"'(double|bfloat16)': '(\w+)'", hint)}
            if new.keys() <= values.keys() and types.keys() <= convert.keys():
                raise
            values |= new
            convert |= types
    raise AssertionError("the hints lead nowhere")


def check(case: Any, device: DeviceName) -> None:
    """Imports and runs a case.

    Raises:
        AssertionError: a result differs.
        DmlGraphError: it cannot be imported or run.
    """
    given, expected = arrays(case)
    graph, convert = imported(case.model, given, choose(device).device.level)
    feeds = {node.name: _fed(given[node.name], node.desc) for node in graph.inputs}
    got = list(graph.compile(device=device).run(feeds).values())
    assert len(got) == len(expected)
    for result, wanted in zip(got, map(np.asarray, expected), strict=True):
        _compare(result, wanted, case, convert)


def _fed(value: Any, desc: dg.TensorDesc) -> Array:
    array = np.asarray(value)
    return array.astype(desc.dtype.numpy).reshape(desc.sizes)


def _compare(got: Array, wanted: Array, case: Any, convert: dict[str, str]) -> None:
    assert got.shape == (wanted.shape or (1,))
    got = got.reshape(wanted.shape)
    if wanted.dtype.kind != "f" and str(wanted.dtype) != "bfloat16":
        assert convert or str(got.dtype) == ("uint8" if wanted.dtype == bool else str(wanted.dtype))
        np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)
        return
    bound = max([BOUNDS[str(wanted.dtype)], *(CONVERTED_BOUNDS[name] for name in convert)])
    relative, absolute = max(case.rtol, bound), max(case.atol, bound)
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), relative, absolute)


def excluded(name: str, table: dict[str, str]) -> list[str]:
    """The patterns of a table of reasons that a case's name matches."""
    return [pattern for pattern in table if fnmatch.fnmatchcase(name, pattern)]


def failures(device: DeviceName) -> Iterator[tuple[str, str]]:
    """The cases that cannot be imported or differ, and why."""
    for case in cases():
        try:
            check(case, device)
        except (dg.DmlGraphError, AssertionError) as error:
            yield case.name, " ".join(str(error).split())[:200]
