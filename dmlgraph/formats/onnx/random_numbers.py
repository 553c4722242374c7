"""Random numbers: made of Philox's bits, so they have ONNX's distributions and not the numbers of other programs.

The state is a constant, from the node's seed: every run gives the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.element_wise import cast
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import BOOL, Tensor, stored
from dmlgraph.graph.value import Value

MOST_APART = float(np.finfo(np.float32).max)  # bounds of a range
BITS = 24  # of a random number: as many as float32 holds


def _uniform(node: Node, count: int) -> Value:
    """Numbers of float32 from 0 on and below 1, {1, 1, 1, count}."""
    seed = node.attribute("seed")
    key = [node.dml.fingerprint, 0] if seed is None else [int(np.float32(seed).view(np.uint32)), 0]
    state = Tensor.of(np.array([0, 0, 0, 0, *key], np.uint32).reshape(1, 1, 1, -1))
    bits = node.dml.random_generator(state, sizes=[1, 1, 1, count], output_state=False)
    whole = node.dml.converted(node.dml.bit_shift_right(bits, 32 - BITS), "float32")
    made: Value = node.dml.multiply(whole, 2.0**-BITS)
    return made


def _form(node: Node) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the type of a result: of attributes, or those of the input.

    Raises:
        Refusal: the type is not one of floats.
    """
    like = node[0] if node.operator.endswith("Like") else None
    shape = tuple(node.ints("shape", default=[]) or []) if like is None else like.shape
    dtype = _type(node, np.dtype(np.float32) if like is None else like.dtype)
    if not Tensor(dtype, ()).is_float:
        raise Refusal("random numbers are floats", code="dtype", field="dtype", got=str(dtype))
    if min(shape, default=1) < 1:
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=[*shape])
    return shape, dtype


def _type(node: Node, default: np.dtype[Any]) -> np.dtype[Any]:
    """The type that the attribute `dtype` names, if it is given."""
    return node.converted(default if node.attribute("dtype") is None else node.dtype("dtype"))


@imports("RandomUniform", "RandomUniformLike", how="random_generator, bit_shift_right, cast, multiply, add, clip")
def _random_uniform(node: Node) -> Result:
    """From `low` on and below `high`, where rounding would reach it."""
    shape, dtype = _form(node)
    low, high = _finite(node, "low", 0.0), _finite(node, "high", 1.0)
    if not low <= high <= low + MOST_APART:
        raise Refusal(
            "must be at least low", code="range", field="high", got=high, allowed=f"{low} to {low + MOST_APART}"
        )
    made = node.dml.add(node.dml.multiply(_uniform(node, math.prod(shape)), high - low), low)
    narrow = np.dtype(np.float16 if dtype == np.float16 else np.float32)  # there is no clip of float64
    last = np.nextafter(np.asarray(high, narrow), np.asarray(low, narrow)).item()
    made = node.dml.clip(node.dml.converted(made, stored(narrow)), min=min(low, last), max=last)
    return node.tensor(node.dml.converted(made, stored(dtype)), shape)


@imports("RandomNormal", "RandomNormalLike", how="random_generator, cast, log, sqrt, cos, multiply, add")
def _random_normal(node: Node) -> Result:
    """By Box and Muller: √(−2 ln u) · cos 2πv."""
    shape, dtype = _form(node)
    dml, count = node.dml, math.prod(shape)
    mean, scale = _finite(node, "mean", 0.0), _finite(node, "scale", 1.0)
    u, v = dml.split(_uniform(node, 2 * count), axis=3, outputs=[count] * 2)
    distance = dml.sqrt(dml.multiply(dml.log(dml.add(dml.multiply(u, -1), 1)), -2))  # 1 − u: its logarithm is finite
    made = dml.multiply(distance, dml.cos(dml.multiply(v, 2 * math.pi)))
    made = dml.add(dml.multiply(made, scale), mean)
    return node.tensor(dml.converted(made, stored(dtype)), shape)


def _finite(node: Node, name: str, default: float) -> float:
    value = float(node.attribute(name, default))
    if not math.isfinite(value):
        raise Refusal("must be finite", code="range", field=name, got=value)
    return value


@imports("Bernoulli", since=15, how="random_generator, logical_less_than, cast")
def _bernoulli(node: Node) -> Result:
    """1 with the probability that the input gives; ONNX's definition by other operators has 0 and 1 exchanged."""
    x = node[0]
    drawn = node.dml.reshaped(_uniform(node, x.count), x.sizes)
    made = node.dml.logical_less_than(drawn, node.dml.converted(x, "float32"), dtype="uint8")
    return cast(node, Tensor(BOOL, x.shape, made=made), _type(node, x.dtype))


@imports("Multinomial", since=7, how="random_generator, exp, cumulative_summation, logical_less_than_or_equal, reduce")
def _multinomial(node: Node) -> Result:
    """Input {batch, classes}, logarithms of weights; the class in whose part of the weights' sum a number lies."""
    x, dml, samples = node[0], node.dml, node.attribute("sample_size", 1)
    if x.rank != 2 or samples < 1:
        raise Refusal("needs {batch, classes}, and a positive number of samples", code="rank", got=[*x.shape])
    batch, classes = x.shape
    wide = dml.converted(x, "float32")
    weights = dml.exp(dml.subtract(wide, dml.reduce(wide, function="max", axes=[1])))
    sums = node.tensor(dml.cumulative_summation(weights, axis=1))
    total = dml.reshaped(sliced(dml, sums, [slice(None), slice(classes - 1, None)]), (batch, 1, 1))
    places = dml.multiply(dml.reshaped(_uniform(node, batch * samples), (batch, samples, 1)), total)
    before = dml.logical_less_than_or_equal(dml.reshaped(sums, (batch, 1, classes)), places, dtype="uint8")
    counted = dml.reduce(dml.converted(before, "uint32"), function="sum", axes=[2])
    return node.tensor(dml.converted(counted, stored(_type(node, np.dtype(np.int32)))), (batch, samples))
