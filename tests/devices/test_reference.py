"""Device `reference`: graphs run node by node over buffers with the layouts of their descriptions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg

INDEX = (2**24 + 2, 2**24 + 1, 2**23 + 1, 12345, 0)


def only(graph: dg.Graph, **inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    (result,) = graph.compile("reference").run(inputs).values()
    return result


def sequence(dtype: str, start: Any, delta: Any, count: int) -> np.ndarray[Any, Any]:
    g = dg.Graph()
    g.output("y", g.fill_value_sequence(sizes=[1, 1, 1, count], dtype=dtype, value_start=start, value_delta=delta))
    return only(g).ravel()


@pytest.mark.parametrize(
    ("dtype", "start", "delta", "expected"),
    [
        ("float32", 3, 2, [3, 5, 7]),
        ("uint8", 10, -2, [10, 8, 6, 4]),
        ("int8", 127, 1, [127, -128, -127]),
        ("uint64", 2**64 - 1, 2, [2**64 - 1, 1, 3]),
        ("int64", -(2**63), -1, [-(2**63), 2**63 - 1]),
    ],
)
def test_a_sequence_counts_and_integers_wrap(dtype: str, start: int, delta: int, expected: list[int]) -> None:
    assert sequence(dtype, start, delta, len(expected)).tolist() == expected


def test_a_long_float32_sequence_accumulates_no_error() -> None:
    values = sequence("float32", 0.5, 0.1, 2**24 + 3)
    for index in INDEX:
        expected = np.float32(0.5) + np.float32(index) * np.float32(0.1)
        assert values[index] == expected, index


def test_a_constant_fill_keeps_every_bit() -> None:
    for pattern in (0x7FC00001, 0xFF800001, 0x80000000, 0x00000001):
        g = dg.Graph()
        g.output("y", g.fill_value_constant(sizes=[1, 1, 2, 4], dtype="float32", value={"bits": pattern}))
        result = only(g)
        assert result.shape == (1, 1, 2, 4)
        assert (result.view(np.uint32) == pattern).all()


def test_strides_of_inputs_and_outputs_change_no_value() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain, strided = dg.Graph(), dg.Graph()
    for g, strides in ((plain, None), (strided, [1, 4])):
        x = g.input("x", sizes=[2, 3], dtype="float32", strides=strides)
        y = dg.add(x, x, output={"strides": [8, 2]} if strides else None)
        g.output(
            "y",
            dg.exp(y)
            - g.fill_value_sequence(
                sizes=[2, 3], dtype="float32", strides=strides and [5, 1], value_start=0, value_delta=1
            ),
        )
    np.testing.assert_array_equal(only(plain, x=data), only(strided, x=data))


def test_an_output_with_strides_of_its_own_is_an_array_like_any_other() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", dg.identity(x, output={"strides": [1, 2]}))
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = only(g, x=data)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, data)


def test_values_used_by_several_nodes_live_until_the_last_has_run() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[3], dtype="float32")
    y = x * 2
    g.output("y", (y + x) * (y - x) + y)
    g.output("middle", y)
    data = np.array([1, 2, 3], np.float32)
    results = g.compile("reference").run({"x": data})
    np.testing.assert_array_equal(results["y"], 3 * data * data + 2 * data)
    np.testing.assert_array_equal(results["middle"], 2 * data)


def test_a_graph_of_all_shapes_of_nodes_is_what_numpy_says() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[4, 6], dtype="float32")
    left, right = dg.split(x, axis=1, outputs=[2, 4])
    joined = dg.join([right, left], axis=1)
    product = dg.gemm(joined, g.constant("w", np.arange(18).reshape(6, 3), dtype="float32"))
    total = dg.reduce(product, function="sum", axes=[0])
    g.output("y", dg.cast(total, dtype="int32"))
    data = np.arange(24, dtype=np.float32).reshape(4, 6) % 5
    rolled = np.concatenate([data[:, 2:], data[:, :2]], 1)
    expected = (rolled @ np.arange(18, dtype=np.float32).reshape(6, 3)).sum(0, keepdims=True).astype(np.int32)
    np.testing.assert_array_equal(only(g, x=data), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a process' memory is POSIX's")
def test_a_fill_beyond_the_memory_is_an_error_that_says_so():
    script = """
import resource
import dmlgraph as dg
g = dg.Graph("vast")
g.output("y", g.fill_value_constant(sizes=[65535, 65535], dtype="float64", value=1))
executable = g.compile("reference")
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    executable.run()
except dg.DeviceError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not enough memory to run the graph 'vast'")
