"""What benchmarks/cpu.py computes: each line, written for every library.

A line is an array program of `elements` float32 elements.  numba's form is a plain loop over rows, which it
compiles with `parallel=True, fastmath=False`; `onnx` lists nodes as (operator, inputs, outputs, attributes).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dmlgraph as dg

Array = np.ndarray
Arrays = Mapping[str, Array]
Constants = Mapping[str, Any] | Callable[[Arrays], Mapping[str, Any]]
Node = tuple[str, list[str], list[str], dict[str, Any]]  # of ONNX: operator, inputs, outputs, attributes
ROW = 1024  # elements of a row, if a line has rows
EPSILON = 1e-5

try:
    from numba import prange
except ImportError:
    prange = range


@dataclasses.dataclass(frozen=True)
class Line:
    """One array program.

    Attributes:
        name: its name on the command line.
        inputs: the number of elements → the input arrays by name.
        graph: the inputs → a dmlgraph graph with one output.
        array: the program for NumPy; `xp` is numpy or jax.numpy.
        numexpr: the same as an expression of numexpr; None if it cannot express it.
        onnx: constants by name (or a function of the inputs that makes them), and nodes; the result is called y.
        loops: (out, inputs…) → None, for numba.
        tolerance: the greatest difference of results, relative to the greatest result.
    """

    name: str
    inputs: Callable[[int], dict[str, Array]]
    graph: Callable[[Arrays], dg.Graph]
    array: Callable[..., Any]
    numexpr: str | None
    onnx: tuple[Constants, Sequence[Node]] | None
    loops: Callable[..., None] | None
    tolerance: float = 2e-6


def _x(elements: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(0).standard_normal(elements, dtype=np.float32)}


def _rows(elements: int) -> dict[str, Array]:
    columns = min(ROW, elements)
    return {"x": _x(elements)["x"].reshape(-1, columns)}


def _declare(inputs: Arrays) -> tuple[dg.Graph, dict[str, dg.Value]]:
    graph = dg.Graph("line")
    return graph, {name: graph.input(name, sizes=each.shape, dtype=each.dtype) for name, each in inputs.items()}


def _finish(graph: dg.Graph, value: dg.Value) -> dg.Graph:
    graph.output("y", value)
    return graph


# relu((x + 0.5) · seq − 0.25), seq[i] = i / 2^20: fills and a sequence that need no memory.

STEP = 2.0**-20


def _relu_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    x = value["x"]

    def fill(number: float) -> dg.Value:
        return graph.fill_value_constant(sizes=x.sizes, dtype="float32", value=number)

    ramp = graph.fill_value_sequence(sizes=x.sizes, dtype="float32", value_start=0, value_delta=STEP)
    return _finish(graph, dg.activation_relu((x + fill(0.5)) * ramp - fill(0.25)))


def _relu_array(xp: Any, x: Any) -> Any:
    ramp = xp.arange(x.size, dtype=xp.float32) * np.float32(STEP)
    return xp.maximum((x + np.float32(0.5)) * ramp - np.float32(0.25), np.float32(0))


def _relu_loops(out: Array, x: Array) -> None:
    half, quarter, step, zero = np.float32(0.5), np.float32(0.25), np.float32(STEP), np.float32(0)
    for i in prange(x.size):
        y = (x[i] + half) * (np.float32(i) * step) - quarter
        out[i] = max(y, zero)


# A chain of 12 operators with exp and tanh.


def _chain_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    x = value["x"]
    y = dg.tanh(x * 0.5 + 1.0)
    z = dg.exp(dg.negate(x * x) * 0.25)
    y = y * z - x
    return _finish(graph, dg.activation_relu(dg.abs(y) + 0.125) * z)


def _chain_array(xp: Any, x: Any) -> Any:
    y = xp.tanh(x * np.float32(0.5) + np.float32(1))
    z = xp.exp(-(x * x) * np.float32(0.25))
    y = y * z - x
    return xp.maximum(xp.abs(y) + np.float32(0.125), np.float32(0)) * z


def _chain_loops(out: Array, x: Array) -> None:
    for i in prange(x.size):
        y = math.tanh(x[i] * np.float32(0.5) + np.float32(1))
        z = math.exp(-(x[i] * x[i]) * np.float32(0.25))
        y = y * z - x[i]
        out[i] = max(abs(y) + np.float32(0.125), np.float32(0)) * z


# GELU by erf: x · (1 + erf(x / √2)) / 2.

ROOT = float(np.float32(1 / math.sqrt(2)))


def _gelu_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    x = value["x"]
    return _finish(graph, x * (dg.erf(x * ROOT) + 1.0) * 0.5)


def _gelu_array(xp: Any, x: Any) -> Any:
    if xp is np:
        from scipy.special import erf
    else:
        from jax.scipy.special import erf
    return x * (erf(x * np.float32(ROOT)) + np.float32(1)) * np.float32(0.5)


def _gelu_loops(out: Array, x: Array) -> None:
    for i in prange(x.size):
        out[i] = x[i] * (np.float32(math.erf(x[i] * np.float32(ROOT))) + np.float32(1)) * np.float32(0.5)


# Layer normalization over the last axis, written out in primitives with a scale and a bias for each column.


def _norm_inputs(elements: int) -> dict[str, Array]:
    x = _rows(elements)["x"]
    rng = np.random.default_rng(1)
    return {"x": x} | {name: rng.standard_normal(x.shape[1:], dtype=np.float32) for name in ("scale", "bias")}


def _norm_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    x, scale, bias = (value[name] for name in ("x", "scale", "bias"))
    mean = dg.reduce(x, function="average", axes=[1])
    centred = x - mean
    variance = dg.reduce(centred * centred, function="average", axes=[1])
    return _finish(graph, centred / dg.sqrt(variance + EPSILON) * scale + bias)


def _norm_array(xp: Any, x: Any, scale: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(EPSILON)) * scale + bias


def _norm_loops(out: Array, x: Array, scale: Array, bias: Array) -> None:
    rows, columns = x.shape
    for row in prange(rows):
        mean = np.float32(0)
        for i in range(columns):
            mean += x[row, i]
        mean /= np.float32(columns)
        variance = np.float32(0)
        for i in range(columns):
            centred = x[row, i] - mean
            variance += centred * centred
        factor = np.float32(1) / np.sqrt(variance / np.float32(columns) + np.float32(EPSILON))
        for i in range(columns):
            out[row, i] = (x[row, i] - mean) * factor * scale[i] + bias[i]


# Softmax over the last axis.


def _softmax_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    return _finish(graph, dg.activation_softmax1(value["x"], axes=[1]))


def _softmax_array(xp: Any, x: Any) -> Any:
    powers = xp.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _softmax_loops(out: Array, x: Array) -> None:
    rows, columns = x.shape
    for row in prange(rows):
        greatest = x[row, 0]
        for i in range(columns):
            greatest = max(greatest, x[row, i])
        total = np.float32(0)
        for i in range(columns):
            power = np.float32(math.exp(x[row, i] - greatest))
            out[row, i] = power
            total += power
        for i in range(columns):
            out[row, i] /= total


# uint8 photo, interleaved {H, W, 3} in memory → normalized float16 planes {3, H, W}.

MEANS = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
FACTORS = np.array([1 / 0.229, 1 / 0.224, 1 / 0.225], np.float32).reshape(3, 1, 1)
UNIT = float(np.float32(1 / 255))


def _photo_inputs(elements: int) -> dict[str, Array]:
    height = max(1, int(math.sqrt(elements / 3)))
    width = max(1, elements // 3 // height)
    return {"x": np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)}


def _photo_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    means, factors = graph.constant("means", MEANS), graph.constant("factors", FACTORS)
    planes = (dg.cast(value["x"].transpose(2, 0, 1), dtype="float32") * UNIT - means) * factors
    return _finish(graph, dg.cast(planes, dtype="float16"))


def _photo_array(xp: Any, x: Any) -> Any:
    return ((x.transpose(2, 0, 1).astype(xp.float32) * np.float32(UNIT) - MEANS) * FACTORS).astype(xp.float16)


# Fills: no input at all.


def _fill_graph(sequence: bool) -> Callable[[Arrays], dg.Graph]:
    def build(inputs: Arrays) -> dg.Graph:
        graph = dg.Graph("line")
        sizes = inputs["size"].shape
        if sequence:
            return _finish(
                graph, graph.fill_value_sequence(sizes=sizes, dtype="float32", value_start=1, value_delta=STEP)
            )
        return _finish(graph, graph.fill_value_constant(sizes=sizes, dtype="float32", value=1.5))

    return build


def _no_inputs(elements: int) -> dict[str, Array]:
    """An array without bytes, whose size is the number of elements."""
    return {"size": np.broadcast_to(np.float32(0), elements)}


def _constant_array(xp: Any, size: Any) -> Any:
    return xp.full(size.shape, np.float32(1.5))


def _sequence_array(xp: Any, size: Any) -> Any:
    return np.float32(1) + xp.arange(size.size, dtype=xp.float32) * np.float32(STEP)


def _constant_loops(out: Array) -> None:
    for i in prange(out.size):
        out[i] = np.float32(1.5)


def _sequence_loops(out: Array) -> None:
    for i in prange(out.size):
        out[i] = np.float32(1) + np.float32(i) * np.float32(STEP)


# A broadcast outer product: {N, 1} · {1, M}.


def _outer_inputs(elements: int) -> dict[str, Array]:
    columns = 1 << (elements.bit_length() // 2)
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((elements // columns, 1), dtype=np.float32),
        "z": rng.standard_normal((1, columns), dtype=np.float32),
    }


def _outer_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    return _finish(graph, value["x"] * value["z"])


def _outer_loops(out: Array, x: Array, z: Array) -> None:
    rows, columns = out.shape
    for row in prange(rows):
        for i in range(columns):
            out[row, i] = x[row, 0] * z[0, i]


# The rows of a table in another order, as in an embedding.

EMBEDDING = 256  # elements of a row


def _gather_inputs(elements: int) -> dict[str, Array]:
    rows = max(1, elements // EMBEDDING)
    table = _x(rows * EMBEDDING)["x"].reshape(rows, EMBEDDING)
    return {"x": table, "rows": np.random.default_rng(1).permutation(rows).astype(np.int32)[None]}


def _gather_graph(inputs: Arrays) -> dg.Graph:
    graph, value = _declare(inputs)
    return _finish(graph, dg.gather(value["x"], value["rows"], axis=0, index_dimensions=1))


def _f32(*values: float) -> dict[str, Array]:
    """Constants c0, c1, … of ONNX."""
    return {f"c{index}": np.float32(value) for index, value in enumerate(values)}


def _node(operator: str, inputs: str, output: str, **attributes: Any) -> Node:
    return operator, inputs.split(), [output], attributes


def _relu_constants(inputs: Arrays) -> dict[str, Any]:
    """The sequence as a constant: ONNX Runtime's Range accumulates steps, which stops at the precision of float32."""
    return _f32(0.5, 0.25) | {"ramp": np.arange(inputs["x"].size, dtype=np.float32) * np.float32(STEP)}


LINES = (
    Line(
        "relu", _x, _relu_graph, _relu_array,
        None,  # numexpr has no sequences
        (_relu_constants, [
            _node("Add", "x c0", "a"), _node("Mul", "a ramp", "b"), _node("Sub", "b c1", "d"), _node("Relu", "d", "y"),
        ]),
        _relu_loops,
    ),
    Line(
        "chain12", _x, _chain_graph, _chain_array,
        "where(abs(tanh(x*0.5+1)*exp(-(x*x)*0.25)-x)+0.125 > 0,"
        " abs(tanh(x*0.5+1)*exp(-(x*x)*0.25)-x)+0.125, 0) * exp(-(x*x)*0.25)",
        (_f32(0.5, 1, 0.25, 0.125), [
            _node("Mul", "x c0", "a"), _node("Add", "a c1", "b"), _node("Tanh", "b", "t"),
            _node("Mul", "x x", "s"), _node("Neg", "s", "n"), _node("Mul", "n c2", "q"), _node("Exp", "q", "z"),
            _node("Mul", "t z", "p"), _node("Sub", "p x", "d"), _node("Abs", "d", "m"), _node("Add", "m c3", "r"),
            _node("Relu", "r", "u"), _node("Mul", "u z", "y"),
        ]),
        _chain_loops,
    ),
    Line(
        "gelu", _x, _gelu_graph, _gelu_array,
        None,  # numexpr has no erf
        (_f32(ROOT, 1, 0.5), [
            _node("Mul", "x c0", "a"), _node("Erf", "a", "b"), _node("Add", "b c1", "c"), _node("Mul", "x c", "d"),
            _node("Mul", "d c2", "y"),
        ]),
        _gelu_loops,
    ),
    Line(
        "layer_norm", _norm_inputs, _norm_graph, _norm_array,
        None,  # numexpr reduces whole arrays only
        ({}, [_node("LayerNormalization", "x scale bias", "y", axis=-1, epsilon=EPSILON)]),
        _norm_loops,
        tolerance=2e-5,
    ),
    Line(
        "softmax", _rows, _softmax_graph, _softmax_array,
        None,
        ({}, [_node("Softmax", "x", "y", axis=-1)]),
        _softmax_loops,
    ),
    Line(
        "photo", _photo_inputs, _photo_graph, _photo_array,
        None,  # numexpr has no float16
        ({"u": np.float32(UNIT), "means": MEANS, "factors": FACTORS}, [
            _node("Transpose", "x", "t", perm=[2, 0, 1]), _node("Cast", "t", "f", to=1), _node("Mul", "f u", "s"),
            _node("Sub", "s means", "d"), _node("Mul", "d factors", "p"), _node("Cast", "p", "y", to=10),
        ]),
        None,  # numba has no float16 on the CPU
        tolerance=1e-3,
    ),
    Line("constant", _no_inputs, _fill_graph(False), _constant_array, None, None, _constant_loops),
    Line("sequence", _no_inputs, _fill_graph(True), _sequence_array, None, None, _sequence_loops),
    Line(
        "outer", _outer_inputs, _outer_graph, lambda xp, x, z: x * z,
        "x * z",
        ({}, [_node("Mul", "x z", "y")]),
        _outer_loops,
    ),
    Line(
        "gather", _gather_inputs, _gather_graph, lambda xp, x, rows: xp.take(x, rows[0], axis=0),
        None,  # numexpr has no indices
        ({}, [_node("Gather", "x rows", "y", axis=0)]),
        None,  # numba's form writes an array of its inputs' common shape
        tolerance=0,
    ),
)  # fmt: skip
