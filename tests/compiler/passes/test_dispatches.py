"""The number of dispatches on the real DirectML after fusing the graphs of `benchmarks/fusion.py`."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg

ROOT = pathlib.Path(__file__).parents[3]


def _load(path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


fusion = _load(ROOT / "benchmarks" / "fusion.py")


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("case", fusion.CASES, ids=lambda case: case.name)
def test_dispatches_left(case: Any):
    allowed = case.after
    if case.besides is not None:
        allowed += fusion.dispatches(case.besides(), fused=True)
    before = fusion.dispatches(case.build(), fused=False)
    assert fusion.dispatches(case.build(), fused=True) <= min(allowed, before)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("case", fusion.CASES, ids=lambda case: case.name)
def test_results_stay(case: Any):
    graph = case.build()
    data = fusion.data_for(graph)
    after, before = (graph.compile(fusion.DEVICE, fuse=fused).run(data)["y"] for fused in (True, False))
    np.testing.assert_allclose(after, before, rtol=2e-6, atol=1e-6)


def test_bytes_are_those_of_the_tensors():
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float16")
    g.output("y", x + g.input("row", sizes=[3], dtype="float16"))
    assert fusion.bytes_moved(g.lower(fuse=False)) == (2 * 3 * 2 + 3 * 2, 2 * 3 * 2)


@pytest.mark.parametrize("build", fusion.KINDS, ids=lambda build: build.__name__)
def test_graphs_for_timing_have_as_many_nodes_as_they_say(build: Any):
    assert abs(sum(1 for _ in build(200).nodes) - 200) <= 4
