"""An input or a constant as an output: every data type, rank, layout and level, on every device, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.random_arrays import random_array
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.names import DeviceName

LEVELS = (None, *(str(level) for level in FeatureLevel))
LAYOUTS = ("packed", "with gaps", "repeated", "owned")


def array(chance: random.Random, dtype: DataType, sizes: list[int]) -> np.ndarray[Any, Any]:
    """Random bits, which include NaNs of all kinds and denormals."""
    desc = dg.TensorDesc(dtype=dtype, sizes=sizes)
    if dtype.bits == 4:
        return random_array(desc, str(chance.random()))
    return np.frombuffer(chance.randbytes(desc.element_count * dtype.bits // 8), dtype.numpy).reshape(sizes)


@pytest.fixture(params=["reference", "cpu", "directml:software"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param.startswith("directml"):
        request.getfixturevalue("directml_path")
    return str(request.param)


@pytest.mark.parametrize("dtype", DataType, ids=str)
def test_what_goes_in_comes_out(device: DeviceName, dtype: DataType) -> None:
    chance = random.Random(str(dtype))
    for rank in range(1, 9):
        layout, level = LAYOUTS[rank % len(LAYOUTS)], chance.choice(LEVELS)
        sizes = [chance.randint(1, 3) for _ in range(rank)]
        given, constant = array(chance, dtype, sizes), array(chance, dtype, sizes)
        strides = None
        if layout == "with gaps":
            strides = [2 * each for each in dg.TensorDesc(dtype=dtype, sizes=sizes).packed_strides]
        elif layout == "repeated":
            strides = [0] * rank
            given = np.broadcast_to(given.flat[0], sizes)
        graph = dg.Graph(target=level)
        x = graph.input("x", sizes=sizes, dtype=dtype, strides=strides, owned=layout == "owned")
        for name, value in {"y": x, "again": x, "k": graph.constant("k", constant)}.items():
            graph.output(name, value)
        results = graph.compile(device).run({"x": given})
        for name, expected in {"y": given, "again": given, "k": constant}.items():
            found = results[name]
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (rank, layout, level)
            assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), (rank, layout, level)
